"""What is said of a race: both threads, both lines, the reason and the advice."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from numba import cuda
from recordings import Builder

from kernelbook import simt
from kernelbook.simt.errors import RaceError
from kernelbook.simt.races import suspects
from kernelbook.simt.record import Kind
from kernelbook.simt.touches import touches_of
from kernelbook.simt.verdict import first_defect

SOURCE = """
def kernel(x, out):
    tile[t] = x[t]
    value = tile[t + 1]
    tile[t] += tile[t + s]
    out[0] += value
    cuda.atomic.add(out, 0, value)
    cuda.threadfence()
    if value > out[0]:
        out[0] = value
"""


def launch(grid=1, block=64):
    made = Builder(SOURCE, grid, block)
    x, out = made.array("x", 64), made.array("out", 64)
    return made, x, out, made.array("tile", 64, space="shared", block=0)


def fence(made, thread, kind=Kind.FENCE):
    made._row(kind, thread, 7, 0, 0, -1)


def said(made, used=True):
    recording = made.recording()
    sites = tuple(dataclasses.replace(s, result_used=used) for s in recording.sites)
    error = first_defect(dataclasses.replace(recording, sites=sites))
    assert isinstance(error, simt.RaceError)
    return error


def test_race_missing_barrier_names_both_threads_and_lines():
    made, _, _, tile = launch()
    made.store(35, tile, 35, 2)
    made.store(3, tile, 3, 2)
    made.load(3, tile, 35, 3)
    error = said(made)
    assert str(error) == (
        "kernel, block 0, thread 3, line 3: reads tile[35], which thread 35 writes on line 2, with "
        "no barrier between. Put cuda.syncthreads() between the two lines.\n"
        "    2 | tile[t] = x[t]\n"
        "    3 | value = tile[t + 1]"
    )
    assert (error.first, error.second, error.element, error.more) == (0, 2, "tile[35]", 0)


def test_race_error_survives_pickling():
    made, _, _, tile = launch()
    made.store(0, tile, 0, 2)
    made.store(1, tile, 0, 2)
    error = said(made)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.first, copy.second) == (str(error), 0, 1)


def test_read_before_the_racing_store_is_a_race_and_not_an_unwritten_read():
    made, _, _, tile = launch()
    made.load(3, tile, 35, 3)
    made.store(35, tile, 35, 2)
    error = said(made)
    assert (error.first, error.second) == (0, 1)
    assert "thread 3, line 3: reads tile[35], which thread 35 writes on line 2" in str(error)


def test_race_on_many_elements_counts_them():
    made, _, _, tile = launch(block=32)
    for t in range(8):
        made.store(t, tile, t, 2)
    for t in range(8):
        made.load(t, tile, 7 - t, 3)
    made.load(30, tile, 0, 4)  # another pair of lines
    error = said(made)
    assert error.more == 7
    assert "(likewise 7 more elements)" in str(error)


@pytest.mark.parametrize(("lane", "asked"), [(5, True), (40, False)], ids=["warp", "warps"])
def test_race_within_a_warp_advises_syncwarp(lane, asked):
    made, _, _, tile = launch()
    made.store(lane, tile, 5, 2)
    made.load(0, tile, 5, 3)
    assert ("cuda.syncwarp() or" in str(said(made))) is asked


def test_race_after_a_shuffle_says_that_it_orders_nothing():
    made, _, _, tile = launch()
    made.store(5, tile, 5, 2)
    made.sync("shfl_sync", threads=range(32), mask=0xFFFFFFFF)
    made.load(0, tile, 5, 3)
    assert "with only shfl_sync between, which orders no memory" in str(said(made))


def test_race_after_a_syncwarp_of_others_says_so():
    made, _, _, tile = launch()
    made.store(5, tile, 5, 2)
    made.sync("syncwarp", threads=range(4), mask=0xF)
    made.load(0, tile, 5, 3)
    assert "with only a syncwarp between, which does not name both" in str(said(made))


def test_race_with_a_thread_that_left_says_so():
    made, _, _, tile = launch()
    made.store(40, tile, 5, 2)
    made.sync(threads=set(range(64)) - {40})
    made.load(0, tile, 5, 3)
    error = said(made)
    assert "thread 40 writes on line 2, but leaves before the barrier" in str(error)
    assert "Let the thread return after the barrier." in str(error)


def test_race_on_one_line_in_one_turn_advises_a_variable():
    made, _, _, tile = launch()
    made.sync()
    made.load(40, tile, 40, 4)
    made.store(40, tile, 40, 4)
    made.load(0, tile, 40, 4)
    made.store(0, tile, 0, 4)
    made.allocations[tile] = dataclasses.replace(made.allocations[tile], space="global", block=-1)
    assert "Read into a variable first: put cuda.syncthreads() between" in str(said(made))


def test_race_on_one_line_in_another_turn_advises_a_barrier_between_turns():
    made, _, _, tile = launch()
    made.allocations[tile] = dataclasses.replace(made.allocations[tile], space="global", block=-1)
    made.store(40, tile, 40, 4)
    made.load(0, tile, 41, 4)
    made.load(0, tile, 40, 4)
    assert "cuda.syncthreads() between one turn of the loop and the next." in str(said(made))


def test_race_of_increments_advises_an_atomic():
    made, _, out, _ = launch(grid=2)
    for thread in (0, 64):
        made.load(thread, out, 0, 5)
        made.store(thread, out, 0, 5)
    error = said(made)
    assert "block 1, thread 0, line 5: reads out[0], which block 0, thread 0 writes" in str(error)
    assert "use cuda.atomic.add(out, 0, …)" in str(error)


def test_race_of_compare_and_store_advises_an_atomic_maximum():
    made, _, out, _ = launch(grid=2)
    made.load(0, out, 0, 8)
    made.store(0, out, 0, 9)
    made.load(64, out, 0, 8)
    assert "use cuda.atomic.max(out, 0, …)" in str(said(made))


def test_race_of_two_stores_on_one_line_says_that_both_write():
    made, _, out, _ = launch(grid=2)
    made.store(0, out, 0, 9)
    made.store(64, out, 0, 9)
    error = str(said(made))
    assert "writes out[0], which block 0, thread 0 writes too on the same line" in error
    assert "Let one thread write it" in error


def test_plain_load_after_an_unused_atomic_advises_its_result():
    made, _, out, _ = launch()
    for thread in (0, 40):
        made.atomic(thread, out, 0, 6)
        made.load(thread, out, 0, 3)
    error = said(made, used=False)
    assert "Use the value that the atomic returns" in str(error)
    assert "reads out[0], which thread 40 changes by an atomic on line 6" in str(error)


def test_one_plain_load_after_the_atomics_of_a_block_advises_a_barrier():
    made, _, out, _ = launch()
    for thread in range(8):
        made.atomic(thread, out, 0, 6)
    made.load(7, out, 0, 3)
    advice = "Atomics are ordered only among themselves: put cuda.syncthreads()"
    assert advice in str(said(made, used=False))


@pytest.mark.parametrize(
    ("released", "acquired", "advice"),
    [
        (None, Kind.FENCE, "Put cuda.threadfence() between the store and the atomic on line 6."),
        (Kind.FENCE, None, "Put cuda.threadfence() between the atomic on line 6 and the load."),
        (None, None, "the store and the atomic on line 6 and between the atomic on line 6 and the"),
        (Kind.FENCE_BLOCK, Kind.FENCE, "cuda.threadfence_block() orders within one block only"),
    ],
    ids=["no release", "no acquire", "neither", "block"],
)
def test_message_without_a_fence_says_which_side_lacks_it(released, acquired, advice):
    made, x, out, _ = launch(grid=2)
    made.store(0, x, 0, 2)
    if released is not None:
        fence(made, 0, released)
    made.atomic(0, out, 0, 6)
    made.atomic(64, out, 0, 6)
    if acquired is not None:
        fence(made, 64, acquired)
    made.load(64, x, 0, 3)
    assert advice in str(said(made))


def test_message_with_both_fences_is_no_race():
    made, x, out, _ = launch(grid=2)
    made.store(0, x, 0, 2)
    fence(made, 0)
    made.atomic(0, out, 0, 6)
    made.atomic(64, out, 0, 6)
    fence(made, 64)
    made.load(64, x, 0, 3)
    assert first_defect(made.recording()) is None


@pytest.mark.parametrize("finished", [True, False])
def test_unfinished_recording_is_judged_as_far_as_it_goes(finished):
    made, _, _, tile = launch()
    made.store(40, tile, 0, 2)
    made.store(0, tile, 0, 2)
    made.sync(threads=range(3))
    recording = made.recording(finished=finished, truncated=not finished)
    assert isinstance(first_defect(recording), simt.RaceError)


def test_empty_recording_has_no_defect():
    assert first_defect(launch()[0].recording()) is None


def test_elements_far_apart_are_renumbered_and_still_race():
    made, x, out, _ = launch(grid=2)
    far = dataclasses.replace(made.allocations[out], address=1 << 40)
    made.allocations[out] = far
    made.load(0, x, 0, 2)
    made.store(0, out, 3, 5)
    made.store(64, out, 3, 5)
    assert said(made).element == "out[3]"


def test_reduction_with_barriers_leaves_no_suspects():
    made, _, _, tile = launch()
    for t in range(64):
        made.store(t, tile, t, 2)
    stride = 32
    while stride:
        made.sync()
        for t in range(stride):
            made.load(t, tile, t + stride, 4)
            made.store(t, tile, t, 4)
        stride //= 2
    recording = made.recording()
    assert not len(suspects(recording, touches_of(recording)))
    barriers = made.syncs[:]
    for missing in range(len(barriers)):
        made.syncs = barriers[:missing] + barriers[missing + 1 :]
        assert isinstance(first_defect(made.recording()), simt.RaceError)


def test_records_of_twelve_bytes_race_only_where_they_overlap():
    made, x, _, _ = launch()
    base = made.allocations[x].address
    made.store(0, x, 0, 2)
    for thread in range(1, 9):
        made._row(Kind.STORE, thread, 2, base + 12 * thread, 12, x)
    assert first_defect(made.recording()) is None
    made._row(Kind.STORE, 1, 2, base + 32, 4, x)
    error = said(made)
    assert (error.first, error.second) == (2, 9)


def test_records_of_twelve_bytes_that_overlap_by_eight_race():
    made, x, _, _ = launch()
    base = made.allocations[x].address
    made._row(Kind.STORE, 0, 2, base, 12, x)
    made._row(Kind.STORE, 1, 2, base + 4, 12, x)
    assert (said(made).first, said(made).second) == (0, 1)


def test_kernel_with_a_race_is_reported_by_its_launch(line_of):
    from numba import cuda, float32

    @cuda.jit
    def mirror(x):
        s = cuda.shared.array(64, float32)
        s[cuda.threadIdx.x] = x[cuda.threadIdx.x]
        x[cuda.threadIdx.x] = s[63 - cuda.threadIdx.x]

    with simt.diagnosis(), pytest.raises(simt.RaceError) as caught:
        mirror[1, 64](np.ones(64, np.float32))
    for text in ("s[cuda.threadIdx.x] = x", "x[cuda.threadIdx.x] = s"):
        assert f"line {line_of(mirror, text)}" in str(caught.value)


@cuda.jit(device=True)
def mirrored(value):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    tile[t] = value  # upper
    cuda.syncthreads()
    return tile[63 - t]  # lower


@cuda.jit
def called_twice(x, out):
    t = cuda.threadIdx.x
    out[t] = mirrored(x[t]) + mirrored(x[t])


@cuda.jit
def no_barrier_at_the_end_of_a_turn(x, out):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for _ in range(3):
        tile[t] = x[t]  # upper
        cuda.syncthreads()
        out[t] += tile[63 - t]  # lower


@cuda.jit
def no_barrier_within_a_turn(x, out):
    tile = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for _ in range(3):
        tile[t] = x[t]
        out[t] += tile[63 - t]
        cuda.syncthreads()


@cuda.jit
def one_writer(x, out):
    tile = cuda.shared.array(1, np.float32)
    t = cuda.threadIdx.x
    if t == 40:
        tile[0] = x[0]
    out[t] = tile[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("kernel", "function"),
    [(called_twice, mirrored), (no_barrier_at_the_end_of_a_turn, None)],
)
def test_advice_after_the_lower_line_where_the_next_turn_meets_this_one(
    kernel, function, seed, line_of
):
    upper, lower = (line_of(function or kernel, mark) for mark in ("# upper", "# lower"))
    with simt.diagnosis(), simt.schedule(seed), pytest.raises(RaceError) as caught:
        kernel[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
    advice = f"Put cuda.syncthreads() after line {lower}, before line {upper} runs again."
    assert advice in str(caught.value)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kernel", [no_barrier_within_a_turn, one_writer])
def test_advice_between_the_lines_where_one_turn_races(kernel, seed):
    with simt.diagnosis(), simt.schedule(seed), pytest.raises(RaceError) as caught:
        kernel[1, 64](np.ones(64, np.float32), np.zeros(64, np.float32))
    assert "Put cuda.syncthreads() between the two lines." in str(caught.value)
