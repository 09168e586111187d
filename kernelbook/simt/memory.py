"""Arrays as a kernel sees them. Every load, store and atomic of a kernel passes through here.

What a load returns keeps compiled arithmetic: floats and 64-bit integers come back as NumPy
scalars of their own type (float32 stays float32, int64 wraps), narrower integers as Python ints,
which like Numba's widened int64 do not overflow at 32 bits. A store converts to the array's type
as C does: integers wrap. An index outside the array, a negative one included, is a
:class:`BoundsError`.

When the launch has a log (see :mod:`kernelbook.simt.seam`) it builds :class:`Recorded` arrays,
which write every access down. Their bodies repeat each other: a call would cost as much as the
access. Without a log the plain classes are used, so that nobody pays for what nobody reads.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelbook import poison
from kernelbook.simt import bounds, guard, log, machine, stuck
from kernelbook.simt.dtypes import as_dtype
from kernelbook.simt.errors import BoundsError, KernelError, user_frame
from kernelbook.simt.log import KIND_BITS, Log
from kernelbook.simt.memory_map import Region, root_of
from kernelbook.simt.record import Kind
from kernelbook.simt.registers import now
from kernelbook.simt.whole import whole_array

_getframe = sys._getframe
_row = log.rows.extend
_ATOMIC = int(Kind.ATOMIC)
_ATOMIC_DEPTH = 3  # the kernel calls cuda.atomic.add, that the module's _change, that Array.atomic

Index = tuple[int, ...]
_ATOMIC_TYPES = "ilqILQfd"  # type characters of 32- and 64-bit integers and floats
# fmt: off
_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift", "divmod",
)
_OTHER_OPERATORS = (
    "lt", "le", "gt", "ge", "ne", "neg", "pos", "invert", "abs", "int", "float", "complex",
    "round", "floor", "ceil", "trunc",
)
# fmt: on


class Array:
    """A view of memory inside a kernel; any number of axes. Subclasses only make it faster."""

    __slots__ = ("at", "data", "dtype", "name", "ndim", "parent", "shape", "size", "space")

    def __init__(self, data: np.ndarray[Any, Any], name: str, space: str) -> None:
        self.data = data
        self.name = name
        self.space = space
        self.shape: tuple[int, ...] = data.shape
        self.size: int = data.size
        self.ndim: int = data.ndim
        self.dtype: np.dtype[Any] = data.dtype
        self.parent: Array | None = None
        self.at: Any = None

    @property
    def strides(self) -> tuple[int, ...]:
        return self.data.strides

    @property
    def itemsize(self) -> int:
        return self.data.itemsize

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    @property
    def T(self) -> Array:
        return self.view_of(self.data.T, "T")

    def transpose(self, *axes: Any) -> Array:
        return self.view_of(self.data.transpose(*axes), "transpose()")

    def reshape(self, *shape: Any) -> Array:
        """The same memory with another shape; needs contiguous memory, as in compiled code."""
        if not self.data.flags.c_contiguous:
            raise KernelError(f"{self.label()} is not contiguous, so it can't be reshaped")
        return self.view_of(self.data.reshape(*shape), "reshape()")

    def ravel(self) -> Array:
        return self.reshape(-1)

    @property
    def flat(self) -> Array:
        """All elements on one axis, rows first; needs contiguous memory."""
        if not self.data.flags.c_contiguous:
            raise KernelError(f"{self.label()}.flat needs contiguous memory: give an index an axis")
        return self.view_of(self.data.reshape(-1), "flat")

    def view(self, dtype: Any) -> Array:
        """The same bytes read as another type."""
        return self.view_of(self.data.view(as_dtype(dtype)), "view()")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(len(self)):
            yield self[i]

    def __repr__(self) -> str:
        return f"<{self.space} array {self.label()}, {self.dtype}{list(self.shape)}>"

    def __getitem__(self, index: Any) -> Any:
        return self.load(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.store(index, value)

    def __bool__(self) -> bool:
        raise whole_array(self)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise whole_array(self)

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        raise whole_array(self)

    def __eq__(self, other: object) -> Any:
        if other is None or other is self:
            return other is self
        raise whole_array(self)

    __hash__ = object.__hash__

    def view_of(self, data: np.ndarray[Any, Any], at: Any) -> Array:
        """An array over ``data``, part of this one's memory, that remembers where it came from."""
        part = wrap(data, self.name, self.space, region=getattr(self, "region", None))
        part.parent, part.at = self, at
        return part

    def label(self) -> str:
        """The name to show: the argument's or variable's, with the indices of views."""
        if self.parent is None:
            return self.name
        if isinstance(self.at, str):
            return f"{self.parent.label()}.{self.at}"
        return f"{self.parent.label()}[{_index_text(self.at)}]"

    def atomic(self, index: Any, change: Callable[..., Any], *operands: Any) -> Any:
        """``self[index] = change(old, *operands)`` in one step; returns ``old``.

        Raises KernelError for a type without atomics, BoundsError as any access does.
        """
        if self.dtype.char not in _ATOMIC_TYPES:
            raise KernelError(f"no atomics on {self.dtype}: use a 32- or 64-bit type")
        data = self.data
        at = index
        if index.__class__ is not int or self.ndim != 1 or not 0 <= index < self.size:
            at = self.element(index, "atomic on")
        old = data[at]
        kind = old.__class__
        try:
            new = change(old, *[kind(operand) for operand in operands])
        except (OverflowError, ValueError, TypeError):  # an integer that wraps, a NaN to convert
            new = change(old, *[self.cast(operand) for operand in operands])
        data[at] = new
        return old if old.itemsize == 8 or old.dtype.kind == "f" else old.item()

    def cast(self, value: Any) -> Any:
        """``value`` as a scalar of this array's type: integers wrap, floats truncate."""
        dtype = self.dtype
        if dtype.kind in "iu":
            if isinstance(value, (int, np.integer)):
                return _wrapped(int(value), dtype)
            if isinstance(value, (float, np.floating)):
                return dtype.type(getattr(machine, f"to_{dtype.name}")(value))
        if isinstance(value, Array):
            raise whole_array(value)
        return dtype.type(value)

    def element(self, index: Any, verb: str) -> Index:
        """``index`` as a checked tuple of ints, one for each axis."""
        at = index if isinstance(index, tuple) else (index,)
        if len(at) != self.ndim:
            raise KernelError(f"{self.label()} has {self.ndim} axes and is indexed with {len(at)}")
        checked = tuple(_as_int(i) for i in at)
        for i, n in zip(checked, self.shape, strict=True):
            if not 0 <= i < n:
                raise self._out_of_bounds(verb, checked)
        return checked

    def load(self, index: Any) -> Any:
        """``self[index]`` for any index: an element, or a view for a slice or a missing axis."""
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            return _as_loaded(self.data[self.element(at, "reads")])
        return self.view_of(self.data[self._part(at, "reads")], index)

    def store(self, index: Any, value: Any) -> None:
        """``self[index] = value`` for any index."""
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            self.data[self.element(at, "writes")] = self.cast(value)
            return
        target = self.data[self._part(at, "writes")]
        target[...] = value.data if isinstance(value, Array) else self.cast(value)

    def _part(self, at: tuple[Any, ...], verb: str) -> tuple[Any, ...]:
        """Index of a view: integers are checked, slices clamp as in Python and in Numba."""
        if sum(i is not Ellipsis for i in at) > self.ndim:
            raise KernelError(f"{self.label()} has {self.ndim} axes and is indexed with {len(at)}")
        axes = _expanded(at, self.ndim)
        for i, n in zip(axes, self.shape, strict=False):
            if not isinstance(i, slice) and not 0 <= _as_int(i) < n:
                raise self._out_of_bounds(verb, at)
        return axes

    def _out_of_bounds(self, verb: str, at: tuple[Any, ...]) -> BoundsError:
        frame = user_frame(sys._getframe(1))
        name = self.label()
        for local, value in (frame.f_locals if frame else {}).items():
            if value is self:
                name = local
                break
        size = str(self.size) if self.ndim == 1 else f"shape {self.shape}"
        text = f"size {size}" if self.ndim == 1 else size
        what = f"{verb} {name}[{_index_text(at)}], {text}"
        numbers = tuple(
            None if isinstance(i, slice) else _as_int(i) for i in _expanded(at, self.ndim)
        )
        return BoundsError(stuck.here(frame).says(what, bounds.advice(self, verb, numbers, frame)))


