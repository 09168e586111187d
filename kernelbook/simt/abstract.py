"""What is known about a value before the kernel runs: its compiled type and how large it can be.

A ``kind`` is the name of a scalar type, or "array", "tuple", "object" (something the host made: a
module, a function, a type), or "" when nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kernelbook.simt import numeric
from kernelbook.simt.memory import Array

INDEX_BITS = 26  # of a position in a grid or an array: a simulated launch has not more threads
FEW_BITS = 20  # a sum of terms that are smaller by so much does not grow within any loop run here
COUNTED_BITS = 62  # of a sum over a loop, which would have to run for days to exceed it


@dataclass(frozen=True)
class Value:
    """One abstract value. ``bits``: an integer's magnitude is at most ``2 ** bits``.

    wide: an integer that may be a NumPy scalar of 64 bits, or a truth value that may be NumPy's.
    mixed: a wide one that may be Python's too, after another way here. items: a tuple's elements.
    element, ndim: an array's. object: what an "object" is, or a literal integer.
    """

    kind: str = ""
    bits: int = 0
    wide: bool = False
    mixed: bool = False
    items: tuple[Value, ...] = ()
    element: str = ""
    ndim: int = 0
    object: Any = None

    @property
    def is_integer(self) -> bool:
        return self.kind in numeric.INTEGERS

    @property
    def is_float(self) -> bool:
        return self.kind in numeric.FLOATS

    @property
    def is_scalar(self) -> bool:
        return self.kind in numeric.WIDTH


UNKNOWN = Value()


def scalar(kind: str, bits: int = 0, wide: bool = False) -> Value:
    """A scalar of which only the type is known, or how many ``bits`` it needs."""
    if kind not in numeric.WIDTH:
        return UNKNOWN
    full = numeric.WIDTH[kind] - (kind in numeric.SIGNED)
    return Value(kind, bits or full if kind in numeric.INTEGERS else 0, wide)


_INTS = tuple(scalar("int64", bits) for bits in (20, 31, 63))  # few, so that few kernels differ


def array(element: str, ndim: int) -> Value:
    """An array; nothing is known about one with elements that are no numbers."""
    return Value("array", element=element, ndim=ndim) if element in numeric.WIDTH else UNKNOWN


def loaded(element: str) -> Value:
    """What a load from an array gives."""
    return scalar(element, wide=element in ("int64", "uint64"))


def tuple_of(*items: Value) -> Value:
    return Value("tuple", items=items)


def literal(value: int) -> Value:
    """An integer that stands in the source."""
    bits = abs(value).bit_length()
    if bits > 64:
        return UNKNOWN
    return Value("uint64" if value >= 1 << 63 else "int64", bits, object=value)


def of(value: Any) -> Value:
    """The abstract value of an argument, or of what a global name holds."""
    if isinstance(value, (bool, np.bool_)):
        return scalar("bool", wide=isinstance(value, np.bool_))
    if value.__class__ is int:
        return literal(value)
    if isinstance(value, (Array, np.ndarray)):
        return _array_of(value.dtype, value.ndim)
    if isinstance(value, np.number):
        return loaded(value.dtype.name)
    if isinstance(value, (float, complex)):
        return scalar("float64" if isinstance(value, float) else "complex128")
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple_of(*map(of, value))
    return Value("object", object=value)


def of_argument(value: Any) -> Value:
    """As :func:`of`, without the value: another launch may have another."""
    if isinstance(value, Array):
        return _array_of(value.dtype, value.ndim)
    if value.__class__ is int:
        return next(kind for kind in _INTS if abs(value) >> kind.bits == 0 or kind is _INTS[-1])
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple_of(*map(of_argument, value))
    known = of(value)
    return UNKNOWN if known.kind == "object" else known


def known_arguments(given: tuple[Any, ...], passed: tuple[Any, ...]) -> tuple[Value, ...]:
    """What is known of a launch's arguments, ``given`` by the host and ``passed`` to the kernel.

    A NumPy integer has its own type, though the kernel is passed an int.
    """
    pairs = zip(given, passed, strict=True)
    return tuple(of_argument(a if isinstance(a, np.integer) else b) for a, b in pairs)


@lru_cache(maxsize=256)
def _array_of(dtype: np.dtype[Any], ndim: int) -> Value:
    return array(dtype.name, ndim)


def joined(left: Value, right: Value) -> Value:
    """What a variable is that holds ``left`` after one way here and ``right`` after another."""
    if left == right:
        return left
    if left.is_scalar and right.is_scalar:
        kind = numeric.either(left.kind, right.kind)
        bits = max(left.bits, right.bits) if kind in numeric.INTEGERS else 0
        mixed = left.mixed or right.mixed or left.wide != right.wide
        return Value(kind, bits, left.wide or right.wide, mixed)
    if left.kind == right.kind == "tuple" and len(left.items) == len(right.items):
        items = tuple(
            joined(a, b)
            if not differs(a, joined(a, b)) and not differs(b, joined(a, b))
            else UNKNOWN
            for a, b in zip(left.items, right.items, strict=True)
        )
        return tuple_of(*items)
    return UNKNOWN


def differs(value: Value, target: Value) -> bool:
    """Whether ``value`` must be converted where ``target`` is expected."""
    if value.kind == target.kind or not (value.is_scalar and target.is_scalar):
        return False
    return not (value.is_integer and target.is_integer)
