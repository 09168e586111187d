"""Block and grid barriers: what they do, and what is said when threads miss them."""

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.errors import LearnerError
from kernelbook.simt import BarrierError, DeadlockError, KernelError, LaunchError, device


def test_syncthreads_orders_shared_memory():
    @cuda.jit
    def rotate(x):
        tile = cuda.shared.array(64, np.int32)
        t = cuda.threadIdx.x
        for _ in range(3):
            tile[t] = x[t]
            cuda.syncthreads()
            x[t] = tile[(t + 1) % 64]
            cuda.syncthreads()

    x = np.arange(64, dtype=np.int32)
    rotate[1, 64](x)
    assert (x == (np.arange(64) + 3) % 64).all()


def test_syncthreads_in_a_device_function_called_twice():
    @cuda.jit(device=True)
    def publish(tile, t, value):
        tile[t] = value
        cuda.syncthreads()

    @cuda.jit
    def neighbours(x):
        tile = cuda.shared.array(8, np.int32)
        t = cuda.threadIdx.x
        publish(tile, t, t)
        right = tile[(t + 1) % 8]
        cuda.syncthreads()
        publish(tile, t, right * 10)
        x[t] = tile[(t + 1) % 8]

    x = np.zeros(8)
    neighbours[1, 8](x)
    assert x.tolist() == [20, 30, 40, 50, 60, 70, 0, 10]


