"""Time on a GPU: many calls replayed as one CUDA graph between two events.

A graph takes Python and the driver out of the picture, so that a kernel of 30 µs can be timed from
a language whose launch takes 50. Several launchers are sampled in turn, in a new order each round:
a clock that drifts, or a neighbour, then touches all of them.

Limit: a graph shows what the GPU needs. What a caller pays for a single launch is another question.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Launch = Callable[[], object]
Clock = Callable[[Launch], float]  # runs a launch, returns µs

# The host enqueues events and graph while this runs, so that no launch latency is measured:
# about 150 µs at 2 GHz.
SPIN_CYCLES = 300_000
SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


@dataclass(frozen=True)
class Percentiles:
    """Of the time of one call, in µs."""

    p20_us: float
    p50_us: float
    p80_us: float


def percentiles(samples_us: Sequence[float]) -> Percentiles:
    """p20, p50 and p80 of ``samples_us``, interpolated. Raises ValueError when there are none."""
    if not len(samples_us):
        raise ValueError("no samples: percentiles of nothing do not exist")
    return Percentiles(*(float(p) for p in np.percentile(samples_us, (20, 50, 80))))


def interleaved(
    launches: Mapping[str, Launch], clock: Clock, samples: int, repeats: int
) -> dict[str, list[float]]:
    """µs of one call for each launch, ``samples`` times, in a new order each round.

    repeats: how many calls one launch makes; its time is divided by it.
    """
    order = list(launches)
    times: dict[str, list[float]] = {name: [] for name in order}
    shuffle = random.Random(0).shuffle
    for _ in range(samples):
        shuffle(order)
        for name in order:
            times[name].append(clock(launches[name]) / repeats)
    return times


def captured(call: Callable[[int], object], inputs: int, repeats: int, stream: Any) -> Launch:
    """``call(0)``, ``call(1)``, … over ``inputs`` inputs in turn, ``repeats`` in all, as one graph.

    call: enqueues one run on ``stream``, a non-blocking ``cupy.cuda.Stream``, and may neither wait
    nor copy to the host. Raises whatever the driver raises when the call cannot be captured.
    """
    with stream:
        call(0)  # compile, load and allocate before the capture
        stream.synchronize()
        stream.begin_capture()
        try:
            for k in range(repeats):
                call(k % inputs)
        finally:
            graph = stream.end_capture()
    return lambda: graph.launch(stream)


def looped(call: Callable[[int], object], inputs: int, repeats: int, stream: Any) -> Launch:
    """The same calls launched one by one: for what cannot be captured."""

    def launch() -> None:
        with stream:
            for k in range(repeats):
                call(k % inputs)

    return launch


def event_clock(stream: Any) -> Clock:
    """A clock that brackets a launch on ``stream`` (CuPy) by two CUDA events."""
    import cupy

    spin = cupy.RawKernel(SPIN, "spin")
    start, end = cupy.cuda.Event(), cupy.cuda.Event()

    def clock(launch: Launch) -> float:
        with stream:
            spin((1,), (1,), (np.int64(SPIN_CYCLES),))
            start.record(stream)
            launch()
            end.record(stream)
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) * 1e3

    return clock
