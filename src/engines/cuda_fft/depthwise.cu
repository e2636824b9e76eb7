/*
 * Groups of one channel: forward transform, product with the kernel's spectrum, inverse, crop, bias and store in one
 * kernel.
 *
 *     y[n,k] = bias[k] + crop of F^-1 (F x[n, k / KG] . W[k])      for one tile, W made by the forward transform's
 * kernel
 *
 * One block: CB outputs k of one tile. Copy to shared memory, rows in place, then each thread takes a column (lanes
 * along kx) through transform, product and inverse in its registers, and rows again. A column of more than 64 points is
 * shared by two threads and goes back to shared memory between the two transforms.
 *
 * Shared memory: CB TY (TX + 1) words. Traffic: x and y once (overlaps from L2), W (BINS complex a kernel) once for
 * each tile and image, from L2 mostly. n8c96h56r31 with 60 x 60: 10 + 10 + 6 MB and 46 MB of L2; 3072 tiles x 8 k
 * instructions of a warp, 30 us at full issue.
 */
#include <cuda_runtime.h>

#include "direct.cuh"
#include "launch.cuh"
#include "stage.cuh"

/* Product of one column's share with the conjugate of the kernel's spectrum, in natural (not packed) form; result
 * exchanged for the inverse. */
template <int T>
__device__ __forceinline__ void cv_column_product(float2 *v, int j, int kx, int half_x, const float2 *w)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    auto times = [](float2 a, float2 b) { return cv_cmul(a, b.x, b.y); };
    if (kx == 0) {
        cv_mirrors<T>(
            j,
            [&](int m, int mirror) {
                const int k = SPLIT * m + j;
                float2 a = v[m], b = v[mirror], wa = w[k * half_x], wb = w[(k + T / 2) * half_x];
                cv_unpack(a, b);
                a = times(a, cv_c(0.5f * wa.x, -0.5f * wa.y));
                b = times(b, cv_c(0.5f * wb.x, -0.5f * wb.y));
                cv_pack(a, b);
                v[m] = cv_c(a.y, a.x);
                v[mirror] = cv_c(b.y, b.x);
            },
            [&](int m) { v[m] = cv_c(v[m].y * w[T * half_x].x, v[m].x * w[0].x); },
            [&](int m) { v[m] = cv_c(v[m].y * w[T * half_x + 1].x, v[m].x * w[T / 2 * half_x].x); });
    } else {
#pragma unroll
        for (int m = 0; m < H; m++) {
            const float2 f = w[(SPLIT * m + j) * half_x + kx], z = times(v[m], cv_c(f.x, -f.y));
            v[m] = cv_c(z.y, z.x);
        }
    }
}

template <int T>
static __device__ __forceinline__ void cv_columns_product(float *tile, cv_pitch pitch, int rows, int half_x, int cb,
                                                          int live_cb, const float2 *w, int bins)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const cv_tasks<T> mine;
    const int j = mine.j;
    for (int base = 0; base < cb * half_x; base += mine.step) {
        const int line = base + mine.first, chan = line / half_x, kx = line - chan * half_x;
        const bool live = line < cb * half_x && chan < live_cb;
        float *a = tile + chan * pitch.chan + 2 * kx;
        float2 v[H];
        if (live)
            cv_gather<T>(v, j, [&](int i) { return *(const float2 *)(a + i * pitch.row); });
        if (SPLIT == 2)
            __syncthreads();
        if (live) {
            cv_dft<H>::run(v);
            cv_column_product<T>(v, j, kx, half_x, w + (int64_t)chan * bins);
        }
        if constexpr (SPLIT == 2) {
            if (live) {
#pragma unroll
                for (int m = 0; m < H; m++)
                    *(float2 *)(a + (SPLIT * m + j) * pitch.row) = v[m];
            }
            __syncthreads();
            if (live)
                cv_gather<T>(v, j, [&](int i) { return *(const float2 *)(a + i * pitch.row); });
            __syncthreads();
        }
        if (!live)
            continue;
        cv_dft<H>::run(v);
#pragma unroll
        for (int m = 0; m < H; m++)
            if (SPLIT * m + j < rows)
                *(float2 *)(a + (SPLIT * m + j) * pitch.row) = cv_c(v[m].y, v[m].x);
    }
}

