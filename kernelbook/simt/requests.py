"""Which accesses a warp makes together: the rows of a recording as warp requests.

The simulator runs threads one after another, the hardware runs 32 lanes at once. A request is put
together from what the lanes of one warp did at one site: the k-th access of each lane there since
the last meeting of the whole warp (a block barrier, or a ``syncwarp``, shuffle or vote of all its
lanes).

The model: lanes that execute an instruction equally often between two meetings do so together.
Limit: a loop whose length differs from lane to lane, inside another loop with no meeting, is
aligned by the count alone, and so packs lanes tighter than hardware that reconverges after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.record import Kind, Recording, Sync
from kernelbook.simt.registers import WARP_SIZE

Ints = NDArray[np.int64]
BARRIERS = frozenset({"syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or"})
MEMORY = (Kind.LOAD, Kind.STORE, Kind.ATOMIC)


@dataclass(frozen=True, eq=False)
class Requests:
    """Rows of a recording, sorted so that each warp request is contiguous.

    rows: indices into the recording's columns. request: number of the request of each of them,
    from 0. first: where each request begins in ``rows``. lane: 0 to 31.
    """

    rows: Ints
    request: Ints
    first: Ints
    lane: Ints

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lanes(self) -> Ints:
        """How many lanes each request has."""
        return np.diff(np.append(self.first, len(self.rows)))

    def part(self, keep: NDArray[np.bool_]) -> Requests:
        """Only the requests for which ``keep`` (one entry a request) holds, numbered anew."""
        of_row = keep[self.request]
        request = (np.cumsum(keep) - 1)[self.request[of_row]]
        first = starts(request)
        return Requests(self.rows[of_row], request, first, self.lane[of_row])


def accesses(recording: Recording) -> Requests:
    """The memory requests of a launch: loads, stores and atomics."""
    return _grouped(recording, np.isin(recording.kind, MEMORY))


def executed_lines(recording: Recording) -> Requests:
    """One request for each time that a warp executes a source line; needs LINE rows."""
    return _grouped(recording, recording.kind == Kind.LINE)


def starts(*columns: Ints) -> Ints:
    """Where a new value begins in any of the columns, which are of one length."""
    return np.flatnonzero(~_same(*columns))


def _grouped(recording: Recording, keep: NDArray[np.bool_]) -> Requests:
    rows = np.flatnonzero(keep)
    block, linear = np.divmod(recording.thread[rows].astype(np.int64), recording.threads_per_block)
    warp = block * _warps_per_block(recording) + linear // WARP_SIZE
    phase = _phases(recording, rows, block, warp)
    sites = max(len(recording.sites), 1)
    site = recording.site[rows].astype(np.int64)

    # A thread's rows stay in the order of execution, so its phases come in order within a site.
    own = np.argsort(recording.thread[rows].astype(np.int64) * sites + site, kind="stable")
    same = _same(recording.thread[rows][own], site[own], phase[own])
    begin = np.maximum.accumulate(np.where(same, 0, np.arange(len(rows))))
    count = np.empty(len(rows), np.int64)
    count[own] = np.arange(len(rows)) - begin

    place = warp * sites + site
    order = _sorted_by(place, phase, count)
    same = _same(place[order], phase[order], count[order])
    request = np.cumsum(~same) - 1
    return Requests(rows[order], request, np.flatnonzero(~same), linear[order] % WARP_SIZE)


def _phases(recording: Recording, rows: Ints, block: Ints, warp: Ints) -> Ints:
    """A number for each row that grows, within a warp, with every meeting of the whole warp."""
    span = len(recording) + 1
    by_block: list[int] = []
    by_warp: list[int] = []
    by_grid: list[int] = []
    for sync in recording.syncs:
        if sync.kind == "grid":
            by_grid.append(sync.position)
        elif sync.kind in BARRIERS:
            by_block.append(sync.block * span + sync.position)
        elif (number := _whole_warp(recording, sync)) is not None:
            by_warp.append(number * span + sync.position)
    phase = np.zeros(len(rows), np.int64)
    for keys, place in ((by_block, block * span), (by_warp, warp * span), (by_grid, 0)):
        if keys:
            phase += np.searchsorted(np.sort(np.array(keys, np.int64)), place + rows, side="right")
    return phase


def _whole_warp(recording: Recording, sync: Sync) -> int | None:
    """The warp, if all its lanes have met; a meeting of some says nothing about the others."""
    if not sync.threads:
        return None
    in_block = sync.threads[0] // WARP_SIZE
    lanes = min(WARP_SIZE, recording.threads_per_block - in_block * WARP_SIZE)
    return (
        sync.block * _warps_per_block(recording) + in_block if len(sync.threads) == lanes else None
    )


def _warps_per_block(recording: Recording) -> int:
    return -(-recording.threads_per_block // WARP_SIZE)


def _sorted_by(*columns: Ints) -> Ints:
    """Positions in the order of the columns, the first one counting most; stable."""
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    spans = [int(column.max()) + 1 for column in columns]
    if np.prod([float(span) for span in spans]) < 2.0**62:
        key = columns[0]
        for column, span in zip(columns[1:], spans[1:], strict=True):
            key = key * span + column
        return np.argsort(key, kind="stable")
    return np.lexsort(columns[::-1])


def _same(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each entry equals the one before it in all columns."""
    same = np.zeros(len(columns[0]), np.bool_)
    if len(same):
        same[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    return same
