"""Correct kernels that work by warps: syncwarp, shuffles, votes, and warps that wait in turn."""

import numpy as np
from numba import cuda, float32, int32

from kernels.case import FULL, Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
correct = case(CASES)
N, WARPS = 64, 2


def total(x, *_):
    return x.sum(dtype=np.float64)


@cuda.jit(device=True)
def warp_sum(value):
    for delta in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(FULL, value, delta)
    return value


@correct(1, 32, lambda: (floats(32), unwritten(1)), total)
@cuda.jit
def reduction_with_syncwarp(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    stride = 16
    while stride > 0:
        value = s[t + stride] if t < stride else float32(0)
        cuda.syncwarp()
        s[t] += value
        cuda.syncwarp()
        stride //= 2
    if t == 0:
        out[0] = s[0]


@correct(2, N, lambda: (floats(100), zeros(1)), total)
@cuda.jit
def last_warp_reduces_with_syncwarp(x, out):
    s = cuda.shared.array(N, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    if t < 32:
        s[t] += s[t + 32]
        cuda.syncwarp()
        stride = 16
        while stride > 0:
            if t < stride:
                s[t] += s[t + stride]
            cuda.syncwarp()
            stride //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@correct(3, N, lambda: (floats(150), zeros(1)), total)
@cuda.jit
def reduction_by_shuffles(x, out):
    partial = cuda.shared.array(WARPS, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    value = warp_sum(x[i] if i < x.size else float32(0))
    if cuda.laneid == 0:
        partial[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = warp_sum(partial[t] if t < WARPS else float32(0))
        if t == 0:
            cuda.atomic.add(out, 0, value)


@correct(
    2, N, lambda: (floats(128), unwritten(128)), lambda x, out: x.reshape(4, 32)[:, ::-1].ravel()
)
@cuda.jit
def exchange_within_each_warp(x, out):
    s = cuda.shared.array((WARPS, 32), float32)
    warp, lane, i = cuda.threadIdx.x // 32, cuda.laneid, cuda.grid(1)
    s[warp, lane] = x[i]
    cuda.syncwarp()
    out[i] = s[warp, 31 - lane]


@correct(
    1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: x.reshape(2, 16)[:, ::-1].ravel()
)
@cuda.jit
def each_half_syncs_by_its_own_mask(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
    else:
        cuda.syncwarp(0xFFFF0000)
    out[t] = s[t ^ 15]


@correct(1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: np.append(x[:16][::-1], x[16:]))
@cuda.jit
def only_half_of_the_lanes_exchange(x, out):
    s = cuda.shared.array(16, float32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = x[t]
        cuda.syncwarp(0x0000FFFF)
        out[t] = s[15 - t]
    else:
        out[t] = x[t]


@correct(
    1,
    N,
    lambda: (ints(N, 9) - 4, unwritten(N, np.int32), zeros(N, np.int32)),
    lambda x, spare, out: np.append(x[x > 0], np.zeros((x <= 0).sum())),
)
@cuda.jit
def compaction_by_ballot(x, spare, out):
    counts = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    keep = x[t] > 0
    votes = cuda.ballot_sync(FULL, keep)
    before = cuda.popc(votes & ((1 << lane) - 1))
    if lane == 0:
        counts[warp] = cuda.popc(votes)
    cuda.syncthreads()
    if keep:
        out[before + (counts[0] if warp == 1 else 0)] = x[t]


@correct(1, N, lambda: (ints(N), unwritten(N, np.int32)), lambda x, out: np.cumsum(x))
@cuda.jit
def scan_by_shuffles(x, out):
    sums = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    value = x[t]
    delta = 1
    while delta < 32:
        below = cuda.shfl_up_sync(FULL, value, delta)
        if lane >= delta:
            value += below
        delta *= 2
    if lane == 31:
        sums[warp] = value
    cuda.syncthreads()
    if warp == 1:
        value += sums[0]
    out[t] = value


@correct(1, 20, lambda: (floats(20), unwritten(20)), lambda x, out: x + (x > 0).sum())
@cuda.jit
def vote_in_a_warp_that_is_not_full(x, out):
    t = cuda.threadIdx.x
    out[t] = x[t] + cuda.popc(cuda.ballot_sync(FULL, x[t] > 0))


@correct(1, 32, lambda: (floats(20), unwritten(20)), lambda x, out: x + (x > 0).sum())
@cuda.jit
def vote_after_some_lanes_returned(x, out):
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    out[t] = x[t] + cuda.popc(cuda.ballot_sync(FULL, x[t] > 0))


@correct(
    1, 32, lambda: (ints(32, 4), zeros(4, np.int32)), lambda x, out: np.bincount(x, minlength=4)
)
@cuda.jit
def histogram_by_match(x, out):
    t = cuda.threadIdx.x
    same = cuda.match_any_sync(FULL, x[t])
    if cuda.ffs(same) == t + 1:
        out[x[t]] += cuda.popc(same)


@correct(1, 32, lambda: (ints(32, 9) - 4, zeros(1, np.int32)), lambda x, out: (x > 0).sum())
@cuda.jit
def aggregated_atomic(x, out):
    t = cuda.threadIdx.x
    if x[t] > 0:
        active = cuda.activemask()
        if cuda.popc(active & ((1 << t) - 1)) == 0:
            cuda.atomic.add(out, 0, cuda.popc(active))


@correct(5, 32, lambda: (floats(5, 70), floats(70), unwritten(5)), lambda a, x, out: a @ x)
@cuda.jit
def matvec_a_warp_a_row(a, x, out):
    row = a[cuda.blockIdx.x]
    total = float32(0)
    for j in range(cuda.laneid, x.size, 32):
        total += row[j] * x[j]
    total = warp_sum(total)
    if cuda.laneid == 0:
        out[cuda.blockIdx.x] = total


@correct(
    1,
    32,
    lambda: (floats(32), np.sort(ints(32, 5)), zeros(5)),
    lambda x, segment, out: np.bincount(segment, x, minlength=5),
)
@cuda.jit
def segmented_reduction(x, segment, out):
    t = cuda.threadIdx.x
    value, mine = x[t], segment[t]
    delta = 1
    while delta < 32:
        below = cuda.shfl_up_sync(FULL, value, delta)
        other = cuda.shfl_up_sync(FULL, mine, delta)
        if t >= delta and other == mine:
            value += below
        delta *= 2
    following = cuda.shfl_down_sync(FULL, mine, 1)
    if t == 31 or following != mine:
        out[mine] = value


@correct(
    1,
    N,
    lambda: (floats(N), zeros(1, np.int32), unwritten(32)),
    lambda x, flag, out: 2 * x[:32][::-1],
)
@cuda.jit
def producer_warp_signals_consumer_warp(x, flag, out):
    s = cuda.shared.array(32, float32)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if warp == 1:
        s[lane] = 2 * x[lane]
        cuda.threadfence_block()
        cuda.syncwarp()
        if lane == 0:
            cuda.threadfence_block()
            cuda.atomic.exch(flag, 0, 1)
    else:
        if lane == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                cuda.nanosleep(20)
            cuda.threadfence_block()
        cuda.syncwarp()
        out[lane] = s[31 - lane]


@correct(
    1,
    N,
    lambda: (floats(32), zeros(1, np.int32), unwritten(32), unwritten(32)),
    lambda x, flag, y, out: 2 * x[::-1],
)
@cuda.jit
def every_lane_waits_for_all_of_the_other_warp(x, flag, y, out):
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    if warp == 1:
        y[lane] = 2 * x[lane]
        cuda.threadfence()
        cuda.atomic.add(flag, 0, 1)
    else:
        while cuda.atomic.add(flag, 0, 0) < 32:
            pass
        cuda.threadfence()
        out[lane] = y[31 - lane]


@correct(
    1,
    N,
    lambda: (floats(4, 32), zeros(2, np.int32), unwritten((4, 32))),
    lambda x, turn, out: x[:, ::-1],
)
@cuda.jit
def two_warps_take_turns(x, turn, out):
    s = cuda.shared.array(32, float32)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    for k in range(4):
        if lane == 0:
            while cuda.atomic.add(turn, 0, 0) != 2 * k + warp:
                cuda.nanosleep(20)
            cuda.threadfence_block()
        cuda.syncwarp()
        if warp == 0:
            s[lane] = x[k, lane]
        else:
            out[k, lane] = s[31 - lane]
        cuda.syncwarp()
        if lane == 0:
            cuda.threadfence_block()
            cuda.atomic.add(turn, 0, 1)


@correct(1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: np.repeat(x[::8], 8))
@cuda.jit
def order_passed_on_from_mask_to_mask(x, out):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    if t % 8 == 0:
        s[t // 8] = x[t]
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
    else:
        cuda.syncwarp(0xFFFF0000)
    if t // 8 == 1 or t // 8 == 2:
        cuda.syncwarp(0x00FFFF00)
    out[t] = s[t // 8]
    if t == 8:
        out[t] = s[1] + 0 * s[2] + 0 * s[3]


@correct(
    1, 40, lambda: (floats(40), unwritten(40)), lambda x, out: np.append(x[:32][::-1], x[32:][::-1])
)
@cuda.jit
def syncwarp_in_a_warp_that_is_not_full(x, out):
    s = cuda.shared.array(40, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    out[t] = s[31 - t] if t < 32 else s[71 - t]
