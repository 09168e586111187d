"""The Numba signature of a launch, as text: what the real compiler is asked to compile.

Explicit signatures of the kernel come first; else the arguments say what they are, as Numba would:
a Python int is an int64, an array C- or F-contiguous or neither.
Limit: numbers, arrays and tuples of them, and None; a record array is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from kernelbook.simt.args import ArgHint
from kernelbook.simt.errors import LaunchError
from kernelbook.simt.host import DeviceNDArray

_LAYOUTS = {"C": ("::1", -1), "F": ("::1", 0), "A": (":", 0)}


def signature_of(given: tuple[Any, ...], args: tuple[Any, ...]) -> str:
    """Types of the arguments: ``float32[:, ::1], int64``.

    given: the kernel's own signatures, of which the first counts; () for none.
    Raises LaunchError for an argument that has no such type.
    """
    if given:
        return ", ".join(_text_of(kind) for kind in given[0][0])
    return ", ".join(_text(value) for value in args)


def _text(value: Any) -> str:
    if isinstance(value, ArgHint):
        return _text(value.value)
    if isinstance(value, DeviceNDArray):
        return _array(value.memory)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, (np.number, np.ndarray)):
        return value.dtype.name
    if isinstance(value, int):
        return "int64" if -(2**63) <= value < 2**63 else "uint64"
    if isinstance(value, float):
        return "float64"
    if isinstance(value, complex):
        return "complex128"
    if value is None:
        return "none"
    if isinstance(value, tuple) and value:
        return f"Tuple(({', '.join(map(_text, value))},))"
    raise LaunchError(f"a {type(value).__name__} has no type that a kernel could be compiled for")


def _array(array: np.ndarray[Any, Any]) -> str:
    if array.dtype.kind not in "biufc":
        raise LaunchError(f"an array of {array.dtype} has no type that can be written as text")
    flags = array.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return _written("boolean" if array.dtype.kind == "b" else array.dtype.name, array.ndim, layout)


def _written(element: str, ndim: int, layout: str) -> str:
    if not ndim:
        return f"Array({element}, 0, 'C')"
    axis, place = _LAYOUTS[layout]
    axes = [":"] * ndim
    axes[place] = axis
    return f"{element}[{', '.join(axes)}]"


def _text_of(kind: Any) -> str:
    """A Numba type, as text that is held against the list of types again."""
    if isinstance(kind, types.Array):
        return _written(_text_of(kind.dtype), kind.ndim, kind.layout)
    if isinstance(kind, types.BaseTuple):
        return f"Tuple(({', '.join(_text_of(part) for part in kind)},))"  # type: ignore[attr-defined]
    if isinstance(kind, types.Boolean):
        return "boolean"
    if isinstance(kind, types.NoneType):
        return "none"
    if isinstance(kind, types.Number):
        return str(kind)
    raise LaunchError(f"{kind} has no type that can be written as text")
