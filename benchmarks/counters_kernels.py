"""The launches whose memory traffic is counted twice: in the simulator, and on a GPU under ncu.

Each :class:`Case` is one launch of one Numba kernel on fixed data, small enough for both. Whoever
imports this decides who runs it: after ``simt.install()`` it is the simulator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import complex128, cuda, float32, float64, int32

THREADS = 256
BLOCKS = 4
N = THREADS * BLOCKS
WARPS = THREADS // 32
SIDE = 64  # of a matrix that is transposed
TILE = 32
PADDED = TILE + 1
MATRIX = 32  # side of the matrices that are multiplied
MATMUL_TILE = 16
BINS = 64


@dataclass(frozen=True)
class Case:
    """``kernel[grid, block](*arguments())``; the arguments are NumPy arrays, made anew."""

    name: str
    kernel: Any
    grid: int | tuple[int, int]
    block: int | tuple[int, int]
    arguments: Callable[[], tuple[np.ndarray[Any, Any], ...]]


@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@cuda.jit
def copy_stride_2(x, y):
    i = cuda.grid(1)
    y[2 * i] = x[2 * i]


@cuda.jit
def copy_stride_32(x, y):
    i = cuda.grid(1)
    y[32 * i] = x[32 * i]


@cuda.jit
def copy_misaligned(x, y):
    i = cuda.grid(1)
    y[i + 1] = x[i + 1]


@cuda.jit
def gather(x, index, y):
    i = cuda.grid(1)
    y[i] = x[index[i]]


@cuda.jit
def add_tail(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += x[i]


@cuda.jit
def transpose_naive(x, y):
    column, row = cuda.grid(2)
    y[column, row] = x[row, column]


@cuda.jit
def transpose_tiled(x, y):
    tile = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    tile[ty, tx] = x[top + ty, left + tx]
    cuda.syncthreads()
    y[left + ty, top + tx] = tile[tx, ty]


@cuda.jit
def transpose_padded(x, y):
    tile = cuda.shared.array((TILE, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    tile[ty, tx] = x[top + ty, left + tx]
    cuda.syncthreads()
    y[left + ty, top + tx] = tile[tx, ty]


@cuda.jit
def transpose_tiled_float64(x, y):
    tile = cuda.shared.array((TILE, TILE), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    tile[ty, tx] = x[top + ty, left + tx]
    cuda.syncthreads()
    y[left + ty, top + tx] = tile[tx, ty]


@cuda.jit
def transpose_padded_float64(x, y):
    tile = cuda.shared.array((TILE, PADDED), float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    tile[ty, tx] = x[top + ty, left + tx]
    cuda.syncthreads()
    y[left + ty, top + tx] = tile[tx, ty]


@cuda.jit
def reduce_v0(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        if t % (2 * step) == 0:
            s[t] += s[t + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def reduce_v1(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < THREADS:
        i = 2 * step * t
        if i < THREADS:
            s[i] += s[i + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def reduce_v2(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def reduce_v3(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 2 * THREADS + t
    s[t] = x[i] + x[i + THREADS]
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def reduce_v4(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 2 * THREADS + t
    s[t] = x[i] + x[i + THREADS]
    cuda.syncthreads()
    step = THREADS // 2
    while step >= 32:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t < 32:
        total = s[t]
        step = 16
        while step > 0:
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = total


@cuda.jit
def reduce_v5(x, out):
    partial = cuda.shared.array(WARPS, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 2 * THREADS + t
    total = x[i] + x[i + THREADS]
    step = 16
    while step > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        step //= 2
    if t % 32 == 0:
        partial[t // 32] = total
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(WARPS):
            total += partial[k]
        out[cuda.blockIdx.x] = total


@cuda.jit
def reduce_v6(x, out):
    s = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    s[t] = total
    cuda.syncthreads()
    step = THREADS // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@cuda.jit
def reduce_atomic(x, out):
    i = cuda.grid(1)
    cuda.atomic.add(out, 0, x[i])


@cuda.jit
def matmul_naive(a, b, c):
    column, row = cuda.grid(2)
    total = float32(0)
    for k in range(a.shape[1]):
        total += a[row, k] * b[k, column]
    c[row, column] = total


@cuda.jit
def matmul_tiled(a, b, c):
    s_a = cuda.shared.array((MATMUL_TILE, MATMUL_TILE), float32)
    s_b = cuda.shared.array((MATMUL_TILE, MATMUL_TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], MATMUL_TILE):
        s_a[ty, tx] = a[row, start + tx]
        s_b[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(MATMUL_TILE):
            total += s_a[ty, k] * s_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit
def histogram_global(x, bins):
    i = cuda.grid(1)
    cuda.atomic.add(bins, x[i], 1)


@cuda.jit
def histogram_shared(x, bins):
    s = cuda.shared.array(BINS, int32)
    t = cuda.threadIdx.x
    if t < BINS:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, x[cuda.grid(1)], 1)
    cuda.syncthreads()
    if t < BINS:
        cuda.atomic.add(bins, t, s[t])


@cuda.jit
def shared_stride_float32(x, y, stride):
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    i = t * stride[0] % 1024
    s[i] = x[t]
    cuda.syncthreads()
    y[t] = s[i]


@cuda.jit
def shared_stride_float64(x, y, stride):
    s = cuda.shared.array(1024, float64)
    t = cuda.threadIdx.x
    i = t * stride[0] % 1024
    s[i] = x[t]
    cuda.syncthreads()
    y[t] = s[i]


@cuda.jit
def shared_complex128(x, y):
    s = cuda.shared.array(THREADS, complex128)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    y[t] = s[t ^ 1]


@cuda.jit
def divergent_tail(x, y):
    i = cuda.grid(1)
    value = x[i]
    for _ in range(i % 32):
        value = value * float32(0.5) + x[i]
    y[i] = value


def _vectors(n: int, dtype: Any = np.float32) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        return np.arange(n).astype(dtype), np.zeros(n, dtype)

    return make


def _square(dtype: Any = np.float32) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        x = np.arange(SIDE * SIDE).reshape(SIDE, SIDE).astype(dtype)
        return x, np.zeros_like(x)

    return make


def _sums(n: int, blocks: int) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        return np.ones(n, np.float32), np.zeros(blocks, np.float32)

    return make


def _gathered() -> tuple[Any, ...]:
    index = np.random.default_rng(0).permutation(N).astype(np.int32)
    return np.arange(N, dtype=np.float32), index, np.zeros(N, np.float32)


def _matrices() -> tuple[Any, ...]:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 5, (MATRIX, MATRIX)).astype(np.float32) for _ in range(2))
    return a, b, np.zeros_like(a)


def _counted() -> tuple[Any, ...]:
    return (
        np.random.default_rng(2).integers(0, BINS, N).astype(np.int32),
        np.zeros(BINS, np.int32),
    )


def _stride(dtype: Any, stride: int) -> Callable[[], tuple[Any, ...]]:
    def make() -> tuple[Any, ...]:
        return (
            np.arange(THREADS).astype(dtype),
            np.zeros(THREADS, dtype),
            np.array([stride], np.int32),
        )

    return make


_SIDES = (SIDE // TILE, SIDE // TILE)
_TILES = (MATRIX // MATMUL_TILE, MATRIX // MATMUL_TILE)
_TILE_BLOCK = (MATMUL_TILE, MATMUL_TILE)

CASES = (
    Case("copy", copy, BLOCKS, THREADS, _vectors(N)),
    Case("copy, stride 2", copy_stride_2, BLOCKS, THREADS, _vectors(2 * N)),
    Case("copy, stride 32", copy_stride_32, BLOCKS, THREADS, _vectors(32 * N)),
    Case("copy, off by one", copy_misaligned, BLOCKS, THREADS, _vectors(N + 1)),
    Case("copy, int8", copy, BLOCKS, THREADS, _vectors(N, np.int8)),
    Case("copy, float64", copy, BLOCKS, THREADS, _vectors(N, np.float64)),
    Case("copy, complex128", copy, BLOCKS, THREADS, _vectors(N, np.complex128)),
    Case("gather, random", gather, BLOCKS, THREADS, _gathered),
    Case("add, guarded tail", add_tail, BLOCKS, THREADS, _vectors(N - 100)),
    Case("transpose, naive", transpose_naive, _SIDES, (TILE, TILE), _square()),
    Case("transpose, tiled", transpose_tiled, _SIDES, (TILE, TILE), _square()),
    Case("transpose, padded", transpose_padded, _SIDES, (TILE, TILE), _square()),
    Case(
        "transpose, tiled, float64",
        transpose_tiled_float64,
        _SIDES,
        (TILE, TILE),
        _square(np.float64),
    ),
    Case(
        "transpose, padded, float64",
        transpose_padded_float64,
        _SIDES,
        (TILE, TILE),
        _square(np.float64),
    ),
    Case("reduce v0, interleaved", reduce_v0, BLOCKS, THREADS, _sums(N, BLOCKS)),
    Case("reduce v1, strided", reduce_v1, BLOCKS, THREADS, _sums(N, BLOCKS)),
    Case("reduce v2, sequential", reduce_v2, BLOCKS, THREADS, _sums(N, BLOCKS)),
    Case("reduce v3, first add", reduce_v3, BLOCKS, THREADS, _sums(2 * N, BLOCKS)),
    Case("reduce v4, last warp shuffles", reduce_v4, BLOCKS, THREADS, _sums(2 * N, BLOCKS)),
    Case("reduce v5, all shuffles", reduce_v5, BLOCKS, THREADS, _sums(2 * N, BLOCKS)),
    Case("reduce v6, many elements", reduce_v6, BLOCKS, THREADS, _sums(8 * N, BLOCKS)),
    Case("reduce, one atomic", reduce_atomic, BLOCKS, THREADS, _sums(N, 1)),
    Case("matmul, naive", matmul_naive, _TILES, _TILE_BLOCK, _matrices),
    Case("matmul, tiled", matmul_tiled, _TILES, _TILE_BLOCK, _matrices),
    Case("histogram, global", histogram_global, BLOCKS, THREADS, _counted),
    Case("histogram, shared", histogram_shared, BLOCKS, THREADS, _counted),
    Case("shared float32, stride 1", shared_stride_float32, 1, THREADS, _stride(np.float32, 1)),
    Case("shared float32, stride 2", shared_stride_float32, 1, THREADS, _stride(np.float32, 2)),
    Case("shared float32, stride 32", shared_stride_float32, 1, THREADS, _stride(np.float32, 32)),
    Case("shared float64, stride 0", shared_stride_float64, 1, THREADS, _stride(np.float64, 0)),
    Case("shared float64, stride 1", shared_stride_float64, 1, THREADS, _stride(np.float64, 1)),
    Case("shared float64, stride 2", shared_stride_float64, 1, THREADS, _stride(np.float64, 2)),
    Case("shared float64, stride 16", shared_stride_float64, 1, THREADS, _stride(np.float64, 16)),
    Case("shared complex128", shared_complex128, 1, THREADS, _vectors(THREADS, np.complex128)),
    Case("loop of other length a lane", divergent_tail, BLOCKS, THREADS, _vectors(N)),
)
