"""Random programs of barriers and shared memory, against an oracle in plain Python.

A program is a row of phases. In a phase a thread reads some cells and then stores to, or adds
atomically to, one cell; what stands between two phases orders nothing, half a warp, a warp, the
block or the grid. The oracle runs the threads one after the other and lists all pairs of accesses
that conflict: different threads, one byte, at least one plain access and one that writes, and
nothing between that orders the two. A launch must raise RaceError exactly when there is such a
pair, name the lines of one, and otherwise give the oracle's values, in every schedule. Messages
passed by atomics and fences have an oracle of their own.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda

from kernelbook import simt

WARP = 32
ARRAYS = ("s0", "s1", "g0", "g1")  # of int32
OCTETS = "o0"  # the bytes of s0
MODULUS = 1009
SYNCS = {
    "none": "pass",
    "vote": "cuda.any_sync(0xFFFFFFFF, True)",  # meets, but orders nothing
    "half": "cuda.syncwarp(0x0000FFFF if t % 32 < 16 else 0xFFFF0000)",
    "warp": "cuda.syncwarp()",
    "block": "cuda.syncthreads()",
    "grid": "cuda.cg.this_grid().sync()",
}
quick = settings(max_examples=60, deadline=None, derandomize=True)
thorough = settings(quick, max_examples=250)


@dataclass(frozen=True)
class Cell:
    """``array[(factor * t + shift) % its length]``."""

    array: str
    factor: int
    shift: int

    @property
    def width(self) -> int:
        """Bytes."""
        return 1 if self.array == OCTETS else 4


@dataclass(frozen=True)
class Phase:
    """Read ``reads``, then write ``target`` if ``t % every == 0``; then ``sync``."""

    reads: tuple[Cell, ...]
    target: Cell
    atomic: bool
    every: int
    sync: str

    @property
    def adds(self) -> bool:
        """Whether the write is an atomic addition; there is none for bytes."""
        return self.atomic and self.target.width == 4


@dataclass(frozen=True)
class Program:
    threads: int
    blocks: int
    own_region: bool  # each block has its own part of the global arrays
    phases: tuple[Phase, ...]

    def source(self) -> tuple[str, dict[tuple[int, int], int]]:
        """The kernel's text, and the line of each access (phase, number in it)."""
        lines = [
            "@cuda.jit",
            "def program(x, out, g0, g1):",
            f"    s0 = cuda.shared.array(0, np.int32)[0 : {self.threads}]",
            f"    o0 = cuda.shared.array(0, np.uint8)[0 : {4 * self.threads}]",
            f"    s1 = cuda.shared.array({self.threads}, np.int32)",
            "    t, b = cuda.threadIdx.x, cuda.blockIdx.x",
            f"    base = b * {self.threads if self.own_region else 0}",
            "    s0[t] = x[t]",
            "    s1[t] = 2 * x[t]",
            "    cuda.syncthreads()",
        ]
        at = {}
        for p, phase in enumerate(self.phases):
            lines.append(f"    value = {p} + t")
            for r, cell in enumerate(phase.reads):
                lines.append(f"    value += {self.text(cell)}")
                at[p, r] = len(lines)
            lines.append(f"    if t % {phase.every} == 0:")
            if phase.adds:
                array, index = self.text(phase.target).removesuffix("]").split("[")
                lines.append(f"        cuda.atomic.add({array}, {index}, value % {MODULUS})")
            else:
                lines.append(f"        {self.text(phase.target)} = value % {MODULUS}")
            at[p, len(phase.reads)] = len(lines)
            lines.append(f"    {SYNCS[phase.sync]}")
        lines += ["    cuda.syncthreads()", "    out[b, 0, t] = s0[t]", "    out[b, 1, t] = s1[t]"]
        return "\n".join(lines) + "\n", at

    def text(self, cell: Cell) -> str:
        base = "base + " if cell.array.startswith("g") else ""
        return f"{cell.array}[{base}({cell.factor} * t + {cell.shift}) % {self.length(cell)}]"

    def length(self, cell: Cell) -> int:
        """Elements of its array, in one block."""
        return 4 * self.threads if cell.array == OCTETS else self.threads


@dataclass(frozen=True)
class Access:
    block: int
    thread: int
    phase: int
    line: int
    writes: bool
    atomic: bool


class Memory:
    """Bytes by address, and who has touched them."""

    def __init__(self) -> None:
        self.bytes: dict[tuple, int] = {}
        self.touched: dict[tuple, list[Access]] = {}

    def load(self, where: list[tuple], signed: bool) -> int:
        return int.from_bytes([self.bytes.get(at, 0) for at in where], "little", signed=signed)

    def store(self, where: list[tuple], value: int) -> None:
        wrapped = value % 256 ** len(where)
        self.bytes.update(zip(where, wrapped.to_bytes(len(where), "little"), strict=True))

    def touch(self, where: list[tuple], access: Access) -> None:
        for at in where:
            self.touched.setdefault(at, []).append(access)


