"""Bytes of host and device memory that a launch or a copy touches, at addresses of this process.

Limit: an array that is not contiguous counts with all bytes between its first and its last.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.memory_map import pointer, root_of
from kernelbook.simt.record import Kind, Recording

Data = np.ndarray[Any, Any]


class Region(Protocol):
    """Where an allocation of a recording lies: ``address`` there is ``pointer`` here."""

    root: Data
    address: int
    pointer: int


@dataclass
class Span:
    """Bytes of one allocation: ``runs`` of addresses, (n, 2), sorted and apart. name: to show."""

    name: str
    root: weakref.ref[Data]
    runs: NDArray[np.int64]

    def meets(self, other: Span) -> bool:
        """Whether a byte is in both, in memory that still exists."""
        root = self.root()
        if root is None or root is not other.root() or not len(self.runs) or not len(other.runs):
            return False
        after = np.searchsorted(other.runs[:, 1], self.runs[:, 0], side="right")
        starts = np.append(other.runs[:, 0], np.iinfo(np.int64).max)[after]
        return bool((starts < self.runs[:, 1]).any())


def touched(recording: Recording, regions: list[Region], other_than: Kind) -> list[Span]:
    """Bytes of global memory that the rows touch, those of kind ``other_than`` left out."""
    access = recording.kind <= Kind.ATOMIC
    spans = []
    for number, (allocation, region) in enumerate(zip(recording.allocations, regions, strict=True)):
        if allocation.space != "global":
            continue
        rows = (recording.allocation == number) & access & (recording.kind != other_than)
        if not rows.any():
            continue
        start = recording.address[rows] - region.address + region.pointer
        runs = _runs(start, start + recording.width[rows])
        spans.append(Span(allocation.name, weakref.ref(region.root), runs))
    return spans


def whole(array: Data, name: str) -> Span:
    """All bytes between the first and the last of ``array``."""
    plain = array.view(np.ndarray)
    if plain.flags.c_contiguous:
        low = pointer(plain)
        high = low + plain.nbytes
    elif plain.size:
        low, high = np.lib.array_utils.byte_bounds(plain)
    else:
        low = high = 0
    runs = np.array([[low, high]] if high > low else [], np.int64).reshape(-1, 2)
    return Span(name, weakref.ref(root_of(array)), runs)


def first_meeting(some: list[Span], others: list[Span]) -> Span | None:
    return next((new for new in others for old in some if old.meets(new)), None)


def _runs(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Intervals merged where they touch or overlap."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    apart = start[1:] > end[:-1]
    first = np.concatenate(([True], apart))
    last = np.concatenate((apart, [True]))
    return np.stack((start[first], end[last]), axis=1).astype(np.int64)
