"""The seam: an observer hears every access and barrier, and changes nothing."""

import numpy as np
import pytest
from numba import cuda

from kernelbook import simt
from kernelbook.simt import BoundsError, Trace, memory


@cuda.jit
def sum_pairs(x, out):
    tile = cuda.shared.array(4, np.float32)
    t = cuda.threadIdx.x
    tile[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t % 2 == 0:
        cuda.atomic.add(out, cuda.blockIdx.x, tile[t] + tile[t + 1])


def traced(kernel, *args, **options):
    with simt.observe(Trace()) as trace:
        kernel(*args, **options)
    return trace


def rows(trace, name):
    return [(a.kind, a.index, a.offset, a.block[0], a.thread) for a in trace.touching(name)]


def test_observer_hears_every_access_in_order(line_of):
    x, out = np.arange(8, dtype=np.float32), np.zeros(2, np.float32)
    trace = traced(sum_pairs[2, 4], x, out)
    assert out.tolist() == [6, 22]
    assert (trace.kernel, trace.grid, trace.block) == ("sum_pairs", (2, 1, 1), (4, 1, 1))
    assert rows(trace, "x") == [("load", (i,), 4 * i, i // 4, i % 4) for i in range(8)]
    assert rows(trace, "out") == [("atomic", (b,), 4 * b, b, t) for b in (0, 1) for t in (0, 2)]
    stores = [a for a in trace.touching("tile") if a.kind == "store"]
    assert [(a.array.space, a.thread) for a in stores] == [("shared", t) for t in range(4)] * 2
    assert {a.line for a in stores} == {line_of(sum_pairs, "tile[t] = ")}
    assert len([a for a in trace.touching("tile") if a.kind == "load"]) == 8
    assert trace.finished


def test_observer_hears_barriers_with_their_threads():
    trace = traced(sum_pairs[2, 4], np.zeros(8, np.float32), np.zeros(2, np.float32))
    assert [b[1:] for b in trace.barriers] == [
        ("syncthreads", (0, 0, 0), (0, 1, 2, 3)),
        ("syncthreads", (1, 0, 0), (0, 1, 2, 3)),
    ]
    assert trace.barriers[0][0] == 8, "four loads and four stores came before"


def test_observer_hears_warp_operations():
    @cuda.jit
    def warp(x):
        x[cuda.grid(1)] = cuda.shfl_xor_sync(0xFFFFFFFF, cuda.laneid, 1)

    trace = traced(warp[1, 32], np.zeros(32))
    assert [b[1] for b in trace.barriers] == ["shfl_xor_sync"]
    assert sorted(trace.barriers[0][3]) == list(range(32))


def test_observer_sees_views_as_parts_of_one_allocation():
    @cuda.jit
    def views(x):
        row = x[1]
        row[2] = 5
        x[:, 1][0] = 6
        x.T[1, 1] = x[0, 0]
        x[0, :2] = 1

    trace = traced(views[1, 1], np.zeros((2, 3), np.float32))
    assert [(a.kind, a.offset) for a in trace.accesses] == [
        ("store", 20), ("store", 4), ("load", 0), ("store", 16), ("store", 0), ("store", 4),
    ]  # fmt: skip
    assert {id(a.array) for a in trace.accesses} == {id(trace.accesses[0].array)}
    assert trace.accesses[0].array.shape == (2, 3)


def test_observer_sees_dynamic_arrays_as_one_allocation():
    @cuda.jit
    def dynamic(x):
        words = cuda.shared.array(0, np.int32)
        halves = cuda.shared.array(0, np.int16)
        words[1] = 3
        x[0] = halves[2]

    trace = traced(dynamic[1, 1, 0, 16], np.zeros(1))
    shared = [a for a in trace.accesses if a.array.space == "shared"]
    assert [(a.kind, a.offset, a.nbytes) for a in shared] == [("store", 4, 4), ("load", 4, 2)]
    assert shared[0].array is shared[1].array


def test_observed_kernel_computes_the_same():
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
    trace = traced(mixed[1, 2], x, n, heard)
    assert (plain == heard).all()
    assert {a.array.space for a in trace.accesses} == {"global", "local", "const"}


def test_observer_of_a_failing_launch_is_not_told_that_it_ended():
    trace = Trace()
    with simt.observe(trace), pytest.raises(BoundsError, match=r"reads x\[4\]"):
        sum_pairs[2, 4](np.zeros(4, np.float32), np.zeros(2, np.float32))
    assert not trace.finished
    assert len(trace.touching("x")) == 4


def test_without_observer_plain_classes_are_used(monkeypatch):
    def fail(*args):
        raise AssertionError("an observed array was made")

    with simt.observe(Trace()):
        pass
    monkeypatch.setattr(memory.Observed, "__init__", fail)
    out = np.zeros(2, np.float32)
    sum_pairs[2, 4](np.ones(8, np.float32), out)
    assert out.tolist() == [4, 4]


def test_innermost_observer_hears_the_launch():
    outer, inner = Trace(), Trace()
    with simt.observe(outer), simt.observe(inner):
        sum_pairs[2, 4](np.zeros(8, np.float32), np.zeros(2, np.float32))
    assert inner.finished
    assert not outer.finished


def test_trace_starts_anew_with_each_launch():
    trace = Trace()
    with simt.observe(trace):
        for _ in range(2):
            sum_pairs[2, 4](np.zeros(8, np.float32), np.zeros(2, np.float32))
    assert len(trace.touching("x")) == 8
