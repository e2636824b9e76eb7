/*
 * Forward transforms: tiles of x and kernels w to bin-major spectra.
 *
 *     X[bin][tile][c] = 2 sum over i,j of x[n, c, OY ty - pad + i, OX tx - pad + j] e^(-2 pi i (ky i / TY + kx j / TX))
 *     W[bin][k][c]    = conj of the same sum over w[k, c, r, s], divided by 2 TY TX (so that the inverse needs no scale)
 *
 * One block: CB channels of one tile or kernel. Copy to shared memory, rows in place, columns to registers and out. The column
 * pass has its lanes along c, so that each store of a warp fills 8 CB bytes at a bin. Of a kernel only R rows exist.
 *
 * Shared memory: CB (TY or R) (TX + 1) words; registers: one transform, 2 x 64 at most, and about 30.
 * Traffic: read x (overlaps come from L2) and w once, write 8 BINS bytes a tile and channel. Problem D at 64 x 64: 34 + 103 MB
 * for x, 67 + 269 MB for w; 0.11 ms at 4.3 TB/s. Instructions there: 62 M warp-wide, 0.07 ms at full issue.
 */
#include <cuda_runtime.h>

#include "direct.cuh"
#include "stage.cuh"

/* Columns of real-row spectra -> spectra, out[bin * bin_stride + channel], times (scale_re, scale_im). */
template <int T>
static __device__ __forceinline__ void cv_columns_out(const float *tile, cv_pitch pitch, int rows, int half_x, int cb, int live_cb,
                                                      float2 *out, int64_t bin_stride, float scale_re, float scale_im)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const cv_tasks<T> mine;
    const int j = mine.j;
    for (int line = mine.first; line < cb * half_x; line += mine.step) {
        const int chan = line % cb, kx = line / cb;
        const float *a = tile + chan * pitch.chan + kx;
        float2 v[H];
        cv_gather<T>(v, j, [&](int i) {
            return i < rows ? cv_c(a[i * pitch.row], a[i * pitch.row + half_x]) : cv_c(0.0f, 0.0f);
        });
        cv_dft<H>::run(v);
        if (chan >= live_cb)
            continue;
        float2 *to = out + kx * bin_stride + chan;
        const int64_t step = half_x * bin_stride;
        if (kx == 0) {
            cv_mirrors<T>(
                j,
                [&](int m, int mirror) {
                    cv_unpack(v[m], v[mirror]);
                    const int k = SPLIT * m + j;
                    to[k * step] = cv_c(0.5f * scale_re * v[m].x, 0.5f * scale_im * v[m].y);
                    to[(k + T / 2) * step] = cv_c(0.5f * scale_re * v[mirror].x, 0.5f * scale_im * v[mirror].y);
                },
                [&](int m) {
                    to[0] = cv_c(scale_re * v[m].x, 0.0f);
                    to[T * step] = cv_c(scale_re * v[m].y, 0.0f);
                },
                [&](int m) {
                    to[T / 2 * step] = cv_c(scale_re * v[m].x, 0.0f);
                    to[T * step + bin_stride] = cv_c(scale_re * v[m].y, 0.0f);
                });
        } else {
            to += j * step;
#pragma unroll
            for (int m = 0; m < H; m++, to += SPLIT * step)
                *to = cv_c(scale_re * v[m].x, scale_im * v[m].y);
        }
    }
}

/* Smallest non-zero magnitude of each kernel, for the flags: a warp takes a row. */
static __device__ void cv_scan_kernels(const float *tile, cv_pitch pitch, const cv_spectral &g, unsigned *smallest)
{
    const int lane = threadIdx.x & 31;
    for (int chan = 0; chan < g.cb; chan++) {
        unsigned least = 0x7f800000u;
        for (int r = threadIdx.x >> 5; r < g.r; r += blockDim.x / 32)
            for (int s = lane; s < g.s; s += 32) {
                const unsigned bits = __float_as_uint(tile[chan * pitch.chan + r * pitch.row + s]) & 0x7fffffffu;
                least = min(least, bits ? bits : least);
            }
        least = __reduce_min_sync(0xffffffffu, least);
        if (lane == 0)
            atomicMin(smallest + chan, least);
    }
}

