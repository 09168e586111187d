// C = A·B in fp32, without tensor cores: every multiplication is an FFMA of one of 128 lanes an SM.
//
// a: (M, K), b: (K, N), c: (M, N), float, row-major, K and N multiples of 4.
//
// A block makes a tile of C, a thread THREAD_M × THREAD_N numbers of it in registers. Tiles of A
// and B come by cp.async, 16 bytes a thread, through a ring of STAGES in shared memory, and leave
// it as float4: along k from A, along n from B. So neither needs to be transposed on the way.
//
// For each 4 steps of k a thread reads THREAD_M + THREAD_N float4 and does 4·THREAD_M·THREAD_N
// FFMA: 16 to 256 at 8×8. A warp reads a float4 in two wavefronts, not four, when lanes 2i and
// 2i+1, or i and i xor 2, want the same one; the lanes below lie so.
#ifndef THREAD_M
#define THREAD_M 8
#endif
#ifndef THREAD_N
#define THREAD_N 8
#endif
#ifndef WARPS_M
#define WARPS_M 2
#endif
#ifndef WARPS_N
#define WARPS_N 2
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 3  // 168 registers a thread; 4 blocks leave 128: too few to load ahead
#endif
#ifndef GROUP
#define GROUP 8  // tiles below each other that run together, for L2
#endif

constexpr int LANES_M = 4, LANES_N = 8;
constexpr int TILE_M = WARPS_M * LANES_M * THREAD_M;
constexpr int TILE_N = WARPS_N * LANES_N * THREAD_N;
constexpr int TILE_K = 16;  // a row of A is 64 bytes: two rows in all 32 banks
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int FLOATS_A = TILE_M * TILE_K, STAGE_FLOATS = FLOATS_A + TILE_K * TILE_N;

// 16 bytes, or 16 zeros where the matrix has ended.
__device__ void copy16(float* to, const float* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
matmul_fp32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
            int M, int N, int K) {
    extern __shared__ __align__(128) float shared[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int lane_m = lane % 2 + lane / 16 * 2, lane_n = lane / 2 % 8;
    int thread_m = warp / WARPS_N * LANES_M * THREAD_M + lane_m;      // then every 4th row
    int thread_n = warp % WARPS_N * LANES_N * THREAD_N + lane_n * 4;  // 4 columns, then 32 on

    int tiles_m = (M + TILE_M - 1) / TILE_M, tiles_n = (N + TILE_N - 1) / TILE_N;
    int band = blockIdx.x / (GROUP * tiles_n), within = blockIdx.x % (GROUP * tiles_n);
    int height = min(GROUP, tiles_m - band * GROUP);
    int first_m = (band * GROUP + within % height) * TILE_M, first_n = within / height * TILE_N;
    int tiles_k = (K + TILE_K - 1) / TILE_K;

    // A thread copies the same 16 bytes of every stage, and more of them some rows further down.
    constexpr int CHUNKS_A = TILE_K / 4, CHUNKS_B = TILE_N / 4;  // of 16 bytes, in a row
    constexpr int ROWS_A = THREADS / CHUNKS_A, ROWS_B = THREADS / CHUNKS_B;  // at a time
    int copy_m = threadIdx.x / CHUNKS_A, copy_ak = threadIdx.x % CHUNKS_A * 4;
    int copy_bk = threadIdx.x / CHUNKS_B, copy_n = threadIdx.x % CHUNKS_B * 4;
    const float* g_a = a + (size_t)(first_m + copy_m) * K + copy_ak;
    const float* g_b = b + (size_t)copy_bk * N + first_n + copy_n;
    auto load_stage = [&](int tile_k, int stage) {
        float* s_a = shared + stage * STAGE_FLOATS + copy_m * TILE_K + copy_ak;
        float* s_b = shared + stage * STAGE_FLOATS + FLOATS_A + copy_bk * TILE_N + copy_n;
        #pragma unroll
        for (int i = 0; i < TILE_M; i += ROWS_A)
            copy16(s_a + i * TILE_K, g_a + (size_t)i * K,
                   first_m + copy_m + i < M && tile_k * TILE_K + copy_ak < K);
        #pragma unroll
        for (int i = 0; i < TILE_K; i += ROWS_B)
            copy16(s_b + i * TILE_N, g_b + (size_t)i * N,
                   first_n + copy_n < N && tile_k * TILE_K + copy_bk + i < K);
        g_a += TILE_K;
        g_b += (size_t)TILE_K * N;
    };
    auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

    for (int i = 0; i < STAGES - 1; ++i) {  // prologue
        if (i < tiles_k) load_stage(i, i);
        commit();
    }
    float sum[THREAD_M][THREAD_N] = {};
    int stage = 0, free_stage = STAGES - 1;
    for (int tile_k = 0; tile_k < tiles_k; ++tile_k) {  // main loop
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();  // this stage has come, and the one before is no longer read
        if (tile_k + STAGES - 1 < tiles_k) load_stage(tile_k + STAGES - 1, free_stage);
        commit();
        const float* s_a = shared + stage * STAGE_FLOATS + thread_m * TILE_K;
        const float* s_b = shared + stage * STAGE_FLOATS + FLOATS_A + thread_n;
        #pragma unroll
        for (int k4 = 0; k4 < TILE_K; k4 += 4) {
            float r_a[THREAD_M][4];
            #pragma unroll
            for (int i = 0; i < THREAD_M; ++i)
                *(float4*)r_a[i] = *(const float4*)(s_a + i * LANES_M * TILE_K + k4);
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                float r_b[THREAD_N];
                #pragma unroll
                for (int j = 0; j < THREAD_N; j += 4)
                    *(float4*)(r_b + j) =
                        *(const float4*)(s_b + (k4 + k) * TILE_N + j * LANES_N);
                #pragma unroll
                for (int i = 0; i < THREAD_M; ++i)
                    #pragma unroll
                    for (int j = 0; j < THREAD_N; ++j) sum[i][j] += r_a[i][k] * r_b[j];
            }
        }
        free_stage = stage;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    for (int i = 0; i < THREAD_M; ++i)  // epilogue
        for (int j = 0; j < THREAD_N; j += 4) {
            int m = first_m + thread_m + i * LANES_M, n = first_n + thread_n + j * LANES_N;
            if (m < M && n < N) *(float4*)&c[(size_t)m * N + n] = *(float4*)&sum[i][j];
        }
}
