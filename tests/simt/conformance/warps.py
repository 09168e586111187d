"""Shuffles, votes, match, masks, ``syncwarp``."""

from __future__ import annotations

import numpy as np
from numba import cuda

from conformance.case import array, conformance, inout, out

FULL = 0xFFFFFFFF
LANES = np.arange(32)
FLOATS = (LANES * 0.1).astype(np.float32)


def values(dtype):
    base = LANES * 3 - 7
    return array(base * 0.1 if dtype.startswith("float") else base, dtype)


TYPES = ("int32", "int64", "float32", "float64")
REFUSED = ("int8", "uint8", "uint32", "uint64", "bool", "float16")


@conformance(1, 32, each={t: (values(t), *(out("float64", 32) for _ in "1234")) for t in TYPES})
def shuffles(a, up, down, across, indexed):
    i = cuda.threadIdx.x
    up[i] = cuda.shfl_up_sync(0xFFFFFFFF, a[i], 3)
    down[i] = cuda.shfl_down_sync(0xFFFFFFFF, a[i], 5)
    across[i] = cuda.shfl_xor_sync(0xFFFFFFFF, a[i], 9)
    indexed[i] = cuda.shfl_sync(0xFFFFFFFF, a[i], (i * 7) % 32)


@conformance(1, 32, each={t: (array(LANES, t), out("float64", 32)) for t in REFUSED})
def shuffle_of_other_types(a, up):
    i = cuda.threadIdx.x
    up[i] = cuda.shfl_up_sync(0xFFFFFFFF, a[i], 3)


@conformance(1, 32, args=(FLOATS, *(out("float64", 32) for _ in "1234")))
def shuffles_from_far_lanes(a, up, down, across, indexed):
    i = cuda.threadIdx.x
    up[i] = cuda.shfl_up_sync(FULL, a[i], 31)
    down[i] = cuda.shfl_down_sync(FULL, a[i], 31)
    across[i] = cuda.shfl_xor_sync(FULL, a[i], 31)
    indexed[i] = cuda.shfl_sync(FULL, a[i], i + 40)


@conformance(1, 32, args=(FLOATS, out("float64", 32), out("float64", 32)))
def shuffled_value_in_arithmetic(a, product, scaled):
    i = cuda.threadIdx.x
    other = cuda.shfl_down_sync(FULL, a[i], 1)
    product[i] = other * a[i]
    scaled[i] = other * 3


@conformance(2, 32, args=(np.concatenate([FLOATS, -FLOATS]), out("float32", 2)))
def warp_sum(a, result):
    value = a[cuda.grid(1)]
    offset = 16
    while offset:
        value += cuda.shfl_down_sync(FULL, value, offset)
        offset //= 2
    if cuda.laneid == 0:
        result[cuda.blockIdx.x] = value


@conformance(1, 64, args=(array(range(64), "int32"), out("int64", 64)))
def warp_scan(a, result):
    i = cuda.threadIdx.x
    lane = i % 32
    total = a[i]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(FULL, total, step)
        if lane >= step:
            total += below
        step *= 2
    result[i] = total


@conformance(1, 32, args=(FLOATS, out("float32", 32)))
def shuffle_in_half_a_warp(a, result):
    i = cuda.threadIdx.x
    if i < 16:
        result[i] = cuda.shfl_xor_sync(0x0000FFFF, a[i], 5)
    else:
        result[i] = cuda.shfl_xor_sync(0xFFFF0000, a[i], 3)


@conformance(
    1, 32,
    each={
        "all": (array([1] * 32, "int32"), out("int64", (5, 32))),
        "none": (array([0] * 32, "int32"), out("int64", (5, 32))),
        "some": (array(LANES % 3, "int32"), out("int64", (5, 32))),
        "last": (array(LANES == 31, "int32"), out("int64", (5, 32))),
    },
)  # fmt: skip
def votes(a, result):
    i = cuda.threadIdx.x
    mask = 0xFFFFFFFF
    result[0, i] = cuda.all_sync(mask, a[i])
    result[1, i] = cuda.any_sync(mask, a[i] == 2)
    result[2, i] = cuda.eq_sync(mask, a[i] > 0)
    result[3, i] = cuda.ballot_sync(mask, a[i] > 0)
    result[4, i] = 1 if cuda.any_sync(mask, a[i] > 1) else 0


