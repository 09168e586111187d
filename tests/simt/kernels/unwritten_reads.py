"""Reads of shared, local and output memory that nobody has written."""

import numpy as np
from numba import cuda, float32, int32

from kernels.case import UNWRITTEN, Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
reads_unwritten = case(CASES, UNWRITTEN)
N, T = 32, 8
LINE_AND_HALO, HALO = N + 2, T + 2


def line():
    return floats(N), unwritten(N)


def poisoned():
    from kernelbook import lab

    return floats(N), lab.empty(N)


@reads_unwritten(
    1, N, line, lambda x, out: x + np.append(0, x[:-1]) + np.append(x[1:], 0), array="s"
)
@cuda.jit
def halo_never_loaded(x, out):
    s = cuda.shared.array(LINE_AND_HALO, float32)
    t = cuda.threadIdx.x
    s[t + 1] = x[t]
    cuda.syncthreads()
    out[t] = s[t] + s[t + 1] + s[t + 2]  # first


@reads_unwritten(
    1, (T, T), lambda: (floats(T, T), unwritten((T, T))), lambda x, out: x, array="tile"
)
@cuda.jit
def halo_2d_corner_never_loaded(x, out):
    tile = cuda.shared.array((HALO, HALO), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row + 1, col + 1] = x[row, col]
    if row == 0:
        tile[0, col + 1] = 0
        tile[T + 1, col + 1] = 0
    if col == 0:
        tile[row + 1, 0] = 0
        tile[row + 1, T + 1] = 0
    cuda.syncthreads()
    corner = tile[row, col]  # first
    out[row, col] = tile[row + 1, col + 1] + 0 * corner


