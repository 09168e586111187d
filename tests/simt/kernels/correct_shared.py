"""Correct kernels that pass data through shared memory by barriers of the block."""

import math

import numpy as np
from numba import complex64, cuda, float32, float64, int8, int32

from kernels.case import Case, case, floats, ints, unwritten, zeros

CASES: list[Case] = []
correct = case(CASES)
N, T = 64, 8
PADDED, HALO = T + 1, T + 2  # a shared array takes a name or a number, no expression
LINE_AND_HALO = N + 2


def line():
    return floats(N), unwritten(N)


def whole_line():
    return ints(N), unwritten(N, np.int32)


def matrices(m, k, n):
    return lambda: (floats(m, k), floats(k, n), unwritten((m, n)))


def product(a, b, c):
    return a.astype(np.float64) @ b


def total(x, *_):
    return x.sum(dtype=np.float64)


@correct(1, N, line, lambda x, out: x[::-1])
@cuda.jit
def mirror(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[N - 1 - t]


@correct(1, (4, 4, 4), lambda: (floats(4, 4, 4), unwritten((4, 4, 4))), lambda x, out: x[::-1])
@cuda.jit
def flip_cube(x, out):
    cube = cuda.shared.array((4, 4, 4), float32)
    i, j, k = cuda.threadIdx.z, cuda.threadIdx.y, cuda.threadIdx.x
    cube[i, j, k] = x[i, j, k]
    cuda.syncthreads()
    out[i, j, k] = cube[3 - i, j, k]


@correct(3, N, lambda: (floats(150), zeros(1)), total)
@cuda.jit
def tree_reduction(x, out):
    s = cuda.shared.array(N, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    stride = N // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@correct(2, N, lambda: (floats(128), unwritten(2)), lambda x, out: x.reshape(2, N).sum(1))
@cuda.jit
def interleaved_reduction(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    stride = 1
    while stride < N:
        cuda.syncthreads()
        if t % (2 * stride) == 0:
            s[t] += s[t + stride]
        stride *= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


@correct((2, 2), (T, T), matrices(16, 16, 16), product)
@cuda.jit
def matmul_tiled_square(a, b, c):
    tile_a, tile_b = cuda.shared.array((T, T), float32), cuda.shared.array((T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], T):
        tile_a[y, x] = a[row, start + x]
        tile_b[y, x] = b[start + y, col]
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    c[row, col] = total


@correct((2, 2), (T, T), matrices(9, 17, 13), product)
@cuda.jit
def matmul_tiled_ragged(a, b, c):
    tile_a = cuda.shared.array((T, T), float32)
    tile_b = cuda.shared.array((T, PADDED), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, a.shape[1], T):
        inside = row < a.shape[0] and start + x < a.shape[1]
        tile_a[y, x] = a[row, start + x] if inside else float32(0)
        inside = start + y < b.shape[0] and col < b.shape[1]
        tile_b[y, x] = b[start + y, col] if inside else float32(0)
        cuda.syncthreads()
        for k in range(T):
            total += tile_a[y, k] * tile_b[k, x]
        cuda.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@correct(1, (T, T), matrices(8, 32, 8), product)
@cuda.jit
def matmul_double_buffered(a, b, c):
    tile_a = cuda.shared.array((2, T, T), float32)
    tile_b = cuda.shared.array((2, T, T), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    tile_a[0, y, x] = a[y, x]
    tile_b[0, y, x] = b[y, x]
    cuda.syncthreads()
    total = float32(0)
    stage = 0
    for start in range(T, a.shape[1] + T, T):
        if start < a.shape[1]:
            tile_a[1 - stage, y, x] = a[y, start + x]
            tile_b[1 - stage, y, x] = b[start + y, x]
        for k in range(T):
            total += tile_a[stage, y, k] * tile_b[stage, k, x]
        cuda.syncthreads()
        stage = 1 - stage
    c[y, x] = total


@correct(1, (4, 4), matrices(8, 8, 8), product)
@cuda.jit
def matmul_with_register_tile(a, b, c):
    mine = cuda.local.array((2, 2), float32)
    for i in range(2):
        for j in range(2):
            mine[i, j] = 0
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    for k in range(8):
        for i in range(2):
            for j in range(2):
                mine[i, j] += a[2 * y + i, k] * b[k, 2 * x + j]
    for i in range(2):
        for j in range(2):
            c[2 * y + i, 2 * x + j] = mine[i, j]


@correct((3, 2), (T, T), lambda: (floats(13, 20), unwritten((20, 13))), lambda x, out: x.T)
@cuda.jit
def transpose_padded(x, out):
    tile = cuda.shared.array((T, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        tile[ty, tx] = x[row, col]
    cuda.syncthreads()
    col, row = cuda.blockIdx.y * T + tx, cuda.blockIdx.x * T + ty
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = tile[tx, ty]


@correct((2, 2), (T, T), lambda: (floats(16, 16), unwritten((16, 16))), lambda x, out: x.T)
@cuda.jit
def transpose_swizzled(x, out):
    tile = cuda.shared.array((T, T), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    tile[ty, tx ^ ty] = x[row, col]
    cuda.syncthreads()
    out[cuda.blockIdx.x * T + ty, cuda.blockIdx.y * T + tx] = tile[tx, tx ^ ty]


@correct(
    3, N, lambda: (floats(150), unwritten(150)), lambda x, out: np.convolve(x, [1, 1, 1], "same")
)
@cuda.jit
def stencil_with_halo(x, out):
    s = cuda.shared.array(LINE_AND_HALO, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    s[t + 1] = x[i] if i < x.size else float32(0)
    if t == 0:
        s[0] = x[i - 1] if i > 0 else float32(0)
    if t == N - 1:
        s[N + 1] = x[i + 1] if i + 1 < x.size else float32(0)
    cuda.syncthreads()
    if i < x.size:
        out[i] = s[t] + s[t + 1] + s[t + 2]


@correct(
    (2, 2),
    (T, T),
    lambda: (floats(14, 15), unwritten((14, 15))),
    lambda x, out: sum(
        np.pad(x, 1)[i : i + 14, j : j + 15] for i, j in ((0, 1), (1, 0), (1, 2), (2, 1))
    ),
)
@cuda.jit
def stencil_2d_with_halo(x, out):
    tile = cuda.shared.array((HALO, HALO), float32)
    first_row, first_col = cuda.blockIdx.y * T - 1, cuda.blockIdx.x * T - 1
    for k in range(cuda.threadIdx.y * T + cuda.threadIdx.x, HALO * HALO, T * T):
        i, j = k // HALO, k % HALO
        row, col = first_row + i, first_col + j
        inside = row >= 0 and row < x.shape[0] and col >= 0 and col < x.shape[1]
        tile[i, j] = x[row, col] if inside else float32(0)
    cuda.syncthreads()
    col, row = cuda.grid(2)
    if row < x.shape[0] and col < x.shape[1]:
        i, j = cuda.threadIdx.y + 1, cuda.threadIdx.x + 1
        out[row, col] = tile[i - 1, j] + tile[i + 1, j] + tile[i, j - 1] + tile[i, j + 1]


@correct(1, N, line, lambda x, out: np.roll(x, 1) + x + np.roll(x, -1))
@cuda.jit
def stencil_in_place_with_two_barriers(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    value = s[(t + N - 1) % N] + s[t] + s[(t + 1) % N]
    cuda.syncthreads()
    s[t] = value
    out[t] = s[t]


def smoothed(x, out):
    for _ in range(6):
        x = (np.roll(x, 1) + np.roll(x, -1)) / 2
    return x


@correct(1, N, line, smoothed)
@cuda.jit
def ping_pong(x, out):
    s = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    source = 0
    for _ in range(6):
        cuda.syncthreads()
        s[1 - source, t] = (s[source, (t + N - 1) % N] + s[source, (t + 1) % N]) / float32(2)
        source = 1 - source
    out[t] = s[source, t]


@correct(1, N, whole_line, lambda x, out: np.cumsum(x))
@cuda.jit
def scan_hillis_steele(x, out):
    s = cuda.shared.array((2, N), int32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    source, step = 0, 1
    while step < N:
        cuda.syncthreads()
        s[1 - source, t] = s[source, t] + (s[source, t - step] if t >= step else 0)
        source = 1 - source
        step *= 2
    out[t] = s[source, t]


@correct(1, N, whole_line, lambda x, out: np.cumsum(x))
@cuda.jit
def scan_in_one_buffer_through_registers(x, out):
    s = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < N:
        before = s[t - step] if t >= step else 0
        cuda.syncthreads()
        s[t] += before
        cuda.syncthreads()
        step *= 2
    out[t] = s[t]


@correct(1, N // 2, whole_line, lambda x, out: np.cumsum(x) - x)
@cuda.jit
def scan_blelloch(x, out):
    s = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    s[2 * t] = x[2 * t]
    s[2 * t + 1] = x[2 * t + 1]
    step, pairs = 1, N // 2
    while pairs > 0:
        cuda.syncthreads()
        if t < pairs:
            s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1]
        step *= 2
        pairs //= 2
    if t == 0:
        s[N - 1] = 0
    pairs = 1
    while pairs < N:
        step //= 2
        cuda.syncthreads()
        if t < pairs:
            left, right = step * (2 * t + 1) - 1, step * (2 * t + 2) - 1
            value = s[left]
            s[left] = s[right]
            s[right] += value
        pairs *= 2
    cuda.syncthreads()
    out[2 * t] = s[2 * t]
    out[2 * t + 1] = s[2 * t + 1]


@correct(1, N, whole_line, lambda x, out: np.sort(x))
@cuda.jit
def sort_bitonic(x, out):
    s = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    size = 2
    while size <= N:
        stride = size // 2
        while stride > 0:
            cuda.syncthreads()
            other = t ^ stride
            if other > t:
                low, high = s[t], s[other]
                if (low > high) == (t & size == 0):
                    s[t] = high
                    s[other] = low
            stride //= 2
        size *= 2
    cuda.syncthreads()
    out[t] = s[t]


@correct(1, N // 2, whole_line, lambda x, out: np.sort(x))
@cuda.jit
def sort_odd_even(x, out):
    s = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t + N // 2] = x[t + N // 2]
    for phase in range(N):
        cuda.syncthreads()
        i = 2 * t + phase % 2
        if i + 1 < N and s[i] > s[i + 1]:
            value = s[i]
            s[i] = s[i + 1]
            s[i + 1] = value
    cuda.syncthreads()
    out[t] = s[t]
    out[t + N // 2] = s[t + N // 2]


@correct(1, N, lambda: (ints(N, 16), unwritten(N, np.int32)), lambda x, out: np.sort(x))
@cuda.jit
def radix_sort_bit_by_bit(x, out):
    keys = cuda.shared.array(N, int32)
    ones = cuda.shared.array((2, N), int32)
    t = cuda.threadIdx.x
    keys[t] = x[t]
    for bit in range(4):
        cuda.syncthreads()
        key = keys[t]
        mine = key >> bit & 1
        ones[0, t] = mine
        source, step = 0, 1
        while step < N:
            cuda.syncthreads()
            ones[1 - source, t] = ones[source, t] + (ones[source, t - step] if t >= step else 0)
            source = 1 - source
            step *= 2
        cuda.syncthreads()
        before = ones[source, t]
        zero_count = N - ones[source, N - 1]
        place = zero_count + before - 1 if mine == 1 else t - before
        keys[place] = key
    cuda.syncthreads()
    out[t] = keys[t]


@correct(
    2, N, lambda: (ints(300, 16), zeros(16, np.int32)), lambda x, out: np.bincount(x, minlength=16)
)
@cuda.jit
def histogram_privatised(x, out):
    mine = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        mine[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(out, t, mine[t])


@correct(
    2, N, lambda: (ints(300, 16), zeros(16, np.int32)), lambda x, out: np.bincount(x, minlength=16)
)
@cuda.jit
def histogram_per_warp(x, out):
    mine = cuda.shared.array((2, 16), int32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    if lane < 16:
        mine[warp, lane] = 0
    cuda.syncwarp()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, (warp, x[i]), 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(out, t, mine[0, t] + mine[1, t])


@correct(
    4,
    32,
    lambda: (floats(4, 70), unwritten((4, 70))),
    lambda x, out: np.exp(x) / np.exp(x).sum(1, keepdims=True),
)
@cuda.jit
def softmax_by_rows(x, out):
    s = cuda.shared.array(32, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    largest = float32(-np.inf)
    for j in range(t, x.shape[1], 32):
        largest = max(largest, x[row, j])
    s[t] = largest
    cuda.syncthreads()
    for k in range(32):
        largest = max(largest, s[k])
    cuda.syncthreads()
    total = float32(0)
    for j in range(t, x.shape[1], 32):
        total += math.exp(x[row, j] - largest)
    s[t] = total
    cuda.syncthreads()
    total = float32(0)
    for k in range(32):
        total += s[k]
    for j in range(t, x.shape[1], 32):
        out[row, j] = math.exp(x[row, j] - largest) / total


@cuda.jit(device=True)
def block_sum(s, t, value):
    """The sum of ``value`` over the block; the caller may use ``s`` again at once."""
    s[t] = value
    cuda.syncthreads()
    total = float32(0)
    for k in range(cuda.blockDim.x):
        total += s[k]
    cuda.syncthreads()
    return total


@correct(
    3,
    32,
    lambda: (floats(3, 50), unwritten((3, 50))),
    lambda x, out: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True),
)
@cuda.jit
def layer_norm(x, out):
    s = cuda.shared.array(32, float32)
    row, t = x[cuda.blockIdx.x], cuda.threadIdx.x
    mine = float32(0)
    for j in range(t, row.size, 32):
        mine += row[j]
    mean = block_sum(s, t, mine) / row.size
    mine = float32(0)
    for j in range(t, row.size, 32):
        mine += (row[j] - mean) ** 2
    deviation = math.sqrt(block_sum(s, t, mine) / row.size)
    for j in range(t, row.size, 32):
        out[cuda.blockIdx.x, j] = (row[j] - mean) / deviation


@correct(1, 100, lambda: (floats(70), unwritten(70)), lambda x, out: x + x[0])
@cuda.jit
def early_return_before_any_barrier(x, out):
    s = cuda.shared.array(100, float32)
    t = cuda.threadIdx.x
    if t >= x.size:
        return
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t] + s[0]


@correct(1, 128, lambda: (floats(64), unwritten(64)), lambda x, out: x[::-1])
@cuda.jit
def whole_warps_return_before_the_barrier(x, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t >= 64:
        return
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[63 - t]


@correct(
    3, 32, lambda: (floats(64), unwritten(64)), lambda x, out: x.reshape(2, 32)[:, ::-1].ravel()
)
@cuda.jit
def whole_block_returns_before_the_barrier(x, out):
    s = cuda.shared.array(32, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if cuda.blockIdx.x * 32 >= x.size:
        return
    s[t] = x[i]
    cuda.syncthreads()
    out[i] = s[31 - t]


@correct(
    1,
    N,
    lambda: (floats(N), unwritten((2, N))),
    lambda x, out: [x[::-1], np.arange(N)[::-1]],
    dynamic_bytes=8 * N,
)
@cuda.jit
def dynamic_memory_in_two_views(x, out):
    values = cuda.shared.array(0, float32)[0:N]
    numbers = cuda.shared.array(0, int32)[N : 2 * N]
    t = cuda.threadIdx.x
    values[t] = x[t]
    numbers[t] = t
    cuda.syncthreads()
    out[0, t] = values[N - 1 - t]
    out[1, t] = numbers[N - 1 - t]


@correct(
    1,
    N,
    lambda: (floats(N), ints(N), unwritten(N)),
    lambda x, y, out: x[::-1] + y[::-1],
    dynamic_bytes=4 * N,
)
@cuda.jit
def dynamic_memory_reused_as_another_type(x, y, out):
    values = cuda.shared.array(0, float32)
    numbers = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    values[t] = x[t]
    cuda.syncthreads()
    value = values[N - 1 - t]
    cuda.syncthreads()
    numbers[t] = y[t]
    cuda.syncthreads()
    out[t] = value + numbers[N - 1 - t]


@correct(1, N, lambda: (unwritten(N, np.int8),), lambda out: np.arange(N)[::-1])
@cuda.jit
def neighbouring_bytes_of_one_word(out):
    octets = cuda.shared.array(N, int8)
    t = cuda.threadIdx.x
    octets[t] = t
    cuda.syncthreads()
    out[t] = octets[N - 1 - t]


@correct(
    1,
    N,
    lambda: (unwritten(N // 4, np.int32),),
    lambda out: np.arange(N, dtype=np.int8).view(np.int32),
    dynamic_bytes=N,
)
@cuda.jit
def word_read_after_four_threads_wrote_its_bytes(out):
    octets = cuda.shared.array(0, int8)
    words = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    octets[t] = t
    cuda.syncthreads()
    if t < N // 4:
        out[t] = words[t]


@correct(1, N, line, lambda x, out: 2 * x + x[0])
@cuda.jit
def cell_of_ones_own_needs_no_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    s[t] += s[t]
    out[t] = s[t] + x[0]


@correct(1, N, line, lambda x, out: x.reshape(2, 32)[:, ::-1].ravel() + x[::-1])
@cuda.jit
def one_array_reused_after_a_barrier(x, out):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    value = s[N - 1 - t]
    cuda.syncthreads()
    s[t ^ 31] = x[t]
    cuda.syncthreads()
    out[t] = value + s[t]


@correct(
    1,
    N,
    lambda: (floats(N).astype(np.float16), unwritten(N, np.float16)),
    lambda x, out: x + x[::-1],
    rtol=2e-3,
)
@cuda.jit
def halves(x, out):
    s = cuda.shared.array(N, np.float16)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t] + s[N - 1 - t]


@correct(
    1,
    N,
    lambda: ((floats(N) + 1j * floats(N)[::-1]).astype(np.complex64), unwritten(N, np.complex64)),
    lambda x, out: x * x[::-1],
)
@cuda.jit
def complex_numbers(x, out):
    s = cuda.shared.array(N, complex64)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t] * s[N - 1 - t]


@correct(
    1, N, lambda: (floats(N).astype(np.float64), unwritten(1, np.float64)), lambda x, out: x.max()
)
@cuda.jit
def maximum_of_doubles(x, out):
    s = cuda.shared.array(N, float64)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    stride = N // 2
    while stride > 0:
        if t < stride:
            s[t] = max(s[t], s[t + stride])
        cuda.syncthreads()
        stride //= 2
    if t == 0:
        out[0] = s[0]


@correct(
    1,
    N,
    lambda: (np.array([1, 2, 3, 4, 5, 6, 63, 0] * 8, np.int32), unwritten(N, np.int32)),
    lambda x, out: distances(x),
)
@cuda.jit
def breadth_first_until_nothing_changes(edges, out):
    level = cuda.shared.array(N, int32)
    t = cuda.threadIdx.x
    level[t] = 0 if t == 0 else -1
    depth = 0
    changed = 1
    while changed > 0:
        cuda.syncthreads()
        reached = 0
        if level[t] == -1:
            for k in range(N):
                if level[k] == depth and edges[k] == t:
                    reached = 1
        changed = cuda.syncthreads_count(reached)
        depth += 1
        if reached == 1:
            level[t] = depth
    out[t] = level[t]


def distances(edges):
    """Steps from 0 along ``edges``, -1 where it can't be reached."""
    level, node, depth = np.full(N, -1), 0, 0
    while level[node] == -1:
        level[node], node, depth = depth, edges[node], depth + 1
    return level


@correct(1, N, lambda: (ints(N), unwritten(1, np.int32)), lambda x, out: [int((x > 50).any())])
@cuda.jit
def any_by_syncthreads_or(x, out):
    t = cuda.threadIdx.x
    found = cuda.syncthreads_or(1 if x[t] > 50 else 0)
    if t == 0:
        out[0] = 1 if found else 0