def _refuse_whole(name: str) -> None:
    def method(self: Array, *_: Any) -> Any:
        raise whole_array(self)

    method.__name__ = f"__{name}__"
    setattr(Array, method.__name__, method)


for _name in _BINARY:
    _refuse_whole(_name)
    _refuse_whole(f"r{_name}")
for _name in _OTHER_OPERATORS:
    _refuse_whole(_name)


class Vector(Array):
    """One axis; loads give NumPy scalars."""

    __slots__ = ()

    def __getitem__(self, i: Any) -> Any:
        try:
            if i >= 0:
                return self.data[i]
        except (TypeError, IndexError, ValueError):
            pass
        return self.load(i)

    def __setitem__(self, i: Any, value: Any) -> None:
        try:
            if i >= 0:
                self.data[i] = value
                return
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        self.store(i, value)


class NarrowVector(Vector):
    """One axis of integers under 64 bits or booleans; loads give Python ints and bools."""

    __slots__ = ()

    def __getitem__(self, i: Any) -> Any:
        try:
            if i >= 0:
                return self.data.item(i)
        except (TypeError, IndexError, ValueError):
            pass
        return self.load(i)


class Matrix(Array):
    """Two axes; loads give NumPy scalars."""

    __slots__ = ()

    def __getitem__(self, ij: Any) -> Any:
        try:
            i, j = ij
            if i | j >= 0:
                return self.data[ij]
        except (TypeError, IndexError, ValueError):
            pass
        return self.load(ij)

    def __setitem__(self, ij: Any, value: Any) -> None:
        try:
            i, j = ij
            if i | j >= 0:
                self.data[ij] = value
                return
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        self.store(ij, value)


