"""Runs the kernels on a real GPU, each in a process of its own, and writes one JSON file.

The correct ones must give the right values: that is what makes them correct. Of the defective ones
only those run that neither fault nor hang, that is data races and reads of unwritten memory, and
each is launched several times: how often the value is right in spite of the defect is the point.

    python3 tests/simt/kernels/on_gpu.py --out kernels.json

Limit: a right value says nothing about other shapes, other GPUs or another day.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from kernels import correct, defective

RUNS = 20
LIMIT_SECONDS = 20.0


def cases() -> dict[str, Any]:
    """By name, all that can run on a GPU."""
    return {c.name: c for c in (*correct.CASES, *defective.CASES) if c.can_run_on_a_gpu}


def run_here(name: str) -> dict[str, Any]:
    """Launch one kernel several times in this process; how often its output was right."""
    warnings.simplefilter("ignore")
    case = cases()[name]
    return {"right": sum(case.output_is_right() for _ in range(RUNS)), "runs": RUNS}


def run_apart(name: str) -> dict[str, Any]:
    """The same in a process of its own, so that a fault or a hang ends that one only."""
    case = cases()[name]
    row = {"kernel": name, "error": case.error, "right": 0, "runs": RUNS, "note": ""}
    command = [sys.executable, __file__, "--one", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        return {**row, "note": f"still running after {LIMIT_SECONDS:g} s"}
    if done.returncode:
        return {**row, "note": done.stderr.strip()[-600:] or "died"}
    return {**row, **json.loads(done.stdout.strip().splitlines()[-1])}


def run_all(jobs: int) -> dict[str, Any]:
    """All kernels, ``jobs`` processes at a time, and what they ran on."""
    with ThreadPoolExecutor(jobs) as pool:
        rows = list(pool.map(run_apart, cases()))
    smi = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu, driver = subprocess.check_output(smi, text=True).splitlines()[0].split(", ")
    defects = [row for row in rows if row["error"]]
    return {
        "gpu": gpu,
        "driver": driver,
        "versions": {name: version(name) for name in ("numba", "numba-cuda", "numpy")},
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python3 tests/simt/kernels/on_gpu.py",
        "correct": len(rows) - len(defects),
        "correct_always_right": sum(r["right"] == r["runs"] for r in rows if not r["error"]),
        "defective": len(defects),
        "defective_always_right": sum(r["right"] == r["runs"] for r in defects),
        "defective_sometimes_right": sum(0 < r["right"] < r["runs"] for r in defects),
        "kernels": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("kernels.json"))
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--one", help="run this kernel only, in this process")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_here(options.one)))
        return 0
    result = run_all(options.jobs)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    failed = [r for r in result["kernels"] if not r["error"] and r["right"] < r["runs"]]
    for row in failed:
        print(f"not right: {row}")
    print({key: value for key, value in result.items() if key != "kernels"})
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
