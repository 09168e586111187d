"""The counters against numbers worked out by hand; with ncu: test_counters_benchmark.py."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numba import cuda, float32, int32

from kernelbook import simt
from kernelbook.simt import banks, coalescing, counters, counters_table
from kernelbook.simt.record import Allocation, Kind, Recording, Site, Sync

LANES = np.arange(32)


def shared(words, size: int = 4, lanes=None) -> tuple[int, int]:
    """(wavefronts, those of them that are no conflict) of one request; ``words`` of ``size``."""
    words = np.asarray(words, np.int64)
    lanes = LANES[: len(words)] if lanes is None else np.asarray(lanes)
    width = np.full(len(words), size)
    cost = banks.wavefronts(np.zeros_like(words), lanes, size * words, width, 1)
    return int(cost.used[0]), int(cost.ideal[0])


def sectors(elements, size: int = 4, start: int = 0) -> tuple[int, int]:
    """(sectors, the fewest possible) of one request to elements of ``size`` bytes."""
    elements = np.asarray(elements, np.int64)
    width = np.full(len(elements), size)
    cost = coalescing.global_sectors(np.zeros_like(elements), start + size * elements, width, 1)
    return int(cost.moved[0]), int(cost.ideal[0])


@pytest.mark.parametrize(
    ("elements", "size", "expected"),
    [
        pytest.param(LANES, 4, (4, 4), id="consecutive"),
        pytest.param(LANES[::-1], 4, (4, 4), id="reversed"),
        pytest.param(LANES + 1, 4, (5, 4), id="off by one"),
        pytest.param(2 * LANES, 4, (8, 4), id="stride 2"),
        pytest.param(32 * LANES, 4, (32, 4), id="stride 32"),
        pytest.param(0 * LANES, 4, (1, 1), id="one element"),
        pytest.param(LANES // 2, 4, (2, 2), id="pairs"),
        pytest.param(LANES, 1, (1, 1), id="bytes"),
        pytest.param(LANES, 8, (8, 8), id="eight bytes"),
        pytest.param(LANES, 16, (16, 16), id="sixteen bytes"),
        pytest.param([7], 4, (1, 1), id="one lane"),
        pytest.param([0, 8, 16], 4, (3, 1), id="three lanes far apart"),
    ],
)
def test_sectors_of_a_request_are_the_distinct_ones(elements, size, expected):
    assert sectors(elements, size) == expected


def test_sectors_access_across_a_boundary_takes_both():
    assert sectors([0], size=8, start=28) == (2, 1)


def test_sectors_several_requests_share_nothing():
    request = np.repeat([0, 1], 32)
    address = np.tile(4 * LANES, 2)
    cost = coalescing.global_sectors(request, address, np.full(64, 4), 2)
    assert cost.moved.tolist() == [4, 4]


@pytest.mark.parametrize(
    ("words", "size", "expected"),
    [
        pytest.param(LANES, 4, (1, 1), id="consecutive"),
        pytest.param(0 * LANES, 4, (1, 1), id="broadcast"),
        pytest.param(LANES % 2 * 32, 4, (2, 1), id="two words of one bank"),
        pytest.param(2 * LANES, 4, (2, 1), id="stride 2"),
        pytest.param(3 * LANES, 4, (1, 1), id="stride 3"),
        pytest.param(32 * LANES, 4, (32, 1), id="stride 32"),
        pytest.param(33 * LANES, 4, (1, 1), id="padded column"),
        pytest.param(32 * LANES[:5], 4, (5, 1), id="five lanes, one bank"),
        pytest.param(LANES, 1, (1, 1), id="bytes"),
        pytest.param(LANES, 2, (1, 1), id="halves of words"),
        pytest.param(128 * LANES, 1, (32, 1), id="bytes of one bank"),
        pytest.param(LANES, 8, (2, 2), id="eight bytes in halves"),
        pytest.param(2 * LANES, 8, (4, 2), id="eight bytes, stride 2"),
        pytest.param(LANES, 16, (4, 4), id="sixteen bytes in quarters"),
        pytest.param(2 * LANES, 16, (8, 4), id="sixteen bytes, stride 2"),
    ],
)
def test_wavefronts_follow_the_busiest_bank(words, size, expected):
    assert shared(words, size) == expected


def recording(rows, threads: int, syncs=(), sites=None) -> Recording:
    """One block of ``threads``; rows are (site, thread, element) of a float32 array."""
    sites = sites or (Site(Kind.LOAD, "k", "k.py", 2, "x[i]", 0),)
    memory = Allocation("x", "global", (1 << 20,), np.dtype(np.float32), 256, 1 << 22, (4,))
    site, thread, element = np.array(rows, np.int64).reshape(-1, 3).T
    kinds = np.array([site.kind for site in sites], np.uint8)
    lines = kinds[site] == Kind.LINE
    return Recording(
        kernel="k", grid=(1, 1, 1), block=(threads, 1, 1), ndims=(1, 1), sites=tuple(sites),
        allocations=(memory,), site=site.astype(np.int32), kind=kinds[site],
        thread=thread.astype(np.int32), address=np.where(lines, 0, 256 + 4 * element),
        width=np.where(lines, 0, 4).astype(np.uint8),
        allocation=np.where(lines, -1, 0).astype(np.int32), syncs=tuple(syncs), schedule=0,
        finished=True, truncated=False,
    )  # fmt: skip


def test_requests_threads_one_after_another_are_grouped_by_occurrence():
    rows = [(0, t, t + 32 * k) for t in range(32) for k in range(3)]
    profile = counters.count(recording(rows, 32))
    assert profile.global_load == counters.Traffic(3, 96, 12, 12, 384, 384)


def test_requests_of_different_warps_are_apart():
    profile = counters.count(recording([(0, t, 0) for t in range(64)], 64))
    assert profile.global_load.requests == 2


def test_requests_across_a_barrier_are_apart():
    """Thread 0 loads before the barrier, thread 1 after it: never one request."""
    rows = [(0, 0, 0), (0, 1, 1)]
    apart = Sync(1, "syncthreads", 0, tuple(range(32)))
    assert counters.count(recording(rows, 32)).global_load.requests == 1
    assert counters.count(recording(rows, 32, [apart])).global_load.requests == 2


def test_requests_across_a_whole_warps_shuffle_are_apart_but_not_across_a_part_of_it():
    rows = [(0, 0, 0), (0, 1, 1)]
    whole = Sync(1, "shfl_down_sync", 0, tuple(range(32)), 0xFFFFFFFF)
    part = Sync(1, "syncwarp", 0, tuple(range(2, 16)), 0xFFFC)
    assert counters.count(recording(rows, 32, [whole])).global_load.requests == 2
    assert counters.count(recording(rows, 32, [part])).global_load.requests == 1


def test_requests_another_warps_meeting_changes_nothing():
    rows = [(0, 0, 0), (0, 1, 1)]
    other = Sync(1, "syncwarp", 0, tuple(range(32, 64)), 0xFFFFFFFF)
    assert counters.count(recording(rows, 64, [other])).global_load.requests == 1


def test_counts_empty_launch_is_all_zero():
    profile = counters.count(recording([], 32))
    assert (profile.sectors, profile.bank_conflicts, profile.bytes.moved) == (0, 0, 0)
    assert profile.warp_execution_efficiency == 1
    assert "k: grid 1, block 32" in str(profile)


def test_divergence_is_active_lanes_per_executed_line():
    sites = (
        Site(Kind.LINE, "k", "k.py", 2, "if t < 8:", 0),
        Site(Kind.LINE, "k", "k.py", 3, "x[t] = 1", 4),
    )
    rows = [(0, t, 0) for t in range(32)] + [(1, t, 0) for t in range(8)]
    profile = counters.count(recording(rows, 32, sites=sites))
    assert profile.lines[2].divergence.active_lanes == 32
    assert profile.lines[3].divergence.active_lanes == 8
    assert profile.warp_execution_efficiency == (32 + 8) / 64


def test_bytes_once_and_least_count_what_requests_share():
    rows = [(0, t, 8 * (t % 32)) for t in range(64)]  # two warps, the same 32 sectors
    size = counters.count(recording(rows, 64)).bytes
    assert (size.moved, size.once, size.least) == (64 * 32, 32 * 32, 32 * 4)
    assert size.excess == 16


def profile_of(kernel, grid, block, *arguments) -> counters.Counters:
    with simt.observe(lines=True) as trace:
        kernel[grid, block](*arguments)
    return counters.count(trace.recording)


@cuda.jit
def column_sums(x, out):
    s = cuda.shared.array((32, 32), float32)
    t = cuda.threadIdx.x
    for row in range(32):
        s[row, t] = x[row, t]
    cuda.syncthreads()
    total = float32(0)
    for column in range(32):
        total += s[t, column]
    out[t] = total


def test_count_kernel_gives_each_line_its_own(line_of):
    x = cuda.to_device(np.ones((32, 32), np.float32))
    profile = profile_of(column_sums, 1, 32, x, cuda.to_device(np.zeros(32, np.float32)))
    copy = profile.lines[line_of(column_sums, "s[row, t] =")]
    add = profile.lines[line_of(column_sums, "total += s")]
    assert copy.arrays == ("s", "x")
    assert (copy.global_load.requests, copy.global_load.sectors) == (32, 128)
    assert copy.shared_store.bank_conflicts == 0
    assert (add.shared_load.requests, add.shared_load.wavefronts) == (32, 32 * 32)
    assert profile.bank_conflicts == add.bank_conflicts == 32 * 31
    assert profile.coalesced
    assert profile.barriers == {"syncthreads": 1}
    assert profile.complete


@cuda.jit
def vote_for_bins(x, bins):
    s = cuda.shared.array(4, int32)
    t = cuda.threadIdx.x
    if t < 4:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, x[t], 1)
    cuda.syncthreads()
    if t < 4:
        cuda.atomic.add(bins, t, s[t])


def test_atomics_turns_follow_the_most_contended_address(line_of):
    x = cuda.to_device(np.array([0] * 20 + [1] * 12, np.int32))
    profile = profile_of(vote_for_bins, 1, 32, x, cuda.to_device(np.zeros(4, np.int32)))
    in_shared = profile.lines[line_of(vote_for_bins, "atomic.add(s")].atomics
    assert in_shared == counters.Atomics(requests=1, lanes=32, turns=20)
    in_global = profile.lines[line_of(vote_for_bins, "atomic.add(bins")]
    assert in_global.atomics == counters.Atomics(requests=1, lanes=4, turns=1)
    assert in_global.global_atomic.sectors == 1
    assert profile.hottest_atomic == 20


@cuda.jit
def through_local(x, out):
    mine = cuda.local.array(4, float32)
    t = cuda.threadIdx.x
    for k in range(4):
        mine[k] = x[4 * t + k]
    out[t] = mine[t % 4]


def test_local_memory_stands_apart_and_is_laid_out_by_lane():
    x = cuda.to_device(np.ones(128, np.float32))
    profile = profile_of(through_local, 1, 32, x, cuda.to_device(np.zeros(32, np.float32)))
    assert (profile.local_store.requests, profile.local_store.sectors) == (4, 16)
    assert (profile.local_load.requests, profile.local_load.sectors) == (1, 16)
    assert profile.global_memory.requests == 4 + 1


@cuda.jit
def copy_complex(x, y):
    y[cuda.threadIdx.x] = x[cuda.threadIdx.x]


def test_complex_numbers_are_moved_in_halves_as_compiled_code_does():
    x = cuda.to_device(np.ones(32, np.complex128))
    profile = profile_of(copy_complex, 1, 32, x, cuda.to_device(np.zeros(32, np.complex128)))
    assert (profile.global_load.requests, profile.global_load.sectors) == (2, 32)


def test_table_text_and_html_say_the_same(line_of):
    x = cuda.to_device(np.ones((32, 32), np.float32))
    profile = profile_of(column_sums, 1, 32, x, cuda.to_device(np.zeros(32, np.float32)))
    number = line_of(column_sums, "total += s")
    text, html = str(profile), profile._repr_html_()
    for shown in ("total += s[t, column]", "1,024 wavefronts", "992", "1 syncthreads"):
        assert shown in text
        assert shown in html
    assert "color" not in counters_table.html(profile), "the page's style sheet has the colours"
    row = next(r for r in profile.rows() if r["line"] == number and r["what"] == "shared load")
    assert (row["wavefronts"], row["bank_conflicts"], row["arrays"]) == (1024, 992, "s")
    assert max(map(len, text.split("\n"))) <= 120
    assert math.isclose(profile.global_load.efficiency, 1.0)


@cuda.jit
def add_to_one(x, out):
    cuda.atomic.add(out, x[cuda.threadIdx.x], 1)


def test_global_atomics_move_a_sector_as_often_as_its_busiest_address_is_hit():
    x = cuda.to_device(np.array([0] * 3 + [1] * 9 + [8] * 20, np.int32))
    profile = profile_of(add_to_one, 1, 32, x, cuda.to_device(np.zeros(16, np.int32)))
    assert (profile.global_atomic.requests, profile.global_atomic.sectors) == (1, 9 + 20)


def shared_load(words, size: int, lanes=LANES) -> tuple[int, int]:
    words, lanes = np.asarray(words), np.asarray(lanes)
    width = np.full(len(words), size)
    zeros = np.zeros_like(words)
    cost = banks.wavefronts(zeros, lanes, size * words, width, 1, Kind.LOAD)
    return int(cost.used[0]), int(cost.ideal[0])


@pytest.mark.parametrize(
    ("words", "size", "expected"),
    [
        pytest.param(LANES // 2, 8, (1, 1), id="neighbours agree"),
        pytest.param(LANES // 4 * 2 + LANES % 2, 8, (1, 1), id="the next but one agrees"),
        pytest.param(LANES % 16, 8, (2, 2), id="halves agree, which helps nothing"),
        pytest.param(LANES // 2, 16, (2, 2), id="neighbours agree, sixteen bytes"),
        pytest.param(LANES % 2 * 32, 8, (2, 1), id="two words of one bank"),
    ],
)
def test_wavefronts_wide_load_of_paired_lanes_takes_twice_as_many(words, size, expected):
    assert shared_load(words, size) == expected
    assert shared(words, size)[1] == size // 4  # a store never does


def test_wavefronts_wide_load_a_missing_lane_agrees_with_any():
    assert shared_load(LANES[::2], 8, LANES[::2]) == (2, 1)


def test_counts_of_two_launches_add_up():
    profile = counters.count(recording([(0, t, t) for t in range(32)], 32))
    both = profile + profile
    assert (both.global_load.requests, both.sectors, both.coalesced) == (2, 8, True)


def test_table_incomplete_record_says_so():
    whole = recording([(0, t, t) for t in range(32)], 32)
    cut = counters.count(replace(whole, truncated=True))
    assert not cut.complete
    assert "not complete" in str(cut)
    assert "not complete" not in str(counters.count(whole))
