"""Shared, dynamic shared, local and constant memory; barriers and their reductions."""

from __future__ import annotations

import numpy as np
from numba import cuda, float32, float64, int32

from conformance.case import array, conformance, out

TABLE = np.array([1.5, 2.5, 3.5, 4.5], np.float32)
COUNTS = np.array([[1, 2], [300, 70000]], np.int32)
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
         "float64")  # fmt: skip


@conformance(1, 33, args=(array(range(33), "float32"), out("float32", 33)))
def reverse_in_shared_memory(a, result):
    tile = cuda.shared.array(33, float32)
    i = cuda.threadIdx.x
    tile[i] = a[i]
    cuda.syncthreads()
    result[i] = tile[cuda.blockDim.x - 1 - i]


@conformance((2, 2), (4, 4), args=(np.arange(64, dtype=np.float32).reshape(8, 8),
                                   out("float32", (8, 8))))  # fmt: skip
def transpose_through_a_padded_tile(a, result):
    tile = cuda.shared.array((4, 5), float32)
    x, y = cuda.grid(2)
    tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[y, x]
    cuda.syncthreads()
    row = cuda.blockIdx.x * 4 + cuda.threadIdx.y
    column = cuda.blockIdx.y * 4 + cuda.threadIdx.x
    result[row, column] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@conformance(2, 32, args=(array(range(64), "float64"), out("float64", 2)))
def tree_reduction(a, result):
    part = cuda.shared.array(32, float64)
    i = cuda.threadIdx.x
    part[i] = a[cuda.grid(1)]
    cuda.syncthreads()
    stride = 16
    while stride:
        if i < stride:
            part[i] += part[i + stride]
        cuda.syncthreads()
        stride >>= 1
    if i == 0:
        result[cuda.blockIdx.x] = part[0]


@conformance(1, 4, args=(array([1, 2, 3, 4], "int32"), out("int64", 4)))
def two_shared_arrays_on_one_line(a, result):
    x, y = cuda.shared.array(4, int32), cuda.shared.array(4, int32)
    i = cuda.threadIdx.x
    x[i], y[i] = a[i], a[i] * 10
    cuda.syncthreads()
    result[i] = x[3 - i] + y[(i + 1) % 4]


@conformance(1, 8, args=(array(range(8), "float32"), out("float64", 8)), shared_bytes=64)
def dynamic_shared_memory(a, result):
    floats = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    floats[i] = a[i]
    cuda.syncthreads()
    result[i] = floats[7 - i] * floats[7 - i]


@conformance(1, 8, args=(array(range(8), "float32"), out("float64", 8)), shared_bytes=64)
def dynamic_shared_memory_in_two_parts(a, result):
    whole = cuda.shared.array(0, float32)
    ints = cuda.shared.array(0, int32)[8:]
    i = cuda.threadIdx.x
    whole[i] = a[i]
    ints[i] = i * 3
    cuda.syncthreads()
    result[i] = whole[7 - i] + ints[7 - i]


@conformance(1, 4, each={t: (array([1, 2, 3, 100], t), out("float64", 4)) for t in TYPES})
def local_array(a, result):
    mine = cuda.local.array(4, int32)
    i = cuda.threadIdx.x
    for k in range(4):
        mine[k] = a[k] * (i + 1)
    total = 0
    for k in range(4):
        total += mine[3 - k] * (k + 1)
    result[i] = total


@conformance(1, 3, args=(out("float64", 3),))
def local_matrix(result):
    m = cuda.local.array((2, 3), float32)
    i = cuda.threadIdx.x
    for r in range(2):
        for c in range(3):
            m[r, c] = 0.1 * (r + 1) + c + i
    result[i] = m[0, 1] * m[1, 2]


@conformance(1, 4, args=(out("float64", 4), out("int64", 4)))
def constant_array(result, number):
    table = cuda.const.array_like(TABLE)
    counts = cuda.const.array_like(COUNTS)
    i = cuda.threadIdx.x
    result[i] = table[i] * table[3 - i]
    number[i] = counts[i // 2, i % 2] * counts[1, 1]


@conformance(1, 4, args=(out("float64", 4),))
def global_array_as_a_constant(result):
    i = cuda.threadIdx.x
    result[i] = TABLE[i] * 2


@conformance(
    1, 64,
    each={
        "none": (array([0] * 64, "int32"), out("int64", (3, 64))),
        "all": (array([1] * 64, "int32"), out("int64", (3, 64))),
        "some": (array(np.arange(64) % 3, "int32"), out("int64", (3, 64))),
    },
)  # fmt: skip
def barriers_that_reduce(a, result):
    i = cuda.threadIdx.x
    result[0, i] = cuda.syncthreads_count(a[i])
    result[1, i] = cuda.syncthreads_and(a[i])
    result[2, i] = cuda.syncthreads_or(a[i] & 2)


@conformance(1, 8, args=(array(range(8), "int32"), out("int64", 8)))
def barrier_of_a_comparison(a, result):
    i = cuda.threadIdx.x
    result[i] = cuda.syncthreads_and(a[i] > 0)


@conformance(1, 33, args=(array(range(33), "int32"), out("float64", 33)))
def barrier_count_in_arithmetic(a, result):
    i = cuda.threadIdx.x
    n = cuda.syncthreads_count(a[i] % 2)
    result[i] = n * np.float32(0.1) + (n >> 1) - 20


@conformance(1, 64, args=(array(range(64), "int32"), out("int64", 64)))
def early_return_before_a_barrier(a, result):
    tile = cuda.shared.array(64, int32)
    i = cuda.threadIdx.x
    tile[i] = a[i]
    if i >= 40:
        return
    cuda.syncthreads()
    result[i] = tile[39 - i]


@conformance(2, 32, args=(array(range(64), "float32"), out("float32", 64)))
def double_buffer(a, result):
    buffer = cuda.shared.array((2, 32), float32)
    i = cuda.threadIdx.x
    buffer[0, i] = a[cuda.grid(1)]
    cuda.syncthreads()
    now = 0
    for step in (1, 2, 4, 8, 16):
        value = buffer[now, i]
        if i >= step:
            value += buffer[now, i - step]
        buffer[1 - now, i] = value
        now = 1 - now
        cuda.syncthreads()
    result[cuda.grid(1)] = buffer[now, i]


@conformance(
    1, 16,
    args=(np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16), out("float32", (16, 16))),
    ulp=64, why="the compiler fuses product and sum; where terms cancel that shows in many ulps",
)  # fmt: skip
def matrix_product(a, result):
    row = cuda.threadIdx.x
    for column in range(16):
        total = np.float32(0)
        for k in range(16):
            total += a[row, k] * a[column, k]
        result[row, column] = total


@conformance(1, 1, each={t: (out(t, 3), out("float64", 3)) for t in TYPES})
def shared_element_types(same, as_float):
    a = cuda.shared.array(3, int32)
    a[0] = -1
    a[1] = 2
    a[2] = 200
    for i in range(3):
        same[i] = a[i]
        as_float[i] = same[i] - a[i]
