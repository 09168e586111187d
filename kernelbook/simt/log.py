"""What a running launch writes down, in one plain list, because that is the cheapest thing to do.

A row is four entries: view number and kind, place in the view, bytecode offset, code object. The
list exists once, as the special registers do: one launch runs at a time. Who runs is noted only
when that changes. :meth:`Log.close` makes the columns of a :class:`Recording`.

Limit: rows beyond ``MOST_ROWS`` are dropped, and the recording says that it is truncated.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.errors import is_ours, line_text
from kernelbook.simt.memory_map import MemoryMap
from kernelbook.simt.record import MOST_ROWS, Kind, Recording, Site, Sync, Triple

KIND_BITS = 3
_LINE = int(Kind.LINE)
_KIND_MASK = (1 << KIND_BITS) - 1
_CHUNK = 1_000_000  # rows that may stay lists: about 100 bytes each, against 22 as columns

rows: list[Any] = []
ENTRIES = 4  # a row: view << KIND_BITS | kind, element number in the view, offset, code object


def note_line() -> None:
    """A row that says that the caller begins to execute its line."""
    frame = sys._getframe(1)
    rows.extend((_LINE, 0, frame.f_lasti, frame.f_code))


class Log:
    """The log of one launch. ``memory`` knows its allocations; ``lines``: log lines as well."""

    def __init__(
        self, kernel: str, grid: Triple, block: Triple, ndims: tuple[int, int], lines: bool
    ) -> None:
        rows.clear()
        self.kernel, self.grid, self.block, self.ndims = kernel, grid, block, ndims
        self.lines = lines
        self.schedule = 0
        self.memory = MemoryMap()
        self.runs: list[int] = []  # entry, thread number, entry, thread number, …
        self.syncs: list[Sync] = []
        self.base = 0  # rows that are columns already
        self._runs = self.runs.extend
        self._moved = 0  # entries of those rows
        self.truncated = False
        self._chunks: list[tuple[NDArray[Any], ...]] = []
        self._kept: dict[int, CodeType] = {}  # by id, in the order of their numbers
        self._numbers: dict[int, int] = {}

    def resume(self, thread: int) -> None:
        """From now on rows are of that thread (its number in the grid)."""
        entries = len(rows)
        if entries > _CHUNK * ENTRIES:
            self.compact()
            entries = len(rows)
        self._runs((self._moved + entries, thread))

    def sync(self, kind: str, block: int, threads: tuple[int, ...], mask: int = 0) -> None:
        """Threads (linear in the block) have met: see :class:`Sync`."""
        self.syncs.append(Sync(self.base + len(rows) // ENTRIES, kind, block, threads, mask))

    def event(self, kind: Kind, frame: FrameType) -> None:
        """A row that touches no memory."""
        rows.extend((kind, 0, frame.f_lasti, frame.f_code))

    def compact(self) -> None:
        """Turn rows into columns when there are many: so a launch without end stays bounded.

        A signal's handler may call this at any time: a row is one step of the list.
        """
        if len(rows) > _CHUNK * ENTRIES:
            self._move()

    def close(self, finished: bool) -> Recording:
        """The recording; the lists are free for the next launch."""
        self._move()
        empty = (np.zeros(0, np.int64),) * 4
        chunks = self._chunks or [empty]
        columns = [
            np.concatenate(c) if len(chunks) > 1 else c[0] for c in zip(*chunks, strict=True)
        ]
        coded, place, offset, function = columns
        kind = (coded & _KIND_MASK).astype(np.uint8)
        view = coded >> KIND_BITS
        start, unit, width, allocation = self.memory.columns()
        site, sites = self._sites(kind, offset, function)
        return Recording(
            kernel=self.kernel,
            grid=self.grid,
            block=self.block,
            ndims=self.ndims,
            sites=sites,
            allocations=self.memory.allocations(),
            site=site,
            kind=kind,
            thread=self._threads(len(kind)),
            address=start[view] + place * unit[view],
            width=width[view],
            allocation=allocation[view],
            syncs=tuple(self.syncs),
            schedule=self.schedule,
            finished=finished,
            truncated=self.truncated,
        )

    def _move(self) -> None:
        if not rows:
            return
        moved = rows[:]
        del rows[: len(moved)]
        if self.base >= MOST_ROWS:
            self.truncated = True
            return
        count = len(moved) // ENTRIES
        self._chunks.append(
            (
                np.array(moved[0::ENTRIES], np.int64),
                np.fromiter(moved[1::ENTRIES], np.int64, count),
                np.array(moved[2::ENTRIES], np.int64),
                self._functions(moved[3::ENTRIES]),
            )
        )
        self.base += count
        self._moved = self.base * ENTRIES

    def _functions(self, of: list[CodeType]) -> NDArray[np.int64]:
        """The number of each row's code object."""
        first = of[0]
        if of.count(first) != len(of):  # identity decides fast; equal code objects are rare
            ids = np.fromiter(map(id, of), np.int64, len(of))
            _, places, numbers = np.unique(ids, return_index=True, return_inverse=True)
            table = [self._number(of[place]) for place in places]
            return np.array(table, np.int64)[numbers]
        return np.full(len(of), self._number(first), np.int64)

    def _number(self, code: CodeType) -> int:
        self._kept.setdefault(id(code), code)
        return self._numbers.setdefault(id(code), len(self._numbers))

    def _threads(self, count: int) -> NDArray[np.int32]:
        runs = np.array(self.runs, np.int64).reshape(-1, 2)
        begins = np.minimum(runs[:, 0] // ENTRIES, count)
        lengths = np.diff(begins, append=count)
        return np.repeat(runs[:, 1].astype(np.int32), lengths)

    def _sites(
        self, kind: NDArray[np.uint8], offset: NDArray[np.int64], function: NDArray[np.int64]
    ) -> tuple[NDArray[np.int32], tuple[Site, ...]]:
        """The site number of each row, and the sites."""
        if not len(kind):
            return np.zeros(0, np.int32), ()
        span = int(offset.max()) + 1
        key = ((function * span + offset) << KIND_BITS) + kind
        seen = np.zeros(int(key.max()) + 1, np.bool_)
        seen[key] = True
        numbers = (np.cumsum(seen) - 1).astype(np.int32)
        functions = list(self._kept.values())
        sites: dict[tuple[int, int, int], int] = {}
        renumbered = []
        for value in np.flatnonzero(seen).tolist():
            place, what = divmod(value, 1 << KIND_BITS)
            number, at = divmod(place, span)
            start = _starts(id(functions[number]), functions[number])[at // 2]
            renumbered.append(sites.setdefault((number, start, what), len(sites)))
        found = tuple(_site(functions[number], at, Kind(what)) for number, at, what in sites)
        return np.array(renumbered, np.int32)[numbers[key]], found


@lru_cache(maxsize=1024)
def _starts(key: int, code: CodeType) -> list[int]:
    """Where the instruction around each code unit begins.

    Once CPython has specialised an instruction, a frame may name one of its cache entries instead.
    """
    starts: list[int] = []
    before = 0
    for instruction in dis.get_instructions(code):
        starts += [before] * (instruction.offset // 2 - len(starts))
        before = instruction.offset
    return starts + [before] * (len(code.co_code) // 2 - len(starts))


@lru_cache(maxsize=4096)
def _site_of(key: int, code: CodeType, offset: int, kind: Kind) -> Site:
    line = next((line for start, end, line in code.co_lines() if start <= offset < end and line), 0)
    name = "" if is_ours(code) else code.co_name
    used = kind is not Kind.ATOMIC or not _thrown_away(code, offset)
    return Site(kind, name, code.co_filename, line, line_text(code.co_filename, line), offset, used)


def _site(code: CodeType, offset: int, kind: Kind) -> Site:
    return _site_of(id(code), code, offset, kind)


def _thrown_away(code: CodeType, offset: int) -> bool:
    """Whether the value of the call at ``offset`` is popped at once."""
    after = (i for i in dis.get_instructions(code) if i.offset > offset and i.opname != "CACHE")
    following = next(after, None)
    return following is not None and following.opname == "POP_TOP"
