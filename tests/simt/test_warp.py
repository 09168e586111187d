"""Shuffles, votes, match, syncwarp, activemask."""

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import BarrierError, WarpError

FULL = 0xFFFFFFFF
LANES = np.arange(32)


def lanes(expression, threads=32, dtype=np.int64):
    """What each of ``threads`` threads gets for ``expression(lane)``."""
    inner = cuda.jit(device=True)(expression)

    @cuda.jit
    def kernel(out):
        out[cuda.threadIdx.x] = inner(cuda.laneid)

    out = np.full(threads, -99, dtype)
    kernel[1, threads](out)
    return out


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda lane: cuda.shfl_sync(FULL, lane * 10, 7), np.full(32, 70)),
        (lambda lane: cuda.shfl_sync(FULL, lane, (lane + 1) % 32), (LANES + 1) % 32),
        (lambda lane: cuda.shfl_sync(FULL, lane, 35), np.full(32, 3)),
        (lambda lane: cuda.shfl_up_sync(FULL, lane, 3), np.where(LANES < 3, LANES, LANES - 3)),
        (lambda lane: cuda.shfl_down_sync(FULL, lane, 5), np.where(LANES > 26, LANES, LANES + 5)),
        (lambda lane: cuda.shfl_xor_sync(FULL, lane, 6), LANES ^ 6),
        (lambda lane: cuda.shfl_down_sync(FULL, lane, 0), LANES),
    ],
    ids=["broadcast", "rotate", "modulo_32", "up", "down", "xor", "down_by_zero"],
)
def test_shuffle_moves_values_between_lanes(expression, expected):
    assert (lanes(expression) == expected).all()
    assert (lanes(expression, 96) == np.tile(expected, 3)).all()


def test_shuffle_keeps_the_type():
    quarter = np.float32(0.1)
    got = lanes(lambda lane: cuda.shfl_sync(FULL, np.float32(0.1), 0) * np.float32(3), dtype=float)
    assert (got == float(quarter * np.float32(3))).all()


def test_shuffle_within_part_of_a_warp():
    def swap(lane):
        if lane < 8:
            return cuda.shfl_xor_sync(0xFF, lane, 1)
        return cuda.shfl_xor_sync(0xFFFFFF00, lane, 2)

    assert (lanes(swap) == np.where(LANES < 8, LANES ^ 1, LANES ^ 2)).all()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda lane: cuda.all_sync(FULL, lane < 32), 1),
        (lambda lane: cuda.all_sync(FULL, lane < 31), 0),
        (lambda lane: cuda.any_sync(FULL, lane == 31), 1),
        (lambda lane: cuda.any_sync(FULL, lane == 32), 0),
        (lambda lane: cuda.eq_sync(FULL, lane + 1), 1),
        (lambda lane: cuda.eq_sync(FULL, lane), 0),
        (lambda lane: cuda.ballot_sync(FULL, lane % 4 == 0), 0x11111111),
        (lambda lane: cuda.ballot_sync(FULL, 1), -1),
        (lambda lane: cuda.activemask(), FULL),
    ],
)
def test_vote_combines_over_the_warp(expression, expected):
    assert (lanes(expression, 64) == expected).all()


def test_vote_within_a_mask_sees_only_its_lanes():
    def vote(lane):
        if lane < 4:
            return cuda.ballot_sync(0xF, lane != 2)
        return cuda.ballot_sync(0xFFFFFFF0, lane < 6)

    assert (lanes(vote) == np.where(LANES < 4, 0b1011, 0b110000)).all()


def test_vote_leaves_out_lanes_that_returned_or_never_existed():
    @cuda.jit
    def vote(out):
        t = cuda.threadIdx.x
        if t >= 40:
            return
        out[t] = cuda.ballot_sync(FULL, True) & 0xFFFFFFFF
        cuda.syncwarp()

    out = np.zeros(48, np.int64)
    vote[1, 48](out)
    assert (out[:32] == FULL).all()
    assert (out[32:40] == 0xFF).all()


