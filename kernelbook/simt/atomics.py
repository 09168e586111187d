"""``cuda.atomic``: read-modify-write in one step. Each returns the old value.

Operands are first converted to the array's type, as the compiled call does; integers wrap. The
index is an int, or a tuple for several axes, and is checked as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelbook.simt.errors import KernelError
from kernelbook.simt.memory import Array
from kernelbook.simt.polling import unchanged


class Atomic:
    """The namespace ``cuda.atomic``."""

    def __repr__(self) -> str:
        return "<atomic>"

    def add(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] += value``."""
        return _change("add", array, index, _add, value)

    def sub(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] -= value``."""
        return _change("sub", array, index, _sub, value)

    def and_(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] &= value``; integers only."""
        return _change("and_", _integers("and_", array), index, _and, value)

    def or_(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] |= value``; integers only."""
        return _change("or_", _integers("or_", array), index, _or, value)

    def xor(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] ^= value``; integers only."""
        return _change("xor", _integers("xor", array), index, _xor, value)

    def inc(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = 0 if old >= value else old + 1``; unsigned integers only."""
        return _change("inc", _integers("inc", array, "u"), index, _inc, value)

    def dec(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = value if old == 0 or old > value else old - 1``; unsigned only."""
        return _change("dec", _integers("dec", array, "u"), index, _dec, value)

    def exch(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = value``; integers only."""
        return _change("exch", _integers("exch", array), index, _exch, value)

    def max(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = max(old, value)``; a NaN operand changes nothing, an old NaN stays."""
        return _change("max", array, index, _max, value)

    def min(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = min(old, value)``; a NaN operand changes nothing, an old NaN stays."""
        return _change("min", array, index, _min, value)

    def nanmax(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = max(old, value)``, where NaN counts as missing."""
        return _change("nanmax", array, index, _nanmax, value)

    def nanmin(self, array: Array, index: Any, value: Any) -> Any:
        """``array[index] = min(old, value)``, where NaN counts as missing."""
        return _change("nanmin", array, index, _nanmin, value)

    def cas(self, array: Array, index: Any, old: Any, value: Any) -> Any:
        """``if array[index] == old: array[index] = value``; integers only."""
        return _change("cas", _integers("cas", array), index, _cas, old, value)

    def compare_and_swap(self, array: Array, old: Any, value: Any) -> Any:
        """``cas`` on element 0 of a one-dimensional array; integers only."""
        return _change("cas", _integers("compare_and_swap", array), 0, _cas, old, value)


atomic = Atomic()


def _change(name: str, array: Any, index: Any, change: Any, *operands: Any) -> Any:
    if not isinstance(array, Array):
        raise KernelError(
            f"cuda.atomic.{name} works on an element of an array: its first argument is a "
            f"{type(array).__name__}. Pass the array and the index separately"
        )
    old = array.atomic(index, change, *operands)
    # The most frequent one first, without a call.
    if operands[0] == 0 if change is _add else _KEEPS[change](old, *operands):
        unchanged(array, index, old, operands)
    return old


def _integers(name: str, array: Any, kinds: str = "iu") -> Any:
    if isinstance(array, Array) and array.dtype.kind not in kinds:
        wanted = "unsigned integers" if kinds == "u" else "integers"
        raise KernelError(f"cuda.atomic.{name} works on {wanted}, not on {array.dtype}")
    return array


def _add(old: Any, value: Any) -> Any:
    return old + value


def _sub(old: Any, value: Any) -> Any:
    return old - value


def _and(old: Any, value: Any) -> Any:
    return old & value


def _or(old: Any, value: Any) -> Any:
    return old | value


def _xor(old: Any, value: Any) -> Any:
    return old ^ value


def _inc(old: Any, value: Any) -> Any:
    return old - old if old >= value else old + 1


def _dec(old: Any, value: Any) -> Any:
    return value if old == 0 or old > value else old - 1


def _exch(old: Any, value: Any) -> Any:
    return value


def _max(old: Any, value: Any) -> Any:
    return value if value > old else old


def _min(old: Any, value: Any) -> Any:
    return value if value < old else old


def _nanmax(old: Any, value: Any) -> Any:
    return value if value > old or old != old else old


def _nanmin(old: Any, value: Any) -> Any:
    return value if value < old or old != old else old


def _cas(current: Any, old: Any, value: Any) -> Any:
    return value if current == old else current


def _zero(old: Any, value: Any) -> bool:
    return bool(value == 0)


def _same(old: Any, value: Any) -> bool:
    return bool(old == value)


# Whether an operation leaves the old value as it was: then it may be a poll.
_KEEPS: dict[Any, Callable[..., bool]] = {
    _sub: _zero,
    _xor: _zero,
    _and: lambda old, value: int(old) & int(value) == old,
    _or: lambda old, value: int(old) | int(value) == old,
    _inc: lambda old, value: old == value == 0,
    _dec: lambda old, value: old == value == 0,
    _exch: _same,
    _max: lambda old, value: not value > old,
    _min: lambda old, value: not value < old,
    _nanmax: lambda old, value: not value > old,
    _nanmin: lambda old, value: not value < old,
    _cas: lambda current, old, value: current != old or current == value,
}
