"""Barriers, grid syncs, locks and warp operations that some thread never reaches."""

import numpy as np
from numba import cuda

from kernels.case import (
    BARRIER,
    DEADLOCK,
    FULL,
    TIME_LIMIT,
    WARP,
    Case,
    case,
    floats,
    unwritten,
    zeros,
)

CASES: list[Case] = []
wait = case(CASES)
N, T = 64, 8
SPINS = f"{DEADLOCK}|{TIME_LIMIT}"


def line():
    return floats(N), unwritten(N)


def locks():
    return zeros(2, np.int32), zeros(1, np.int32)


@wait(1, N, line, error=BARRIER)
@cuda.jit
def barrier_in_a_branch(x, out):
    t = cuda.threadIdx.x
    if t < 20:
        cuda.syncthreads()  # first
    out[t] = x[t]
    cuda.syncthreads()  # second
    out[t] += 1


@wait(1, N, line, error=BARRIER)
@cuda.jit
def barrier_that_some_pass_by(x, out):
    t = cuda.threadIdx.x
    if x[t] > 0:
        cuda.syncthreads()  # first
    out[t] = x[t]


@wait(1, N, line, error=BARRIER)
@cuda.jit
def barrier_for_one_warp_only(x, out):
    t = cuda.threadIdx.x
    if t // 32 == 1:
        cuda.syncthreads()  # first
    out[t] = x[t]
    cuda.syncthreads()  # second


@wait(1, (T, T), lambda: (floats(T, T), unwritten((T, T))), error=BARRIER)
@cuda.jit
def barrier_2d_for_one_row(x, out):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    if row == 0:
        cuda.syncthreads()  # first
    else:
        cuda.syncthreads()  # second
    out[row, col] = x[row, col]


@wait(1, N, line, error=BARRIER)
@cuda.jit
def barrier_at_two_sites(x, out):
    t = cuda.threadIdx.x
    if t % 2 == 0:
        out[t] = x[t]
        cuda.syncthreads()  # first
    else:
        cuda.syncthreads()  # second
        out[t] = x[t]


@wait(1, N, line, error=BARRIER)
@cuda.jit
def barrier_in_a_loop_of_uneven_length(x, out):
    t = cuda.threadIdx.x
    for _ in range(1 + t % 3):
        cuda.syncthreads()  # first
    out[t] = x[t]
    cuda.syncthreads()  # second


@wait(2, N, line, error=BARRIER)
@cuda.jit
def barrier_in_a_loop_with_a_break(x, out):
    i = cuda.grid(1)
    for k in range(4):
        if i + k > 70:
            break
        cuda.syncthreads()  # first
    cuda.syncthreads()  # second
    if i < out.size:
        out[i] = x[i]


@wait(1, N, line, error=BARRIER)
@cuda.jit
def counting_barrier_beside_a_plain_one(x, out):
    t = cuda.threadIdx.x
    if t < 32:
        out[t] = cuda.syncthreads_count(True)  # first
    else:
        cuda.syncthreads()  # second
        out[t] = x[t]


@cuda.jit(device=True)
def meet(out, t):
    cuda.syncthreads()  # first
    out[t] += 1


@wait(1, N, lambda: (zeros(N),), error=BARRIER, functions=(meet,))
@cuda.jit
def barrier_in_a_device_function_for_some(out):
    t = cuda.threadIdx.x
    if t < 48:
        meet(out, t)
    cuda.syncthreads()  # second
    out[t] += 1


@wait(3, 4, lambda: (zeros(12),), error=DEADLOCK)
@cuda.jit
def grid_sync_missed_by_a_block(out):
    if cuda.blockIdx.x != 1:
        cuda.cg.this_grid().sync()  # first
    out[cuda.grid(1)] = 1


@wait(2, 32, lambda: (zeros(60),), error=DEADLOCK)
@cuda.jit
def grid_sync_missed_by_a_thread_that_returned(out):
    i = cuda.grid(1)
    if i >= out.size:
        return
    cuda.cg.this_grid().sync()  # first
    out[i] = 1


@wait((2, 1), (4, 4), lambda: (zeros((4, 8)),), error=DEADLOCK)
@cuda.jit
def grid_sync_against_block_barrier(out):
    col, row = cuda.grid(2)
    if row == 0:
        cuda.cg.this_grid().sync()  # first
    else:
        cuda.syncthreads()  # second
    out[row, col] = 1


