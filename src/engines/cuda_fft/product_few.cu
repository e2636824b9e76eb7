/*
 * The complex product of every bin for few channels, on the FMA pipes.
 *
 *     Y[bin][tile][k] = sum over c of X[bin][tile][c] conj W[bin][k][c]      c < C <= 8
 *
 * On tensor cores a step has 16 channels and a block 32 outputs or more: of three channels four fifths would be
 * padding. Here a thread holds the C values of W of two outputs and walks the tiles: X comes as 16-byte loads that the
 * lanes of a tile share, Y goes as 16-byte stores, neighbouring lanes on neighbouring outputs. Plain FP32 chains of C
 * terms.
 *
 * A block: LANES pairs of outputs by 256 / LANES tiles at a time of one bin, some tens of tiles in all. Registers: 4 C
 * of W and 2 C UNROLL of X under way. Traffic: X and Y once, W once a block, from L2. FMAs: 4 C an output, or 16 for C
 * = 4 where 8 bytes are written: memory sets the time up to C = 16 or so. n1c3h256k64r9 with 24 x 24 tiles: 41 MB, 10
 * us.
 */
#include <cuda_runtime.h>

#include "launch.cuh"

namespace
{

constexpr int THREADS = 256, UNROLL = 4;

struct split {
    int lanes, blocks; /* pairs of outputs side by side in a block; such blocks for all outputs */
    int pairs;         /* of one group */
    int tiles, chunks; /* tiles of a block; such chunks of all tiles */
};

template <int C> __device__ __forceinline__ void load_row(float2 *v, const float2 *from)
{
#pragma unroll
    for (int c = 0; c < C; c += 2) {
        const float4 f = __ldg((const float4 *)(from + c));
        v[c] = make_float2(f.x, f.y);
        v[c + 1] = make_float2(f.z, f.w);
    }
}

template <int C> __device__ __forceinline__ float2 times_conj(const float2 *x, const float2 *w)
{
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
    for (int c = 0; c < C; c++) {
        sum.x = __fmaf_rn(x[c].x, w[c].x, sum.x);
        sum.y = __fmaf_rn(x[c].y, w[c].x, sum.y);
        sum.x = __fmaf_rn(x[c].y, w[c].y, sum.x);
        sum.y = __fmaf_rn(-x[c].x, w[c].y, sum.y);
    }
    return sum;
}

/* wide: every pair of outputs lies at a multiple of 16 bytes. */
template <int C>
__global__ void __launch_bounds__(THREADS) few_kernel(const __grid_constant__ cv_spectral g, split s, int wide)
{
    const int outputs = g.ng == 1 ? g.nk : g.kg, channels = g.ng * g.cgp;
    const int chunk = blockIdx.x % s.chunks, rest = blockIdx.x / s.chunks, part = rest % s.blocks;
    const int64_t bin = rest / s.blocks;
    const int pair = part * s.lanes + threadIdx.x % s.lanes, row = threadIdx.x / s.lanes, rows = THREADS / s.lanes;
    const int group = pair / s.pairs, in_group = (pair - group * s.pairs) * 2, k = group * outputs + in_group;
    const bool live = group < g.ng, two = in_group + 1 < outputs;

    cv_overlap_next();
    cv_overlap_wait();
    if (!live)
        return;
    const float2 *w_at = (const float2 *)g.wf + (bin * g.wrows + g.wk0 + k) * C;
    float2 w[2][C];
    load_row<C>(w[0], w_at);
    load_row<C>(w[1], two ? w_at + C : w_at);
    const int end = min(g.tiles, (chunk + 1) * s.tiles);
    const float2 *x_at = (const float2 *)g.xf + bin * g.tiles * channels + group * C;
    float2 *y_at = (float2 *)g.yf + bin * g.tiles * g.nk + k;
    for (int tile = chunk * s.tiles + row; tile < end; tile += UNROLL * rows) {
        float2 x[UNROLL][C];
#pragma unroll
        for (int u = 0; u < UNROLL; u++)
            load_row<C>(x[u], x_at + (int64_t)min(tile + u * rows, end - 1) * channels);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const float2 a = times_conj<C>(x[u], w[0]), b = times_conj<C>(x[u], w[1]);
            float2 *to = y_at + (int64_t)(tile + u * rows) * g.nk;
            if (tile + u * rows >= end)
                continue;
            if (wide) {
                *(float4 *)to = make_float4(a.x, a.y, b.x, b.y);
            } else {
                to[0] = a;
                if (two)
                    to[1] = b;
            }
        }
    }
}

typedef void (*kernel_fn)(const cv_spectral, split, int);
const kernel_fn kernels[] = {few_kernel<2>, few_kernel<4>, few_kernel<6>, few_kernel<8>};

} // namespace

extern "C" int cv_spectral_product_few(const cv_spectral *g, void *stream)
{
    const int outputs = g->ng == 1 ? g->nk : g->kg;
    split s = {32, 0, (outputs + 1) / 2, 0, 1};
    const int pairs = g->ng * s.pairs;
    while (s.lanes > 1 && s.lanes / 2 >= pairs)
        s.lanes /= 2;
    s.blocks = (pairs + s.lanes - 1) / s.lanes;
    const int turn = THREADS / s.lanes * UNROLL;
    const int64_t whole = (int64_t)g->bins * s.blocks, turns = (g->tiles + turn - 1) / turn;
    int64_t chunks = 4096 / whole; /* blocks enough for any GPU, but W is read again for each */
    chunks = chunks < 1 ? 1 : chunks > turns ? turns : chunks;
    s.tiles = (int)((turns + chunks - 1) / chunks) * turn;
    s.chunks = (g->tiles + s.tiles - 1) / s.tiles;
    const int wide = outputs % 2 == 0 && g->nk % 2 == 0;
    /* begins after the transform has ended, since __ldg may read only what no kernel beside it writes */
    return cv_launch(kernels[g->cgp / 2 - 1], whole * s.chunks, THREADS, 0, stream, 0, *g, s, wide);
}
