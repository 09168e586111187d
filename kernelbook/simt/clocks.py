"""What is ordered before what, among streams, events and the host, by vector clocks.

A clock says of each stream how many of its pieces of work are known to be done. Streams do their
work in order. The legacy default stream, number 0, which Numba uses where no stream is named, waits
for all streams and makes all later work wait for it: the streams that ``cuda.stream()`` makes are
blocking ones (numba-cuda 0.30.4, ``Context.create_stream``, flag CU_STREAM_DEFAULT).
Source: CUDA driver API, "Stream synchronization behavior" and "API synchronization behavior".
Limit: the host is one thread of control; streams of other libraries are not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

LEGACY = 0
Clock = dict[int, int]


@dataclass(frozen=True, slots=True)
class Mark:
    """A piece of work: the ``number``-th of its stream. before: the clock of all it waits for."""

    stream: int
    number: int
    before: Clock

    def follows(self, other: Mark) -> bool:
        """Whether ``other`` is done when this work begins."""
        return self.before.get(other.stream, 0) >= other.number


class Clocks:
    """The clocks of the host and of all streams."""

    def __init__(self) -> None:
        self._host: Clock = {}
        self._streams: dict[int, Clock] = {}
        self._counts: dict[int, int] = {}

    def submit(self, stream: int) -> Mark:
        """New work at the end of ``stream``."""
        before = self.record(stream)
        number = self._counts[stream] = self._counts.get(stream, 0) + 1
        self._streams[stream] = {**before, stream: number}
        return Mark(stream, number, before)

    def record(self, stream: int) -> Clock:
        """The clock of an event at the end of ``stream``: all that later work there waits for."""
        clock: Clock = {}
        _join(clock, self._host)
        _join(clock, self._streams.get(stream, {}))
        _join(clock, self._streams.get(LEGACY, {}))
        if stream == LEGACY:
            for other in self._streams.values():
                _join(clock, other)
        return clock

    def wait(self, stream: int, clock: Clock) -> None:
        """Later work of ``stream`` waits for an event."""
        _join(self._streams.setdefault(stream, {}), clock)

    def host_waits(self, clock: Clock) -> None:
        """The host has waited for an event, or for the end of a stream as ``record`` gives it."""
        _join(self._host, clock)

    def host_waits_for_all(self) -> None:
        """The host has waited for the device."""
        self._host = dict(self._counts)
        self._streams.clear()  # whatever is submitted now waits for what the host has seen

    def host_follows(self, mark: Mark) -> bool:
        """Whether the host knows that the work is done."""
        return self._host.get(mark.stream, 0) >= mark.number


def _join(clock: Clock, other: Clock) -> None:
    for stream, number in other.items():
        if clock.get(stream, 0) < number:
            clock[stream] = number
