// What `mma.sync` m16n8k16 can do at best: products of random fragments that stay in registers.
//
// Every warp makes `rounds` times 32 products of 16×8×16 (4,096 flop each), as one of mma.cu does
// for 16 of k. Nothing is loaded meanwhile; x: 64 halves a thread, out: a number a thread.
#include <cuda_fp16.h>

typedef unsigned int u32;

extern "C" __global__ void __launch_bounds__(256, 1)
matmul_mma_ceiling(const u32* __restrict__ x, float* __restrict__ out, int rounds) {
    u32 a[4][4], b[8][2];
    for (int i = 0; i < 16; ++i) a[i / 4][i % 4] = x[i * 256 + threadIdx.x];
    for (int i = 0; i < 16; ++i) b[i / 2][i % 2] = x[(16 + i) * 256 + threadIdx.x];
    float d[4][8][4] = {};
    for (int round = 0; round < rounds; ++round)
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 8; ++j)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]),
                               "+f"(d[i][j][3])
                             : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]),
                               "r"(b[j][0]), "r"(b[j][1]));
    float sum = 0;
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 8; ++j)
            for (int q = 0; q < 4; ++q) sum += d[i][j][q];
    out[blockIdx.x * 256 + threadIdx.x] = sum;
}
