"""Runs a launch for its recording: what every picture and profile begins with.

The natural order of threads is used, so that the same kernel gives the same picture. Beside a GPU
the kernel runs in the simulator all the same, on copies of what lies in the GPU's memory.
Limit: the launch is real, so results come back into host arrays as ever.
"""

from __future__ import annotations

from typing import Any

from kernelbook.errors import SimulatorError
from kernelbook.simt import seam
from kernelbook.simt.host import DeviceNDArray
from kernelbook.simt.launch import Configured, simulated
from kernelbook.simt.record import Recording


def run(
    launch: Any, args: tuple[Any, ...], *, lines: bool = False
) -> tuple[Recording, SimulatorError | None]:
    """The recording of ``launch(*args)``, and the error it ended with, if it did.

    launch: ``kernel[grid, block]``. lines: record the source lines executed as well. Raises the
    error when there was no launch at all, as when grid or arguments don't fit.
    """
    configured, args = prepared(launch, args)
    failure: SimulatorError | None = None
    with seam.schedule(0), seam.observe(lines=lines) as trace:
        try:
            configured(*args)
        except SimulatorError as error:
            failure = error
    try:
        return trace.recording, failure
    except LookupError:
        if failure is not None:
            raise failure from None
        raise


def prepared(launch: Any, args: tuple[Any, ...]) -> tuple[Configured, tuple[Any, ...]]:
    """The launch in the simulator, and arguments that it takes."""
    return simulated(launch), tuple(_on_host(value) for value in args)


def _on_host(value: Any) -> Any:
    """A copy of an array of a real GPU: numba-cuda's, CuPy's; anything else as it is."""
    if isinstance(value, DeviceNDArray) or not hasattr(value, "__cuda_array_interface__"):
        return value
    copy = getattr(value, "copy_to_host", None) or getattr(value, "get", None)
    return value if copy is None else copy()
