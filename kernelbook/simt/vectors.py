"""CUDA's vector types, ``float32x4`` and the like, with their C names (``float4``) as aliases.

A constructor takes scalars and vectors whose elements add up to its length. Elements convert to
the vector's element type as C does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from kernelbook.simt.memory import Array

_AXES = "xyzw"
# fmt: off
_ELEMENTS = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64",
)
# fmt: on
_C_NAMES = {
    "int8": ("char",),
    "int16": ("short",),
    "int32": ("int",),
    "int64": ("long", "longlong"),
    "uint8": ("uchar",),
    "uint16": ("ushort",),
    "uint32": ("uint",),
    "uint64": ("ulong", "ulonglong"),
    "float32": ("float",),
    "float64": ("double",),
}


class Vector:
    """Base of the vector types: 1 to 4 elements named x, y, z, w."""

    __slots__ = ("w", "x", "y", "z")
    length: int
    caster: Array

    def __init__(self, *values: Any) -> None:
        flat = list(_flattened(values))
        if len(flat) != self.length:
            kind = type(self).__name__
            raise TypeError(f"{kind} takes {self.length} elements, got {len(flat)}")
        for axis, value in zip(_AXES, flat, strict=False):
            cast = self.caster.cast(value)
            narrow = cast.dtype.kind in "iu" and cast.itemsize < 8  # as a load: computes in 64 bits
            setattr(self, axis, cast.item() if narrow else cast)

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, axis) for axis in _AXES[: self.length])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self))})"


def _flattened(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Vector):
            yield from value
        else:
            yield value


def _make() -> dict[str, type[Vector]]:
    made: dict[str, type[Vector]] = {}
    for element, length in product(_ELEMENTS, (1, 2, 3, 4)):
        caster = Array(np.empty(0, element), element, "local")
        name = f"{element}x{length}"
        made[name] = type(name, (Vector,), {"__slots__": (), "length": length, "caster": caster})
        for alias in _C_NAMES[element]:
            made[f"{alias}{length}"] = made[name]
    return made


VECTOR_TYPES = _make()