template <int CLASS>
__global__ void __launch_bounds__(CV_THREADS(CLASS), CV_BLOCKS(CLASS))
    cv_forward_kernel(const __grid_constant__ cv_spectral g, int x_blocks)
{
    extern __shared__ float tile[];
    __shared__ unsigned largest[32], smallest[32];
    const bool is_x = (int)blockIdx.x < x_blocks;
    const int blocks = is_x ? cv_spectral_xblocks(&g) : cv_spectral_wblocks(&g);
    const int index = is_x ? blockIdx.x : blockIdx.x - x_blocks, item = index / blocks, block = index - item * blocks;
    const int rows = is_x ? g.ty : g.r, channels = is_x ? g.ng * g.cgp : g.cgp;
    const int live_cb = min(g.cb, channels - block * g.cb);
    const cv_pitch pitch = cv_tile_pitch(rows, g.tx, g.cb);

    if (threadIdx.x < 32) {
        largest[threadIdx.x] = 0;
        smallest[threadIdx.x] = 0x7f800000u;
    }
    if (is_x) {
        const cv_place at = cv_tile_place(g, g.tile0 + item);
        for (int i = 0; i < g.cb; i++) {
            const int flat = block * g.cb + i, group = flat / g.cgp, c = flat - group * g.cgp;
            const bool present = i < live_cb && c < g.cg;
            const float *plane = g.x + at.n * g.xs[0] + (present ? (g.g0 + group) * g.cg + c : 0) * g.xs[1];
            cv_load_plane(tile + i * pitch.chan, pitch.row, rows, g.tx, plane, g.xs[2], g.xs[3], at.ty * g.oy - g.pad_t,
                          at.tx * g.ox - g.pad_l, g.h, g.w, present);
        }
    } else {
        for (int i = 0; i < g.cb; i++) {
            const int c = block * g.cb + i;
            const bool present = i < live_cb && c < g.cg;
            const float *plane = g.weight + (g.k0 + item) * g.ws[0] + (present ? c : 0) * g.ws[1];
            cv_load_plane(tile + i * pitch.chan, pitch.row, rows, g.tx, plane, g.ws[2], g.ws[3], 0, 0, g.r, g.s, present);
        }
    }
    cv_copies_done();
    __syncthreads();
    if (!is_x) {
        cv_scan_kernels(tile, pitch, g, smallest);
        __syncthreads();
    }

    cv_with_side<CLASS>(g.tx, [&](auto side) { cv_rows_forward<decltype(side)::value>(tile, pitch, rows, g.cb, largest); });
    __syncthreads();

    if (threadIdx.x < 32) {
        const unsigned top = threadIdx.x < g.cb ? largest[threadIdx.x] : 0;
        const bool wide = !is_x && top != 0 && top - min(top, smallest[threadIdx.x]) >= CV_RANGE_RATIO;
        const unsigned flagged = __ballot_sync(0xffffffffu, cv_out_of_range(top) || wide);
        if (threadIdx.x == 0)
            (is_x ? g.xflag : g.wflag + (int64_t)g.wk0 * blocks)[(int64_t)item * blocks + block] = flagged != 0;
    }

    const bool depthwise = !is_x && g.cg == 1 && g.cgp == 1;
    const int64_t row = is_x ? (int64_t)item : (int64_t)(g.wk0 + item);
    const int64_t bin_stride = depthwise ? 1 : is_x ? (int64_t)g.tiles * channels : (int64_t)g.wrows * channels;
    float2 *out = (float2 *)(is_x ? g.xf : g.wf) + (depthwise ? row * g.bins : row * channels + block * g.cb);
    const float scale = is_x ? 1.0f : 1.0f / (4.0f * g.ty * g.tx), scale_im = is_x ? 1.0f : -scale;
    cv_with_side<CLASS>(g.ty, [&](auto side) {
        cv_columns_out<decltype(side)::value>(tile, pitch, rows, g.tx / 2, g.cb, live_cb, out, bin_stride, scale, scale_im);
    });
}

static size_t shared_bytes(const cv_spectral *g, int what)
{
    const int rows = (what & CV_FORWARD_X) && g->ty > g->r ? g->ty : g->r;
    return (size_t)cv_tile_pitch(rows, g->tx, g->cb).chan * g->cb * sizeof(float);
}

typedef void (*kernel_fn)(const cv_spectral, int);
static const kernel_fn kernels[3] = {cv_forward_kernel<0>, cv_forward_kernel<1>, cv_forward_kernel<2>};

extern "C" int cv_forward_setup(void)
{
    for (int i = 0; i < 3; i++) {
        cudaError_t e = cudaFuncSetAttribute(kernels[i], cudaFuncAttributeMaxDynamicSharedMemorySize, CV_SHARED_LIMIT);
        if (e != cudaSuccess)
            return e;
    }
    return cudaSuccess;
}

extern "C" int cv_spectral_forward(const cv_spectral *g, int what, void *stream)
{
    const int64_t x_blocks = what & CV_FORWARD_X ? (int64_t)g->tiles * cv_spectral_xblocks(g) : 0;
    const int64_t w_blocks = what & CV_FORWARD_W ? (int64_t)g->nk * cv_spectral_wblocks(g) : 0;
    const int threads = cv_tile_threads(g->ty, g->tx, g->cb);
    kernels[cv_tile_class(g->ty, g->tx)]<<<(unsigned)(x_blocks + w_blocks), threads, shared_bytes(g, what),
                                           (cudaStream_t)stream>>>(*g, (int)x_blocks);
    return cudaGetLastError();
}
