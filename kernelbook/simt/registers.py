"""The special registers: what a running thread can ask about itself.

One thread runs at a time, so there is one set of them. The scheduler writes them whenever it lets
a thread go on; outside a kernel they are empty and say so when read.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kernelbook.simt.errors import KernelError

if TYPE_CHECKING:
    from kernelbook.simt.log import Log
    from kernelbook.simt.scheduler import Block

WARP_SIZE = 32


class Dim3:
    """A triple of integers ``x, y, z`` that exists only while a kernel runs."""

    __slots__ = ("name", "x", "y", "z")

    name: str
    x: int
    y: int
    z: int

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute in ("x", "y", "z"):
            raise outside(f"{self.name}.{attribute}")
        raise AttributeError(f"{self.name} has x, y and z, no {attribute!r}")

    def __iter__(self) -> Iterator[int]:
        return iter((self.x, self.y, self.z))

    def __repr__(self) -> str:
        return f"<{self.name}.{{x,y,z}}>"

    def set(self, x: int, y: int, z: int) -> None:
        self.x, self.y, self.z = x, y, z

    def clear(self) -> None:
        """Forget the values; reading them is an error until the next launch."""
        for axis in ("x", "y", "z"):
            with contextlib.suppress(AttributeError):
                object.__delattr__(self, axis)


class Now:
    """Which block and which of its threads (linear index) runs now; ``None``, -1 on the host.

    owner: the operating-system thread that runs the launch; all others are host code meanwhile.
    log: of the running launch; None when nothing is written down.
    """

    __slots__ = ("block", "log", "owner", "thread")

    def __init__(self) -> None:
        self.block: Block | None = None
        self.thread: int = -1
        self.log: Log | None = None
        self.owner: int = 0

    def in_kernel(self) -> bool:
        """Whether the caller is device code."""
        return self.block is not None and self.owner == threading.get_ident()


now = Now()
threadIdx = Dim3("threadIdx")
blockIdx = Dim3("blockIdx")
blockDim = Dim3("blockDim")
gridDim = Dim3("gridDim")


class LaneId:
    """``laneid`` imported by name: an integer that is looked up whenever it is used."""

    def __index__(self) -> int:
        return lane()

    __int__ = __index__

    def __repr__(self) -> str:
        return "<laneid>"

    def __hash__(self) -> int:
        return hash(lane())

    def __bool__(self) -> bool:
        return bool(lane())


def _forward(name: str) -> None:
    def method(self: LaneId, *others: Any) -> Any:
        return getattr(lane(), name)(*(int(o) if isinstance(o, LaneId) else o for o in others))

    setattr(LaneId, name, method)


for _name in ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift"):
    _forward(f"__{_name}__")
    _forward(f"__r{_name}__")
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "invert", "truediv", "rtruediv"):
    _forward(f"__{_name}__")


def lane() -> int:
    """The running thread's place in its warp, 0..31."""
    if now.block is None:
        raise outside("laneid")
    return now.thread & (WARP_SIZE - 1)


def grid(ndim: int) -> Any:
    """Absolute position of the thread in the grid: an int for ``ndim`` 1, else a tuple."""
    if ndim == 1:
        return blockIdx.x * blockDim.x + threadIdx.x
    x = blockIdx.x * blockDim.x + threadIdx.x
    y = blockIdx.y * blockDim.y + threadIdx.y
    if ndim == 2:
        return x, y
    if ndim == 3:
        return x, y, blockIdx.z * blockDim.z + threadIdx.z
    raise ValueError(f"cuda.grid takes 1, 2 or 3, got {ndim!r}")


def gridsize(ndim: int) -> Any:
    """Threads in the whole grid along 1, 2 or 3 axes: an int for ``ndim`` 1, else a tuple."""
    sizes = tuple(b * g for b, g in zip(blockDim, gridDim, strict=True))
    if ndim == 1:
        return sizes[0]
    if ndim in (2, 3):
        return sizes[:ndim]
    raise ValueError(f"cuda.gridsize takes 1, 2 or 3, got {ndim!r}")


def outside(name: str) -> KernelError:
    """The error for device-only names that host code uses."""
    return KernelError(
        f"cuda.{name} has a value only inside a running kernel. "
        "Call the kernel as kernel[grid, block](…), not the function itself."
    )
