"""threadIdx and its kin, grid, gridsize, laneid, warpsize."""

import numpy as np
import pytest
from numba import cuda
from numba.cuda import laneid as imported_laneid

from kernelbook.simt import KernelError


def test_indices_in_three_dimensions_number_the_threads():
    @cuda.jit
    def number(out):
        x, y, z = cuda.grid(3)
        out[z, y, x] = (
            cuda.threadIdx.x + 10 * cuda.threadIdx.y + 100 * cuda.threadIdx.z
            + 1000 * cuda.blockIdx.x + 10_000 * cuda.blockIdx.y + 100_000 * cuda.blockIdx.z
        )  # fmt: skip

    out = np.full((2 * 2, 3 * 2, 2 * 4), -1)
    number[(2, 3, 2), (4, 2, 2)](out)
    z, y, x = np.indices(out.shape)
    expected = x % 4 + 10 * (y % 2) + 100 * (z % 2)
    expected += 1000 * (x // 4) + 10_000 * (y // 2) + 100_000 * (z // 2)
    assert (out == expected).all()


def test_grid_and_gridsize_in_all_dimensions():
    @cuda.jit
    def sizes(out):
        if cuda.grid(1) == 0:
            out[0] = cuda.gridsize(1)
            out[1], out[2] = cuda.gridsize(2)
            out[3], out[4], out[5] = cuda.gridsize(3)
            out[6] = cuda.gridDim.x * 100 + cuda.gridDim.y * 10 + cuda.gridDim.z
            out[7] = cuda.blockDim.x * 100 + cuda.blockDim.y * 10 + cuda.blockDim.z

    out = np.zeros(8, np.int64)
    sizes[(2, 3), (4, 5)](out)
    assert out.tolist() == [8, 8, 15, 8, 15, 1, 231, 451]


def test_grid_of_other_dimension_is_refused():
    @cuda.jit
    def four(out):
        out[0] = cuda.grid(4)

    with pytest.raises(KernelError, match=r"cuda.grid takes 1, 2 or 3"):
        four[1, 1](np.zeros(1))


def test_laneid_follows_the_linear_thread_index():
    @cuda.jit
    def lanes(out):
        t = cuda.threadIdx.x + cuda.threadIdx.y * cuda.blockDim.x
        lane = cuda.laneid
        cuda.syncthreads()
        out[t, 0] = lane
        out[t, 1] = imported_laneid + 0
        out[t, 2] = (imported_laneid == 3) + 2 * (imported_laneid % 2)
        out[t, 3] = cuda.warpsize

    out = np.zeros((48, 4), np.int32)
    lanes[1, (12, 4)](out)
    expected = np.arange(48) % 32
    assert (out[:, 0] == expected).all()
    assert (out[:, 1] == expected).all()
    assert (out[:, 2] == (expected == 3) + 2 * (expected % 2)).all()
    assert (out[:, 3] == 32).all()


@pytest.mark.parametrize(
    "read",
    [
        lambda: cuda.threadIdx.x,
        lambda: cuda.blockDim.z,
        lambda: cuda.grid(1),
        lambda: int(cuda.laneid),
        lambda: cuda.syncthreads(),
        lambda: cuda.syncthreads_count(1),
        lambda: cuda.shared.array(3, np.float32),
        lambda: cuda.local.array(3, np.float32),
        lambda: cuda.const.array_like(np.zeros(1)),
        lambda: cuda.shfl_sync(1, 1, 0),
        lambda: cuda.activemask(),
        lambda: cuda.threadfence(),
        lambda: cuda.nanosleep(1),
        lambda: cuda.cg.this_grid(),
    ],
)
def test_device_names_on_the_host_say_inside_a_kernel(read):
    with pytest.raises(KernelError, match="only inside a running kernel"):
        read()


def test_registers_are_cleared_after_a_launch_that_failed():
    @cuda.jit
    def fails(x):
        x[5] = 0

    with pytest.raises(IndexError):
        fails[1, 1](np.zeros(1))
    with pytest.raises(KernelError):
        _ = cuda.blockIdx.x