def test_match_compares_values():
    assert (
        lanes(lambda lane: cuda.match_any_sync(FULL, lane // 30))
        == np.where(LANES < 30, 2**30 - 1, -(2**30))
    ).all()

    def all_same(lane):
        mask, same = cuda.match_all_sync(0xFFFF if lane < 16 else 0xFFFF0000, lane // 17)
        return mask * 2 + same

    assert (lanes(all_same) == np.where(LANES < 16, 0x1FFFF, 0)).all()
    assert (lanes(lambda lane: cuda.match_any_sync(FULL, float("nan"))) == -1).all()


def test_lanemask_lt_names_the_lanes_below():
    assert (lanes(lambda lane: cuda.lanemask_lt(), 64) == np.tile(2**LANES - 1, 2)).all()


def test_activemask_in_a_branch_names_the_lanes_of_the_branch():
    def branch(lane):
        if lane % 3 == 0:
            return cuda.activemask()
        return cuda.activemask()

    thirds = int(sum(1 << lane for lane in range(0, 32, 3)))
    expected = np.where(LANES % 3 == 0, thirds, FULL ^ thirds)
    assert (lanes(branch) == expected).all()


def test_warp_aggregated_atomic_counts_once_a_warp():
    @cuda.jit
    def aggregate(x, total, atomics):
        i = cuda.grid(1)
        if x[i] > 0:
            mask = cuda.activemask()
            leader = cuda.ffs(mask) - 1
            if cuda.laneid == leader:
                cuda.atomic.add(total, 0, cuda.popc(mask))
                cuda.atomic.add(atomics, 0, 1)

    x = np.random.default_rng(0).standard_normal(256)
    total, atomics = np.zeros(1, np.int32), np.zeros(1, np.int32)
    aggregate[2, 128](x, total, atomics)
    assert total[0] == (x > 0).sum()
    assert atomics[0] == 8


def test_syncwarp_orders_shared_memory_of_the_warp():
    @cuda.jit
    def reverse(out):
        tile = cuda.shared.array(64, np.int32)
        t = cuda.threadIdx.x
        tile[t] = t
        cuda.syncwarp()
        out[t] = tile[t ^ 31]

    out = np.zeros(64, np.int32)
    reverse[1, 64](out)
    assert (out == np.arange(64) ^ 31).all()


def test_syncwarp_meets_across_branches():
    def branches(lane):
        if lane < 16:
            cuda.syncwarp()
        else:
            cuda.syncwarp()
        return lane

    assert (lanes(branches) == LANES).all()


def test_shuffle_that_lanes_never_reach_names_lanes_and_lines(line_of):
    @cuda.jit
    def half(out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = cuda.shfl_down_sync(FULL, t, 1)
        cuda.syncthreads()

    with pytest.raises(WarpError) as caught:
        half[1, 32](np.zeros(32))
    shuffle, barrier = line_of(half, "shfl_down"), line_of(half, "syncthreads")
    assert f"half, block 0, warp 0: shfl_down_sync on line {shuffle} waits for lanes 16-31" in str(
        caught.value
    )
    assert f"lanes 16-31 at the barrier on line {barrier}" in str(caught.value)


def test_shuffle_from_a_lane_that_returned_is_reported(line_of):
    @cuda.jit
    def early(out):
        t = cuda.threadIdx.x
        if t >= 24:
            return
        out[t] = cuda.shfl_down_sync(FULL, t, 8)

    with pytest.raises(WarpError) as caught:
        early[1, 32](np.zeros(32))
    assert f"thread 16, line {line_of(early, 'shfl_down')}: lane 16 reads from lane 24" in str(
        caught.value
    )
    left = f"lane 24 left without making the call, by the return on line {line_of(early, 'return')}"
    assert left in str(caught.value)


def test_shuffle_from_a_lane_that_does_not_exist_is_reported():
    with pytest.raises(WarpError, match=r"lane 0 reads from lane 8 .* the block has 8 threads"):
        lanes(lambda lane: cuda.shfl_down_sync(FULL, lane, 8), 8)


def test_shuffle_that_reads_only_present_lanes_of_a_short_warp_is_fine():
    assert (lanes(lambda lane: cuda.shfl_sync(FULL, lane + 5, 0), 8) == 5).all()


def test_shuffle_from_a_lane_outside_the_mask_is_reported():
    def outside(lane):
        if lane < 8:
            return cuda.shfl_down_sync(0xFF, lane, 1)
        return lane

    with pytest.raises(WarpError, match="lane 8 is not in the mask 0x000000ff"):
        lanes(outside)


def test_shuffle_whose_mask_leaves_out_the_caller_is_reported():
    with pytest.raises(WarpError, match=r"lane 1 calls shfl_sync with mask 0x00000001, which does"):
        lanes(lambda lane: cuda.shfl_sync(1, lane, 0))


def test_two_operations_with_one_mask_are_reported(line_of):
    @cuda.jit
    def confused(out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = cuda.shfl_sync(FULL, t, 0)
        else:
            out[t] = cuda.any_sync(FULL, t)

    with pytest.raises(WarpError) as caught:
        confused[1, 32](np.zeros(32))
    line = line_of(confused, "shfl_sync")
    assert f"lane 16 calls any_sync while lane 0 waits in shfl_sync on line {line}" in str(
        caught.value
    )


def test_one_operation_at_two_call_sites_is_reported():
    def sites(lane):
        if lane < 16:
            return cuda.shfl_sync(FULL, lane, 0)
        return cuda.shfl_sync(FULL, lane, 1)

    with pytest.raises(WarpError, match="lane 16 calls shfl_sync while lane 0 waits in shfl_sync"):
        lanes(sites)


def test_warps_of_a_block_do_not_wait_for_each_other():
    @cuda.jit
    def independent(out):
        t = cuda.threadIdx.x
        if t < 32:
            out[t] = cuda.shfl_sync(FULL, t, 1)
            return
        out[t] = cuda.shfl_sync(FULL, t, 2)

    out = np.zeros(64)
    independent[1, 64](out)
    assert (out == np.repeat([1, 34], 32)).all()


def test_barrier_goes_on_without_a_warp_that_returned():
    @cuda.jit
    def leaves(out):
        t = cuda.threadIdx.x
        if cuda.any_sync(FULL, t >= 96):
            return
        out[t] = cuda.syncthreads_count(True)

    out = np.zeros(128)
    leaves[1, 128](out)
    assert out.tolist() == [96] * 96 + [0] * 32


def test_barrier_passed_by_by_one_warp_names_it():
    @cuda.jit
    def passes_by(out):
        t = cuda.threadIdx.x
        if not cuda.any_sync(FULL, t >= 96):
            cuda.syncthreads()
        out[t] = 1

    with pytest.raises(BarrierError, match=r"96 of 128 threads .* 32 threads \(first 96\)"):
        passes_by[1, 128](np.zeros(128))


def test_shuffle_from_a_lane_that_skipped_the_branch_says_so(line_of):
    @cuda.jit(device=True)
    def from_above(value):
        return cuda.shfl_down_sync(FULL, value, 16)

    @cuda.jit
    def half(out):
        t = cuda.threadIdx.x
        if t < 16:
            out[t] = from_above(t)

    with pytest.raises(WarpError) as caught:
        half[1, 32](np.zeros(32))
    message = str(caught.value)
    assert "lane 16 left without making the call (it reached the end of the kernel)" in message
    assert (
        f"in from_above, line {line_of(from_above, 'shfl')}, called from half, "
        f"line {line_of(half, 'from_above')}: lane 0 reads from lane 16" in message
    )


# A warp runs ahead of the others


def test_syncwarp_where_a_block_barrier_is_needed_gives_a_wrong_sum():
    @cuda.jit
    def total(x, out):
        partial = cuda.shared.array(128, np.float32)
        t = cuda.threadIdx.x
        partial[t] = x[t]
        cuda.syncthreads()
        step = 64
        while step > 0:
            if t < step:
                partial[t] += partial[t + step]
            cuda.syncwarp()
            step //= 2
        if t == 0:
            out[0] = partial[0]

    out = np.zeros(1)
    x = (np.arange(128) % 32 < 31).astype(np.float64)  # the last lane to arrive has nothing to add
    total[1, 128](x, out)
    assert out[0] != x.sum()


@pytest.mark.parametrize("threads", [64, 40, 128])
@pytest.mark.parametrize("operation", ["syncwarp", "shuffle", "vote"])
def test_lanes_go_on_before_the_next_warp_starts(operation, threads):
    @cuda.jit
    def mirrored(out):
        values = cuda.shared.array(128, np.float32)
        t = cuda.threadIdx.x
        values[t] = t
        if operation == "syncwarp":
            cuda.syncwarp()
        elif operation == "shuffle":
            cuda.shfl_sync(FULL, t, 0)
        else:
            cuda.any_sync(FULL, t == 0)
        out[t] = values[threads - 1 - t]

    out = np.zeros(threads)
    mirrored[1, threads](out)
    later = threads - 1 - np.arange(threads) >= 32  # what lies in warps after the first
    assert np.isnan(out[:32][later[:32]]).all()
    assert not np.isnan(out[32:][~later[32:]]).any()


def test_lanes_go_on_when_the_last_missing_lane_returns():
    @cuda.jit
    def guarded(out):
        values = cuda.shared.array(64, np.float32)
        t = cuda.threadIdx.x
        if t % 32 >= 20:
            return
        values[t] = t
        cuda.syncwarp()
        out[t] = values[(t + 32) % 64]

    out = np.full(64, -1.0)
    guarded[1, 64](out)
    assert np.isnan(out[:20]).all()
    assert (out[20:32] == -1).all()
    assert (out[32:52] == np.arange(20)).all()


def test_record_holds_a_warp_operation_that_returned_lanes_complete():
    @cuda.jit
    def some(out):
        if cuda.threadIdx.x < 3:
            cuda.syncwarp()

    with simt.observe() as trace:
        some[2, 8](np.zeros(1))
    assert [(s.kind, s.block, sorted(s.threads), s.mask) for s in trace.recording.syncs] == [
        ("syncwarp", 0, [0, 1, 2], FULL),
        ("syncwarp", 1, [0, 1, 2], FULL),
    ]
