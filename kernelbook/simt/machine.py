"""Machine arithmetic on the values of a kernel, which are Python ints and NumPy scalars.

What :mod:`kernelbook.simt.arithmetic` writes into a kernel where Python would answer otherwise.

Source: results on an H200 (``tests/simt/conformance/h200.json``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_MASK = (1 << 64) - 1
_LARGEST = (1 << 63) - 1
_SMALLEST = -(1 << 63)


def wrap_signed(x: Any) -> Any:
    """An integer as int64: the lowest 64 bits, in two's complement."""
    if x.__class__ is int:
        if _SMALLEST <= x <= _LARGEST:
            return x
        x &= _MASK
        return x - (1 << 64) if x > _LARGEST else x
    return x if x.__class__ is np.int64 else wrap_signed(int(x))


def wrap_unsigned(x: Any) -> Any:
    """An integer as uint64: the lowest 64 bits."""
    return int(x) & _MASK


def floor_divide(a: Any, b: Any) -> Any:
    """``a // b`` of integers that fit one 64-bit type."""
    return a // b if b else _quotient_by_zero(a)


def remainder(a: Any, b: Any) -> Any:
    """``a % b`` of integers that fit one 64-bit type."""
    return a % b if b else _remainder_by_zero(a)


def _quotient_by_zero(a: Any) -> Any:
    return 0


def _remainder_by_zero(a: Any) -> Any:
    return 0


def power(a: Any, n: Any) -> Any:
    """``a ** n`` of integers, unbounded: the caller wraps. A negative ``n`` gives what 1 / a is."""
    a, n = int(a), int(n)
    if n >= 0:
        return pow(a, n, 1 << 64) if abs(a) > 1 else a**n
    return 0 if abs(a) != 1 else a**-n


def float_floor_divide(a: Any, b: Any) -> Any:
    """``a // b`` of floats of one type."""
    return np.floor_divide(a, b)


def float_remainder(a: Any, b: Any) -> Any:
    """``a % b`` of floats of one type, with the sign of ``b``."""
    return np.remainder(a, b)


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)`` of floats of one type."""
    return np.fmin(a, b)


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)`` of floats of one type."""
    return np.fmax(a, b)


def round_to_int(x: Any) -> Any:
    """``round(x)``: the nearest integer, halves to even; the ends of int64 out of range."""
    return _saturated(round(float(x)), x) if math.isfinite(x) else to_int64(x)


def _saturated(value: int, x: Any) -> int:
    return min(max(value, _SMALLEST), _LARGEST)


def _caster(bits: int, signed: bool) -> Callable[[Any], Any]:
    mask = (1 << bits) - 1
    low, high = (-(1 << (bits - 1)), mask >> 1) if signed else (0, mask)

    def cast(x: Any) -> Any:
        if isinstance(x, (float, np.floating)):
            if x != x:
                return 0
            return low if x <= low else high if x >= high else int(x)
        x = int(x)
        if low <= x <= high:
            return x
        x &= mask
        return x - mask - 1 if x > high else x

    return cast


to_int8, to_int16, to_int32, to_int64 = (_caster(bits, True) for bits in (8, 16, 32, 64))
to_uint8, to_uint16, to_uint32, to_uint64 = (_caster(bits, False) for bits in (8, 16, 32, 64))

NAMES: dict[str, Any] = {
    "__wrap_signed__": wrap_signed,
    "__wrap_unsigned__": wrap_unsigned,
    "__floor_divide__": floor_divide,
    "__remainder__": remainder,
    "__power__": power,
    "__float_floor_divide__": float_floor_divide,
    "__float_remainder__": float_remainder,
    "__smaller__": smaller,
    "__larger__": larger,
    "__round__": round_to_int,
    "__int__": int,
    "__bool__": bool,
    **{f"__{kind}__": getattr(np, kind) for kind in ("float16", "float32", "float64")},
    **{f"__{kind}__": getattr(np, kind) for kind in ("complex64", "complex128")},
    **{f"__np_{k}__": getattr(np, k) for k in ("int8", "int16", "uint8", "uint16", "uint32")},
    **{f"__np_{k}__": getattr(np, k) for k in ("int32", "int64", "uint64")},
    "__int8__": to_int8,
    "__int16__": to_int16,
    "__int32__": to_int32,
    "__int64__": to_int64,
    "__uint8__": to_uint8,
    "__uint16__": to_uint16,
    "__uint32__": to_uint32,
    "__uint64__": to_uint64,
}
"""The names under which a rewritten kernel finds all this."""
