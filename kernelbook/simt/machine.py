"""Machine arithmetic on the values of a kernel, which are Python ints and NumPy scalars.

What :mod:`kernelbook.simt.arithmetic` writes into a kernel where Python would answer otherwise.

Source: results on an H200 (``tests/simt/conformance/h200.json``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelbook.simt.intrinsics import fma
from kernelbook.simt.numeric import INTEGERS

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
    """``a // b`` of integers of one 64-bit type: 0 for a zero ``b``, and where it overflows."""
    if not b or (b == -1 and a == _SMALLEST):
        return 0
    return a // b


def remainder(a: Any, b: Any) -> Any:
    """``a % b`` of integers of one 64-bit type: 0 for a zero ``b``."""
    return a % b if b else 0


def divide_both(a: Any, b: Any) -> tuple[Any, Any]:
    """``divmod(a, b)`` of integers of one 64-bit type."""
    return floor_divide(a, b), remainder(a, b)


def power(a: Any, n: Any) -> Any:
    """``a ** n`` of integers, unbounded: the caller wraps. A negative ``n`` gives what 1 / a is."""
    a, n = int(a), int(n)
    if n >= 0:
        return pow(a, n, 1 << 64) if abs(a) > 1 else a**n
    return 0 if abs(a) != 1 else a**-n


def float_power(a: Any, n: Any) -> Any:
    """``a ** n`` of a float and an integer: products in the type of ``a``, by squaring."""
    one = a.__class__(1)
    result, left = one, abs(int(n))
    while left:
        if left & 1:
            result *= a
        left >>= 1
        if left:
            a *= a
    return one / result if n < 0 else result


def float_divide_both(a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and remainder of floats of one type, rounded down.

    The device has no exact remainder: it is ``a - trunc(a / b) * b``, corrected to the sign of
    ``b``. Source: ``real_divmod_func_body`` of numba-cuda 0.30.4.
    """
    kind = a.__class__
    if b == 0:
        return a / b, kind(math.nan)
    rest = kind(fma(-np.trunc(a / b), b, a))
    quotient = (a - rest) / b
    if rest != 0:
        if (b < 0) != (rest < 0):
            quotient -= kind(1)
            rest += b
    else:
        rest = kind(-0.0 if b < 0 else 0.0)
    if quotient != 0:
        whole = np.floor(quotient)
        return (whole + kind(1) if quotient - whole > 0.5 else whole), rest
    return quotient * quotient * a / b, rest


def float_floor_divide(a: Any, b: Any) -> Any:
    """``a // b`` of floats of one type."""
    return float_divide_both(a, b)[0]


def float_remainder(a: Any, b: Any) -> Any:
    """``a % b`` of floats of one type, with the sign of ``b``."""
    return float_divide_both(a, b)[1]


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)`` of floats of one type: a NaN counts as missing, -0.0 is below 0.0."""
    if a < b:
        return a
    if b < a:
        return b
    if a == b:
        return a if np.signbit(a) else b
    return b if a != a else a


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)`` of floats of one type: a NaN counts as missing, -0.0 is below 0.0."""
    if a > b:
        return a
    if b > a:
        return b
    if a == b:
        return b if np.signbit(a) else a
    return b if a != a else a


def round_to_int(x: Any) -> Any:
    """``round(x)``: the nearest integer, halves to even; the ends of int64 out of range."""
    return min(max(round(float(x)), _SMALLEST), _LARGEST) if math.isfinite(x) else to_int64(x)


def round_to_digits(x: Any, digits: Any) -> Any:
    """``round(x, digits)``: scaled by a power of ten, rounded to even and scaled back."""
    scale = 10.0 ** abs(int(digits))
    value = float(x)
    scaled = value * scale if digits >= 0 else value / scale
    if not math.isfinite(scaled):
        return x
    whole = float(round(scaled))
    return x.__class__(whole / scale if digits >= 0 else whole * scale)


def half_to_int64(x: Any) -> Any:
    """``int(x)`` of a float16: rounded to the nearest, which is what the device's cast does."""
    return to_int64(np.rint(np.float32(x)))


def _caster(bits: int, signed: bool) -> Callable[[Any], Any]:
    mask = (1 << bits) - 1
    low, high = (-(1 << (bits - 1)), mask >> 1) if signed else (0, mask)
    # A float is converted to 16 bits or more, with saturation, and cut to 8 bits afterwards.
    float_low, float_high = (low, high) if bits > 8 else (low << 8, (high << 8) | 0xFF)
    nan_bits = 0 if bits == 8 else 1 << (bits - 1)
    double_nan = nan_bits if not signed else -nan_bits

    def cast(x: Any) -> Any:
        if isinstance(x, (float, np.floating)):
            if x != x:
                return double_nan if bits == 64 or np.asarray(x).itemsize == 8 else 0
            x = float_low if x <= float_low else float_high if x >= float_high else int(x)
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
    "__divide_both__": divide_both,
    "__power__": power,
    "__float_power__": float_power,
    "__float_divide_both__": float_divide_both,
    "__float_floor_divide__": float_floor_divide,
    "__float_remainder__": float_remainder,
    "__smaller__": smaller,
    "__larger__": larger,
    "__round__": round_to_int,
    "__round_to_digits__": round_to_digits,
    "__half_to_int64__": half_to_int64,
    "__int__": int,
    "__bool__": bool,
    **{f"__{kind}__": getattr(np, kind) for kind in ("float16", "float32", "float64")},
    **{f"__{kind}__": getattr(np, kind) for kind in ("complex64", "complex128")},
    **{f"__np_{kind}__": np.dtype(kind).type for kind in INTEGERS},
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
