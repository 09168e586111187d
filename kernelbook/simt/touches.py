"""Which elements the accesses of a recording touch, as dense numbers that arrays can be indexed by.

An element is as wide as the narrowest access of the launch, so that two accesses overlap exactly
when they share an element. Accesses to an allocation that is only ever used with one width are not
split: for them the first element stands for all. Only where widths are mixed on one allocation does
a wide access become several touches.

Limit: elements are powers of two wide; one access at an odd address makes all elements bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.record import Kind, Recording

MOST_ELEMENTS = 1 << 24  # tables have one entry an element; a wider range is renumbered by sorting


@dataclass(frozen=True, eq=False)
class Touches:
    """Loads, stores and atomics, one entry a touch, in the order of execution.

    row: of the recording. element: below ``size``. address, nbytes: the bytes touched. kind,
    thread, allocation: as in the recording.
    """

    size: int
    row: NDArray[Any]
    element: NDArray[Any]
    address: NDArray[Any]
    nbytes: NDArray[Any]
    kind: NDArray[Any]
    thread: NDArray[Any]
    allocation: NDArray[Any]

    def __len__(self) -> int:
        return len(self.row)


def touches_of(recording: Recording) -> Touches:
    """The touches of a recording. Cost: about 5 ns a row, 15 where widths are mixed."""
    row = np.arange(len(recording))
    columns: list[NDArray[Any]] = [recording.address, recording.width]
    columns += [recording.kind, recording.thread, recording.allocation]
    if len(row) and recording.kind.max() > Kind.ATOMIC:
        row = np.flatnonzero(recording.kind <= Kind.ATOMIC)
        columns = [column[row] for column in columns]
    if not len(row):
        return Touches(0, row, row, *columns)
    address, width, _, _, allocation = columns
    granule = int(width.min())
    odd = _odd_allocations(address, width, allocation, granule, len(recording.allocations))
    if odd is not None:
        granule = _lowest_bit(int(np.bitwise_or.reduce(address | width)))
        split = odd[allocation]
        counts = np.where(split, width // granule, 1).astype(np.int64)
        source = np.repeat(np.arange(len(row)), counts)
        part = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
        row, (address, width, *rest) = row[source], [column[source] for column in columns]
        address = address + part * granule
        columns = [address, np.where(split[source], granule, width), *rest]
    low = int(address.min())
    element = (address - low) >> (granule.bit_length() - 1)
    size = int(element.max()) + 1
    if size > MOST_ELEMENTS:
        known, element = np.unique(element, return_inverse=True)
        size = len(known)
    return Touches(size, row, element, *columns)


def _odd_allocations(
    address: NDArray[Any], width: NDArray[Any], allocation: NDArray[Any], least: int, count: int
) -> NDArray[np.bool_] | None:
    """Which allocations need splitting: mixed widths, or not aligned to them. None for none."""
    if least == _lowest_bit(least) and width.max() == least:
        misfit = (address & (least - 1)) != 0
    else:
        usual = np.zeros(count, width.dtype)
        usual[allocation] = width
        misfit = (usual[allocation] != width) | ((address & (width - 1)) != 0)
        misfit |= (width & (width - 1)) != 0
    if not misfit.any():
        return None
    odd = np.zeros(count, np.bool_)
    odd[allocation[misfit]] = True
    return odd


def _lowest_bit(number: int) -> int:
    return number & -number
