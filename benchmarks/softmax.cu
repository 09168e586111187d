// Softmax of rows that stay in registers from their only load to their only store.
//
// Compiled at run time, once for each row length, with
//   HALF      1 for 16-bit floats, 0 for 32-bit ones
//   COLS      elements of a row, a multiple of one pack; x and out start at multiples of 16 bytes
//   THREADS   threads of this block that share a row, a multiple of 32
//   PACKS     packs of 16 bytes that a thread keeps
//   ROWS      rows of a block, more than 1 only where THREADS is 32
//   CLUSTER   blocks that share a row, through distributed shared memory where more than 1 (sm_90)
//   STREAM    1 to load and store past the caches, as for data that is used once
//   SHARED    1 to keep the row in shared memory as it was loaded, where its elements would fill the
//             registers: several long rows then fit on an SM, and each power is taken twice
//   RESIDENT  blocks that must fit on an SM, which limits the registers
// so that CLUSTER · THREADS · PACKS packs hold a row. No thread waits for a row's maximum before its
// first exponential: it subtracts its own, and one rescaling at the end makes that good. So one
// barrier is enough, and every element meets one exponential (two with SHARED).

constexpr int AHEAD = SHARED ? 2 : PACKS;  // packs that are read together
constexpr int WIDTH = HALF ? 8 : 4;  // elements of a pack
constexpr int ROW_PACKS = COLS / WIDTH;
constexpr int WARPS = THREADS / 32;
constexpr int SLOTS = WARPS * CLUSTER;  // one for each warp of the row
constexpr bool EXACT = CLUSTER * THREADS * PACKS == ROW_PACKS;
static_assert(COLS % WIDTH == 0 && CLUSTER * THREADS * PACKS >= ROW_PACKS && SLOTS <= 64);
static_assert(ROWS == 1 || SLOTS == 1);

__device__ float lowest() { return __int_as_float(0xff800000); }  // minus infinity

__device__ float exp_of(float v) {
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(v * 1.4426950408889634f));
    return e;
}

__device__ uint4 load(const uint4* from) {
#if STREAM
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
#else
    return *from;
#endif
}

__device__ void load_shared(uint4* to, const uint4* from) {
    const unsigned place = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place), "l"(from) : "memory");
}

__device__ void store(uint4* to, uint4 v) {
#if STREAM
    __stcs(to, v);
#else
    *to = v;
#endif
}

__device__ void unpack(uint4 pack, float* v) {
    const unsigned words[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#if HALF
        asm("{ .reg .b16 lo, hi; mov.b32 {lo, hi}, %2; cvt.f32.f16 %0, lo; cvt.f32.f16 %1, hi; }"
            : "=f"(v[2 * k]), "=f"(v[2 * k + 1]) : "r"(words[k]));
#else
        v[k] = __uint_as_float(words[k]);
#endif
    }
}

__device__ uint4 packed(const float* v, float factor) {
    unsigned words[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
#if HALF
        asm("cvt.rn.f16x2.f32 %0, %1, %2;"
            : "=r"(words[k]) : "f"(v[2 * k + 1] * factor), "f"(v[2 * k] * factor));
#else
        words[k] = __float_as_uint(v[k] * factor);
#endif
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// The maximum of what the 32 lanes hold, and their sums brought to it; every lane gets both.
__device__ void merge_lanes(float& peak, float& sum) {
    const float mine = peak;
    for (int bit = 16; bit > 0; bit /= 2)
        peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, bit));
    if (peak != lowest()) sum *= exp_of(mine - peak);  // all of them minus infinity: all sums are 0
    for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, bit);
}

#if CLUSTER > 1
__device__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ void store_remote(float2* slot, int block, float2 v) {
    unsigned here = (unsigned)__cvta_generic_to_shared(slot), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(block));
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};"
                 :: "r"(there), "f"(v.x), "f"(v.y) : "memory");
}
#endif

