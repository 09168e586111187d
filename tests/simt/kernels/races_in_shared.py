"""Races in shared memory: a barrier is missing, too weak, or in the wrong place."""

import numpy as np
from numba import cuda, float32, int8, int32

from kernels.case import FULL, RACE, Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
race = case(CASES, RACE)
N, T = 64, 8
HALF, PADDED = N // 2, T + 1


def line():
    return floats(N), unwritten(N)


def square():
    return floats(T, T), unwritten((T, T))


def pair_of_matrices():
    return floats(T, 2 * T), floats(2 * T, T), unwritten((T, T))


@race(1, N, line, lambda x, out: x[::-1], array="s")
@cuda.jit
def mirror_without_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    out[t] = s[N - 1 - t]  # second


@race(1, N, line, lambda x, out: x + np.roll(x, 1), array="s")
@cuda.jit
def left_neighbour_without_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    left = s[(t + N - 1) % N]  # second
    out[t] = x[t] + left


@race(1, (T, T), square, lambda x, out: np.roll(x, -1, 1), array="tile")
@cuda.jit
def right_neighbour_2d_without_barrier(x, out):
    tile = cuda.shared.array((T, T), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, col] = x[row, col]  # first
    out[row, col] = tile[row, (col + 1) % T]  # second


@race(1, (T, T), square, lambda x, out: x.T, array="tile")
@cuda.jit
def transpose_without_barrier(x, out):
    tile = cuda.shared.array((T, PADDED), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, col] = x[row, col]  # first
    out[row, col] = tile[col, row]  # second


@race(
    1,
    (4, 4, 4),
    lambda: (floats(4, 4, 4), unwritten((4, 4, 4))),
    lambda x, o: x[::-1],
    array="cube",
)
@cuda.jit
def flip_3d_without_barrier(x, out):
    cube = cuda.shared.array((4, 4, 4), float32)
    i, j, k = cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x
    cube[i, j, k] = x[i, j, k]  # first
    out[i, j, k] = cube[3 - i, j, k]  # second


