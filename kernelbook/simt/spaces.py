"""Shared, local and constant memory.

A shared array belongs to the call that made it: code object and bytecode offset, so that two calls
on one source line are two arrays. Arrays of shape 0 all start at the block's dynamic shared memory
and lie on top of each other, as on the GPU.

Source: CUDA programming guide, "Compute capabilities": 48 KiB of static shared memory a block.
numba-cuda 0.30.4 never asks the driver for more, so that is the limit of static plus dynamic too.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from kernelbook.simt import device, stuck
from kernelbook.simt.dtypes import as_dtype
from kernelbook.simt.errors import KernelError, LaunchError
from kernelbook.simt.memory import Array
from kernelbook.simt.recorded import wrap
from kernelbook.simt.registers import now, outside
from kernelbook.simt.unwritten import poisoned

_RUN_TIME_NAMES = ("threadIdx", "blockIdx", "blockDim", "gridDim", "shape", "size", "grid")


class SharedSpace:
    """``cuda.shared``: memory of the block."""

    def __repr__(self) -> str:
        return "<shared>"

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Array:
        """The block's array for this call. shape: constant int or tuple; 0 means dynamic.

        New memory is poisoned. Raises KernelError for a shape that is no compile-time
        constant, LaunchError when the block's shared memory exceeds 48 KiB.
        """
        block = now.block
        if block is None:
            raise outside("shared.array")
        frame = sys._getframe(1)
        site = (id(frame.f_code), frame.f_lasti)
        known = block.shared.get(site)
        if known is not None:
            array, first_shape = known
            if shape != first_shape:
                raise _changing("shared", first_shape, shape)
            return array
        element = as_dtype(dtype)
        name = _assigned_name(frame.f_code, frame.f_lasti) or "shared"
        if shape == 0:
            data = _dynamic(block)[
                : block.grid.dynamic_bytes // element.itemsize * element.itemsize
            ]
            array = wrap(data.view(element), name, "shared", owner=(block.number, -1))
        else:
            dims = _constant_shape(frame, shape, "shared")
            data = poisoned(dims, element)
            block.shared_bytes += data.nbytes
            _require_shared(block.grid.dynamic_bytes, block.shared_bytes, name, frame)
            array = wrap(data, name, "shared", owner=(block.number, -1))
        block.shared[site] = array, shape
        return array


class LocalSpace:
    """``cuda.local``: memory of the thread."""

    def __repr__(self) -> str:
        return "<local>"

    def array(self, shape: Any, dtype: Any, alignment: int | None = None) -> Array:
        """A new array of this thread alone. shape: constant int or tuple.

        New memory is poisoned. Raises KernelError for a shape that is no constant.
        """
        block = now.block
        if block is None:
            raise outside("local.array")
        frame = sys._getframe(1)
        dims = _constant_shape(frame, shape, "local")
        name = _assigned_name(frame.f_code, frame.f_lasti) or "local"
        owner = block.number, block.first + now.thread
        return wrap(poisoned(dims, as_dtype(dtype)), name, "local", owner=owner)


class ConstSpace:
    """``cuda.const``: read-only memory filled at compile time."""

    def __repr__(self) -> str:
        return "<const>"

    def array_like(self, ndarray: Any) -> Array:
        """A read-only copy of a host array that the kernel names as a global."""
        if now.block is None:
            raise outside("const.array_like")
        frame = sys._getframe(1)
        constants = now.block.grid.constants
        site = (id(frame.f_code), frame.f_lasti)
        if site not in constants:
            data = np.array(ndarray.data if isinstance(ndarray, Array) else ndarray)
            data.flags.writeable = False
            name = _assigned_name(frame.f_code, frame.f_lasti) or "const"
            constants[site] = wrap(data, name, "const")
        array: Array = constants[site]
        return array


shared = SharedSpace()
local = LocalSpace()
const = ConstSpace()


def _constant_shape(frame: FrameType, shape: Any, space: str) -> tuple[int, ...]:
    block = now.block
    assert block is not None
    dims = shape if isinstance(shape, (tuple, list)) else (shape,)
    if not dims or not all(isinstance(n, (int, np.integer)) for n in dims):
        raise KernelError(
            f"cuda.{space}.array needs an int or a tuple of ints as its shape, got {shape!r}"
        )
    if any(n < 1 for n in dims):
        raise KernelError(f"cuda.{space}.array needs a shape of at least 1, got {shape!r}")
    run_time = _run_time_name(frame.f_code, frame.f_lasti)
    if run_time:
        raise KernelError(
            f"the shape of a cuda.{space}.array must be a compile-time constant, but it depends "
            f"on {run_time}. Use a number or a global constant"
        )
    code = frame.f_code
    _, first = block.grid.kernel.shapes.setdefault((id(code), frame.f_lasti), (code, shape))
    if first != shape:
        raise _changing(space, first, shape)
    return tuple(int(n) for n in dims)


def _changing(space: str, first: Any, shape: Any) -> KernelError:
    return KernelError(
        f"the shape of a cuda.{space}.array must be a compile-time constant, but it was {first} "
        f"before and is {shape} now. Use a number or a global constant"
    )


def _dynamic(block: Any) -> np.ndarray[Any, Any]:
    if "dynamic" not in block.shared:
        data = poisoned(block.grid.dynamic_bytes, np.dtype(np.uint8))
        data[...] = 0xFF  # NaN as floats of any width
        block.shared["dynamic"] = data
    found: np.ndarray[Any, Any] = block.shared["dynamic"]
    return found


def _require_shared(dynamic: int, static: int, name: str, frame: FrameType) -> None:
    limit = device.STATIC_SHARED_BYTES
    if static > limit:
        what = (
            f"the block's shared arrays take {static:,} bytes with {name}, the limit is {limit:,}"
        )
    elif static + dynamic > limit:
        what = (
            f"shared memory takes {static:,} static and {dynamic:,} dynamic bytes, "
            f"the limit for a block is {limit:,}"
        )
    else:
        return
    raise LaunchError(stuck.here(frame).says(what, "Use smaller tiles or a narrower element type."))


@lru_cache(maxsize=512)
def _run_time_name(code: CodeType, offset: int) -> str:
    """What makes the shape at this call site run-time: a parameter or a register, or ""."""
    parameters = code.co_varnames[: code.co_argcount]
    for instruction in _call_arguments(code, offset):
        for name in _names(instruction):
            if instruction.opname.startswith("LOAD_FAST") and name in parameters:
                return f"the argument {name}"
            if (
                instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL"))
                and name in _RUN_TIME_NAMES
            ):
                return name
    return ""


def _names(instruction: dis.Instruction) -> tuple[str, ...]:
    """The names an instruction loads or stores: two for the paired ones of Python 3.13."""
    value = instruction.argval
    return value if isinstance(value, tuple) else (str(value),)


def _call_arguments(code: CodeType, offset: int) -> list[dis.Instruction]:
    """The instructions that load the arguments of the ``….array(…)`` call at ``offset``."""
    loads: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.offset >= offset:
            break
        if instruction.argval == "array" and instruction.opname.startswith("LOAD_"):
            loads.clear()
        else:
            loads.append(instruction)
    return loads


@lru_cache(maxsize=512)
def _assigned_name(code: CodeType, offset: int) -> str:
    """The local variable that the call at ``offset`` is assigned to, or ""."""
    for instruction in dis.get_instructions(code):
        if instruction.offset > offset and instruction.opname != "CACHE":
            stored = instruction.opname.startswith(("STORE_FAST", "STORE_DEREF", "STORE_NAME"))
            return _names(instruction)[0] if stored else ""
    return ""
