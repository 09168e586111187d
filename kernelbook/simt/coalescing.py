"""What a warp request costs in global or local memory: 32-byte sectors.

A load or store moves every aligned 32-byte sector that any of its lanes touches, once. An atomic
moves a sector as often as its most contended address is hit: lanes on one address take turns. Local
memory is laid out by the hardware so that one word of 32 threads is 128 bytes in a row; lanes that
use the same index are then coalesced.

Source: CUDA C++ programming guide, device memory accesses; atomics as ncu counts those of
``benchmarks/counters.py`` (H200). Limit: those are atomics whose result nobody uses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelbook.simt.registers import WARP_SIZE
from kernelbook.simt.requests import Ints, starts

SECTOR = 32  # bytes
WORD = 4


@dataclass(frozen=True, eq=False)
class Sectors:
    """For each request: ``moved`` sectors, ``bytes`` distinct ones that were asked for."""

    moved: Ints
    bytes: Ints

    @property
    def ideal(self) -> Ints:
        """The fewest sectors that could hold the distinct bytes."""
        return -(-self.bytes // SECTOR)


def global_sectors(request: Ints, address: Ints, width: Ints, requests: int) -> Sectors:
    """Sectors of accesses at ``address`` of ``width`` bytes; ``request`` says whose they are."""
    moved = _distinct_units(request, address // SECTOR, (address + width - 1) // SECTOR, requests)
    return Sectors(moved, distinct_bytes(request, address, width, requests))


def atomic_sectors(request: Ints, address: Ints, width: Ints, requests: int) -> Sectors:
    """Sectors of atomics; ``width`` does not cross a sector, as atomics are aligned."""
    owner, at, lanes = _lanes_by_address(request, address)
    first = starts(owner, at // SECTOR)
    moved = np.zeros(requests, np.int64)
    if len(first):
        turns = np.maximum.reduceat(lanes, first)
        moved = np.bincount(owner[first], turns, requests).astype(np.int64)
    return Sectors(moved, distinct_bytes(request, address, width, requests))


def local_sectors(request: Ints, lane: Ints, offset: Ints, width: Ints, requests: int) -> Sectors:
    """Sectors of accesses to local arrays, ``offset`` bytes into each thread's own."""
    words = (offset + width - 1) // WORD - offset // WORD + 1
    of_row = np.repeat(np.arange(len(offset)), words)
    word = offset[of_row] // WORD + counting(words)
    address = (word * WARP_SIZE + lane[of_row]) * WORD
    sector = address // SECTOR
    moved = _distinct_units(request[of_row], sector, sector, requests)
    # Threads share no local memory, so what they ask for is distinct.
    asked = np.bincount(request, width, requests).astype(np.int64)
    return Sectors(moved, asked)


def distinct_bytes(group: Ints, address: Ints, width: Ints, groups: int) -> Ints:
    """How many different bytes each group touches."""
    if not len(address):
        return np.zeros(groups, np.int64)
    low = int(address.min())
    span = int((address + width).max()) - low + 1
    start = group * span + (address - low)
    order = np.argsort(start, kind="stable")
    start, end = start[order], (start + width)[order]
    reached = np.maximum.accumulate(end)  # never reaches the next group's range
    before = np.concatenate(([0], reached[:-1]))
    fresh = np.maximum(end - np.maximum(start, before), 0)
    return np.bincount(group[order], fresh, groups).astype(np.int64)


def distinct_sectors(address: Ints, width: Ints) -> int:
    """How many different sectors the accesses touch altogether."""
    group = np.zeros(len(address), np.int64)
    return int(_distinct_units(group, address // SECTOR, (address + width - 1) // SECTOR, 1)[0])


def lanes_on_one_address(request: Ints, address: Ints, requests: int) -> Ints:
    """For each request, how many lanes share the address that most of them share."""
    most = np.zeros(requests, np.int64)
    owner, _, lanes = _lanes_by_address(request, address)
    np.maximum.at(most, owner, lanes)
    return most


def _lanes_by_address(request: Ints, address: Ints) -> tuple[Ints, Ints, Ints]:
    """Request, address and number of lanes, for each different address of each request; sorted."""
    order = np.lexsort((address, request))
    request, address = request[order], address[order]
    first = starts(request, address)
    return request[first], address[first], np.diff(np.append(first, len(address)))


def counting(lengths: Ints) -> Ints:
    """0, 1, … up to each length, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def _distinct_units(group: Ints, first: Ints, last: Ints, groups: int) -> Ints:
    """How many different units, ``first`` to ``last`` of each access, every group touches."""
    return distinct_bytes(group, first, last - first + 1, groups)
