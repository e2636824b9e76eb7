/* Sums that the choice needs.
 *
 *   sums    xsum[part][n,g,h,w] = sum over the part's channels of x^2;  the last map: of x.  A block has 128 points,
 * its warps share the channels; x is read once, 128 bytes a warp and load. Of w, a warp a slice of whole channels:
 * energy, the strongest channel's, and the prefix sums' along the chain. boxes   window sums of the maps by rows, then
 * columns, in shared memory; norms of the engine's tiles; slices of w put together.
 *
 * Traffic: x and w once. All sums have a fixed order. */
#include <cuda_runtime.h>

#include "gpu.h"

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32, POINTS = 128 };

__device__ __forceinline__ float warp_sum(float v)
{
#pragma unroll
    for (int d = 16; d; d /= 2)
        v += __shfl_xor_sync(~0u, v, d);
    return v;
}

__device__ __forceinline__ void sum_x(const cv_match_gpu &m, int block)
{
    __shared__ float square[WARPS][POINTS], plain[WARPS][POINTS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, area = m.h * m.w;
    const int blocks = (area + POINTS - 1) / POINTS, ng = block / blocks, first = (block - ng * blocks) * POINTS;
    const int n = ng / m.groups, g = ng - n * m.groups;
    const int part = warp * m.parts / WARPS, sharers = WARPS / m.parts;
    const int c0 = part * m.part + warp % sharers, c1 = min((part + 1) * m.part, m.cg);
    int64_t at[4];
    bool in[4];
    float sq[4] = {0, 0, 0, 0}, sum[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int point = first + 32 * i + lane, row = point / m.w;
        in[i] = point < area;
        at[i] = in[i] ? row * m.xs[2] + (point - row * m.w) * m.xs[3] : 0;
    }
    const float *x = m.x + n * m.xs[0] + (int64_t)g * m.cg * m.xs[1];
#pragma unroll 4
    for (int c = c0; c < c1; c += sharers)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float v = x[c * m.xs[1] + at[i]];
            sq[i] = fmaf(v, v, sq[i]);
            sum[i] += v;
        }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        square[warp][32 * i + lane] = sq[i];
        plain[warp][32 * i + lane] = sum[i];
    }
    __syncthreads();
    const int64_t map = (int64_t)m.n * m.groups * area, to = (int64_t)ng * area + first;
    for (int i = threadIdx.x; i < POINTS * (m.parts + 1); i += THREADS) {
        const int z = i / POINTS, j = i - z * POINTS;
        float v = 0;
        if (z < m.parts)
            for (int k = z * sharers; k < (z + 1) * sharers; ++k)
                v += square[k][j];
        else
            for (int k = 0; k < WARPS; ++k)
                v += plain[k][j];
        if (first + j < area)
            m.xsum[z * map + to + j] = v;
    }
}

/* One slice of one output channel: with p_j the prefix sums of its taps, sum w, sum p_j, sum p_j^2, sum w^2, the
 * largest channel's sum w^2, and the number of taps. */
__device__ __forceinline__ void sum_w(const cv_match_gpu &m, int item)
{
    const int lane = threadIdx.x & 31, k = item / m.slices, slice = item - k * m.slices, area = m.r * m.s;
    const int c0 = slice * m.slice, c1 = min(c0 + m.slice, m.cg);
    const bool packed = m.ws[3] == 1 && m.ws[2] == m.s;
    float carry = 0, first = 0, second = 0, energy = 0, most = 0;
    for (int c = c0; c < c1; ++c) {
        const float *w = m.weight + k * m.ws[0] + c * m.ws[1];
        float channel = 0;
        for (int j0 = 0; j0 < area; j0 += 128) {
            float v[4], sum = 0, one = 0, two = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int j = j0 + 4 * lane + i;
                v[i] = j >= area ? 0.0f : packed ? w[j] : w[j / m.s * m.ws[2] + j % m.s * m.ws[3]];
            }
            const float live = (float)max(0, min(4, area - j0 - 4 * lane));
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum += v[i];
                channel = fmaf(v[i], v[i], channel);
                if (i < (int)live) {
                    one += sum;
                    two = fmaf(sum, sum, two);
                }
            }
            float before = sum;
#pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                const float other = __shfl_up_sync(~0u, before, d);
                before += lane >= d ? other : 0.0f;
            }
            const float all = __shfl_sync(~0u, before, 31), base = carry + before - sum;
            first += fmaf(live, base, one);
            second += two + 2 * base * one + live * base * base;
            carry += all;
        }
        channel = warp_sum(channel);
        energy += channel;
        most = channel > most || channel != channel ? channel : most;
    }
    first = warp_sum(first);
    second = warp_sum(second);
    if (lane == 0) {
        float *to = m.wslice + (int64_t)item * CV_MATCH_PIECE_W;
        to[0] = carry, to[1] = first, to[2] = second, to[3] = energy, to[4] = most;
        to[5] = (float)(c1 - c0) * (float)area;
    }
}

