"""Threads that poll: they let others run, and when nobody can end the wait, the launch says so."""

from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import DeadlockError, WarpError, device
from kernelbook.simt.scheduler import Block, Grid, Waiter
from kernelbook.simt.standstill import Poll

SEEDS = range(21)
FULL = 0xFFFFFFFF


@pytest.fixture(params=SEEDS)
def seed(request):
    with simt.schedule(request.param):
        yield request.param


def ints(*shape):
    return np.zeros(shape, np.int32)


@cuda.jit(device=True)
def acquire(lock, i):
    while cuda.atomic.cas(lock, i, 0, 1) != 0:
        pass
    cuda.threadfence()


@cuda.jit(device=True)
def release(lock, i):
    cuda.threadfence()
    cuda.atomic.exch(lock, i, 0)


@cuda.jit(device=True)
def await_value(flag, i, value):
    while cuda.atomic.add(flag, i, 0) != value:
        pass
    cuda.threadfence()


def test_spin_lock_between_lanes_of_one_warp(seed):
    @cuda.jit
    def count(lock, total):
        acquire(lock, 0)
        before = total[0]
        cuda.nanosleep(10)  # the others try meanwhile
        total[0] = before + 1
        release(lock, 0)

    total = ints(1)
    count[1, 32](ints(1), total)
    assert total[0] == 32


def test_spin_lock_between_warps_and_blocks(seed):
    @cuda.jit
    def count(lock, total):
        if cuda.laneid == 0:
            while cuda.atomic.exch(lock, 0, 1) == 1:
                pass
            cuda.threadfence()
            before = total[0]
            cuda.nanosleep(10)
            total[0] = before + 1
            release(lock, 0)
        cuda.syncthreads()

    total = ints(1)
    count[3, 96](ints(1), total)
    assert total[0] == 9


def test_spin_lock_whose_holder_waits_for_its_warp(seed):
    @cuda.jit
    def count(lock, total):
        warp = cuda.threadIdx.x // 32
        if cuda.laneid == warp:
            acquire(lock, 0)
        before = cuda.shfl_sync(FULL, total[0] if cuda.laneid == warp else 0, warp)
        if cuda.laneid == warp:
            total[0] = before + 1
            release(lock, 0)

    total = ints(1)
    count[2, 128](ints(1), total)
    assert total[0] == 8


def test_producer_and_consumer_between_warps(seed):
    @cuda.jit
    def pipe(x, out):
        slot = cuda.shared.array(32, np.float32)
        full = cuda.shared.array(1, np.int32)
        t = cuda.threadIdx.x
        if t == 0:
            full[0] = 0
        cuda.syncthreads()
        lane = t % 32
        for step in range(4):
            if t < 32:
                await_value(full, 0, 0)
                cuda.syncwarp()
                slot[lane] = x[step * 32 + lane]
                cuda.threadfence_block()
                cuda.syncwarp()
                if lane == 0:
                    cuda.atomic.exch(full, 0, 1)
            else:
                await_value(full, 0, 1)
                cuda.syncwarp()
                out[step * 32 + lane] = 2 * slot[lane]
                cuda.threadfence_block()
                cuda.syncwarp()
                if lane == 0:
                    cuda.atomic.exch(full, 0, 0)
            cuda.syncwarp()

    x, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    pipe[1, 64](x, out)
    assert (out == 2 * x).all()


@pytest.mark.parametrize("first", [0, 1])
def test_handshake_of_two_blocks(seed, first):
    @cuda.jit
    def handshake(flag, log):
        mine = cuda.blockIdx.x != first
        for step in range(3):
            await_value(flag, 0, 2 * step + mine)
            log[2 * step + mine] = cuda.blockIdx.x
            cuda.threadfence()
            cuda.atomic.add(flag, 0, 1)

    log = np.full(6, -1)
    handshake[2, 1](ints(1), log)
    assert log.tolist() == [first, 1 - first] * 3


