"""Runs the threads of a grid: a CUDA thread is a greenlet only once it has to wait.

A worker greenlet calls the kernel for one thread after the other. A kernel that never waits is
thus a flat loop of plain calls. A thread that waits (barrier, warp operation) parks its worker;
another worker takes over the threads that have not started.

A warp runs ahead. As soon as a warp operation is complete (the last lane has called it, or has
returned), its lanes go on before any other thread, those that have not started included. So a warp
stops only at a block barrier, and a kernel that needs one and has only ``syncwarp`` reads what
later warps have yet to write. When nobody can go on, the block is *resolved*: whichever operation
is complete lets its threads go on, in this order: lanes that asked who is active (one warp), the
block's barrier, the grid's. If none is complete the threads are stuck, and the error says who waits
where.

Blocks run one after the other, except that blocks waiting for the whole grid stay alive.
Limit: warps run ahead in the order of their index only. A thread that spins without a barrier or
``nanosleep`` on what another thread has yet to write spins until the time limit of the launch.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from types import CodeType, FrameType
from typing import Any

import numpy as np
from greenlet import getcurrent, greenlet

from kernelbook.simt import limit, seam, stuck
from kernelbook.simt.errors import TimeLimitError
from kernelbook.simt.freeze import Frozen
from kernelbook.simt.registers import WARP_SIZE, blockIdx, now, outside, threadIdx

_SYNCTHREADS = ("syncthreads", 0)
_thread_of = operator.attrgetter("thread")

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
    shapes: dict[tuple[int, int], Any]


class Grid:
    """One launch: the function, its arguments and all blocks, run to the end by :meth:`run`."""

    def __init__(
        self,
        function: Callable[..., None],
        args: tuple[Any, ...],
        dims: tuple[tuple[int, int, int], tuple[int, int, int]],
        dynamic_bytes: int,
        kernel: KernelInfo,
    ) -> None:
        self.function = function
        self.args = args
        self.grid_dim, self.block_dim = dims
        self.dynamic_bytes = dynamic_bytes
        self.kernel = kernel
        self.constants: dict[tuple[int, int], Any] = {}
        self.hub: greenlet = getcurrent()
        self.idle = _pool.idle
        width, height, depth = self.block_dim
        self.coordinates: list[Coordinates] = [
            ((z * height + y) * width + x, x, y, z)
            for z in range(depth)
            for y in range(height)
            for x in range(width)
        ]

    def run(self, blocks: Iterator[tuple[int, int, int]]) -> None:
        """Run ``blocks``, one after the other; those that sync the grid wait for all the rest."""
        waiting: list[Block] = []
        total = 0
        try:
            for index in blocks:
                total += 1
                block = Block(self, index, total)
                if not block.run():
                    waiting.append(block)
                    stuck.require_resident(block, len(waiting))
            while waiting:
                if len(waiting) < total:
                    raise stuck.grid_error(waiting[0], total - len(waiting))
                for block in waiting:
                    block.release(block.at_grid_sync)
                waiting = [block for block in waiting if not block.run()]
        except BaseException as error:
            failed = now.block
            explained = self._explained(error)
            now.block, now.thread = None, -1
            if not isinstance(error, Exception) or isinstance(error, TimeLimitError):
                self.idle.clear()  # a signal may have struck a worker on its way there
            for block in {id(b): b for b in (*waiting, failed) if b is not None}.values():
                block.abandon()
            raise explained from explained.__cause__
        finally:
            now.block, now.thread = None, -1

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, KeyboardInterrupt):
            return limit.interrupted(error, now.block)
        return stuck.explain(error, self) if isinstance(error, Exception) else error

    @property
    def number_of_blocks(self) -> int:
        width, height, depth = self.grid_dim
        return width * height * depth

    def worker(self) -> greenlet:
        """A greenlet that will start threads of the current block when switched to."""
        if self.idle:
            worker = self.idle.pop()
            worker.parent = self.hub
            return worker
        return greenlet(_work, self.hub)


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
        "grid",
        "index",
        "left",
        "number",
        "ready",
        "shared",
        "shared_bytes",
        "size",
        "to_start",
        "warp_groups",
    )

    def __init__(self, grid: Grid, index: tuple[int, int, int], number: int) -> None:
        self.grid = grid
        self.index = index
        self.number = number  # counts the blocks of the launch from 1
        self.size = len(grid.coordinates)
        self.to_start = iter(grid.coordinates)
        self.all_started = False
        self.left = bytearray(self.size)  # 1 for each thread that has returned
        self.broken_warp = self.size // WARP_SIZE if self.size % WARP_SIZE else -1
        self.ready: deque[Waiter] = deque()
        self.at_barrier: list[Waiter] = []
        self.at_grid_sync: list[Waiter] = []
        self.asking_active: list[Waiter] = []
        self.warp_groups: dict[tuple[int, int], WarpGroup] = {}
        self.shared: dict[Any, Any] = {}
        self.shared_bytes = 0

    def run(self) -> bool:
        """Run until all threads have returned (True) or all wait for the grid (False)."""
        now.block = self
        blockIdx.x, blockIdx.y, blockIdx.z = self.index
        ready, grid = self.ready, self.grid
        while True:
            if ready:
                ready.popleft().greenlet.switch()
            elif not self.all_started:
                grid.worker().switch()
            elif 0 not in self.left:
                return True
            elif not self._resolve():
                return False

    def release(self, waiters: list[Waiter]) -> None:
        """Let ``waiters`` go on, in the order of their thread index; empties the list."""
        self.ready.extend(sorted(waiters, key=_thread_of))
        waiters.clear()

    def abandon(self) -> None:
        """Unwind the threads that still wait, so that the next launch starts clean."""
        groups = (group.lanes.values() for group in self.warp_groups.values())
        waiters = chain(self.ready, self.at_barrier, self.at_grid_sync, self.asking_active, *groups)
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

    def complete(self, key: tuple[int, int], group: WarpGroup, running: int = -1) -> None:
        """Give the lanes of a warp operation their results and let them go on before all others.

        running: the lane that calls this because it was the last to join; -1 for none.
        """
        del self.warp_groups[key]
        waiters = group.lanes.values()
        group.finish(group, 0 if len(waiters) == group.size else self.gone(key[0]))
        seam.report_barrier(group.kind, self.index, tuple(w.thread for w in waiters))
        others = reversed(waiters)
        if running >= 0:
            next(others)
        self.ready.extendleft(others)

    def _resolve(self) -> bool:
        """Complete what can be completed. False: every thread waits for the grid."""
        if self.asking_active:
            self._answer_active()
            return True
        if len(self.at_barrier) == self.size:
            stuck.require_one_site(self)
            kind = self.at_barrier[0].value[0]
            _BARRIERS[kind](self.at_barrier)
            if seam.listening():
                seam.report_barrier(kind, self.index, tuple(range(self.size)))
            self.release(self.at_barrier)
            return True
        if len(self.at_grid_sync) == self.size:
            return False
        raise stuck.block_error(self)

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
    waiter = Waiter(getcurrent(), now.thread, sys._getframe(1))
    if not block.all_started:  # another worker starts the next thread, then comes back
        block.ready.append(waiter)
        block.grid.worker().switch()
        now.thread, threadIdx.x, threadIdx.y, threadIdx.z = block.grid.coordinates[waiter.thread]
    elif block.ready:
        block.ready.append(waiter)
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
