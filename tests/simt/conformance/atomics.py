"""Every atomic on every type: the value left, and the old value where it has one meaning."""

from __future__ import annotations

import numpy as np
from numba import cuda

from conformance.case import array, conformance, inout, out

NAN = float("nan")
WIDE = ("int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")
ALL = ("int8", "int16", "uint8", "uint16", "float16", *WIDE, *FLOATS)


def start(dtype):
    return [2, 100, 7] if dtype[0] == "u" else [-2, 100, 7]


def each(types, *more):
    return {t: (inout(start(t), t), array([3, 1, 200 if "8" not in t else 100], t),
                out("float64", 3), *more) for t in types}  # fmt: skip


@conformance(1, 3, each=each(ALL))
def add(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.add(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def subtract(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.sub(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def maximum(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.max(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def minimum(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.min(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def exchange(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.exch(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, "float32")))
def bitwise_and(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.and_(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, "float32")))
def bitwise_or(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.or_(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, "float32")))
def bitwise_xor(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.xor(a, i, b[i])


@conformance(1, 3, each=each(WIDE))
def increment(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.inc(a, i, b[i])


@conformance(1, 3, each=each(WIDE))
def decrement(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.dec(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def nan_maximum(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.nanmax(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def nan_minimum(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.nanmin(a, i, b[i])


@conformance(1, 3, each=each((*WIDE, *FLOATS)))
def compare_and_swap(a, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.cas(a, i, 100, b[i])


@conformance(1, 1, each=each(WIDE))
def compare_and_swap_of_the_first(a, b, old):
    old[0] = cuda.atomic.compare_and_swap(a, 7, b[0])
    old[1] = cuda.atomic.compare_and_swap(a, a[0], b[1])
    old[2] = a[0]


SPECIALS = [NAN, 1.0, NAN, -0.0, 0.0]
OPERANDS = [1.0, NAN, NAN, 0.0, -0.0]


@conformance(
    1, 5,
    each={t: (*(inout(SPECIALS, t) for _ in range(4)), array(OPERANDS, t), out("float64", 5))
          for t in FLOATS},
)  # fmt: skip
def float_extremes_with_nan(largest, smallest, nan_largest, nan_smallest, b, old):
    i = cuda.threadIdx.x
    old[i] = cuda.atomic.max(largest, i, b[i])
    cuda.atomic.min(smallest, i, b[i])
    cuda.atomic.nanmax(nan_largest, i, b[i])
    cuda.atomic.nanmin(nan_smallest, i, b[i])


@conformance(
    2, 33, each={t: (array(np.arange(66) % 5, "int32"), out(t, 5)) for t in (*WIDE, *FLOATS)}
)
def histogram(x, bins):
    i = cuda.grid(1)
    cuda.atomic.add(bins, x[i], 1)


@conformance(1, 4, args=(inout([2**31 - 1, -(2**31), 0, 5], "int32"), inout([2**32 - 1, 0, 1, 5],
                         "uint32"), inout([2**63 - 1, -(2**63), 0, 5], "int64"),
                         inout([2**64 - 1, 0, 1, 5], "uint64")))  # fmt: skip
def wrap_around(a, b, c, d):
    i = cuda.threadIdx.x
    cuda.atomic.add(a, i, 1)
    cuda.atomic.sub(a, 1, 1 if i == 0 else 0)
    cuda.atomic.add(b, i, 3)
    cuda.atomic.add(c, i, 1)
    cuda.atomic.sub(d, i, 2)


@conformance(
    1,
    3,
    each={t: (inout([1, 2, 3], t), array([1.9, -2.9, 300.7], "float32")) for t in (*WIDE, *FLOATS)},
)
def operand_of_another_type(a, b):
    i = cuda.threadIdx.x
    cuda.atomic.add(a, i, b[i])


@conformance(1, 8, each={t: (out(t, (2, 2)), out("float64", 8)) for t in ("int32", "float32")})
def two_axes(a, old):
    i = cuda.threadIdx.x
    if i < 4:
        old[i] = cuda.atomic.add(a, (i // 2, i % 2), i)
    if i == 4:
        cuda.atomic.max(a, (0, 0), 9)
        cuda.atomic.exch(a, (1, 0), 11)


@conformance(
    1, 32, each={t: (array(range(32), t), out(t)) for t in ("int32", "float32", "float64")}
)
def sum_in_shared_memory(a, result):
    total = cuda.shared.array(1, np.int64)
    best = cuda.shared.array(1, np.int32)
    i = cuda.threadIdx.x
    if i == 0:
        total[0] = 0
        best[0] = -1
    cuda.syncthreads()
    cuda.atomic.add(total, 0, int(a[i]))
    cuda.atomic.max(best, 0, int(a[i]) % 17)
    cuda.syncthreads()
    if i == 0:
        result[0] = total[0] * 100 + best[0]


@conformance(1, 1, args=(inout([5], "int32"), inout([5], "float32"), out("float64", 4)))
def old_value_in_arithmetic(a, b, result):
    result[0] = cuda.atomic.add(a, 0, 1) * np.float32(0.1)
    result[1] = cuda.atomic.add(b, 0, 1) * np.float32(0.1)
    result[2] = cuda.atomic.sub(a, 0, 2) - 10
    result[3] = cuda.atomic.add(b, 0, 0.1) * 2


@conformance(1, 32, args=(out("int32"), out("int32")))
def spin_lock(lock, count):
    for turn in range(32):
        if cuda.threadIdx.x == turn:
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                pass
            cuda.threadfence()
            count[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)
        cuda.syncthreads()
