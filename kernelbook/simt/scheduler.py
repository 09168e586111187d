"""Runs the threads of a grid: a CUDA thread is a greenlet only once it has to wait.

A worker greenlet calls the kernel for one thread after the other. A kernel that never waits is
thus a flat loop of plain calls. A thread that waits (barrier, warp operation) parks its worker;
another worker takes over the threads that have not started.

A warp runs ahead. As soon as a warp operation is complete (the last lane has called it, or has
returned), its lanes go on before any other thread, those that have not started included. So a warp
stops only at a block barrier, and a kernel that needs one and has only ``syncwarp`` reads what
later warps have yet to write. When nobody can go on, the block is *resolved*: whichever operation
is complete lets its threads go on, in this order: lanes that asked who is active (one warp), the
block's barrier (all threads that have not returned), the grid's. If none is complete the threads
are stuck, and the error says who waits where.

Blocks run one after the other, as long as they can. A thread that polls in vain gives way
(:mod:`kernelbook.simt.polling`): to the threads of its block that can run, to those that have not
started, and when these too only poll, the block is *put aside* and others have their turn: blocks
that have not started and blocks put aside, by turns. Blocks that wait for the whole grid stay alive
too. The device holds so many blocks at once and no more.

All of this is the natural order; a schedule with a seed permutes what the model leaves open
(:mod:`kernelbook.simt.schedule`).

Limit: a thread is never interrupted. One that loops on a plain load, without an atomic or a
``nanosleep``, loops until the time limit of the launch.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from itertools import chain
from math import prod
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
from greenlet import getcurrent, greenlet

from kernelbook.simt import device, limit, standstill, stuck
from kernelbook.simt.errors import TimeLimitError
from kernelbook.simt.freeze import Frozen
from kernelbook.simt.registers import WARP_SIZE, blockIdx, now, outside, threadIdx
from kernelbook.simt.schedule import NATURAL, Schedule

if TYPE_CHECKING:
    from kernelbook.simt.log import Log

_SYNCTHREADS = ("syncthreads", 0)
_thread_of = operator.attrgetter("thread")
_MOST_PASSED_OVER = 256  # so that a thread that counts its attempts gets on as well
_MANY_THREADS = 8192  # alive at once, some 20 KB each: beyond, new blocks start only if they must

Coordinates = tuple[int, int, int, int]  # linear index, x, y, z
Site = tuple[CodeType, int]  # the call in the kernel: code object and bytecode offset


@dataclass(slots=True, eq=False)
class Waiter:
    """A parked thread: who waits, where, with which value, and what it will get back."""

    greenlet: greenlet
    thread: int
    frame: FrameType
    value: Any = None
    result: Any = None

    @property
    def site(self) -> Site:
        return self.frame.f_code, self.frame.f_lasti


class State(Enum):
    """Why a block stopped running."""

    DONE = "all threads have returned"
    AT_GRID_SYNC = "all threads wait for the whole grid"
    ASIDE = "all threads that could run have polled in vain"


_DONE = State.DONE  # to look it up in the class costs as much as to start a thread


@dataclass(slots=True, eq=False)
class WarpGroup:
    """Lanes of one warp that wait for the others of ``mask`` in one operation."""

    kind: str
    mask: int
    size: int  # lanes in ``mask``
    site: Site
    finish: Callable[[WarpGroup, int], None]  # fills in results, given the lanes gone for good
    lanes: dict[int, Waiter] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What outlives the launch or is only for messages.

    frozen: the kernel and its device functions as compiled. shapes: the shape that each call of
    ``shared.array`` or ``local.array`` had, in this and in earlier launches.
    """

    name: str
    frozen: Frozen
    grid_ndim: int
    block_ndim: int
    shapes: dict[tuple[int, int], tuple[CodeType, Any]]