@reads_unwritten(1, N, lambda: (floats(N - 5), unwritten(1)), lambda x, out: x.sum(), array="s")
@cuda.jit
def tail_of_the_tile_never_loaded(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t < x.size:
        s[t] = x[t]
    cuda.syncthreads()
    stride = N // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]  # first
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        out[0] = s[0]


@reads_unwritten(1, N, lambda: (floats(N - 5), unwritten(1)), lambda x, out: x.sum(), array="s")
@cuda.jit
def returned_before_filling_its_cell(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    s[t] = x[t]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(N):
            total += s[k]  # first
        out[0] = total


@reads_unwritten(
    (2, 2),
    (T, T),
    lambda: (floats(T + 3, T + 1), floats(T + 1, T + 3), unwritten((T + 3, T + 3))),
    lambda a, b, c: a @ b,
    array="tile_[ab]",
)
@cuda.jit
def matmul_tile_tail_never_loaded(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < a.shape[0] and x < a.shape[1]:
        tile_a[y, x] = a[row, x]
    if y < b.shape[0] and col < b.shape[1]:
        tile_b[y, x] = b[y, col]
    cuda.syncthreads()
    total = float32(0)
    for k in range(T):
        total += tile_a[y, k] * tile_b[k, x]  # first
    if row < c.shape[0] and col < c.shape[1]:
        total += a[row, T] * b[T, col]
        c[row, col] = total


@reads_unwritten(
    1,
    N,
    lambda: (ints(N, 8), unwritten(8, np.int32)),
    lambda x, out: np.bincount(x, minlength=8),
    array="bins",
)
@cuda.jit
def shared_histogram_never_cleared(x, out):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    cuda.atomic.add(bins, x[t], 1)  # first
    cuda.syncthreads()
    if t < 8:
        out[t] = bins[t]


@reads_unwritten(
    1, N, lambda: (ints(N), unwritten(1, np.int32)), lambda x, out: x.max(), array="best"
)
@cuda.jit
def shared_maximum_without_a_start(x, out):
    best = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    cuda.atomic.max(best, 0, x[t])  # first
    cuda.syncthreads()
    if t == 0:
        out[0] = best[0]


@reads_unwritten(1, N, line, lambda x, out: x, array="(dynamic|halo)", dynamic_bytes=4 * N + 8)
@cuda.jit
def dynamic_memory_never_written(x, out):
    dynamic = cuda.shared.array(0, float32)
    halo = dynamic[N : N + 2]
    t = cuda.threadIdx.x
    dynamic[t] = x[t]
    cuda.syncthreads()
    out[t] = dynamic[t] + 0 * halo[t % 2]  # first


@reads_unwritten(1, N, line, lambda x, out: 4 * x, array="mine")
@cuda.jit
def local_sums_without_a_start(x, out):
    mine = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        mine[k] += x[t]  # first
    out[t] = mine[0] + mine[1] + mine[2] + mine[3]


@reads_unwritten(
    1, (4, 4), lambda: (floats(4, 4), unwritten((4, 4))), lambda x, out: 2 * x, array="registers"
)
@cuda.jit
def local_2d_tile_half_filled(x, out):
    registers = cuda.local.array((2, 2), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    registers[0, 0] = x[row, col]
    registers[1, 1] = x[row, col]
    total = float32(0)
    for i in range(2):
        for j in range(2):
            total += registers[i, j]  # first
    out[row, col] = total


@reads_unwritten(2, N // 2, line, lambda x, out: x, array="out")
@cuda.jit
def added_to_a_fresh_device_array(x, out):
    i = cuda.grid(1)
    out[i] += x[i]  # first


@reads_unwritten(2, N // 2, poisoned, lambda x, out: x, array="out")
@cuda.jit
def added_to_an_empty_lab_array(x, out):
    i = cuda.grid(1)
    out[i] += x[i]  # first


@reads_unwritten(
    2, N // 2, lambda: (ints(N), unwritten(N, np.int32)), lambda x, out: x, array="out"
)
@cuda.jit
def added_to_fresh_integers(x, out):
    i = cuda.grid(1)
    out[i] += x[i]  # first


@reads_unwritten(
    1,
    (T, T),
    lambda: (floats(T, T), floats(T, T + 1)[:, :T].copy(), unwritten((T, T))),
    lambda a, b, c: a @ b,
    array="c",
)
@cuda.jit
def matmul_sums_in_its_fresh_output(a, b, c):
    col, row = cuda.grid(2)
    for k in range(T):
        c[row, col] += a[row, k] * b[k, col]  # first


@reads_unwritten(2, N // 2, lambda: (floats(N), unwritten(1)), lambda x, out: x.sum(), array="out")
@cuda.jit
def atomic_sum_in_a_fresh_output(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])  # first


@reads_unwritten(
    1,
    N,
    lambda: (floats(N), unwritten(N // 2), unwritten(N)),
    lambda x, y, out: np.repeat(x[::2], 2),
    array="y",
)
@cuda.jit
def temporary_half_written(x, y, out):
    t = cuda.threadIdx.x
    if t % 4 == 0:
        y[t // 2] = x[t]
    cuda.syncthreads()
    out[t] = y[t // 2]  # first


def two_launches(kernel, args):
    x, y, out = args
    kernel[1, N](x, x, y, 0)
    kernel[1, N](x, y, out, 1)


@reads_unwritten(
    1,
    N,
    lambda: (floats(N), unwritten(N), unwritten(N)),
    lambda x, y, out: x,
    array="y",
    run=two_launches,
)
@cuda.jit
def second_launch_reads_what_the_first_left_out(x, y, out, phase):
    t = cuda.threadIdx.x
    if phase == 1 or t < N - 3:
        out[t] = y[t]  # first


@reads_unwritten(2, (T, 4), lambda: (floats(T, T), zeros((T, T))), lambda x, out: x.T, array="tile")
@cuda.jit
def rows_of_the_other_half_never_loaded(x, out):
    tile = cuda.shared.array((T, T), float32)
    col, y, half = cuda.threadIdx.x, cuda.threadIdx.y, 4 * cuda.blockIdx.x
    tile[half + y, col] = x[half + y, col]
    cuda.syncthreads()
    out[half + y, col] = tile[col, half + y]  # first
