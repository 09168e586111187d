// C = A·B by Hopper's own instructions: the copy engine fills shared memory, `wgmma` reads it.
//
// a: (M, K), b: (K, N), c: (M, N), fp16, row-major, K and N multiples of 8; sums in fp32. sm_90a.
//
// One block: a warpgroup that only loads (one of its threads does all the work) and two that only
// multiply, 64 rows of the tile each. They meet at mbarriers, two for each stage of a ring in
// shared memory: `full` (the bytes have come) and `empty` (they have been read).
// Two neighbouring blocks form a cluster. Their tiles lie below each other and need the same part
// of B: each fetches half of it and the copy engine delivers it to both, which takes a third off
// what is read from L2 (it would otherwise be the limit).
// The grid is persistent: one block an SM walks over the tiles, so that the loads of the next tile
// run while the last one is written.
#include <cuda_fp16.h>

#ifndef STAGES
#define STAGES 4  // 4 × 48 KB of operands and 32 KB to write through: 224 of 227 KB
#endif
#ifndef GROUP
#define GROUP 8  // of tile pairs below each other that are worked on before the next column
#endif

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64;
constexpr int CONSUMERS = 2;               // warpgroups that multiply
constexpr int CONSUMER_M = TILE_M / CONSUMERS;  // 64: the m of every wgmma
constexpr int WARPGROUP = 128;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int CLUSTER = 2;
constexpr int SPAN = 64;  // halves in 128 bytes: the width of a swizzled row, and of each box
constexpr int STORE_ROWS = 16;  // rows of C that one warp holds
constexpr int STORES = 2;       // of a warp that may be under way
constexpr u32 STAGE_BYTES = 2 * TILE_K * (TILE_M + TILE_N);

struct alignas(64) TensorMap { char opaque[128]; };  // CUtensorMap, encoded by the host

struct Shared {  // every array begins on 1,024 bytes, where the swizzle's pattern begins
    half a[STAGES][TILE_M][SPAN];                  // K-major: a row is 64 k
    half b[STAGES][TILE_N / SPAN][TILE_K][SPAN];   // N-major: a row is 64 n
    half c[CONSUMERS * 4][STORES][STORE_ROWS][SPAN];
    u64 full[STAGES], empty[STAGES];
};

// ---- mbarriers -------------------------------------------------------------------------------

__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ void barrier_init(u64* barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(arrivals));
}

// The one arrival that `full` waits for, and how many bytes the copy engine will add to it.
__device__ void barrier_expect(u64* barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ void barrier_arrive(u64* barrier, u32 block_of_cluster) {
    asm volatile("{\n.reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 ::"r"(shared_address(barrier)), "r"(block_of_cluster) : "memory");
}

__device__ void barrier_wait(u64* barrier, u32 phase) {
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}"
                 ::"r"(shared_address(barrier)), "r"(phase) : "memory");
}

// Every thread of both blocks.
__device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// ---- the copy engine -------------------------------------------------------------------------

__device__ void load_box(void* to, const TensorMap* map, int x, int y, u64* full) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(full))
                 : "memory");
}

// The same place and the same barrier, in both blocks of the cluster.
__device__ void load_box_to_both(void* to, const TensorMap* map, int x, int y, u64* full) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(shared_address(to)), "l"(map), "r"(x), "r"(y), "r"(shared_address(full)),
                 "h"((unsigned short)0b11) : "memory");
}

__device__ void store_box(const TensorMap* map, int x, int y, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
                 "cp.async.bulk.commit_group;"
                 ::"l"(map), "r"(x), "r"(y), "r"(shared_address(from)) : "memory");
}

// ---- wgmma -----------------------------------------------------------------------------------

