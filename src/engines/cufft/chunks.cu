/* Between row spectra and chunks of bins: a transposition in each direction, and the product for few channels.
 *
 *   cut    out[i][kx][b] = rows[row(b, i)][kx_from + kx], or 0 where the tile has no such row
 *   pick   the way back, for rows of outputs
 *
 * A block moves 32 entries b by up to 32 bins by as many tile rows as make 2048 values, through shared memory: runs of
 * bins on one side, 256-byte segments along b on the other, eight loads of a thread under way. Where a thread reads and
 * writes is worked out once a block, in 32 bits. Traffic: each spectrum is read and written once. */
#include <cuda_runtime.h>

#include "kernels.h"

namespace
{

enum { ENTRIES = 32, THREADS = 256, EACH = 8, LINES = EACH * THREADS / ENTRIES, COLUMNS = 32, ROWS = 16 };

/* Entry b's rows: tile row i is stored row (low + i) / step of a plane if that divides and lies below limit. */
struct place {
    long long base;
    int low;
};

__device__ __forceinline__ place place_of(const cv_cut &a, long long b)
{
    place at;
    if (a.tiles) {
        const long long c = b % a.cg, tile = b / a.cg % a.tiles, g = b / a.cg / a.tiles;
        const long long j = tile % a.tw, t = tile / a.tw % a.t_count, n = tile / a.tw / a.t_count;
        at.base = (n * a.channels + g * a.cg + c) * a.plane_rows * a.tw + j;
        at.low = (int)((a.t_from + t) * a.step_h - a.pad_t - a.row_from);
    } else {
        at.base = b * a.R;
        at.low = 0;
    }
    return at;
}

/* Item e of a round: bin k (fastest), entry b, tile row d below the round's first. */
struct item {
    int k, b, d;
};

__device__ __forceinline__ item item_of(int e, int width)
{
    item it;
    const int rest = e / width;
    it.k = e - rest * width, it.b = rest % ENTRIES, it.d = rest / ENTRIES;
    return it;
}

__global__ void __launch_bounds__(THREADS, 3) cv_cufft_cut_kernel(const cv_cut a, int tiles_kx, int width)
{
    __shared__ float2 tile[LINES][ENTRIES + 1];
    __shared__ place places[ENTRIES];
    const int k0 = (int)(blockIdx.x % tiles_kx) * width, k1 = min(width, a.kx - k0), deep = LINES / k1;
    const long long b0 = (long long)(blockIdx.x / tiles_kx) * ENTRIES;
    const int entries = (int)min((long long)ENTRIES, a.count - b0);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x < entries)
        places[threadIdx.x] = place_of(a, b0 + threadIdx.x);
    __syncthreads();
    const int step = a.tiles ? 1 : (int)a.dil, limit = (int)(a.tiles ? a.plane_rows : a.R);
    const int pitch = (a.tiles ? (int)a.tw : 1) * a.bins;
    const float2 *rows = (const float2 *)a.rows + a.kx_from + k0;
    float2 *out = (float2 *)a.out + b0 + lane;
    int from[EACH], low[EACH], to[EACH]; /* element of row 0; row number; place in the tile, -1: none */
#pragma unroll
    for (int u = 0; u < EACH; ++u) {
        const item it = item_of(threadIdx.x + u * THREADS, k1);
        const bool mine = it.d < deep && it.b < entries;
        const place at = places[mine ? it.b : 0];
        from[u] = (int)(at.base * a.bins) + it.k;
        low[u] = at.low + it.d;
        to[u] = mine ? (it.d * k1 + it.k) * (ENTRIES + 1) + it.b : -1;
    }
    const int end = min(((int)blockIdx.y + 1) * ROWS, a.ty);
    for (int i0 = blockIdx.y * ROWS; i0 < end; i0 += deep) {
        float2 value[EACH];
#pragma unroll
        for (int u = 0; u < EACH; ++u) {
            const int want = low[u] + i0, row = step > 1 ? want / step : want;
            const bool there = to[u] >= 0 && want >= 0 && row < limit && (step == 1 || row * step == want);
            value[u] = there ? rows[from[u] + (long long)row * pitch] : make_float2(0.0f, 0.0f);
        }
#pragma unroll
        for (int u = 0; u < EACH; ++u)
            if (to[u] >= 0)
                (&tile[0][0])[to[u]] = value[u];
        __syncthreads();
        const int lines = min(deep, end - i0) * k1;
        if (lane < entries)
            for (int line = warp, d = 0, k = warp; line < lines; line += THREADS / 32, k += THREADS / 32) {
                while (k >= k1)
                    k -= k1, ++d;
                out[((long long)(i0 + d) * a.kx + k0 + k) * a.count] = tile[line][lane];
            }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS, 3) cv_cufft_pick_kernel(const cv_pick a, int tiles_kx, int width)
{
    __shared__ float2 tile[LINES][ENTRIES + 1];
    __shared__ int bases[ENTRIES], counts[ENTRIES];
    const int k0 = (int)(blockIdx.x % tiles_kx) * width, k1 = min(width, a.kx - k0), deep = LINES / k1;
    const long long b0 = (long long)(blockIdx.x / tiles_kx) * ENTRIES;
    const int entries = (int)min((long long)ENTRIES, a.count - b0);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x < entries) {
        const long long b = b0 + threadIdx.x, k = b % a.kernels, t = b / a.kernels % a.tiles,
                        g = b / a.kernels / a.tiles;
        const long long j = t % a.tw, i = t / a.tw % a.t_count, n = t / a.tw / a.t_count;
        bases[threadIdx.x] =
            (int)((((n * a.planes + g * a.kernels + k) * a.plane_rows + i * a.tile_p) * a.tw + j) * a.bins);
        counts[threadIdx.x] = (int)min((long long)a.tile_p, a.plane_rows - i * a.tile_p);
    }
    __syncthreads();
    const float2 *in = (const float2 *)a.in + b0 + lane;
    float2 *rows = (float2 *)a.rows + a.kx_from + k0;
    const int pitch = (int)a.tw * a.bins;
    int from[EACH], low[EACH],
        to[EACH]; /* place in the tile; row below the round's first, far below: none; element of row 0 */
#pragma unroll
    for (int u = 0; u < EACH; ++u) {
        const item it = item_of(threadIdx.x + u * THREADS, k1);
        const bool mine = it.d < deep && it.b < entries;
        from[u] = (it.d * k1 + it.k) * (ENTRIES + 1) + it.b;
        low[u] = mine ? it.d + (int)a.tile_p - counts[it.b] : 1 << 29;
        to[u] = mine ? bases[it.b] + it.d * pitch + it.k : 0;
    }
    const int end = (int)min((long long)(blockIdx.y + 1) * ROWS, (long long)a.tile_p);
    for (int p0 = blockIdx.y * ROWS; p0 < end; p0 += deep) {
        const int lines = min(deep, end - p0) * k1;
        if (lane < entries)
#pragma unroll 4
            for (int line = warp; line < lines; line += THREADS / 32) {
                const int d = line / k1;
                tile[line][lane] = in[((p0 + d) * a.stride_h * a.kx + k0 + line - d * k1) * a.count];
            }
        __syncthreads();
#pragma unroll
        for (int u = 0; u < EACH; ++u)
            if (p0 + low[u] < (int)a.tile_p && from[u] < lines * (ENTRIES + 1))
                rows[to[u] + (long long)p0 * pitch] = (&tile[0][0])[from[u]];
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS) cv_cufft_product_kernel(const cv_product a)
{
    const long long per_bin = a.groups * a.tiles * a.kernels;
    for (long long bin = blockIdx.y; bin < a.bins; bin += gridDim.y)
        for (long long i = blockIdx.x * (long long)THREADS + threadIdx.x; i < per_bin;
             i += (long long)gridDim.x * THREADS) {
            const unsigned at = (unsigned)i, kernels = (unsigned)a.kernels, tiles = (unsigned)a.tiles;
            const unsigned k = at % kernels, gt = at / kernels, g = gt / tiles;
            const float2 *x = (const float2 *)a.x + bin * a.x_bin + gt * a.cg;
            const float2 *w = (const float2 *)a.w + bin * a.w_bin + g * a.w_group + k * a.cg;
            float re = 0.0f, im = 0.0f;
            for (int c = 0; c < (int)a.cg; ++c) {
                const float2 p = x[c], q = w[c];
                re = __fmaf_rn(p.x, q.x, __fmaf_rn(p.y, q.y, re));
                im = __fmaf_rn(p.y, q.x, __fmaf_rn(-p.x, q.y, im));
            }
            ((float2 *)a.y)[bin * a.y_bin + i] = make_float2(__fmul_rn(re, a.scale), __fmul_rn(im, a.scale));
        }
}

/* Bins of a block: the columns of a chunk in equal shares of at most 32. */
void share(int kx, int *tiles, int *width)
{
    *tiles = (kx + COLUMNS - 1) / COLUMNS;
    *width = (kx + *tiles - 1) / *tiles;
}

} // namespace

