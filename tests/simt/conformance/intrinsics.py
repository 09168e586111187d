"""Scalar device functions: bits, selection, fused multiply-add, cache hints, vector types."""

from __future__ import annotations

import numpy as np
from numba import cuda, uint64

from conformance.case import array, conformance, out
from conformance.integers import NUMBERS, VALUES

INF, NAN = float("inf"), float("nan")


@conformance(
    1, 8, each={t: (array([*VALUES[t][:4], 8, 96], t), *(out("int64", 6) for _ in "12"))
                for t in NUMBERS}
)  # fmt: skip
def bit_counts_of_a_load(a, ones, zeros):
    i = cuda.grid(1)
    if i < a.size:
        ones[i] = cuda.popc(a[i])
        zeros[i] = cuda.clz(a[i])


@conformance(
    1, 8, each={t: (array([*VALUES[t][:4], 8, 96], t), out("int64", 6), out("float64", 6))
                for t in NUMBERS}
)  # fmt: skip
def first_bit_of_a_load(a, first, as_float):
    i = cuda.grid(1)
    if i < a.size:
        first[i] = cuda.ffs(a[i])
        as_float[i] = cuda.ffs(a[i]) - 1


@conformance(
    1, 8, each={t: (array([1, 11, 2**31], t), out("uint64", 3)) for t in ("uint32", "uint64")}
)
def reversed_bits(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = cuda.brev(a[i])


@conformance(1, 8, args=(array([1, 3, 200], "int32"), out("int64", 3)))
def reversed_bits_of_a_signed(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = cuda.brev(np.uint32(a[i]))


@conformance(1, 8, args=(out("int64", 8),))
def bit_counts_of_an_index(result):
    i = cuda.threadIdx.x
    result[i] = cuda.popc(i) + 100 * cuda.clz(i) + 10000 * cuda.ffs(i)


@conformance(1, 8, args=(out("int64", 8), out("int64", 8)))
def bit_counts_of_a_sum(wide, narrow):
    i = cuda.grid(1) + 1
    wide[i - 1] = cuda.clz(i) + 1000 * cuda.popc(-i)
    narrow[i - 1] = cuda.clz(np.int32(i)) + 1000 * cuda.popc(np.int32(-i))


@conformance(1, 1, args=(out("int64", 8),))
def bit_counts_of_literals(result):
    result[0] = cuda.popc(0xFF)
    result[1] = cuda.clz(1)
    result[2] = cuda.ffs(8)
    result[3] = cuda.brev(np.uint32(1))
    result[4] = cuda.popc(uint64(0xFFFFFFFFFFFFFFFF))
    result[5] = cuda.clz(np.uint8(1))
    result[6] = cuda.popc(np.int16(-1))
    result[7] = cuda.ffs(0)


@conformance(1, 4, args=(array([0, 1, -1, 5], "int32"), array([0.1, 0.2, 0.3, 0.4], "float32"),
                         out("float64", 4), out("int64", 4)))  # fmt: skip
def select(n, a, chosen, number):
    i = cuda.grid(1)
    chosen[i] = cuda.selp(n[i] > 0, a[i], a[3 - i]) * a[i]
    number[i] = cuda.selp(n[i] == 5, n[i], n[0])


FMA = [1.0 + 2.0**-12, 2.0**-24, 1e30, -0.0, NAN, INF, 0.1]
ADDENDS = [-1.0, 2.0**-60, 0.0, 1, 2, 3, -0.01]


@conformance(
    1, 8, each={t: (array(FMA, t), array(FMA[::-1], t), array(ADDENDS, t),
                    out("float64", 7)) for t in ("float32", "float64")}
)  # fmt: skip
def fused_multiply_add(a, b, c, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = cuda.fma(a[i], b[i], c[i])


@conformance(
    1, 8, args=(array(FMA, "float32"), array(FMA, "float64"), out("float64", 7), out("float64", 7))
)
def fused_multiply_add_of_mixed_types(a, b, result, narrow):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = cuda.fma(a[i], a[0], b[6])
        narrow[i] = cuda.fma(a[i], a[i], np.float32(1)) * a[6]


@conformance(
    1, 8, each={t: (array([8.0, -2.0, 0.0, -0.0, INF, NAN, 0.1, 1e-40], t), out("float64", 8))
                for t in ("float32", "float64")},
    ulp=1, why="cbrt of the device's library is not rounded correctly",
)  # fmt: skip
def cube_root(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = cuda.cbrt(a[i])


@conformance(1, 4, args=(array([1, 2, 3, 4], "float32"), out("float32", 4), out("float32", 4)))
def cache_hints(a, first, second):
    i = cuda.grid(1)
    cuda.stcg(first, i, cuda.ldca(a, i) + cuda.ldcg(a, i))
    cuda.stcs(second, i, cuda.ldcs(a, i) + cuda.ldlu(a, i) + cuda.ldcv(a, i))
    cuda.stwb(first, i, cuda.ldca(a, i) * a[1])
    cuda.stwt(second, i, cuda.ldca(a, i) * a[2])


@conformance(1, 1, args=(out("float64", 8),))
def vector_types(result):
    v = cuda.float32x4(0.1, 2, 3, 4)
    w = cuda.int32x2(7, -1)
    u = cuda.float64x2(0.1, 0.2)
    n = cuda.uint32x3(1, 2, 4294967295)
    b = cuda.uchar4(1, 2, 3, 255)
    result[0] = v.x * v.x
    result[1] = v.y + v.z + v.w
    result[2] = w.x + w.y
    result[3] = u.x * u.y
    result[4] = n.z + n.x
    result[5] = b.w + b.x
    joined = cuda.float32x4(cuda.float32x2(5, 6), v.x, v.y)
    result[6] = joined.x * 100 + joined.w
    result[7] = cuda.int2(3, 4).y


@conformance(1, 1, args=(out("int64", 4),))
def fences_and_sleep(result):
    result[0] = 1
    cuda.threadfence_block()
    result[1] = 2
    cuda.threadfence()
    result[2] = 3
    cuda.threadfence_system()
    cuda.nanosleep(np.uint32(10))
    result[3] = 4


@conformance(2, 33, args=(out("int64", (2, 33)), out("int64", (2, 33))))
def lane_and_warp_size(lanes, below):
    t = cuda.threadIdx.x
    lanes[cuda.blockIdx.x, t] = cuda.laneid + 100 * cuda.warpsize
    below[cuda.blockIdx.x, t] = cuda.lanemask_lt()
