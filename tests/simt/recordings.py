"""Recordings made by hand, row by row: what a launch would have left, without the launch."""

from __future__ import annotations

import linecache
import math

import numpy as np

from kernelbook.simt.record import Allocation, Kind, Recording, Site, Sync

GAP = 4096


class Builder:
    """Rows of a launch of ``source``, whose first line that starts with ``def`` is the kernel."""

    def __init__(self, source: str, grid: int | tuple = 1, block: int | tuple = 1) -> None:
        self.lines = source.strip("\n").split("\n")
        self.kernel = next(s for s in self.lines if s.startswith("def "))[4:].split("(")[0]
        self.file = f"<by-hand-{abs(hash(source))}>"
        text = "\n".join(self.lines) + "\n"
        linecache.cache[self.file] = (len(text), None, text.splitlines(True), self.file)
        self.grid, self.block = _triple(grid), _triple(block)
        self.allocations: list[Allocation] = []
        self.sites: dict[tuple, int] = {}
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.syncs: list[Sync] = []

    def array(self, name, shape, dtype=np.float32, space="global", block=-1) -> int:
        shape = shape if isinstance(shape, tuple) else (shape,)
        kind = np.dtype(dtype)
        like = np.empty(shape, kind)
        address = 256 + GAP * len(self.allocations)
        self.allocations.append(
            Allocation(name, space, shape, kind, address, like.nbytes, like.strides, block=block)
        )
        return len(self.allocations) - 1

    def line(self, thread: int, line: int) -> None:
        self._row(Kind.LINE, thread, line, 0, 0, -1)

    def load(self, thread: int, array: int, element: int, line: int) -> int:
        return self._access(Kind.LOAD, thread, array, element, line)

    def store(self, thread: int, array: int, element: int, line: int) -> int:
        return self._access(Kind.STORE, thread, array, element, line)

    def atomic(self, thread: int, array: int, element: int, line: int) -> int:
        return self._access(Kind.ATOMIC, thread, array, element, line)

    def sync(self, kind: str = "syncthreads", block: int = 0, threads=None, mask: int = 0) -> None:
        met = tuple(range(math.prod(self.block))) if threads is None else tuple(threads)
        self.syncs.append(Sync(len(self.rows), kind, block, met, mask))

    def recording(self, *, finished: bool = True, truncated: bool = False) -> Recording:
        table = np.array(self.rows, np.int64).reshape(-1, 6).T
        names = ("site", "kind", "thread", "address", "width", "allocation")
        types = (np.int32, np.uint8, np.int32, np.int64, np.uint8, np.int32)
        columns = {n: column.astype(t) for n, t, column in zip(names, types, table, strict=True)}
        sites = tuple(Site(Kind(k), f, self.file, n, t, o) for k, f, n, t, o in self.sites)
        return Recording(
            kernel=self.kernel, grid=self.grid, block=self.block, ndims=(1, 1), sites=sites,
            allocations=tuple(self.allocations), **columns, syncs=tuple(self.syncs), schedule=0,
            finished=finished, truncated=truncated,
        )  # fmt: skip

    def _access(self, kind: Kind, thread: int, array: int, element: int, line: int) -> int:
        memory = self.allocations[array]
        width = memory.dtype.itemsize
        return self._row(kind, thread, line, memory.address + element * width, width, array)

    def _row(self, kind, thread, line, address, width, array) -> int:
        text = self.lines[line - 1].strip()
        key = (int(kind), self.kernel, line, text, 10 * line + (array + 1))
        site = self.sites.setdefault(key, len(self.sites))
        self.rows.append((site, int(kind), thread, address, width, array))
        return len(self.rows) - 1


def _triple(n: int | tuple) -> tuple[int, int, int]:
    dims = n if isinstance(n, tuple) else (n,)
    return (*dims, 1, 1)[:3]
