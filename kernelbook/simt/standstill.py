"""Proves that a launch stands still: every thread polls or waits, and nothing can change.

A thread that polls (:mod:`kernelbook.simt.polling`) is asked again and again whether it can go on.
When all blocks on the device have been asked in vain, their whole state is written down: the
variables of the threads that poll, and the arrays that these name. If it is the same after another
round, it is the same for ever, because what a thread does depends on nothing else. A loop that
counts its attempts is in another state each time: it goes on until it gives up.

Limit: the state of an iterator shows only in the variable that the loop assigns.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelbook.simt import device, stuck
from kernelbook.simt.errors import DeadlockError
from kernelbook.simt.loops import awaited_atomic, awaited_load

if TYPE_CHECKING:
    from kernelbook.simt.scheduler import Block, Grid, Waiter

_MOST_FACTOR = 6  # 6! rounds: a multiple of the period of most loops that ask several elements


@dataclass(frozen=True, slots=True, eq=False)
class Poll:
    """What a thread waits for: that ``array[index]`` no longer holds ``value``."""

    array: Any
    index: Any
    value: Any

    @property
    def changed(self) -> bool:
        return bool(self.array.data[self.index] != self.value)

    @property
    def element(self) -> str:
        index = self.index if isinstance(self.index, tuple) else (self.index,)
        return f"{self.array.label()}[{', '.join(str(int(i)) for i in index)}]"


@dataclass(slots=True, eq=False)
class Polls:
    """The latest thread whose atomics change nothing: how many in a row, and which they were."""

    thread: int = -1  # number in the grid
    count: int = 0
    seen: set[Any] = field(default_factory=set)


class Watch:
    """Counts the turns in vain of the blocks put aside, and knows when they will be so for ever."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.reset()

    def reset(self) -> None:
        """Something has changed."""
        self.in_vain = 0
        self.rounds = 1  # between two looks at the whole state: 1!, 2!, 3!, …
        self.factor = 1
        self.state: Any = None

    def turn_in_vain(self) -> None:
        """All threads of a block that poll have been asked in vain."""
        self.in_vain += 1

    def require_change(self) -> None:
        """Raise DeadlockError when a full round of turns has left the launch as it was."""
        if self.in_vain < self.rounds * len(self.grid.aside):
            return
        state = _state_of(self.grid)
        if state == self.state:
            raise _error(self.grid)
        self.state = state
        self.in_vain = 0
        if self.factor < _MOST_FACTOR:
            self.factor += 1
            self.rounds *= self.factor


def stand(block: Block) -> Any:
    """Where the threads of ``block`` stand. Compares equal when none of them has got further.

    Also when one has, and came back to the same loop: then other blocks have their turn too early,
    which does no harm.
    """
    return (
        block.left.count(1),
        len(block.at_barrier),
        len(block.at_grid_sync),
        sum(len(group.lanes) for group in block.warp_groups.values()),
        sorted((w.thread, id(w.frame.f_code), w.frame.f_lasti) for w in block.polling),
    )


def _state_of(grid: Grid) -> Any:
    """All that decides how the launch goes on: what the threads that poll can reach."""
    known: dict[int, Any] = {}
    return {(b.number, w.thread): _variables(b, w, known) for b in grid.aside for w in b.polling}


def _variables(block: Block, waiter: Waiter, known: dict[int, Any]) -> list[Any]:
    return [
        (frame.f_lasti, {name: _value(value, known) for name, value in frame.f_locals.items()})
        for frame in stuck.frames(block, waiter)
    ]


def _value(value: Any, known: dict[int, Any]) -> Any:
    """Something to compare instead of ``value``: for memory a checksum, which ``known`` keeps."""
    if isinstance(value, tuple):
        return [_value(part, known) for part in value]
    data = value if isinstance(value, np.ndarray) else getattr(value, "data", None)
    if not isinstance(data, np.ndarray):
        return repr(value)
    if id(data) not in known:
        known[id(data)] = zlib.crc32(data.tobytes())
    return known[id(data)]


def _error(grid: Grid) -> DeadlockError:
    """Who waits for what, who else does not go on, and why nobody will change it."""
    pollers = sorted(
        ((b, w) for b in grid.aside for w in b.polling),
        key=lambda pair: (pair[1].value is None, pair[0].number, pair[1].thread),
    )
    block, waiter = pollers[0]
    element = _awaited(block, waiter)
    what = (
        f"waits for {element} to change; no thread that could still run writes it"
        if element
        else "sleeps in a loop whose condition no thread that could still run changes"
    )
    facts = [*_others(block, waiter, pollers), *stuck.standing(block)]
    ended = grid.started - grid.waiting
    if ended:
        count = "1 block has" if ended == 1 else f"{ended:,} blocks have"
        facts.append(f"{count} left the kernel{stuck.at_end_or_return(block)}")
    unstarted = grid.number_of_blocks - grid.started
    advice = "The thread that is to write it must not end or wait for others before it has"
    if unstarted:
        room = device.resident_blocks(block.size)
        facts.append(
            f"{unstarted:,} blocks that have not started can't run before a resident one ends (the "
            f"device holds {room:,} blocks of {block.size} threads)"
        )
        advice = (
            "Launch no more blocks than the device holds, or let each block take its number from "
            "an atomic counter and wait for lower numbers only"
        )
    return DeadlockError(stuck.waiting(block, waiter).says("; ".join((what, *facts)), f"{advice}."))


def _others(block: Block, waiter: Waiter, pollers: list[tuple[Block, Waiter]]) -> Iterable[str]:
    """A word about the other threads that poll: the first of those that wait for something else."""
    count = len(pollers) - 1
    if not count:
        return
    mine = _awaited(block, waiter)
    other_block, other = next((pair for pair in pollers if _awaited(*pair) != mine), pollers[1])
    where = stuck.waiting(other_block, other)
    element = _awaited(other_block, other)
    target = f" for {element}" if element else ""
    same_block = "" if other_block is block else f"block {where.block}, "
    yield (
        f"{count:,} more {'thread waits' if count == 1 else 'threads wait'} in a loop "
        f"({same_block}thread {where.thread}{target}, line {where.line})"
    )


def _awaited(block: Block, waiter: Waiter) -> str:
    """The element that a thread waits for and what it holds, or "" where that is not known."""
    poll: Poll | None = waiter.value
    if poll:
        return f"{poll.element} (now {poll.value})"
    frame = stuck.frames(block, waiter)[0]
    element = awaited_load(frame) or awaited_atomic(frame)
    return f"{element[0]} (now {element[1]})" if element else ""
