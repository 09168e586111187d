"""Every atomic: result, old value, wrapping, indices, and what is refused."""

import numpy as np
import pytest
from numba import cuda

from kernelbook.simt import BoundsError, KernelError


def once(operation, start, *operands):
    """(element afterwards, value returned) of one atomic on an array that holds ``start``."""
    array = np.array([99, start], start.dtype)
    old = np.zeros(1, start.dtype)
    inner = cuda.jit(device=True)(operation)

    @cuda.jit
    def kernel(array, old, operands):
        old[0] = inner(array, *operands)

    kernel[1, 1](array, old, operands)
    assert array[0] == 99
    return array[1], old[0]


I32, U32, I64, U64, F32, F64 = np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64
NAN = np.float32("nan")


@pytest.mark.parametrize(
    ("operation", "start", "operands", "after"),
    [
        (lambda a, v: cuda.atomic.add(a, 1, v), I32(3), (4,), 7),
        (lambda a, v: cuda.atomic.add(a, 1, v), I32(2**31 - 1), (1,), -(2**31)),
        (lambda a, v: cuda.atomic.add(a, 1, v), U32(0), (-1,), 2**32 - 1),
        (lambda a, v: cuda.atomic.add(a, 1, v), I64(2**63 - 1), (1,), -(2**63)),
        (lambda a, v: cuda.atomic.add(a, 1, v), F32(0.1), (0.2,), F32(0.1) + F32(0.2)),
        (lambda a, v: cuda.atomic.add(a, 1, v), F64(0.1), (0.2,), 0.1 + 0.2),
        (lambda a, v: cuda.atomic.sub(a, 1, v), U32(0), (1,), 2**32 - 1),
        (lambda a, v: cuda.atomic.sub(a, 1, v), F32(1), (3,), -2),
        (lambda a, v: cuda.atomic.and_(a, 1, v), I32(0b1100), (0b1010,), 0b1000),
        (lambda a, v: cuda.atomic.or_(a, 1, v), U64(0b1100), (0b1010,), 0b1110),
        (lambda a, v: cuda.atomic.xor(a, 1, v), I64(0b1100), (-1,), ~0b1100),
        (lambda a, v: cuda.atomic.exch(a, 1, v), U32(5), (9,), 9),
        (lambda a, v: cuda.atomic.inc(a, 1, v), U32(3), (4,), 4),
        (lambda a, v: cuda.atomic.inc(a, 1, v), U32(4), (4,), 0),
        (lambda a, v: cuda.atomic.dec(a, 1, v), U32(0), (4,), 4),
        (lambda a, v: cuda.atomic.dec(a, 1, v), U32(6), (4,), 4),
        (lambda a, v: cuda.atomic.dec(a, 1, v), U64(3), (4,), 2),
        (lambda a, v: cuda.atomic.max(a, 1, v), I32(-3), (-5,), -3),
        (lambda a, v: cuda.atomic.max(a, 1, v), U32(3), (-1,), 2**32 - 1),
        (lambda a, v: cuda.atomic.min(a, 1, v), F32(3), (-5.5,), -5.5),
        (lambda a, v: cuda.atomic.max(a, 1, v), F32(3), (NAN,), 3),
        (lambda a, v: cuda.atomic.max(a, 1, v), NAN, (3,), NAN),
        (lambda a, v: cuda.atomic.nanmax(a, 1, v), NAN, (3,), 3),
        (lambda a, v: cuda.atomic.nanmax(a, 1, v), F32(3), (NAN,), 3),
        (lambda a, v: cuda.atomic.nanmin(a, 1, v), NAN, (3,), 3),
        (lambda a, v: cuda.atomic.nanmin(a, 1, v), F64(3), (2,), 2),
        (lambda a, o, v: cuda.atomic.cas(a, 1, o, v), I32(3), (3, 8), 8),
        (lambda a, o, v: cuda.atomic.cas(a, 1, o, v), U64(3), (4, 8), 3),
        (lambda a, o, v: cuda.atomic.cas(a, 1, o, v), U32(2**32 - 1), (-1, 8), 8),
        (lambda a, o, v: cuda.atomic.compare_and_swap(a[1:], o, v), I64(3), (3, 8), 8),
    ],
)
def test_atomic_changes_the_element_and_returns_the_old_value(operation, start, operands, after):
    found, old = once(operation, start, *operands)
    np.testing.assert_equal(found, start.dtype.type(after))
    np.testing.assert_equal(old, start)


def test_atomic_add_from_all_threads_loses_nothing():
    @cuda.jit
    def histogram(x, bins):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(bins, x[i], 1)

    x = np.random.default_rng(1).integers(0, 7, 500)
    bins = np.zeros(7, np.uint32)
    histogram[4, 128](x, bins)
    assert (bins == np.bincount(x, minlength=7)).all()


def test_atomic_on_shared_memory_and_several_axes():
    @cuda.jit
    def counts(out):
        tile = cuda.shared.array((2, 2), np.int32)
        t = cuda.threadIdx.x
        if t < 4:
            tile[t // 2, t % 2] = 0
        cuda.syncthreads()
        cuda.atomic.add(tile, (t % 2, 1), 1)
        cuda.syncthreads()
        if t < 4:
            cuda.atomic.max(out, (0, t // 2, t % 2), tile[t // 2, t % 2])

    out = np.zeros((1, 2, 2), np.int64)
    counts[1, 10](out)
    assert out.tolist() == [[[0, 5], [0, 5]]]


@pytest.mark.parametrize(("index", "shown"), [(3, "3"), (-1, "-1"), ((4,), "4")])
def test_atomic_outside_is_reported(index, shown, line_of):
    @cuda.jit
    def outside(x, index):
        cuda.atomic.add(x, index, 1)

    with pytest.raises(BoundsError) as caught:
        outside[1, 1](np.zeros(3), index)
    line = line_of(outside, "cuda.atomic")
    assert f"line {line}: atomic on x[{shown}], size 3" in str(caught.value)


@pytest.mark.parametrize(
    ("operation", "dtype", "message"),
    [
        (lambda a: cuda.atomic.add(a, 0, 1), np.int8, "no atomics on int8"),
        (lambda a: cuda.atomic.add(a, 0, 1), np.float16, "no atomics on float16"),
        (lambda a: cuda.atomic.and_(a, 0, 1), np.float32, "and_ works on integers, not on float32"),
        (lambda a: cuda.atomic.cas(a, 0, 1, 1), np.float32, "cas works on integers"),
        (lambda a: cuda.atomic.inc(a, 0, 1), np.int32, "inc works on unsigned integers"),
        (lambda a: cuda.atomic.add(a[0], 0, 1), np.float32, "its first argument is a float32"),
        (lambda a: cuda.atomic.add(a, (0, 0), 1), np.float32, "1 axes and is indexed with 2"),
        (lambda a: cuda.atomic.add(a, 1.5, 1), np.float32, "an index must be an integer"),
    ],
)
def test_atomic_that_the_compiler_refuses_is_refused(operation, dtype, message):
    inner = cuda.jit(device=True)(operation)

    @cuda.jit
    def kernel(x):
        inner(x)

    with pytest.raises(KernelError, match=message):
        kernel[1, 1](np.zeros(2, dtype))
