"""Streams and events. Every call ends before it returns, so values follow the order of the calls.

A GPU need not keep to that order: :mod:`kernelbook.simt.ordering` knows what it must keep to, and
reports host code and launches that rely on more.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelbook.simt import ordering
from kernelbook.simt.clocks import LEGACY, Clock
from kernelbook.simt.errors import SimulatorWarning

_numbers = itertools.count(LEGACY + 1)


class Stream:
    """A queue of work. Numba's streams are blocking ones: the default stream waits for them.

    handle: what Numba shows, 0 for the default stream. number: the order keeps its clock by it.
    """

    def __init__(self, number: int, handle: int = 0) -> None:
        self.number = number
        self.handle = handle or number

    def synchronize(self) -> None:
        """Let the host wait for all work of the stream."""
        ordering.synchronize_stream(self)

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Synchronize at the end of the ``with`` block."""
        yield self
        self.synchronize()

    def add_callback(self, callback: Callable[[Any, int, Any], None], arg: Any = None) -> None:
        """Call ``callback(stream, 0, arg)``: all earlier work is done."""
        ordering.synchronize_stream(self)
        callback(self, 0, arg)

    def __int__(self) -> int:
        return self.handle

    def __repr__(self) -> str:
        return f"<simulated CUDA stream {self.handle}>"


class Event:
    """A mark in a stream. It carries no time: see :meth:`elapsed_time`."""

    def __init__(self, timing: bool = True) -> None:
        self.timing = timing
        self._clock: Clock = {}  # of the latest record; before one nothing waits

    def record(self, stream: Any = 0) -> None:
        """Stand for the work that was given to ``stream`` before this call."""
        self._clock = ordering.record(stream)

    def synchronize(self) -> None:
        """Let the host wait for the work before the event."""
        ordering.event_waited(self._clock)

    def wait(self, stream: Any = 0) -> None:
        """Let later work of ``stream`` wait for the work before the event."""
        ordering.stream_waits(stream, self._clock)

    def query(self) -> bool:
        """Always True: the work before the event is done, and the host has learnt so."""
        ordering.event_waited(self._clock)
        return True

    def elapsed_time(self, event: Event) -> float:
        """NaN, with a warning: a simulator's clock says nothing about a GPU's."""
        warnings.warn(
            "the simulator can't tell GPU time: elapsed_time is nan",
            SimulatorWarning,
            stacklevel=2,
        )
        return float("nan")


def stream() -> Stream:
    """A new stream."""
    return Stream(next(_numbers))


def default_stream() -> Stream:
    """The legacy default stream, which Numba uses where no stream is named."""
    return Stream(LEGACY)


def per_thread_default_stream() -> Stream:
    """The default stream of the host thread: a blocking stream as :func:`stream` makes them."""
    return _PER_THREAD


def external_stream(ptr: int) -> Stream:
    """A stream that another library made. The same pointer gives the same stream."""
    if ptr not in _external:
        _external[ptr] = Stream(next(_numbers), ptr)
    return _external[ptr]


def event(timing: bool = True) -> Event:
    """An event."""
    return Event(timing)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """NaN with a warning, as :meth:`Event.elapsed_time`."""
    return evtstart.elapsed_time(evtend)


_PER_THREAD = Stream(next(_numbers))
_external: dict[int, Stream] = {}
