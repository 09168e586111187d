"""The teaching profiler: what a launch asked of memory, in all and line by line.

:func:`count` reads a :class:`~kernelbook.simt.record.Recording` and counts as Nsight Compute does:
requests (one for each memory instruction of a warp), 32-byte sectors, shared-memory wavefronts and
bank conflicts, divergence, lanes that queue for one atomic, barriers.

What this model assumes. Lanes that execute an instruction equally often since the last meeting of
their warp do so together (:mod:`kernelbook.simt.requests`). The compiler keeps every access of the
source: a real one may merge two, keep a value in a register or unroll a loop, and it makes two
accesses of a complex number, as is counted here. There are no caches: a sector that two requests
need is moved twice. ``benchmarks/counters.md`` compares with ncu.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt import banks, coalescing, counters_table, requests
from kernelbook.simt.coalescing import SECTOR
from kernelbook.simt.record import Kind, Recording, Site, Triple
from kernelbook.simt.requests import WARP, Requests


class _Sum:
    """Counters that add up field by field."""

    def __add__(self, other: Self) -> Self:
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name)
            for f in fields(self)  # type: ignore[arg-type]
        }
        return type(self)(**sums)


@dataclass(frozen=True)
class Traffic(_Sum):
    """Requests to global or local memory.

    lanes: accesses by single threads. ideal_sectors: the fewest that could hold the distinct bytes
    of each request. bytes_asked: of all lanes; bytes_needed: the same, with those counted once
    that several lanes of a request share.
    """

    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    ideal_sectors: int = 0
    bytes_asked: int = 0
    bytes_needed: int = 0

    @property
    def bytes_moved(self) -> int:
        return SECTOR * self.sectors

    @property
    def sectors_per_request(self) -> float:
        return _ratio(self.sectors, self.requests)

    @property
    def ideal_sectors_per_request(self) -> float:
        return _ratio(self.ideal_sectors, self.requests)

    @property
    def efficiency(self) -> float:
        """Bytes needed over bytes moved; 1 when there is no traffic."""
        return _ratio(self.bytes_needed, self.bytes_moved, 1.0)

    @property
    def coalesced(self) -> bool:
        """Whether every request moves as few sectors as could hold what it needs."""
        return self.sectors == self.ideal_sectors


@dataclass(frozen=True)
class SharedTraffic(_Sum):
    """Requests to shared memory. ideal_wavefronts: those that no bank conflict would add to."""

    requests: int = 0
    lanes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0

    @property
    def bank_conflicts(self) -> int:
        return self.wavefronts - self.ideal_wavefronts

    @property
    def wavefronts_per_request(self) -> float:
        return _ratio(self.wavefronts, self.requests)


@dataclass(frozen=True)
class Atomics(_Sum):
    """Atomic operations, in any memory.

    turns: of each request, as many as lanes share its most contended address, summed; equal to
    ``requests`` when no two lanes of a warp meet.
    """

    requests: int = 0
    lanes: int = 0
    turns: int = 0

    @property
    def turns_per_request(self) -> float:
        return _ratio(self.turns, self.requests)


@dataclass(frozen=True)
class Divergence(_Sum):
    """Source lines as warps execute them: ``lines`` times, by ``lanes`` threads in all."""

    lines: int = 0
    lanes: int = 0

    @property
    def active_lanes(self) -> float:
        """Threads that take part in an executed line, of 32."""
        return _ratio(self.lanes, self.lines)

    @property
    def efficiency(self) -> float:
        """Active lanes over 32; 1 when nothing was executed."""
        return _ratio(self.lanes, WARP * self.lines, 1.0)


@dataclass(frozen=True)
class Counts(_Sum):
    """Everything that is counted for a site, a line or a launch. Local memory stands apart."""

    global_load: Traffic = Traffic()
    global_store: Traffic = Traffic()
    global_atomic: Traffic = Traffic()
    local_load: Traffic = Traffic()
    local_store: Traffic = Traffic()
    constant_load: Traffic = Traffic()
    shared_load: SharedTraffic = SharedTraffic()
    shared_store: SharedTraffic = SharedTraffic()
    shared_atomic: SharedTraffic = SharedTraffic()
    atomics: Atomics = Atomics()
    divergence: Divergence = Divergence()

    @property
    def global_memory(self) -> Traffic:
        """Loads, stores and atomics together."""
        return self.global_load + self.global_store + self.global_atomic

    @property
    def local_memory(self) -> Traffic:
        return self.local_load + self.local_store

    @property
    def shared_memory(self) -> SharedTraffic:
        return self.shared_load + self.shared_store + self.shared_atomic

    @property
    def sectors(self) -> int:
        """32-byte sectors of global memory that were moved."""
        return self.global_memory.sectors

    @property
    def sectors_per_request(self) -> float:
        return self.global_memory.sectors_per_request

    @property
    def coalesced(self) -> bool:
        """Whether every request to global memory moves as few sectors as it could."""
        return self.global_memory.coalesced

    @property
    def bank_conflicts(self) -> int:
        """Shared-memory wavefronts that conflicts have added, atomics left out."""
        return (self.shared_load + self.shared_store).bank_conflicts

    @property
    def warp_execution_efficiency(self) -> float:
        """Active lanes over 32 of the executed lines; 1 when lines were not recorded."""
        return self.divergence.efficiency


@dataclass(frozen=True)
class LineCounts:
    """What one source line, or one site on it, did. arrays: names of what it touched."""

    file: str
    line: int
    text: str
    function: str
    arrays: tuple[str, ...]
    counts: Counts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(Counts, name):
            raise AttributeError(name)
        return getattr(self.counts, name)


@dataclass(frozen=True)
class Bytes:
    """Traffic of global memory in bytes. moved: sectors of all requests. once: every sector that
    is loaded, and every one that is stored or changed, moved once, as a perfect cache would.
    least: the same, without the bytes of those sectors that nobody asked for.
    """

    moved: int = 0
    once: int = 0
    least: int = 0

    @property
    def excess(self) -> float:
        """How many times the least possible was moved; 1 when nothing was."""
        return _ratio(self.moved, self.least, 1.0)


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
    bytes: Bytes = Bytes()
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
        return counters_table.html(self)


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
    sums: list[Any] = [_cost(recording, kind, space, piece) for piece in _pieces(recording, part)]
    name = f"{'constant' if space == 'const' else space}_{what}"
    return replace(Counts(atomics=atomics), **{name: sum(sums[1:], start=sums[0])})


def _pieces(recording: Recording, part: Requests) -> Iterator[tuple[Requests, Any, Any]]:
    """The accesses with address and width; twice for complex numbers, which are moved in halves."""
    address, width = recording.address[part.rows], recording.width[part.rows].astype(np.int64)
    is_complex = np.array([a.dtype.kind == "c" for a in recording.allocations], np.bool_)
    if not is_complex[recording.allocation[part.rows[:1]]].all():
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


def _ratio(part: float, whole: float, otherwise: float = 0.0) -> float:
    return part / whole if whole else otherwise
