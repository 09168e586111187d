"""What a kernel is launched with, and what must come of it.

The output is always the last argument. ``right`` gives its value, computed with NumPy from copies
of the arguments as they were before the launch. A defective kernel marks the lines that a report
must name by the comments ``first`` and ``second``; where several lines are equally true they carry
the same mark, and ``both`` marks a line that meets itself in another thread.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

FULL = 0xFFFFFFFF
RACE, UNWRITTEN, BOUNDS = "RaceError", "UninitialisedError", "BoundsError"
BARRIER, DEADLOCK, WARP = "BarrierError", "DeadlockError", "WarpError"
LAUNCH, KERNEL, TIME_LIMIT = "LaunchError", "KernelError", "TimeLimitError"
_MARK = re.compile(r"#.*\b(first|second|both)\b")


@dataclass(frozen=True)
class Case:
    """One launch. ``args``: makes fresh arguments. ``run``: replaces the one plain launch.

    error: name of the class that is raised, or alternatives joined by "|"; "" for a correct kernel.
    array: the name that the report gives, a regular expression. functions: device functions that
    carry marks too. rtol: relative tolerance of the output.
    """

    kernel: Any
    grid: Any
    block: Any
    args: Callable[[], tuple[Any, ...]]
    right: Callable[..., Any] | None = None
    error: str = ""
    array: str = ""
    dynamic_bytes: int = 0
    run: Callable[[Any, tuple[Any, ...]], None] | None = None
    functions: tuple[Any, ...] = ()
    rtol: float = 1e-4

    @property
    def name(self) -> str:
        return self.kernel.__name__

    @property
    def can_run_on_a_gpu(self) -> bool:
        """Whether it neither faults nor hangs there."""
        return self.error in ("", RACE, UNWRITTEN)

    def launch(self, args: tuple[Any, ...]) -> None:
        if self.run is not None:
            self.run(self.kernel, args)
        else:
            self.kernel[self.grid, self.block, 0, self.dynamic_bytes](*args)

    def output_is_right(self) -> bool:
        """Launch once and compare the output with what NumPy says."""
        args = self.args()
        wanted = self.right(*(host_copy(arg) for arg in args))
        self.launch(args)
        found = host_copy(args[-1])
        wanted = np.broadcast_to(np.asarray(wanted), found.shape)
        if found.dtype.kind in "fc":
            return bool(np.allclose(found, wanted, rtol=self.rtol, atol=self.rtol))
        return bool((found == wanted).all())

    def lines(self) -> tuple[set[int], set[int]]:
        """The line numbers marked ``first`` and those marked ``second``."""
        marked: dict[str, set[int]] = {"first": set(), "second": set(), "both": set()}
        for function in (self.kernel, *self.functions):
            text, start = inspect.getsourcelines(function.py_func)
            for number, line in enumerate(text, start):
                for mark in _MARK.findall(line):
                    marked[mark].add(number)
        return marked["first"] | marked["both"], marked["second"] | marked["both"]


def case(registry: list[Case], error: str = "") -> Callable[..., Callable[[Any], Any]]:
    """A decorator that registers a kernel: ``@defect(grid, block, args, right, array=…)``."""

    def configure(grid: Any, block: Any, args: Any, right: Any = None, **more: Any) -> Any:
        def register(kernel: Any) -> Any:
            more.setdefault("error", error)
            registry.append(Case(kernel, grid, block, args, right, **more))
            return kernel

        return register

    return configure


def host_copy(value: Any) -> Any:
    """The value on the host, apart from what a launch may change."""
    if isinstance(value, tuple):
        return tuple(host_copy(part) for part in value)
    if hasattr(value, "copy_to_host"):
        return value.copy_to_host()
    return value.copy() if isinstance(value, np.ndarray) else value


def floats(*shape: int) -> np.ndarray[Any, Any]:
    """Normal float32 numbers, the same ones for the same shape."""
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def ints(n: int, below: int = 100) -> np.ndarray[Any, Any]:
    """int32 numbers from 0 to below - 1."""
    return np.random.default_rng(n).integers(0, below, n).astype(np.int32)


def zeros(shape: Any, dtype: Any = np.float32) -> Any:
    """Device memory full of zeros."""
    return cuda.to_device(np.zeros(shape, dtype))


def unwritten(shape: Any, dtype: Any = np.float32) -> Any:
    """Device memory that nobody has written."""
    return cuda.device_array(shape, dtype)