class Grid:
    """One launch: the function, its arguments and all blocks, run to the end by :meth:`run`."""

    def __init__(
        self,
        function: Callable[..., None],
        args: tuple[Any, ...],
        dims: tuple[tuple[int, int, int], tuple[int, int, int]],
        dynamic_bytes: int,
        kernel: KernelInfo,
        schedule: Schedule = NATURAL,
        log: Log | None = None,
    ) -> None:
        self.function = function
        self.args = args
        self.grid_dim, self.block_dim = dims
        self.dynamic_bytes = dynamic_bytes
        self.kernel = kernel
        self.log = log
        self.constants: dict[tuple[int, int], Any] = {}
        self.hub: greenlet = getcurrent()
        self.idle = _pool.idle
        self.coordinates = _coordinates(*self.block_dim)
        self.number_of_blocks = prod(self.grid_dim)
        self.choices = schedule.choices(len(self.coordinates))
        self.started = 0  # blocks
        self.aside: deque[Block] = deque()  # the one whose turn is next first
        self.at_grid_sync: list[Block] = []
        self.released: deque[Block] = deque()  # from a grid sync, yet to go on
        self.polls = standstill.Polls()
        self.watch = standstill.Watch(self)

    @property
    def waiting(self) -> int:
        """Blocks that are alive besides the one that runs."""
        return len(self.aside) + len(self.at_grid_sync) + len(self.released)

    @property
    def may_start(self) -> bool:
        """Whether a block is left to start, and the device has room for it."""
        return self.started < self.number_of_blocks and (
            self.waiting < device.resident_blocks(len(self.coordinates))
        )

    def run(self) -> None:
        """Run all blocks to their end. Raises SimulatorError for what a thread does wrong."""
        try:
            for number, index in self._blocks():
                self.started += 1
                block = Block(self, index, number)
                state = block.run()
                if state is not _DONE:
                    self._keep(block, state)
                if self.aside:
                    self._turns()
            while self.at_grid_sync:
                finished = self.started - self.waiting
                if finished:
                    raise stuck.grid_error(self.at_grid_sync[0], finished)
                self._release_grid()
                self._turns()
        except BaseException as error:
            failed = now.block
            explained = self._explained(error)
            now.block, now.thread = None, -1
            if not isinstance(error, Exception) or isinstance(error, TimeLimitError):
                self.idle.clear()  # a signal may have struck a worker on its way there
            alive = (*self.at_grid_sync, *self.aside, *self.released, failed)
            for block in {id(b): b for b in alive if b is not None}.values():
                block.abandon()
            raise explained from explained.__cause__
        finally:
            now.block, now.thread = None, -1

    def _blocks(self) -> Iterator[tuple[int, tuple[int, int, int]]]:
        """Number and index of each block, in the order in which they start."""
        width, height, depth = self.grid_dim
        if self.choices is None:
            yield from enumerate(
                (x, y, z) for z in range(depth) for y in range(height) for x in range(width)
            )
            return
        for number in self.choices.blocks(self.number_of_blocks):
            row, x = divmod(number, width)
            z, y = divmod(row, height)
            yield number, (x, y, z)

    def _keep(self, block: Block, state: State) -> None:
        """Take in a block that is alive but can't go on."""
        if state is State.ASIDE:
            self.aside.append(block)
        else:
            self.at_grid_sync.append(block)
            stuck.require_resident(block, len(self.at_grid_sync))

    def _turns(self) -> None:
        """Give blocks put aside their turn until none is left or another block may start.

        A turn in vain lets one more block start. So as many start as wait, and each is asked a
        few times only, however many there are. Raises DeadlockError when nothing can change.
        """
        self.watch.reset()
        to_look_at = len(self.aside)  # before their threads are asked: looking is far cheaper
        while self.aside:
            block = self.aside.popleft()
            before, ask_all = block.stand, to_look_at <= 0
            to_look_at -= 1
            if not block.ask(ask_all):
                self.aside.append(block)
                continue
            state = block.run()
            if state is not State.DONE:
                self._keep(block, state)
            if state is not State.ASIDE or block.stand != before:
                self.watch.reset()
                to_look_at = len(self.aside)
                continue
            if ask_all:
                self.watch.turn_in_vain()
            round_in_vain = self.watch.in_vain >= len(self.aside)
            if self.may_start:
                if self.waiting * block.size < _MANY_THREADS or round_in_vain:
                    return
            elif round_in_vain:
                self.watch.require_change()

    def _release_grid(self) -> None:
        """All blocks have reached the grid sync: run each until it waits again or has ended."""
        blocks, self.at_grid_sync = self.at_grid_sync, []
        if self.log is not None:
            self.log.sync("grid", -1, ())
        if self.choices is not None:
            blocks = self.choices.shuffled(blocks)
        self.released.extend(blocks)
        for block in blocks:
            block.release(block.at_grid_sync)
        while self.released:
            block = self.released.popleft()
            state = block.run()
            if state is not State.DONE:
                self._keep(block, state)

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, KeyboardInterrupt):
            return limit.interrupted(error, now.block)
        return stuck.explain(error, self) if isinstance(error, Exception) else error

    def worker(self) -> greenlet:
        """A greenlet that will start threads of the current block when switched to."""
        if self.idle:
            worker = self.idle.pop()
            worker.parent = self.hub
            return worker
        return greenlet(_work, self.hub)


