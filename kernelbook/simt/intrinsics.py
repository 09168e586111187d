"""Scalar device functions: bits, selection, fused multiply-add, fences, cache-hinted access.

Bit functions depend on the width of their argument. NumPy scalars carry theirs; a Python int (a
literal, an index, a narrow load) counts as 32 bits where it fits, else as 64.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np

from kernelbook.simt.record import Kind
from kernelbook.simt.registers import now, outside


def popc(x: Any) -> int:
    """The number of bits set in ``x``."""
    value, _ = _bits(x)
    return value.bit_count()


def clz(x: Any) -> int:
    """The number of leading zeros in ``x``."""
    value, width = _bits(x)
    return width - value.bit_length()


def ffs(x: Any) -> int:
    """The position of the lowest bit set, counted from 1; 0 when there is none."""
    value, _ = _bits(x)
    return (value & -value).bit_length()


def brev(x: Any) -> int:
    """``x`` with its 32 (or 64) bits in reverse order, unsigned."""
    value, width = _bits(x)
    width = max(width, 32)
    return int(f"{value:0{width}b}"[::-1], 2)


def signed(bits: int) -> int:
    """32 bits as the int32 that they are."""
    return bits - (1 << 32) if bits >> 31 else bits


def selp(test: Any, a: Any, b: Any) -> Any:
    """``a`` where ``test`` is true, else ``b``; both were evaluated."""
    return a if test else b


def fma(a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""
    narrow = all(isinstance(v, (np.float32, int)) for v in (a, b, c))
    kind: Any = np.float32 if narrow else np.float64
    values = float(a), float(b), float(c)
    if not all(map(math.isfinite, values)):
        return kind(values[0] * values[1] + values[2])
    exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
    if exact == 0:
        return kind(values[0] * values[1] + values[2])
    return _rounded(exact, kind)


def cbrt(a: Any) -> Any:
    """The cube root."""
    root = np.cbrt(np.float64(a))
    return np.float32(root) if isinstance(a, np.float32) else root


def threadfence() -> None:
    """Order this thread's memory accesses for the whole device."""
    _fence("threadfence", Kind.FENCE)


def threadfence_block() -> None:
    """Order this thread's memory accesses for its block."""
    _fence("threadfence_block", Kind.FENCE_BLOCK)


def threadfence_system() -> None:
    """Order this thread's memory accesses for all devices."""
    _fence("threadfence_system", Kind.FENCE)


def _fence(name: str, kind: Kind) -> None:
    """Values need no fence here, where one thread runs at a time; the verdict on races does."""
    if now.block is None:
        raise outside(name)
    if now.log is not None:
        now.log.event(kind, sys._getframe(2))


def load_hinted(array: Any, i: Any) -> Any:
    """``array[i]``; the cache hint has no effect here (``ldca ldcg ldcs ldlu ldcv``)."""
    return array.load(i)


def store_hinted(array: Any, i: Any, value: Any) -> None:
    """``array[i] = value``; the cache hint has no effect here (``stcg stcs stwb stwt``)."""
    array.store(i, value)


def _bits(x: Any) -> tuple[int, int]:
    """The two's complement bits of ``x`` and their number."""
    if isinstance(x, (np.integer, np.bool_)):
        width = x.itemsize * 8
    else:
        width = 32 if -(1 << 31) <= int(x) < 1 << 32 else 64
    return int(x) & ((1 << width) - 1), width


def _rounded(exact: Fraction, kind: Any) -> Any:
    """``exact`` as the nearest float64 or float32, ties to even, with a single rounding."""
    try:
        double = exact.numerator / exact.denominator
    except OverflowError:
        double = math.inf if exact > 0 else -math.inf
    if kind is np.float64:
        return np.float64(double)
    near = np.float32(double)
    if not math.isfinite(float(near)) or Fraction(double) == exact:
        return near
    # The double may have been rounded onto a float32 tie: decide by the exact value.
    other = np.nextafter(near, np.float32(math.inf if exact > Fraction(float(near)) else -math.inf))
    if not math.isfinite(float(other)):
        return near
    gap_near = abs(exact - Fraction(float(near)))
    gap_other = abs(exact - Fraction(float(other)))
    return other if gap_other < gap_near else near