@pytest.mark.parametrize("numbered", [True, False], ids=["by_counter", "by_block_index"])
def test_look_back_scan(seed, numbered):
    @cuda.jit
    def scan(x, out, counter, state, total):
        number = cuda.shared.array(1, np.int32)
        before = cuda.shared.array(1, np.int32)
        t = cuda.threadIdx.x
        if t == 0:
            number[0] = cuda.atomic.add(counter, 0, 1) if numbered else cuda.blockIdx.x
        cuda.syncthreads()
        b = number[0]
        if t == 0:
            before[0] = 0
            if b > 0:
                while cuda.atomic.add(state, b - 1, 0) == 0:
                    pass
                cuda.threadfence()
                before[0] = total[b - 1]
            own = 0
            for k in range(4):
                own += x[b * 4 + k]
            total[b] = before[0] + own
            cuda.threadfence()
            cuda.atomic.exch(state, b, 1)
        cuda.syncthreads()
        running = before[0]
        for k in range(t + 1):
            running += x[b * 4 + k]
        out[b * 4 + t] = running

    x, out = np.arange(80, dtype=np.int32), ints(80)
    scan[20, 4](x, out, ints(1), ints(20), ints(20))
    assert (out == np.cumsum(x)).all()


def test_grid_barrier_made_of_atomics(seed):
    @cuda.jit
    def shift(arrived, x, out):
        i = cuda.grid(1)
        x[i] = i
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            cuda.threadfence()
            cuda.atomic.add(arrived, 0, 1)
            await_value(arrived, 0, cuda.gridDim.x)
        cuda.syncthreads()
        out[i] = x[(i + 8) % x.size]

    out = np.full(40, -1)
    shift[5, 8](ints(1), np.zeros(40), out)
    assert (out == (np.arange(40) + 8) % 40).all()


def test_ticket_lock_hands_over_in_the_order_of_tickets(seed):
    @cuda.jit
    def tickets(next_ticket, serving, order):
        mine = cuda.atomic.add(next_ticket, 0, 1)
        await_value(serving, 0, mine)
        order[mine] = cuda.grid(1)
        cuda.threadfence()
        cuda.atomic.add(serving, 0, 1)

    order = np.full(40, -1)
    tickets[2, 20](ints(1), ints(1), order)
    assert sorted(order) == list(range(40))


def test_sleeping_block_lets_other_blocks_run(seed):
    @cuda.jit
    def relay(flag, out):
        b = cuda.blockIdx.x
        while cuda.atomic.add(flag, b, 0) == 0:
            cuda.nanosleep(100)
        out[b] = 1
        if b > 0:
            cuda.atomic.exch(flag, b - 1, 1)

    flag, out = ints(6), ints(6)
    flag[5] = 1
    relay[6, 1](flag, out)
    assert out.all()


def test_polling_of_several_flags_by_turns_lets_others_run(seed):
    @cuda.jit
    def any_of(flags, out):
        if cuda.blockIdx.x == 0:
            found = -1
            while found < 0:
                for i in range(3):
                    if cuda.atomic.add(flags, i, 0) != 0:
                        found = i
            out[0] = found
        elif cuda.blockIdx.x == 3:
            cuda.atomic.exch(flags, 1, 1)

    out = ints(1)
    any_of[4, 1](ints(3), out)
    assert out[0] == 1


def test_polling_by_one_lane_for_its_warp_lets_others_run(seed):
    @cuda.jit
    def broadcast(flag, out):
        t = cuda.threadIdx.x
        if cuda.blockIdx.x == 0:
            seen = 0
            while seen == 0:
                if t == 0:
                    seen = cuda.atomic.max(flag, 0, 0)
                seen = cuda.shfl_sync(FULL, seen, 0)
            out[t] = seen
        elif t == 0:
            cuda.atomic.exch(flag, 0, 7)

    out = ints(32)
    broadcast[2, 32](ints(1), out)
    assert (out == 7).all()


