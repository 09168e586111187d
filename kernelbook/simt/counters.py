"""The teaching profiler: what a launch asked of memory, in all and line by line.

:func:`count` reads a :class:`~kernelbook.simt.record.Recording` and counts as Nsight Compute does:
requests (one for each memory instruction of a warp), 32-byte sectors, shared-memory wavefronts and
bank conflicts, divergence, lanes that queue for one atomic, barriers.

What this model assumes. Lanes that execute an instruction equally often since the last meeting of
their warp do so together (:mod:`kernelbook.simt.requests`). The compiler keeps every access of the
source: a real one may merge neighbours, or keep a value in a register. Shared atomics are counted
as an integer's are: of floats they are a loop that takes as many turns, and additions of the
constant 1 are taken together. No caches: a sector that two requests need is moved twice.
``benchmarks/counters.md`` compares all this with ncu.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt import banks, coalescing, counters_table, figure, requests
from kernelbook.simt.coalescing import SECTOR
from kernelbook.simt.counts import (
    Atomics,
    Bytes,
    Counts,
    Divergence,
    LineCounts,
    SharedTraffic,
    Traffic,
)
from kernelbook.simt.record import Kind, Recording, Site, Triple
from kernelbook.simt.requests import Requests

__all__ = [
    "Atomics",
    "Bytes",
    "Counters",
    "Counts",
    "Divergence",
    "LineCounts",
    "SharedTraffic",
    "Traffic",
    "count",
]


@dataclass(frozen=True, repr=False)
class Counters(Counts):
    """The counters of one launch.

    lines: by line number, in the kernel's own file; a line of another file by "file:line". sites:
    the same for each access on each line. barriers: how often threads met, by kind ("syncthreads",
    "syncwarp", "grid", shuffles and votes by name). hottest_atomic: the most operations on one
    address. complete: False when the launch failed or its record was cut off.
    """

    kernel: str = ""
    grid: Triple = (1, 1, 1)
    block: Triple = (1, 1, 1)
    lines: Mapping[int | str, LineCounts] = field(default_factory=dict)
    sites: tuple[LineCounts, ...] = ()
    barriers: Mapping[str, int] = field(default_factory=dict)
    bytes: Bytes = field(default_factory=Bytes)
    hottest_atomic: int = 0
    complete: bool = True

    def rows(self) -> list[counters_table.Row]:
        """One row for each access in the source and each line executed, for a table or a frame."""
        return counters_table.rows(self)

    def __str__(self) -> str:
        return counters_table.text(self)

    def __repr__(self) -> str:
        return f"<Counters of {self.kernel}: {self.sectors} sectors>"

    def _repr_html_(self) -> str:
        return figure.page(f'<div class="kb-profile">{counters_table.html(self)}</div>')


def count(recording: Recording) -> Counters:
    """Count what the launch in ``recording`` asked of memory.

    Divergence needs LINE rows (``simt.observe(lines=True)``). Cost: about 1 s a million rows.
    """
    sites: dict[int, Counts] = {}
    arrays: dict[int, set[str]] = {}
    memory = requests.accesses(recording)
    space = _spaces(recording)[memory.rows[memory.first]]
    site = recording.site[memory.rows[memory.first]]
    for number, name, part in _parts(memory, site, space):
        _add(sites, number, _counted(recording, recording.sites[number].kind, name, part))
        touched = np.unique(recording.allocation[part.rows])
        arrays.setdefault(number, set()).update(recording.allocations[a].name for a in touched)
    executed = requests.executed_lines(recording)
    lines = recording.site[executed.rows[executed.first]]
    for number in np.unique(lines):
        lanes = executed.lanes[lines == number]
        _add(sites, int(number), Counts(divergence=Divergence(len(lanes), int(lanes.sum()))))
    return _assembled(recording, sites, arrays)


def _parts(
    memory: Requests, site: NDArray[Any], space: NDArray[Any]
) -> Iterator[tuple[int, str, Requests]]:
    """The requests of each site in each memory space."""
    for number in np.unique(site):
        of_site = memory.part(site == number)
        names = space[site == number]
        for name in np.unique(names):
            yield int(number), _SPACES[int(name)], of_site.part(names == name)


def _counted(recording: Recording, kind: Kind, space: str, part: Requests) -> Counts:
    """The requests ``part``, all of one kind in one memory space."""
    what = {Kind.LOAD: "load", Kind.STORE: "store", Kind.ATOMIC: "atomic"}[kind]
    atomics = Atomics()
    if kind is Kind.ATOMIC:
        address = recording.address[part.rows]
        turns = coalescing.lanes_on_one_address(part.request, address, len(part))
        atomics = Atomics(len(part), len(part.rows), int(turns.sum()))
    sums: list[Any] = [
        _cost(recording, kind, space, piece) for piece in _pieces(recording, space, part)
    ]
    name = f"{'constant' if space == 'const' else space}_{what}"
    return replace(Counts(atomics=atomics), **{name: sum(sums[1:], start=sums[0])})


def _pieces(
    recording: Recording, space: str, part: Requests
) -> Iterator[tuple[Requests, Any, Any]]:
    """The accesses with address and width; twice for complex numbers outside shared memory.

    A compiler may move 16 bytes at once only where it knows that they are aligned, so Numba's code
    for an array that it is given moves the real and the imaginary part one after the other.
    """
    address, width = recording.address[part.rows], recording.width[part.rows].astype(np.int64)
    allocation = recording.allocations[recording.allocation[part.rows[0]]]
    if allocation.dtype.kind != "c" or space == "shared":
        yield part, address, width
        return
    yield part, address, width // 2
    yield part, address + width // 2, width // 2


def _cost(
    recording: Recording, kind: Kind, space: str, piece: tuple[Requests, Any, Any]
) -> Traffic | SharedTraffic:
    part, address, width = piece
    number = len(part)
    if space == "shared":
        cost = banks.wavefronts(part.request, part.lane, address, width, number, kind)
        return SharedTraffic(number, len(address), int(cost.used.sum()), int(cost.ideal.sum()))
    if space == "local":
        base = np.array([a.address for a in recording.allocations], np.int64)
        offset = address - base[recording.allocation[part.rows]]
        sectors = coalescing.local_sectors(part.request, part.lane, offset, width, number)
    elif kind is Kind.ATOMIC:
        sectors = coalescing.atomic_sectors(part.request, address, width, number)
    else:
        sectors = coalescing.global_sectors(part.request, address, width, number)
    return Traffic(
        requests=number,
        lanes=len(address),
        sectors=int(sectors.moved.sum()),
        ideal_sectors=int(sectors.ideal.sum()),
        bytes_asked=int(width.sum()),
        bytes_needed=int(sectors.bytes.sum()),
    )


_SPACES = ("global", "shared", "local", "const")


def _spaces(recording: Recording) -> NDArray[Any]:
    """For each row, which of ``_SPACES`` it touches; for fences and lines it says nothing."""
    of_allocation = [_SPACES.index(a.space) for a in recording.allocations]
    return np.array([*of_allocation, 0], np.int8)[recording.allocation]


def _assembled(
    recording: Recording, counts: dict[int, Counts], arrays: dict[int, set[str]]
) -> Counters:
    sites = tuple(
        _line(recording.sites[number], arrays.get(number, set()), counts[number])
        for number in sorted(counts, key=lambda number: _order(recording.sites[number]))
    )
    own = next((s.file for s in recording.sites if s.function == recording.kernel), "")
    own = own or next((s.file for s in recording.sites), "")
    lines: dict[int | str, LineCounts] = {}
    for site in sites:
        key = site.line if site.file == own else f"{site.file}:{site.line}"
        if key in lines:
            before = lines[key]
            names = tuple(sorted({*before.arrays, *site.arrays}))
            site = replace(before, arrays=names, counts=before.counts + site.counts)
        lines[key] = site
    total = sum((site.counts for site in sites), start=Counts())
    barriers: dict[str, int] = {}
    for sync in recording.syncs:
        barriers[sync.kind] = barriers.get(sync.kind, 0) + 1
    return Counters(
        **{f.name: getattr(total, f.name) for f in fields(Counts)},
        kernel=recording.kernel,
        grid=recording.grid,
        block=recording.block,
        lines=lines,
        sites=sites,
        barriers=barriers,
        bytes=_bytes(recording, total),
        hottest_atomic=_hottest(recording),
        complete=recording.finished and not recording.truncated,
    )


def _bytes(recording: Recording, total: Counts) -> Bytes:
    in_global = (_spaces(recording) == 0) & (recording.allocation >= 0)
    loads = in_global & (recording.kind == Kind.LOAD)
    once = least = 0
    for rows in (loads, in_global & ~loads):
        address, width = recording.address[rows], recording.width[rows].astype(np.int64)
        once += SECTOR * coalescing.distinct_sectors(address, width)
        one_group = np.zeros(len(address), np.int64)
        least += int(coalescing.distinct_bytes(one_group, address, width, 1)[0])
    return Bytes(total.global_memory.bytes_moved, once, least)


def _hottest(recording: Recording) -> int:
    address = recording.address[recording.kind == Kind.ATOMIC]
    return int(np.unique(address, return_counts=True)[1].max()) if len(address) else 0


def _line(site: Site, arrays: set[str], counts: Counts) -> LineCounts:
    names = tuple(sorted(arrays))
    return LineCounts(site.file, site.line, site.text, site.function, names, counts)


def _order(site: Site) -> tuple[str, int, int, int]:
    return site.file, site.line, site.offset, site.kind


def _add(counts: dict[int, Counts], number: int, more: Counts) -> None:
    counts[number] = counts[number] + more if number in counts else more
