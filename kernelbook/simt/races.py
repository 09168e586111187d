"""Which elements may be raced on: a sieve over the whole launch, cheap when nothing is shared.

It drops what one thread alone touches and what nobody writes, and then asks of the rest whether two
threads meet on an element between two grid syncs (different blocks), two barriers of the block
(different warps) or two whole-warp syncs (different lanes). Two loads never conflict, nor do two
atomics.

Sound: an element that is not among the suspects has no race. Syncs of a part of a warp, and fences,
are not looked at here, so a suspect need not have a race: :mod:`kernelbook.simt.happens_before`
decides.

A thread that has left the kernel takes no part in the barriers that follow, so nothing orders its
last accesses; elements with such accesses are suspects too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelbook.simt.record import Kind, Recording, Sync
from kernelbook.simt.registers import WARP_SIZE
from kernelbook.simt.touches import Touches

PRIVATE = ("local", "const")  # spaces in which threads cannot meet, or cannot write
# Whether the kinds in a group conflict, by the bits 1 << kind: a store, or a load and an atomic.
_CONFLICT = np.array([bits & 2 != 0 or bits == 5 for bits in range(8)])


def suspects(recording: Recording, touches: Touches) -> NDArray[Any]:
    """Elements that may have a race, each once."""
    number = _shared_and_written(recording, touches)
    if not len(number):
        return number
    return np.unique(_unordered(recording, touches, number))


def is_block_barrier(kind: str) -> bool:
    return kind.startswith("syncthreads")


def covers_warp(sync: Sync, threads_per_block: int) -> bool:
    """Whether the mask of a syncwarp names every thread of its warp that there is."""
    if not sync.threads:
        return False
    first = sync.threads[0] // WARP_SIZE * WARP_SIZE
    lanes = (1 << min(WARP_SIZE, threads_per_block - first)) - 1
    return sync.mask & lanes == lanes


def _shared_and_written(recording: Recording, touches: Touches) -> NDArray[Any]:
    """Numbers of the touches on elements that somebody writes and several threads touch."""
    table = np.zeros(touches.size, np.bool_)
    table[touches.element[touches.kind != Kind.LOAD]] = True
    candidate = table[touches.element]
    private = np.array([a.space in PRIVATE for a in recording.allocations], np.bool_)
    if private.any():
        candidate &= ~private[touches.allocation]
    number = np.flatnonzero(candidate)
    element, thread = touches.element[number], touches.thread[number]
    one_of_them = np.empty(touches.size, thread.dtype)
    one_of_them[element] = thread
    several = element[one_of_them[element] != thread]
    if not len(several):
        return several
    table[:] = False
    table[several] = True
    return number[table[element]]


@dataclass(frozen=True, slots=True)
class _Shared:
    """Touches of shared elements, sorted by element and then in the order of execution."""

    element: NDArray[Any]
    row: NDArray[Any]
    thread: NDArray[Any]
    bits: NDArray[Any]  # 1 << kind

    def keep(self, chosen: NDArray[Any]) -> _Shared:
        return _Shared(
            self.element[chosen], self.row[chosen], self.thread[chosen], self.bits[chosen]
        )


def _unordered(recording: Recording, touches: Touches, number: NDArray[Any]) -> NDArray[Any]:
    """Elements on which conflicting accesses lie within one epoch of those who touch them."""
    number = number[_by_element(touches.element[number])]
    thread = touches.thread[number].astype(np.int64)
    bits = np.left_shift(1, touches.kind[number], dtype=np.uint8)
    shared = _Shared(touches.element[number], touches.row[number], thread, bits)
    epochs = _Epochs(recording)
    found = [shared.element[epochs.outlasting(shared)]]
    levels = (
        (epochs.of_grid, lambda thread: thread // epochs.size),
        (epochs.of_block, epochs.warp),
        (epochs.of_warp, lambda thread: thread),
    )
    for epoch, owner in levels:
        if not len(shared.row):
            break
        sure, rest = _conflicts(shared, epoch(shared), owner)
        found.append(sure)
        shared = shared.keep(rest)
    return np.concatenate(found)


def _by_element(element: NDArray[Any]) -> NDArray[Any]:
    """The order that sorts by element and keeps equal ones as they are."""
    bits = len(element).bit_length()
    # Sorting the pair as one number is several times as fast as a stable argsort.
    key = element.astype(np.int64) << bits
    key |= np.arange(len(element))
    key.sort()
    key &= (1 << bits) - 1
    return key


def _conflicts(
    shared: _Shared, epoch: list[NDArray[Any]], owner: Callable[[NDArray[Any]], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Elements on which different owners conflict in one epoch; rows that meet within an owner.

    Rows of an element are in the order of execution, and the level above has left only epochs with
    one owner: so those of one epoch stand together.
    """
    starts = np.empty(len(shared.row), np.bool_)
    starts[0] = True
    np.not_equal(shared.element[1:], shared.element[:-1], out=starts[1:])
    for column in epoch:
        starts[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(starts)
    least = np.minimum.reduceat(shared.thread, first)
    most = np.maximum.reduceat(shared.thread, first)
    conflict = _CONFLICT[np.bitwise_or.reduceat(shared.bits, first)] & (least != most)
    if not conflict.any():
        return first[:0], first[:0]
    apart = owner(least) != owner(most)
    lengths = np.diff(first, append=len(shared.row))
    rest = np.flatnonzero(np.repeat(conflict & ~apart, lengths))
    return shared.element[first[conflict & apart]], rest


class _Epochs:
    """Counts, for each row, the syncs before it in which everybody concerned took part.

    "Concerned" are the threads of the grid, of the row's block, and of its warp.
    """

    def __init__(self, recording: Recording) -> None:
        self.size = recording.threads_per_block
        self.warps = -(-self.size // WARP_SIZE)
        self._span = len(recording) + 1
        self._grid: list[int] = []
        self._blocks: list[int] = []  # number of the block × span + position
        self._warps: list[int] = []
        self._last: dict[int, Sync] = {}  # by block, and by -1 - warp
        self._outlast: dict[int, int] = {}  # thread: the row from which on no sync covers it
        for sync in recording.syncs:
            if is_block_barrier(sync.kind):
                self._blocks.append(sync.block * self._span + sync.position)
                self._note_leavers(sync, sync.block, range(self.size))
            elif sync.kind == "syncwarp" and covers_warp(sync, self.size):
                first = sync.threads[0] // WARP_SIZE * WARP_SIZE
                warp = sync.block * self.warps + first // WARP_SIZE
                self._warps.append(warp * self._span + sync.position)
                lanes = range(first, min(first + WARP_SIZE, self.size))
                self._note_leavers(sync, -1 - warp, lanes)
            elif sync.kind == "grid":
                self._grid.append(sync.position)
        self._blocks.sort()
        self._warps.sort()

    def warp(self, thread: NDArray[Any]) -> NDArray[Any]:
        """The warp's number in the grid."""
        return thread // self.size * self.warps + thread % self.size // WARP_SIZE

    def of_grid(self, shared: _Shared) -> list[NDArray[Any]]:
        if not self._grid:
            return []
        return [np.searchsorted(self._grid, shared.row, side="right")]

    def of_block(self, shared: _Shared) -> list[NDArray[Any]]:
        return [
            *self.of_grid(shared),
            *self._count(self._blocks, shared.thread // self.size, shared),
        ]

    def of_warp(self, shared: _Shared) -> list[NDArray[Any]]:
        return [*self.of_block(shared), *self._count(self._warps, self.warp(shared.thread), shared)]

    def outlasting(self, shared: _Shared) -> NDArray[Any]:
        """Places of the rows that their thread made after the last sync it took part in."""
        if not self._outlast:
            return np.zeros(0, np.intp)
        threads = np.array(sorted(self._outlast))
        since = np.array([self._outlast[thread] for thread in threads])
        place = np.minimum(np.searchsorted(threads, shared.thread), len(threads) - 1)
        left = threads[place] == shared.thread
        return np.flatnonzero(left & (shared.row >= since[place]))

    def _count(self, keys: list[int], owner: NDArray[Any], shared: _Shared) -> list[NDArray[Any]]:
        """One number an owner and epoch."""
        if not keys:
            return [owner]
        return [owner, np.searchsorted(keys, owner * self._span + shared.row, side="right")]

    def _note_leavers(self, sync: Sync, owner: int, expected: range) -> None:
        last = self._last.get(owner)
        self._last[owner] = sync
        missing = len(expected) - len(sync.threads)
        if not missing or (last and len(last.threads) == len(sync.threads)):
            return
        since = last.position if last else 0
        for thread in set(expected).difference(sync.threads):
            number = sync.block * self.size + thread
            self._outlast[number] = min(since, self._outlast.get(number, since))