def test_blocks_put_aside_keep_index_shared_memory_and_dimensions(seed):
    @cuda.jit
    def keep(flag, out):
        mine = cuda.shared.array(4, np.int32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        mine[2 * y + x] = cuda.blockIdx.y * 100 + 10 * y + x
        cuda.syncthreads()
        if x == 0 and y == 0:
            cuda.atomic.add(flag, 0, 1)
        await_value(flag, 0, cuda.gridDim.y)
        out[cuda.blockIdx.y, cuda.threadIdx.y, cuda.threadIdx.x] = mine[2 * y + x]

    out = np.full((3, 2, 2), -1)
    keep[(1, 3), (2, 2)](ints(1), out)
    b, y, x = np.indices(out.shape)
    assert (out == b * 100 + 10 * y + x).all()


def test_bounded_attempts_end_though_nobody_can_change_the_flag():
    @cuda.jit
    def try_for_a_while(flag, out):
        tries = 0
        for _ in range(1000):
            tries += 1
            if cuda.atomic.add(flag, 0, 0) != 0:
                return
        out[cuda.grid(1)] = tries

    out = ints(4)
    try_for_a_while[2, 2](ints(1), out)
    assert (out == 1000).all()


def test_thread_whose_element_stays_is_passed_over_but_not_for_ever():
    grid = Grid(lambda: None, (), ((1, 1, 1), (1, 1, 1)), 0, None)
    block = Block(grid, (0, 0, 0), 0)
    poll = Poll(SimpleNamespace(data=np.zeros(1)), 0, 0)
    block.polling.append(Waiter(None, 0, None, poll))
    asked = [block.ask(everyone=False) for _ in range(1000)]
    assert 100 < asked.index(True) < 500
    assert [waiter.value for waiter in block.ready] == [poll]


def test_loop_on_memory_that_a_sleeper_still_changes_goes_on():
    @cuda.jit
    def counts(x):
        if cuda.blockIdx.x == 0:
            while x[0] < 50:
                cuda.nanosleep(10)
            x[1] = 1
        else:
            while x[1] == 0:
                x[0] += 1
                cuda.nanosleep(10)

    x = ints(2)
    counts[2, 1](x)
    assert x[1] == 1


def test_maximum_that_stays_is_no_poll():
    """Only repeats count: else each thread of a search would stay alive beside all others."""
    seen = []

    @cuda.jit
    def largest(x, best):
        seen.append(cuda.grid(1))
        for k in range(60):
            cuda.atomic.max(best, 0, x[cuda.grid(1), k])
        seen.append(cuda.grid(1))

    x = np.random.default_rng(0).random((64, 60))
    best = np.array([2.0])
    largest[2, 32](x, best)
    assert seen == [i // 2 for i in range(128)], "one thread after the other"


# Nobody can end the wait


def deadlock(launch, *args):
    with pytest.raises(DeadlockError) as caught:
        launch(*args)
    return str(caught.value)


@pytest.mark.parametrize("schedule", [0, 3])
def test_spin_on_a_thread_that_returned_names_both_lines(schedule, line_of):
    @cuda.jit
    def early(flag, n):
        t = cuda.threadIdx.x
        if t >= n:
            return
        if t == 40:
            cuda.atomic.exch(flag, 3, 1)
        if t == 0:
            while cuda.atomic.add(flag, 3, 0) == 0:
                pass

    with simt.schedule(schedule):
        early[1, 64](ints(5), 64)
        message = deadlock(early[1, 64], ints(5), 32)
    spin, left = line_of(early, "while"), line_of(early, "return")
    assert message.startswith(
        f"early, block 0, thread 0, line {spin}: waits for flag[3] (now 0) to change; "
        "no thread that could still run writes it; 63 threads of the block (first 1) left the "
        f"kernel at its end or by the return on line {left}. "
    )
    assert message.endswith(f"\n    {spin} | while cuda.atomic.add(flag, 3, 0) == 0:")


def test_spin_on_a_block_that_returned_names_the_return(line_of):
    @cuda.jit
    def early(flag, n):
        if cuda.blockIdx.x >= n:
            return
        if cuda.blockIdx.x == 0:
            await_value(flag, 0, 1)
        else:
            cuda.atomic.exch(flag, 0, 1)

    early[2, 1](ints(1), 2)
    message = deadlock(early[2, 1], ints(1), 1)
    left = line_of(early, "return")
    assert f"1 block has left the kernel at its end or by the return on line {left}" in message
    assert f"called from early, line {line_of(early, 'await_value')}: waits for" in message


def test_spin_on_a_thread_behind_the_barrier_names_the_barrier(line_of):
    @cuda.jit
    def crossed(flag):
        t = cuda.threadIdx.x
        if t == 5:
            while cuda.atomic.add(flag, 0, 0) == 0:
                cuda.nanosleep(20)
        cuda.syncthreads()
        if t == 40:
            cuda.atomic.exch(flag, 0, 1)

    message = deadlock(crossed[1, 64], ints(1))
    assert "waits for flag[0] (now 0) to change" in message
    assert f"at the barrier wait 63 on line {line_of(crossed, 'syncthreads')}" in message


def test_two_locks_in_opposite_order_name_both_threads(line_of):
    @cuda.jit
    def opposite(lock):
        b = cuda.blockIdx.x
        acquire(lock, b)
        for _ in range(3):
            cuda.nanosleep(10)  # meanwhile the other block takes its own
        acquire(lock, 1 - b)
        release(lock, 1 - b)
        release(lock, b)

    message = deadlock(opposite[2, 1], ints(2))
    assert "block 0, thread 0, in acquire, line" in message
    assert "waits for lock[1] (now 1) to change" in message
    assert "1 more thread waits in a loop (block 1, thread 0 for lock[0] (now 1), line" in message


def test_spin_on_blocks_that_have_not_started_counts_them(monkeypatch):
    @cuda.jit
    def all_meet(arrived):
        cuda.atomic.add(arrived, 0, 1)
        await_value(arrived, 0, cuda.gridDim.x)

    monkeypatch.setattr(device, "resident_blocks", lambda threads: 4)
    all_meet[4, 1](ints(1))
    message = deadlock(all_meet[7, 1], ints(1))
    assert "waits for flag[0] (now 4)" in message or "waits for arrived[0] (now 4)" in message
    assert "3 blocks that have not started can't run before a resident one ends" in message
    assert "the device holds 4 blocks of 1 threads" in message


def test_spin_against_a_grid_sync_names_both(line_of):
    @cuda.jit
    def mixed(flag):
        if cuda.threadIdx.x == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        cuda.cg.this_grid().sync()
        cuda.atomic.exch(flag, 0, 1)

    message = deadlock(mixed[2, 4], ints(1))
    assert f"at the grid sync wait 3 on line {line_of(mixed, 'sync()')}" in message


def test_shuffle_from_a_lane_that_returned_names_both_lines(line_of):
    @cuda.jit
    def early(out):
        t = cuda.threadIdx.x
        if t >= 20:
            return
        out[t] = cuda.shfl_down_sync(FULL, t, 4)

    with pytest.raises(WarpError) as caught:
        early[1, 32](np.zeros(32))
    assert f"thread 16, line {line_of(early, 'shfl')}: lane 16 reads from lane 20" in str(
        caught.value
    )
    assert f"by the return on line {line_of(early, 'return')}" in str(caught.value)


def test_sleep_on_a_plain_load_that_nobody_ends_names_the_element():
    @cuda.jit
    def sleeps(flag):
        while flag[2] == 0:
            cuda.nanosleep(10)

    assert "waits for flag[2] (now 0) to change" in deadlock(sleeps[2, 2], ints(4))


def test_polling_of_several_flags_that_nobody_sets_is_a_deadlock():
    @cuda.jit
    def any_of(flags):
        while True:
            for i in range(5):
                if cuda.atomic.add(flags, i, 0) != 0:
                    return

    assert "no thread that could still run writes it" in deadlock(any_of[2, 1], ints(5))


def test_launch_after_a_deadlock_works():
    @cuda.jit
    def maybe(flag, out):
        tile = cuda.shared.array(4, np.int32)
        tile[cuda.threadIdx.x] = 1
        if cuda.threadIdx.x == 0:
            await_value(flag, 0, 1)
        cuda.syncthreads()
        out[cuda.grid(1)] = tile[3]

    out = ints(8)
    deadlock(maybe[2, 4], ints(1), out)
    assert not out.any()
    maybe[2, 4](np.ones(1, np.int32), out)
    assert out.all()
