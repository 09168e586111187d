"""Correct kernels that work over blocks: grid syncs, atomics, fences, locks, several launches."""

from collections import namedtuple

import numpy as np
from numba import cuda, float32, int32

from kernels.case import Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
correct = case(CASES)
N, BLOCKS = 32, 4
Points = namedtuple("Points", "x y")


def total(x, *_):
    return x.sum(dtype=np.float64)


def partial_sums():
    return floats(N * BLOCKS), unwritten(BLOCKS), zeros(1, np.int32), unwritten(1)


@correct(3, N, lambda: (floats(90), floats(90) + 1, unwritten(90)), lambda x, y, out: 2 * x + y)
@cuda.jit
def axpy(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = float32(2) * x[i] + y[i]


@correct(2, N, lambda: (floats(333), unwritten(333)), lambda x, out: x * x)
@cuda.jit
def grid_stride(x, out):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        out[i] = x[i] * x[i]


@correct((2, 2), (8, 4), lambda: (floats(7, 13), unwritten((7, 13))), lambda x, out: x + 1)
@cuda.jit
def map_2d(x, out):
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        out[row, col] = x[row, col] + float32(1)


@correct((2, 2, 2), (4, 2, 2), lambda: (floats(3, 4, 7), unwritten((3, 4, 7))), lambda x, out: -x)
@cuda.jit
def map_3d(x, out):
    k, j, i = cuda.grid(3)
    if i < x.shape[0] and j < x.shape[1] and k < x.shape[2]:
        out[i, j, k] = -x[i, j, k]


@correct(2, N, lambda: (floats(2 * N),), lambda x: 2 * x)
@cuda.jit
def in_place_on_ones_own_element(x):
    i = cuda.grid(1)
    x[i] *= float32(2)


@correct(1, N, lambda: (floats(N), unwritten(N), unwritten(N)), lambda x, y, out: 2 * x[::-1])
@cuda.jit
def barrier_orders_global_memory_of_the_block(x, y, out):
    t = cuda.threadIdx.x
    y[t] = float32(2) * x[t]
    cuda.syncthreads()
    out[t] = y[N - 1 - t]


@correct(
    BLOCKS,
    N,
    lambda: (floats(N * BLOCKS), unwritten(N * BLOCKS), unwritten(N * BLOCKS)),
    lambda x, y, out: 2 * x[::-1],
)
@cuda.jit
def grid_sync_orders_blocks(x, y, out):
    i = cuda.grid(1)
    y[i] = float32(2) * x[i]
    cuda.cg.this_grid().sync()
    out[i] = y[x.size - 1 - i]


@correct(BLOCKS, 16, lambda: (ints(16 * BLOCKS), unwritten(1, np.int32)), lambda x, out: x.sum())
@cuda.jit
def grid_sync_in_a_loop(x, out):
    grid = cuda.cg.this_grid()
    i = cuda.grid(1)
    stride = x.size // 2
    while stride > 0:
        if i < stride:
            x[i] += x[i + stride]
        grid.sync()
        stride //= 2
    if i == 0:
        out[0] = x[0]


@correct(BLOCKS, N, lambda: (floats(N * BLOCKS), zeros(1)), total)
@cuda.jit
def atomic_sum(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])


@correct(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS), zeros((2, 3), np.int32)),
    lambda x, out: [[x[k::6].sum() for k in range(3)], [x[k::6].sum() for k in range(3, 6)]],
)
@cuda.jit
def atomic_sums_in_2d(x, out):
    i = cuda.grid(1)
    cuda.atomic.add(out, (i % 6 // 3, i % 3), x[i])


@correct(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS), np.array([0, 1000], np.int32)),
    lambda x, out: [x.max(), x.min()],
)
@cuda.jit
def atomic_maximum_and_minimum(x, out):
    value = x[cuda.grid(1)]
    cuda.atomic.max(out, 0, value)
    cuda.atomic.min(out, 1, value)


@correct(2, N, lambda: (ints(2 * N, 5), zeros(1, np.int32)), lambda x, out: x.sum())
@cuda.jit
def sum_by_a_cas_loop(x, out):
    value = x[cuda.grid(1)]
    old = cuda.atomic.add(out, 0, 0)
    while True:
        seen = cuda.atomic.cas(out, 0, old, old + value)
        if seen == old:
            break
        old = seen


@correct(
    2,
    N,
    lambda: (ints(2 * N, 9) - 4, zeros(1, np.int32), zeros(2 * N, np.int32)),
    lambda x, counter, out: np.arange(2 * N) < (x > 0).sum(),
)
@cuda.jit
def ticket_from_the_atomics_result(x, counter, out):
    i = cuda.grid(1)
    if x[i] > 0:
        slot = cuda.atomic.add(counter, 0, 1)
        out[slot] = 1


