// C = A·B by `mma.sync` m16n8k16: the tensor cores as every GPU from sm_80 on has them.
//
// a: (M, K), b: (K, N), c: (M, N), fp16, row-major, K and N multiples of 8; sums in fp32.
//
// A block makes a tile of 128×256, each of its 8 warps 64×64 of it: 4×8 products of 16×8, whose
// sums are 128 registers of each thread. Tiles of A and B come by cp.async through a ring of
// STAGES; `ldmatrix` carries them into registers one step of k ahead of the tensor cores.
// A 16-byte chunk lies in shared memory at its own place xor its row, modulo 8: so neither the
// copies nor ldmatrix, which reads a column of chunks, ever meet in a bank.
#include <cuda_fp16.h>

#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 256
#endif
#ifndef TILE_K
#define TILE_K 64
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 1
#endif
#ifndef GROUP
#define GROUP 8  // tiles below each other that run together, for L2
#endif

typedef unsigned int u32;

constexpr int WARP_M = 64, WARP_N = 64;
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = 32 * (TILE_M / WARP_M) * WARPS_N;
constexpr int FRAGMENTS_M = WARP_M / 16, FRAGMENTS_N = WARP_N / 8;
constexpr int STEPS = TILE_K / 16;
constexpr u32 ROW_A = 2 * TILE_K, ROW_B = 2 * TILE_N;  // bytes
constexpr u32 BYTES_A = TILE_M * ROW_A, STAGE_BYTES = BYTES_A + TILE_K * ROW_B;
// Rows of A of 64 bytes: two share the 128 bytes of all banks, so it is their pair that counts.
constexpr int SHARE_A = 128 / ROW_A;
static_assert(ROW_A == 128 || ROW_A == 64, "TILE_K must be 32 or 64");

__device__ u32 offset_a(int row, int chunk) {
    return row * ROW_A + (chunk ^ (row / SHARE_A % (8 / SHARE_A))) * 16;
}
__device__ u32 offset_b(int row, int chunk) { return row * ROW_B + (chunk ^ (row % 8)) * 16; }

// 16 bytes, or 16 zeros where the matrix has ended.
__device__ void copy16(u32 to, const half* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

struct Fragments {
    u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][2];
};

__device__ void load_fragments(
    Fragments& f, u32 stage, int step, int warp_m, int warp_n, int lane
) {
    int row = lane % 16, side = lane / 16;
    for (int i = 0; i < FRAGMENTS_M; ++i)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f.a[i][0]), "=r"(f.a[i][1]), "=r"(f.a[i][2]), "=r"(f.a[i][3])
                     : "r"(stage + offset_a(warp_m + i * 16 + row, step * 2 + side)) : "memory");
    for (int j = 0; j < FRAGMENTS_N; j += 2)  // B is wanted by columns, hence .trans
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(f.b[j][0]), "=r"(f.b[j][1]), "=r"(f.b[j + 1][0]), "=r"(f.b[j + 1][1])
                     : "r"(stage + BYTES_A + offset_b(step * 16 + row, warp_n / 8 + j + side))
                     : "memory");
}

