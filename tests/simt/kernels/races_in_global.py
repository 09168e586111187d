"""Races in global memory: within a block, between blocks, beside atomics, past a missing fence."""

import numpy as np
from numba import cuda, float32, int32

from kernels.case import RACE, Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
race = case(CASES, RACE)
N, T, BLOCKS = 32, 8, 4


def partial_sums():
    return floats(N * BLOCKS), zeros(BLOCKS), zeros(1, np.int32), zeros(1)


def total(x, *_):
    return x.sum()


@race(
    1, N, lambda: (floats(N), unwritten(N), unwritten(N)), lambda x, y, out: 2 * x[::-1], array="y"
)
@cuda.jit
def intermediate_in_global_without_barrier(x, y, out):
    t = cuda.threadIdx.x
    y[t] = 2 * x[t]  # first
    out[t] = y[N - 1 - t]  # second


@race(
    1,
    (T, T),
    lambda: (floats(T, T), unwritten((T, T)), unwritten((T, T))),
    lambda x, y, out: 2 * x.T,
    array="y",
)
@cuda.jit
def intermediate_2d_without_barrier(x, y, out):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    y[row, col] = 2 * x[row, col]  # first
    out[row, col] = y[col, row]  # second


@race(1, N, lambda: (floats(N),), lambda x: np.append(x[1:], x[-1]), array="x")
@cuda.jit
def shift_in_place(x):
    t = cuda.threadIdx.x
    if t + 1 < x.size:
        x[t] = x[t + 1]  # both


@race(1, N, lambda: (floats(N),), lambda x: np.roll(x, -1), array="x")
@cuda.jit
def rotate_in_place_within_a_warp_after_a_shuffle(x):
    t = cuda.threadIdx.x
    cuda.shfl_sync(0xFFFFFFFF, t, 0)
    value = x[(t + 1) % N]  # first
    x[t] = value  # second


@race(BLOCKS, N, lambda: (floats(N * BLOCKS),), lambda x: x + np.append(0, x[:-1]), array="x")
@cuda.jit
def stencil_in_place_across_blocks(x):
    i = cuda.grid(1)
    left = x[i - 1] if i > 0 else float32(0)  # first
    cuda.syncthreads()
    x[i] += left  # second


@race(
    (2, 2),
    (T, T),
    lambda: (ints(4 * T * T, 2).reshape(2 * T, 2 * T),),
    lambda x: x + np.roll(x, 1, 1) + np.roll(x, 1, 0),
    array="x",
)
@cuda.jit
def life_in_place(x):
    col, row = cuda.grid(2)
    around = x[row, col - 1 if col > 0 else 2 * T - 1]  # first
    around += x[row - 1 if row > 0 else 2 * T - 1, col]  # first
    cuda.syncthreads()
    x[row, col] += around  # second


@race((2, 2), (T, T), lambda: (floats(2 * T, 2 * T),), lambda x: x.T, array="x")
@cuda.jit
def transpose_in_place(x):
    col, row = cuda.grid(2)
    value = x[col, row]  # first
    cuda.syncthreads()
    x[row, col] = value  # second


@race(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS, 8), zeros(8, np.int32)),
    lambda x, bins: np.bincount(x, minlength=8),
    array="bins",
)
@cuda.jit
def histogram_by_plain_increment(x, bins):
    bins[x[cuda.grid(1)]] += 1  # both


@race(BLOCKS, N, lambda: (floats(N * BLOCKS), zeros(1)), total, array="out")
@cuda.jit
def sum_by_plain_increment(x, out):
    out[0] += x[cuda.grid(1)]  # both


@race(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS), zeros((2, 2), np.int32)),
    lambda x, out: [[x[::2].sum(), 0], [0, x[1::2].sum()]],
    array="out",
)
@cuda.jit
def sum_in_2d_by_plain_increment(x, out):
    i = cuda.grid(1)
    out[i % 2, i % 2] += x[i]  # both


@race(BLOCKS, 1, lambda: (floats(BLOCKS), zeros(1)), total, array="out")
@cuda.jit
def one_thread_a_block_adds_plainly(x, out):
    out[0] += x[cuda.blockIdx.x]  # both


@race(BLOCKS, N, lambda: (floats(N * BLOCKS), unwritten(N)), lambda x, out: x[-N:], array="out")
@cuda.jit
def block_index_forgotten(x, out):
    out[cuda.threadIdx.x] = x[cuda.grid(1)]  # both


@race(
    (2, 2), (4, 4), lambda: (floats(8, 8), unwritten((4, 4))), lambda x, out: x[4:, 4:], array="out"
)
@cuda.jit
def block_index_2d_forgotten(x, out):
    col, row = cuda.grid(2)
    out[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, col]  # both


