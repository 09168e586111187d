"""The host side: device arrays and transfers.

A device array's memory is separate host memory, so that forgetting a copy shows here as it does on
a GPU. New device memory is poisoned, never zeros by luck. Copies tell :mod:`~.ordering` of the
stream that they are on; an array made with a stream uses that one where none is given, as in Numba.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelbook.simt import guard, ordering
from kernelbook.simt.dtypes import as_dtype
from kernelbook.simt.errors import KernelError
from kernelbook.simt.host_arrays import ManagedNDArray as ManagedNDArray
from kernelbook.simt.host_arrays import MappedNDArray as MappedNDArray
from kernelbook.simt.host_arrays import PinnedNDArray
from kernelbook.simt.registers import now
from kernelbook.simt.unwritten import fresh, is_marked, mark_unwritten

NOT_CONTIGUOUS = (
    "Array contains non-contiguous buffer and cannot be transferred as a single memory region. "
    "Please ensure contiguous buffer with numpy .ascontiguousarray()"
)


class DeviceNDArray:
    """An array in (simulated) device memory. Host code reads it with :meth:`copy_to_host`."""

    __cuda_ndarray__ = True
    __cuda_memory__ = True

    def __init__(self, memory: np.ndarray[Any, Any], stream: Any = 0) -> None:
        self.memory = memory
        self.stream = stream

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memory.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.memory.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.memory.dtype

    @property
    def ndim(self) -> int:
        return self.memory.ndim

    @property
    def size(self) -> int:
        return self.memory.size

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def alloc_size(self) -> int:
        return self.memory.nbytes

    @property
    def T(self) -> DeviceNDArray:
        return self.transpose()

    def transpose(self, axes: Any = None) -> DeviceNDArray:
        return DeviceNDArray(self.memory.transpose(axes), self.stream)

    def reshape(self, *shape: Any, order: Any = "C") -> DeviceNDArray:
        """The same memory with another shape. Raises ValueError when that takes a copy."""
        if not (self.is_c_contiguous() or self.is_f_contiguous()):
            raise ValueError("reshape of a non-contiguous device array")
        return DeviceNDArray(self.memory.reshape(*shape, order=order), self.stream)

    def ravel(self, order: Any = "C") -> DeviceNDArray:
        return self.reshape(-1, order=order)

    def squeeze(self, axis: Any = None) -> DeviceNDArray:
        return DeviceNDArray(self.memory.squeeze(axis), self.stream)

    def view(self, dtype: Any) -> DeviceNDArray:
        """The same bytes as another type."""
        return DeviceNDArray(self.memory.view(as_dtype(dtype)), self.stream)

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceNDArray]:
        """Pieces of ``section`` elements of a one-dimensional array."""
        for start in range(0, self.size, section):
            yield DeviceNDArray(self.memory[start : start + section], stream or self.stream)

    def is_c_contiguous(self) -> bool:
        return self.memory.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        return self.memory.flags.f_contiguous

    def bind(self, stream: Any = 0) -> DeviceNDArray:
        """The same memory; what names no stream is on ``stream``."""
        return DeviceNDArray(self.memory, stream)

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> np.ndarray[Any, Any]:
        """A host copy, written into ``ary`` when given.

        On a stream and into pinned memory it arrives with the synchronisation. Raises TypeError or
        ValueError when ``ary`` has another type or shape, HostOrderError when another stream may
        still be writing this array.
        """
        if ary is None:
            ary = np.empty_like(self.memory)
        _require_alike(ary, self.memory)
        ordering.copied_out(self.memory, ary, stream or self.stream)
        return ary

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Overwrite this array with ``ary``, a host or device array of the same type and shape."""
        if isinstance(ary, DeviceNDArray):
            _require_alike(ary.memory, self.memory)
            np.copyto(self.memory, ary.memory)
            ordering.copied_on_device(ary.memory, self.memory, stream or self.stream)
            return
        source = np.asarray(ary)
        _require_alike(source, self.memory)
        ordering.before_reading(source)
        np.copyto(self.memory, source)
        ordering.copied_in(source, self.memory, stream or self.stream)

    def getitem(self, item: Any, stream: Any = 0) -> Any:
        """``self[item]``: a view, or an element that is copied on ``stream``."""
        found = self.memory[item]
        if isinstance(found, np.ndarray):
            if not np.shares_memory(found, self.memory) and found.size:
                raise NotImplementedError("a device array is indexed by integers and slices only")
            return DeviceNDArray(found, self.stream)
        element = np.empty((), self.dtype)
        ordering.copied_out(_element(self.memory, item), element, stream or self.stream)
        return element[()]

    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None:
        """``self[key] = value``, copied on ``stream``."""
        source = value.memory if isinstance(value, DeviceNDArray) else np.asarray(value)
        ordering.before_reading(source)
        self.memory[key] = source
        part = _element(self.memory, key)
        if isinstance(value, DeviceNDArray):
            ordering.copied_on_device(source, part, stream or self.stream)
        else:
            ordering.copied_in(source, part, stream or self.stream)

    def __getitem__(self, item: Any) -> Any:
        return self.getitem(item)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.setitem(key, value)

    def __len__(self) -> int:
        return len(self.memory)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        host = self.copy_to_host()
        return host if dtype is None else host.astype(dtype)

    def __repr__(self) -> str:
        return f"<DeviceNDArray {self.dtype}{list(self.shape)}; read it with copy_to_host()>"


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> DeviceNDArray:
    """Copy a host array to the device; into ``to`` when given.

    Raises ValueError when the array is not contiguous.
    """
    _require_host("to_device")
    if isinstance(obj, DeviceNDArray):
        return obj
    array = np.asarray(obj)
    if not contiguous(array):
        raise ValueError(NOT_CONTIGUOUS)
    if to is not None:
        to.copy_to_device(array, stream)
        return to
    order = order_of(array)
    if not copy:
        return DeviceNDArray(fresh(array.shape, array.dtype, order), stream)
    ordering.before_reading(array)
    made = DeviceNDArray(guard.copied(array, order), stream)
    if is_marked(array):
        mark_unwritten(made.memory)
    ordering.copied_in(array, made.memory, stream)
    return made


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """Uninitialised device memory."""
    _require_host("device_array")
    return DeviceNDArray(fresh(shape, as_dtype(dtype), order), stream)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Uninitialised device memory with shape, type and order of ``ary``."""
    return device_array(ary.shape, ary.dtype, order=order_of(ary), stream=stream)


def pinned_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C"
) -> np.ndarray[Any, Any]:
    """Uninitialised host memory that asynchronous copies really are asynchronous with."""
    return _registered(fresh(shape, as_dtype(dtype), order).view(PinnedNDArray), "pinned")


def pinned_array_like(ary: Any) -> np.ndarray[Any, Any]:
    """:func:`pinned_array` with shape, type and order of ``ary``."""
    return pinned_array(ary.shape, ary.dtype, order=order_of(ary))


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> MappedNDArray:
    """Uninitialised host memory that kernels use in place."""
    return _registered(fresh(shape, as_dtype(dtype), order).view(MappedNDArray), "mapped")


def mapped_array_like(
    ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False
) -> MappedNDArray:
    """:func:`mapped_array` with shape, type and order of ``ary``."""
    return mapped_array(ary.shape, ary.dtype, order=order_of(ary))


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> ManagedNDArray:
    """Uninitialised memory that host and kernels share."""
    return _registered(fresh(shape, as_dtype(dtype), order).view(ManagedNDArray), "managed")


@contextmanager
def pinned(*arylist: Any) -> Iterator[None]:
    """Pin host arrays for the ``with`` block: copies of them on a stream are asynchronous."""
    for ary in arylist:
        ordering.register(ary, "pinned")
    try:
        yield
    finally:
        for ary in arylist:
            ordering.unregister(ary)


@contextmanager
def mapped(*arylist: Any, **options: Any) -> Iterator[Any]:
    """Host arrays as device arrays on the same memory, for the ``with`` block."""
    arrays = [DeviceNDArray(ary) for ary in arylist]
    for ary in arylist:
        ordering.register(ary, "mapped")
    try:
        yield arrays[0] if len(arrays) == 1 else arrays
    finally:
        for ary in arylist:
            ordering.unregister(ary)


def is_cuda_array(obj: Any) -> bool:
    """Whether ``obj`` is (simulated or real) device memory."""
    return isinstance(obj, DeviceNDArray) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """``obj`` itself when it is simulated device memory; TypeError otherwise."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if hasattr(obj, "__cuda_array_interface__"):
        raise TypeError("the array is in a real GPU's memory, which the simulator can't use")
    raise TypeError("*obj* doesn't implement the cuda array interface.")