@race(1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: x[np.arange(32) ^ 1], array="s")
@cuda.jit
def partner_lane_without_syncwarp(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    out[t] = s[t ^ 1]  # second


@race(1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: x[::-1] + x[0], array="s")
@cuda.jit
def shuffle_taken_for_a_barrier(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    base = cuda.shfl_sync(FULL, x[t], 0)
    out[t] = s[31 - t] + base  # second


@race(1, (8, 4), lambda: (floats(4, 8), unwritten((4, 8))), lambda x, out: x[::-1], array="tile")
@cuda.jit
def vote_2d_taken_for_a_barrier(x, out):
    tile = cuda.shared.array((4, 8), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, col] = x[row, col]  # first
    if cuda.any_sync(FULL, True):
        out[row, col] = tile[3 - row, col]  # second


@race(1, 32, lambda: (floats(32), unwritten(1)), lambda x, out: x.sum(), array="s")
@cuda.jit
def warp_reduction_without_syncwarp(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    stride = 16
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]  # both
        stride //= 2
    if t == 0:
        out[0] = s[0]


@race(1, N, line, lambda x, out: x[::-1], array="s")
@cuda.jit
def syncwarp_across_two_warps(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    cuda.syncwarp()
    out[t] = s[N - 1 - t]  # second


@race(1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: x[::-1], array="s")
@cuda.jit
def syncwarp_of_half_the_lanes_each(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
    else:
        cuda.syncwarp(0xFFFF0000)
    out[t] = s[31 - t]  # second


@race(1, N, lambda: (ints(N), zeros(1, np.int32)), lambda x, out: (x > 50).any(), array="found")
@cuda.jit
def everybody_sets_one_flag(x, out):
    found = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        found[0] = 0
    cuda.syncthreads()
    if x[t] > 50:
        found[0] = 1  # both
    cuda.syncthreads()
    if t == 0:
        out[0] = found[0]


@race(1, N, line, lambda x, out: np.repeat(x[1::2], 2), array="s")
@cuda.jit
def two_threads_write_one_cell(x, out):
    s = cuda.shared.array(HALF, float32)
    t = cuda.threadIdx.x
    s[t // 2] = x[t]  # both
    cuda.syncthreads()
    out[t] = s[t // 2]


@race(1, (T, T), square, lambda x, out: np.repeat(x[:, -1:], T, 1), array="tile")
@cuda.jit
def row_written_by_every_column(x, out):
    tile = cuda.shared.array((T, 1), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, 0] = x[row, col]  # both
    cuda.syncthreads()
    out[row, col] = tile[row, 0]


@race(
    1,
    N,
    lambda: (unwritten(N, np.int32),),
    lambda out: np.arange(N),
    dynamic_bytes=4 * N,
    array="words|octets",
)
@cuda.jit
def bytes_of_a_neighbours_word(out):
    words = cuda.shared.array(0, int32)
    octets = cuda.shared.array(0, int8)
    t = cuda.threadIdx.x
    words[t] = t  # first
    octets[(4 * t + 7) % (4 * N)] = 0  # second
    cuda.syncthreads()
    out[t] = words[t]


@race(
    1,
    N,
    lambda: (floats(N), unwritten((2, N))),
    lambda x, out: [x, -x],
    dynamic_bytes=6 * N,
    array=r"(dynamic|left|right)",
)
@cuda.jit
def dynamic_memory_carved_with_overlap(x, out):
    dynamic = cuda.shared.array(0, float32)
    left = dynamic[0:N]
    right = dynamic[N // 2 : 3 * N // 2]
    t = cuda.threadIdx.x
    left[t] = x[t]  # first
    right[t] = -x[t]  # second
    cuda.syncthreads()
    out[0, t] = left[t]
    out[1, t] = right[t]


@race(1, (T, T), pair_of_matrices, lambda a, b, c: a @ b, array="tile_[ab]")
@cuda.jit
def matmul_without_first_barrier(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, 2 * T, T):
        tile_a[y, x] = a[y, start + x]  # first
        tile_b[y, x] = b[start + y, x]  # first
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]  # second
        cuda.syncthreads()
    c[y, x] = total


@race(1, (T, T), pair_of_matrices, lambda a, b, c: a @ b, array="tile_[ab]")
@cuda.jit
def matmul_without_second_barrier(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, 2 * T, T):
        tile_a[y, x] = a[y, start + x]  # first
        tile_b[y, x] = b[start + y, x]  # first
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]  # second
    c[y, x] = total


@race(
    1,
    N,
    lambda: (floats(3 * N), unwritten(N)),
    lambda x, out: x.reshape(3, N)[:, ::-1].sum(0),
    array="s",
)
@cuda.jit
def next_tile_overwrites(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for start in range(0, x.size, N):
        s[t] = x[start + t]  # first
        cuda.syncthreads()
        total += s[N - 1 - t]  # second
    out[t] = total


@race(1, N, line, lambda x, out: 2 * x, array="s")
@cuda.jit
def cell_reused_before_it_was_read(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    value = s[N - 1 - t]  # first
    s[t] = 2 * value  # second
    cuda.syncthreads()
    out[t] = s[N - 1 - t]


@race(1, N, lambda: (ints(N), unwritten(N, np.int32)), lambda x, out: np.cumsum(x), array="s")
@cuda.jit
def scan_in_one_buffer(x, out):
    s = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < N:
        if t >= step:
            s[t] += s[t - step]  # both
        cuda.syncthreads()
        step *= 2
    out[t] = s[t]


@race(1, N, lambda: (ints(N), unwritten(N, np.int32)), lambda x, out: np.cumsum(x), array="s")
@cuda.jit
def ping_pong_with_wrong_parity(x, out):
    s = cuda.shared.array((2, N), int32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    source, step = 0, 1
    while step < N:
        cuda.syncthreads()
        before = s[source, t - step] if t >= step else 0  # first
        s[source, t] = s[source, t] + before  # second (it should be 1 - source)
        step *= 2
    out[t] = s[source, t]


@race(1, N, lambda: (ints(N), unwritten(N, np.int32)), lambda x, out: np.cumsum(x), array="s")
@cuda.jit
def ping_pong_with_one_barrier_for_two_steps(x, out):
    s = cuda.shared.array((2, N), int32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < N:
        s[1, t] = s[0, t] + (s[0, t - step] if t >= step else 0)  # first
        step *= 2
        s[0, t] = s[1, t] + (s[1, t - step] if t >= step else 0)  # second
        step *= 2
        cuda.syncthreads()
    out[t] = s[0, t]


@race(1, N, line, lambda x, out: np.roll(x, 1) + x + np.roll(x, -1), array="s")
@cuda.jit
def stencil_in_place(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    s[t] += s[(t + N - 1) % N] + s[(t + 1) % N]  # both
    cuda.syncthreads()
    out[t] = s[t]


@race(1, (T, T), square, lambda x, out: x + np.roll(x, 1, 0), array="tile")
@cuda.jit
def stencil_2d_in_place(x, out):
    tile = cuda.shared.array((T, T), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, col] = x[row, col]
    cuda.syncthreads()
    above = tile[(row + T - 1) % T, col]  # first
    tile[row, col] += above  # second
    cuda.syncthreads()
    out[row, col] = tile[row, col]


@race(
    1,
    N,
    lambda: (floats(N), floats(N) + 1, unwritten(1)),
    lambda a, b, out: (a * b).sum(),
    array="products",
)
@cuda.jit
def dot_summed_by_the_last_thread(a, b, out):
    products = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    products[t] = a[t] * b[t]  # first
    if t == N - 1:
        total = float32(0)
        for k in range(N):
            total += products[k]  # second
        out[0] = total


@race(1, N, line, lambda x, out: np.convolve(x, [1, 1, 1])[:N], array="s")
@cuda.jit
def pooling_without_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    total = s[t]
    if t >= 1:
        total += s[t - 1]  # second
    if t >= 2:
        total += s[t - 2]  # second
    out[t] = total


@race(
    1,
    N,
    lambda: (ints(N, 8), unwritten(8, np.int32)),
    lambda x, out: np.bincount(x, minlength=8),
    array="bins",
)
@cuda.jit
def shared_histogram_by_plain_increment(x, out):
    bins = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        bins[t] = 0
    cuda.syncthreads()
    bins[x[t]] += 1  # both
    cuda.syncthreads()
    if t < 8:
        out[t] = bins[t]


@race(1, N, lambda: (unwritten(1, np.int32),), lambda out: N, array="count")
@cuda.jit
def shared_counter_read_without_barrier(out):
    count = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(count, 0, 1)  # first
    if t == N - 1:
        out[0] = count[0]  # second


@race(1, N, lambda: (unwritten(1, np.int32),), lambda out: N, array="count")
@cuda.jit
def shared_counter_cleared_without_barrier(out):
    count = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        count[0] = 0  # first
    cuda.atomic.add(count, 0, 1)  # second
    cuda.syncthreads()
    if t == 0:
        out[0] = count[0]


@race(1, N, lambda: (zeros(N, np.int32),), lambda out: 1, array="taken")
@cuda.jit
def shared_ticket_read_back(out):
    taken = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        taken[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(taken, 0, 1)  # first
    ticket = taken[0] - 1  # second
    cuda.atomic.add(out, ticket, 1)


@race(1, N, line, lambda x, out: x - x[0], array="base")
@cuda.jit
def broadcast_without_barrier(x, out):
    base = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        base[0] = x[0]  # first
    out[t] = x[t] - base[0]  # second


@race(1, N, lambda: (floats(N), unwritten(1)), lambda x, out: x.sum(), array="s")
@cuda.jit
def reduction_tree_without_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    stride = N // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]  # both
        stride //= 2
    cuda.syncthreads()
    if t == 0:
        out[0] = s[0]


@race(
    T,
    32,
    lambda: (floats(T, 32), unwritten((T, 32))),
    lambda x, out: x - x.max(1, keepdims=True) - x.sum(1, keepdims=True),
    array="best",
)
@cuda.jit
def row_statistic_overwritten(x, out):
    best = cuda.shared.array(1, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    if t == 0:
        best[0] = x[row, 0]
        for k in range(1, 32):
            best[0] = max(best[0], x[row, k])
    cuda.syncthreads()
    largest = best[0]  # first
    if t == 0:
        total = float32(0)
        for k in range(32):
            total += x[row, k]
        best[0] = total  # second
    cuda.syncthreads()
    out[row, t] = x[row, t] - largest - best[0]


@race(1, N, lambda: (ints(N), unwritten(N, np.int32)), lambda x, out: np.sort(x), array="s")
@cuda.jit
def odd_even_sort_without_barrier(x, out):
    s = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    for phase in range(N):
        if t % 2 == phase % 2 and t + 1 < N:
            low, high = s[t], s[t + 1]  # both
            if low > high:
                s[t] = high  # both
                s[t + 1] = low  # both
    cuda.syncthreads()
    out[t] = s[t]


@cuda.jit(device=True)
def publish(s, t, value):
    s[t] = value  # first


@race(1, N, line, lambda x, out: x[::-1], array="s", functions=(publish,))
@cuda.jit
def store_in_a_device_function(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    publish(s, t, x[t])
    out[t] = s[N - 1 - t]  # second


@race(1, N, line, lambda x, out: x[::-1], array="s")
@cuda.jit
def writer_returns_before_the_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    out[t] = x[N - 1 - t]
    if t >= HALF:
        return
    cuda.syncthreads()
    out[t] = s[N - 1 - t]  # second


@race(1, N, lambda: (floats(N), unwritten(N // 2)), lambda x, out: x[:32] + x[32:], array="s")
@cuda.jit
def barrier_replaced_by_a_fence(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    cuda.threadfence_block()
    if t < HALF:
        out[t] = s[t] + s[t + HALF]  # second


@race(1, 32, lambda: (floats(32), unwritten(16)), lambda x, out: x[:16] + x[16:], array="s")
@cuda.jit
def syncwarp_after_the_read(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    if t < 16:
        s[t] += s[t + 16]  # second
    cuda.syncwarp()
    if t < 16:
        out[t] = s[t]


@race(1, (T, T), square, lambda x, out: np.cumsum(x, 1), array="tile")
@cuda.jit
def row_scan_2d_in_one_buffer(x, out):
    tile = cuda.shared.array((T, T), float32)
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    tile[row, col] = x[row, col]
    cuda.syncthreads()
    step = 1
    while step < T:
        if col >= step:
            tile[row, col] += tile[row, col - step]  # both
        cuda.syncthreads()
        step *= 2
    out[row, col] = tile[row, col]


@race(1, 32, lambda: (floats(32), unwritten(32)), lambda x, out: x[::-1], array="s")
@cuda.jit
def vote_then_syncwarp_of_half_the_lanes_each(x, out):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # first
    cuda.all_sync(FULL, True)
    if t < 16:
        cuda.syncwarp(0x0000FFFF)
    else:
        cuda.syncwarp(0xFFFF0000)
    out[t] = s[31 - t]  # second
