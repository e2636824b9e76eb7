/*
 * Forward transforms: tiles of x and kernels w to bin-major spectra.
 *
 *     X[bin][tile][c] = 2 sum over i,j of x[n, c, OY ty - pad + i, OX tx - pad + j] e^(-2 pi i (ky i / TY + kx j / TX))
 *     W[bin][k][c]    = the same sum over w[k, c, r, s]
 *
 * One block: CB channels of one tile or kernel. Copy to shared memory, rows in place, columns to registers and out. The
 * column pass has its lanes along c, so that each store of a warp fills 8 CB bytes at a bin. Of a kernel only R rows
 * are transformed, and where it fills at most half of the tile's height or width, that half is known to be zero at
 * compile time.
 *
 * Shared memory: CB (TY, or R or TY/2) TX words; registers: one transform, 2 x 64 at most, and about 30.
 * Traffic: read x (overlaps come from L2) and w once, write 8 BINS bytes a tile and channel. Problem D at 64 x 64: 34 +
 * 103 MB for x, 67 + 269 MB for w; 0.11 ms at 4.3 TB/s. Instructions there: 65 M warp-wide, 0.07 ms at full issue.
 */
#include <cuda_runtime.h>

#include "direct.cuh"
#include "lanes.h"
#include "launch.cuh"
#include "stage.cuh"

/* Columns of real-row spectra -> spectra, out[bin * bin_stride + channel]; HALF: only the first T/2 rows are not zero.
 */
template <int T, bool HALF>
static __device__ __forceinline__ void cv_columns_out(const float *tile, cv_pitch pitch, int half_x, int cb,
                                                      int live_cb, float2 *out, int64_t bin_stride)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const cv_tasks<T> mine;
    const int j = mine.j;
    const bool along = bin_stride == 1; /* depthwise: lanes along kx, as the bins of a kernel lie */
    for (int line = mine.first; line < (along ? live_cb : cb) * half_x; line += mine.step) {
        const int chan = along ? line / half_x : line % cb, kx = along ? line % half_x : line / cb;
        const float *a = tile + chan * pitch.chan + 2 * kx;
        float2 v[H];
        if constexpr (HALF && SPLIT == 1) {
#pragma unroll
            for (int i = 0; i < T / 2; i++)
                v[i] = *(const float2 *)(a + i * pitch.row);
            cv_dft_half<H>::run(v);
        } else {
            cv_gather<T>(v, j, [&](int i) { return *(const float2 *)(a + i * pitch.row); });
            cv_dft<H>::run(v);
        }
        if (chan >= live_cb)
            continue;
        float2 *to = out + kx * bin_stride + (along ? 0 : chan);
        const int64_t step = half_x * bin_stride;
        if (kx == 0) {
            /* F[0] + i F[TX/2]: the mirror tells them apart, halved to the scale of the others */
            float2 *last = to + T * step;
            cv_mirrors<T>(
                j,
                [&](int m, int mirror) {
                    cv_unpack(v[m], v[mirror]);
                    v[m] = cv_c(0.5f * v[m].x, 0.5f * v[m].y);
                    v[mirror] = cv_c(0.5f * v[mirror].x, 0.5f * v[mirror].y);
                },
                [&](int m) {
                    last[0] = cv_c(v[m].y, 0.0f);
                    v[m].y = 0.0f;
                },
                [&](int m) {
                    last[bin_stride] = cv_c(v[m].y, 0.0f);
                    v[m].y = 0.0f;
                });
            /* now v[m] is F[0] at k up to T/2, and at T - k is F[TX/2] at k: its slot is k + T/2 */
#pragma unroll
            for (int m = 0; m < H; m++) {
                const int k = SPLIT * m + j;
                to[(k <= T / 2 ? k : T + T / 2 - k) * step] = v[m];
            }
        } else {
            to += j * step;
#pragma unroll
            for (int m = 0; m < H; m++, to += SPLIT * step)
                *to = v[m];
        }
    }
}

