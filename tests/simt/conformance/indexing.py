"""Indices, shapes, slices and views of arrays of one to three axes, in both orders."""

from __future__ import annotations

import numpy as np
from numba import cuda, int64, uint8, uint32

from conformance.case import Out, array, conformance, out

SQUARE = np.arange(12, dtype=np.float32).reshape(3, 4)
CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)


@conformance((2, 2), (2, 2), args=(SQUARE, out("float32", (4, 3))))
def transpose(a, result):
    x, y = cuda.grid(2)
    if y < a.shape[0] and x < a.shape[1]:
        result[x, y] = a[y, x]


@conformance((2, 2, 1), (2, 2, 2), args=(CUBE, out("int64", (2, 3, 4))))
def three_axes(a, result):
    k, j, i = cuda.grid(3)
    if i < a.shape[0] and j < a.shape[1] and k < a.shape[2]:
        result[i, j, k] = a[i, j, k] * 10 + a[i][j][k]


@conformance(
    1, 1,
    each={
        "rows": (SQUARE, out("int64", 8)), "columns": (np.asfortranarray(SQUARE), out("int64", 8)),
        "cube": (CUBE, out("int64", 8)),
    },
)  # fmt: skip
def shape_and_size(a, result):
    result[0] = a.size
    result[1] = a.ndim
    result[2] = a.shape[0]
    result[3] = a.strides[0]
    result[4] = a.strides[1]
    result[5] = a.itemsize
    result[6] = a.nbytes
    result[7] = len(a)


@conformance(1, 12, args=(np.asfortranarray(SQUARE), Out(np.zeros((3, 4), order="F"))))
def column_major(a, result):
    i = cuda.threadIdx.x
    result[i // 4, i % 4] = a[i // 4, i % 4] * 2


@conformance(1, 1, args=(SQUARE, out("float64", 8)))
def slices(a, result):
    row = a[1]
    column = a[:, 2]
    part = a[1:, 1:3]
    result[0] = row[3]
    result[1] = column[2]
    result[2] = part[1, 1]
    result[3] = part.shape[0] * 10 + part.shape[1]
    result[4] = a[::2, ::-1][1, 0]
    result[5] = row[1:][0]
    result[6] = a[-2:][0, 0]
    result[7] = a[5:].shape[0]


@conformance(1, 1, args=(SQUARE, out("float64", 6)))
def other_views(a, result):
    result[0] = a.T[3, 0]
    result[1] = a.reshape(4, 3)[3, 0]
    result[2] = a.transpose()[1, 1]
    result[3] = a.reshape(12)[5]
    result[4] = a.flat[6]
    result[5] = a.T.shape[0]


@conformance(1, 1, args=(SQUARE, out("float32", (3, 4)), out("float32", (3, 4))))
def assign_to_slices(a, copied, filled):
    copied[:, 0] = 7
    copied[2] = a[2, 3]
    filled[:] = 2.5
    filled[1:, :2] = 1


@conformance(1, 1, args=(SQUARE, out("float32", (3, 4))))
def copy_of_a_slice(a, copied):
    copied[0] = a[2]


@conformance(1, 1, args=(SQUARE, out("float32", 1)))
def ravel(a, result):
    result[0] = a.ravel()[7]


@conformance(1, 8, args=(array(range(8), "float32"), out("float64", 8)))
def index_types(a, result):
    i = cuda.grid(1)
    result[i] = a[uint8(i)] + a[np.int32(i)] * 10 + a[int64(7 - i)] * 100 + a[uint32(i)]


@conformance(1, 8, args=(array([3, 1, 2, 0], "int8"), array([5, 6, 7, 8], "float32"),
                         out("float64", 4)))  # fmt: skip
def index_from_memory(index, a, result):
    i = cuda.grid(1)
    if i < index.size:
        result[i] = a[index[i]] + a[index[index[i]]]


@conformance(
    1, 32, each={str(n): (array(range(n), "float32"), out("float32", n)) for n in (1, 31, 32)}
)
def neighbours_in_one_block(a, result):
    i = cuda.grid(1)
    if i < a.size:
        left = a[i - 1] if i > 0 else np.float32(-1)
        right = a[i + 1] if i + 1 < a.size else np.float32(-1)
        result[i] = left + right


@conformance(
    2,
    32,
    each={str(n): (array(range(n), "int32"), out("int64", n)) for n in (1, 31, 32, 33, 63, 64)},
)
def tail_of_the_last_block(a, result):
    i = cuda.grid(1)
    if i < a.size:
        result[i] = a[i] * 2 + cuda.blockIdx.x


@conformance(1, 1, args=(SQUARE, out("float64", 4)))
def iteration(a, result):
    total = 0.0
    for row in a:
        for value in row:
            total += value
    result[0] = total
    last = 0
    for i, value in enumerate(a[2]):
        last = i
        result[1] += value * i
    result[2] = last
    for x, y in zip(a[0], a[1]):  # noqa: B905
        result[3] += x * y


@conformance((2, 3), (4, 2), args=(out("int64", (6, 8, 4)),))
def thread_and_block_numbers(result):
    x, y = cuda.grid(2)
    result[y, x, 0] = cuda.threadIdx.x + 10 * cuda.threadIdx.y
    result[y, x, 1] = cuda.blockIdx.x + 10 * cuda.blockIdx.y
    result[y, x, 2] = cuda.blockDim.x + 10 * cuda.blockDim.y + 100 * cuda.blockDim.z
    result[y, x, 3] = cuda.gridDim.x + 10 * cuda.gridDim.y + 100 * cuda.gridDim.z


@conformance((2, 1, 2), (2, 3, 2), args=(out("int64", (4, 3, 4)), out("int64", 3)))
def grid_and_size_in_three_axes(result, sizes):
    x, y, z = cuda.grid(3)
    gx, gy, gz = cuda.gridsize(3)
    result[z, y, x] = x + 10 * y + 100 * z
    if x == 0 and y == 0 and z == 0:
        sizes[0] = gx
        sizes[1] = gy
        sizes[2] = gz + cuda.gridsize(1) * 10