template <int CLASS>
__global__ void __launch_bounds__(CV_THREADS(CLASS), CV_BLOCKS(CLASS))
    cv_depthwise_kernel(const __grid_constant__ cv_spectral g)
{
    extern __shared__ __align__(16) float tile[];
    __shared__ unsigned largest[16];
    const int blocks = (g.nk + g.cb - 1) / g.cb, item = blockIdx.x / blocks, block = blockIdx.x - item * blocks;
    const int live_cb = min(g.cb, g.nk - block * g.cb), first = block * g.cb;
    const cv_pitch pitch = cv_tile_pitch(g.ty, g.tx, g.cb);
    const cv_place at = cv_tile_place(g, g.tile0 + item);
    const int p0 = at.ty * g.oy, q0 = at.tx * g.ox;

    cv_overlap_next();
    if (threadIdx.x < 16)
        largest[threadIdx.x] = 0;
    const cv_window win = {p0 - g.pad_t, q0 - g.pad_l, g.h, g.w, g.xs[2], g.xs[3]};
    cv_load_tile<CLASS == 3 ? 2 : 4, false>(tile, pitch, g.cb, g.ty, g.tx, win, nullptr, [&](int i) -> const float * {
        return i < live_cb ? g.x + at.n * g.xs[0] + (g.k0 + first + i) / g.kg * g.xs[1] : nullptr;
    });
    __syncthreads();
    const float2 *w = (const float2 *)g.wf + (int64_t)(g.wk0 + first) * g.bins;
    cv_with_side<CLASS>(
        g.tx, [&](auto side) { cv_rows_forward<decltype(side)::value, false>(tile, pitch, g.ty, g.cb, largest); });
    __syncthreads();
    cv_overlap_wait();
    cv_with_side<CLASS>(g.ty, [&](auto side) {
        cv_columns_product<decltype(side)::value>(tile, pitch, g.oy, g.tx / 2, g.cb, live_cb, w, g.bins);
    });
    __syncthreads();
    cv_with_side<CLASS>(g.tx, [&](auto side) { cv_rows_inverse<decltype(side)::value>(tile, pitch, g.oy, g.cb); });
    __syncthreads();
    auto flagged = [&](int i) { return cv_out_of_range(largest[i]) || g.wflag[g.wk0 + first + i]; };
    cv_store_tile(g, tile, pitch, at.n, g.k0 + first, live_cb, p0, q0, flagged);
    for (int i = 0; i < live_cb; i++)
        if (flagged(i))
            cv_direct_tile(g, at.n, g.k0 + first + i, p0, q0);
}

typedef void (*kernel_fn)(const cv_spectral);
static const kernel_fn kernels[CV_CLASSES] = {cv_depthwise_kernel<0>, cv_depthwise_kernel<1>, cv_depthwise_kernel<2>,
                                              cv_depthwise_kernel<3>};

extern "C" int cv_depthwise_setup(void)
{
    for (kernel_fn kernel : kernels)
        if (int e = cv_allow_shared((const void *)kernel, CV_SHARED_LIMIT))
            return e;
    return cudaSuccess;
}

extern "C" int cv_spectral_depthwise(const cv_spectral *g, void *stream)
{
    const int64_t blocks = (int64_t)g->tiles * ((g->nk + g->cb - 1) / g->cb);
    const size_t bytes = (size_t)cv_tile_pitch(g->ty, g->tx, g->cb).chan * g->cb * sizeof(float);
    return cv_launch(kernels[cv_tile_class(g->ty, g->tx)], blocks, cv_tile_threads(g->ty, g->tx, g->cb), bytes, stream,
                     g->overlap, *g);
}