@correct(BLOCKS, N, partial_sums, total)
@cuda.jit
def last_block_sums(x, partial, ticket, out):
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine
        cuda.threadfence()
        last[0] = cuda.atomic.add(ticket, 0, 1)
        cuda.threadfence()
    cuda.syncthreads()
    if last[0] == BLOCKS - 1 and t == 0:
        everything = float32(0)
        for k in range(BLOCKS):
            everything += partial[k]
        out[0] = everything


@correct(
    BLOCKS,
    N,
    lambda: (floats(N * BLOCKS), unwritten(N * BLOCKS), zeros(1, np.int32), unwritten(N)),
    lambda x, y, ticket, out: 2 * x.reshape(BLOCKS, N).sum(0),
)
@cuda.jit
def last_block_reads_what_all_threads_wrote(x, y, ticket, out):
    last = cuda.shared.array(1, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    y[i] = float32(2) * x[i]
    cuda.syncthreads()
    if t == 0:
        cuda.threadfence()
        last[0] = cuda.atomic.add(ticket, 0, 1)
        cuda.threadfence()
    cuda.syncthreads()
    if last[0] == BLOCKS - 1:
        everything = float32(0)
        for k in range(BLOCKS):
            everything += y[k * N + t]
        out[t] = everything


@correct(BLOCKS, N, lambda: (floats(N * BLOCKS), zeros(1, np.int32), zeros(1)), total)
@cuda.jit
def spin_lock_a_block(x, lock, out):
    if cuda.threadIdx.x == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[cuda.blockIdx.x * N + k]
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        out[0] += mine
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


@correct(2, 64, lambda: (ints(128), zeros(1, np.int32), zeros(1, np.int32)), total)
@cuda.jit
def spin_lock_a_warp(x, lock, out):
    i = cuda.grid(1)
    if cuda.laneid == 0:
        mine = 0
        for k in range(32):
            mine += x[i + k]
        done = False
        while not done:
            if cuda.atomic.cas(lock, 0, 0, 1) == 0:
                cuda.threadfence()
                out[0] += mine
                cuda.threadfence()
                cuda.atomic.exch(lock, 0, 0)
                done = True


@correct(
    BLOCKS,
    N,
    lambda: (
        ints(N * BLOCKS),
        zeros(1, np.int32),
        zeros(BLOCKS, np.int32),
        unwritten((2, BLOCKS), np.int32),
        unwritten(N * BLOCKS, np.int32),
    ),
    lambda x, ticket, status, sums, out: np.cumsum(x),
)
@cuda.jit
def decoupled_look_back(x, ticket, status, sums, out):
    s = cuda.shared.array(N, int32)
    ours = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        ours[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    b = ours[0]
    s[t] = x[b * N + t]
    cuda.syncthreads()
    value = 0
    for k in range(t + 1):
        value += s[k]
    if t == N - 1:
        sums[0, b] = value
        cuda.threadfence()
        cuda.atomic.exch(status, b, 1)
        carry, p = 0, b - 1
        while p >= 0:
            seen = cuda.atomic.add(status, p, 0)
            if seen == 0:
                continue
            cuda.threadfence()
            if seen == 2:
                carry += sums[1, p]
                break
            carry += sums[0, p]
            p -= 1
        sums[1, b] = carry + value
        cuda.threadfence()
        cuda.atomic.exch(status, b, 2)
        ours[1] = carry
    cuda.syncthreads()
    out[b * N + t] = ours[1] + value


def two_launches(kernel, args):
    x, y, out = args
    kernel[2, N](x, y, 1)
    kernel[2, N](y, out, 2)


@correct(
    2,
    N,
    lambda: (floats(2 * N), unwritten(2 * N), unwritten(2 * N)),
    lambda x, y, out: 2 * x,
    run=two_launches,
)
@cuda.jit
def two_launches_pass_data(x, out, factor):
    i = cuda.grid(1)
    out[x.size - 1 - i] = factor * x[i]


def five_levels(kernel, args):
    x, out = args
    stride = 16
    while stride:
        kernel[1, N](x, out, stride)
        stride //= 2


@correct(1, N, lambda: (ints(N), unwritten(1, np.int32)), lambda x, out: x.sum(), run=five_levels)
@cuda.jit
def one_launch_a_level(x, out, stride):
    t = cuda.threadIdx.x
    if t < stride:
        x[t] += x[t + stride]
        if stride == 1:
            out[0] = x[0]


@correct(2, N, lambda: (floats(2 * N), floats(3), unwritten(2 * N)), lambda x, w, out: x * w.sum())
@cuda.jit
def read_only_sharing(x, w, out):
    i = cuda.grid(1)
    out[i] = x[i] * (w[0] + w[1] + w[2])


@correct(1, N, lambda: (floats(N), unwritten(N)), lambda x, out: x + x**2 + x**3)
@cuda.jit
def local_array_written_then_read(x, out):
    powers = cuda.local.array(3, float32)
    t = cuda.threadIdx.x
    powers[0] = x[t]
    for k in range(1, 3):
        powers[k] = powers[k - 1] * x[t]
    out[t] = powers[0] + powers[1] + powers[2]


RECORD = np.dtype([("x", np.float32), ("y", np.int32)], align=True)


def records():
    array = np.zeros(N, RECORD)
    array["x"], array["y"] = floats(N), ints(N)
    return array, unwritten(N)


@correct(1, N, records, lambda r, out: r["x"] + r["y"])
@cuda.jit
def array_of_records(r, out):
    t = cuda.threadIdx.x
    out[t] = r[t].x + r[t].y


def unwritten_records():
    return floats(N), cuda.device_array(N // 2, RECORD)


def pairs(x, out):
    wanted = np.zeros(N // 2, RECORD)
    wanted["x"], wanted["y"] = x[::2], np.arange(1, N, 2)
    return wanted


@correct(1, N, unwritten_records, pairs)
@cuda.jit
def two_threads_write_fields_of_one_record(x, out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        out[t // 2].x = x[t]
    else:
        out[t // 2].y = t


@correct(1, N, lambda: (floats(N), unwritten(N)), lambda x, out: x[::-1] + 1)
@cuda.jit
def view_that_runs_backwards(x, out):
    t = cuda.threadIdx.x
    backwards = out[::-1]
    backwards[t] = x[t]
    backwards[t] += float32(1)


@correct(
    1,
    (4, 8),
    lambda: (np.asfortranarray(floats(8, 4)), unwritten((4, 8))),
    lambda x, out: np.roll(x.T, 1, 1),
)
@cuda.jit
def columns_first_and_transposed(x, out):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    x[row, col] += float32(1)
    cuda.syncthreads()
    out.T[row, col] = x[(row + 7) % 8, col] - float32(1)


@correct(1, N, lambda: (Points(floats(N), floats(N) + 1), unwritten(N)), lambda p, out: p[0] * p[1])
@cuda.jit
def record_of_arrays(points, out):
    t = cuda.threadIdx.x
    out[t] = points.x[t] * points.y[t]


@correct(1, N, lambda: ((floats(N), floats(N) + 1), unwritten(N)), lambda p, out: p[0] - p[1])
@cuda.jit
def tuple_of_arrays(pair, out):
    t = cuda.threadIdx.x
    out[t] = pair[0][t] - pair[1][t]


@cuda.jit(device=True)
def dot(row, column):
    total = float32(0)
    for k in range(row.size):
        total += row[k] * column[k]
    return total


@correct(1, (8, 8), lambda: (floats(8, 5), floats(5, 8), unwritten((8, 8))), lambda a, b, c: a @ b)
@cuda.jit
def rows_and_columns_for_a_device_function(a, b, c):
    col, row = cuda.grid(2)
    c[row, col] = dot(a[row], b[:, col])


@correct(2, 16, lambda: (floats(2 * N)[::1], unwritten(2 * N)), lambda x, out: x)
@cuda.jit
def even_and_odd_halves_by_views(x, out):
    even, odd = out[0::2], out[1::2]
    i = cuda.grid(1)
    if i < even.size:
        even[i] = x[2 * i]
        odd[i] = x[2 * i + 1]


def words_and_bytes():
    memory = cuda.to_device(np.zeros(N, np.int32))
    return memory.view(np.uint8), memory


@correct(
    4, N, words_and_bytes, lambda octets, words: np.arange(4 * N, dtype=np.uint8).view(np.int32)
)
@cuda.jit
def four_blocks_write_bytes_of_one_word(octets, words):
    i = cuda.blockIdx.x + 4 * cuda.threadIdx.x
    octets[i] = i


WEIGHTS = np.array([1, 2, 1], np.float32)


@correct(1, N, lambda: (floats(N), unwritten(N)), lambda x, out: np.convolve(x, WEIGHTS, "same"))
@cuda.jit
def constant_weights(x, out):
    weights = cuda.const.array_like(WEIGHTS)
    t = cuda.threadIdx.x
    total = float32(0)
    for k in range(3):
        i = t + k - 1
        if i >= 0 and i < x.size:
            total += weights[k] * x[i]
    out[t] = total


@correct(2, N, lambda: (floats(2 * N), np.zeros(2 * N, np.float32)), lambda x, out: out + x)
@cuda.jit
def added_to_a_host_array_of_zeros(x, out):
    i = cuda.grid(1)
    out[i] += x[i]


@correct(
    BLOCKS,
    N,
    lambda: (unwritten(BLOCKS, np.int32), zeros(1, np.int32)),
    lambda order, ticket: 0,
)
@cuda.jit
def last_block_resets_the_counter(order, ticket):
    if cuda.threadIdx.x == 0:
        taken = cuda.atomic.add(ticket, 0, 1)
        order[taken] = cuda.blockIdx.x
        if taken == BLOCKS - 1:
            ticket[0] = 0
