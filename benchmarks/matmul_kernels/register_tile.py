"""C = A·B in Numba: a tile of C for each block, 8 × 8 numbers of it in each thread's registers.

a: (M, K), b: (K, N), c: (M, N), float32. Any size; rows need not be aligned.

Numba reads shared memory 4 bytes at a time, so that 64 multiplications cost 16 loads (4 with
float4): 80 % of the instructions multiply at best. A thread's rows and columns lie 16 apart, so
that the threads of a warp read 16 neighbours of B and 2 of A. Two buffers: the next tile travels
in registers while this one is used, and one barrier a tile is enough.
"""

import numpy as np
from numba import cuda, float32, uint32

TILE, TILE_K = 128, 8
SIDE = 16  # 16 × 16 threads
EACH = 8  # × 8 numbers of C a thread
THREADS = SIDE * SIDE
COPIES = TILE * TILE_K // THREADS  # numbers of A, and of B, that a thread moves
PADDED = TILE + 4  # the 4 rows × 8 k that a warp stores at a time: 32 banks


@cuda.jit(launch_bounds=(THREADS, 2))
def matmul_numba(a, b, c):
    s_a = cuda.shared.array((2, TILE_K, PADDED), float32)  # transposed: k, then m
    s_b = cuda.shared.array((2, TILE_K, TILE), float32)
    r_a = cuda.local.array(EACH, float32)
    r_b = cuda.local.array(EACH, float32)
    next_a = cuda.local.array(COPIES, float32)
    next_b = cuda.local.array(COPIES, float32)
    total = cuda.local.array((EACH, EACH), float32)

    size_m, size_k, size_n = uint32(a.shape[0]), uint32(a.shape[1]), uint32(b.shape[1])
    thread = uint32(cuda.threadIdx.x)
    thread_m, thread_n = thread // uint32(SIDE), thread % uint32(SIDE)
    first_m = uint32(cuda.blockIdx.y) * uint32(TILE)
    first_n = uint32(cuda.blockIdx.x) * uint32(TILE)
    copy_m, copy_ak = thread // uint32(TILE_K), thread % uint32(TILE_K)
    copy_bk, copy_n = thread // uint32(TILE), thread % uint32(TILE)
    tiles = (size_k + uint32(TILE_K - 1)) // uint32(TILE_K)

    for i in range(EACH):
        for j in range(EACH):
            total[i, j] = float32(0)

    # tile 0 fills buffer 0 before the loop; in the loop, tile + 1 the other one
    for tile in range(tiles + uint32(1)):
        if tile < tiles:
            for i in range(COPIES):
                m = first_m + copy_m + uint32(i * (THREADS // TILE_K))
                k = tile * uint32(TILE_K) + copy_ak
                next_a[i] = a[m, k] if m < size_m and k < size_k else float32(0)
                n = first_n + copy_n
                k = tile * uint32(TILE_K) + copy_bk + uint32(i * (THREADS // TILE))
                next_b[i] = b[k, n] if n < size_n and k < size_k else float32(0)
        buffer = tile & uint32(1)
        if tile > uint32(0):
            used = buffer ^ uint32(1)
            for k in range(TILE_K):
                for i in range(EACH):
                    r_a[i] = s_a[used, uint32(k), thread_m + uint32(i * SIDE)]
                    r_b[i] = s_b[used, uint32(k), thread_n + uint32(i * SIDE)]
                for i in range(EACH):
                    for j in range(EACH):
                        total[i, j] += r_a[i] * r_b[j]
        if tile < tiles:
            for i in range(COPIES):
                s_a[buffer, copy_ak, copy_m + uint32(i * (THREADS // TILE_K))] = next_a[i]
                s_b[buffer, copy_bk + uint32(i * (THREADS // TILE)), copy_n] = next_b[i]
        cuda.syncthreads()

    for i in range(EACH):
        for j in range(EACH):
            m = first_m + thread_m + uint32(i * SIDE)
            n = first_n + thread_n + uint32(j * SIDE)
            if m < size_m and n < size_n:
                c[m, n] = total[i, j]


def grid(shape_c: tuple[int, int]) -> tuple[int, int]:
    """Blocks for a C of this shape: columns of tiles, rows of tiles."""
    return tuple(int(-(-size // TILE)) for size in np.flip(shape_c))
