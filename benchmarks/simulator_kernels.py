"""The kernels of simulator_vs_numba.py: ten typical ones, and those of the first two labs.

Each case is (name, function, grid, block, arguments, expected output); the last argument is the
output. ``cuda`` is set by the benchmark before a kernel is made, for Numba's simulator swaps a
kernel's global of that name while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

TILE = 16
BINS = 16
WIDTH = 128
SOLUTIONS = Path(__file__).parents[1] / "solutions"
cuda: Any = None
Case = tuple[str, Any, Any, Any, tuple[Any, ...], Any]


def vector_add(a, b, c):
    """c = a + b."""
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


def tree_sum(x, out):
    """One sum a block of 128 threads, with 8 barriers."""
    partial = cuda.shared.array(WIDTH, "float32")
    t = cuda.threadIdx.x
    partial[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    stride = WIDTH // 2
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


def tiled_transpose(x, out):
    """out = x.T through a padded tile in shared memory."""
    tile = cuda.shared.array((TILE, TILE + 1), "float32")
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[cuda.blockIdx.y * TILE + ty, cuda.blockIdx.x * TILE + tx]
    cuda.syncthreads()
    out[cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx] = tile[tx, ty]


def histogram(x, bins):
    """Counts with atomics in global memory."""
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i], 1)


def stencil(x, out):
    """Three-point sums through shared memory with a halo."""
    tile = cuda.shared.array(WIDTH + 2, "float32")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = x[i - 1] if i > 0 else np.float32(0)
    if t == WIDTH - 1:
        tile[WIDTH + 1] = x[i + 1] if i + 1 < x.size else np.float32(0)
    cuda.syncthreads()
    out[i] = tile[t] + tile[t + 1] + tile[t + 2]


def scan(x, out):
    """Inclusive prefix sums of each block, two buffers by turns."""
    buffers = cuda.shared.array((2, WIDTH), "float32")
    t, i = cuda.threadIdx.x, cuda.grid(1)
    source, reach = 0, 1
    buffers[0, t] = x[i]
    cuda.syncthreads()
    while reach < WIDTH:
        value = buffers[source, t]
        if t >= reach:
            value += buffers[source, t - reach]
        buffers[1 - source, t] = value
        cuda.syncthreads()
        source, reach = 1 - source, reach * 2
    out[i] = buffers[source, t]


def matvec(a, x, y):
    """y = a @ x, one row a thread."""
    row = cuda.grid(1)
    if row < a.shape[0]:
        total = np.float32(0)
        for col in range(a.shape[1]):
            total += a[row, col] * x[col]
        y[row] = total


def row_maximum(x, out):
    """The largest element of each row, one block a row."""
    best = cuda.shared.array(WIDTH, "float32")
    t, row = cuda.threadIdx.x, cuda.blockIdx.x
    found = x[row, t]
    for col in range(t + WIDTH, x.shape[1], WIDTH):
        found = max(found, x[row, col])
    best[t] = found
    cuda.syncthreads()
    half = WIDTH // 2
    while half > 0:
        if t < half:
            best[t] = max(best[t], best[t + half])
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[row] = best[0]


def sixteen_barriers(x, out):
    """Not compared, but timed: a block of 1,024 threads that meets sixteen times."""
    tile = cuda.shared.array(1024, "float32")
    t = cuda.threadIdx.x
    tile[t] = x[t]
    for _ in range(8):
        cuda.syncthreads()
        other = tile[(t + 1) % 1024]
        cuda.syncthreads()
        tile[t] = other
    out[t] = tile[t]


def typical(rng: np.random.Generator) -> Iterator[Case]:
    """The ten typical kernels."""

    def random(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    a, b = random(2000), random(2000)
    yield "vector add", vector_add, 32, 64, (a, b, zeros(2000)), a + b
    x = random(1024)
    blocks = x.reshape(8, WIDTH)
    yield "tree sum", tree_sum, 8, WIDTH, (x, zeros(8)), blocks.sum(1)
    a, b = random(32, 32), random(32, 32)
    square = (TILE, TILE)
    yield "tiled matmul", tiled_matmul, (2, 2), square, (a, b, zeros(32, 32)), a @ b
    m = random(48, 32)
    yield "transpose", transpose, (2, 3), square, (m, zeros(32, 48)), m.T
    yield "tiled transpose", tiled_transpose, (2, 3), square, (m, zeros(32, 48)), m.T
    v = rng.integers(0, BINS, 2000).astype(np.int32)
    counts = np.bincount(v, minlength=BINS)
    yield "histogram", histogram, 16, WIDTH, (v, np.zeros(BINS, np.int32)), counts
    padded = np.pad(x, 1)
    sums = padded[:-2] + padded[1:-1] + padded[2:]
    yield "stencil", stencil, 8, WIDTH, (x, zeros(1024)), sums
    yield "scan", scan, 8, WIDTH, (x, zeros(1024)), blocks.cumsum(1).ravel()
    a, b = random(256, 64), random(64)
    yield "matvec", matvec, 4, 64, (a, b, zeros(256)), a @ b
    rows = random(8, 300)
    yield "row maximum", row_maximum, 8, WIDTH, (rows, zeros(8)), rows.max(1)


def of_the_labs(rng: np.random.Generator, namespace: dict[str, Any]) -> Iterator[Case]:
    """The solutions of cuda/first-kernels and cuda/reduce, made in ``namespace``.

    A kernel comes as its name: its decorator has already been applied.
    """
    from kernelbook import source

    def random(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, np.float32)

    for lab in ("first-kernels", "reduce"):
        for exercise in source.read(SOLUTIONS / "cuda" / f"{lab}.md", SOLUTIONS).exercises.values():
            if exercise.kind == "kernel":
                exec(compile(exercise.solution, f"<{exercise.id}>", "exec"), namespace)
    kernels = namespace
    x, y, m = random(1000), random(1000), random(30, 40)
    yield "add_ten", kernels["add_ten"], 1, 256, (x[:256].copy(), zeros(256)), x[:256] + 10
    yield "add_ten_guarded", kernels["add_ten_guarded"], 8, 128, (x, zeros(1000)), x + 10
    plane = (3, 2), (TILE, TILE)
    two = np.float32(2)
    yield "scale_2d", kernels["scale_2d"], *plane, (m, two, zeros(30, 40)), 2 * m
    column, row = random(30, 1), random(1, 40)
    yield "outer_sum", kernels["outer_sum"], *plane, (column, row, zeros(30, 40)), column + row
    yield "saxpy", kernels["saxpy"], 4, 64, (two, x, y, zeros(1000)), 2 * x + y
    padded = np.pad(x, 1)
    sums = padded[:-2] + padded[1:-1] + padded[2:]
    yield "neighbour_sum", kernels["neighbour_sum"], 8, 128, (x, zeros(1000)), sums
    for name, each in (
        ("reduce_interleaved", 1),
        ("reduce_sequential", 1),
        ("reduce_first_add", 2),
    ):
        pieces = random(4 * each, WIDTH)
        expected = pieces.reshape(4, -1).sum(1)
        yield name, kernels[name], 4, WIDTH, (pieces.ravel(), zeros(4)), expected
    x = random(4 * 4 * WIDTH)
    quarter = x.reshape(4, 4, WIDTH).sum((0, 2))
    yield "reduce_many", kernels["reduce_many"], 4, WIDTH, (x, zeros(4)), quarter
    whole = x.reshape(-1, 32).sum(1)
    yield "reduce_shuffle", kernels["reduce_shuffle"], 16, WIDTH, (x, zeros(64)), whole
    yield "reduce_block", kernels["reduce_block"], 4, WIDTH, (x, zeros(4)), quarter


def longest(rng: np.random.Generator) -> Case:
    """The block of 1,024 threads with sixteen barriers."""
    x = rng.standard_normal(1024, dtype=np.float32)
    out = np.zeros(1024, np.float32)
    return "1,024 × 16 barriers", sixteen_barriers, 1, 1024, (x, out), np.roll(x, -8)
