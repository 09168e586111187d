"""Arrays as a kernel sees them. Every load, store and atomic of a kernel passes through here.

What a load returns keeps compiled arithmetic: floats and 64-bit integers come back as NumPy
scalars of their own type (float32 stays float32, int64 wraps), narrower integers as Python ints,
which like Numba's widened int64 do not overflow at 32 bits. A store converts to the array's type
as C does: integers wrap. An index outside the array, a negative one included, is a
:class:`BoundsError`.

The seam: with an observer (see :func:`kernelbook.simt.observe`) a launch builds :class:`Observed`
arrays, which report every access and then do the same. Without one the plain classes are used, so
that nobody pays for what nobody hears.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelbook.simt import bounds, seam, stuck
from kernelbook.simt.dtypes import as_dtype
from kernelbook.simt.errors import BoundsError, KernelError, user_frame
from kernelbook.simt.whole import whole_array

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

    __slots__ = ("at", "base", "data", "dtype", "name", "ndim", "parent", "shape", "size", "space")

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
        self.base: seam.Allocation | None = None

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
        return self._load(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._store(index, value)

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
        part = wrap(data, self.name, self.space, self.base)
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
                return _saturated(float(value), dtype)
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

    def _load(self, index: Any) -> Any:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            return _as_loaded(self.data[self.element(at, "reads")])
        return self.view_of(self.data[self._part(at, "reads")], index)

    def _store(self, index: Any, value: Any) -> None:
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
        return self._load(i)

    def __setitem__(self, i: Any, value: Any) -> None:
        try:
            if i >= 0:
                self.data[i] = value
                return
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        self._store(i, value)


class NarrowVector(Vector):
    """One axis of integers under 64 bits or booleans; loads give Python ints and bools."""

    __slots__ = ()

    def __getitem__(self, i: Any) -> Any:
        try:
            if i >= 0:
                return self.data.item(i)
        except (TypeError, IndexError, ValueError):
            pass
        return self._load(i)


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
        return self._load(ij)

    def __setitem__(self, ij: Any, value: Any) -> None:
        try:
            i, j = ij
            if i | j >= 0:
                self.data[ij] = value
                return
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        self._store(ij, value)


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
        return self._load(ij)


class Observed(Array):
    """Reports every access to the observer of the launch, then does what :class:`Array` does."""

    __slots__ = ()

    def _load(self, index: Any) -> Any:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            checked = self.element(at, "reads")
            self._report("load", checked)
            return _as_loaded(self.data[checked])
        return self.view_of(self.data[self._part(at, "reads")], index)

    def _store(self, index: Any, value: Any) -> None:
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            self._report("store", self.element(at, "writes"))
        else:
            target = self.view_of(self.data[self._part(at, "writes")], index)
            if isinstance(value, Observed):
                value.report_all("load")
            if isinstance(target, Observed):
                target.report_all("store")
        super()._store(index, value)

    def atomic(self, index: Any, change: Callable[..., Any], *operands: Any) -> Any:
        if self.dtype.char in _ATOMIC_TYPES:
            self._report("atomic", self.element(index, "atomic on"))
        return super().atomic(index, change, *operands)

    def report_all(self, kind: str) -> None:
        """Report every element, for accesses that name a whole slice."""
        for at in np.ndindex(self.shape):
            self._report(kind, at)

    def _report(self, kind: str, at: Index) -> None:
        assert self.base is not None
        data = self.data
        start = data.__array_interface__["data"][0] - self.base.address
        offset = start + sum(i * stride for i, stride in zip(at, data.strides, strict=True))
        seam.report(kind, self.base, at, offset, data.itemsize)


def wrap(
    data: np.ndarray[Any, Any], name: str, space: str, base: seam.Allocation | None = None
) -> Array:
    """The fastest array class for ``data``; the reporting one when somebody listens.

    space: "global", "shared", "local" or "const". base: the allocation that ``data`` is part of.
    """
    if data.dtype.fields is not None and not isinstance(data, np.recarray):
        data = data.view(np.recarray)
    if seam.listening():
        array: Array = Observed(data, name, space)
        array.base = base or seam.Allocation.of(data, name, space)
        return array
    narrow = data.dtype.kind in "iub" and data.itemsize < 8
    if data.ndim == 1:
        return (NarrowVector if narrow else Vector)(data, name, space)
    if data.ndim == 2:
        return (NarrowMatrix if narrow else Matrix)(data, name, space)
    return Array(data, name, space)


def fresh(shape: Any, dtype: np.dtype[Any], order: Any = "C") -> np.ndarray[Any, Any]:
    """New memory that holds what no kernel computes: NaN, or the byte 0xA5 repeated."""
    if dtype.kind in "fc":
        return np.full(shape, np.nan, dtype, order)
    count = int(np.prod(shape, dtype=np.int64))
    buffer = np.full(count * dtype.itemsize, 0xA5, np.uint8)
    return buffer.view(dtype).reshape(shape, order=order)


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


def _saturated(value: float, dtype: np.dtype[Any]) -> Any:
    """A float as the hardware converts it: towards zero, clamped to the range, NaN to 0."""
    if value != value:
        return dtype.type(0)
    info = np.iinfo(dtype)
    if value >= info.max:
        return dtype.type(info.max)
    return dtype.type(max(info.min, int(value)) if value > info.min else info.min)