@lru_cache(maxsize=64)
def _coordinates(width: int, height: int, depth: int) -> tuple[Coordinates, ...]:
    """The threads of a block, in the order of their index."""
    return tuple(
        ((z * height + y) * width + x, x, y, z)
        for z in range(depth)
        for y in range(height)
        for x in range(width)
    )


class _Pool(threading.local):
    """Idle workers of an operating-system thread, kept from launch to launch.

    Making one costs about 10 µs, most of it for its stack, against 0.3 µs for a switch to it.
    """

    def __init__(self) -> None:
        self.idle: list[greenlet] = []


_pool = _Pool()


def _work() -> None:
    np.seterr(all="ignore")  # a greenlet has its own NumPy error state
    place, me = threadIdx, getcurrent()
    while True:
        block = now.block
        assert block is not None
        function, args, left = block.grid.function, block.grid.args, block.left
        groups, ready = block.warp_groups, block.ready
        for coordinates in block.to_start:
            now.thread, place.x, place.y, place.z = coordinates
            if function(*args) is not None:
                raise stuck.returned_value(block, coordinates[0])
            left[coordinates[0]] = 1
            if groups:
                block.complete_without(coordinates[0])
            if ready:
                break
        else:
            block.all_started = True
        block.grid.idle.append(me)
        following = ready.popleft().greenlet if ready else block.grid.hub
        del block, function, args, left, groups, ready  # an idle worker keeps no arrays alive
        following.switch()


