"""Memory traffic counted twice: by the simulator's profiler, and by Nsight Compute on a GPU.

``python benchmarks/counters.py --simulate --out benchmarks/counters-simulated.json``
``python benchmarks/counters.py --measure --out benchmarks/counters-h200.json``   (a GPU and ncu)
``python benchmarks/counters.py --compare --out benchmarks/counters.md``

Every launch of ``counters_kernels.py`` is run once by each. ``--measure`` also runs probes in
CUDA C++ (one warp, 4-, 8- and 16-byte words, random and regular patterns), which compare the rule
for shared memory itself, without a compiler's choices between. A counter is called equal only if
the two numbers are; each difference needs a reason in ``REASONS``, or ``--compare`` fails.

Limit: ncu counts what the compiler has left of the source. Cache hits, DRAM and time are not here.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from counters_ncu import METRICS, WORDS, measure, probe_names, probes

HERE = Path(__file__).resolve().parent
SIMULATED, MEASURED = HERE / "counters-simulated.json", HERE / "counters-h200.json"

# Why a counter of a launch may differ. A reason without a difference is an error, too.
REASONS = {
    ("reduce v5, all shuffles", "shared load"): (
        "the loop over the 8 partial sums is unrolled, and four neighbours are one 16-byte load "
        "(2 LDS.128 in the machine code)"
    ),
    ("matmul, tiled", "shared load"): (
        "unrolled, a row of s_a lies in neighbouring words, and four of them are one 16-byte load: "
        "4 LDS.128 and 16 LDS a tile, where the source has 32 loads; a warp holds two rows, so "
        "that each LDS.128 takes two wavefronts"
    ),
    ("histogram, shared", "shared atomic"): (
        "adding the constant 1 compiles to ATOMS.POPC.INC, which takes the lanes on one address "
        "together; any other addend takes them in turns, as the integer probes show"
    ),
    ("loop of other length a lane", "global load"): (
        "x[i] stays the same in the loop, so that the compiler loads it once"
    ),
}
FLOAT_ATOMICS = (
    "An atomic addition of floats in shared memory is a loop of a load and a compare-and-swap: for "
    "each turn that the rule counts, ncu counts two wavefronts, and no bank conflict"
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the simulator's counters with ncu's.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--simulate", action="store_true", help="count in the simulator")
    what.add_argument("--measure", action="store_true", help="count with ncu, on a GPU")
    what.add_argument("--compare", action="store_true", help="compare the two recordings")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    options = parser.parse_args()
    if options.measure:
        return measure(options.out)
    return simulate(options.out) if options.simulate else compare(options.out)


def simulate(out: Path) -> int:
    """Count every launch in the simulator and write the counters. Returns the exit status."""
    from kernelbook import simt

    simt.install()
    result = {
        "benchmark": "counters-simulated",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/counters.py --simulate",
        "launches": simulated_launches(),
        "probes": simulated_probes(),
    }
    out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


def simulated_launches() -> dict[str, dict[str, int | float]]:
    """The simulator's counters of each launch. Wants the simulator in numba.cuda's place."""
    from counters_kernels import CASES
    from numba import cuda

    from kernelbook import simt
    from kernelbook.simt.counters import count

    found: dict[str, dict[str, int | float]] = {}
    for case in CASES:
        arguments = [cuda.to_device(a) for a in case.arguments()]
        # The strided cases let threads store to one word: a race, but what is counted is the same.
        with simt.diagnosis(False), simt.observe(lines=True) as trace:
            case.kernel[case.grid, case.block](*arguments)
        profile = count(trace.recording)
        numbers: dict[str, int | float] = {}
        for what in ("load", "store", "atomic"):
            traffic = getattr(profile, f"global_{what}")
            numbers[f"global {what} requests"] = traffic.requests
            numbers[f"global {what} sectors"] = traffic.sectors
            shared = getattr(profile, f"shared_{what}")
            numbers[f"shared {what} requests"] = shared.requests
            numbers[f"shared {what} wavefronts"] = shared.wavefronts
            numbers[f"shared {what} conflicts"] = shared.bank_conflicts
        numbers["active lanes"] = round(profile.divergence.active_lanes, 2)
        found[case.name] = numbers
    return found


def simulated_probes() -> list[dict[str, Any]]:
    """What the rule for shared memory says of each probe's load, store or atomic."""
    from kernelbook.simt.banks import wavefronts
    from kernelbook.simt.record import Kind

    kinds = {"load": Kind.LOAD, "store": Kind.STORE, "atomic": Kind.ATOMIC}
    found = []
    for op, word, pattern in probe_names():
        index = np.array(probes()[pattern])
        lane = np.flatnonzero(index >= 0)
        size = np.full(len(lane), WORDS[word])
        cost = wavefronts(np.zeros_like(lane), lane, size * index[lane], size, 1, kinds[op])
        found.append(
            {
                "operation": op,
                "type": word,
                "pattern": pattern,
                "wavefronts": int(cost.used[0]),
                "conflicts": int(cost.used[0] - cost.ideal[0]),
            }
        )
    return found


