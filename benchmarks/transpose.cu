// Out-of-place transposes of float32 for benchmarks/transpose.py: out (cols, rows) = x (rows, cols).
//
// The lab's Numba steps in CUDA C++, and the family that its last step belongs to. For whole tiles
// only: the benchmark's sides are multiples of 128. TILE_ROWS, TILE_COLS, STREAM and BLOCK_ORDER
// are set by the compiler's options.

constexpr int TILE = 32;
constexpr int ROWS = 8;

extern "C" __global__ void naive(const float* __restrict__ x, float* __restrict__ out, int rows,
                                 int cols) {
    size_t row = (size_t)blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    out[col * rows + row] = x[row * cols + col];
}

// One element a thread, 32 × 32 threads; pitch 32 has bank conflicts, 33 has none.
template <int PITCH>
__device__ void through_tile(const float* __restrict__ x, float* __restrict__ out, int rows,
                             int cols) {
    __shared__ float tile[TILE][PITCH];
    size_t top = (size_t)blockIdx.y * TILE, left = (size_t)blockIdx.x * TILE;
    tile[threadIdx.y][threadIdx.x] = x[(top + threadIdx.y) * cols + left + threadIdx.x];
    __syncthreads();
    out[(left + threadIdx.y) * rows + top + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void tiled(const float* x, float* out, int rows, int cols) {
    through_tile<TILE>(x, out, rows, cols);
}

extern "C" __global__ void padded(const float* x, float* out, int rows, int cols) {
    through_tile<TILE + 1>(x, out, rows, cols);
}

extern "C" __global__ void swizzled(const float* __restrict__ x, float* __restrict__ out, int rows,
                                    int cols) {
    __shared__ float tile[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    size_t top = (size_t)blockIdx.y * TILE, left = (size_t)blockIdx.x * TILE;
    tile[ty][tx ^ ty] = x[(top + ty) * cols + left + tx];
    __syncthreads();
    out[(left + ty) * rows + top + tx] = tile[tx][ty ^ tx];
}

// Four elements a thread, 32 × 8 threads.
extern "C" __global__ void several_rows(const float* __restrict__ x, float* __restrict__ out,
                                        int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int tx = threadIdx.x, ty = threadIdx.y;
    size_t top = (size_t)blockIdx.y * TILE, left = (size_t)blockIdx.x * TILE;
    #pragma unroll
    for (int k = 0; k < TILE; k += ROWS)
        tile[ty + k][tx] = x[(top + ty + k) * cols + left + tx];
    __syncthreads();
    #pragma unroll
    for (int k = 0; k < TILE; k += ROWS)
        out[(left + ty + k) * rows + top + tx] = tile[tx][ty + k];
}

// ---- float4: 256 threads turn squares of 4 × 4 in registers --------------------------------

#ifndef TILE_ROWS
#define TILE_ROWS 64
#endif
#ifndef TILE_COLS
#define TILE_COLS 64
#endif

__device__ float4 load(const float* p) {
#ifdef STREAM
    return __ldcs(reinterpret_cast<const float4*>(p));
#else
    return *reinterpret_cast<const float4*>(p);
#endif
}

__device__ void store(float* p, float4 v) {
#ifdef STREAM
    __stcs(reinterpret_cast<float4*>(p), v);
#else
    *reinterpret_cast<float4*>(p) = v;
#endif
}

// Which tile a block takes: along the rows of x, or down its columns (BLOCK_ORDER 1), so that
// either the loads or the stores of neighbouring blocks are neighbours in memory; or in squares of
// 8 × 8 tiles (BLOCK_ORDER 2), a compromise. Sides are multiples of 8 tiles.
__device__ uint2 tile_of_block() {
    unsigned wide = gridDim.x, me = blockIdx.y * gridDim.x + blockIdx.x;
#if defined(BLOCK_ORDER) && BLOCK_ORDER == 1
    return make_uint2(me / gridDim.y, me % gridDim.y);
#elif defined(BLOCK_ORDER) && BLOCK_ORDER == 2
    unsigned square = me / 64, inside = me % 64;
    return make_uint2(square % (wide / 8) * 8 + inside % 8, square / (wide / 8) * 8 + inside / 8);
#else
    return make_uint2(me % wide, me / wide);
#endif
}

extern "C" __global__ __launch_bounds__(256) void float4_tile(
    const float* __restrict__ x, float* __restrict__ out, int rows, int cols) {
    constexpr int PACKS_OF_X = TILE_COLS / 4, PACKS_OF_OUT = TILE_ROWS / 4;
    constexpr int SQUARES = PACKS_OF_X * PACKS_OF_OUT / 256;
    __shared__ float4 tile[TILE_COLS][PACKS_OF_OUT];
    uint2 place = tile_of_block();
    size_t top = (size_t)place.y * TILE_ROWS, left = (size_t)place.x * TILE_COLS;
    float4 v[SQUARES][4];
    #pragma unroll
    for (int s = 0; s < SQUARES; ++s) {
        int e = threadIdx.x + 256 * s, tx = e % PACKS_OF_X, ty = e / PACKS_OF_X;
        #pragma unroll
        for (int k = 0; k < 4; ++k) v[s][k] = load(x + (top + 4 * ty + k) * cols + left + 4 * tx);
    }
    #pragma unroll
    for (int s = 0; s < SQUARES; ++s) {
        int e = threadIdx.x + 256 * s, tx = e % PACKS_OF_X, ty = e / PACKS_OF_X;
        int pack = ty ^ (tx % 8);  // eight lanes, eight packs, all 32 banks
        float4* column = &tile[4 * tx][pack];
        column[0 * PACKS_OF_OUT] = make_float4(v[s][0].x, v[s][1].x, v[s][2].x, v[s][3].x);
        column[1 * PACKS_OF_OUT] = make_float4(v[s][0].y, v[s][1].y, v[s][2].y, v[s][3].y);
        column[2 * PACKS_OF_OUT] = make_float4(v[s][0].z, v[s][1].z, v[s][2].z, v[s][3].z);
        column[3 * PACKS_OF_OUT] = make_float4(v[s][0].w, v[s][1].w, v[s][2].w, v[s][3].w);
    }
    __syncthreads();
    #pragma unroll
    for (int s = 0; s < 4 * SQUARES; ++s) {
        int e = threadIdx.x + 256 * s, q = e % PACKS_OF_OUT, c = e / PACKS_OF_OUT;
        store(out + (left + c) * rows + top + 4 * q, tile[c][q ^ (c / 4 % 8)]);
    }
}
