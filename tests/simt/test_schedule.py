"""Schedules: a seed permutes what the model leaves open, and the same seed repeats the same run."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt.record import Kind
from kernelbook.simt.schedule import NATURAL, Choices, Schedule

FULL = 0xFFFFFFFF
SEEDS = range(1, 21)


def visits(seed, grid, block, between=None):
    """Who came by, in order: (block, thread) before and after the wait that ``between`` does."""
    before, after = [], []
    wait = cuda.jit(device=True)(between or (lambda: None))

    @cuda.jit
    def kernel():
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        before.append((int(b), int(t)))
        wait()
        after.append((int(b), int(t)))

    with simt.schedule(seed):
        kernel[grid, block]()
    return before, after


def everyone(grid, block):
    return [(b, t) for b in range(grid) for t in range(block)]


def warps(order):
    """The warps in the order in which they came, each once if its lanes came one after another."""
    found = []
    for block, thread in order:
        if not found or found[-1] != (block, thread // 32):
            found.append((block, thread // 32))
    return found


def test_seed_zero_is_the_natural_order():
    assert Schedule(0) == NATURAL
    before, after = visits(0, 3, 70, lambda: cuda.syncthreads())
    assert before == after == everyone(3, 70)


@pytest.mark.parametrize("seed", SEEDS)
def test_threads_start_with_blocks_warps_and_lanes_permuted(seed):
    before, _ = visits(seed, 5, 100)
    assert sorted(before) == everyone(5, 100)
    blocks = list(dict.fromkeys(b for b, _ in before))
    assert [b for b, _ in before] == [b for b in blocks for _ in range(100)]
    assert len(warps(before)) == 20, "the lanes of a warp start one after the other"
    first = [t for b, t in before if b == blocks[0]]
    assert first != sorted(first)


def test_seeds_give_all_orders_of_three_blocks_and_of_two_warps():
    starts = [visits(seed, 3, 64)[0] for seed in range(1, 41)]
    assert len({tuple(dict.fromkeys(b for b, _ in start)) for start in starts}) == 6
    assert {t // 32 for start in starts for _, t in start[:1]} == {0, 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_barrier_lets_threads_go_on_in_a_new_order(seed):
    before, after = visits(seed, 1, 96, lambda: cuda.syncthreads())
    assert sorted(after) == everyone(1, 96)
    assert after not in (before, sorted(after))
    assert len(warps(after)) == 3


def test_warp_operation_lets_lanes_go_on_in_a_new_order():
    last_goes_first = 0
    for seed in SEEDS:
        before, after = visits(seed, 1, 32, lambda: cuda.syncwarp())
        assert sorted(after) == everyone(1, 32)
        assert after != before
        last_goes_first += before[-1] == after[0]
    assert last_goes_first < 5, "that lane has no right to go first"


def test_warp_runs_ahead_under_some_seeds_and_waits_for_the_rest_under_others():
    seen = []

    @cuda.jit
    def kernel(started):
        cuda.atomic.add(started, 0, 1)
        cuda.syncwarp()
        seen.append(int(started[0]))  # how many threads had started when this one went on

    earliest = set()
    for seed in SEEDS:
        seen.clear()
        with simt.schedule(seed):
            kernel[1, 96](np.zeros(1, np.int32))
        assert max(seen) == 96
        earliest.add(min(seen))
    assert {32, 96} <= earliest <= {32, 64, 96}


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_same_seed_gives_the_same_run(seed):
    def waits():
        cuda.syncwarp()
        cuda.syncthreads()
        cuda.nanosleep(1)
        cuda.cg.this_grid().sync()

    assert visits(seed, 4, 64, waits) == visits(seed, 4, 64, waits)


def test_same_seed_gives_the_same_run_in_another_process():
    program = (
        "from kernelbook.simt.schedule import Choices\n"
        "choices = Choices(12, 70)\n"
        "print([*choices.blocks(9)], [*choices.start(range(70))], choices.runs_ahead())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=True,
    )
    choices = Choices(12, 70)
    here = ([*choices.blocks(9)], [*choices.start(range(70))], choices.runs_ahead())
    assert done.stdout == " ".join(map(str, here)) + "\n"


@pytest.mark.parametrize("count", [1, 7, 65536, 65537, 200_000])
def test_every_block_runs_once_however_many_there_are(count):
    blocks = list(Choices(3, 32).blocks(count))
    assert sorted(blocks) == list(range(count))
    assert count < 3 or blocks != sorted(blocks)


def test_huge_grid_begins_without_a_list_of_all_blocks():
    first = next(Choices(3, 1).blocks(2**31 - 1))
    assert 0 <= first < 2**31 - 1


def test_negative_seed_is_refused():
    with pytest.raises(ValueError, match=r"0 .* or more: -1"):
        Schedule(-1)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_registers_are_right_in_three_dimensions(seed):
    @cuda.jit
    def fill(out):
        b, t = cuda.blockIdx, cuda.threadIdx
        linear = (t.z * 3 + t.y) * 5 + t.x
        cuda.syncwarp()
        out[b.z, b.y, b.x, t.z, t.y, t.x, 0] = (b.z * 3 + b.y) * 2 + b.x
        cuda.syncthreads()
        same = linear % 32 == cuda.laneid
        out[b.z, b.y, b.x, t.z, t.y, t.x, 1] = linear * 2 + same

    out = np.full((2, 3, 2, 4, 3, 5, 2), -1)
    with simt.schedule(seed):
        fill[(2, 3, 2), (5, 3, 4)](out)
    blocks, threads = np.arange(12).reshape(2, 3, 2), np.arange(60).reshape(4, 3, 5)
    assert (out[..., 0] == blocks[..., None, None, None]).all()
    assert (out[..., 1] == 2 * threads + 1).all()


@pytest.mark.parametrize("seed", range(6))
def test_correct_kernel_gives_the_same_under_every_schedule(seed):
    @cuda.jit
    def scan(x, out):
        tile = cuda.shared.array((2, 100), np.int32)
        sums = cuda.shared.array(4, np.int32)
        t = cuda.threadIdx.x
        value = x[cuda.grid(1)]
        tile[0, t] = value
        cuda.syncthreads()
        read, step = 0, 1
        while step < 100:
            tile[1 - read, t] = tile[read, t] + (tile[read, t - step] if t >= step else 0)
            cuda.syncthreads()
            read, step = 1 - read, 2 * step
        members = cuda.activemask() & FULL
        for offset in (16, 8, 4, 2, 1):
            if t < 96:
                value += cuda.shfl_xor_sync(FULL, value, offset)
        if t < 96 and t % 32 == 0:
            sums[t // 32] = value
        count = cuda.syncthreads_count(members == (FULL if t < 96 else 15))
        out[cuda.grid(1)] = tile[read, t] + 1000 * (sums[0] + sums[1] + sums[2]) * (count == 100)

    x = np.random.default_rng(5).integers(0, 9, 300).astype(np.int32)
    out = np.zeros(300, np.int32)
    with simt.schedule(seed):
        scan[3, 100](x, out)
    rows = x.reshape(3, 100)
    expected = np.cumsum(rows, axis=1) + 1000 * rows[:, :96].sum(1)[:, None]
    assert (out == expected.ravel()).all()


def test_missing_barrier_that_the_natural_order_forgives_shows_under_a_seed():
    @cuda.jit
    def shift(out):
        tile = cuda.shared.array(64, np.float32)
        t = cuda.threadIdx.x
        tile[t] = t
        if t > 0:
            out[t] = tile[t - 1]

    def right(seed):
        out = np.zeros(64)
        with simt.schedule(seed):
            shift[1, 64](out)
        return (out[1:] == np.arange(63)).all()

    assert right(0)
    assert not any(right(seed) for seed in SEEDS)


@pytest.mark.parametrize("seed", range(4))
def test_grid_sync_joins_all_blocks_under_every_schedule(seed):
    @cuda.jit
    def rotate(x, out):
        i = cuda.grid(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        out[i] = x[(i + 7) % x.size]

    out = np.zeros(40)
    with simt.schedule(seed):
        rotate[5, 8](np.zeros(40), out)
    assert (out == (np.arange(40) + 7) % 40).all()


# What the log hears


@pytest.mark.parametrize("seed", range(5))
def test_log_knows_which_thread_does_what(seed):
    @cuda.jit
    def busy(out, flag):
        i, t = cuda.grid(1), cuda.threadIdx.x
        out[i] = 1
        if t == 3:
            while cuda.atomic.add(flag, 0, 0) == 0:
                pass
        elif t == 50:
            cuda.nanosleep(10)
            cuda.atomic.exch(flag, 0, 1)
        out[i] = 2
        cuda.syncwarp()
        out[i] = 3
        cuda.activemask()
        out[i] = 4
        cuda.syncthreads()
        out[i] = 5
        cuda.cg.this_grid().sync()
        out[i] = 6

    with simt.schedule(seed), simt.observe() as trace:
        busy[3, 70](np.zeros(210, np.int32), np.zeros(1, np.int32))
    recording = trace.recording
    (out,) = [n for n, a in enumerate(recording.allocations) if a.name == "out"]
    stores = (recording.kind == Kind.STORE) & (recording.allocation == out)
    element = (recording.address[stores] - recording.allocations[out].address) // 4
    assert (recording.thread[stores] == element).all()
    assert (np.bincount(element) == 6).all()
    assert recording.schedule == seed


@pytest.mark.parametrize("seed", [0, 1])
def test_log_hears_who_has_met_where_and_when(seed):
    @cuda.jit
    def meets(out):
        t = cuda.threadIdx.x
        if t >= 40:
            return
        out[cuda.grid(1)] = cuda.shfl_sync(FULL, t, 0)
        out[cuda.grid(1)] += cuda.syncthreads_count(True)
        if t < 4:
            cuda.syncwarp(0xF)

    with simt.schedule(seed), simt.observe() as trace:
        meets[2, 64](np.zeros(128))
    syncs = trace.recording.syncs
    met = [(s.kind, s.block, sorted(s.threads), s.mask) for s in syncs]
    shuffles = [("shfl_sync", [*range(32)], FULL), ("shfl_sync", [*range(32, 40)], FULL)]
    wanted = [*shuffles, ("syncthreads", [*range(40)], 0), ("syncwarp", [0, 1, 2, 3], 0xF)]
    assert sorted(met) == sorted((k, b, t, m) for b in (0, 1) for k, t, m in wanted)
    for block in (0, 1):
        barrier = next(s for s in syncs if s.kind == "syncthreads" and s.block == block)
        rows = trace.recording.thread // 64 == block
        kinds = trace.recording.kind
        at = np.arange(len(rows))
        assert (rows & (kinds == Kind.STORE) & (at < barrier.position)).sum() >= 40
        assert (rows & (kinds == Kind.STORE) & (at >= barrier.position)).sum() == 40


def test_log_hears_the_grid_sync_once():
    @cuda.jit
    def meets():
        cuda.cg.this_grid().sync()

    with simt.observe() as trace:
        meets[3, 4]()
    assert [(s.kind, s.block, s.threads) for s in trace.recording.syncs] == [("grid", -1, ())]
