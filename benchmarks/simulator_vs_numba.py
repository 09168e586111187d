"""The simulator against Numba's own, on the same five kernels in one run.

Each simulator runs in a process of its own (Numba's is chosen by an environment variable before
numba is imported). A time is the smallest of several launches after a first one that is not
counted; results are checked against NumPy in both. Usage::

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
from importlib.metadata import version
from pathlib import Path

import numpy as np

TILE = 16
BINS = 16
cuda = None  # the module under test; set by measure()


def vector_add(a, b, c):
    """c = a + b."""
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


def block_reduction(x, out):
    """One sum a block of 128 threads, with 8 barriers."""
    partial = cuda.shared.array(128, "float32")
    t = cuda.threadIdx.x
    partial[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    stride = 64
    while stride > 0:
        if t < stride:
            partial[t] += partial[t + stride]
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        out[cuda.blockIdx.x] = partial[0]


def tiled_matmul(a, b, c):
    """c = a @ b in tiles of 16 x 16 through shared memory."""
    tile_a = cuda.shared.array((TILE, TILE), "float32")
    tile_b = cuda.shared.array((TILE, TILE), "float32")
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = np.float32(0)
    for step in range(a.shape[1] // TILE):
        tile_a[y, x] = a[row, step * TILE + x]
        tile_b[y, x] = b[step * TILE + y, col]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    c[row, col] = total


def transpose(x, out):
    """out = x.T, one element a thread."""
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        out[col, row] = x[row, col]


def histogram(x, bins):
    """Counts with atomics in global memory."""
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i], 1)


def cases(rng):
    """(kernel, (grid, block), arguments with the output last, expected output)."""
    a, b = rng.standard_normal((2, 2000), dtype=np.float32)
    yield vector_add, (32, 64), (a, b, np.zeros_like(a)), a + b
    x = rng.standard_normal(1024, dtype=np.float32)
    yield block_reduction, (8, 128), (x, np.zeros(8, np.float32)), x.reshape(8, 128).sum(1)
    a, b = rng.standard_normal((2, 32, 32), dtype=np.float32)
    yield tiled_matmul, ((2, 2), (TILE, TILE)), (a, b, np.zeros_like(a)), a @ b
    x = rng.standard_normal((48, 32), dtype=np.float32)
    yield transpose, ((2, 3), (TILE, TILE)), (x, np.zeros((32, 48), np.float32)), x.T
    x = rng.integers(0, BINS, 2000).astype(np.int32)
    counts = np.bincount(x, minlength=BINS)
    yield histogram, (16, 128), (x, np.zeros(BINS, np.int32)), counts


def measure(which: str, repeats: int) -> dict[str, float]:
    """Milliseconds for each kernel in this process, with the simulator ``which``."""
    global cuda  # the kernels' own name for it: Numba's simulator swaps it there
    if which == "ours":
        from kernelbook import simt

        simt.install()
    cuda = importlib.import_module("numba.cuda")
    times: dict[str, float] = {}
    for function, configuration, args, expected in cases(np.random.default_rng(0)):
        launch = cuda.jit(function)[configuration]
        launch(*args)
        np.testing.assert_allclose(args[-1], expected, rtol=1e-4, atol=1e-5)
        spans = []
        for _ in range(repeats):
            start = time.perf_counter()
            launch(*args)
            spans.append(time.perf_counter() - start)
        times[function.__name__] = min(spans) * 1e3
    return times


def in_process(which: str, repeats: int) -> dict[str, float]:
    """:func:`measure` in a fresh process."""
    environment = dict(os.environ)
    environment.pop("NUMBA_ENABLE_CUDASIM", None)
    if which == "numba":
        environment["NUMBA_ENABLE_CUDASIM"] = "1"
    command = [sys.executable, __file__, "--measure", which, "--repeats", str(repeats)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(repeats: int) -> list[dict[str, object]]:
    """One row a kernel: both times, their ratio, and what ran."""
    ours, numba = in_process("ours", repeats * 5), in_process("numba", repeats)
    shared = {
        "python": platform.python_version(),
        "numba": version("numba"),
        "numba_cuda": version("numba-cuda"),
        "numpy": version("numpy"),
        "cpu_count": os.cpu_count(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }
    return [
        {
            "kernel": name,
            "ours_ms": round(ours[name], 3),
            "numba_ms": round(numba[name], 3),
            "ratio": round(numba[name] / ours[name], 1),
            **shared,
        }
        for name in ours
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    parser.add_argument("--repeats", type=int, default=3, help="launches of Numba's simulator")
    parser.add_argument("--measure", choices=("ours", "numba"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.repeats)))
        return
    rows = compare(options.repeats)
    print(f"{'kernel':<16} {'ours ms':>9} {'numba ms':>10} {'ratio':>8}")
    for row in rows:
        line = f"{row['kernel']:<16} {row['ours_ms']:>9.2f} {row['numba_ms']:>10.1f}"
        print(f"{line} {row['ratio']:>8.0f}")
    mean = math.exp(sum(math.log(float(row["ratio"])) for row in rows) / len(rows))
    print(f"geometric mean of the ratios: {mean:.0f}")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
