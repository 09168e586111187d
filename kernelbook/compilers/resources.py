"""What a kernel costs for the arguments of a launch, from the real compile; asked once a kernel.

The simulator asks here, through :func:`kernelbook.simt.occupancy.connect`, before it launches a
block so large that its registers may not suffice; a profile asks for occupancy.
Limit: no answer for a kernel that cannot be lifted or compiled, one with ``launch_bounds`` (which
the compile leaves out), or arguments other than numbers and arrays of them.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from kernelbook.compilers.client import SM_90, compile_kernel
from kernelbook.compilers.compiled import Compiled
from kernelbook.compilers.live import kernel_of
from kernelbook.errors import KernelbookError

_known: weakref.WeakKeyDictionary[Any, dict[Any, Compiled | None]] = weakref.WeakKeyDictionary()


def compiled_for(
    kernel: Any, args: tuple[Any, ...], arch: tuple[int, int] = SM_90
) -> Compiled | None:
    """The real compile of ``kernel``, a jitted function, for arguments of a launch; None for none.

    Cost: about half a second the first time, a dictionary look-up from then on.
    """
    signature = signature_of(args)
    if signature is None or getattr(kernel, "targetoptions", {}).get("launch_bounds"):
        return None
    answers = _known.setdefault(kernel, {})
    key = signature, arch
    if key not in answers:
        try:
            source, name = kernel_of(kernel)
            answers[key] = compile_kernel(source, name, signature, arch)
        except KernelbookError:
            answers[key] = None
    return answers[key]


def registers_of(kernel: Any, args: tuple[Any, ...], arch: tuple[int, int] = SM_90) -> int | None:
    """Registers a thread of ``kernel`` for arguments of a launch; None when they aren't known."""
    compiled = compiled_for(kernel, args, arch)
    return None if compiled is None else compiled.registers


def signature_of(args: tuple[Any, ...]) -> str | None:
    """Numba's types of ``args``, such as "float32[::1], int64"; None when one has no such name."""
    types = [_type_of(value) for value in args]
    return None if None in types else ", ".join(map(str, types))


def _type_of(value: Any) -> str | None:
    value = getattr(value, "memory", getattr(value, "value", value))  # device arrays; In, Out
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, int):
        return "int64"
    if isinstance(value, float) and not isinstance(value, np.generic):
        return "float64"
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return "complex128"
    if not isinstance(value, (np.ndarray, np.number)) or (
        isinstance(value, np.ndarray) and not value.ndim
    ):
        return None
    dtype = value.dtype
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or not dtype.isnative:
        return None
    name = "boolean" if dtype.kind == "b" else dtype.name
    return f"{name}[{_layout(value)}]" if isinstance(value, np.ndarray) else name


def _layout(array: np.ndarray[Any, Any]) -> str:
    axes = [":"] * array.ndim
    if array.flags.c_contiguous:
        axes[-1:] = ["::1"]
    elif array.flags.f_contiguous:
        axes[:1] = ["::1"]
    return ", ".join(axes)