class NarrowMatrix(Matrix):
    """Two axes of integers under 64 bits or booleans; loads give Python ints and bools."""

    __slots__ = ()

    def __getitem__(self, ij: Any) -> Any:
        try:
            i, j = ij
            if i | j >= 0:
                return self.data.item(ij)
        except (TypeError, IndexError, ValueError):
            pass
        return self.load(ij)


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

    def load(self, index: Any) -> Any:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            checked = self.element(at, "reads")
            self._note(Kind.LOAD, checked)
            return _as_loaded(self.data[checked])
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
        except (TypeError, IndexError, ValueError):
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
        except (TypeError, IndexError, ValueError):
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
        except (TypeError, IndexError, ValueError):
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
        except (TypeError, IndexError, ValueError):
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


_PLAIN: dict[tuple[int, bool], type[Array]] = {
    (1, False): Vector,
    (1, True): NarrowVector,
    (2, False): Matrix,
    (2, True): NarrowMatrix,
}
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
    if data.dtype.fields is not None and not isinstance(data, np.recarray):
        data = data.view(np.recarray)
    shape = data.ndim, data.dtype.kind in "iub" and data.itemsize < 8
    log = now.log
    if log is None:
        return _PLAIN.get(shape, Array)(data, name, space)
    region = region or log.memory.region(data, name, space, owner)
    if data.dtype.fields is not None:
        return RecordedRecords(data, name, space, log, region)
    return _RECORDED.get(shape, Recorded)(data, name, space, log, region)


_unwritten: dict[int, weakref.ref[Any]] = {}


def poisoned(shape: Any, dtype: np.dtype[Any], order: Any = "C") -> np.ndarray[Any, Any]:
    """New memory that holds what no kernel computes: see :mod:`kernelbook.poison`."""
    made = np.empty(shape, dtype, order)
    made[...] = poison.element(dtype)[0]
    return made


def fresh(shape: Any, dtype: np.dtype[Any], order: Any = "C") -> np.ndarray[Any, Any]:
    """Poisoned memory that host code sees: marked as unwritten, between guard zones."""
    made = guard.guarded(shape, dtype, order, poison.element(dtype))
    mark_unwritten(made)
    return made


def mark_unwritten(array: np.ndarray[Any, Any]) -> None:
    """Remember that ``array`` is poisoned memory: reading it before it is written is a defect."""
    root = root_of(array)
    key = id(root)
    _unwritten[key] = weakref.ref(root, lambda _: _unwritten.pop(key, None))


def is_marked(array: np.ndarray[Any, Any]) -> bool:
    """Whether the memory of ``array`` was made by :func:`mark_unwritten`'s caller as poison."""
    return id(root_of(array)) in _unwritten


def written_bytes(made: np.ndarray[Any, Any], memory: np.ndarray[Any, Any]) -> Any:
    """Which bytes of ``memory`` are initialised, in their order there; None when all are.

    made: the array that the host made; memory: that array or its copy on the device.
    """
    if not isinstance(made, np.ndarray) or not is_marked(made) or memory.dtype.kind == "b":
        return None
    if not (memory.flags.c_contiguous or memory.flags.f_contiguous):
        return None
    poisoned = poison.untouched(memory.ravel(order="K"))
    if not poisoned.any() or (memory.itemsize < 4 and not poisoned.all()):
        return None  # of narrow elements that were written some may look like the poison
    return np.repeat(~poisoned, memory.itemsize)


def _as_loaded(value: Any) -> Any:
    """A NumPy scalar as a load returns it: narrow integers and booleans as Python's."""
    if isinstance(value, (np.integer, np.bool_)) and value.itemsize < 8:
        return value.item()
    return value


def _as_int(index: Any) -> int:
    try:
        return operator.index(index)
    except TypeError:
        kind = type(index).__name__
        raise KernelError(f"an index must be an integer, not {kind} ({index!r})") from None


def _expanded(at: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """``at`` with an Ellipsis replaced by the slices that it stands for."""
    if not any(i is Ellipsis for i in at):
        return at
    place = next(n for n, i in enumerate(at) if i is Ellipsis)
    return (*at[:place], *[slice(None)] * (ndim - len(at) + 1), *at[place + 1 :])


def _index_text(at: Any) -> str:
    def one(i: Any) -> str:
        if isinstance(i, slice):
            ends = [("" if end is None else str(end)) for end in (i.start, i.stop)]
            return ":".join(ends) + (f":{i.step}" if i.step is not None else "")
        return "..." if i is Ellipsis else str(i)

    return ", ".join(one(i) for i in (at if isinstance(at, tuple) else (at,)))


def _wrapped(value: int, dtype: np.dtype[Any]) -> Any:
    bits = dtype.itemsize * 8
    value &= (1 << bits) - 1
    if dtype.kind == "i" and value >> (bits - 1):
        value -= 1 << bits
    return dtype.type(value)