@dataclass(frozen=True)
class Compared:
    """One counter of one launch, on both sides. reason: "" where they are equal, or unknown."""

    launch: str
    counter: str
    simulated: int
    measured: int

    @property
    def equal(self) -> bool:
        return self.simulated == self.measured

    @property
    def reason(self) -> str:
        if self.equal:
            return ""
        place = self.launch, self.counter.rsplit(" ", 1)[0]
        return REASONS.get(place, "")


def compared(
    simulated: dict[str, dict[str, Any]], measured: dict[str, dict[str, Any]]
) -> list[Compared]:
    """Every counter of every launch that is not zero on at least one side."""
    pairs = [
        Compared(launch, counter, simulated[launch][counter], metrics[metric])
        for launch, metrics in measured.items()
        for counter, metric in METRICS.items()
    ]
    return [pair for pair in pairs if pair.simulated or pair.measured]


def probed_equal(
    simulated: list[dict[str, Any]], measured: list[dict[str, Any]]
) -> dict[tuple[str, str], list[bool]]:
    """For each (operation, type), whether each probe's wavefronts and conflicts are ncu's.

    Of float atomics: whether ncu's wavefronts are twice ours, and its conflicts none.
    """
    short = {"load": "ld", "store": "st", "atomic": "atom"}
    found: dict[tuple[str, str], list[bool]] = {}
    for ours, theirs in zip(simulated, measured, strict=True):
        key = ours["operation"], ours["type"]
        assert (*key, ours["pattern"]) == tuple(
            theirs[name] for name in ("operation", "type", "pattern")
        )
        metrics, op = theirs["metrics"], short[key[0]]
        wavefronts = metrics[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"]
        conflicts = metrics[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"]
        wanted = ours["wavefronts"], ours["conflicts"]
        if key == ("atomic", "float"):
            wanted = 2 * ours["wavefronts"], 0
        found.setdefault(key, []).append((wavefronts, conflicts) == wanted)
    return found


def compare(out: Path) -> int:
    """Write and print the comparison of the two recordings. Returns the exit status."""
    ours, theirs = json.loads(SIMULATED.read_text()), json.loads(MEASURED.read_text())
    pairs = compared(ours["launches"], theirs["launches"])
    different = [pair for pair in pairs if not pair.equal]
    explained = {(p.launch, p.counter.rsplit(" ", 1)[0]) for p in different}
    wrong = [f"no reason: {p}" for p in different if not p.reason]
    wrong += [f"reason for no difference: {place}" for place in REASONS if place not in explained]
    text = report(theirs, pairs, probed_equal(ours["probes"], theirs["probes"]), ours["launches"])
    out.write_text(text, "utf-8")
    print(text)
    for line in wrong:
        print(f"benchmarks/counters.py: {line}", file=sys.stderr)
    return 1 if wrong else 0


def report(
    recorded: dict[str, Any],
    pairs: list[Compared],
    probes_equal: dict[tuple[str, str], list[bool]],
    simulated: dict[str, dict[str, Any]],
) -> str:
    """The comparison as Markdown."""
    equal = sum(pair.equal for pair in pairs)
    lines = [
        "# Counters: the simulator and Nsight Compute",
        "",
        f"{recorded['gpu']}, driver {recorded['driver']}, ncu {' '.join(recorded['ncu'])}, "
        f"numba-cuda {recorded['versions']['numba-cuda']}, {recorded['date']}; "
        "`python benchmarks/counters.py --measure`, `--simulate`, `--compare`.",
        "",
        f"{len(recorded['launches'])} launches, {len(pairs)} counters that are not zero on at "
        f"least one side: {equal} equal, {len(pairs) - equal} not. One number in a cell is that "
        "of both sides; two are the simulator's → ncu's.",
        "",
        *_markdown("Global memory", "global", ("requests", "sectors"), pairs),
        *_markdown("Shared memory", "shared", ("requests", "wavefronts", "conflicts"), pairs),
        "## What differs, and why",
        "",
    ]
    seen: set[str] = set()
    for pair in pairs:
        if pair.equal or pair.reason in seen:
            continue
        seen.add(pair.reason)
        counter = pair.counter.rsplit(" ", 1)[0]
        lines.append(f"- {pair.launch}, {counter}: {pair.reason or 'not explained'}.")
    lines += [
        "",
        "## The rule for shared memory, without a compiler's choices",
        "",
        "One warp in CUDA C++, one access a lane, regular and random patterns: wavefronts and bank "
        "conflicts both as ncu counts them.",
        "",
        "| access | type | probes | equal |",
        "|---|---|---:|---:|",
    ]
    for (operation, kind), results in probes_equal.items():
        mark = " (twice the wavefronts)" if (operation, kind) == ("atomic", "float") else ""
        lines.append(f"| {operation} | {kind} | {len(results)} | {sum(results)}{mark} |")
    lines += ["", f"{FLOAT_ATOMICS}.", "", *_divergence(recorded["launches"], simulated), ""]
    return "\n".join(lines)


def _markdown(title: str, space: str, units: tuple[str, ...], pairs: list[Compared]) -> list[str]:
    """One table: a launch a line, a counter a column."""
    columns = [f"{what} {unit}" for what in ("load", "store", "atomic") for unit in units]
    cells: dict[str, dict[str, str]] = {}
    for pair in pairs:
        if pair.counter.startswith(space):
            both = f"**{pair.simulated} → {pair.measured}**"
            cell = str(pair.measured) if pair.equal else both
            cells.setdefault(pair.launch, {})[pair.counter.removeprefix(f"{space} ")] = cell
    lines = [f"## {title}", "", f"| launch | {' | '.join(columns)} |"]
    lines.append("|---|" + "---:|" * len(columns))
    for launch_name, row in cells.items():
        numbers = [row.get(column, "") for column in columns]
        lines.append(f"| {launch_name} | {' | '.join(numbers)} |")
    return [*lines, ""]


def _divergence(
    measured: dict[str, dict[str, Any]], simulated: dict[str, dict[str, Any]]
) -> list[str]:
    """The two measures of divergence side by side; they count different things."""
    ratio = "smsp__thread_inst_executed_per_inst_executed.ratio"
    lines = [
        "## Divergence",
        "",
        "The simulator counts the active lanes of a source line, ncu those of an instruction. A "
        "line with many instructions weighs as much as one with few, so the two agree in kind, "
        "not in number. Launches in which all lanes are always active on both sides are left out.",
        "",
        "| launch | lanes of a line (simulator) | lanes of an instruction (ncu) |",
        "|---|---:|---:|",
    ]
    for name, metrics in measured.items():
        lanes = simulated[name]["active lanes"], metrics[ratio]
        if min(lanes) < 32:
            lines.append(f"| {name} | {lanes[0]:.2f} | {lanes[1]:.2f} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