def _registered(array: Any, kind: str) -> Any:
    ordering.register(array, kind)
    return array


def _element(memory: np.ndarray[Any, Any], item: Any) -> np.ndarray[Any, Any]:
    """``memory[item]`` as a view, also where the item names one element."""
    at = item if isinstance(item, tuple) else (item,)
    part: np.ndarray[Any, Any] = memory[at if Ellipsis in at else (*at, Ellipsis)]
    return part


def _require_host(name: str) -> None:
    if now.in_kernel():
        raise KernelError(
            f"cuda.{name} is for the host: a kernel can't allocate device memory. Use "
            "cuda.shared.array or cuda.local.array"
        )


def _require_alike(found: Any, wanted: np.ndarray[Any, Any]) -> None:
    if found.dtype != wanted.dtype:
        raise TypeError(f"incompatible dtype: {found.dtype} vs. {wanted.dtype}")
    if found.shape != wanted.shape:
        raise ValueError(f"incompatible shape: {found.shape} vs. {wanted.shape}")


def contiguous(array: np.ndarray[Any, Any]) -> bool:
    """Whether ``array`` is one block of memory, broadcast axes aside."""
    if array.size == 0:
        return True
    core = array[tuple(0 if s == 0 else slice(None) for s in array.strides)]
    return bool(core.flags.c_contiguous or core.flags.f_contiguous)


def order_of(ary: Any) -> Any:
    """ "F" for an array in Fortran order, else "C"."""
    flags = ary.memory.flags if isinstance(ary, DeviceNDArray) else ary.flags
    return "F" if flags.f_contiguous and not flags.c_contiguous else "C"
