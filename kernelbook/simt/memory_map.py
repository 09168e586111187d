"""Which memory a launch has, at virtual addresses, and the views through which kernels reach it.

Every allocation gets a range of its own. Arrays that share memory (a device array passed twice, two
slices of one) are one allocation, so that a race between them is seen; it is named after both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.record import ALIGNMENT, Allocation

Data = np.ndarray[Any, Any]


class Region:
    """Memory from one allocation call: ``root`` is the array that owns it."""

    __slots__ = ("address", "block", "high", "low", "names", "number", "pointer", "root", "shown",
                 "space", "thread", "written", "written_from")  # fmt: skip

    def __init__(self, number: int, root: Data, address: int) -> None:
        self.number = number
        self.root = root
        self.address = address
        self.pointer = pointer(root)
        self.names: list[str] = []
        self.shown: Data = root
        self.low = self.high = 0  # the bytes that views have shown so far, from the root's first
        self.space = "global"
        self.block = self.thread = -1
        self.written: NDArray[np.bool_] | None = None
        self.written_from = 0  # the byte of the root that ``written`` begins with

    def shows(self, data: Data) -> bool:
        """Whether ``data`` adds no byte to what is known."""
        low, high = _extent(data, self)
        return low >= self.low and high <= self.high


class MemoryMap:
    """The regions of one launch and the views of them."""

    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}  # by the root's id; the region keeps the root alive
        self._next = ALIGNMENT
        # One entry a view; view 0 touches no memory.
        self._starts, self._units, self._widths, self._owners = [0], [0], [0], [-1]

    def region(
        self, data: Data, name: str, space: str, owner: tuple[int, int] = (-1, -1)
    ) -> Region:
        """The region that ``data`` lies in, made when it is new. owner: block, thread numbers."""
        root = root_of(data)
        region = self._regions.get(id(root))
        if region is None:
            region = Region(len(self._regions), root, self._next)
            self._regions[id(root)] = region
            spread = -(-max(root.nbytes, 1) // ALIGNMENT) + 1
            self._next += spread * ALIGNMENT
            region.space = space
            region.block, region.thread = owner
            region.shown = data
            region.low, region.high = _extent(data, region)
            region.names.append(name)
        elif not region.shows(data):
            low, high = _extent(data, region)
            if low <= region.low and high >= region.high:
                region.shown = data
            region.low, region.high = min(low, region.low), max(high, region.high)
        if name not in region.names:
            region.names.append(name)
        return region

    def view(self, region: Region, data: Data, unit: int) -> int:
        """The number of a new view: places in it are ``unit`` bytes apart."""
        offset = 0 if data is region.root else pointer(data) - region.pointer
        self._starts.append(region.address + offset)
        self._units.append(unit)
        self._widths.append(data.itemsize)
        self._owners.append(region.number)
        return len(self._starts) - 1

    def columns(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Start address, unit, width and allocation number of each view."""
        return (
            np.array(self._starts, np.int64),
            np.array(self._units, np.int64),
            np.minimum(self._widths, 255).astype(np.uint8),
            np.array(self._owners, np.int32),
        )

    def regions(self) -> tuple[Region, ...]:
        """All regions, by number."""
        return tuple(self._regions.values())

    def allocations(self) -> tuple[Allocation, ...]:
        """All regions, by number."""
        return tuple(_allocation(region) for region in self._regions.values())


def _allocation(region: Region) -> Allocation:
    shown = region.shown
    shape, strides = shown.shape, shown.strides
    if _extent(shown, region) != (region.low, region.high):  # several parts of one piece
        shape = ((region.high - region.low) // shown.itemsize,)
        strides = (shown.itemsize,)
    return Allocation(
        name="/".join(region.names),
        space=region.space,
        shape=shape,
        dtype=shown.dtype,
        address=region.address + region.low,
        nbytes=region.high - region.low,
        strides=strides,
        block=region.block,
        thread=region.thread,
        written=_written(region),
    )


def _written(region: Region) -> NDArray[np.bool_] | None:
    if region.written is None:
        return None
    whole = np.ones(region.high - region.low, np.bool_)
    start = region.written_from - region.low
    whole[start : start + len(region.written)] = region.written
    return whole


def _extent(data: Data, region: Region) -> tuple[int, int]:
    """First and last-plus-one byte of ``data``, from the root's first."""
    if data is region.root:
        return 0, data.nbytes
    if data.flags.c_contiguous:
        low = pointer(data) - region.pointer
        return low, low + data.nbytes
    first, last = np.lib.array_utils.byte_bounds(data)
    return first - region.pointer, last - region.pointer


def root_of(data: Data) -> Data:
    """The array that owns the memory of ``data``."""
    base = data.base
    while isinstance(base, np.ndarray):
        data, base = base, base.base
    return data


def pointer(data: Data) -> int:
    """The address of the first element, in this process."""
    found: int = data.__array_interface__["data"][0]
    return found
