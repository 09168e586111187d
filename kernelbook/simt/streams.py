"""Streams and events. Every call ends before it returns, so their order is that of the calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelbook.simt.errors import SimulatorWarning


class Stream:
    """A queue of work that is always empty: each call ends before it returns."""

    handle = 0

    def synchronize(self) -> None:
        """Nothing is outstanding."""

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Synchronize at the end of the ``with`` block."""
        yield self

    def add_callback(self, callback: Callable[[Any, int, Any], None], arg: Any = None) -> None:
        """Call ``callback(stream, 0, arg)``: all earlier work is done."""
        callback(self, 0, arg)

    def __int__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<simulated CUDA stream>"


class Event:
    """A mark in a stream. It carries no time: see :meth:`elapsed_time`."""

    def __init__(self, timing: bool = True) -> None:
        self.timing = timing

    def record(self, stream: Any = 0) -> None:
        """Nothing to wait for."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = 0) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        """Always True: the work before the event is done."""
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
    """A stream."""
    return Stream()


def external_stream(ptr: int) -> Stream:
    """A stream; the pointer is ignored."""
    return Stream()


def event(timing: bool = True) -> Event:
    """An event."""
    return Event(timing)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """NaN with a warning, as :meth:`Event.elapsed_time`."""
    return evtstart.elapsed_time(evtend)
