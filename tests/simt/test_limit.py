"""The time limit of a launch, and what an interrupt leaves behind."""

import signal
import threading

import numpy as np
import pytest
from numba import cuda

from kernelbook.simt import DeadlockError, LaunchError, LaunchInterrupted, TimeLimitError


@cuda.jit
def forgets_to_count(x):
    i = cuda.grid(1)
    for _ in range(2):
        cuda.syncthreads()
    while i < x.size:
        for j in range(2):
            x[i] = j


@cuda.jit
def halves_for_ever(x):
    half = cuda.blockDim.x // 2
    while half >= 0:
        cuda.syncthreads()
        half //= 2


@cuda.jit(device=True)
def spins(x):
    while x[0] == 0:
        cuda.nanosleep(1)


@cuda.jit
def calls_spinner(x):
    spins(x)


@cuda.jit
def counts(x):
    cuda.syncthreads()
    cuda.syncwarp()
    x[cuda.grid(1)] += 1


def works():
    x = np.zeros(8)
    counts[2, 4](x)
    return bool((x == 1).all())


def timer():
    return signal.getsignal(signal.SIGVTALRM), signal.getitimer(signal.ITIMER_VIRTUAL)


@pytest.fixture
def a_moment(monkeypatch):
    monkeypatch.setenv("KERNELBOOK_LAUNCH_SECONDS", "0.1")


def test_endless_loop_is_ended_and_its_first_line_named(a_moment, line_of):
    before, x = timer(), np.zeros(8)
    with pytest.raises(TimeLimitError) as caught:
        forgets_to_count[1, 8](x)
    line = line_of(forgets_to_count, "while")
    assert str(caught.value) == (
        f"forgets_to_count, block 0, thread 0, line {line}: still running after 0.1 s. Does the "
        f"loop on this line ever end?\n    {line} | while i < x.size:"
    )
    assert timer() == before
    assert works()
    assert not x.any()


def test_endless_loop_with_a_barrier_names_the_kernels_loop_and_nothing_of_the_host(
    monkeypatch, line_of
):
    monkeypatch.setenv("KERNELBOOK_LAUNCH_SECONDS", "0.01")
    said = set()
    for _ in range(20):  # the signal may find the scheduler at work, whose caller is this function
        with pytest.raises(TimeLimitError) as caught:
            halves_for_ever[1, 2](np.zeros(1))
        said.add(str(caught.value).partition(": ")[0].partition("line")[2])
    assert said == {f" {line_of(halves_for_ever, 'while')}"}


def test_endless_loop_of_sleeping_threads_in_a_device_function_is_a_deadlock(line_of):
    with pytest.raises(DeadlockError) as caught:
        calls_spinner[1, 4](np.zeros(1))
    place = f"in spins, line {line_of(spins, 'nanosleep')}, called from calls_spinner, line "
    assert place in str(caught.value)
    assert "waits for x[0] (now 0.0) to change; no thread that could still run" in str(caught.value)
    assert works()


def test_endless_loop_on_a_plain_load_names_the_element_and_the_way_out(a_moment, line_of):
    @cuda.jit
    def waits(flags, ready):
        row = cuda.threadIdx.x
        while ready == 1:
            if flags[row, row + 1] != 0:
                break

    with pytest.raises(TimeLimitError) as caught:
        waits[1, 4](np.zeros((4, 5), np.int32), 1)
    line = line_of(waits, "while")
    assert str(caught.value).startswith(
        f"waits, block 0, thread 0, line {line}: still running after 0.1 s: waits for flags[0, 1] "
        "to change from 0. A plain load in a loop waits for ever"
    )
    assert "Let an atomic read it: cuda.atomic.add(flags, (0, 1), 0)\n" in str(caught.value)


def test_endless_loop_that_walks_through_an_array_is_not_said_to_wait(a_moment):
    @cuda.jit
    def walks(following):
        i = 0
        while following[i] >= 0:
            i = following[i]

    with pytest.raises(TimeLimitError, match="Does the loop on this line ever end"):
        walks[1, 1](np.array([1, 0]))


def test_launch_of_too_many_blocks_is_told_how_many_are_done(a_moment):
    with pytest.raises(TimeLimitError, match=r"[\d,]+ of 1,000,000 blocks are done.*launch fewer"):
        counts[1_000_000, 1](np.zeros(1_000_000))


def test_limit_of_zero_sets_no_timer(monkeypatch):
    seen = []

    @cuda.jit
    def looks(x):
        handler = signal.getsignal(signal.SIGVTALRM)
        seen.append((handler, signal.getitimer(signal.ITIMER_VIRTUAL)))
        x[0] = 1

    monkeypatch.setenv("KERNELBOOK_LAUNCH_SECONDS", "0")
    looks[1, 1](np.zeros(1))
    monkeypatch.delenv("KERNELBOOK_LAUNCH_SECONDS")
    looks[1, 1](np.zeros(1))
    assert seen[0] == (signal.SIG_DFL, (0.0, 0.0))
    assert 9 < seen[1][1][0] < 10.1


@pytest.mark.parametrize("text", ["soon", "-1", "inf"])
def test_limit_that_is_no_number_of_seconds_is_refused(monkeypatch, text):
    monkeypatch.setenv("KERNELBOOK_LAUNCH_SECONDS", text)
    with pytest.raises(LaunchError, match="KERNELBOOK_LAUNCH_SECONDS"):
        works()


def test_timer_of_somebody_else_is_left_alone(a_moment):
    def theirs(*_):
        raise AssertionError

    signal.signal(signal.SIGVTALRM, theirs)
    try:
        assert works()
        assert signal.getsignal(signal.SIGVTALRM) is theirs
    finally:
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def test_launch_from_another_thread_runs_without_a_limit(a_moment):
    done = []
    thread = threading.Thread(target=lambda: done.append(works()))
    thread.start()
    thread.join()
    assert done == [True]


def test_interrupt_shows_the_kernels_line_only_and_the_next_launch_works(line_of):
    @cuda.jit
    def interrupted(x):
        cuda.syncthreads()
        cuda.syncwarp()
        if cuda.threadIdx.x == 2:
            signal.raise_signal(signal.SIGINT)
        cuda.syncthreads()

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted[1, 8](np.zeros(1))
    line = line_of(interrupted, "raise_signal")
    assert isinstance(caught.value, LaunchInterrupted)
    (shown,) = caught.value._render_traceback_()
    assert shown.startswith(
        f"KeyboardInterrupt: interrupted, block 0, thread 2, line {line}: interrupted; nothing was"
    )
    assert "\n" in shown
    assert shown.count("\n") == 1
    assert works()
