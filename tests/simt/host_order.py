"""Host code in many orders: what a GPU gives it, and so what the simulator must say of it.

Each case returns the value that its host code reads; ``right`` is what it hopes for. Where a GPU
gives another, the simulator reports a HostOrderError. Record what the GPU gives:

    PYTHONPATH=$PWD python3 tests/simt/host_order.py tests/simt/host-order-h200.json

A kernel that sleeps for a fifth of a second makes "not waited for" mean "not there yet".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numba import cuda

BEFORE, AFTER, OVERWRITTEN = 1.0, 2.0, 5.0
SLEEPS = 400  # of half a millisecond
SIZE = 64


@cuda.jit
def slow(x, sleeps):
    for _ in range(sleeps):
        cuda.nanosleep(500_000)
    i = cuda.grid(1)
    x[i] = 2


@cuda.jit
def quick(x, out):
    i = cuda.grid(1)
    out[i] = x[i]


def _memory(make: Callable[..., Any]) -> Any:
    x = make(SIZE, np.float32)
    x[:] = BEFORE
    return x


def _on_device() -> Any:
    return cuda.to_device(_memory(np.empty))


class Cases:
    """Host code, one case a method. ``sleeps``: how long the kernel takes."""

    def __init__(self, sleeps: int) -> None:
        self.sleeps = sleeps

    def start(self, x: Any, stream: Any = 0) -> None:
        """Launch the slow kernel, which sets ``x`` to AFTER."""
        slow[1, SIZE, stream](x, self.sleeps)

    def mapped_at_once(self) -> Any:
        x = _memory(cuda.mapped_array)
        self.start(x)
        return x[0]

    def mapped_after_synchronize(self) -> Any:
        x = _memory(cuda.mapped_array)
        self.start(x)
        cuda.synchronize()
        return x[0]

    def mapped_after_its_stream(self) -> Any:
        x, stream = _memory(cuda.mapped_array), cuda.stream()
        self.start(x, stream)
        stream.synchronize()
        return x[0]

    def mapped_after_another_stream(self) -> Any:
        x, stream = _memory(cuda.mapped_array), cuda.stream()
        self.start(x, stream)
        cuda.stream().synchronize()
        return x[0]

    def mapped_after_the_default_stream(self) -> Any:
        x, stream = _memory(cuda.mapped_array), cuda.stream()
        self.start(x, stream)
        cuda.default_stream().synchronize()
        return x[0]

    def mapped_after_a_default_copy(self) -> Any:
        x, stream, other = _memory(cuda.mapped_array), cuda.stream(), _on_device()
        self.start(x, stream)
        other.copy_to_host()
        return x[0]

    def mapped_after_a_plain_launch(self) -> Any:
        x, stream, other = _memory(cuda.mapped_array), cuda.stream(), _memory(np.empty)
        self.start(x, stream)
        quick[1, SIZE](other, other)
        return x[0]

    def mapped_after_a_launch_on_device_arrays(self) -> Any:
        x, other = _memory(cuda.mapped_array), _on_device()
        self.start(x)
        quick[1, SIZE](other, other)
        return x[0]

    def mapped_after_an_event(self) -> Any:
        x, stream, event = _memory(cuda.mapped_array), cuda.stream(), cuda.event()
        self.start(x, stream)
        event.record(stream)
        event.synchronize()
        return x[0]

    def mapped_after_an_early_event(self) -> Any:
        x, stream, event = _memory(cuda.mapped_array), cuda.stream(), cuda.event()
        event.record(stream)
        self.start(x, stream)
        event.synchronize()
        return x[0]

    def mapped_after_a_pageable_copy_on_its_stream(self) -> Any:
        x, stream, other = _memory(cuda.mapped_array), cuda.stream(), _on_device()
        self.start(x, stream)
        other.copy_to_host(stream=stream)
        return x[0]

    def pinned_copy_on_a_stream(self) -> Any:
        x, stream, out = _on_device(), cuda.stream(), _memory(cuda.pinned_array)
        self.start(x, stream)
        x.copy_to_host(out, stream=stream)
        return out[0]

    def pinned_copy_on_a_stream_waited_for(self) -> Any:
        x, stream, out = _on_device(), cuda.stream(), _memory(cuda.pinned_array)
        self.start(x, stream)
        x.copy_to_host(out, stream=stream)
        stream.synchronize()
        return out[0]

    def pinned_copy_without_a_stream(self) -> Any:
        x, out = _on_device(), _memory(cuda.pinned_array)
        self.start(x)
        x.copy_to_host(out)
        return out[0]

    def pageable_copy_on_a_stream(self) -> Any:
        x, stream = _on_device(), cuda.stream()
        self.start(x, stream)
        return x.copy_to_host(stream=stream)[0]

    def pageable_copy_on_the_streams_own_array(self) -> Any:
        stream = cuda.stream()
        x = cuda.to_device(_memory(np.empty), stream=stream)
        self.start(x, stream)
        return x.copy_to_host()[0]

    def pinned_copy_of_an_array_made_with_a_stream(self) -> Any:
        stream, out = cuda.stream(), _memory(cuda.pinned_array)
        x = cuda.to_device(_memory(np.empty), stream=stream)
        self.start(x, stream)
        x.copy_to_host(out)
        return out[0]

    def pinned_argument_on_a_stream(self) -> Any:
        x, stream = _memory(cuda.pinned_array), cuda.stream()
        self.start(x, stream)
        return x[0]

    def pageable_argument_on_a_stream(self) -> Any:
        x, stream = _memory(np.empty), cuda.stream()
        self.start(x, stream)
        return x[0]

    def argument_without_a_stream(self) -> Any:
        x = _memory(np.empty)
        self.start(x)
        return x[0]

    def pinned_source_overwritten(self) -> Any:
        source, stream, busy = _memory(cuda.pinned_array), cuda.stream(), _on_device()
        x = cuda.device_array(SIZE, np.float32)
        source[:] = AFTER
        self.start(busy, stream)
        x.copy_to_device(source, stream=stream)
        source[:] = OVERWRITTEN
        stream.synchronize()
        return x.copy_to_host()[0]

    def pageable_source_overwritten(self) -> Any:
        source, stream, busy = _memory(np.empty), cuda.stream(), _on_device()
        x = cuda.device_array(SIZE, np.float32)
        source[:] = AFTER
        self.start(busy, stream)
        x.copy_to_device(source, stream=stream)
        source[:] = OVERWRITTEN
        stream.synchronize()
        return x.copy_to_host()[0]

    def two_streams_side_by_side(self) -> Any:
        x, out, a, b = _on_device(), _on_device(), cuda.stream(), cuda.stream()
        self.start(x, a)
        quick[1, SIZE, b](x, out)
        cuda.synchronize()
        return out.copy_to_host()[0]

    def two_streams_with_an_event(self) -> Any:
        x, out, a, b = _on_device(), _on_device(), cuda.stream(), cuda.stream()
        event = cuda.event()
        self.start(x, a)
        event.record(a)
        event.wait(b)
        quick[1, SIZE, b](x, out)
        return out.copy_to_host()[0]

    def two_streams_with_the_default_stream_between(self) -> Any:
        x, out, a, b = _on_device(), _on_device(), cuda.stream(), cuda.stream()
        other = _on_device()
        self.start(x, a)
        quick[1, SIZE](other, other)
        quick[1, SIZE, b](x, out)
        return out.copy_to_host()[0]

    def stream_then_the_default_stream(self) -> Any:
        x, out, a = _on_device(), _on_device(), cuda.stream()
        self.start(x, a)
        quick[1, SIZE](x, out)
        return out.copy_to_host()[0]

    def copy_to_host_on_another_stream(self) -> Any:
        x, a, b = _on_device(), cuda.stream(), cuda.stream()
        self.start(x, a)
        value = x.copy_to_host(stream=b)[0]
        cuda.synchronize()
        return value


NAMES = [name for name in vars(Cases) if not name.startswith("_") and name != "start"]


def main(path: str) -> None:
    """Run every case, after one run that compiles, and write which gave the right value."""
    import numba_cuda

    values, refused = {}, {}
    for name in NAMES:
        try:
            getattr(Cases(0), name)()
            cuda.synchronize()
            values[name] = float(getattr(Cases(SLEEPS), name)())
        except RuntimeError as error:  # numba-cuda does not take such a call at all
            refused[name] = f"{type(error).__name__}: {error}"
        cuda.synchronize()
    record = {
        "gpu": cuda.get_current_device().name,
        "numba_cuda": numba_cuda.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python3 tests/simt/host_order.py",
        "right": {name: value == AFTER for name, value in values.items()},
        "values": values,
        "refused": refused,
    }
    Path(path).write_text(json.dumps(record, indent=1) + "\n")
    for name, value in values.items():
        print(f"{value:4} {name}")
    for name, reason in refused.items():
        print(f"refused: {name}: {reason}")


if __name__ == "__main__":
    main(sys.argv[1])