__global__ void __launch_bounds__(THREADS) cv_match_sums_kernel(const cv_match_gpu m, int x_blocks, int counters)
{
    if (blockIdx.x == 0)
        for (int i = threadIdx.x; i < counters; i += THREADS)
            m.counts[i] = 0;
    if ((int)blockIdx.x < x_blocks)
        sum_x(m, blockIdx.x);
    else {
        const int item = (blockIdx.x - x_blocks) * WARPS + (threadIdx.x >> 5);
        if (item < m.k * m.slices)
            sum_w(m, item);
    }
}

const float step_error = 0.4243f, more_variance = 1.1f, transform_sigmas = 12.0f;

__device__ __forceinline__ void box_x(const cv_match_gpu &m, int block)
{
    extern __shared__ float cv_match_shared[];
    const int t = m.box, tall = (t - 1) * m.st_h + m.r, wide = (t - 1) * m.st_w + m.s;
    float *region = cv_match_shared, *rows = region + tall * wide;
    const int nq = (m.q + t - 1) / t, np = (m.p + t - 1) / t;
    const int ng = block / (np * nq), p0 = block / nq % np * t, q0 = block % nq * t;
    const int64_t area = (int64_t)m.h * m.w, map = (int64_t)m.n * m.groups * area;
    const int h0 = p0 * m.st_h - m.pad_t, w0 = q0 * m.st_w - m.pad_l;
    const float taps = (float)m.r * (float)m.s, length = (float)m.cg * taps / (float)m.runs;
    float most[4] = {0, 0, 0, 0}; /* box <= 32 */
    for (int z = 0; z <= m.parts; ++z) {
        const float *from = m.xsum + z * map + ng * area;
        for (int i = threadIdx.x; i < tall * wide; i += THREADS) {
            const int h = h0 + i / wide, w = w0 + i % wide;
            const bool in = (unsigned)h < (unsigned)m.h && (unsigned)w < (unsigned)m.w;
            region[i] = in ? from[(int64_t)h * m.w + w] : 0.0f;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < tall * t; i += THREADS) {
            const float *a = region + i / t * wide + i % t * m.st_w;
            float sum = 0;
            for (int s = 0; s < m.s; ++s)
                sum += a[s];
            rows[i] = sum;
        }
        __syncthreads();
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const int i = threadIdx.x + v * THREADS, p = i / t, q = i % t;
            if (i >= t * t || p0 + p >= m.p || q0 + q >= m.q)
                continue;
            float sum = 0;
            for (int r = 0; r < m.r; ++r)
                sum += rows[(p * m.st_h + r) * t + q];
            const int64_t at = ((int64_t)ng * m.p + p0 + p) * m.q + q0 + q;
            if (z < m.parts) {
                const float density = sum / ((float)min(m.part, m.cg - z * m.part) * taps);
                most[v] = density > most[v] || density != density ? density : most[v];
                if (z == m.parts - 1)
                    m.maps[at] = step_error * length * sqrtf(more_variance * most[v]);
            } else {
                const float mean = sum / ((float)m.cg * taps);
                m.maps[(int64_t)m.n * m.groups * m.p * m.q + at] = mean * mean;
            }
        }
        __syncthreads();
    }
}

