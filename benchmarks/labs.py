"""Every lab verified and the sample class graded on one device, with what was found and how long.

Usage: ``python benchmarks/labs.py --device gpu --jobs 4 --out benchmarks/labs-h200.json``

Records for each lab how many of its proofs hold, and for each submission of ``examples/class`` its
points, so that the two devices can be compared: the right must earn full marks on both.

Limit: seconds hold for this machine and this number of jobs; start-up and reference runs count.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from kernelbook import source, verify
from kernelbook.bench import rows
from kernelbook.device import choose
from kernelbook.grade import engine, report
from kernelbook.grade.handed_in import handed_in
from kernelbook.grade.pool import Pool

PACKAGES = ("numpy", "numba", "numba-cuda", "cupy-cuda13x", "ipykernel", "nbval", "pytest")


def verified(device: str, jobs: int) -> list[dict[str, Any]]:
    """One row a lab: proofs that hold, of how many, and the seconds of all labs together."""
    names = [source.path_to_id(path) for path in source.find([])]
    with Pool(jobs) as pool:
        proofs = dict(pool.map(_Verify(device), {name: name for name in names}))
    return [
        {
            "lab": name,
            "proofs": len(proofs[name]),
            "hold": sum(p.holds for p in proofs[name]),
            "missed": [
                f"{p.exercise}: {p.trial}: wanted {p.wanted!r}, found {p.found!r}"
                for p in proofs[name]
                if not p.holds
            ],
        }
        for name in names
    ]


class _Verify:
    """Picklable: what a worker process is handed."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, name: str) -> list[verify.Proof]:
        return verify.verify_named(name, self.device)


def graded(device: str, jobs: int, out: Path) -> list[dict[str, Any]]:
    """One row a submission of the sample class."""
    batch = engine.open_batch(out, device)
    work = [engine.GradeJob(batch, path, who) for path, who in handed_in([Path("examples/class")])]
    found = engine.grade(work, workers=jobs, done=lambda *_: None)
    Console().print(report.summary(found))
    return [
        {
            "submission": record.learner,
            "lab": record.lab,
            "points": record.points,
            "max_points": record.max_points,
            "reason": record.reason,
            "isolation": list(record.isolation),
        }
        for record in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="write what was found as JSON")
    options = parser.parse_args()
    device = choose(options.device)
    machine = rows.machine(PACKAGES) if device == "gpu" else None
    record: dict[str, Any] = {
        "benchmark": "labs",
        "device": device,
        "gpu": machine.gpu if machine else "none",
        "driver": machine.driver if machine else "none",
        "versions": machine.versions if machine else {},
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/labs.py --device {device} --jobs {options.jobs}",
    }
    began = time.perf_counter()
    record["verify"] = verified(device, options.jobs)
    record["verify_seconds"] = round(time.perf_counter() - began, 1)
    with tempfile.TemporaryDirectory() as out:
        began = time.perf_counter()
        record["grading"] = graded(device, options.jobs, Path(out))
        record["grading_seconds"] = round(time.perf_counter() - began, 1)
    for row in record["verify"]:
        print(f"{row['lab']} on {device}: {row['hold']} of {row['proofs']} proofs hold")
        print("".join(f"  {missed}\n" for missed in row["missed"]), end="")
    print(f"verified in {record['verify_seconds']} s, graded in {record['grading_seconds']} s")
    if options.out:
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