int cv_cufft_cut(const cv_cut *a, void *stream)
{
    int tiles, width;
    share(a->kx, &tiles, &width);
    const dim3 grid((unsigned)((a->count + ENTRIES - 1) / ENTRIES * tiles), (unsigned)((a->ty + ROWS - 1) / ROWS));
    cv_cufft_cut_kernel<<<grid, THREADS, 0, (cudaStream_t)stream>>>(*a, tiles, width);
    return cudaGetLastError();
}

int cv_cufft_pick(const cv_pick *a, void *stream)
{
    int tiles, width;
    share(a->kx, &tiles, &width);
    const dim3 grid((unsigned)((a->count + ENTRIES - 1) / ENTRIES * tiles), (unsigned)((a->tile_p + ROWS - 1) / ROWS));
    cv_cufft_pick_kernel<<<grid, THREADS, 0, (cudaStream_t)stream>>>(*a, tiles, width);
    return cudaGetLastError();
}

int cv_cufft_product(const cv_product *a, void *stream)
{
    const long long blocks = (a->groups * a->tiles * a->kernels + THREADS - 1) / THREADS;
    const dim3 grid((unsigned)(blocks < 1 << 20 ? blocks : 1 << 20), (unsigned)(a->bins < 32768 ? a->bins : 32768));
    cv_cufft_product_kernel<<<grid, THREADS, 0, (cudaStream_t)stream>>>(*a);
    return cudaGetLastError();
}
