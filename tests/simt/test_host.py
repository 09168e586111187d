"""Device arrays, transfers, streams and events as host code sees them."""

import numpy as np
import pytest
from numba import cuda

from kernelbook import poison, simt
from kernelbook.simt import KernelError, SimulatorWarning


@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def test_device_array_is_separate_memory():
    host = np.arange(4.0)
    on_device = cuda.to_device(host)
    host[:] = -1
    double[1, 4](on_device)
    assert host.tolist() == [-1] * 4
    assert on_device.copy_to_host().tolist() == [0, 2, 4, 6]
    out = np.zeros(4)
    assert on_device.copy_to_host(out) is out
    assert out.tolist() == [0, 2, 4, 6]


def test_host_array_is_copied_in_and_back():
    x = np.arange(4, dtype=np.int32)
    double[1, 4](x)
    assert x.tolist() == [0, 2, 4, 6]


def test_one_host_array_passed_twice_is_two_device_arrays():
    @cuda.jit
    def both(a, b):
        b[0] = a[0] + 1
        a[0] = 10

    x = np.zeros(1)
    both[1, 1](x, x)
    assert x[0] == 1, "the second copy comes back last"


def test_new_device_memory_is_poisoned():
    assert poison.untouched(cuda.device_array(3, np.float32).copy_to_host()).all()
    assert (cuda.device_array((2, 2), "uint8").copy_to_host() == poison.BYTE).all()
    assert np.isnan(cuda.pinned_array(2)).all()
    assert cuda.device_array(0).size == 0
    assert cuda.device_array((), np.int32).shape == ()


def test_device_array_like_keeps_shape_type_and_order():
    like = cuda.device_array_like(np.zeros((2, 3), np.int16, order="F"))
    assert (like.shape, like.dtype, like.ndim, like.size) == ((2, 3), np.int16, 2, 6)
    assert (like.strides, like.nbytes, len(like)) == ((2, 4), 12, 2)
    assert like.is_f_contiguous()
    assert cuda.pinned_array_like(np.zeros(3)).shape == (3,)
    assert cuda.mapped_array_like(np.zeros(3)).shape == (3,)


def test_device_array_is_sliced_indexed_and_reshaped():
    x = cuda.to_device(np.arange(6.0))
    double[1, 2](x[1:3])
    x[5] = 50
    x[:1] = np.full(1, 9.0)
    assert x[1] == 2
    assert np.asarray(x).tolist() == [9, 2, 4, 3, 4, 50]
    assert x.reshape(2, 3).copy_to_host().tolist() == [[9, 2, 4], [3, 4, 50]]
    assert x.reshape((3, 2)).T.shape == (2, 3)
    assert x.reshape(2, 3).ravel().shape == (6,)
    assert [part.size for part in x.split(4)] == [4, 2]
    assert x.view(np.int64).dtype == np.int64
    with pytest.raises(NotImplementedError, match="integers and slices"):
        x[[0, 1]]
    assert "copy_to_host" in repr(x)


def test_copy_to_device_overwrites_and_checks():
    x = cuda.device_array(3, np.float32)
    x.copy_to_device(np.ones(3, np.float32))
    cuda.to_device(np.full(3, 2, np.float32), to=x)
    assert x.copy_to_host().tolist() == [2, 2, 2]
    y = cuda.device_array_like(x)
    y.copy_to_device(x)
    assert y[0] == 2
    with pytest.raises(TypeError, match=r"incompatible dtype: float64 vs\. float32"):
        x.copy_to_device(np.ones(3))
    with pytest.raises(ValueError, match="incompatible shape"):
        x.copy_to_host(np.ones(4, np.float32))


def test_non_contiguous_host_array_is_refused_as_numba_does():
    with pytest.raises(ValueError, match="non-contiguous"):
        cuda.to_device(np.zeros(6)[::2])
    with pytest.raises(ValueError, match="ascontiguousarray"):
        double[1, 3](np.zeros(6)[::2])


def test_fortran_order_arrays_keep_their_values():
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    @cuda.jit
    def bump(x):
        i, j = cuda.grid(2)
        x[i, j] += 10 * i + j

    bump[1, (2, 3)](x)
    assert x.tolist() == [[0, 2, 4], [13, 15, 17]]


def test_in_out_hints_copy_one_way():
    @cuda.jit
    def step(a, b, c):
        c[0] = b[0]
        b[0] = a[0]
        a[0] = 7

    a, b, c = np.ones(1), np.full(1, 2.0), np.full(1, 3.0)
    with simt.diagnosis(False):  # which would report that Out memory is read
        step[1, 1](cuda.In(a), cuda.Out(b), cuda.InOut(c))
    assert (a[0], b[0]) == (1, 1)
    assert np.isnan(c[0]), "Out memory starts undefined"


@pytest.mark.parametrize("make", [cuda.mapped_array, cuda.managed_array])
def test_mapped_and_managed_memory_is_used_in_place(make):
    x = make(3, np.float32)
    x[:] = 1
    double[1, 3](x)
    cuda.synchronize()
    assert x.tolist() == [2, 2, 2]


def test_mapped_context_shares_the_host_array():
    x = np.ones(2)
    with cuda.mapped(x) as on_device, cuda.pinned(x):
        double[1, 2](on_device)
        cuda.synchronize()
    assert x.tolist() == [2, 2]


def test_is_and_as_cuda_array():
    x = cuda.device_array(1)
    assert cuda.is_cuda_array(x)
    assert not cuda.is_cuda_array(np.zeros(1))
    assert cuda.as_cuda_array(x) is x
    with pytest.raises(TypeError, match="cuda array interface"):
        cuda.as_cuda_array(np.zeros(1))


def test_streams_are_accepted_everywhere():
    stream = cuda.stream()
    x = cuda.to_device(np.ones(2), stream=stream)
    double[1, 2, stream](x)
    assert x.copy_to_host(stream=stream).tolist() == [2, 2]
    done = []
    stream.add_callback(lambda s, status, arg: done.append((status, arg)), 5)
    with stream.auto_synchronize():
        stream.synchronize()
    assert done == [(0, 5)]
    assert cuda.default_stream().handle == 0


def test_event_time_is_nan_with_a_warning():
    start, end = cuda.event(), cuda.event(timing=True)
    start.record()
    end.record(cuda.stream())
    end.synchronize()
    end.wait()
    assert end.query()
    with pytest.warns(SimulatorWarning, match="can't tell GPU time"):
        assert np.isnan(start.elapsed_time(end))
    with pytest.warns(SimulatorWarning):
        assert np.isnan(cuda.event_elapsed_time(start, end))


def test_allocation_inside_a_kernel_is_refused():
    @cuda.jit
    def allocates(x):
        cuda.device_array(3)

    with pytest.raises(KernelError, match=r"cuda\.device_array is for the host"):
        allocates[1, 1](np.zeros(1))
