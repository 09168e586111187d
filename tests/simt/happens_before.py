"""A slow oracle for the verdict: happens-before as reachability in a graph, byte by byte.

Written from the rules alone: nodes are rows and syncs, edges are program order, syncs and messages.
Threads of a launch are few; what a launch did is a list of steps (see :func:`launch`).
"""

from __future__ import annotations

import numpy as np

from kernelbook.simt.record import Allocation, Kind, Recording, Site, Sync

LANES = 32
ORDERING = ("syncthreads", "syncthreads_or", "syncwarp", "grid")
ACCESSES = (Kind.LOAD, Kind.STORE, Kind.ATOMIC)
SIZE_BYTES = 16  # of each allocation


class Launch:
    """Steps of living threads; what cannot happen (a thread that has left acts) is passed over."""

    def __init__(self, blocks: int, size: int) -> None:
        self.blocks, self.size = blocks, size
        self.living = [set(range(size)) for _ in range(blocks)]
        self.rows: list[tuple[int, Kind, int, int, int, int]] = []
        self.syncs: list[Sync] = []
        word, double, byte = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int8)
        half = np.arange(SIZE_BYTES) < 12
        spaces = [("data", "global", word, -1, None), ("flag", "global", word, -1, None)]
        spaces += [("wide", "global", double, -1, half), ("text", "global", byte, -1, ~half)]
        spaces += [("tile", "shared", word, block, None) for block in range(blocks)]
        spaces += [("mine", "local", word, 0, None)]
        self.allocations = tuple(
            Allocation(
                name, space, (SIZE_BYTES // kind.itemsize,), kind, 256 * (2 * n + 1), SIZE_BYTES,
                (kind.itemsize,), block, -1, written,
            )
            for n, (name, space, kind, block, written) in enumerate(spaces)
        )  # fmt: skip

    def access(self, kind, thread, array, offset, width, used=True) -> None:
        block, linear = divmod(thread, self.size)
        if array == "tile":
            number = 4 + block
        elif array == "mine":
            if thread:
                return
            number = len(self.allocations) - 1
        else:
            number = ("data", "flag", "wide", "text").index(array)
        if linear in self.living[block]:
            offset = offset // width * width % SIZE_BYTES
            self.rows.append((int(not used), kind, thread, offset, width, number))

    def fence(self, thread, whole_device) -> None:
        block, linear = divmod(thread, self.size)
        if linear in self.living[block]:
            kind = Kind.FENCE if whole_device else Kind.FENCE_BLOCK
            self.rows.append((0, kind, thread, 0, 0, -1))

    def leave(self, thread) -> None:
        block, linear = divmod(thread, self.size)
        self.living[block].discard(linear)

    def sync_block(self, block, kind="syncthreads") -> None:
        self.syncs.append(Sync(len(self.rows), kind, block, tuple(sorted(self.living[block]))))

    def sync_warp(self, thread, mask, kind="syncwarp") -> None:
        block, linear = divmod(thread, self.size)
        first = linear // LANES * LANES
        mask |= 1 << linear - first
        lanes = tuple(t for t in sorted(self.living[block]) if 0 <= t - first < LANES
                      and mask >> (t - first) & 1)  # fmt: skip
        if linear in lanes:
            self.syncs.append(Sync(len(self.rows), kind, block, lanes, mask))

    def sync_grid(self) -> None:
        if all(len(living) == self.size for living in self.living):
            self.syncs.append(Sync(len(self.rows), "grid", -1, ()))

    def recording(self) -> Recording:
        site, kind, thread, offset, width, array = (
            np.array(self.rows, np.int64).reshape(-1, 6).T if self.rows else np.zeros((6, 0), int)
        )
        start = np.array([a.address for a in self.allocations] + [0])
        sites = (
            Site(Kind.LOAD, "k", "k.py", 1, "a", 0),
            Site(Kind.ATOMIC, "k", "k.py", 2, "b", 0, False),
        )
        return Recording(
            "k", (self.blocks, 1, 1), (self.size, 1, 1), (1, 1), sites, self.allocations,
            site.astype(np.int32), kind.astype(np.uint8), thread.astype(np.int32),
            offset + start[array], width.astype(np.uint8), array.astype(np.int32),
            tuple(self.syncs), 0, True, False,
        )  # fmt: skip


def first_race(recording: Recording) -> tuple[int, set[int]] | None:
    """The first row that races with earlier ones, and those."""
    order = Order(recording)
    for later in range(len(recording)):
        others = {row for row in range(later) if order.races(row, later)}
        if others:
            return later, others
    return None


def first_unwritten_read(recording: Recording) -> int | None:
    """The first row that reads a byte which nobody has initialised or stored to."""
    written = set()
    for allocation in recording.allocations:
        if allocation.space == "global":
            holds = allocation.written
            for byte in range(allocation.nbytes):
                if holds is None or holds[byte]:
                    written.add(allocation.address + byte)
    for row in range(len(recording)):
        kind, touched = recording.kind[row], bytes_of(recording, row)
        if kind in (Kind.LOAD, Kind.ATOMIC) and not touched <= written:
            return row
        if kind == Kind.STORE:
            written |= touched
    return None


def bytes_of(recording: Recording, row: int) -> set[int]:
    first = int(recording.address[row])
    return set(range(first, first + int(recording.width[row])))


class Order:
    """Happens-before of a recording. ``before[n]``: bit m is set when node m comes before n."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.size = recording.threads_per_block
        self.count = count = len(recording)
        self.bytes = [bytes_of(recording, row) for row in range(count)]
        self.thread = recording.thread.tolist()
        self.kind = recording.kind.tolist()
        self.used = [recording.sites[s].result_used for s in recording.site]
        self.nodes = self._in_order()
        edges = self._thread_edges()
        base = self._closure(edges)
        for earlier, later in self._messages(base):
            edges[later].add(earlier)
        self.before = self._closure(edges)

    def ordered(self, earlier: int, later: int) -> bool:
        return bool(self.before[later] >> earlier & 1)

    def races(self, earlier: int, later: int) -> bool:
        """Whether two rows conflict on a byte on which nothing orders them."""
        kinds = {self.kind[earlier], self.kind[later]}
        if not kinds <= set(ACCESSES) or kinds in ({Kind.LOAD}, {Kind.ATOMIC}):
            return False
        allocation = self.recording.allocations[self.recording.allocation[later]]
        if allocation.space == "local" or self.ordered(earlier, later):
            return False
        return any(
            not self._seen(earlier, later, byte) for byte in self.bytes[earlier] & self.bytes[later]
        )

    def _seen(self, earlier: int, later: int, byte: int) -> bool:
        """Whether an atomic that came after the earlier one, and looked, is before the later."""
        return self.kind[earlier] == Kind.ATOMIC and any(
            self._is_atomic(row, byte) and self.used[row] and self.ordered(row, later)
            for row in range(earlier + 1, later)
        )

    def _is_atomic(self, row: int, byte: int) -> bool:
        return self.kind[row] == Kind.ATOMIC and byte in self.bytes[row]

    def _in_order(self) -> list[int]:
        """Rows 0 … count-1 and syncs count … as they happened."""
        nodes, syncs = [], list(enumerate(self.recording.syncs, self.count))
        for row in range(self.count + 1):
            while syncs and syncs[0][1].position <= row:
                nodes.append(syncs.pop(0)[0])
            if row < self.count:
                nodes.append(row)
        return nodes

    def _thread_edges(self) -> dict[int, set[int]]:
        last: dict[int, int] = {}
        edges: dict[int, set[int]] = {node: set() for node in self.nodes}
        for node in self.nodes:
            for thread in self._threads_at(node):
                if thread in last:
                    edges[node].add(last[thread])
                last[thread] = node
        return edges

    def _threads_at(self, node: int) -> list[int]:
        if node < self.count:
            return [self.thread[node]]
        sync = self.recording.syncs[node - self.count]
        if sync.kind not in ORDERING:
            return []
        if sync.kind == "grid":
            return sorted(set(self.thread))
        return [sync.block * self.size + t for t in sync.threads]

    def _closure(self, edges: dict[int, set[int]]) -> dict[int, int]:
        before: dict[int, int] = {}
        for node in self.nodes:
            before[node] = 0
            for earlier in edges[node]:
                before[node] |= before[earlier] | 1 << earlier
        return before

    def _messages(self, base: dict[int, int]) -> set[tuple[int, int]]:
        """Pairs of fences: before an atomic, and after a later one that looked at what came."""
        fences = [r for r in range(self.count) if self.kind[r] in (Kind.FENCE, Kind.FENCE_BLOCK)]
        atomics = [r for r in range(self.count) if self.kind[r] == Kind.ATOMIC]
        found = set()
        for sent in atomics:
            senders = [f for f in fences if base[sent] >> f & 1]
            for got in atomics:
                if got <= sent or not self.used[got] or not self._chained(sent, got):
                    continue
                takers = [f for f in fences if base[f] >> got & 1]
                for sender in senders:
                    for taker in takers:
                        if self._in_scope(sender, sent, got, taker):
                            found.add((sender, taker))
        return found

    def _chained(self, sent: int, got: int) -> bool:
        """Whether they share a byte that no plain store between them has overwritten."""
        common = self.bytes[sent] & self.bytes[got]
        for row in range(sent + 1, got):
            if self.kind[row] == Kind.STORE:
                common = common - self.bytes[row]
        return bool(common)

    def _in_scope(self, *rows: int) -> bool:
        device = all(self.kind[rows[n]] == Kind.FENCE for n in (0, 3))
        return device or len({self.thread[row] // self.size for row in rows}) == 1
