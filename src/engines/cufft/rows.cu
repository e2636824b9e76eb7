/* Real rows in and out: padding x and w, cropping to y. All three are copies with contiguous rows on both sides.
 *
 *   pad_x   reads each row of x once from memory (its tiles across overlap in L1), writes tw * TX floats a row
 *   pad_w   reads w once, writes TX floats a row
 *   spread  reads tile_q of TX floats a row of a tile, writes y once
 *
 * A block takes 32 rows of one plane (pad_w: a plane or a few). A thread keeps its column, so what divides by tile or
 * row lengths is done once, and walks down the rows four loads at a time. Magnitudes: a thread's maximum over rows that
 * lie in the same tiles goes to shared memory, one atomic a tile and block to memory. */
#include <cuda_runtime.h>

#include "gpu/guard.cuh"
#include "gpu/guard.h"
#include "kernels.h"

namespace
{

enum { THREADS = 256, PART = 32, TABLE = 4096, DEEP = 4 }; /* TABLE: tiles that a block can gather in shared memory */

/* The tile rows among the band's that hold row `padded` of the padded image. */
__device__ __forceinline__ int2 tiles_of(const cv_pad_x &a, long long padded)
{
    const long long low = padded - a.ty + 1;
    const long long from = max(low <= 0 ? 0ll : (low + a.step_h - 1) / a.step_h, (long long)a.t_from);
    return make_int2((int)from, (int)min(padded / a.step_h, (long long)(a.t_from + a.t_count - 1)));
}

__device__ __forceinline__ void see(unsigned high, int2 tiles, int first, int tw, int j, unsigned *found,
                                    unsigned *slots)
{
    if (high == 0)
        return;
    for (int t = tiles.x; t <= tiles.y; ++t)
        if (!found)
            atomicMax(&slots[CV_GUARD_WORDS * ((long long)t * tw + j)], high);
        else if (high > found[(t - first) * tw + j])
            atomicMax(&found[(t - first) * tw + j], high);
}

__global__ void __launch_bounds__(THREADS) cv_cufft_pad_x_kernel(const cv_pad_x a, int parts, int table, int across)
{
    extern __shared__ unsigned gathered[];
    __shared__ int2 tiles[PART];
    const long long local = blockIdx.x / parts, plane = a.plane_from + local;
    const int part = blockIdx.x % parts, begin = part * PART, rows = min(PART, (int)a.rows - begin);
    const long long n = a.n_from + plane / a.channels, c = a.c_from + plane % a.channels;
    const int tw = (int)a.tw, wide = tw * a.tx, down = THREADS / across;
    const int column = threadIdx.x % across, top = threadIdx.x / across;
    unsigned *slots = a.slots + CV_GUARD_WORDS * (n * a.groups + c / a.cg) * a.th * a.tw, *found = table ? gathered : 0;
    if (threadIdx.x < rows)
        tiles[threadIdx.x] = tiles_of(a, a.row_from + begin + threadIdx.x + a.pad_t);
    for (int i = threadIdx.x; i < table; i += THREADS)
        gathered[i] = 0;
    __syncthreads();
    const int first = tiles[0].x;
    const float *x = a.x + n * a.xs[0] + c * a.xs[1] + (a.row_from + begin) * a.xs[2];
    float *out = a.out + (local * a.rows + begin) * wide;
    for (int m = column; m < wide && top < down; m += across) {
        const int j = m / a.tx;
        const long long col = j * a.step_w - a.pad_l + (m - j * a.tx);
        const bool inside = col >= 0 && col < a.W;
        const float *from = x + col * a.xs[3];
        unsigned high = 0;
        int2 now = make_int2(0, -1);
        for (int h = top; h < rows; h += DEEP * down) {
            float v[DEEP];
#pragma unroll
            for (int u = 0; u < DEEP; ++u)
                v[u] = inside && h + u * down < rows ? from[(h + u * down) * a.xs[2]] : 0.0f;
#pragma unroll
            for (int u = 0; u < DEEP; ++u)
                if (h + u * down < rows) {
                    const int2 t = tiles[h + u * down];
                    out[(long long)(h + u * down) * wide + m] = v[u];
                    if (t.x != now.x || t.y != now.y) {
                        see(high, now, first, tw, j, found, slots);
                        high = 0, now = t;
                    }
                    high = max(high, __float_as_uint(v[u]) & 0x7fffffffu);
                }
        }
        see(high, now, first, tw, j, found, slots);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < table; i += THREADS)
        if (gathered[i])
            atomicMax(&slots[CV_GUARD_WORDS * ((long long)first * tw + i)], gathered[i]);
}

/* `together` planes of one output channel a block. */
__global__ void __launch_bounds__(THREADS) cv_cufft_pad_w_kernel(const cv_pad_w a, int together)
{
    __shared__ cv_magnitude found[THREADS / 32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const long long local = (long long)blockIdx.x * together, plane = a.plane_from + local;
    const long long g = a.g_from + plane / a.cg / a.kernels, c = plane % a.cg;
    const long long k = g * a.kg + a.k_from + plane / a.cg % a.kernels;
    const int total = (int)min((long long)together, a.planes - local) * a.R * a.tx;
    const int step_row = THREADS / a.tx, step_i = THREADS % a.tx;
    const float *w = a.w + k * a.ws[0] + c * a.ws[1];
    float *out = a.out + local * a.R * a.tx;
    cv_magnitude m = {0, 0};
    int row = threadIdx.x / a.tx, i = threadIdx.x % a.tx;
    for (int e = threadIdx.x; e < total; e += DEEP * THREADS) {
        float v[DEEP];
#pragma unroll
        for (int u = 0; u < DEEP; ++u) {
            int s = i;
            bool tap = e + u * THREADS < total;
            if (a.dil > 1) {
                s = i / a.dil;
                tap = tap && s * a.dil == i;
            }
            tap = tap && s < a.S;
            v[u] = 0.0f;
            if (tap) {
                const int p = together > 1 ? row / a.R : 0, r = row - p * a.R;
                v[u] = w[p * a.ws[1] + r * a.ws[2] + s * a.ws[3]];
                if (a.raw)
                    a.raw[((k * a.cg + c + p) * a.R + r) * a.S + s] = v[u];
            }
            row += step_row, i += step_i;
            if (i >= a.tx)
                i -= a.tx, ++row;
        }
#pragma unroll
        for (int u = 0; u < DEEP; ++u)
            if (e + u * THREADS < total) {
                out[e + u * THREADS] = v[u];
                cv_magnitude_see(m, v[u]);
            }
    }
    cv_magnitude_warp(m);
    if (lane == 0)
        found[warp] = m;
    __syncthreads();
    if (threadIdx.x < 32) {
        m = lane < THREADS / 32 ? found[lane] : cv_magnitude{0, 0};
        cv_magnitude_warp(m);
        if (lane == 0)
            cv_magnitude_store(m, a.slots + CV_GUARD_WORDS * k);
    }
}

__global__ void __launch_bounds__(THREADS) cv_cufft_spread_kernel(const cv_spread a, int parts, int across)
{
    const long long local = blockIdx.x / parts, plane = a.plane_from + local;
    const long long n = a.n_from + plane / a.per_image, inner = plane % a.per_image;
    const long long k = (a.g_from + inner / a.kernels) * a.kg + a.k_from + inner % a.kernels;
    const int begin = (int)(blockIdx.x % parts) * PART, rows = min(PART, (int)a.rows - begin);
    const int down = THREADS / across, column = threadIdx.x % across, top = threadIdx.x / across;
    const long long wide = a.tw * a.tx;
    const float bias = a.bias ? a.bias[k] : 0.0f;
    const float *in = a.in + (local * a.rows + begin) * wide;
    float *y = a.y + n * a.ys[0] + k * a.ys[1] + (a.p_from + begin) * a.ys[2];
    for (long long q = column; q < a.Q && top < down; q += across) {
        const int j = (int)(q / a.tile_q);
        const float *from = in + j * a.tx + (q - j * a.tile_q) * a.stride_w;
        float *to = y + q * a.ys[3];
        for (int h = top; h < rows; h += DEEP * down) {
            float v[DEEP];
#pragma unroll
            for (int u = 0; u < DEEP; ++u)
                if (h + u * down < rows)
                    v[u] = from[(h + u * down) * wide];
#pragma unroll
            for (int u = 0; u < DEEP; ++u)
                if (h + u * down < rows)
                    to[(h + u * down) * a.ys[2]] = a.bias ? __fadd_rn(v[u], bias) : v[u];
        }
    }
}

/* Threads side by side for a row of that length; the others of the block take the rows below. */
int across_for(long long length) { return length >= THREADS ? THREADS : (int)((length + 31) / 32 * 32); }

} // namespace

int cv_cufft_pad_x(const cv_pad_x *a, void *stream)
{
    const long long parts = (a->rows + PART - 1) / PART;
    if (!parts || !a->planes)
        return cudaSuccess;
    const long long touched = ((PART + a->ty - 2) / a->step_h + 2) * a->tw;
    const int table = touched <= TABLE ? (int)touched : 0;
    cv_cufft_pad_x_kernel<<<(unsigned)(a->planes * parts), THREADS, table * sizeof(unsigned), (cudaStream_t)stream>>>(
        *a, (int)parts, table, across_for(a->tw * a->tx));
    return cudaGetLastError();
}

int cv_cufft_pad_w(const cv_pad_w *a, void *stream)
{
    int together = 1;
    while (together < 16 && together * a->R * a->tx < 2048 && a->cg % (2 * together) == 0 &&
           a->plane_from % (2 * together) == 0)
        together *= 2;
    cv_cufft_pad_w_kernel<<<(unsigned)((a->planes + together - 1) / together), THREADS, 0, (cudaStream_t)stream>>>(
        *a, together);
    return cudaGetLastError();
}

int cv_cufft_spread(const cv_spread *a, void *stream)
{
    const long long parts = (a->rows + PART - 1) / PART;
    cv_cufft_spread_kernel<<<(unsigned)(a->planes * parts), THREADS, 0, (cudaStream_t)stream>>>(*a, (int)parts,
                                                                                                across_for(a->Q));
    return cudaGetLastError();
}
