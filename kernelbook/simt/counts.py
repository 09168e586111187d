"""The numbers that the profiler keeps of a site, a line or a launch; they add up field by field."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self

from kernelbook.simt.coalescing import SECTOR
from kernelbook.simt.registers import WARP_SIZE


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
        return _ratio(self.lanes, WARP_SIZE * self.lines, 1.0)


@dataclass(frozen=True)
class Counts:
    """Everything that is counted for a site, a line or a launch. Local memory stands apart.

    constant_load: in sectors like the rest, though the hardware reads constant memory a word at a
    time for all lanes.
    """

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

    def __add__(self, other: Counts) -> Counts:
        """Both together, also those of two launches."""
        return Counts(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Counts)}
        )

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
        """Of global loads and stores."""
        return (self.global_load + self.global_store).sectors_per_request

    @property
    def coalesced(self) -> bool:
        """Whether every global load and store moves as few sectors as it could."""
        return (self.global_load + self.global_store).coalesced

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


def _ratio(part: float, whole: float, otherwise: float = 0.0) -> float:
    return part / whole if whole else otherwise
