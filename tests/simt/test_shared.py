"""Shared, local and constant memory."""

import numba
import numpy as np
import pytest
from numba import cuda

from kernelbook import poison
from kernelbook.simt import KernelError, LaunchError

WIDTH = 8


def test_shared_array_belongs_to_the_block():
    @cuda.jit
    def reverse(x, out):
        tile = cuda.shared.array(WIDTH, numba.float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        tile[t] = x[i]
        cuda.syncthreads()
        out[i] = tile[WIDTH - 1 - t]

    x = np.arange(24, dtype=np.float32)
    out = np.zeros_like(x)
    reverse[3, WIDTH](x, out)
    assert (out == x.reshape(3, WIDTH)[:, ::-1].ravel()).all()


def test_shared_arrays_on_one_line_are_distinct():
    @cuda.jit
    def two(out):
        a, b = cuda.shared.array(1, numba.int32), cuda.shared.array(1, numba.int32)
        a[0] = 1
        b[0] = 2
        out[0], out[1] = a[0], b[0]

    out = np.zeros(2)
    two[1, 1](out)
    assert out.tolist() == [1, 2]


def test_shared_array_of_a_call_in_a_loop_is_one_array():
    @cuda.jit
    def loop(out):
        for i in range(3):
            a = cuda.shared.array(1, numba.int32)
            if i == 0:
                a[0] = 0
            a[0] += 1
        out[0] = a[0]

    out = np.zeros(1)
    loop[1, 1](out)
    assert out[0] == 3


@pytest.mark.parametrize(
    "dtype", [numba.types.float16, np.float64, "int8", np.dtype("u4"), numba.boolean]
)
def test_shared_array_takes_every_kind_of_type_name(dtype):
    @cuda.jit
    def stage(out):
        tile = cuda.shared.array((2, 2), dtype)
        tile[1, 1] = 1
        out[0] = tile[1, 1]
        out[1] = tile.itemsize

    out = np.zeros(2)
    stage[1, 1](out)
    sizes = {numba.types.float16: 2, numba.boolean: 1}
    size = sizes.get(dtype) or np.dtype(dtype).itemsize
    assert out.tolist() == [1, size]


def test_fresh_memory_is_poisoned():
    @cuda.jit
    def stale(out):
        out[0] = cuda.shared.array(3, numba.float32)[1]
        out[1] = cuda.local.array(3, numba.float64)[1]
        out[2] = cuda.shared.array(3, numba.int32)[1]

    out = np.zeros(3)
    stale[1, 1](out)
    assert np.isnan(out[:2]).all()
    assert out[2] == np.full(4, poison.BYTE, np.uint8).view(np.int32)[0]


def test_dynamic_shared_arrays_lie_on_the_same_memory():
    @cuda.jit
    def alias(out):
        floats = cuda.shared.array(0, numba.float32)
        words = cuda.shared.array(0, numba.uint32)
        fixed = cuda.shared.array(1, numba.uint32)
        fixed[0] = 7
        floats[1] = 1.0
        out[0] = words[1]
        out[1] = floats.size
        out[2] = fixed[0]

    out = np.zeros(3, np.uint32)
    alias[1, 1, 0, 18](out)
    assert out.tolist() == [np.float32(1).view(np.uint32), 4, 7]


def test_dynamic_shared_array_without_bytes_is_empty():
    @cuda.jit
    def none(x):
        x[0] = cuda.shared.array(0, numba.float32)[0]

    with pytest.raises(IndexError, match="size 0"):
        none[1, 1](np.zeros(1))


def test_static_shared_over_48_kib_is_refused(line_of):
    @cuda.jit
    def large(x):
        first = cuda.shared.array(8 * 1024, numba.float32)
        second = cuda.shared.array((64, 65), numba.float32)
        first[0] = second[0, 0] = x[0]

    with pytest.raises(
        LaunchError, match="take 49,408 bytes with second, the limit is 49,152"
    ) as e:
        large[1, 1](np.zeros(1))
    assert f"line {line_of(large, 'second = ')}" in str(e.value)


def test_static_and_dynamic_shared_together_are_limited():
    @cuda.jit
    def both(x):
        tile = cuda.shared.array(8 * 1024, numba.float32)
        tile[0] = x[0]

    both[1, 1, 0, 16 * 1024](np.zeros(1))
    with pytest.raises(LaunchError, match="32,768 static and 16,388 dynamic bytes"):
        both[1, 1, 0, 16 * 1024 + 4](np.zeros(1))


def test_shape_from_an_argument_is_refused():
    @cuda.jit
    def sized(x, n):
        tile = cuda.shared.array(n, numba.float32)
        tile[0] = x[0]

    with pytest.raises(
        KernelError, match=r"compile-time constant, but it depends on the argument n"
    ):
        sized[1, 1](np.zeros(1), 4)


@pytest.mark.parametrize("space", ["shared", "local"])
def test_shape_from_the_block_size_is_refused(space):
    if space == "shared":

        @cuda.jit
        def sized(x):
            cuda.shared.array(cuda.blockDim.x, numba.float32)[0] = x[0]
    else:

        @cuda.jit
        def sized(x):
            cuda.local.array(x.size, numba.float32)[0] = x[0]

    with pytest.raises(KernelError, match=r"compile-time constant, but it depends on"):
        sized[1, 1](np.zeros(1))


def test_shape_that_differs_between_threads_is_refused():
    @cuda.jit
    def ragged(x):
        n = cuda.threadIdx.x + 1
        cuda.local.array(n, numba.float32)[0] = x[0]

    with pytest.raises(KernelError, match="it was 1 before and is 2 now"):
        ragged[1, 2](np.zeros(1))


def test_shape_that_differs_between_threads_of_a_shared_array_is_refused():
    @cuda.jit
    def ragged(x):
        n = cuda.threadIdx.x + 1
        cuda.shared.array(n, numba.float32)[0] = x[0]

    with pytest.raises(KernelError, match="it was 1 before and is 2 now"):
        ragged[1, 2](np.zeros(1))


def test_shape_that_differs_between_launches_is_refused():
    @cuda.jit
    def sized(x):
        n = x.size
        cuda.shared.array(n, numba.float32)[0] = x[0]

    sized[1, 1](np.zeros(3))
    with pytest.raises(KernelError, match="it was 3 before and is 4 now"):
        sized[1, 1](np.zeros(4))


@pytest.mark.parametrize("shape", [1.5, "4", (), -1, (2, 0)])
def test_shape_that_is_no_shape_is_refused(shape):
    @cuda.jit
    def odd(x):
        cuda.shared.array(shape, numba.float32)[0] = x[0]

    with pytest.raises(KernelError, match=r"cuda.shared.array needs"):
        odd[1, 1](np.zeros(1))


def test_type_that_is_no_type_is_refused():
    @cuda.jit
    def odd(x):
        cuda.shared.array(4, "floaty")[0] = x[0]

    with pytest.raises(KernelError, match="'floaty' is not an element type"):
        odd[1, 1](np.zeros(1))


def test_local_array_belongs_to_the_thread():
    @cuda.jit
    def scratch(out):
        mine = cuda.local.array((2, 2), numba.int32)
        t = cuda.threadIdx.x
        mine[1, 1] = t
        cuda.syncthreads()
        out[t] = mine[1, 1]

    out = np.zeros(5)
    scratch[1, 5](out)
    assert out.tolist() == [0, 1, 2, 3, 4]


def test_const_array_is_a_read_only_copy():
    @cuda.jit
    def look(out):
        table = cuda.const.array_like(WEIGHTS)
        out[cuda.grid(1)] = table[cuda.grid(1), 1]

    @cuda.jit
    def spoil(out):
        cuda.const.array_like(WEIGHTS)[0, 0] = 1

    out = np.zeros(2)
    look[1, 2](out)
    assert out.tolist() == [1, 3]
    with pytest.raises(KernelError, match="read-only"):
        spoil[1, 1](out)


WEIGHTS = np.arange(4.0).reshape(2, 2)
