"""The record of a launch: every access, fence and barrier, as columns.

A running launch writes into a :class:`~kernelbook.simt.log.Log`; afterwards :class:`Recording`
holds the same as NumPy columns. Verdicts, counters and pictures are all made from it, so that they
cannot disagree.

Addresses are virtual: each allocation (an argument, one block's shared array, one thread's local
array) has a range of its own, 256-byte aligned, with a gap behind it. Views share their
allocation's range. Rows are in the order of execution, and an entry of ``syncs`` lies between the
rows before and from its position: together they are one possible history of the launch.

Limit: a log keeps the first ``MOST_ROWS`` rows; ``truncated`` says whether there were more.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kernelbook.simt.errors import Where

Triple = tuple[int, int, int]
ALIGNMENT = 256  # of an allocation's address, in bytes, as cudaMalloc aligns at least
MOST_ROWS = 4_000_000


class Kind(IntEnum):
    """What a row is. LINE rows are there only when lines were asked for."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2
    FENCE = 3  # threadfence, threadfence_system: orders for the whole device
    FENCE_BLOCK = 4  # threadfence_block: orders for the block only
    LINE = 5  # the thread begins to execute a source line


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the source at which something happens. ``text``: the stripped source line.

    offset: of the bytecode instruction, which tells two accesses on one line apart.
    result_used: False where an atomic's result is thrown away.
    """

    kind: Kind
    function: str
    file: str
    line: int
    text: str
    offset: int
    result_used: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Memory that was allocated in one piece. Compare by identity.

    space: "global", "shared", "local" or "const". address: virtual, of the first byte. block,
    thread: the owner's numbers for shared and local memory, else -1. written: one boolean a byte,
    True where it was initialised before the launch; None when all of it was.
    """

    name: str
    space: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    address: int
    nbytes: int
    strides: tuple[int, ...]
    block: int = -1
    thread: int = -1
    written: NDArray[np.bool_] | None = None

    def index_of(self, offset: int) -> tuple[int, ...]:
        """The index of the element that holds byte ``offset``; by strides, so C or F order."""
        order = sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]))
        index = [0] * len(self.shape)
        for axis in order:
            stride = abs(self.strides[axis])
            if stride and self.shape[axis] > 1:
                index[axis], offset = divmod(offset, stride)
        return tuple(index)


@dataclass(frozen=True, slots=True, eq=False)
class Sync:
    """Threads have met. Rows before ``position`` are on the one side, rows from it on the other.

    kind: "syncthreads" (also its count, and, or forms), "syncwarp", "grid", or the name of a
    shuffle or vote, which meet without ordering memory. block: number; -1 for "grid". threads:
    linear indices in the block of those that met, in a barrier of the block all that have not left
    the kernel (also for a grid sync: () then means all). mask: of a warp operation, else 0.
    """

    position: int
    kind: str
    block: int
    threads: tuple[int, ...]
    mask: int = 0


@dataclass(frozen=True, eq=False)
class Recording:
    """One launch, whole or up to its failure. Columns have one entry a row.

    thread: number in the grid: block number × threads a block + linear index in the block, where
    a block's number is x + y·width + z·width·height. address: virtual, of the first byte;
    width: bytes touched; allocation: index into ``allocations``; these three are 0, 0, -1 for
    fences and lines.
    """

    kernel: str
    grid: Triple
    block: Triple
    ndims: tuple[int, int]
    sites: tuple[Site, ...]
    allocations: tuple[Allocation, ...]
    site: NDArray[np.int32]
    kind: NDArray[np.uint8]
    thread: NDArray[np.int32]
    address: NDArray[np.int64]
    width: NDArray[np.uint8]
    allocation: NDArray[np.int32]
    syncs: tuple[Sync, ...]
    schedule: int
    finished: bool
    truncated: bool

    def __len__(self) -> int:
        return len(self.site)

    @property
    def threads_per_block(self) -> int:
        x, y, z = self.block
        return x * y * z

    def block_index(self, number: int) -> Triple:
        """(x, y, z) of the block with that number."""
        width, height, _ = self.grid
        return number % width, number // width % height, number // (width * height)

    def thread_index(self, linear: int) -> Triple:
        """(x, y, z) of the thread with that linear index in its block."""
        width, height, _ = self.block
        return linear % width, linear // width % height, linear // (width * height)

    def where(self, row: int) -> Where:
        """Kernel, block, thread and source line of a row."""
        from kernelbook.simt.errors import Where, dims_text

        number, linear = divmod(int(self.thread[row]), self.threads_per_block)
        site = self.sites[self.site[row]]
        return Where(
            kernel=self.kernel,
            block=dims_text(self.block_index(number), self.grid, self.ndims[0]),
            thread=dims_text(self.thread_index(linear), self.block, self.ndims[1]),
            line=site.line,
            text=site.text,
            via="" if site.function == self.kernel else f"in {site.function}, line {site.line}",
        )

    def element(self, row: int) -> str:
        """The element that a row touches, such as ``tile[3, 0]``."""
        array = self.allocations[self.allocation[row]]
        index = array.index_of(int(self.address[row]) - array.address)
        return f"{array.name}[{', '.join(map(str, index))}]"