__device__ __forceinline__ void norm_of_tile(const cv_match_gpu &m, int block)
{
    __shared__ float found[WARPS];
    const int ng = block / (m.down * m.across), i = block / m.across % m.down, j = block % m.across;
    const int h0 = max(i * m.step_h - m.pad_t, 0), h1 = min(i * m.step_h - m.pad_t + m.tile_h, m.h);
    const int w0 = max(j * m.step_w - m.pad_l, 0), w1 = min(j * m.step_w - m.pad_l + m.tile_w, m.w);
    const int wide = max(w1 - w0, 0), points = max(h1 - h0, 0) * wide;
    const int64_t area = (int64_t)m.h * m.w, map = (int64_t)m.n * m.groups * area;
    float sum = 0;
    for (int z = 0; z < m.parts; ++z)
        for (int e = threadIdx.x; e < points; e += THREADS)
            sum += m.xsum[z * map + ng * area + (int64_t)(h0 + e / wide) * m.w + w0 + e % wide];
    sum = warp_sum(sum);
    if ((threadIdx.x & 31) == 0)
        found[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float all = 0;
        for (int w = 0; w < WARPS; ++w)
            all += found[w];
        m.tiles[block] = transform_sigmas * sqrtf(all / ((float)m.tile_h * (float)m.tile_w));
    }
}

__device__ __forceinline__ void join_w(const cv_match_gpu &m, int k)
{
    float before = 0, second = 0, energy = 0, most = 0, density = 0;
    for (int i = 0; i < m.slices; ++i) {
        const float *a = m.wslice + ((int64_t)k * m.slices + i) * CV_MATCH_PIECE_W;
        const float here = a[3] / a[5];
        second += a[2] + 2 * before * a[1] + a[5] * before * before;
        before += a[0];
        energy += a[3];
        most = fmaxf(most, a[4]);
        density = fmaxf(density, here);
    }
    float *to = m.wstat + (int64_t)k * CV_MATCH_W;
    to[0] = sqrtf(density), to[1] = sqrtf(most), to[2] = second;
    to[3] = isfinite(energy) && isfinite(second) ? 0.0f : 1.0f;
    if (to[3] != 0.0f)
        to[0] = energy - energy; /* NaN: nothing of this channel is safe */
}

__global__ void __launch_bounds__(THREADS) cv_match_boxes_kernel(const cv_match_gpu m, int boxes, int tiles)
{
    if ((int)blockIdx.x < boxes)
        box_x(m, blockIdx.x);
    else if ((int)blockIdx.x < boxes + tiles)
        norm_of_tile(m, blockIdx.x - boxes);
    else {
        const int k = (blockIdx.x - boxes - tiles) * THREADS + threadIdx.x;
        if (k < m.k)
            join_w(m, k);
    }
}

int blocks_of(int64_t items, int each) { return (int)((items + each - 1) / each); }

} // namespace

size_t cv_match_gpu_box_bytes(const cv_match_gpu *m, int box)
{
    const size_t tall = (size_t)(box - 1) * m->st_h + m->r, wide = (size_t)(box - 1) * m->st_w + m->s;
    return (tall * wide + tall * box) * sizeof(float);
}

int cv_match_gpu_setup(void)
{
    return cudaFuncSetAttribute((const void *)cv_match_boxes_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                144 * 1024);
}

int cv_match_gpu_sums(const cv_match_gpu *m, int counters, int what, void *stream)
{
    const int x = what & CV_MATCH_X ? m->n * m->groups * blocks_of((int64_t)m->h * m->w, POINTS) : 0;
    const int w = what & CV_MATCH_WEIGHTS ? blocks_of((int64_t)m->k * m->slices, WARPS) : 0;
    cv_match_sums_kernel<<<x + w, THREADS, 0, (cudaStream_t)stream>>>(*m, x, counters);
    return cudaGetLastError();
}

int cv_match_gpu_boxes(const cv_match_gpu *m, int what, void *stream)
{
    const int ng = m->n * m->groups;
    const int x = what & CV_MATCH_X ? ng * blocks_of(m->p, m->box) * blocks_of(m->q, m->box) : 0;
    const int t = what & CV_MATCH_X ? ng * m->down * m->across : 0;
    const int w = what & CV_MATCH_WEIGHTS ? blocks_of(m->k, THREADS) : 0;
    cv_match_boxes_kernel<<<x + t + w, THREADS, x ? cv_match_gpu_box_bytes(m, m->box) : 0, (cudaStream_t)stream>>>(
        *m, x, t);
    return cudaGetLastError();
}
