"""What a notebook gets for ``from numba import cuda``: the names of ``numba.cuda``, simulated.

``is_available()`` is True: kernels can run. Whether they run on a GPU is another question, which
``get_current_device().name`` answers. Names of numba.cuda that mean nothing here raise
:class:`~kernelbook.simt.errors.NotSimulated` when used.

Source: the public names of numba-cuda 0.30.4.
"""

# ruff: noqa: F401 (the imports are the point)
from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types

from kernelbook.simt import cg, device, intrinsics, libdevice, ordering, registers
from kernelbook.simt.args import In, InOut, Out
from kernelbook.simt.atomics import atomic
from kernelbook.simt.errors import NotSimulated
from kernelbook.simt.host import (
    DeviceNDArray,
    as_cuda_array,
    device_array,
    device_array_like,
    is_cuda_array,
    managed_array,
    mapped,
    mapped_array,
    mapped_array_like,
    pinned,
    pinned_array,
    pinned_array_like,
    to_device,
)
from kernelbook.simt.intrinsics import (
    brev,
    cbrt,
    clz,
    ffs,
    fma,
    popc,
    selp,
    threadfence,
    threadfence_block,
    threadfence_system,
)
from kernelbook.simt.launch import jit
from kernelbook.simt.reduction import Reduce
from kernelbook.simt.registers import blockDim, blockIdx, grid, gridDim, gridsize, threadIdx
from kernelbook.simt.scheduler import (
    nanosleep,
    syncthreads,
    syncthreads_and,
    syncthreads_count,
    syncthreads_or,
)
from kernelbook.simt.spaces import const, local, shared
from kernelbook.simt.streams import (
    Stream,
    default_stream,
    event,
    event_elapsed_time,
    external_stream,
    per_thread_default_stream,
    stream,
)
from kernelbook.simt.vectors import VECTOR_TYPES
from kernelbook.simt.warp import (
    activemask,
    all_sync,
    any_sync,
    ballot_sync,
    eq_sync,
    lanemask_lt,
    match_all_sync,
    match_any_sync,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
    syncwarp,
)

# fmt: off
_TYPE_NAMES = (
    "b1", "bool", "bool_", "boolean", "byte", "c16", "c8", "char", "complex128", "complex64",
    "double", "f4", "f8", "float32", "float64", "i1", "i2", "i4", "i8", "int16", "int32", "int64",
    "int8", "int_", "intc", "intp", "long_", "longlong", "none", "short", "size_t", "ssize_t",
    "u1", "u2", "u4", "u8", "uchar", "uint", "uint16", "uint32", "uint64", "uint8", "uintc",
    "uintp", "ulong", "ulonglong", "ushort", "void",
)
_NOT_SIMULATED = frozenset((
    "Archive", "BaseCUDAMemoryManager", "CUSource", "Cubin", "CudaSupportError", "Fatbin",
    "GetIpcHandleMixin", "HostOnlyCUDAMemoryManager", "IpcHandle", "KernelRuntimeError", "LTOIR",
    "LinkableCode", "MappedMemory", "MemoryInfo", "MemoryPointer", "Object", "PTXSource",
    "PinnedMemory", "bfloat16", "compile", "compile_all", "compile_for_current_device",
    "compile_ptx", "compile_ptx_for_current_device", "cudadrv", "declare_device", "driver",
    "from_cuda_array_interface", "guvectorize", "open_ipc_array", "random", "runtime",
    "set_memory_manager", "vectorize",
))
# fmt: on

HAS_NUMBA = True
implementation = "kernelbook.simt"
warpsize = registers.WARP_SIZE
gpus = device.DEVICES
reduce = Reduce
legacy_default_stream = default_stream
ldca = ldcg = ldcs = ldlu = ldcv = intrinsics.load_hinted
stcg = stcs = stwb = stwt = intrinsics.store_hinted
globals().update({name: getattr(types, name) for name in _TYPE_NAMES}, **VECTOR_TYPES)


def is_available() -> bool:
    """True: kernels run, in the simulator."""
    return True


def is_supported_version() -> bool:
    """True: there is no CUDA runtime that could be too new."""
    return True


def cuda_error() -> None:
    """None: there is no driver that could fail."""


def is_float16_supported() -> bool:
    """True."""
    return True


def is_bfloat16_supported() -> bool:
    """False: the simulator has no bfloat16."""
    return False


def is_fp8_supported() -> bool:
    """False: the simulator has no 8-bit floats."""
    return False


def synchronize() -> None:
    """Wait for all work that was given to the device."""
    ordering.synchronize()


def current_context(devnum: int | None = None) -> device.Context:
    """The one context."""
    return device.CONTEXT


def get_current_device() -> device.Device:
    """The model device; its name says that it is simulated."""
    return device.DEVICE


def list_devices() -> device.DeviceList:
    """A list of the one model device."""
    return device.DEVICES


def select_device(device_id: int) -> device.Device:
    """The model device for 0, IndexError for any other number."""
    return device.DEVICES[device_id]


def detect() -> bool:
    """Print the devices, as numba does; True."""
    print("Found 1 CUDA devices (simulated)")
    print(f"id 0    {device.DEVICE.name}")
    return True


def close() -> None:
    """Nothing to close."""


def profile_start() -> None:
    """Nothing listens."""


def profile_stop() -> None:
    """Nothing listens."""


@contextmanager
def profiling() -> Iterator[None]:
    """Nothing listens."""
    yield


@contextmanager
def defer_cleanup() -> Iterator[None]:
    """Nothing to clean up."""
    yield


def require_context(function: Any) -> Any:
    """``function``: there is always a context."""
    return function


def literal_unroll(container: Any) -> Any:
    """``container``: a Python loop needs no unrolling."""
    return container


def __getattr__(name: str) -> Any:
    if name == "laneid":  # a value inside a kernel, an integer that is read later outside one
        return registers.lane() if registers.now.block is not None else registers.LaneId()
    if name in _NOT_SIMULATED:
        raise NotSimulated(
            f"numba.cuda.{name} is not simulated: it needs a GPU, its driver or its compiler"
        )
    raise AttributeError(
        f"module 'numba.cuda' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )


__all__ = [name for name in dir() if not name.startswith("_")]
