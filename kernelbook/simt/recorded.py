"""Arrays of a launch that is written down: every access becomes a row of the log.

Their bodies repeat each other and those of :mod:`kernelbook.simt.memory`: a call would cost as
much as the access. :func:`wrap` chooses between the two kinds.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from kernelbook.simt import log
from kernelbook.simt.errors import user_frame
from kernelbook.simt.log import KIND_BITS, Log
from kernelbook.simt.memory import Array, Index, as_loaded, plain, shaped
from kernelbook.simt.memory_map import Region
from kernelbook.simt.record import Kind
from kernelbook.simt.registers import now

_getframe = sys._getframe
_row = log.rows.extend
_ATOMIC = int(Kind.ATOMIC)
_ATOMIC_DEPTH = 3  # the kernel calls cuda.atomic.add, that the module's _change, that Array.atomic


class Recorded(Array):
    """Any number of axes; writes every access into the log, then does what :class:`Array` does."""

    __slots__ = ("code", "region", "steps")

    def __init__(
        self, data: np.ndarray[Any, Any], name: str, space: str, log: Log, region: Region
    ) -> None:
        super().__init__(data, name, space)
        self.region = region
        unit = data.itemsize
        if data.ndim == 1:
            unit = data.strides[0] if data.size > 1 else unit
            self.steps: tuple[int, ...] = (1,)
        elif any(stride % unit for stride in data.strides):
            unit, self.steps = 1, data.strides
        else:
            self.steps = tuple(stride // unit for stride in data.strides)
        self.code = log.memory.view(region, data, unit) << KIND_BITS

    def over(self, data: np.ndarray[Any, Any]) -> Array:
        return wrap(data, self.name, self.space, region=self.region)

    def load(self, index: Any) -> Any:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            checked = self.element(at, "reads")
            self._note(Kind.LOAD, checked)
            return as_loaded(self.data[checked])
        return self.view_of(self.data[self._part(at, "reads")], index)

    def store(self, index: Any, value: Any) -> None:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            checked = self.element(at, "writes")
            super().store(index, value)
            self._note(Kind.STORE, checked)
            return
        target = self.view_of(self.data[self._part(at, "writes")], index)
        super().store(index, value)
        if isinstance(value, Recorded):
            value.note_all(Kind.LOAD)
        if isinstance(target, Recorded):
            target.note_all(Kind.STORE)

    def atomic(self, index: Any, change: Callable[..., Any], *operands: Any) -> Any:
        old = super().atomic(index, change, *operands)
        frame = _getframe(_ATOMIC_DEPTH)
        at = index if index.__class__ is tuple else (index,)
        place = at[0] if self.ndim == 1 else sum(map(operator.mul, at, self.steps))
        _row((self.code + _ATOMIC, place, frame.f_lasti, frame.f_code))
        return old

    def note_all(self, kind: Kind) -> None:
        """Write down every element, for accesses that name a whole slice."""
        for at in np.ndindex(self.shape):
            self._note(kind, at)

    def _note(self, kind: Kind, at: Index) -> None:
        frame = user_frame(_getframe(1))
        if frame is None:
            return
        _row(
            (self.code + kind, sum(map(operator.mul, at, self.steps)), frame.f_lasti, frame.f_code)
        )


class RecordedVector(Recorded):
    """One axis; loads give NumPy scalars."""

    __slots__ = ()

    def __getitem__(self, i: Any) -> Any:
        try:
            if i >= 0:
                value = self.data[i]
                frame = _getframe(1)
                _row((self.code, i, frame.f_lasti, frame.f_code))
                return value
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        return self.load(i)

    def __setitem__(self, i: Any, value: Any) -> None:
        try:
            if i >= 0:
                self.data[i] = value
                frame = _getframe(1)
                _row((self.code + 1, i, frame.f_lasti, frame.f_code))
                return
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        self.store(i, value)


class RecordedNarrowVector(RecordedVector):
    """One axis of integers under 64 bits or booleans; loads give Python ints and bools."""

    __slots__ = ()

    def __getitem__(self, i: Any) -> Any:
        try:
            if i >= 0:
                value = self.data.item(i)
                frame = _getframe(1)
                _row((self.code, i, frame.f_lasti, frame.f_code))
                return value
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        return self.load(i)


class RecordedMatrix(Recorded):
    """Two axes; loads give NumPy scalars."""

    __slots__ = ()

    def __getitem__(self, ij: Any) -> Any:
        try:
            i, j = ij
            if i | j >= 0:
                value = self.data[ij]
                step, other = self.steps
                frame = _getframe(1)
                _row((self.code, i * step + j * other, frame.f_lasti, frame.f_code))
                return value
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        return self.load(ij)

    def __setitem__(self, ij: Any, value: Any) -> None:
        try:
            i, j = ij
            if i | j >= 0:
                self.data[ij] = value
                step, other = self.steps
                frame = _getframe(1)
                _row((self.code + 1, i * step + j * other, frame.f_lasti, frame.f_code))
                return
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        self.store(ij, value)


class RecordedNarrowMatrix(RecordedMatrix):
    """Two axes of integers under 64 bits or booleans; loads give Python ints and bools."""

    __slots__ = ()

    def __getitem__(self, ij: Any) -> Any:
        try:
            i, j = ij
            if i | j >= 0:
                value = self.data.item(ij)
                step, other = self.steps
                frame = _getframe(1)
                _row((self.code, i * step + j * other, frame.f_lasti, frame.f_code))
                return value
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        return self.load(ij)


class RecordedRecords(Recorded):
    """Elements with fields, any number of axes: each field that is touched is an access."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            return Fields(self, self.element(at, "reads"))
        return super().load(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.store(index, value.whole() if isinstance(value, Fields) else value)

    def field(self, name: str) -> Array:
        """The array of one field. Raises AttributeError when the records have no such field."""
        if name not in (self.dtype.fields or {}):
            known = ", ".join(self.dtype.names or ())
            raise AttributeError(f"{self.label()} has no field {name!r}; it has {known}")
        return self.view_of(np.asarray(self.data)[name], name)


class Fields:
    """One element of an array of records: ``.name`` and ``["name"]`` reach its fields."""

    __slots__ = ("_array", "_at")

    def __init__(self, array: RecordedRecords, at: Index) -> None:
        object.__setattr__(self, "_array", array)
        object.__setattr__(self, "_at", at)

    def __getattr__(self, name: str) -> Any:
        return self._array.field(name).load(self._at)

    def __setattr__(self, name: str, value: Any) -> None:
        self._array.field(name).store(self._at, value)

    __getitem__ = __getattr__
    __setitem__ = __setattr__

    def whole(self) -> Any:
        """The record as a value: every byte of it is read."""
        return self._array.load(self._at)


_RECORDED: dict[tuple[int, bool], type[Recorded]] = {
    (1, False): RecordedVector,
    (1, True): RecordedNarrowVector,
    (2, False): RecordedMatrix,
    (2, True): RecordedNarrowMatrix,
}


def wrap(
    data: np.ndarray[Any, Any],
    name: str,
    space: str,
    *,
    owner: tuple[int, int] = (-1, -1),
    region: Region | None = None,
) -> Array:
    """The fastest array class for ``data``; one that records when the launch has a log.

    space: "global", "shared", "local" or "const". owner: number of the block that shared memory
    belongs to, and number in the grid of the thread that local memory belongs to. region: what
    ``data`` is a view of, when that is known.
    """
    of = now.log
    if of is None:
        return plain(data, name, space)
    data, shape = shaped(data)
    region = region or of.memory.region(data, name, space, owner)
    kind = RecordedRecords if data.dtype.fields is not None else _RECORDED.get(shape, Recorded)
    return kind(data, name, space, of, region)
