"""A recording as steps: what the lanes of one warp do on one source line, side by side.

The simulator runs one thread after the other, the hardware a warp at a time. Between two barriers
the order of threads is not defined, so here they are put side by side: of a warp's threads those
whose next source line is the smallest go first, together. Each thread keeps its own order, and what
met at a barrier meets: the steps are another possible history of the same launch.

Limit: the smallest line first brings threads together again after branches and loops; a device
function written above its caller may keep them apart. Only the threads asked for are shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.record import Kind, Recording, Sync
from kernelbook.simt.registers import WARP_SIZE

BLOCK_WIDE = ("syncthreads", "grid")
MOST_ROWS = 200_000  # read into steps

Meeting = tuple[str, set[int]]  # kind, the threads shown that take part


@dataclass(frozen=True, slots=True)
class Step:
    """Lanes of one warp on one line, or threads that meet.

    threads: numbers in the grid. rows: of the recording, what these threads do there. phase:
    block-wide barriers that they have passed. meets: kind of the barrier or warp operation, else
    "". site: of the line, an index into the recording's; -1 for a meeting.
    """

    block: int
    warp: int
    phase: int
    threads: tuple[int, ...]
    rows: tuple[int, ...] = ()
    site: int = -1
    meets: str = ""


@dataclass(slots=True)
class _Event:
    """One thread on one line (``site`` ≥ 0), or at the meeting number ``meeting``."""

    site: int = -1
    meeting: int = -1
    rows: list[int] = field(default_factory=list)


def phases(recording: Recording) -> NDArray[np.int64]:
    """For each row, the block-wide barriers that its block had passed before it."""
    passed = np.zeros(len(recording), np.int64)
    block = recording.thread // recording.threads_per_block
    positions: dict[int, list[int]] = {}
    for sync in recording.syncs:
        if sync.kind.startswith(BLOCK_WIDE):
            positions.setdefault(sync.block, []).append(sync.position)
    everywhere = positions.pop(-1, [])
    row = np.arange(len(recording))
    passed += np.searchsorted(np.array(everywhere, np.int64), row, side="right")
    for number, places in positions.items():
        own = np.flatnonzero(block == number)
        passed[own] += np.searchsorted(np.array(places, np.int64), own, side="right")
    return passed


def warps_of(recording: Recording, most_threads: int, first: Iterable[int] = ()) -> list[int]:
    """Threads to show, whole warps of them: those of ``first``, then the first that do anything.

    At least one warp is shown; ``most_threads`` bounds the rest.
    """
    per_block = recording.threads_per_block
    wanted = [int(thread) for thread in first]
    seen = np.unique(recording.thread) if len(recording) else np.zeros(0, np.int32)
    home = wanted[0] // per_block if wanted else (int(seen[0]) // per_block if len(seen) else 0)
    # The rest of the same block comes before other blocks: they share what is to be seen.
    wanted += sorted(map(int, seen), key=lambda thread: (thread // per_block != home, thread))
    chosen: dict[int, None] = {}
    for thread in wanted:
        if thread in chosen:
            continue
        block, linear = divmod(thread, per_block)
        begin = linear // WARP_SIZE * WARP_SIZE
        lanes = range(begin, min(begin + WARP_SIZE, per_block))
        if chosen and len(chosen) + len(lanes) > most_threads:
            break
        chosen.update(dict.fromkeys(block * per_block + lane for lane in lanes))
    return sorted(chosen)


def steps(recording: Recording, threads: Sequence[int], most: int) -> tuple[list[Step], bool]:
    """What ``threads`` (numbers in the grid) do, at most ``most`` steps; whether that is all."""
    events, meetings, whole = _events(recording, threads)
    found = _Merge(recording, events, meetings).run(most)
    return found[:most], whole and len(found) <= most and not recording.truncated


def _events(
    recording: Recording, threads: Sequence[int]
) -> tuple[dict[int, deque[_Event]], list[Meeting], bool]:
    shown = np.zeros(int(np.prod(recording.grid)) * recording.threads_per_block, np.bool_)
    shown[list(threads)] = True
    rows = np.flatnonzero(shown[recording.thread])
    whole = len(rows) <= MOST_ROWS
    rows = rows[:MOST_ROWS]
    has_lines = bool((recording.kind == Kind.LINE).any())
    queues: dict[int, deque[_Event]] = {thread: deque() for thread in threads}
    meetings: list[Meeting] = []
    syncs = iter(recording.syncs)
    upcoming = next(syncs, None)
    for row in map(int, rows):
        while upcoming is not None and upcoming.position <= row:
            _meet(recording, upcoming, queues, meetings)
            upcoming = next(syncs, None)
        _append(recording, queues[int(recording.thread[row])], row, has_lines)
    while upcoming is not None and whole:
        _meet(recording, upcoming, queues, meetings)
        upcoming = next(syncs, None)
    return queues, meetings, whole


def _append(recording: Recording, queue: deque[_Event], row: int, has_lines: bool) -> None:
    site = int(recording.site[row])
    is_line = recording.kind[row] == Kind.LINE
    last = queue[-1] if queue and queue[-1].site >= 0 else None
    if last is not None and not is_line and _place(recording, last.site) == _place(recording, site):
        again = any(int(recording.site[other]) == site for other in last.rows)
        if has_lines or not again:
            last.rows.append(row)
            return
    queue.append(_Event(site=site, rows=[] if is_line else [row]))


def _place(recording: Recording, site: int) -> tuple[str, int]:
    return recording.sites[site].file, recording.sites[site].line


def _meet(
    recording: Recording,
    sync: Sync,
    queues: dict[int, deque[_Event]],
    meetings: list[Meeting],
) -> None:
    per_block = recording.threads_per_block
    if sync.block < 0:  # the whole grid
        who = set(queues)
    elif sync.threads:
        who = {sync.block * per_block + linear for linear in sync.threads} & queues.keys()
    else:
        who = {thread for thread in queues if thread // per_block == sync.block}
    if not who:
        return
    for thread in who:
        queues[thread].append(_Event(meeting=len(meetings)))
    meetings.append((sync.kind, who))


class _Merge:
    """Puts the threads' own sequences side by side, warp after warp, meeting after meeting."""

    def __init__(
        self, recording: Recording, queues: dict[int, deque[_Event]], meetings: list[Meeting]
    ) -> None:
        self.recording, self.queues, self.meetings = recording, queues, meetings
        self.passed = dict.fromkeys(queues, 0)
        self.warps: dict[tuple[int, int], list[int]] = {}
        for thread in queues:
            block, linear = divmod(thread, recording.threads_per_block)
            self.warps.setdefault((block, linear // WARP_SIZE), []).append(thread)
        self.steps: list[Step] = []

    def run(self, most: int) -> list[Step]:
        """All steps, or a little more than ``most`` of them."""
        before = -1
        while before != len(self.steps) and len(self.steps) <= most:
            before = len(self.steps)
            for (block, warp), threads in self.warps.items():
                while (line := self._next_line(threads)) and len(self.steps) <= most:
                    self._execute(block, warp, line)
                self._meet(threads)
        return self.steps

    def _next_line(self, threads: list[int]) -> list[int]:
        """The threads whose next line is the smallest; [] when none is before a line."""
        ready = [t for t in threads if self.queues[t] and self.queues[t][0].site >= 0]
        if not ready:
            return []
        place = {t: _place(self.recording, self.queues[t][0].site)[::-1] for t in ready}
        least = min(place.values())
        return [thread for thread in ready if place[thread] == least]

    def _execute(self, block: int, warp: int, threads: list[int]) -> None:
        events = [self.queues[thread].popleft() for thread in threads]
        rows = tuple(row for event in events for row in event.rows)
        phase = self.passed[threads[0]]
        self.steps.append(Step(block, warp, phase, tuple(threads), rows, events[0].site))

    def _meet(self, threads: list[int]) -> None:
        """Let pass each meeting at which all that take part have arrived."""
        for thread in threads:
            queue = self.queues[thread]
            while queue and queue[0].meeting >= 0:
                number = queue[0].meeting
                kind, who = self.meetings[number]
                if not all(self.queues[t] and self.queues[t][0].meeting == number for t in who):
                    break
                block, linear = divmod(thread, self.recording.threads_per_block)
                warp, phase = linear // WARP_SIZE, self.passed[thread]
                met = tuple(sorted(who))
                self.steps.append(Step(block, warp, phase, met, meets=kind))
                for other in who:
                    self.queues[other].popleft()
                    self.passed[other] += kind.startswith(BLOCK_WIDE)
