/*
 * Inverse transforms: product spectra to outputs, with crop, bias and store; flagged tiles by the direct sum instead.
 *
 *     y[n, k, OY ty + p, OX tx + q] = bias[k] + sum over ky, kx of Y[bin][tile][k] e^(2 pi i (ky p / TY + kx q / TX)),
 * p < OY, q < OX
 *
 * The scale 1 / (4 TY TX) that all transforms left out comes with the store.
 * One block: CB outputs k of one tile. Columns from global memory (lanes along k: 8 CB bytes a bin) to registers, the
 * OY rows that are kept to shared memory, rows in place, then whole rows to y.
 *
 * Shared memory: CB OY (TX + 1) words; registers as in the forward transform.
 * Traffic: read 8 BINS bytes a tile and output, write y once. Problem D at 64 x 64: 103 + 26 MB, 0.03 ms at 4.3 TB/s.
 * The guard costs a few flag bytes a block and no launch.
 */
#include <cuda_runtime.h>

#include "direct.cuh"
#include "stage.cuh"

template <int T>
static __device__ __forceinline__ void cv_columns_in(float *tile, cv_pitch pitch, int rows, int half_x, int cb,
                                                     int live_cb, const float2 *in, int64_t bin_stride)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const cv_tasks<T> mine;
    const int j = mine.j;
    for (int line = mine.first; line < cb * half_x; line += mine.step) {
        const int chan = line % cb, kx = line / cb;
        if (chan >= live_cb)
            continue;
        const float2 *from = in + kx * bin_stride + chan;
        const int64_t step = half_x * bin_stride;
        float2 v[H];
        /* real and imaginary part exchanged: an inverse */
        if constexpr (SPLIT == 1) {
#pragma unroll
            for (int i = 0; i < T; i++, from += step) {
                const float2 z = __ldcg(from); /* not in L1, whose lines a burst of 32-byte reads would exhaust */
                v[i] = cv_c(z.y, z.x);
            }
            if (kx == 0) {
                /* slots up to T/2 are F[0]'s, slot T/2 + k is F[TX/2]'s k; packed again as F[0] + i F[TX/2] */
                v[0].x = from[0].x;
                v[T / 2].x = from[bin_stride].x;
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
                    return cv_c(from[T * step + (k == 0 ? 0 : bin_stride)].x, a.x);
                b = from[(k + T / 2) * step];
                cv_pack(a, b);
                return i < T / 2 ? cv_c(a.y, a.x) : cv_c(b.y, b.x);
            });
        } else {
            cv_gather<T>(v, j, [&](int i) {
                const float2 z = __ldcg(from + i * step);
                return cv_c(z.y, z.x);
            });
        }
        cv_dft<H>::run(v);
        float *a = tile + chan * pitch.chan + 2 * kx;
#pragma unroll
        for (int m = 0; m < H; m++)
            if (SPLIT * m + j < rows)
                *(float2 *)(a + (SPLIT * m + j) * pitch.row) = cv_c(v[m].y, v[m].x);
    }
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

    const int xblocks = cv_spectral_xblocks(&g), wblocks = cv_spectral_wblocks(&g);
    int flagged = 0;
    for (int i = threadIdx.x; i < xblocks; i += blockDim.x)
        flagged |= g.xflag[(int64_t)item * xblocks + i];
    for (int i = threadIdx.x; i < live_cb * wblocks; i += blockDim.x)
        flagged |= g.wflag[(int64_t)(g.wk0 + first) * wblocks + i];
    const float2 *in = (const float2 *)g.yf + (int64_t)item * g.nk + first;
    cv_with_side<CLASS>(g.ty, [&](auto side) {
        cv_columns_in<decltype(side)::value>(tile, pitch, g.oy, g.tx / 2, g.cb, live_cb, in, (int64_t)g.tiles * g.nk);
    });
    if (__syncthreads_or(flagged)) {
        for (int i = 0; i < live_cb; i++)
            cv_direct_tile(g, at.n, g.k0 + first + i, p0, q0);
        return;
    }
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
    const int64_t blocks = (int64_t)g->tiles * ((g->nk + g->cb - 1) / g->cb);
    const size_t bytes = (size_t)cv_tile_pitch(g->oy, g->tx, g->cb).chan * g->cb * sizeof(float);
    kernels[cv_tile_class(
        g->ty, g->tx)]<<<(unsigned)blocks, cv_tile_threads(g->ty, g->tx, g->cb), bytes, (cudaStream_t)stream>>>(*g);
    return cudaGetLastError();
}