@race(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS), zeros(1, np.int32)),
    lambda x, out: (x > 9).any(),
    array="out",
)
@cuda.jit
def everybody_stores_the_same_value(x, out):
    if x[cuda.grid(1)] > 9:
        out[0] = 1  # both


@race(
    BLOCKS, N, lambda: (ints(N * BLOCKS), zeros(1, np.int32)), lambda x, out: x.max(), array="out"
)
@cuda.jit
def maximum_by_compare_and_store(x, out):
    i = cuda.grid(1)
    if x[i] > out[0]:  # first
        out[0] = x[i]  # both


@race(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS), zeros(1, np.int32), zeros(1, np.int32)),
    lambda x, best, out: x.max(),
    array="best",
)
@cuda.jit
def plain_test_before_an_atomic_maximum(x, best, out):
    i = cuda.grid(1)
    if x[i] > best[0]:  # first
        cuda.atomic.max(best, 0, x[i])  # second
        cuda.atomic.max(out, 0, x[i])


@race(BLOCKS, N, lambda: (floats(N * BLOCKS), zeros(1), unwritten(1)), total, array="sums")
@cuda.jit
def total_read_beside_the_atomics(x, sums, out):
    i = cuda.grid(1)
    cuda.atomic.add(sums, 0, x[i])  # first
    if i == x.size - 1:
        out[0] = sums[0]  # second


@race(1, N, lambda: (floats(N), zeros((1, 1)), unwritten(1)), total, array="sums")
@cuda.jit
def total_2d_read_beside_the_atomics_of_a_block(x, sums, out):
    t = cuda.threadIdx.x
    cuda.atomic.add(sums, (0, 0), x[t])  # first
    if t == N - 1:
        out[0] = sums[0, 0]  # second


@race(
    2,
    N,
    lambda: (ints(2 * N, 2), zeros(1, np.int32), zeros(2 * N, np.int32)),
    lambda x, counter, out: np.arange(2 * N) < (x > 0).sum(),
    array="counter",
)
@cuda.jit
def ticket_read_back_from_the_counter(x, counter, out):
    if x[cuda.grid(1)] > 0:
        cuda.atomic.add(counter, 0, 1)  # first
        slot = counter[0] - 1  # second
        cuda.atomic.add(out, slot, 1)


@race(
    2,
    N,
    lambda: (zeros(1, np.int32), zeros(1, np.int32)),
    lambda counter, out: 2 * N,
    array="counter",
)
@cuda.jit
def counter_cleared_by_one_thread(counter, out):
    if cuda.grid(1) == 0:
        counter[0] = 0  # first
    cuda.syncthreads()
    cuda.atomic.add(counter, 0, 1)  # second
    cuda.atomic.add(out, 0, 1)


