"""Launch configurations: dimensions, limits, forall, streams."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import KernelError, LaunchError, seam


@cuda.jit
def count(counter):
    cuda.atomic.add(counter, 0, 1)


def threads(grid, block) -> int:
    counter = np.zeros(1, np.int64)
    count[grid, block](counter)
    return int(counter[0])


@pytest.mark.parametrize(
    ("grid", "block", "expected"),
    [
        (3, 5, 15),
        ((3,), (5,), 15),
        ([2, 3], [4, 2], 48),
        ((2, 3, 2), (4, 2, 3), 288),
        (np.int64(2), (np.int32(3), 2), 12),
    ],
    ids=["ints", "one_tuples", "two_dims_lists", "three_dims", "numpy_ints"],
)
def test_launch_runs_every_thread_once(grid, block, expected):
    assert threads(grid, block) == expected


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (0, 32, "the grid .* has no threads"),
        (1, 0, "the block .* has no threads"),
        (-1, 32, "the grid .* has no threads"),
        (1, 1025, "the block's x is 1,025, the limit is 1,024"),
        (1, (32, 33), "has 1,056 threads, the limit is 1,024"),
        (1, (1, 1, 65), "the block's z is 65, the limit is 64"),
        ((1, 65536), 1, "the grid's y is 65,536, the limit is 65,535"),
        (1, 2.0, r"made of integers, got 2\.0. Use // instead of /"),
        ((1, 1, 1, 1), 1, "1, 2 or 3 dimensions"),
        (None, 1, "made of integers"),
    ],
)
def test_launch_outside_limits_names_the_limit(grid, block, message):
    with pytest.raises(LaunchError, match=message) as caught:
        threads(grid, block)
    assert str(caught.value).startswith("count: ")


@pytest.mark.parametrize("configuration", [4, (4,), (1, 1, 0, 0, 0)])
def test_configuration_of_wrong_length_says_how(configuration):
    with pytest.raises(LaunchError, match=r"count\[blocks_per_grid, threads_per_block\]"):
        count[configuration]


def test_configuration_takes_stream_and_dynamic_shared_bytes():
    counter = np.zeros(1, np.int64)
    stream = cuda.stream()
    count[1, 2, stream](counter)
    count[1, 2, stream, 1024](counter)
    count.configure(1, 2, stream, sharedmem=64)(counter)
    assert counter[0] == 6


def test_dynamic_shared_over_the_limit_is_refused():
    with pytest.raises(LaunchError, match="49,153 bytes of dynamic shared memory, the limit"):
        count[1, 1, 0, 48 * 1024 + 1]


def test_configured_kernel_can_be_launched_again():
    launch = count[2, 2]
    counter = np.zeros(1, np.int64)
    launch(counter)
    launch(counter)
    assert counter[0] == 8


def test_two_configurations_of_one_kernel_do_not_mix():
    small, large = count[1, 2], count[1, 5]
    counter = np.zeros(1, np.int64)
    small(counter)
    assert counter[0] == 2
    large(counter)
    assert counter[0] == 7


def test_launches_from_two_operating_system_threads_do_not_mix():
    @cuda.jit
    def slow(out):
        t = cuda.threadIdx.x
        for _ in range(200):
            cuda.syncthreads()
        out[t] = t + cuda.blockDim.x

    def work(size):
        out = cuda.to_device(np.zeros(size))
        for _ in range(3):
            slow[1, size](out)
        return out.copy_to_host()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(work, [8, 16, 8, 16]))
    finally:
        sys.setswitchinterval(before)
    for result in results:
        assert (result == np.arange(result.size) + result.size).all()


@pytest.mark.parametrize("tasks", [0, 1, 255, 257])
def test_forall_covers_all_tasks(tasks):
    @cuda.jit
    def mark(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] += 1

    x = np.zeros(300)
    mark.forall(tasks, tpb=64)(x)
    assert x[:tasks].all()
    mark.forall(tasks)(x)
    with pytest.raises(ValueError, match="negative task count"):
        mark.forall(-1)


@pytest.fixture
def diagnosed_on_request(monkeypatch):
    """As before a lab is imported: no launch is judged unless ``diagnosis()`` says so."""
    monkeypatch.setattr(type(seam.settings), "always", False)
    monkeypatch.setattr(seam.settings, "chosen", None)


@pytest.mark.usefixtures("diagnosed_on_request")
def test_diagnosis_observation_and_schedule_are_those_of_one_operating_system_thread():
    @cuda.jit
    def race(out):
        out[0] = cuda.threadIdx.x

    def launch():
        race[1, 2](np.zeros(1))

    with ThreadPoolExecutor(1) as pool, simt.schedule(3), simt.observe() as trace:
        with simt.diagnosis():
            pool.submit(launch).result()
            assert pool.submit(seam.next_schedule).result() == 0
            with pytest.raises(simt.RaceError):
                launch()
        assert len(trace.recording) == 2


@pytest.mark.usefixtures("diagnosed_on_request")
def test_diagnosis_that_ends_in_another_order_than_it_began_leaves_nothing_behind():
    def judged(begin, end):
        with simt.diagnosis():
            begin.wait()
            end.wait()

    begin, end = Barrier(2), Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(judged, begin, end) for _ in range(2)]
        for task in tasks:
            task.result()
    assert not seam.settings.diagnosing
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(lambda: seam.settings.diagnosing).result()


@pytest.mark.usefixtures("diagnosed_on_request")
def test_diagnosis_for_always_holds_in_every_operating_system_thread():
    simt.diagnose_always()
    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lambda: seam.settings.diagnosing).result()
            with simt.diagnosis(False):
                assert not seam.settings.diagnosing
    finally:
        simt.diagnose_always(False)
    assert not seam.settings.diagnosing


def test_endless_recursion_names_only_the_ends_of_the_chain():
    @cuda.jit(device=True)
    def again(n):
        return again(n + 1)

    @cuda.jit
    def kernel(out):
        out[0] = again(1)

    with pytest.raises(KernelError, match=r"called from [\d,]+ more calls, called from") as caught:
        kernel[1, 1](np.zeros(1))
    assert len(str(caught.value)) < 600
