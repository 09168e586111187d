"""The seam: one listener hears every memory access and barrier of the launches it surrounds.

Kinds of access: "load", "store", "atomic". An access names its allocation (the whole array that
was passed or allocated, also when the kernel reads through a view), the index as written, and the
byte offset from the start of the allocation, which is what caches, banks and races are about.

Limit: a launch looks for an observer once, at its start.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelbook.simt.errors import user_frame
from kernelbook.simt.registers import now

Triple = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Allocation:
    """Memory that was allocated in one piece. Compare by identity.

    space: "global", "shared", "local" or "const". address: of the first byte, in this process.
    """

    name: str
    space: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    nbytes: int

    @classmethod
    def of(cls, data: np.ndarray[Any, Any], name: str, space: str) -> Allocation:
        address = data.__array_interface__["data"][0]
        return cls(name, space, data.shape, data.dtype, address, data.nbytes)


@dataclass(slots=True)
class Access:
    """One thread touches one element. ``offset`` and ``nbytes`` in bytes, ``thread`` linear."""

    kind: str
    array: Allocation
    index: tuple[int, ...]
    offset: int
    nbytes: int
    block: Triple
    thread: int
    line: int


class Observer(Protocol):
    """Who listens to launches. Calls come in the order in which the simulator runs things."""

    def launch(self, kernel: str, grid: Triple, block: Triple) -> None:
        """A launch begins."""

    def access(self, access: Access) -> None:
        """A thread is about to touch an element (the index has been checked)."""

    def barrier(self, kind: str, block: Triple, threads: tuple[int, ...]) -> None:
        """``threads`` (linear) of ``block`` have all arrived at a barrier or warp operation."""

    def done(self) -> None:
        """The launch has ended; not called when it failed."""


_observers: list[Observer] = []
_current: list[Observer] = []  # that of the running launch: at most one


@contextmanager
def observe(observer: Observer) -> Iterator[Observer]:
    """Let ``observer`` hear every kernel launched within the ``with`` block (innermost wins)."""
    _observers.append(observer)
    try:
        yield observer
    finally:
        _observers.remove(observer)


def listening() -> bool:
    """Whether the running launch has an observer."""
    return bool(_current)


@contextmanager
def attend(kernel: str, grid: Triple, block: Triple) -> Iterator[None]:
    """Attach the innermost observer, if any, to the launch that runs inside."""
    if not _observers:
        yield
        return
    _current.append(_observers[-1])
    try:
        _current[0].launch(kernel, grid, block)
        yield
        _current[0].done()
    finally:
        _current.clear()


def report(kind: str, array: Allocation, index: tuple[int, ...], offset: int, nbytes: int) -> None:
    """Tell the observer of one access of the running thread."""
    frame = user_frame(sys._getframe(1))
    line = (frame.f_lineno or 0) if frame else 0
    block = now.block
    assert block is not None
    access = Access(kind, array, index, offset, nbytes, block.index, now.thread, line)
    _current[0].access(access)


def report_barrier(kind: str, block: Triple, threads: tuple[int, ...]) -> None:
    """Tell the observer, if there is one, that ``threads`` of ``block`` have met."""
    if _current:
        _current[0].barrier(kind, block, threads)