@race(BLOCKS, N, partial_sums, total, array="partial")
@cuda.jit
def last_block_without_any_fence(x, partial, ticket, out):
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine  # first
        last[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    if last[0] == BLOCKS - 1 and t == 0:
        everything = float32(0)
        for k in range(BLOCKS):
            everything += partial[k]  # second
        out[0] = everything


@race(BLOCKS, N, partial_sums, total, array="partial")
@cuda.jit
def last_block_without_releasing_fence(x, partial, ticket, out):
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine  # first
        last[0] = cuda.atomic.add(ticket, 0, 1)
    cuda.syncthreads()
    if last[0] == BLOCKS - 1 and t == 0:
        cuda.threadfence()
        everything = float32(0)
        for k in range(BLOCKS):
            everything += partial[k]  # second
        out[0] = everything


@race(BLOCKS, N, partial_sums, total, array="partial")
@cuda.jit
def last_block_without_acquiring_fence(x, partial, ticket, out):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine  # first
        cuda.threadfence()
        if cuda.atomic.add(ticket, 0, 1) == BLOCKS - 1:
            everything = float32(0)
            for k in range(BLOCKS):
                everything += partial[k]  # second
            out[0] = everything


@race(BLOCKS, N, partial_sums, total, array="partial")
@cuda.jit
def last_block_with_fences_for_the_block_only(x, partial, ticket, out):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine  # first
        cuda.threadfence_block()
        if cuda.atomic.add(ticket, 0, 1) == BLOCKS - 1:
            cuda.threadfence_block()
            everything = float32(0)
            for k in range(BLOCKS):
                everything += partial[k]  # second
            out[0] = everything


@race(BLOCKS, N, partial_sums, total, array="partial")
@cuda.jit
def last_block_whose_fence_comes_too_late(x, partial, ticket, out):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine  # first
        taken = cuda.atomic.add(ticket, 0, 1)
        cuda.threadfence()
        if taken == BLOCKS - 1:
            everything = float32(0)
            for k in range(BLOCKS):
                everything += partial[k]  # second
            out[0] = everything


@race(BLOCKS, N, lambda: (floats(N * BLOCKS), zeros(BLOCKS), zeros(1)), total, array="partial")
@cuda.jit
def last_block_by_its_index(x, partial, out):
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[b * N + k]
        partial[b] = mine  # first
        cuda.threadfence()
    cuda.syncthreads()
    if b == BLOCKS - 1 and t == 0:
        everything = float32(0)
        for k in range(BLOCKS):
            everything += partial[k]  # second
        out[0] = everything


@race(
    2,
    N,
    lambda: (zeros(1, np.int32), zeros(1, np.int32), zeros(1, np.int32)),
    lambda data, flag, out: 0,
    array="flag|data",
)
@cuda.jit
def flag_set_by_a_plain_store(data, flag, out):
    if cuda.threadIdx.x == 0:
        if cuda.blockIdx.x == 0:
            data[0] = 7  # first
            cuda.threadfence()
            flag[0] = 1  # first
        elif flag[0] == 1:  # second
            out[0] = data[0] - 7  # second


@race(
    BLOCKS,
    N,
    lambda: (floats(N * BLOCKS), zeros(N * BLOCKS), unwritten(N * BLOCKS)),
    lambda x, y, out: 2 * x[::-1],
    array="y",
)
@cuda.jit
def second_phase_after_a_block_barrier(x, y, out):
    i = cuda.grid(1)
    y[i] = 2 * x[i]  # first
    cuda.threadfence()
    cuda.syncthreads()
    out[i] = y[x.size - 1 - i]  # second


@race(
    2,
    (4, 4),
    lambda: (floats(4, 8), zeros((4, 8)), unwritten((4, 8))),
    lambda x, y, out: x + np.roll(x, 1, 1),
    array="y",
)
@cuda.jit
def second_phase_2d_after_a_block_barrier(x, y, out):
    col, row = cuda.grid(2)
    y[row, col] = x[row, col]  # first
    cuda.syncthreads()
    out[row, col] = x[row, col] + y[row, (col + 7) % 8]  # second


@race(
    BLOCKS,
    N,
    lambda: (ints(N * BLOCKS), zeros(BLOCKS, np.int32), unwritten(BLOCKS, np.int32)),
    lambda x, sums, out: np.append(0, np.cumsum(x.reshape(BLOCKS, N).sum(1)))[:-1],
    array="sums",
)
@cuda.jit
def carry_taken_from_the_block_before(x, sums, out):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        carry = sums[b - 1] if b > 0 else 0  # first
        mine = carry
        for k in range(N):
            mine += x[b * N + k]
        sums[b] = mine  # second
        out[b] = carry


def one_array_twice():
    memory = cuda.to_device(floats(N))
    return memory, memory


@race(1, N, one_array_twice, lambda x, out: np.append(x[1:], x[-1]), array="x|out")
@cuda.jit
def input_and_output_are_one_array(x, out):
    t = cuda.threadIdx.x
    if t + 1 < x.size:
        out[t] = x[t + 1]  # both


def one_array_as_words_and_bytes():
    memory = cuda.to_device(np.zeros(N, np.int32))
    return memory.view(np.uint8), memory


@race(1, N, one_array_as_words_and_bytes, lambda octets, words: np.arange(N), array="octets|words")
@cuda.jit
def bytes_of_anothers_word(octets, words):
    t = cuda.threadIdx.x
    words[t] = t  # first
    octets[(4 * t + 7) % (4 * N)] = 0  # second


@race(BLOCKS, N, lambda: (floats(N * BLOCKS), zeros(1, np.int32), zeros(1)), total, array="out")
@cuda.jit
def spin_lock_without_fences(x, lock, out):
    if cuda.threadIdx.x == 0:
        mine = float32(0)
        for k in range(N):
            mine += x[cuda.blockIdx.x * N + k]
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(100)
        out[0] += mine  # both
        cuda.atomic.exch(lock, 0, 0)


@race(
    BLOCKS,
    N,
    lambda: (zeros(1, np.int32), zeros(BLOCKS, np.int32)),
    lambda ticket, out: np.arange(BLOCKS),
    array="ticket",
)
@cuda.jit
def counter_reset_by_the_first_block(ticket, out):
    if cuda.threadIdx.x == 0:
        taken = cuda.atomic.add(ticket, 0, 1)  # second
        if taken == 0:
            ticket[0] = 0  # first
        cuda.atomic.add(out, taken, taken)