__device__ void multiply(float (&d)[FRAGMENTS_M][FRAGMENTS_N][4], const Fragments& f) {
    for (int i = 0; i < FRAGMENTS_M; ++i)
        for (int jj = 0; jj < FRAGMENTS_N; ++jj) {
            int j = i % 2 ? FRAGMENTS_N - 1 - jj : jj;  // there and back: B's registers are reused
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                         : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]), "+f"(d[i][j][3])
                         : "r"(f.a[i][0]), "r"(f.a[i][1]), "r"(f.a[i][2]), "r"(f.a[i][3]),
                           "r"(f.b[j][0]), "r"(f.b[j][1]));
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
matmul_mma(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
           int M, int N, int K) {
    extern __shared__ __align__(1024) char memory[];
    u32 shared = (u32)__cvta_generic_to_shared(memory);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // Columns of GROUP tiles: what runs at one time is nearly square, and shares rows and columns.
    int tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;
    int band = blockIdx.x / (GROUP * tiles_n), within = blockIdx.x % (GROUP * tiles_n);
    int height = min(GROUP, tiles_m - band * GROUP);
    int first_m = (band * GROUP + within % height) * TILE_M, first_n = within / height * TILE_N;
    int tiles_k = (K + TILE_K - 1) / TILE_K;

    // A thread copies the same 16 bytes of every stage, and more of them some rows further down.
    constexpr int CHUNKS_A = TILE_K / 8, CHUNKS_B = TILE_N / 8;  // of 16 bytes, in a row
    constexpr int ROWS_A = THREADS / CHUNKS_A, ROWS_B = THREADS / CHUNKS_B;  // at a time
    static_assert(ROWS_A % 8 == 0 && ROWS_B % 8 == 0, "the swizzle must be that of the first row");
    int copy_m = threadIdx.x / CHUNKS_A, copy_ak = threadIdx.x % CHUNKS_A * 8;
    int copy_bk = threadIdx.x / CHUNKS_B, copy_n = threadIdx.x % CHUNKS_B * 8;
    u32 copy_a = offset_a(copy_m, copy_ak / 8), copy_b = BYTES_A + offset_b(copy_bk, copy_n / 8);
    const half* g_a = a + (size_t)(first_m + copy_m) * K + copy_ak;
    const half* g_b = b + (size_t)copy_bk * N + first_n + copy_n;
    auto load_stage = [&](int tile_k) {
        u32 stage = shared + tile_k % STAGES * STAGE_BYTES;
        #pragma unroll
        for (int i = 0; i < TILE_M; i += ROWS_A)
            copy16(stage + copy_a + i * ROW_A, g_a + (size_t)i * K,
                   first_m + copy_m + i < M && tile_k * TILE_K + copy_ak < K);
        #pragma unroll
        for (int i = 0; i < TILE_K; i += ROWS_B)
            copy16(stage + copy_b + i * ROW_B, g_b + (size_t)i * N,
                   first_n + copy_n < N && tile_k * TILE_K + copy_bk + i < K);
        g_a += TILE_K;
        g_b += (size_t)TILE_K * N;
    };
    // A group of copies is committed even when empty, so that the count of groups tells the stage.
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };
    auto wait_for_next = [] {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
    };

    for (int i = 0; i < STAGES - 1; ++i) {  // prologue
        if (i < tiles_k) load_stage(i);
        commit();
    }
    float d[FRAGMENTS_M][FRAGMENTS_N][4] = {};
    Fragments f[2];
    wait_for_next();
    load_fragments(f[0], shared, 0, warp_m, warp_n, lane);

    for (int tile_k = 0; tile_k < tiles_k; ++tile_k) {  // main loop
        u32 stage = shared + tile_k % STAGES * STAGE_BYTES;
        u32 next_stage = shared + (tile_k + 1) % STAGES * STAGE_BYTES;
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            bool last = step == STEPS - 1;
            if (last) wait_for_next();  // and nobody reads this stage any more
            load_fragments(f[(step + 1) % 2], last ? next_stage : stage, last ? 0 : step + 1,
                           warp_m, warp_n, lane);
            if (step == 0) {  // into the stage that was read before this one
                if (tile_k + STAGES - 1 < tiles_k) load_stage(tile_k + STAGES - 1);
                commit();
            }
            multiply(d, f[step % 2]);
        }
    }

    // Epilogue: a thread holds 2 neighbours in each of two rows of a 16×8 product.
    for (int i = 0; i < FRAGMENTS_M; ++i)
        for (int j = 0; j < FRAGMENTS_N; ++j)
            for (int h = 0; h < 2; ++h) {
                int m = first_m + warp_m + i * 16 + h * 8 + lane / 4;
                int n = first_n + warp_n + j * 8 + lane % 4 * 2;
                if (m < M && n < N)
                    *(half2*)&c[(size_t)m * N + n] =
                        __floats2half2_rn(d[i][j][2 * h], d[i][j][2 * h + 1]);
            }
}
