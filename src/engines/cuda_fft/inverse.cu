/*
 * Inverse transforms: product spectra to outputs, with crop, bias and store; flagged tiles by the direct sum instead.
 *
 *     y[n, k, OY ty + p, OX tx + q] = bias[k] + sum over ky, kx of Y[bin][tile][k] e^(2 pi i (ky p / TY + kx q / TX)),
 * p < OY, q < OX
 *
 * The scale 1 / (4 TY TX) that all transforms left out comes with the store.
 * One block: CB outputs k of one tile. Spectra to shared memory by asynchronous copies (8 CB bytes a bin), columns to
 * registers, the OY rows that are kept back to shared memory, rows in place, then whole rows to y.
 *
 * Shared memory: CB BINS complex, or CB OY (TX + 4) words if more; registers as in the forward transform.
 * Traffic: read 8 BINS bytes a tile and output, write y once. Problem D at 64 x 64: 103 + 26 MB, 0.03 ms at 4.3 TB/s.
 * The guard costs a few flag bytes a block and no launch.
 */
#include <cuda_runtime.h>

#include "direct.cuh"
#include "lanes.h"
#include "launch.cuh"
#include "stage.cuh"

/* spectra[bin][channel] = in[bin * bin_stride + channel] for live_cb of CB channels, without passing through registers
 * or the first-level cache, whose lines of 128 bytes would hold 32 each and run out. pairs: two channels lie at a
 * multiple of 16 bytes. */
