// C = A·B by WMMA: the tensor cores through C++, with no line of PTX but for the copies.
//
// a: (M, K), b: (K, N), c: (M, N), fp16, row-major, K and N multiples of 8; sums in fp32.
//
// The plan is that of mma.cu: tiles of 128×256, warps of 64×64, a ring of stages filled by
// cp.async. WMMA wants rows at one distance, so bank conflicts are avoided by padding each row by
// 16 bytes. Which thread holds which number is WMMA's secret; the sums therefore leave through
// shared memory.
#include <cuda_fp16.h>
#include <mma.h>

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
#define GROUP 8
#endif

using namespace nvcuda::wmma;

constexpr int WARP_M = 64, WARP_N = 64;
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = 32 * (TILE_M / WARP_M) * WARPS_N;
constexpr int PAD = 8;  // halves
constexpr int ROW_A = TILE_K + PAD, ROW_B = TILE_N + PAD;
constexpr int HALVES_A = TILE_M * ROW_A, STAGE_HALVES = HALVES_A + TILE_K * ROW_B;
constexpr int ROW_C = 16 + 4;  // floats

// 16 bytes, or 16 zeros where the matrix has ended.
__device__ void copy16(half* to, const half* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
matmul_wmma(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c,
            int M, int N, int K) {
    extern __shared__ __align__(128) half shared[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    int tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;
    int band = blockIdx.x / (GROUP * tiles_n), within = blockIdx.x % (GROUP * tiles_n);
    int height = min(GROUP, tiles_m - band * GROUP);
    int first_m = (band * GROUP + within % height) * TILE_M, first_n = within / height * TILE_N;
    int tiles_k = (K + TILE_K - 1) / TILE_K;

    // A thread copies the same 16 bytes of every stage, and more of them some rows further down.
    constexpr int CHUNKS_A = TILE_K / 8, CHUNKS_B = TILE_N / 8;  // of 16 bytes, in a row
    constexpr int ROWS_A = THREADS / CHUNKS_A, ROWS_B = THREADS / CHUNKS_B;  // at a time
    int copy_m = threadIdx.x / CHUNKS_A, copy_ak = threadIdx.x % CHUNKS_A * 8;
    int copy_bk = threadIdx.x / CHUNKS_B, copy_n = threadIdx.x % CHUNKS_B * 8;
    const half* g_a = a + (size_t)(first_m + copy_m) * K + copy_ak;
    const half* g_b = b + (size_t)copy_bk * N + first_n + copy_n;
    auto load_stage = [&](int tile_k) {
        half* stage = shared + tile_k % STAGES * STAGE_HALVES;
        half* s_a = stage + copy_m * ROW_A + copy_ak;
        half* s_b = stage + HALVES_A + copy_bk * ROW_B + copy_n;
        #pragma unroll
        for (int i = 0; i < TILE_M; i += ROWS_A)
            copy16(s_a + i * ROW_A, g_a + (size_t)i * K,
                   first_m + copy_m + i < M && tile_k * TILE_K + copy_ak < K);
        #pragma unroll
        for (int i = 0; i < TILE_K; i += ROWS_B)
            copy16(s_b + i * ROW_B, g_b + (size_t)i * N,
                   first_n + copy_n < N && tile_k * TILE_K + copy_bk + i < K);
        g_a += TILE_K;
        g_b += (size_t)TILE_K * N;
    };
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

    for (int i = 0; i < STAGES - 1; ++i) {  // prologue
        if (i < tiles_k) load_stage(i);
        commit();
    }
    fragment<accumulator, 16, 16, 16, float> d[WARP_M / 16][WARP_N / 16];
    for (auto& row : d)
        for (auto& f : row) fill_fragment(f, 0.0f);

    // Fragments are read one step of k ahead, so that the tensor cores need not wait for them.
    fragment<matrix_a, 16, 16, 16, half, row_major> r_a[2][WARP_M / 16];
    fragment<matrix_b, 16, 16, 16, half, row_major> r_b[2][WARP_N / 16];
    auto load_fragments = [&](int to, int tile_k, int k) {
        const half* stage = shared + tile_k % STAGES * STAGE_HALVES;
        const half* s_a = stage + warp_m * ROW_A + k;
        const half* s_b = stage + HALVES_A + k * ROW_B + warp_n;
        for (int i = 0; i < WARP_M / 16; ++i)
            load_matrix_sync(r_a[to][i], s_a + i * 16 * ROW_A, ROW_A);
        for (int j = 0; j < WARP_N / 16; ++j)
            load_matrix_sync(r_b[to][j], s_b + j * 16, ROW_B);
    };
    auto wait_for_next = [] {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
    };
    wait_for_next();
    load_fragments(0, 0, 0);
    for (int tile_k = 0; tile_k < tiles_k; ++tile_k) {  // main loop
        if (tile_k + STAGES - 1 < tiles_k) load_stage(tile_k + STAGES - 1);
        commit();
        #pragma unroll
        for (int step = 0; step < TILE_K / 16; ++step) {
            bool last = step == TILE_K / 16 - 1;
            if (last) wait_for_next();  // and nobody reads this stage any more
            load_fragments((step + 1) % 2, tile_k + last, last ? 0 : (step + 1) * 16);
            for (int i = 0; i < WARP_M / 16; ++i)
                for (int j = 0; j < WARP_N / 16; ++j)
                    mma_sync(d[i][j], r_a[step % 2][i], r_b[step % 2][j], d[i][j]);
        }
    }

    // Epilogue: 16×16 sums of a warp at a time; each lane then rounds and writes 8 neighbours.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();  // from here on the ring is a place to write through
    float* s_c = (float*)shared + warp * 16 * ROW_C;
    for (int i = 0; i < WARP_M / 16; ++i)
        for (int j = 0; j < WARP_N / 16; ++j) {
            store_matrix_sync(s_c, d[i][j], ROW_C, mem_row_major);
            __syncwarp();
            int m = first_m + warp_m + i * 16 + lane / 2;
            int n = first_n + warp_n + j * 16 + lane % 2 * 8;
            const float* sums = s_c + lane / 2 * ROW_C + lane % 2 * 8;
            half2 out[4];
            for (int q = 0; q < 4; ++q) out[q] = __floats2half2_rn(sums[2 * q], sums[2 * q + 1]);
            if (m < M && n < N) *(uint4*)&c[(size_t)m * N + n] = *(uint4*)out;
            __syncwarp();
        }
}
