"""The recording of a launch: every access, fence, line and barrier, and nothing else changes."""

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import BoundsError, Kind, log
from kernelbook.simt import recorded as recorded_arrays


@cuda.jit(device=True)
def doubled(values, i):
    return values[i] * 2


@cuda.jit
def sum_pairs(x, out):
    tile = cuda.shared.array(4, np.float32)
    t = cuda.threadIdx.x
    tile[t] = doubled(x, cuda.grid(1))
    cuda.syncthreads()
    if t % 2 == 0:
        cuda.atomic.add(out, cuda.blockIdx.x, tile[t] + tile[t + 1])


def recorded(launch, *args, lines=False, seed=0):
    with simt.schedule(seed), simt.observe(lines=lines) as trace:
        launch(*args)
    return trace.recording


def rows(recording, name):
    """(kind, byte offset, thread in the grid) of the accesses to one array."""
    found = []
    for row in range(len(recording)):
        number = recording.allocation[row]
        if number >= 0 and recording.allocations[number].name == name:
            array = recording.allocations[number]
            offset = int(recording.address[row]) - array.address
            found.append((Kind(recording.kind[row]), offset, int(recording.thread[row])))
    return found


def test_recording_holds_every_access_in_order(line_of):
    x, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    recording = recorded(sum_pairs[2, 4], x, out)
    assert out.tolist() == [12, 44]
    assert (recording.kernel, recording.grid, recording.block) == (
        "sum_pairs",
        (2, 1, 1),
        (4, 1, 1),
    )
    assert rows(recording, "x") == [(Kind.LOAD, 4 * i, i) for i in range(8)]
    assert rows(recording, "out") == [
        (Kind.ATOMIC, 4 * b, 4 * b + t) for b in (0, 1) for t in (0, 2)
    ]
    tiles = rows(recording, "tile")
    assert [row for row in tiles if row[0] is Kind.STORE] == [
        (Kind.STORE, 4 * (i % 4), i) for i in range(8)
    ]
    assert len(tiles) == 16
    assert recording.finished
    assert not recording.truncated


def test_recording_knows_the_line_of_each_access_also_in_a_device_function(line_of):
    recording = recorded(sum_pairs[1, 4], np.zeros(4, np.float32), np.zeros(1, np.float32))
    lines = {(site.kind, site.function, site.line) for site in recording.sites}
    assert lines == {
        (Kind.LOAD, "doubled", line_of(doubled, "values[i]")),
        (Kind.STORE, "sum_pairs", line_of(sum_pairs, "tile[t] = ")),
        (Kind.LOAD, "sum_pairs", line_of(sum_pairs, "atomic.add")),
        (Kind.ATOMIC, "sum_pairs", line_of(sum_pairs, "atomic.add")),
    }
    assert sum(site.kind is Kind.LOAD for site in recording.sites) == 3, "two on one line"


def test_recording_tells_where_and_what_in_words():
    recording = recorded(sum_pairs[2, 4], np.zeros(8, np.float32), np.zeros(2, np.float32))
    last = len(recording) - 1
    where = recording.where(last)
    assert (where.kernel, where.block, where.thread) == ("sum_pairs", "1", "2")
    assert "atomic.add" in where.text
    assert recording.element(last) == "out[1]"


def test_recording_places_barriers_between_rows():
    recording = recorded(sum_pairs[2, 4], np.zeros(8, np.float32), np.zeros(2, np.float32))
    first, second = recording.syncs
    assert (first.kind, first.block, sorted(first.threads)) == ("syncthreads", 0, [0, 1, 2, 3])
    assert (second.kind, second.block) == ("syncthreads", 1)
    assert first.position == 8, "four loads and four stores came before"


def test_recording_holds_warp_operations_with_their_mask():
    @cuda.jit
    def warp(x):
        x[cuda.grid(1)] = cuda.shfl_xor_sync(0xFFFFFFFF, cuda.laneid, 1)

    (met,) = recorded(warp[1, 32], np.zeros(32)).syncs
    assert (met.kind, met.mask) == ("shfl_xor_sync", 0xFFFFFFFF)
    assert sorted(met.threads) == list(range(32))


def test_recording_holds_fences():
    @cuda.jit
    def fences(x):
        x[0] = 1
        cuda.threadfence()
        cuda.threadfence_block()
        cuda.threadfence_system()

    kinds = recorded(fences[1, 1], np.zeros(1)).kind.tolist()
    assert kinds == [Kind.STORE, Kind.FENCE, Kind.FENCE_BLOCK, Kind.FENCE]


