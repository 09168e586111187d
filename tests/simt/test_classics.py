"""Classic kernels, each against NumPy, on sizes around the block and the tile."""

import numpy as np
import pytest
from numba import cuda, float32, int32

FULL = 0xFFFFFFFF
BLOCK, TILE = 64, 8
SIZES = [1, 31, 63, 64, 65, 127, 128, 200, 257]


def normal(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


@cuda.jit
def reduce_interleaved(x, out):
    s = cuda.shared.array(BLOCK, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    stride = 1
    while stride < BLOCK:
        if t % (2 * stride) == 0:
            s[t] += s[t + stride]
        cuda.syncthreads()
        stride *= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit
def reduce_sequential(x, out):
    s = cuda.shared.array(BLOCK, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    stride = BLOCK // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit
def reduce_grid_stride(x, out):
    s = cuda.shared.array(BLOCK, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    s[t] = total
    cuda.syncthreads()
    if t < 32:
        s[t] += s[t + 32]
        cuda.syncwarp()
        for stride in (16, 8, 4, 2, 1):
            value = s[t + stride] if t < stride else float32(0)
            cuda.syncwarp()
            s[t] += value
            cuda.syncwarp()
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit(device=True)
def warp_sum(value):
    for delta in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(FULL, value, delta)
    return value


@cuda.jit
def reduce_shuffle(x, out):
    partial = cuda.shared.array(BLOCK // 32, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    value = warp_sum(x[i] if i < x.size else float32(0))
    if cuda.laneid == 0:
        partial[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = warp_sum(partial[t] if t < BLOCK // 32 else float32(0))
        if t == 0:
            cuda.atomic.add(out, 0, value)


REDUCTIONS = [reduce_interleaved, reduce_sequential, reduce_grid_stride, reduce_shuffle]


@pytest.mark.parametrize("kernel", REDUCTIONS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("n", SIZES)
def test_reduction_sums(kernel, n):
    x, out = normal(n), np.zeros(1, np.float32)
    kernel[-(-n // BLOCK), BLOCK](x, out)
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5, atol=1e-5)


@cuda.jit
def block_scan(x, out, sums):
    s = cuda.shared.array((2, BLOCK), int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[0, t] = x[i] if i < x.size else 0
    source, step = 0, 1
    while step < BLOCK:
        cuda.syncthreads()
        s[1 - source, t] = s[source, t] + (s[source, t - step] if t >= step else 0)
        source = 1 - source
        step *= 2
    if i < x.size:
        out[i] = s[source, t]
    if t == BLOCK - 1:
        sums[cuda.blockIdx.x] = s[source, t]


@cuda.jit
def add_offsets(out, sums):
    i = cuda.grid(1)
    if i < out.size:
        for block in range(cuda.blockIdx.x):
            out[i] += sums[block]


@pytest.mark.parametrize("n", SIZES)
def test_scan_gives_prefix_sums(n):
    x = np.random.default_rng(n).integers(-9, 9, n).astype(np.int32)
    blocks = -(-n // BLOCK)
    out, sums = cuda.device_array(n, np.int32), cuda.device_array(blocks, np.int32)
    block_scan[blocks, BLOCK](x, out, sums)
    add_offsets[blocks, BLOCK](out, sums)
    assert (out.copy_to_host() == np.cumsum(x)).all()


@cuda.jit
def matmul(a, b, c):
    tile_a, tile_b = (
        cuda.shared.array((TILE, TILE), float32),
        cuda.shared.array((TILE, TILE), float32),
    )
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        inside = row < a.shape[0] and start + x < a.shape[1]
        tile_a[y, x] = a[row, start + x] if inside else 0
        inside = start + y < b.shape[0] and col < b.shape[1]
        tile_b[y, x] = b[start + y, col] if inside else 0
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (8, 8, 8), (9, 17, 7), (16, 5, 12)])
def test_tiled_matmul_multiplies(m, k, n):
    a, b, c = normal(m, k), normal(k, n), np.full((m, n), np.nan, np.float32)
    matmul[(-(-n // TILE), -(-m // TILE)), (TILE, TILE)](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@cuda.jit
def transpose(x, out):
    tile = cuda.shared.array((TILE, TILE + 0), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        tile[ty, tx] = x[row, col]
    cuda.syncthreads()
    col, row = cuda.blockIdx.y * TILE + tx, cuda.blockIdx.x * TILE + ty
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = tile[tx, ty]


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (9, 7), (3, 20)])
def test_transpose_through_shared_memory(shape):
    x, out = normal(*shape), np.full(shape[::-1], np.nan, np.float32)
    transpose[(-(-shape[1] // TILE), -(-shape[0] // TILE)), (TILE, TILE)](x, out)
    assert (out == x.T).all()


@cuda.jit
def private_histogram(x, bins):
    mine = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        mine[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, x[i] & 15, 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(bins, t, mine[t])


def test_privatised_histogram_counts():
    x = np.random.default_rng(5).integers(0, 16, 500).astype(np.uint8)
    bins = np.zeros(16, np.int32)
    private_histogram[3, BLOCK](x, bins)
    assert (bins == np.bincount(x, minlength=16)).all()


@cuda.jit
def cooperative_sum(x, out):
    stride = x.size // 2
    i = cuda.grid(1)
    while stride > 0:
        if i < stride:
            x[i] += x[i + stride]
        cuda.cg.this_grid().sync()
        stride //= 2
    if i == 0:
        out[0] = x[0]


def test_cooperative_sum_over_blocks():
    x, out = np.arange(64, dtype=np.int64), np.zeros(1, np.int64)
    cooperative_sum[8, 8](cuda.to_device(x), out)
    assert out[0] == 63 * 32


@cuda.jit
def last_block_sums(x, partial, ticket, out):
    s = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        partial[cuda.blockIdx.x] = x[cuda.grid(1)]
        cuda.threadfence()
        s[0] = cuda.atomic.inc(ticket, 0, cuda.gridDim.x - 1)
    cuda.syncthreads()
    if s[0] == cuda.gridDim.x - 1 and t == 0:
        total = float32(0)
        for b in range(cuda.gridDim.x):
            total += partial[b]
        out[0] = total


def test_last_block_adds_the_partial_sums():
    x = np.arange(12, dtype=np.float32)
    ticket, out = np.zeros(1, np.uint32), np.zeros(1, np.float32)
    last_block_sums[3, 4](x, cuda.device_array(3, np.float32), ticket, out)
    assert out[0] == 0 + 4 + 8
    assert ticket[0] == 0


@cuda.jit
def online_softmax(x, out):
    row = x[cuda.blockIdx.x]
    t = cuda.threadIdx.x
    largest, total = float32(-np.inf), float32(0)
    for j in range(t, row.size, 32):
        new = max(largest, row[j])
        total = total * math_exp(largest - new) + math_exp(row[j] - new)
        largest = new
    for delta in (16, 8, 4, 2, 1):
        other = cuda.shfl_xor_sync(FULL, largest, delta)
        count = cuda.shfl_xor_sync(FULL, total, delta)
        new = max(largest, other)
        if new > float32(-np.inf):
            total = total * math_exp(largest - new) + count * math_exp(other - new)
            largest = new
    for j in range(t, row.size, 32):
        out[cuda.blockIdx.x, j] = math_exp(row[j] - largest) / total


from math import exp as math_exp  # noqa: E402 (a kernel's globals are looked up at the launch)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 70])
def test_online_softmax_sums_to_one(n):
    x, out = normal(3, n) * 50, np.full((3, n), np.nan, np.float32)
    online_softmax[3, 32](x, out)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-7)
