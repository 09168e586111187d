"""Arrays as a kernel sees them. Every load, store and atomic of a kernel passes through here.

What a load returns keeps compiled arithmetic: floats and 64-bit integers come back as NumPy
scalars of their own type (float32 stays float32, int64 wraps), narrower integers as Python ints,
which like Numba's widened int64 do not overflow at 32 bits. A store converts to the array's type
as C does: integers wrap. An index outside the array, a negative one included, is a
:class:`BoundsError`.

The subclasses only make the usual loads and stores faster. Where a launch is written down,
:mod:`kernelbook.simt.recorded` has others.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelbook.simt import bounds, machine, stuck
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
        part = self.over(data)
        part.parent, part.at = self, at
        return part

    def over(self, data: np.ndarray[Any, Any]) -> Array:
        """An array of the fastest kind over ``data``, part of this one's memory."""
        return plain(data, self.name, self.space)

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
        self._require_writable()
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
            return as_loaded(self.data[self.element(at, "reads")])
        return self.view_of(self.data[self._part(at, "reads")], index)

    def store(self, index: Any, value: Any) -> None:
        """``self[index] = value`` for any index."""
        self._require_writable()
        at = index if isinstance(index, tuple) else (index,)
        if len(at) == self.ndim and not any(isinstance(i, slice) or i is Ellipsis for i in at):
            self.data[self.element(at, "writes")] = self.cast(value)
            return
        target = self.data[self._part(at, "writes")]
        target[...] = value.data if isinstance(value, Array) else self.cast(value)

    def _require_writable(self) -> None:
        if self.data.flags.writeable:
            return
        if self.space == "const":
            why = "a kernel can only read it: pass it as an argument to change it"
        else:
            why = "the host made it so: pass a copy of it"
        raise KernelError(f"writes {self.label()}, which is read-only; {why}")

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
        except (TypeError, IndexError, ValueError, OverflowError):
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
        except (TypeError, IndexError, ValueError, OverflowError):
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
        except (TypeError, IndexError, ValueError, OverflowError):
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
        except (TypeError, IndexError, ValueError, OverflowError):
            pass
        return self.load(ij)


_PLAIN: dict[tuple[int, bool], type[Array]] = {
    (1, False): Vector,
    (1, True): NarrowVector,
    (2, False): Matrix,
    (2, True): NarrowMatrix,
}


def plain(data: np.ndarray[Any, Any], name: str, space: str) -> Array:
    """The fastest class for ``data`` when nothing is written down."""
    data, shape = shaped(data)
    return _PLAIN.get(shape, Array)(data, name, space)


def shaped(data: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], tuple[int, bool]]:
    """``data`` as arrays hold it, and what chooses its class: axes, and narrow integers or not."""
    if data.dtype.fields is not None and not isinstance(data, np.recarray):
        data = data.view(np.recarray)
    return data, (data.ndim, data.dtype.kind in "iub" and data.itemsize < 8)


def as_loaded(value: Any) -> Any:
    """A NumPy scalar as a load returns it: narrow integers and booleans as Python's."""
    if isinstance(value, (np.integer, np.bool_)) and value.itemsize < 8:
        return value.item()
    return value


def _as_int(index: Any) -> int:
    try:
        return operator.index(index)
    except TypeError:
        kind = type(index).__name__
        more = ". Use // instead of / to divide integers" if isinstance(index, float) else ""
        raise KernelError(f"an index must be an integer, not {kind} ({index}){more}") from None


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
