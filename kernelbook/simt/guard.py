"""Guard zones: memory with a pattern before and behind it, so that a stray write is seen.

Indices are checked anyway. The zones back that up where a kernel reaches memory in another way,
through a view with another type or shape, and they are looked at after a launch.
Limit: a write that jumps over the zone, or one that writes the pattern itself, is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.errors import BoundsError
from kernelbook.simt.memory_map import root_of

ZONE = 256  # bytes on each side; a multiple of every alignment that a type needs
PATTERN = 0xB7

Data = np.ndarray[Any, Any]


class Region(Protocol):
    """An allocation of a launch: the array that owns the memory, and the kernel's names for it."""

    root: Data
    names: list[str]


_guarded: dict[int, weakref.ref[Data]] = {}  # roots with zones, by id


def guarded(
    shape: Any, dtype: np.dtype[Any], order: Any = "C", fill: NDArray[Any] | None = None
) -> Data:
    """New memory between two guard zones. fill: one element, shape (1,), for all of it."""
    count = int(np.prod(shape, dtype=np.int64))
    size = count * dtype.itemsize
    root = np.empty(size + 2 * ZONE, np.uint8)
    root[:ZONE] = PATTERN
    root[ZONE + size :] = PATTERN
    key = id(root)
    # Not a function of Python's own: the time limit's signal could strike in it, and be swallowed.
    _guarded[key] = weakref.ref(root, partial(_guarded.pop, key))
    array = root[ZONE : ZONE + size].view(dtype).reshape(shape, order=order)
    if fill is not None:
        array[...] = fill[0]
    return array


def copied(array: Data, order: Any = "C") -> Data:
    """A copy of ``array`` between two guard zones; without them for Python objects."""
    if array.dtype.hasobject:
        return np.array(array, order=order, subok=False)
    made = guarded(array.shape, array.dtype, order)
    np.copyto(made, array.view(np.ndarray))
    return made


def damaged(array: Data) -> str | None:
    """Which guard zone of the allocation that ``array`` is part of was written, else None.

    Such as "4 bytes behind its end, the nearest 8 bytes away". None for memory without zones.
    """
    root = root_of(array)
    if id(root) not in _guarded:
        return None
    behind = np.flatnonzero(root[-ZONE:] != PATTERN)
    if len(behind):
        return _says(len(behind), "behind its end", int(behind[0]))
    before = np.flatnonzero(root[:ZONE][::-1] != PATTERN)
    if len(before):
        return _says(len(before), "before its start", int(before[0]))
    return None


def require_whole(kernel: str, regions: Iterable[Region]) -> None:
    """Raise BoundsError when ``kernel`` wrote into a guard zone; the zones are mended then."""
    for region in regions:
        damage = damaged(region.root)
        if damage is not None:
            mend(region.root)
            raise BoundsError(
                f"{kernel}: wrote {damage}, of {'/'.join(region.names)}, which no index there "
                "shows: a view reaches further than its memory. Look at reshape, view and slices."
            )


def mend(array: Data) -> None:
    """Restore the zones, so that the next launch is not blamed for this one's writes."""
    root = root_of(array)
    if id(root) in _guarded:
        root[:ZONE] = PATTERN
        root[-ZONE:] = PATTERN


def _says(count: int, side: str, distance: int) -> str:
    return f"{count} byte{'s' * (count != 1)} {side}, the nearest {distance} bytes away"
