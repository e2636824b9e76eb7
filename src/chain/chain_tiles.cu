/* The exact chain for scattered outputs: flagged tiles of a transform engine, or a list.
 *
 * One thread an output, straight from memory: these calls are the exception, and what counts is that they cost next to
 * nothing when no flag is set. The list kernel serves checks with thousands of long sums: there a block stages the
 * operands of its outputs 32 taps at a time, read in rows, and each thread walks its own chain in shared memory. */
#include <cuda_runtime.h>

#include "chain_cuda.h"

namespace
{

struct place {
    const float *x, *w, *bias;
    float *y;
    cv_chain_shape c;
};

__device__ __forceinline__ bool inside(const cv_chain_shape &c, long long h, long long w)
{
    return h >= 0 && h < c.h && w >= 0 && w < c.w;
}

__device__ float chain_of(const place &a, long long n, long long k, long long p, long long q)
{
    const cv_chain_shape &c = a.c;
    const long long cg = c.c / c.groups, g = k / (c.k / c.groups);
    const float *wk = a.w + k * c.ws[0];
    float acc = 0.0f;
    for (long long i = 0; i < cg; ++i) {
        const float *xc = a.x + n * c.xs[0] + (g * cg + i) * c.xs[1];
        for (long long r = 0; r < c.r; ++r) {
            const long long h = p * c.st_h + r * c.dil_h - c.pad_t;
            if (h < 0 || h >= c.h)
                continue;
            for (long long s = 0; s < c.s; ++s) {
                const long long col = q * c.st_w + s * c.dil_w - c.pad_l;
                if (col >= 0 && col < c.w)
                    acc = __fmaf_rn(xc[h * c.xs[2] + col * c.xs[3]], wk[i * c.ws[1] + r * c.ws[2] + s * c.ws[3]], acc);
            }
        }
    }
    return a.bias ? __fadd_rn(acc, a.bias[k]) : acc;
}

__global__ void __launch_bounds__(128) cv_chain_tiles_kernel(const place a, long long tile_p, long long tile_q,
                                                             const unsigned *x_flags, const unsigned *w_flags)
{
    const cv_chain_shape &c = a.c;
    const long long tiles_p = (c.p + tile_p - 1) / tile_p, tiles_q = (c.q + tile_q - 1) / tile_q;
    const long long kg = c.k / c.groups, all = c.n * c.groups * tiles_p * tiles_q;
    for (long long t = blockIdx.x; t < all; t += gridDim.x) {
        const long long j = t % tiles_q, i = t / tiles_q % tiles_p;
        const long long g = t / tiles_q / tiles_p % c.groups, n = t / tiles_q / tiles_p / c.groups;
        const bool x_flag = x_flags && x_flags[t];
        if (!x_flag && !w_flags)
            continue;
        const long long p0 = i * tile_p, q0 = j * tile_q;
        const long long rows = min(tile_p, (long long)c.p - p0), cols = min(tile_q, (long long)c.q - q0);
        for (long long k = g * kg; k < (g + 1) * kg; ++k) {
            if (!x_flag && !w_flags[k])
                continue;
            for (long long o = threadIdx.x; o < rows * cols; o += blockDim.x) {
                const long long p = p0 + o / cols, q = q0 + o % cols;
                a.y[n * c.ys[0] + k * c.ys[1] + p * c.ys[2] + q * c.ys[3]] = chain_of(a, n, k, p, q);
            }
        }
    }
}

enum { LIST_OUTPUTS = 32, LIST_TAPS = 32 };

__global__ void __launch_bounds__(256)
    cv_chain_list_kernel(const place a, const unsigned *count, const int64_t *list, long long capacity)
{
    __shared__ float xs[LIST_OUTPUTS][LIST_TAPS + 1], ws[LIST_OUTPUTS][LIST_TAPS + 1];
    __shared__ unsigned in[LIST_OUTPUTS];
    const cv_chain_shape &c = a.c;
    const long long total = min((long long)*count, capacity);
    const long long cg = c.c / c.groups, kg = c.k / c.groups, taps = cg * c.r * c.s;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (long long base = (long long)blockIdx.x * LIST_OUTPUTS; base < total;
         base += (long long)gridDim.x * LIST_OUTPUTS) {
        float acc = 0.0f;
        for (long long t0 = 0; t0 < taps; t0 += LIST_TAPS) {
            const long long t = t0 + lane, s = t % c.s, r = t / c.s % c.r, ch = t / c.s / c.r;
            __syncthreads();
            for (int o = warp; o < LIST_OUTPUTS && base + o < total; o += 8) {
                const long long index = list[base + o];
                const long long q = index % c.q, p = index / c.q % c.p, k = index / c.q / c.p % c.k,
                                n = index / c.q / c.p / c.k;
                const long long h = p * c.st_h + r * c.dil_h - c.pad_t, col = q * c.st_w + s * c.dil_w - c.pad_l;
                const bool ok = t < taps && inside(c, h, col);
                if (ok) {
                    xs[o][lane] = a.x[n * c.xs[0] + (k / kg * cg + ch) * c.xs[1] + h * c.xs[2] + col * c.xs[3]];
                    ws[o][lane] = a.w[k * c.ws[0] + ch * c.ws[1] + r * c.ws[2] + s * c.ws[3]];
                }
                const unsigned mask = __ballot_sync(~0u, ok);
                if (lane == 0)
                    in[o] = mask;
            }
            __syncthreads();
            if (warp == 0 && base + lane < total) {
                const unsigned mask = in[lane];
#pragma unroll
                for (int u = 0; u < LIST_TAPS; ++u)
                    if (mask >> u & 1)
                        acc = __fmaf_rn(xs[lane][u], ws[lane][u], acc);
            }
        }
        if (warp == 0 && base + lane < total) {
            const long long index = list[base + lane];
            const long long q = index % c.q, p = index / c.q % c.p, k = index / c.q / c.p % c.k,
                            n = index / c.q / c.p / c.k;
            a.y[n * c.ys[0] + k * c.ys[1] + p * c.ys[2] + q * c.ys[3]] = a.bias ? __fadd_rn(acc, a.bias[k]) : acc;
        }
    }
}

unsigned blocks(long long wanted) { return (unsigned)(wanted < 1 ? 1 : wanted < 4096 ? wanted : 4096); }

} // namespace

int cv_chain_cuda_tiles(const cv_chain_shape *shape, int64_t tile_p, int64_t tile_q, const unsigned *x_flags,
                        const unsigned *w_flags, const float *x, const float *w, const float *bias, float *y,
                        void *stream)
{
    const place a = {x, w, bias, y, *shape};
    const long long tiles =
        shape->n * shape->groups * ((shape->p + tile_p - 1) / tile_p) * ((shape->q + tile_q - 1) / tile_q);
    cv_chain_tiles_kernel<<<blocks(tiles), 128, 0, (cudaStream_t)stream>>>(a, tile_p, tile_q, x_flags, w_flags);
    return cudaGetLastError();
}

int cv_chain_cuda_list(const cv_chain_shape *shape, const unsigned *count, const int64_t *list, int64_t capacity,
                       const float *x, const float *w, const float *bias, float *y, void *stream)
{
    const place a = {x, w, bias, y, *shape};
    cv_chain_list_kernel<<<blocks((capacity + LIST_OUTPUTS - 1) / LIST_OUTPUTS), 256, 0, (cudaStream_t)stream>>>(
        a, count, list, capacity);
    return cudaGetLastError();
}