@conformance(
    1, 32, each={t: (array(LANES % 5 != 0, "int32"), out(t, 32), out(t, 32), out(t, 32))
                 for t in ("int32", "uint32", "int64", "uint64", "float64")}
)  # fmt: skip
def ballot_by_type_of_store(a, ballot, match, active):
    i = cuda.threadIdx.x
    ballot[i] = cuda.ballot_sync(FULL, a[i] == 1)
    match[i] = cuda.match_any_sync(FULL, a[i])
    active[i] = cuda.activemask()


@conformance(1, 32, args=(array(LANES % 2, "int32"), out("int64", 32), out("float64", 32),
                          out("int64", 32)))  # fmt: skip
def ballot_in_arithmetic(a, ranks, as_float, shifted):
    i = cuda.threadIdx.x
    ballot = cuda.ballot_sync(FULL, a[i] == 1)
    ranks[i] = cuda.popc(ballot & cuda.lanemask_lt())
    as_float[i] = ballot
    shifted[i] = (ballot >> 1) + cuda.ffs(ballot) + cuda.popc(ballot) * 100


@conformance(1, 32, args=(array(LANES % 2, "int32"), out("int64", 32), out("int64", 32)))
def lane_masks(a, below, active):
    i = cuda.threadIdx.x
    below[i] = cuda.lanemask_lt() * 2 + cuda.popc(cuda.lanemask_lt())
    if i < 20:
        active[i] = cuda.activemask() + 1


@conformance(
    1, 32, each={t: (array(LANES % 4, t), out("int64", 32), out("int64", 32), out("int64", 32))
                 for t in ("int32", "int64", "uint32", "uint64", "float32", "float64")}
)  # fmt: skip
def match(a, same, every, flag):
    i = cuda.threadIdx.x
    same[i] = cuda.match_any_sync(FULL, a[i])
    mask, equal = cuda.match_all_sync(FULL, a[i])
    every[i] = mask
    flag[i] = equal


@conformance(1, 32, args=(array([-0.0, 0.0, float("nan"), float("nan")] * 8, "float32"),
                          out("int64", 32), out("int64", 32), out("int64", 32)))  # fmt: skip
def match_compares_bits(a, same, every, flag):
    i = cuda.threadIdx.x
    same[i] = cuda.match_any_sync(FULL, a[i])
    mask, equal = cuda.match_all_sync(FULL, a[i] * np.float32(0) == 0 or True)
    every[i] = mask
    flag[i] = equal


@conformance(
    1,
    32,
    each={
        "int32": (out("int32", 32),),
        "uint32": (out("uint32", 32),),
        "int64": (out("int64", 32),),
    },
)
def full_mask_stored(result):
    result[cuda.threadIdx.x] = cuda.ballot_sync(FULL, True)


@conformance(1, 33, args=(array(range(33), "int32"), out("int64", 33)))
def vote_in_a_warp_of_one(a, result):
    i = cuda.threadIdx.x
    if i == 32:
        result[i] = cuda.ballot_sync(1, a[i] == 32) + 10 * cuda.any_sync(1, a[i] == 0)
    else:
        result[i] = cuda.ballot_sync(FULL, a[i] < 31)


@conformance(1, 64, args=(inout(np.arange(64), "int32"),))
def syncwarp_orders_lanes(a):
    shared = cuda.shared.array(64, "int32")
    i = cuda.threadIdx.x
    shared[i] = a[i]
    cuda.syncwarp()
    other = shared[i ^ 1]
    cuda.syncwarp(0xFFFFFFFF)
    shared[i] = other * 2
    cuda.syncwarp()
    a[i] = shared[i ^ 3]


@conformance(1, 32, args=(array(LANES, "int32"), out("int64", 32)))
def votes_after_lanes_have_left(a, result):
    i = cuda.threadIdx.x
    if i >= 24:
        return
    result[i] = cuda.ballot_sync(0x00FFFFFF, a[i] % 2 == 0)


@conformance(1, 32, args=(array(LANES % 2 == 0, "bool"), out("int64", 32), out("int64", 32)))
def votes_on_booleans(a, result, count):
    i = cuda.threadIdx.x
    result[i] = cuda.ballot_sync(FULL, a[i])
    count[i] = cuda.all_sync(FULL, a[i]) + cuda.any_sync(FULL, a[i]) + cuda.any_sync(FULL, a[i])
