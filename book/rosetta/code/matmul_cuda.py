import cupy as cp
import numpy as np

TILE = 16
SOURCE = r"""
const int TILE = 16;

extern "C" __global__
void multiply(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int col = blockIdx.x * TILE + tx, row = blockIdx.y * TILE + ty;

    float total = 0;
    for (int start = 0; start < k; start += TILE) {
        bool in_a = row < m && start + tx < k, in_b = start + ty < k && col < n;
        tile_a[ty][tx] = in_a ? a[(long long)row * k + start + tx] : 0;
        tile_b[ty][tx] = in_b ? b[(long long)(start + ty) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i)
            total += tile_a[ty][i] * tile_b[i][tx];
        __syncthreads();
    }

    if (row < m && col < n)
        c[(long long)row * n + col] = total;
}
"""
multiply = cp.RawKernel(SOURCE, "multiply")


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = cp.empty((m, n), cp.float32)
    blocks = -(-n // TILE), -(-m // TILE)
    args = cp.asarray(a), cp.asarray(b), c, np.int32(m), np.int32(n), np.int32(k)
    multiply(blocks, (TILE, TILE), args)
    return c.get()
