"""The simulator, with diagnosis on and off, against Numba's own, on the same kernels in one run.

Each simulator runs in a process of its own (Numba's is chosen by an environment variable before
numba is imported). A time is the smallest of several launches after a first one that is not
counted; results are checked against NumPy in both. Numba's simulator refuses warp shuffles, so
those kernels have a time here and no ratio. Usage::

    python benchmarks/simulator_vs_numba.py [--out FILE.json] [--repeats N]
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import simulator_kernels as kernels

OURS = ("off", "on")  # diagnosis
Times = dict[str, float]


def measure(which: str, repeats: int) -> Times:
    """Milliseconds for each kernel in this process; ``which``: "off", "on" or "numba"."""
    from kernelbook import simt

    if which in OURS:
        simt.install()
        simt.diagnose_always(which == "on")
    cuda = kernels.cuda = importlib.import_module("numba.cuda")
    namespace = {"cuda": cuda, "float32": importlib.import_module("numba").float32}
    namespace |= {"np": np, "THREADS": kernels.WIDTH}
    rng = np.random.default_rng(0)
    cases = [*kernels.typical(rng), *kernels.of_the_labs(rng, namespace)]
    if which in OURS:
        cases.append(kernels.longest(rng))
    times: Times = {}
    for name, function, grid, block, args, expected in cases:
        kernel = function if hasattr(function, "__getitem__") else cuda.jit(function)
        launch = kernel[grid, block]
        try:
            launch(*args)
        except AttributeError:
            if which == "numba":
                continue  # an operation that Numba's simulator does not have
            raise
        np.testing.assert_allclose(args[-1], expected, rtol=1e-4, atol=1e-5)
        times[name] = _smallest(lambda: launch(*args), repeats)  # noqa: B023 (called at once)
    return times


def _smallest(call: Callable[[], None], repeats: int) -> float:
    spans = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        spans.append(time.perf_counter() - start)
    return min(spans) * 1e3


def in_process(which: str, repeats: int) -> Times:
    """:func:`measure` in a fresh process."""
    environment = dict(os.environ)
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    if which == "numba":
        environment["NUMBA_ENABLE_CUDASIM"] = "1"
    command = [sys.executable, __file__, "--measure", which, "--repeats", str(repeats)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: Times = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(repeats: int) -> dict[str, object]:
    """All times, their ratios, and what ran."""
    off, on = (in_process(which, repeats * 5) for which in OURS)
    numba = in_process("numba", repeats)
    rows = [
        {
            "kernel": name,
            "off_ms": round(off[name], 3),
            "on_ms": round(on[name], 3),
            "numba_ms": round(numba[name], 1) if name in numba else None,
            "off_ratio": round(numba[name] / off[name], 1) if name in numba else None,
            "on_ratio": round(numba[name] / on[name], 1) if name in numba else None,
        }
        for name in off
    ]
    return {
        "python": platform.python_version(),
        "numba": version("numba"),
        "numba_cuda": version("numba-cuda"),
        "numpy": version("numpy"),
        "cpu_count": os.cpu_count(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "geometric_mean_off": _mean(rows, "off_ratio"),
        "geometric_mean_on": _mean(rows, "on_ratio"),
        "kernels": rows,
    }


def _mean(rows: list[dict[str, object]], key: str) -> float:
    ratios = [float(str(row[key])) for row in rows if row[key] is not None]
    return round(math.exp(sum(map(math.log, ratios)) / len(ratios)), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    parser.add_argument("--repeats", type=int, default=3, help="launches of Numba's simulator")
    parser.add_argument("--measure", choices=(*OURS, "numba"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.repeats)))
        return
    result = compare(options.repeats)
    print(f"{'':<21} {'off ms':>8} {'on ms':>8} {'numba ms':>9} {'off ×':>6} {'on ×':>6}")
    for row in result["kernels"]:  # type: ignore[attr-defined]
        line = f"{row['kernel']:<21} {row['off_ms']:>8.2f} {row['on_ms']:>8.2f}"
        if row["numba_ms"] is not None:
            line += f" {row['numba_ms']:>9.1f} {row['off_ratio']:>6.0f} {row['on_ratio']:>6.0f}"
        print(line)
    print(f"geometric mean of the ratios: diagnosis off {result['geometric_mean_off']}, "
          f"on {result['geometric_mean_on']}")  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