def oracle(program: Program, x):
    """(what ``out`` and the global arrays hold, pairs of lines that race), threads in order."""
    n, at, memory = program.threads, program.source()[1], Memory()
    for b in range(program.blocks):
        for t in range(n):
            memory.store(place(program, Cell("s0", 1, 0), b, t), int(x[t]))
            memory.store(place(program, Cell("s1", 1, 0), b, t), 2 * int(x[t]))
    for p, phase in enumerate(program.phases):
        for b in range(program.blocks):
            for t in range(n):
                value = p + t
                for r, cell in enumerate(phase.reads):
                    where = place(program, cell, b, t)
                    value += memory.load(where, signed=cell.width == 4)
                    memory.touch(where, Access(b, t, p, at[p, r], False, False))
                if t % phase.every == 0:
                    where = place(program, phase.target, b, t)
                    old = memory.load(where, signed=True) if phase.adds else 0
                    memory.store(where, old + value % MODULUS)
                    memory.touch(where, Access(b, t, p, at[p, len(phase.reads)], True, phase.adds))
    wanted = [
        [
            memory.load(place(program, Cell(name, 1, 0), b, t), signed=True)
            for b in range(program.blocks)
            for t in range(n)
        ]
        for name in ARRAYS
    ]
    return wanted, {
        frozenset((a.line, b.line))
        for accesses in {tuple(accesses) for accesses in memory.touched.values()}
        for a, b in combinations(accesses, 2)
        if conflict(a, b) and not ordered(program, a, b)
    }


def place(program: Program, cell: Cell, block: int, thread: int) -> list[tuple]:
    """The addresses of the bytes that a thread means."""
    index = (cell.factor * thread + cell.shift) % program.length(cell)
    owner = block
    if cell.array.startswith("g"):
        index, owner = index + block * program.threads * program.own_region, -1
    memory = "s0" if cell.array == OCTETS else cell.array
    return [(memory, owner, cell.width * index + byte) for byte in range(cell.width)]


def conflict(a: Access, b: Access) -> bool:
    other = (a.block, a.thread) != (b.block, b.thread)
    return other and (a.writes or b.writes) and not (a.atomic and b.atomic)


