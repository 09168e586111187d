import numpy as np
from numba import cuda, float32

TILE = 16


@cuda.jit
def multiply(a, b, c):
    tile_a = cuda.shared.array((TILE, TILE), float32)
    tile_b = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)

    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        tile_a[ty, tx] = tile_b[ty, tx] = float32(0)
        if row < a.shape[0] and start + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and col < b.shape[1]:
            tile_b[ty, tx] = b[start + ty, col]
        cuda.syncthreads()
        for k in range(TILE):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()

    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


def matmul(a, b):
    c = cuda.device_array((a.shape[0], b.shape[1]), np.float32)
    blocks = -(-c.shape[1] // TILE), -(-c.shape[0] // TILE)
    multiply[blocks, (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    return c.copy_to_host()