static __device__ __forceinline__ void cv_fetch_spectra(float2 *spectra, const float2 *in, int64_t bin_stride, int bins,
                                                        int cb, int live_cb, bool pairs)
{
    const int words = pairs ? cb / 2 : cb, wide = pairs ? 2 : 1;
    const int part = threadIdx.x % words, first = threadIdx.x / words, step = blockDim.x / words;
    if (part * wide >= live_cb)
        return;
    const float2 *from = in + first * bin_stride + part * wide;
    unsigned to = (unsigned)__cvta_generic_to_shared(spectra + first * cb + part * wide);
    const int64_t down = step * bin_stride;
    if (pairs) {
#pragma unroll 8
        for (int bin = first; bin < bins; bin += step, from += down, to += step * cb * 8)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    } else {
        for (int bin = first; bin < bins; bin += step, from += down, to += step * cb * 8)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* One column a thread (or two threads): all are read before any is written, since rows take the spectra's place. */
template <int T>
static __device__ __forceinline__ void cv_columns_in(float *tile, cv_pitch pitch, int rows, int half_x, int cb,
                                                     int live_cb, const float2 *spectra)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const cv_tasks<T> mine;
    const int j = mine.j, chan = mine.first % cb, kx = mine.first / cb, step = half_x * cb;
    const bool live = mine.first < cb * half_x && chan < live_cb;
    const float2 *from = spectra + kx * cb + chan;
    float2 v[H];
    /* real and imaginary part exchanged: an inverse */
    if (!live) {
        /* takes part in the barrier only */
    } else if constexpr (SPLIT == 1) {
#pragma unroll
        for (int i = 0; i < T; i++) {
            const float2 z = from[i * step];
            v[i] = cv_c(z.y, z.x);
        }
        if (kx == 0) {
            /* slots up to T/2 are F[0]'s, slot T/2 + k is F[TX/2]'s k; packed again as F[0] + i F[TX/2] */
            v[0].x = from[T * step].x;
            v[T / 2].x = from[T * step + cb].x;
            float2 u[T / 2];
#pragma unroll
            for (int k = 1; k < T / 2; k++)
                u[k] = v[k + T / 2];
#pragma unroll
            for (int k = 1; k < T / 2; k++) {
                float2 a = cv_c(v[k].y, v[k].x), b = cv_c(u[k].y, u[k].x);
                cv_pack(a, b);
                v[k] = cv_c(a.y, a.x);
                v[T - k] = cv_c(b.y, b.x);
            }
        }
    } else if (kx == 0) {
        cv_gather<T>(v, j, [&](int i) {
            const int k = i <= T / 2 ? i : T - i;
            float2 a = from[k * step], b;
            if (k == 0 || k == T / 2)
                return cv_c(from[T * step + (k == 0 ? 0 : cb)].x, a.x);
            b = from[(k + T / 2) * step];
            cv_pack(a, b);
            return i < T / 2 ? cv_c(a.y, a.x) : cv_c(b.y, b.x);
        });
    } else {
        cv_gather<T>(v, j, [&](int i) {
            const float2 z = from[i * step];
            return cv_c(z.y, z.x);
        });
    }
    __syncthreads();
    if (!live)
        return;
    cv_dft<H>::run(v);
    float *a = tile + chan * pitch.chan + 2 * kx;
#pragma unroll
    for (int m = 0; m < H; m++)
        if (SPLIT * m + j < rows)
            *(float2 *)(a + (SPLIT * m + j) * pitch.row) = cv_c(v[m].y, v[m].x);
}

template <int CLASS>
__global__ void __launch_bounds__(CV_THREADS(CLASS), CV_BLOCKS(CLASS))
    cv_inverse_kernel(const __grid_constant__ cv_spectral g)
{
    extern __shared__ __align__(16) float tile[];
    const int blocks = (g.nk + g.cb - 1) / g.cb, item = blockIdx.x / blocks, block = blockIdx.x - item * blocks;
    const int live_cb = min(g.cb, g.nk - block * g.cb), first = block * g.cb;
    const cv_pitch pitch = cv_tile_pitch(g.oy, g.tx, g.cb);
    const cv_place at = cv_tile_place(g, g.tile0 + item);
    const int p0 = at.ty * g.oy, q0 = at.tx * g.ox;

    cv_overlap_next();
    cv_overlap_wait();
    const int flagged = cv_flags_of(g, item, first, live_cb);
    const float2 *in = (const float2 *)g.yf + (int64_t)item * g.nk + first;
    cv_fetch_spectra((float2 *)tile, in, (int64_t)g.tiles * g.nk, g.bins, g.cb, live_cb, g.nk % 2 == 0);
    if (__syncthreads_or(flagged)) {
        for (int i = 0; i < live_cb; i++)
            cv_direct_tile(g, at.n, g.k0 + first + i, p0, q0);
        return;
    }
    cv_with_side<CLASS>(g.ty, [&](auto side) {
        cv_columns_in<decltype(side)::value>(tile, pitch, g.oy, g.tx / 2, g.cb, live_cb, (const float2 *)tile);
    });
    __syncthreads();
    cv_with_side<CLASS>(g.tx, [&](auto side) { cv_rows_inverse<decltype(side)::value>(tile, pitch, g.oy, g.cb); });
    __syncthreads();
    cv_store_tile(g, tile, pitch, at.n, g.k0 + first, live_cb, p0, q0, [](int) { return false; });
}

typedef void (*kernel_fn)(const cv_spectral);
static const kernel_fn kernels[CV_CLASSES] = {cv_inverse_kernel<0>, cv_inverse_kernel<1>, cv_inverse_kernel<2>,
                                              cv_inverse_kernel<3>};

extern "C" int cv_inverse_setup(void)
{
    for (kernel_fn kernel : kernels)
        if (int e = cv_allow_shared((const void *)kernel, CV_SHARED_LIMIT))
            return e;
    return cudaSuccess;
}

extern "C" int cv_spectral_inverse(const cv_spectral *g, void *stream)
{
    if (g->lanes)
        return cv_inverse_lanes(g, stream);
    const int64_t blocks = (int64_t)g->tiles * ((g->nk + g->cb - 1) / g->cb);
    const size_t rows = (size_t)cv_tile_pitch(g->oy, g->tx, g->cb).chan * g->cb * sizeof(float);
    const size_t spectra = (size_t)g->bins * g->cb * 2 * sizeof(float), bytes = rows > spectra ? rows : spectra;
    return cv_launch(kernels[cv_tile_class(g->ty, g->tx)], blocks, cv_tile_threads(g->ty, g->tx, g->cb), bytes, stream,
                     g->overlap, *g);
}