template <int CLASS>
__global__ void __launch_bounds__(CV_THREADS(CLASS), CV_BLOCKS(CLASS))
    cv_forward_kernel(const __grid_constant__ cv_spectral g, int x_blocks)
{
    extern __shared__ __align__(16) float tile[];
    __shared__ unsigned largest[16], smallest[16];
    constexpr int CHANS = CLASS == 3 ? 2 : 4;
    const bool is_x = (int)blockIdx.x < x_blocks;
    const int blocks = is_x ? cv_spectral_xblocks(&g) : cv_spectral_wblocks(&g);
    const int index = is_x ? blockIdx.x : blockIdx.x - x_blocks, item = index / blocks, block = index - item * blocks;
    const int channels = is_x ? g.ng * g.cgp : g.cgp, cb = is_x ? g.cb : g.wcb, first = block * cb;
    const int live_cb = min(cb, channels - first);
    const bool half_y = !is_x && 2 * g.r <= g.ty && g.ty <= 64, half_x = !is_x && 2 * g.s <= g.tx && g.tx <= 64;
    const int rows = half_y ? g.ty / 2 : g.ty, cols = half_x ? g.tx / 2 : g.tx;
    const cv_pitch pitch = cv_tile_pitch(rows, g.tx, cb);

    if (threadIdx.x < 16) {
        largest[threadIdx.x] = 0;
        smallest[threadIdx.x] = 0x7f800000u;
    }
    cv_overlap_next();
    __syncthreads();
    if (is_x) {
        const cv_place at = cv_tile_place(g, g.tile0 + item);
        const cv_window win = {at.ty * g.oy - g.pad_t, at.tx * g.ox - g.pad_l, g.h, g.w, g.xs[2], g.xs[3]};
        cv_load_tile<CHANS, false>(tile, pitch, cb, rows, cols, win, nullptr, [&](int i) -> const float * {
            const int group = (first + i) / g.cgp, c = first + i - group * g.cgp;
            return i < live_cb && c < g.cg ? g.x + at.n * g.xs[0] + ((g.g0 + group) * g.cg + c) * g.xs[1] : nullptr;
        });
    } else {
        const cv_window win = {0, 0, g.r, g.s, g.ws[2], g.ws[3]};
        cv_load_tile<CHANS, true>(tile, pitch, cb, g.r, cols, win, smallest, [&](int i) -> const float * {
            return first + i < g.cg ? g.weight + (g.k0 + item) * g.ws[0] + (first + i) * g.ws[1] : nullptr;
        });
        /* rows below the kernel's count as zero for the columns */
        for (int i = 0; i < cb; i++)
            for (int word = g.r * pitch.row + threadIdx.x; word < rows * pitch.row; word += blockDim.x)
                tile[i * pitch.chan + word] = 0.0f;
    }
    __syncthreads();
    const int live_rows = is_x ? rows : g.r;
    cv_with_side<CLASS>(g.tx, [&](auto side) {
        constexpr int T = decltype(side)::value;
        if (half_x)
            cv_rows_forward<T, true>(tile, pitch, live_rows, live_cb, largest);
        else
            cv_rows_forward<T, false>(tile, pitch, live_rows, live_cb, largest);
    });
    __syncthreads();

    cv_overlap_wait(); /* it may still read the spectra that these replace */
    if (threadIdx.x < 32) {
        const unsigned top = threadIdx.x < cb ? largest[threadIdx.x] : 0;
        const bool wide = !is_x && top != 0 && top - min(top, smallest[threadIdx.x % 16]) >= CV_RANGE_RATIO;
        const unsigned flagged = __ballot_sync(0xffffffffu, cv_out_of_range(top) || wide);
        if (threadIdx.x == 0)
            (is_x ? g.xflag : g.wflag + (int64_t)g.wk0 * blocks)[(int64_t)item * blocks + block] = flagged != 0;
    }

    const bool depthwise = !is_x && g.cgp == 1;
    const int64_t row = is_x ? item : g.wk0 + item;
    const int64_t bin_stride = depthwise ? 1 : (int64_t)(is_x ? g.tiles : g.wrows) * channels;
    float2 *out = (float2 *)(is_x ? g.xf : g.wf) + (depthwise ? row * g.bins : row * channels + first);
    cv_with_side<CLASS>(g.ty, [&](auto side) {
        constexpr int T = decltype(side)::value;
        if (half_y)
            cv_columns_out<T, true>(tile, pitch, g.tx / 2, cb, live_cb, out, bin_stride);
        else
            cv_columns_out<T, false>(tile, pitch, g.tx / 2, cb, live_cb, out, bin_stride);
    });
}

static size_t shared_bytes(const cv_spectral *g, int what)
{
    const int rows = 2 * g->r <= g->ty && g->ty <= 64 ? g->ty / 2 : g->ty;
    const size_t x = (size_t)cv_tile_pitch(g->ty, g->tx, g->cb).chan * g->cb;
    const size_t w = (size_t)cv_tile_pitch(rows, g->tx, g->wcb).chan * g->wcb;
    return sizeof(float) * (what == CV_FORWARD_W || w > x ? w : x);
}

typedef void (*kernel_fn)(const cv_spectral, int);
static const kernel_fn kernels[CV_CLASSES] = {cv_forward_kernel<0>, cv_forward_kernel<1>, cv_forward_kernel<2>,
                                              cv_forward_kernel<3>};

extern "C" int cv_forward_setup(void)
{
    for (kernel_fn kernel : kernels)
        if (int e = cv_allow_shared((const void *)kernel, CV_SHARED_LIMIT))
            return e;
    return cudaSuccess;
}

extern "C" int cv_spectral_forward(const cv_spectral *g, int what, void *stream)
{
    if (g->lanes)
        return cv_forward_lanes(g, what, stream);
    const int64_t x_blocks = what & CV_FORWARD_X ? (int64_t)g->tiles * cv_spectral_xblocks(g) : 0;
    const int64_t w_blocks = what & CV_FORWARD_W ? (int64_t)g->nk * cv_spectral_wblocks(g) : 0;
    const int threads = cv_tile_threads(g->ty, g->tx, what & CV_FORWARD_X ? g->cb : g->wcb);
    return cv_launch(kernels[cv_tile_class(g->ty, g->tx)], x_blocks + w_blocks, threads, shared_bytes(g, what), stream,
                     g->overlap, *g, (int)x_blocks);
}
