"""Which accesses are ordered: happens-before over the suspects, exactly, by what threads know.

A thread *knows* a row of another when the memory model orders that row before what the thread does
next. Knowledge passes

- through ``syncthreads`` among the living threads of a block, ``syncwarp`` among its lanes, a grid
  sync among all;
- by message: a fence, an atomic after it, an atomic on the same element that comes later and whose
  result is used, a fence after that. A barrier may lie between a fence and its atomic, on either
  side, in which case they may be of different threads. A plain store to the element ends the
  message. ``threadfence_block`` takes part within its block only.
- An atomic whose result is used comes after all earlier atomics on its element, for what its thread
  does to that element next: the last of many may reset a counter.

As rows are in the order of execution, "all rows of u before row r" is the pair (u, r), and to know
a block up to its barrier is one pair too; a pair is what a vector clock has for each thread, and
most are missing. Source: PTX ISA, memory consistency model (release and acquire patterns);
FastTrack (Flanagan and Freund, 2009) for what is kept of each element.

Limit: 1 to 3 µs a row, on suspects only. An access to an element costs as much again for each
thread that has loaded or atomically changed it since it was last stored to, and a fence costs what
its thread knows. Launches of 10⁵ such rows take about a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.races import is_block_barrier
from kernelbook.simt.record import Kind, Recording, Sync
from kernelbook.simt.touches import Touches

_LOAD, _STORE, _ATOMIC = int(Kind.LOAD), int(Kind.STORE), int(Kind.ATOMIC)
_FENCE = int(Kind.FENCE)
_NEVER = 1 << 62
MOST_AFTER = 20_000

# Of a thread, a block (its number after the threads) or the atomics on an element (after those),
# the row before which all is known.
Known = dict[int, int]


class Meeting(NamedTuple):
    """Rows ``others``, latest first, conflict with ``row`` on ``element`` and are not ordered."""

    row: int
    element: int
    others: list[int]


def meetings(recording: Recording, touches: Touches, elements: NDArray[Any]) -> Iterator[Meeting]:
    """Races on ``elements``, in the order of their later row.

    The first meeting on an element is exact. Later ones there may be missing, because a store
    stands for all that came before it. Ends ``MOST_AFTER`` rows after the first meeting.
    """
    if not len(elements):
        return
    history = _History(recording)
    most = _NEVER
    for row, element, kind, thread, checked in _events(recording, touches, elements):
        most -= 1
        if not most:
            return
        history.advance(row)
        if element < 0:
            history.fence(row, thread, kind == _FENCE)
            continue
        if checked:
            others = history.access(row, element, kind, thread)
            if others:
                most = min(most, MOST_AFTER)
                yield Meeting(row, element, others)
        history.pass_on(row, element, kind, thread)


def _events(
    recording: Recording, touches: Touches, elements: NDArray[Any]
) -> Iterator[tuple[int, int, int, int, bool]]:
    """Row, element (-1 for a fence), kind, thread, and whether the element is a suspect."""
    suspect = np.zeros(touches.size, np.bool_)
    suspect[elements] = True
    fences = np.flatnonzero(recording.kind == Kind.FENCE)
    fences = np.union1d(fences, np.flatnonzero(recording.kind == Kind.FENCE_BLOCK))
    wanted = suspect[touches.element]
    if len(fences):  # then atomics anywhere pass messages on
        wanted |= touches.kind == Kind.ATOMIC
    number = np.flatnonzero(wanted)
    row = np.concatenate([touches.row[number], fences])
    element = np.concatenate([touches.element[number], np.full(len(fences), -1)])
    order = np.argsort(row, kind="stable")
    row, element = row[order], element[order]
    needed = ~_repeated(recording, row, element)
    row, element = row[needed], element[needed]
    columns = (row, element, recording.kind[row], recording.thread[row], suspect[element])
    yield from zip(*(column.tolist() for column in columns), strict=True)


def _repeated(recording: Recording, row: NDArray[Any], element: NDArray[Any]) -> NDArray[np.bool_]:
    """Which events change nothing: an atomic by which a thread polls, within a run of its like.

    Of such a run, between whose atomics neither the thread nor the element meets anything else, the
    first and the last tell all.
    """
    count = len(row)
    repeated = np.zeros(count, np.bool_)
    if (recording.kind[row] == Kind.ATOMIC).sum() < 3:
        return repeated
    by_thread = np.argsort(recording.thread[row], kind="stable")
    by_element = np.argsort(element, kind="stable")
    next_of_element = np.full(count, -1)
    next_of_element[by_element[:-1]] = by_element[1:]
    one, two = by_thread[:-1], by_thread[1:]
    same = next_of_element[one] == two  # neighbours of one thread that are so on one element too
    same &= (element[one] == element[two]) & (element[one] >= 0)
    same &= recording.thread[row[one]] == recording.thread[row[two]]
    same &= (recording.kind[row[one]] == Kind.ATOMIC) & (
        recording.site[row[one]] == recording.site[row[two]]
    )
    before, after = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    after[one[same]] = True
    before[two[same]] = True
    return before & after


@dataclass(slots=True)
class _Knowledge:
    """What one thread, or all threads of a block, know. Dictionaries are replaced, not changed.

    fenced: what the next atomic releases; pending: what atomics have collected, for the next fence.
    Those ``_in_block`` are of and for threads of one block.
    """

    known: Known = field(default_factory=dict)
    fenced: Known = field(default_factory=dict)
    fenced_in_block: Known = field(default_factory=dict)
    pending: Known = field(default_factory=dict)
    pending_in_block: Known = field(default_factory=dict)

    def join(self, other: _Knowledge) -> _Knowledge:
        return _Knowledge(
            _join(self.known, other.known),
            _join(self.fenced, other.fenced),
            _join(self.fenced_in_block, other.fenced_in_block),
            _join(self.pending, other.pending),
            _join(self.pending_in_block, other.pending_in_block),
        )


_NOTHING = _Knowledge()


def _join(*parts: Known) -> Known:
    """The later row of each; a part itself where the others are empty."""
    full = [part for part in parts if part]
    if len(full) < 2 or all(part is full[0] for part in full):
        return full[0] if full else {}
    joined = dict(full[0])
    for part in full[1:]:
        for who, row in part.items():
            if joined.get(who, 0) < row:
                joined[who] = row
    return joined


@dataclass(slots=True)
class _Element:
    """Accesses to an element since its last plain store: for each thread the last row."""

    store: tuple[int, int] | None = None  # row, thread
    loads: dict[int, int] = field(default_factory=dict)
    atomics: dict[int, int] = field(default_factory=dict)


class _History:
    """The state of all threads and suspects, as rows and syncs go by."""

    def __init__(self, recording: Recording) -> None:
        self.size = recording.threads_per_block
        width, height, depth = recording.grid
        self.first_block = width * height * depth * self.size  # keys of Known
        self.first_element = self.first_block + width * height * depth
        self.used = [site.result_used for site in recording.sites]
        self.site = recording.site
        self.fences = False
        self.syncs = [s for s in recording.syncs if _orders(s)]
        self.syncs.reverse()
        self.grid_sync = 0
        self.barrier: dict[int, int] = {}  # of a block: position of the last
        self.left: dict[int, int] = {}  # a thread: position of the last barrier it took part in
        self.of_block: dict[int, _Knowledge] = {}
        self.of_thread: dict[int, dict[int, _Knowledge]] = {}  # beyond its block's; by block
        self.elements: dict[int, _Element] = {}
        self.messages: dict[int, Known] = {}  # by element
        self.messages_in_block: dict[int, dict[int, Known]] = {}  # by element, by block

    def advance(self, row: int) -> None:
        """Let the syncs happen that come before ``row``."""
        syncs = self.syncs
        while syncs and syncs[-1].position <= row:
            sync = syncs.pop()
            if sync.kind == "grid":
                self._sync_grid(sync.position)
            elif sync.kind == "syncwarp":
                self._sync_warp(sync)
            else:
                self._sync_block(sync)

    def access(self, row: int, element: int, kind: int, thread: int) -> list[int]:
        """Note an access; returns the rows that conflict with it and are not ordered before it."""
        state = self.elements.get(element)
        if state is None:
            state = self.elements[element] = _Element()
        others = []
        if state.store is not None and not self._ordered(*state.store, thread):
            others.append(state.store[0])
        if kind != _ATOMIC and state.atomics:
            key = self.first_element + element
            for other, at in state.atomics.items():
                if not self._ordered(at, other, thread) and not self._knows(thread, key, at):
                    others.append(at)
        if kind != _LOAD:
            for other, at in state.loads.items():
                if not self._ordered(at, other, thread):
                    others.append(at)
        if kind == _STORE:
            state.store = row, thread
            state.loads.clear()
            state.atomics.clear()
        elif kind == _LOAD:
            state.loads[thread] = row
        else:
            state.atomics[thread] = row
        others.sort(reverse=True)
        return others

    def fence(self, row: int, thread: int, whole_device: bool) -> None:
        """Take in what atomics have collected; make what is known ready for the next atomic."""
        self.fences = True
        block = thread // self.size
        mine, ours = self._knowledge(thread), self.of_block.get(block, _NOTHING)
        known = _join(mine.known, mine.pending_in_block, ours.pending_in_block)
        if whole_device:
            known = _join(known, mine.pending, ours.pending)
        released = _join(ours.known, known, {thread: row})
        if block in self.barrier:
            released = _join(released, {self.first_block + block: self.barrier[block]})
        self.of_thread.setdefault(block, {})[thread] = _Knowledge(
            known,
            fenced=released if whole_device else mine.fenced,
            fenced_in_block=released,
            pending={} if whole_device else mine.pending,
        )

    def pass_on(self, row: int, element: int, kind: int, thread: int) -> None:
        """What an access means for messages and for later accesses to the same element."""
        if kind == _STORE:
            # On suspects alone, and not within a block: elsewhere whoever is ordered to store has
            # taken the message already.
            self.messages.pop(element, None)
        if kind != _ATOMIC:
            return
        block = thread // self.size
        mine, ours = self._knowledge(thread), self.of_block.get(block, _NOTHING)
        if self.used[self.site[row]]:
            mine = _Knowledge(
                _join(mine.known, {self.first_element + element: row}),
                mine.fenced,
                mine.fenced_in_block,
                _join(mine.pending, self.messages.get(element, {})),
                _join(
                    mine.pending_in_block, self.messages_in_block.get(element, {}).get(block, {})
                ),
            )
            self.of_thread.setdefault(block, {})[thread] = mine
        if self.fences:
            message = _join(self.messages.get(element, {}), ours.fenced, mine.fenced)
            if message:
                self.messages[element] = message
            within = self.messages_in_block.setdefault(element, {})
            within[block] = _join(within.get(block, {}), ours.fenced_in_block, mine.fenced_in_block)

    def _knowledge(self, thread: int) -> _Knowledge:
        return self.of_thread.get(thread // self.size, {}).get(thread, _NOTHING)

    def _ordered(self, row: int, other: int, thread: int) -> bool:
        """Whether ``row`` of the thread ``other`` comes before what ``thread`` does now."""
        if other == thread or row < self.grid_sync:
            return True
        block, its_block = thread // self.size, other // self.size
        stays = row < self.left.get(other, _NEVER)
        if block == its_block and stays and row < self.barrier.get(block, 0):
            return True
        if self._knows(thread, other, row):
            return True
        return (
            stays and block != its_block and self._knows(thread, self.first_block + its_block, row)
        )

    def _knows(self, thread: int, key: int, row: int) -> bool:
        block = thread // self.size
        ours = self.of_block.get(block)
        if ours is not None and ours.known.get(key, 0) > row:
            return True
        return self._knowledge(thread).known.get(key, 0) > row

    def _sync_grid(self, position: int) -> None:
        self.grid_sync = position
        for state in (self.of_block, self.of_thread, self.messages, self.messages_in_block):
            state.clear()

    def _sync_block(self, sync: Sync) -> None:
        block, first = sync.block, sync.block * self.size
        last = self.barrier.get(block, 0)
        self.barrier[block] = sync.position
        own = self.of_thread.pop(block, None)
        if len(sync.threads) < self.size:
            gone = set(range(self.size)).difference(sync.threads)
            for thread in gone:
                self.left.setdefault(first + thread, last)
            if own:
                own = {t: knowledge for t, knowledge in own.items() if t - first not in gone}
        if own:
            joined = self.of_block.get(block, _NOTHING)
            for knowledge in {id(k): k for k in own.values()}.values():
                joined = joined.join(knowledge)
            # The barrier tells more of the block's own threads, unless they have left.
            joined.known = {
                who: row
                for who, row in joined.known.items()
                if not first <= who < first + self.size or who in self.left
            }
            self.of_block[block] = joined

    def _sync_warp(self, sync: Sync) -> None:
        first = sync.block * self.size
        own = self.of_thread.setdefault(sync.block, {})
        joined = _Knowledge(known={first + t: sync.position for t in sync.threads})
        distinct = {id(k): k for t in sync.threads if (k := own.get(first + t)) is not None}
        for knowledge in distinct.values():
            joined = joined.join(knowledge)
        for thread in sync.threads:
            own[first + thread] = joined


def _orders(sync: Sync) -> bool:
    return sync.kind in ("syncwarp", "grid") or is_block_barrier(sync.kind)
