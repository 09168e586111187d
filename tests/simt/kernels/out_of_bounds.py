"""Indices outside their array, on either end, in every space."""

import numpy as np
from numba import cuda, float32, int32

from kernels.case import BOUNDS, Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
outside = case(CASES, BOUNDS)
N, T = 32, 8


def line():
    return floats(N), unwritten(N)


def square():
    return floats(T, T), unwritten((T, T))


@outside(2, N, line, array="x")
@cuda.jit
def tail_unguarded(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # first


@outside(2, N, lambda: (floats(2 * N), unwritten(N)), array="out")
@cuda.jit
def output_too_short(x, out):
    i = cuda.grid(1)
    out[i] = x[i]  # first


@outside(1, N, line, array="x")
@cuda.jit
def left_of_the_first_element(x, out):
    t = cuda.threadIdx.x
    out[t] = x[t] - x[t - 1]  # first


@outside(1, N, line, array="x")
@cuda.jit
def right_of_the_last_element(x, out):
    t = cuda.threadIdx.x
    if t < x.size:
        out[t] = x[t + 1] - x[t]  # first


@outside(1, (T, T), square, array="x")
@cuda.jit
def past_the_end_of_a_row(x, out):
    col, row = cuda.grid(2)
    out[row, col] = x[row, col + 1]  # first


@outside(1, (T, T), square, array="x")
@cuda.jit
def above_the_first_row(x, out):
    col, row = cuda.grid(2)
    out[row, col] = x[row - 1, col]  # first


@outside((1, 2), (T, T), lambda: (floats(2 * T, T), unwritten((2 * T, T))), array="out")
@cuda.jit
def row_and_column_swapped(x, out):
    col, row = cuda.grid(2)
    out[col, row] = x[row, col]  # first


@outside(1, N, line, array="s")
@cuda.jit
def shared_right_of_the_last(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t + 1]  # first


@outside(1, N, line, array="s")
@cuda.jit
def shared_left_of_the_first(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t - 1]  # first


@outside(1, (T, T), square, array="tile")
@cuda.jit
def shared_2d_past_the_row(x, out):
    tile = cuda.shared.array((T, T), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, col + 1] = x[row, col]  # first
    cuda.syncthreads()
    out[row, col] = tile[row, col]


@outside(1, N, line, array="(dynamic|right)", dynamic_bytes=4 * N)
@cuda.jit
def dynamic_memory_too_small(x, out):
    dynamic = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    dynamic[t] = x[t]
    dynamic[N + t] = x[t]  # first
    cuda.syncthreads()
    out[t] = dynamic[t]


@outside(1, N, line, array="mine")
@cuda.jit
def local_one_too_far(x, out):
    mine = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for k in range(5):
        mine[k] = x[t]  # first
    out[t] = mine[0]


@outside(1, N, lambda: (ints(N, 9), zeros(8, np.int32)), array="bins")
@cuda.jit
def atomic_on_a_bin_too_many(x, bins):
    cuda.atomic.add(bins, x[cuda.threadIdx.x], 1)  # first


@outside(1, N, lambda: (ints(N, 9), unwritten(8, np.int32)), array="bins")
@cuda.jit
def shared_atomic_on_a_bin_too_many(x, out):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(bins, x[t], 1)  # first
    cuda.syncthreads()
    if t < 8:
        out[t] = bins[t]


@outside(1, N, lambda: (floats(N), ints(N, 2 * N), unwritten(N)), array="x")
@cuda.jit
def gather_through_a_bad_index(x, index, out):
    t = cuda.threadIdx.x
    out[t] = x[index[t]]  # first


@cuda.jit(device=True)
def difference(x, i):
    return x[i] - x[i - 1]  # first


@outside(1, N, line, array="x", functions=(difference,))
@cuda.jit
def bounds_in_a_device_function(x, out):
    t = cuda.threadIdx.x
    out[t] = difference(x, t)  # second


@outside(1, (4, 4, 4), lambda: (floats(4, 4, 4), unwritten((4, 4, 4))), array="x")
@cuda.jit
def cube_past_its_depth(x, out):
    i, j, k = cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x
    out[i, j, k] = x[i + 1, j, k]  # first


@outside(1, N, lambda: (floats(T, T), unwritten(N)), array=r"(x\[\d+\]|row|x)")
@cuda.jit
def view_of_a_row_too_short(x, out):
    t = cuda.threadIdx.x
    row = x[t % T]
    out[t] = row[t]  # first