class Block:
    """One block: its threads, what they wait for, and its shared memory."""

    __slots__ = (
        "all_started",
        "asking_active",
        "at_barrier",
        "at_grid_sync",
        "broken_warp",
        "first",
        "grid",
        "index",
        "later",
        "left",
        "log",
        "number",
        "passed_over",
        "polling",
        "ready",
        "shared",
        "shared_bytes",
        "size",
        "stand",
        "to_start",
        "warp_groups",
    )

    def __init__(self, grid: Grid, index: tuple[int, int, int], number: int) -> None:
        self.grid = grid
        self.index = index
        self.number = number  # x + y * width + z * width * height
        self.size = len(grid.coordinates)
        self.first = number * self.size  # of its threads' numbers in the grid
        self.log = grid.log
        to_start: Sequence[Coordinates] = grid.coordinates
        if grid.choices is not None:
            to_start = grid.choices.start(to_start)
        self.to_start: Iterator[Coordinates] = iter(to_start)
        if grid.log is not None:
            self.to_start = self._announced(self.to_start, grid.log)
        self.all_started = False
        self.left = bytearray(self.size)  # 1 for each thread that has returned
        self.broken_warp = self.size // WARP_SIZE if self.size % WARP_SIZE else -1
        self.ready: deque[Waiter] = deque()
        self.later: list[Waiter] = []  # ready once nobody else is and all have started
        self.at_barrier: list[Waiter] = []
        self.at_grid_sync: list[Waiter] = []
        self.asking_active: list[Waiter] = []
        self.polling: list[Waiter] = []
        self.passed_over = 0  # how often not all of them were asked
        self.stand: Any = None  # where all threads stood when those that poll were last let go on
        self.warp_groups: dict[tuple[int, int], WarpGroup] = {}
        self.shared: dict[Any, Any] = {}
        self.shared_bytes = 0

    def run(self) -> State:
        """Run until no thread can go on without others of the grid."""
        now.block = self
        blockIdx.x, blockIdx.y, blockIdx.z = self.index
        ready, grid = self.ready, self.grid
        while True:
            if ready:
                ready.popleft().greenlet.switch()
            elif not self.all_started:
                grid.worker().switch()
            elif self.later:
                ready.extend(self.later)
                self.later.clear()
            elif 0 not in self.left:
                return _DONE
            elif not self._resolve():
                if not self.polling:
                    if len(self.at_grid_sync) == self.size:
                        return State.AT_GRID_SYNC
                    raise stuck.block_error(self)
                before, self.stand = self.stand, standstill.stand(self)
                if self.stand == before or (grid.choices and not grid.choices.runs_ahead()):
                    return State.ASIDE
                if not self.ask(everyone=False):
                    self.ask(everyone=True)

    def ask(self, everyone: bool) -> bool:
        """Let threads that poll ask again: all, or those that may see a change. False for none."""
        if everyone:
            self.passed_over = 0
            self.release(self.polling)
            return True
        self.passed_over += 1
        if self.passed_over > _MOST_PASSED_OVER:
            return self.ask(everyone=True)
        for waiter in self.polling:
            if waiter.value is None or waiter.value.changed:
                break
        else:
            return False
        sort: tuple[list[Waiter], list[Waiter]] = [], []
        for waiter in self.polling:
            sort[waiter.value is None or waiter.value.changed].append(waiter)
        self.polling, may_go_on = sort
        self.release(may_go_on)
        return True

    def release(self, waiters: list[Waiter]) -> None:
        """Let ``waiters`` go on, in the order of their thread index; empties the list."""
        choices = self.grid.choices
        if choices is None:
            self.ready.extend(sorted(waiters, key=_thread_of))
        else:
            self.ready.extend(choices.released(waiters))
        waiters.clear()

    def _announced(self, to_start: Iterator[Coordinates], log: Log) -> Iterator[Coordinates]:
        """The threads to start, each announced to ``log`` as it starts."""
        for coordinates in to_start:
            log.resume(self.first + coordinates[0])
            yield coordinates

    def abandon(self) -> None:
        """Unwind the threads that still wait, so that the next launch starts clean."""
        groups = (group.lanes.values() for group in self.warp_groups.values())
        waiters = chain(
            self.ready,
            self.later,
            self.polling,
            self.at_barrier,
            self.at_grid_sync,
            self.asking_active,
            *groups,
        )
        for waiter in list(waiters):
            waiter.greenlet.parent = getcurrent()
            with contextlib.suppress(Exception):
                waiter.greenlet.throw()

    def gone(self, warp: int) -> int:
        """Mask of the lanes of ``warp`` that have returned or never existed."""
        first = warp * WARP_SIZE
        return mask_of(
            lane
            for lane in range(WARP_SIZE)
            if first + lane >= self.size or self.left[first + lane]
        )

    def complete_without(self, thread: int) -> None:
        """``thread`` has returned: complete the operations that waited for nobody else."""
        warp = thread // WARP_SIZE
        for key, group in list(self.warp_groups.items()):
            if key[0] == warp and self.nobody_missing(warp, group):
                self.complete(key, group)

    def nobody_missing(self, warp: int, group: WarpGroup) -> bool:
        """Whether all lanes of the group's mask are in it or gone for good."""
        first, lanes, mask, left = warp * WARP_SIZE, group.lanes, group.mask, self.left
        # Threads start in the order of their index, so the last one mostly decides.
        for lane in range(min(WARP_SIZE, self.size - first) - 1, -1, -1):
            if mask >> lane & 1 and lane not in lanes and not left[first + lane]:
                return False
        return True

    def complete(self, key: tuple[int, int], group: WarpGroup, running: int = -1) -> bool:
        """Give the lanes of a warp operation their results and let them go on before all others.

        running: the lane that calls this because it was the last to join; -1 for none. Returns
        whether that lane goes on at once; if not, it has to wait like the rest. A schedule with a
        seed may also let the lanes wait for the other threads.
        """
        del self.warp_groups[key]
        lanes = group.lanes
        group.finish(group, 0 if len(lanes) == group.size else self.gone(key[0]))
        if self.log is not None:
            met = tuple(w.thread for w in lanes.values())
            self.log.sync(group.kind, self.number, met, group.mask)
        choices = self.grid.choices
        if choices is None:
            others = reversed(lanes.values())
            if running >= 0:
                next(others)
            self.ready.extendleft(others)
            return True
        released = choices.lanes(lanes)
        if choices.runs_ahead():
            self.ready.extendleft(reversed(released))
        else:
            self.later.extend(released)
        return False

    def _resolve(self) -> bool:
        """Complete an operation of the block that can be completed. False: there is none."""
        if self.asking_active:
            self._answer_active()
            return True
        living = self.size - self.left.count(1)
        if len(self.at_barrier) != living:
            return False
        stuck.require_one_site(self)
        if living < self.size:
            stuck.require_early_return(self)
        _BARRIERS[self.at_barrier[0].value[0]](self.at_barrier)
        if self.log is not None:
            met = sorted(waiter.thread for waiter in self.at_barrier)
            self.log.sync("syncthreads", self.number, tuple(met))
        self.release(self.at_barrier)
        return True

    def _answer_active(self) -> None:
        """Answer the first warp that asks: those that ask at one place are active together."""
        warp = min(waiter.thread for waiter in self.asking_active) // WARP_SIZE
        asking = [w for w in self.asking_active if w.thread // WARP_SIZE == warp]
        self.asking_active = [w for w in self.asking_active if w.thread // WARP_SIZE != warp]
        groups: dict[Site, list[Waiter]] = {}
        for waiter in asking:
            groups.setdefault(waiter.site, []).append(waiter)
        for waiters in groups.values():
            mask = mask_of(w.thread % WARP_SIZE for w in waiters)
            for waiter in waiters:
                waiter.result = mask
        self.release(asking)


def wait(waiter: Waiter, block: Block) -> Any:
    """Park the running thread; returns its result when the thread is let go on."""
    ready = block.ready
    (ready.popleft().greenlet if ready else block.grid.hub).switch()
    thread = waiter.thread
    now.thread, threadIdx.x, threadIdx.y, threadIdx.z = block.grid.coordinates[thread]
    if block.log is not None:
        block.log.resume(block.first + thread)
    return waiter.result


def syncthreads() -> None:
    """Wait until every thread of the block has reached this call."""
    block = now.block
    if block is None:
        raise outside("syncthreads")
    thread = now.thread  # below: wait(), written out, because this is the hottest call
    block.at_barrier.append(Waiter(getcurrent(), thread, sys._getframe(1), _SYNCTHREADS))
    (block.ready.popleft().greenlet if block.ready else block.grid.hub).switch()
    now.thread, threadIdx.x, threadIdx.y, threadIdx.z = block.grid.coordinates[thread]
    if block.log is not None:
        block.log.resume(block.first + thread)


def syncthreads_count(predicate: Any) -> int:
    """Barrier; returns for how many threads of the block ``predicate`` is true."""
    return int(_barrier("syncthreads_count", predicate))


def syncthreads_and(predicate: Any) -> int:
    """Barrier; returns 1 when ``predicate`` is true for every thread of the block, else 0."""
    return int(_barrier("syncthreads_and", predicate))


def syncthreads_or(predicate: Any) -> int:
    """Barrier; returns 1 when ``predicate`` is true for any thread of the block, else 0."""
    return int(_barrier("syncthreads_or", predicate))


def grid_sync() -> int:
    """Wait until every thread of every block has reached a grid sync. Returns 0."""
    block = now.block
    if block is None:
        raise outside("cg.this_grid().sync")
    waiter = Waiter(getcurrent(), now.thread, sys._getframe(2))
    block.at_grid_sync.append(waiter)
    wait(waiter, block)
    return 0


def nanosleep(ns: Any) -> None:
    """Let the other threads of the block that can run go first. Simulated time does not pass."""
    block = now.block
    if block is None:
        raise outside("nanosleep")
    int(ns)
    give_way(Waiter(getcurrent(), now.thread, sys._getframe(1)), block)


def give_way(waiter: Waiter, block: Block) -> None:
    """Let whoever can run go first: threads of the block, then those of other blocks."""
    block.polling.append(waiter)
    wait(waiter, block)


def mask_of(lanes: Any) -> int:
    """The lanes as a 32-bit mask."""
    mask = 0
    for lane in lanes:
        mask |= 1 << lane
    return mask


def _barrier(kind: str, predicate: Any) -> Any:
    block = now.block
    if block is None:
        raise outside(kind)
    waiter = Waiter(getcurrent(), now.thread, sys._getframe(2), (kind, predicate))
    block.at_barrier.append(waiter)
    return wait(waiter, block)


def _plain(waiters: list[Waiter]) -> None:
    pass


def _give(combine: Callable[[Iterator[bool]], int]) -> Callable[[list[Waiter]], None]:
    def finish(waiters: list[Waiter]) -> None:
        result = int(combine(bool(w.value[1]) for w in waiters))
        for waiter in waiters:
            waiter.result = result

    return finish


_BARRIERS: dict[str, Callable[[list[Waiter]], None]] = {
    "syncthreads": _plain,
    "syncthreads_count": _give(sum),
    "syncthreads_and": _give(all),
    "syncthreads_or": _give(any),
}