def test_atomic_whose_result_is_dropped_is_told_from_one_that_is_used():
    @cuda.jit
    def tickets(x):
        cuda.atomic.add(x, 0, 1)
        x[1] = cuda.atomic.add(x, 0, 1)

    sites = recorded(tickets[1, 1], np.zeros(2, np.int32)).sites
    assert [s.result_used for s in sites if s.kind is Kind.ATOMIC] == [False, True]


def test_views_are_parts_of_one_allocation():
    @cuda.jit
    def views(x):
        row = x[1]
        row[2] = 5
        x[:, 1][0] = 6
        x.T[1, 1] = x[0, 0]
        x[0, :2] = 1

    recording = recorded(views[1, 1], np.zeros((2, 3), np.float32))
    assert [(kind, offset) for kind, offset, _ in rows(recording, "x")] == [
        (Kind.STORE, 20), (Kind.STORE, 4), (Kind.LOAD, 0), (Kind.STORE, 16),
        (Kind.STORE, 0), (Kind.STORE, 4),
    ]  # fmt: skip
    (array,) = recording.allocations
    assert (array.shape, array.index_of(20)) == ((2, 3), (1, 2))


def test_device_array_passed_twice_is_one_allocation():
    @cuda.jit
    def shifted(first, second):
        first[0] = second[1]

    memory_ = cuda.to_device(np.arange(8, dtype=np.float32))
    recording = recorded(shifted[1, 1], memory_[:6], memory_[2:])
    (array,) = recording.allocations
    assert (array.name, array.shape, array.nbytes) == ("first/second", (8,), 32)
    assert [offset for _, offset, _ in rows(recording, "first/second")] == [12, 0]


def test_column_major_and_reversed_arrays_have_their_true_addresses():
    @cuda.jit
    def touch(x, y):
        x[1, 2] = 1
        y[1] = 1

    column_major = np.zeros((4, 8), np.float64, order="F")
    backwards = cuda.to_device(np.zeros(5, np.int16))[::-1]
    recording = recorded(touch[1, 1], column_major, backwards)
    assert rows(recording, "x") == [(Kind.STORE, 8 * (1 + 2 * 4), 0)]
    assert recording.element(0) == "x[1, 2]"
    assert rows(recording, "y") == [(Kind.STORE, 2 * 3, 0)]


def test_dynamic_shared_arrays_are_one_allocation():
    @cuda.jit
    def dynamic(x):
        words = cuda.shared.array(0, np.int32)
        halves = cuda.shared.array(0, np.int16)
        words[1] = 3
        x[0] = halves[2]

    recording = recorded(dynamic[1, 1, 0, 16], np.zeros(1))
    shared = [a for a in recording.allocations if a.space == "shared"]
    assert len(shared) == 1
    assert rows(recording, "words/halves")[0][:2] == (Kind.STORE, 4)
    assert recording.width[:2].tolist() == [4, 2]


def test_shared_and_local_memory_name_their_owner():
    @cuda.jit
    def owners(x):
        tile = cuda.shared.array(2, np.float32)
        mine = cuda.local.array(1, np.float32)
        mine[0] = 1
        tile[cuda.threadIdx.x] = mine[0]
        x[cuda.grid(1)] = 1

    recording = recorded(owners[2, 2], np.zeros(4))
    assert [(a.space, a.block, a.thread) for a in recording.allocations] == [
        ("global", -1, -1), ("shared", 0, -1), ("local", 0, 0), ("local", 0, 1),
        ("shared", 1, -1), ("local", 1, 2), ("local", 1, 3),
    ]  # fmt: skip


def test_unwritten_device_memory_is_known_byte_by_byte():
    @cuda.jit
    def touch(x, y, z):
        x[0] = y[0] = z[0] = 1

    halves = cuda.device_array(4, np.float32)
    halves[:2] = cuda.to_device(np.ones(2, np.float32))
    given = cuda.to_device(np.ones(2))
    recording = recorded(touch[1, 1], halves, cuda.device_array(2, np.int8), given)
    x, y, z = recording.allocations
    assert x.written.tolist() == [True] * 8 + [False] * 8
    assert y.written.tolist() == [False, False]
    assert z.written is None


def test_second_launch_sees_what_the_first_one_wrote():
    @cuda.jit
    def write(x):
        x[0] = 1

    x = cuda.device_array(2, np.float64)
    recorded(write[1, 1], x)
    (array,) = recorded(write[1, 1], x).allocations
    assert array.written.tolist() == [True] * 8 + [False] * 8