// Where an operand lies in shared memory, for rows of 128 bytes swizzled as the copy engine does:
// bits 0-13 address, 16-29 and 32-45 two strides (all in units of 16 bytes), 62-63 = 1 the swizzle.
// In a cluster an address has the block's rank in its upper bits, which do not belong here.
// `stride`: from 8 rows to the next 8. `leading`: from 64 columns to the next 64 (N-major only).
__device__ u64 descriptor(const void* operand, u32 leading, u32 stride) {
    return (u64)((shared_address(operand) & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 |
           (u64)(stride >> 4) << 32 | (u64)1 << 62;
}

// What must be added to reach the next 16 of k: 32 bytes of a row, or 16 rows of 128 bytes.
constexpr u64 NEXT_K_OF_A = 32 >> 4, NEXT_K_OF_B = 16 * 128 >> 4;

#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define R64(i) R16(i), R16(i + 16), R16(i + 32), R16(i + 48)

// d += A (64×16) · B (16×256), or d = A·B if not `add`; 128 numbers of d in each of 128 threads.
__device__ void wgmma(float (&d)[128], u64 a, u64 b, int add) {
    asm volatile(
        "{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
        "%128, %129, add, 1, 1, 0, 1;\n}"  // signs of A and B; A K-major (0), B N-major (1)
        : R64(0), R64(64)
        : "l"(a), "l"(b), "r"(add));
}

__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ void wgmma_wait(float (&d)[128]) {  // d: nobody reads it before
    asm volatile("wgmma.wait_group.sync.aligned %128;" : R64(0), R64(64) : "n"(PENDING) : "memory");
}

// ---- which tile ------------------------------------------------------------------------------

// Pairs of tiles in the order in which clusters take them: columns of GROUP pairs, so that what
// runs at one time is nearly square and its rows of A and columns of B are few enough for L2.
struct Place { int m, n; };  // first row of this block's tile, first column

__device__ Place place_of(int pair, int pairs_m, int tiles_n, int block_of_cluster) {
    int band = pair / (GROUP * tiles_n), within = pair % (GROUP * tiles_n);
    int height = min(GROUP, pairs_m - band * GROUP);
    int pair_m = band * GROUP + within % height;
    return {(pair_m * CLUSTER + block_of_cluster) * TILE_M, within / height * TILE_N};
}

__device__ int stage_after(int stage, u32& phase) {
    if (++stage < STAGES) return stage;
    phase ^= 1;  // a barrier's phase turns over with every round of the ring
    return 0;
}

// ---- the two roles ---------------------------------------------------------------------------

struct Problem { int pairs_m, tiles_n, tiles_k, first, step, rank; };

__device__ void produce(Shared& s, const TensorMap* a, const TensorMap* b, const Problem& p) {
    int stage = 0;
    u32 phase = 0;
    for (int pair = p.first; pair < p.pairs_m * p.tiles_n; pair += p.step) {
        Place tile = place_of(pair, p.pairs_m, p.tiles_n, p.rank);
        for (int k = 0; k < p.tiles_k; ++k) {
            barrier_wait(&s.empty[stage], phase ^ 1);  // the first round finds the ring empty
            barrier_expect(&s.full[stage], STAGE_BYTES);
            load_box(s.a[stage], a, k * TILE_K, tile.m, &s.full[stage]);
            for (int i = 0; i < TILE_N / SPAN / CLUSTER; ++i) {  // my half of B
                int span = p.rank * (TILE_N / SPAN / CLUSTER) + i;
                load_box_to_both(
                    s.b[stage][span], b, tile.n + span * SPAN, k * TILE_K, &s.full[stage]);
            }
            stage = stage_after(stage, phase);
        }
    }
}

// A stage of both blocks is free when the four warpgroups that read it have said so.
__device__ void release(Shared& s, int stage, int thread) {
    if (thread < CLUSTER) barrier_arrive(&s.empty[stage], thread);
}

// 16 rows × 256 columns of a warp: through shared memory, 64 columns at a time, to the copy engine.
__device__ void write(
    half (&staged)[STORES][STORE_ROWS][SPAN], const TensorMap* c, const float (&d)[128],
    int x, int y
) {
    int lane = threadIdx.x % 32, row = lane % 16;
    for (int part = 0; part < TILE_N / SPAN; ++part) {
        half (*to)[SPAN] = staged[part % STORES];
        if (lane == 0)  // the copy engine has read what was here
            asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(STORES - 1) : "memory");
        __syncwarp();
        for (int j = 0; j < SPAN / 16; ++j) {  // 16×16 numbers: four 8×8 matrices of stmatrix
            u32 packed[4];
            for (int q = 0; q < 4; ++q) {
                int i = part * 32 + j * 8 + q * 2;
                half2 two = __floats2half2_rn(d[i], d[i + 1]);
                packed[q] = *(u32*)&two;
            }
            int chunk = (2 * j + lane / 16) ^ (row % 8);  // the swizzle, by hand
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                         ::"r"(shared_address(&to[row][chunk * 8])), "r"(packed[0]),
                         "r"(packed[1]), "r"(packed[2]), "r"(packed[3]) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // our stores, its reads
        __syncwarp();
        if (lane == 0) store_box(c, x + part * SPAN, y, to);
    }
}

__device__ void consume(Shared& s, const TensorMap* c, int consumer, const Problem& p) {
    int thread = threadIdx.x % WARPGROUP, warp = thread / 32;
    int stage = 0;
    u32 phase = 0;
    float d[128];
    for (int pair = p.first; pair < p.pairs_m * p.tiles_n; pair += p.step) {
        Place tile = place_of(pair, p.pairs_m, p.tiles_n, p.rank);
        int before = 0;
        for (int k = 0; k < p.tiles_k; ++k) {
            barrier_wait(&s.full[stage], phase);
            u64 a = descriptor(s.a[stage][consumer * CONSUMER_M], 16, 8 * 128);
            u64 b = descriptor(s.b[stage], TILE_K * 128, 8 * 128);
            wgmma_fence();
            for (int i = 0; i < TILE_K / 16; ++i)
                wgmma(d, a + i * NEXT_K_OF_A, b + i * NEXT_K_OF_B, k + i);
            wgmma_commit();
            wgmma_wait<1>(d);  // this stage is being multiplied, the one before is done
            if (k > 0) release(s, before, thread);
            before = stage;
            stage = stage_after(stage, phase);
        }
        wgmma_wait<0>(d);
        release(s, before, thread);
        write(s.c[consumer * 4 + warp], c, d, tile.n, tile.m + consumer * CONSUMER_M + warp * 16);
    }
    if (threadIdx.x % 32 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
matmul_wgmma(
    const __grid_constant__ TensorMap a,
    const __grid_constant__ TensorMap b,
    const __grid_constant__ TensorMap c,
    int M, int N, int K
) {
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *(Shared*)memory;
    Problem p;
    p.pairs_m = (M + CLUSTER * TILE_M - 1) / (CLUSTER * TILE_M);
    p.tiles_n = (N + TILE_N - 1) / TILE_N;
    p.tiles_k = (K + TILE_K - 1) / TILE_K;
    p.first = blockIdx.x / CLUSTER;
    p.step = gridDim.x / CLUSTER;
    p.rank = blockIdx.x % CLUSTER;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            barrier_init(&s.full[i], 1);
            barrier_init(&s.empty[i], CONSUMERS * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    cluster_sync();

    // Registers move from those who load to those who hold 128 sums: 40 + 2 × 232 = 3 × 168.
    int warpgroup = threadIdx.x / WARPGROUP;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) produce(s, &a, &b, p);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume(s, &c, warpgroup - 1, p);
    }
    cluster_sync();  // a block's shared memory must outlive what its neighbour sends there
}