@pytest.mark.parametrize("threads", [1, 5, 33])
def test_syncthreads_predicates_combine_over_the_block(threads):
    @cuda.jit
    def predicates(out):
        t = cuda.threadIdx.x
        count = cuda.syncthreads_count(t % 2 == 0)
        every = cuda.syncthreads_and(t < 5)
        some = cuda.syncthreads_or(t == 4)
        out[t, 0], out[t, 1], out[t, 2] = count, every, some

    out = np.full((threads, 3), -1)
    predicates[1, threads](out)
    assert (out == [(threads + 1) // 2, threads <= 5, threads >= 5]).all()


def test_block_that_returns_before_the_barrier_as_a_whole_is_fine():
    @cuda.jit
    def blocks(out):
        if cuda.blockIdx.x == 1:
            return
        cuda.syncthreads()
        out[cuda.grid(1)] = 1

    out = np.zeros(12)
    blocks[3, 4](out)
    assert out.tolist() == [1] * 4 + [0] * 4 + [1] * 4


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_barrier_waits_for_the_threads_that_have_not_returned(seed):
    @cuda.jit
    def guarded(x):
        i = cuda.grid(1)
        tile = cuda.shared.array(64, np.float32)
        if i >= x.size:
            return
        tile[cuda.threadIdx.x] = i
        cuda.syncthreads()
        x[i] = tile[0]
        cuda.syncthreads()
        x[i] += 1

    x = np.zeros(100)
    with simt.schedule(seed):
        guarded[2, 64](x)
    assert (x == np.where(np.arange(100) < 64, 1, 65)).all()


def test_barrier_is_complete_when_the_last_missing_thread_returns():
    @cuda.jit
    def leaves_late(out):
        t = cuda.threadIdx.x
        if t < 8:
            cuda.nanosleep(10)
            cuda.nanosleep(10)
            out[t] = 1
            return
        out[t] = cuda.syncthreads_count(True)

    out = np.zeros(16)
    leaves_late[1, 16](out)
    assert out.tolist() == [1] * 8 + [8] * 8


def test_predicates_combine_over_the_threads_that_have_not_returned():
    @cuda.jit
    def predicates(out):
        t = cuda.threadIdx.x
        if t >= 20:
            return
        count = cuda.syncthreads_count(True)
        every = cuda.syncthreads_and(t < 20)
        some = cuda.syncthreads_or(t >= 20)
        out[t, 0], out[t, 1], out[t, 2] = count, every, some

    out = np.full((48, 3), -1)
    predicates[1, 48](out)
    assert (out[:20] == [20, 1, 0]).all()
    assert (out[20:] == -1).all()


def test_barrier_in_a_branch_beside_an_early_return_still_meets_one_place():
    @cuda.jit
    def divergent(x):
        t = cuda.threadIdx.x
        if t == 0:
            return
        if t < 3:
            cuda.syncthreads()
        x[t] = 1
        cuda.syncthreads()

    with pytest.raises(BarrierError, match=r"2 on line .* 5 on line"):
        divergent[1, 8](np.zeros(8))


def test_barrier_in_a_branch_is_reported_with_the_threads_that_left(line_of):
    @cuda.jit
    def branch(x):
        if cuda.threadIdx.x < 3:
            cuda.syncthreads()
        x[0] = 1

    with pytest.raises(BarrierError, match=r"3 of 8 threads reached .* 5 threads \(first 3\) left"):
        branch[1, 8](np.zeros(1))


def test_barrier_at_two_call_sites_is_reported_with_both_lines(line_of):
    @cuda.jit
    def divergent(x):
        if cuda.threadIdx.x % 2:
            x[0] = 1
            cuda.syncthreads()  # odd
        else:
            cuda.syncthreads()  # even

    with pytest.raises(BarrierError) as caught:
        divergent[1, (4, 2)](np.zeros(1))
    odd, even = line_of(divergent, "# odd"), line_of(divergent, "# even")
    assert f"4 on line {odd} (first thread (1,0)), 4 on line {even}" in str(caught.value)


def test_barrier_in_a_loop_of_uneven_length_is_reported():
    @cuda.jit
    def uneven(x):
        for _ in range(cuda.threadIdx.x + 1):
            cuda.syncthreads()

    with pytest.raises(BarrierError, match=r"3 of 4 threads reached .* 1 thread \(0\) left"):
        uneven[1, 4](np.zeros(1))


def test_launch_after_a_barrier_error_works():
    @cuda.jit
    def maybe(x, limit):
        if cuda.threadIdx.x < limit:
            cuda.syncthreads()
        x[cuda.threadIdx.x] = 1

    x = np.zeros(8)
    with pytest.raises(BarrierError):
        maybe[1, 8](x, 3)
    assert not x.any(), "a launch that failed copies nothing back"
    maybe[1, 8](x, 8)
    assert x.all()


def test_error_in_one_thread_ends_the_others_that_wait():
    left = []
    # Without source that Python can find: a kernel may not have a try, and here it is the witness.
    space = {"cuda": cuda, "left": left}
    exec(
        "@cuda.jit\n"
        "def fails(x):\n"
        "    try:\n"
        "        cuda.syncthreads()\n"
        "        if cuda.threadIdx.x == 2:\n"
        "            x[99] = 0\n"
        "        cuda.syncthreads()\n"
        "    finally:\n"
        "        left.append(1)\n",
        space,
    )
    with pytest.raises(IndexError, match="thread 2"):
        space["fails"][1, 8](np.zeros(8))
    assert len(left) == 8


def test_grid_sync_orders_blocks():
    @cuda.jit
    def scan(x, out):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        for _ in range(3):
            left = x[i - 1] if i > 0 else 0
            grid.sync()
            x[i] += left
            grid.sync()
        out[i] = x[x.size - 1 - i]

    x, out = np.ones(12, np.int32), np.zeros(12, np.int32)
    expected = np.ones(12, np.int32)
    for _ in range(3):
        expected[1:] += expected[:-1].copy()
    scan[4, 3](x, out)
    assert (x == expected).all()
    assert (out == expected[::-1]).all()


def test_grid_sync_keeps_each_blocks_shared_memory_and_index():
    @cuda.jit
    def keep(out):
        mine = cuda.shared.array(1, np.int32)
        mine[0] = cuda.blockIdx.x
        cuda.cg.this_grid().sync()
        out[cuda.blockIdx.x] = mine[0]

    out = np.full(3, -1)
    keep[3, 1](out)
    assert out.tolist() == [0, 1, 2]


def test_grid_sync_that_a_block_misses_is_a_deadlock(line_of):
    @cuda.jit
    def partial(x):
        if cuda.blockIdx.x == 1:
            cuda.cg.this_grid().sync()

    with pytest.raises(
        DeadlockError, match=r"block 1: 4 threads wait .* 2 blocks of the grid"
    ) as e:
        partial[3, 4](np.zeros(1))
    assert f"line {line_of(partial, 'sync()')}" in str(e.value)


def test_grid_sync_names_the_early_return_that_skips_it(line_of):
    @cuda.jit
    def guarded(x):
        i = cuda.grid(1)
        if i >= x.size:
            return
        cuda.cg.this_grid().sync()
        x[i] = 1

    with pytest.raises(DeadlockError) as caught:
        guarded[2, 8](np.zeros(12))
    left, sync = line_of(guarded, "return"), line_of(guarded, "sync()")
    assert f"block 1: the threads wait for each other: 4 on line {sync}" in str(caught.value)
    assert "4 threads (first 4) left the kernel without passing it" in str(caught.value)
    assert f"by the return on line {left}. " in str(caught.value)
    with pytest.raises(DeadlockError, match=f"1 block .* never reached, by the return .* {left}"):
        guarded[3, 8](np.zeros(16))


def test_grid_sync_against_block_barrier_is_a_deadlock():
    @cuda.jit
    def mixed(x):
        if cuda.threadIdx.x == 0:
            cuda.cg.this_grid().sync()
        else:
            cuda.syncthreads()

    with pytest.raises(DeadlockError, match=r"1 on line .*\(grid sync\); 3 on line .*\(block barr"):
        mixed[1, 4](np.zeros(1))


def test_nanosleep_lets_the_others_run():
    @cuda.jit
    def spin(flag, out):
        if cuda.threadIdx.x == 0:
            while flag[0] == 0:
                cuda.nanosleep(100)
            out[0] = flag[0]
        elif cuda.threadIdx.x == 3:
            flag[0] = 5

    out = np.zeros(1)
    spin[1, 4](np.zeros(1), out)
    assert out[0] == 5


def test_nanosleep_after_a_barrier_lets_the_others_run():
    @cuda.jit
    def spin(flag):
        cuda.syncthreads()
        if cuda.threadIdx.x == 0:
            while flag[0] == 0:
                cuda.nanosleep(100)
        elif cuda.threadIdx.x == 3:
            cuda.nanosleep(100)
            flag[0] = 5

    flag = np.zeros(1)
    spin[1, 4](flag)
    assert flag[0] == 5


def test_grid_sync_of_more_blocks_than_fit_is_refused(monkeypatch):
    @cuda.jit
    def sync(x):
        cuda.cg.this_grid().sync()

    monkeypatch.setattr(device, "resident_blocks", lambda threads: 4)
    sync[4, 512](np.zeros(1))
    with pytest.raises(LaunchError, match=r"5 blocks of 512 threads .* which holds 4 of them"):
        sync[5, 512](np.zeros(1))


def test_threadfences_are_accepted():
    @cuda.jit
    def fences(x):
        cuda.threadfence()
        cuda.threadfence_block()
        cuda.threadfence_system()
        x[0] = 1

    x = np.zeros(1)
    fences[1, 1](x)
    assert x[0] == 1


def test_python_exception_names_place_and_cause(line_of):
    @cuda.jit
    def broken(x):
        i = cuda.grid(1)
        if i == 5:
            x[i] = undefined_name  # noqa: F821

    with pytest.raises(KernelError) as caught:
        broken[2, 4](np.zeros(8))
    line = line_of(broken, "undefined_name")
    assert str(caught.value).startswith(
        f"broken, block 1, thread 1, line {line}: NameError: name 'undefined_name' is not defined. "
        "A kernel knows its parameters, and constants defined before it is launched: pass it in"
    )
    assert f"\n    {line} | x[i] = undefined_name" in str(caught.value)
    assert isinstance(caught.value.__cause__, NameError)


def test_errors_show_in_a_notebook_as_one_message():
    @cuda.jit
    def broken(x):
        x[1] = 0

    with pytest.raises(LearnerError) as caught:
        broken[1, 1](np.zeros(1))
    (shown,) = caught.value._render_traceback_()
    assert shown.startswith("BoundsError: broken, block 0, thread 0, line ")