def test_lines_are_recorded_when_asked_for(line_of):
    @cuda.jit
    def loop(x):
        i = cuda.grid(1)
        if i < 1:
            for k in range(2):
                x[k] = k

    recording = recorded(loop[1, 2], np.zeros(2), lines=True)
    first = line_of(loop, "i = cuda.grid")
    lines = [
        (int(recording.thread[row]), recording.sites[recording.site[row]].line - first)
        for row in range(len(recording))
        if recording.kind[row] == Kind.LINE
    ]
    rounds = [2, 3, 2, 3, 2]
    assert [line for thread, line in lines if thread == 0] == [0, 1, *rounds]
    assert [line for thread, line in lines if thread == 1] == [0, 1]
    stores = [s.line - first for s in recording.sites if s.kind is Kind.STORE]
    assert stores == [3], "line numbers stay those of the source"


def test_lines_keep_closures_defaults_and_docstrings():
    factor = 3

    @cuda.jit
    def scaled(x, plus=2.5):
        """Not a line."""
        x[0] = factor * 2 + plus

    out = np.zeros(1)
    recording = recorded(scaled[1, 1], out, lines=True)
    assert out[0] == 8.5
    assert (recording.kind == Kind.LINE).sum() == 1


def test_recorded_kernel_computes_the_same():
    @cuda.jit
    def mixed(x, n, out):
        i = cuda.grid(1)
        scratch = cuda.local.array(2, np.int8)
        scratch[0] = 200
        out[i, 0] = x[i] * 0.1
        out[i, 1] = n[i] + scratch[0]
        out[i, 2] = cuda.const.array_like(x)[i]
        out[i, 2] += 2**40

    x, n = np.array([0.1, 3], np.float32), np.array([2**31 - 1, -5], np.int32)
    plain, heard = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    mixed[1, 2](x, n, plain)
    recording = recorded(mixed[1, 2], x, n, heard)
    assert (plain == heard).all()
    assert {a.space for a in recording.allocations} == {"global", "local", "const"}


def test_failed_launch_leaves_its_recording():
    with simt.observe() as trace, pytest.raises(BoundsError, match=r"reads .*\[4\]"):
        sum_pairs[2, 4](np.zeros(4, np.float32), np.zeros(2, np.float32))
    assert not trace.recording.finished
    assert len(rows(trace.recording, "x")) == 4


def test_without_a_listener_plain_classes_are_used(monkeypatch):
    def fail(*args):
        raise AssertionError("a recorded array was made")

    monkeypatch.setattr(recorded_arrays.Recorded, "__init__", fail)
    out = np.zeros(2, np.float32)
    sum_pairs[2, 4](np.ones(8, np.float32), out)
    assert out.tolist() == [8, 8]
    assert not log.rows


def test_trace_without_a_launch_says_so():
    with simt.observe() as trace:
        pass
    with pytest.raises(LookupError, match="no kernel was launched"):
        _ = trace.recording


def test_long_log_becomes_columns_on_the_way(monkeypatch):
    whole = recorded(sum_pairs[8, 4], np.ones(32, np.float32), np.zeros(8, np.float32))
    monkeypatch.setattr(log, "_CHUNK", 10)
    parts = recorded(sum_pairs[8, 4], np.ones(32, np.float32), np.zeros(8, np.float32))
    for column in ("kind", "thread", "address", "width", "allocation"):
        assert (getattr(whole, column) == getattr(parts, column)).all()
    assert [s.position for s in whole.syncs] == [s.position for s in parts.syncs]
    assert [whole.sites[i] for i in whole.site] == [parts.sites[i] for i in parts.site]


def test_rows_beyond_the_limit_are_dropped_and_the_recording_says_so(monkeypatch):
    monkeypatch.setattr(log, "_CHUNK", 10)
    monkeypatch.setattr(log, "MOST_ROWS", 20)
    recording = recorded(sum_pairs[8, 4], np.ones(32, np.float32), np.zeros(8, np.float32))
    assert recording.truncated
    assert 20 <= len(recording) < 60
    assert len(recording.thread) == len(recording)


@pytest.mark.parametrize("seed", [1, 2])
def test_schedule_is_recorded_and_replays(seed):
    x = np.ones(64, np.float32)
    first = recorded(sum_pairs[16, 4], x, np.zeros(16, np.float32), seed=seed)
    again = recorded(sum_pairs[16, 4], x, np.zeros(16, np.float32), seed=seed)
    natural = recorded(sum_pairs[16, 4], x, np.zeros(16, np.float32))
    assert first.schedule == seed
    assert (first.thread == again.thread).all()
    assert (first.thread != natural.thread).any()


def test_instruction_is_one_site_however_often_it_runs():
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        out[i] = x[i]

    recording = recorded(copy[4, 64], np.zeros(256, np.float32), np.zeros(256, np.float32))
    assert len(recording.sites) == 2, "CPython names a specialised instruction by another offset"
