"""Memory that nobody has written: poisoned, marked, and known byte by byte at a launch."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from kernelbook import poison
from kernelbook.simt import guard
from kernelbook.simt.memory_map import root_of

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
