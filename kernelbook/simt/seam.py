"""The seam: whether launches are written down, and what is done with the recording.

``diagnosis()`` judges every launch and raises what it finds; ``observe()`` keeps the recording of
the last launch for a picture, a profile or a test; ``schedule()`` chooses the order in which
blocks, warps and lanes run. All three are for the launches inside their ``with`` block, made by
the operating-system thread that entered it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kernelbook.simt.record import Recording


class Trace:
    """Keeps the recording of the last launch that it observed, also of one that failed."""

    def __init__(self, lines: bool) -> None:
        self.lines = lines
        self._recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        """The last launch. Raises LookupError when there was none."""
        if self._recording is None:
            raise LookupError("no kernel was launched inside observe()")
        return self._recording

    def keep(self, recording: Recording) -> None:
        """Take the recording of a launch that has ended."""
        self._recording = recording


class _Settings(threading.local):
    """What the next launch of this operating-system thread does.

    always: whether launches are judged where :func:`diagnosis` says nothing (``chosen`` is None),
    in all threads. launches: counts those that took a schedule by turn.
    """

    always = False

    def __init__(self) -> None:
        self.chosen: bool | None = None
        self.schedule: int | None = None
        self.launches = 0
        self.traces: list[Trace] = []

    @property
    def diagnosing(self) -> bool:
        """Whether launches are judged."""
        return self.always if self.chosen is None else self.chosen


settings = _Settings()


@contextmanager
def observe(lines: bool = False) -> Iterator[Trace]:
    """Keep the recording of the launches inside; ``lines``: with the source lines executed."""
    trace = Trace(lines)
    settings.traces.append(trace)
    try:
        yield trace
    finally:
        settings.traces.remove(trace)


@contextmanager
def diagnosis(on: bool = True) -> Iterator[None]:
    """Judge the launches inside, or don't: races, reads of memory that nobody wrote."""
    before, settings.chosen = settings.chosen, on
    try:
        yield
    finally:
        settings.chosen = before


def diagnose_always(on: bool = True) -> None:
    """Switch diagnosis for all launches that follow, in every thread."""
    _Settings.always = on
    settings.chosen = None


@contextmanager
def schedule(seed: int) -> Iterator[None]:
    """Run the launches inside under one schedule; 0 is the natural order.

    Elsewhere a diagnosed launch takes the next schedule, beginning with 0, and one that is not
    diagnosed takes the natural order.
    """
    before, settings.schedule = settings.schedule, seed
    try:
        yield
    finally:
        settings.schedule = before


def restart_schedules() -> None:
    """Forget which schedule is in force: the next launch takes the first."""
    settings.schedule = None
    settings.launches = 0


def next_schedule() -> int:
    """The schedule of the launch that begins now."""
    if settings.schedule is not None:
        return settings.schedule
    if not settings.diagnosing:
        return 0
    settings.launches += 1
    return settings.launches - 1