// The same over all warps of the row, in this block and in its cluster.
__device__ void merge_warps(float& peak, float& sum) {
#if THREADS > 32 || CLUSTER > 1
    __shared__ float2 slots[SLOTS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if CLUSTER > 1
    cluster_wait();  // the other blocks have begun: their shared memory is there
    const int slot = blockIdx.x % CLUSTER * WARPS + warp;
    if (lane < CLUSTER) store_remote(&slots[slot], lane, make_float2(peak, sum));
    cluster_arrive();
    cluster_wait();
#else
    if (lane == 0) slots[warp] = make_float2(peak, sum);
    __syncthreads();
#endif
    float2 v = lane < SLOTS ? slots[lane] : make_float2(lowest(), 0.0f);
    if (SLOTS > 32) {
        const float2 w = slots[(lane + 32) % SLOTS];
        peak = fmaxf(v.x, w.x);
        const float base = peak == lowest() ? 0.0f : peak;
        v = make_float2(peak, v.y * exp_of(v.x - base) + w.y * exp_of(w.x - base));
    }
    peak = v.x;
    sum = v.y;
    merge_lanes(peak, sum);
#endif
}

extern "C" __global__
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
__launch_bounds__(THREADS * ROWS, RESIDENT)
void softmax(const uint4* __restrict__ x, uint4* __restrict__ out, int rows) {
#if CLUSTER > 1
    cluster_arrive();
#endif
    const int row = blockIdx.x / CLUSTER * ROWS + threadIdx.y;
    if (ROWS > 1 && row >= rows) return;
    const int first = blockIdx.x % CLUSTER * THREADS * PACKS + threadIdx.x;
    x += (size_t)row * ROW_PACKS;
    out += (size_t)row * ROW_PACKS;

#if SHARED
    extern __shared__ uint4 row_packs[];  // a thread touches its own packs alone
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        if (EXACT || first + k * THREADS < ROW_PACKS)
            load_shared(row_packs + threadIdx.x + k * THREADS, x + first + k * THREADS);
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
#else
    uint4 loaded[PACKS];  // every load is under way before the first is needed
#pragma unroll
    for (int k = 0; k < PACKS; ++k)
        if (EXACT || first + k * THREADS < ROW_PACKS) loaded[k] = load(x + first + k * THREADS);
#endif

    float mine = lowest(), sum = 0.0f;
#if SHARED
    float v[WIDTH];
#pragma unroll AHEAD
    for (int k = 0; k < PACKS; ++k) {
        if (!EXACT && first + k * THREADS >= ROW_PACKS) continue;
        unpack(row_packs[threadIdx.x + k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) mine = fmaxf(mine, v[j]);
    }
    const float base = mine == lowest() ? 0.0f : mine;  // minus infinity less itself is NaN
#pragma unroll AHEAD
    for (int k = 0; k < PACKS; ++k) {
        if (!EXACT && first + k * THREADS >= ROW_PACKS) continue;
        unpack(row_packs[threadIdx.x + k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) sum += exp_of(v[j] - base);
    }
#else
    float kept[PACKS * WIDTH];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        if (EXACT || first + k * THREADS < ROW_PACKS) {
            unpack(loaded[k], kept + k * WIDTH);
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) kept[k * WIDTH + j] = lowest();
        }
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) mine = fmaxf(mine, kept[k * WIDTH + j]);
    }
    const float base = mine == lowest() ? 0.0f : mine;  // minus infinity less itself is NaN
#pragma unroll
    for (int k = 0; k < PACKS * WIDTH; ++k) {
        kept[k] = exp_of(kept[k] - base);
        sum += kept[k];
    }
#endif
    float peak = mine;
    merge_lanes(peak, sum);
    merge_warps(peak, sum);

    // A row of minus infinities has sum 0: 0 · (1 / 0) is NaN, as it should be.
#if SHARED
    const float factor = 1.0f / sum;
    const float top = peak == lowest() ? 0.0f : peak;
#else
    const float factor = (peak == lowest() ? 1.0f : exp_of(mine - peak)) / sum;
#endif
#pragma unroll AHEAD
    for (int k = 0; k < PACKS; ++k) {
        if (!EXACT && first + k * THREADS >= ROW_PACKS) continue;
#if SHARED
        unpack(row_packs[threadIdx.x + k * THREADS], v);
#pragma unroll
        for (int j = 0; j < WIDTH; ++j) v[j] = exp_of(v[j] - top);
        store(out + first + k * THREADS, packed(v, factor));
#else
        store(out + first + k * THREADS, packed(kept + k * WIDTH, factor));
#endif
    }
}