def ordered(program: Program, a: Access, b: Access) -> bool:
    """Whether something between the two phases orders the two threads."""
    between = {phase.sync for phase in program.phases[a.phase : b.phase]}
    if a.block != b.block:
        return "grid" in between
    same_warp, same_half = (a.thread // size == b.thread // size for size in (WARP, WARP // 2))
    return (
        bool(between & {"grid", "block"})
        or ("warp" in between and same_warp)
        or ("half" in between and same_half)
    )


def launch(program: Program, x, seed: int):
    """What the simulator says each of ARRAYS holds, block by block; or the error that it raises."""
    path = "<program>/1"
    text = program.source()[0]
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    namespace = {"cuda": cuda, "np": np}
    exec(compile(text, path, "exec"), namespace)
    n, blocks = program.threads, program.blocks
    out = np.zeros((blocks, 2, n), np.int32)
    g0, g1 = (np.zeros(n * (blocks if program.own_region else 1), np.int32) for _ in range(2))
    with simt.diagnosis(), simt.schedule(seed):
        namespace["program"][blocks, n, 0, 4 * n](x, out, g0, g1)
    copies = 1 if program.own_region else blocks
    return out[:, 0].ravel(), out[:, 1].ravel(), np.tile(g0, copies), np.tile(g1, copies)


def require_same(program: Program, seed: int) -> bool:
    """Simulator and oracle agree; returns whether the program has a race."""
    x = np.arange(program.threads, dtype=np.int32) * 7 % 11
    wanted, races = oracle(program, x)
    if not races:
        for found, value in zip(launch(program, x, seed), wanted, strict=True):
            assert (found == value).all(), program.source()[0]
        return False
    with pytest.raises(simt.RaceError) as caught:
        launch(program, x, seed)
    named = {int(number) for number in re.findall(r"^ *(\d+) \|", str(caught.value), re.MULTILINE)}
    assert frozenset(named) in races, f"{named} {races}\n{caught.value}\n{program.source()[0]}"
    return True


seeds = st.integers(0, 50)
sizes = st.sampled_from((2, 5, 32, 40, 64))
shifts = st.integers(0, 63)


@st.composite
def programs_without_a_race(draw) -> Program:
    """Each thread writes its own cell; others read it only after a barrier."""
    threads, blocks = draw(sizes), draw(st.sampled_from((1, 2)))
    phases = []
    for _ in range(draw(st.integers(1, 5))):
        target = draw(st.sampled_from(ARRAYS))
        own = Cell(target, 1, draw(shifts))
        others = st.builds(
            Cell, st.sampled_from([a for a in ARRAYS if a != target]), st.integers(0, 3), shifts
        )
        reads = draw(st.lists(st.one_of(others, st.just(own)), max_size=3))
        atomic, every = draw(st.booleans()), draw(st.sampled_from((1, 2, 3)))
        sync = draw(st.sampled_from(("block", "grid")))
        if target == "s0" and draw(st.booleans()):  # as bytes: four threads to a word
            own, reads = Cell(OCTETS, 1, own.shift), [r for r in reads if r.array != "s0"]
        phases.append(Phase(tuple(reads), own, atomic, every, sync))
    return Program(threads, blocks, True, tuple(phases))


cells = st.one_of(
    st.builds(Cell, st.sampled_from(ARRAYS), st.sampled_from((0, 1, 1, 1, 2, 3)), shifts),
    st.builds(Cell, st.just(OCTETS), st.sampled_from((1, 4)), shifts),
)
own_cells = st.builds(Cell, st.sampled_from(ARRAYS), st.just(1), st.just(0))
any_cells = st.one_of(own_cells, own_cells, own_cells, cells)
any_phases = st.builds(
    Phase,
    st.lists(any_cells, max_size=2).map(tuple),
    any_cells,
    st.booleans(),
    st.sampled_from((1, 1, 2, 40)),
    st.sampled_from(tuple(SYNCS)),
)
any_programs = st.builds(
    Program,
    sizes,
    st.sampled_from((1, 1, 2)),
    st.booleans(),
    st.lists(any_phases, min_size=1, max_size=4).map(tuple),
)


@quick
@given(programs_without_a_race(), seeds)
def test_program_without_a_race_gives_the_oracles_values(program, seed):
    assert not require_same(program, seed)


@quick
@given(programs_without_a_race(), seeds, st.data())
def test_program_with_a_conflict_added_is_reported(program, seed, data):
    at = data.draw(st.integers(0, len(program.phases) - 1))
    phase = program.phases[at]
    read = replace(phase.target, factor=0)  # the cell that thread 0 writes, whatever ``every`` is
    racing = replace(phase, reads=(*phase.reads, read))
    phases = (*program.phases[:at], racing, *program.phases[at + 1 :])
    assert require_same(replace(program, phases=phases), seed)


@thorough
@given(any_programs, seeds)
def test_any_program_is_reported_exactly_when_it_races(program, seed):
    require_same(program, seed)


def test_oracle_knows_warps_from_blocks():
    phase = Phase((), Cell("s0", 1, 0), False, 1, "warp")
    within = replace(phase, reads=(Cell("s0", 1, 1),), target=Cell("g0", 1, 0))
    program = Program(32, 1, True, (phase, within))
    x = np.zeros(64, np.int32)
    assert not oracle(program, x)[1]
    assert oracle(replace(program, threads=64), x)[1]


@cuda.jit
def messages(acquire, release, ticket, done, data, out):
    """Whoever comes j-th waits for the j before it, reads what they left, and leaves its own."""
    agent = cuda.threadIdx.x % 32 == 0
    if agent:
        j = cuda.atomic.add(ticket, 0, 1)
        while cuda.atomic.add(done, 0, 0) < j:
            cuda.nanosleep(20)
        if acquire[j] == 1:
            cuda.threadfence_block()
        elif acquire[j] == 2:
            cuda.threadfence()
        total = 1
        for k in range(j):
            total += data[k]
        data[j] = total
        if release[j] == 1:
            cuda.threadfence_block()
        elif release[j] == 2:
            cuda.threadfence()
        cuda.atomic.add(done, 0, 1)
        out[j] = total


fence_rows = st.lists(st.sampled_from((0, 1, 1, 2, 2, 2)), min_size=4, max_size=4)


@quick
@given(st.integers(2, 4), st.booleans(), fence_rows, fence_rows, seeds)
def test_messages_race_exactly_where_a_fence_is_missing(agents, one_block, acquire, release, seed):
    enough = 1 if one_block else 2
    complete = all(
        release[k] >= enough and acquire[j] >= enough for j in range(agents) for k in range(j)
    )
    ticket, done, data = (np.zeros(agents, np.int32) for _ in range(3))
    out = np.zeros(agents, np.int32)
    grid, block = (1, 32 * agents) if one_block else (agents, 32)
    args = (np.array(acquire), np.array(release), ticket, done, data, out)
    with simt.diagnosis(), simt.schedule(seed):
        if complete:
            messages[grid, block](*args)
            assert (out == 2 ** np.arange(agents)).all()
        else:
            with pytest.raises(simt.RaceError, match=r"data\[\d\]"):
                messages[grid, block](*args)