@wait(1, N, locks, error=SPINS)
@cuda.jit
def spin_on_a_thread_that_has_returned(flag, out):
    t = cuda.threadIdx.x
    if t == 63:
        return
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:  # first
            cuda.nanosleep(20)  # first
    if t == 63:
        cuda.atomic.exch(flag, 0, 1)


@wait(2, 1, locks, error=SPINS)
@cuda.jit
def lock_never_released(lock, out):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:  # first
        pass
    cuda.threadfence()
    out[0] += 1
    cuda.threadfence()


@wait(1, N, locks, error=SPINS)
@cuda.jit
def two_locks_in_opposite_order(lock, out):
    warp = cuda.threadIdx.x // 32
    leader = cuda.threadIdx.x % 32 == 0
    if leader:
        while cuda.atomic.cas(lock, warp, 0, 1) != 0:
            cuda.nanosleep(20)  # first
    cuda.syncthreads()
    if leader:
        while cuda.atomic.cas(lock, 1 - warp, 0, 1) != 0:  # first
            cuda.nanosleep(20)  # first
        cuda.threadfence()
        out[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 1 - warp, 0)
        cuda.atomic.exch(lock, warp, 0)


@wait(1, N, locks, error=SPINS + "|" + BARRIER)
@cuda.jit
def spin_on_a_thread_behind_the_barrier(flag, out):
    t = cuda.threadIdx.x
    if t == 5:
        while cuda.atomic.add(flag, 0, 0) == 0:  # first
            cuda.nanosleep(20)  # first
    cuda.syncthreads()  # first
    if t == 40:
        cuda.atomic.exch(flag, 0, 1)


@wait(1, 32, line, error=WARP)
@cuda.jit
def shuffle_in_a_branch(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    if t < 16:
        value += cuda.shfl_down_sync(FULL, value, 8)  # first
    cuda.syncthreads()
    out[t] = value


@wait(1, 32, line, error=WARP)
@cuda.jit
def vote_in_a_loop_of_uneven_length(x, out):
    t = cuda.threadIdx.x
    votes = 0
    for _ in range(1 + t // 16):
        votes += cuda.popc(cuda.ballot_sync(FULL, x[t] > 0))  # first
    cuda.syncthreads()
    out[t] = votes


@wait(1, (16, 2), lambda: (floats(2, 16), unwritten((2, 16))), error=WARP)
@cuda.jit
def mask_does_not_name_its_lane_2d(x, out):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    out[row, col] = cuda.shfl_xor_sync(0x0000FFFF, x[row, col], 1)  # first


@wait(1, 32, line, error=WARP)
@cuda.jit
def syncwarp_does_not_name_its_lane(x, out):
    t = cuda.threadIdx.x
    cuda.syncwarp(0xFFFFFFFE)  # first
    out[t] = x[t]


@wait(1, 32, lambda: (floats(20), unwritten(20)), error=WARP)
@cuda.jit
def shuffle_reads_a_lane_that_has_returned(x, out):
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    out[t] = x[t] + cuda.shfl_down_sync(FULL, x[t], 1)  # first


@wait(1, 40, line, error=WARP)
@cuda.jit
def shuffle_reads_a_lane_that_never_was(x, out):
    t = cuda.threadIdx.x
    out[t] = x[t] + cuda.shfl_down_sync(FULL, x[t], 16)  # first


@wait(1, 32, line, error=WARP)
@cuda.jit
def shuffle_reads_a_lane_outside_its_mask(x, out):
    t = cuda.threadIdx.x
    value = x[t]
    if t < 16:
        value = cuda.shfl_sync(0x0000FFFF, value, 20)  # first
    out[t] = value


@wait(1, 32, line, error=WARP)
@cuda.jit
def different_operations_in_two_branches(x, out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = cuda.shfl_down_sync(FULL, x[t], 1)  # first
    else:
        out[t] = cuda.shfl_up_sync(FULL, x[t], 1)  # second


@wait(1, N, line, error=WARP)
@cuda.jit
def syncwarp_for_some_lanes_barrier_for_the_rest(x, out):
    t = cuda.threadIdx.x
    if t % 32 < 8:
        cuda.syncwarp()  # first
    cuda.syncthreads()
    out[t] = x[t]
