"""Host arrays that the device reaches: mapped, managed and pinned memory.

They are NumPy arrays that ask :mod:`kernelbook.simt.ordering` before host code reads or writes
elements. While no work is outstanding that is one look at an empty list.
Limit: NumPy hands out the memory without asking in ``np.asarray(array)`` and through the buffer
protocol; such readers are not seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelbook.simt import ordering
from kernelbook.simt.memory_map import root_of

# fmt: off
_READERS = (
    "argmax", "argmin", "argpartition", "argsort", "astype", "byteswap", "choose", "compress",
    "copy", "cumprod", "cumsum", "diagonal", "dot", "dump", "dumps", "flatten", "item", "nonzero",
    "repeat", "round", "searchsorted", "std", "take", "tobytes", "tofile", "tolist", "trace", "var",
    "__bool__", "__complex__", "__contains__", "__copy__", "__deepcopy__", "__float__",
    "__format__", "__index__", "__int__", "__reduce__", "__reduce_ex__", "__repr__", "__str__",
)
# fmt: on
_LOOK_AT_NO_ELEMENT = frozenset(
    (
        np.shape,
        np.ndim,
        np.size,
        np.may_share_memory,
        np.shares_memory,
        np.empty_like,
        np.zeros_like,
        np.ones_like,
    )
)  # fmt: skip
_WRITERS = ("fill", "itemset", "partition", "put", "setfield", "sort")


class HostNDArray(np.ndarray[Any, Any]):
    """Host memory with an order towards the device."""

    def __getitem__(self, item: Any) -> Any:
        found = super().__getitem__(item)
        if ordering.outstanding():
            if not isinstance(found, np.ndarray):
                ordering.host_reads(self, _part(self, item))
            elif root_of(found) is not root_of(self):
                ordering.host_reads(self)  # chosen by a list or a mask: a copy
        return found

    def __setitem__(self, item: Any, value: Any) -> None:
        if ordering.outstanding():
            ordering.host_writes(self, _part(self, item))
        super().__setitem__(item, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Plain arrays for the ufunc, and its result as it gives it."""
        given = options.get("out") or ()
        targets = given if isinstance(given, tuple) else (given,)
        for array in inputs:
            _read(array)
        for array in targets:
            if isinstance(array, HostNDArray):
                ordering.host_writes(array)
        if method == "at" and isinstance(inputs[0], HostNDArray):
            ordering.host_writes(inputs[0])
        if targets:
            options["out"] = tuple(map(_plain, targets))
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        return targets[0] if len(targets) == 1 and targets[0] is not None else result

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Whatever NumPy function it is, its arrays are read; ``out`` and copyto write."""
        if ordering.outstanding() and func not in _LOOK_AT_NO_ELEMENT:
            for array in (*args, *kwargs.values()):
                for part in array if isinstance(array, (list, tuple)) else (array,):
                    _read(part)
            target = args[0] if func is np.copyto else kwargs.get("out")
            if isinstance(target, HostNDArray):
                ordering.host_writes(target)
        return super().__array_function__(func, types, args, kwargs)


class MappedNDArray(HostNDArray):
    """Host memory that kernels read and write in place."""


class ManagedNDArray(HostNDArray):
    """Memory that host and kernels share."""


class PinnedNDArray(HostNDArray):
    """Host memory that the system may not move, so that the device copies it by itself."""


def _part(array: HostNDArray, item: Any) -> Any:
    """The memory that ``item`` names, as far as it is one view; else all of it."""
    at = item if isinstance(item, tuple) else (item,)
    if any(isinstance(i, (list, np.ndarray)) for i in at):
        return array
    return array.view(np.ndarray)[at if any(i is Ellipsis for i in at) else (*at, Ellipsis)]


def _read(array: Any) -> None:
    if isinstance(array, HostNDArray):
        ordering.host_reads(array)


def _plain(array: Any) -> Any:
    return array.view(np.ndarray) if isinstance(array, HostNDArray) else array


def _checked(name: str, check: Any) -> None:
    inherited = getattr(np.ndarray, name, None)
    if inherited is None:  # another version of NumPy has it
        return

    def method(self: HostNDArray, *args: Any, **options: Any) -> Any:
        check(self)
        return inherited(self, *args, **options)

    method.__name__ = name
    setattr(HostNDArray, name, method)


for _name in _READERS:
    _checked(_name, ordering.host_reads)
for _name in _WRITERS:
    _checked(_name, ordering.host_writes)
