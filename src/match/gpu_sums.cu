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
#include "gpu/allow_shared.cuh"
#include "gpu/overlap.cuh"

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
 * largest channel's sum w^2, and the number of taps. Pieces of 128 taps of a channel, four pieces under way at once. */
__device__ __forceinline__ void sum_w(const cv_match_gpu &m, int item)
{
    enum { AHEAD = 4 };
    const int lane = threadIdx.x & 31, k = item / m.slices, slice = item - k * m.slices, area = m.r * m.s;
    const int c0 = slice * m.slice, c1 = min(c0 + m.slice, m.cg), per = (area + 127) / 128, pieces = (c1 - c0) * per;
    const bool packed = m.ws[3] == 1 && m.ws[2] == m.s;
    const float *w = m.weight + k * m.ws[0] + c0 * m.ws[1];
    float carry = 0, first = 0, second = 0, energy = 0, most = 0, channel = 0;
    for (int i0 = 0; i0 < pieces; i0 += AHEAD) {
        float v[AHEAD][4];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const int c = (i0 + a) / per, j0 = (i0 + a - c * per) * 128 + 4 * lane;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int j = j0 + i;
                v[a][i] = i0 + a >= pieces || j >= area ? 0.0f
                          : packed                      ? w[c * m.ws[1] + j]
                                                        : w[c * m.ws[1] + j / m.s * m.ws[2] + j % m.s * m.ws[3]];
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            if (i0 + a >= pieces)
                break;
            const int c = (i0 + a) / per, at = i0 + a - c * per;
            const int live = max(0, min(4, area - at * 128 - 4 * lane));
            float sum = 0, one = 0, two = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                sum += v[a][i];
                channel = fmaf(v[a][i], v[a][i], channel);
                one += i < live ? sum : 0.0f;
                two = fmaf(i < live ? sum : 0.0f, sum, two);
            }
            float before = sum;
#pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                const float other = __shfl_up_sync(~0u, before, d);
                before += lane >= d ? other : 0.0f;
            }
            const float base = carry + before - sum;
            first += fmaf((float)live, base, one);
            second += two + 2 * base * one + (float)live * base * base;
            carry += __shfl_sync(~0u, before, 31);
            if (at == per - 1) {
                channel = warp_sum(channel);
                energy += channel;
                most = channel > most || channel != channel ? channel : most;
                channel = 0;
            }
        }
    }
    first = warp_sum(first);
    second = warp_sum(second);
    if (lane == 0) {
        float *to = m.wslice + (int64_t)item * CV_MATCH_PIECE_W;
        to[0] = carry, to[1] = first, to[2] = second, to[3] = energy, to[4] = most;
        to[5] = (float)(c1 - c0) * (float)area;
    }
}

/* w's blocks come first: a warp there has more steps to take. */
__global__ void __launch_bounds__(THREADS) cv_match_sums_kernel(const cv_match_gpu m, int w_blocks, int counters)
{
    cv_overlap_next();
    if (blockIdx.x == 0)
        for (int i = threadIdx.x; i < counters; i += THREADS)
            m.counts[i] = 0;
    if ((int)blockIdx.x >= w_blocks)
        sum_x(m, blockIdx.x - w_blocks);
    else {
        const int item = blockIdx.x * WARPS + (threadIdx.x >> 5);
        if (item < m.k * m.slices)
            sum_w(m, item);
    }
}

const float step_error = 0.4243f, transform_sigmas = 12.0f;

/* box x box outputs, a power of two along a side and one a thread; at_once maps together. */
__device__ __forceinline__ void box_x(const cv_match_gpu &m, int block)
{
    extern __shared__ float cv_match_shared[];
    const int t = m.box, tall = (t - 1) * m.st_h + m.r, wide = (t - 1) * m.st_w + m.s, points = tall * wide;
    float *region = cv_match_shared, *rows = region + m.at_once * points;
    const int nq = (m.q + t - 1) / t, np = (m.p + t - 1) / t;
    const int ng = block / (np * nq), p0 = block / nq % np * t, q0 = block % nq * t;
    const int64_t area = (int64_t)m.h * m.w, map = (int64_t)m.n * m.groups * area;
    const int h0 = p0 * m.st_h - m.pad_t, w0 = q0 * m.st_w - m.pad_l;
    const float taps = (float)m.r * (float)m.s, length = (float)m.cg * taps / (float)m.runs;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, shift = 31 - __clz(t);
    const int p = threadIdx.x >> shift, q = threadIdx.x & (t - 1);
    float most = 0, mean = 0;
    for (int z0 = 0; z0 <= m.parts; z0 += m.at_once) {
        const int maps = min(m.at_once, m.parts + 1 - z0);
#pragma unroll 4
        for (int row = warp; row < maps * tall; row += WARPS) {
            const int z = row / tall, h = h0 + row - z * tall;
            const float *from = m.xsum + (z0 + z) * map + ng * area + (int64_t)h * m.w;
            for (int j = lane; j < wide; j += 32) {
                const int w = w0 + j;
                const bool in = (unsigned)h < (unsigned)m.h && (unsigned)w < (unsigned)m.w;
                region[row * wide + j] = in ? from[w] : 0.0f;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < maps * tall * t; i += THREADS) { /* region's rows follow each other, map by map */
            const float *a = region + (i >> shift) * wide + (i & (t - 1)) * m.st_w;
            float sum = 0;
#pragma unroll 4
            for (int s = 0; s < m.s; ++s)
                sum += a[s];
            rows[i] = sum;
        }
        __syncthreads();
        for (int z = z0; z < z0 + maps && p < t; ++z) {
            const float *a = rows + ((z - z0) * tall + p * m.st_h) * t + q;
            float sum = 0;
#pragma unroll 4
            for (int r = 0; r < m.r; ++r)
                sum += a[r * t];
            if (z < m.parts) {
                const float density = sum / ((float)min(m.part, m.cg - z * m.part) * taps);
                most = density > most || density != density ? density : most;
            } else {
                mean = sum / ((float)m.cg * taps);
            }
        }
        __syncthreads();
    }
    if (p < t && p0 + p < m.p && q0 + q < m.q)
        ((float2 *)m.maps)[((int64_t)ng * m.p + p0 + p) * m.q + q0 + q] =
            make_float2(step_error * length * sqrtf(most), mean * mean);
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
#pragma unroll 2
    for (int e = threadIdx.x; e < points; e += THREADS) {
        const float *from = m.xsum + ng * area + (int64_t)(h0 + e / wide) * m.w + w0 + e % wide;
        float v[CV_MATCH_PARTS];
#pragma unroll
        for (int z = 0; z < CV_MATCH_PARTS; ++z)
            v[z] = z < m.parts ? from[z * map] : 0.0f;
        sum += (v[0] + v[1]) + (v[2] + v[3]);
    }
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

/* Slices of one output channel put together, in order, by a warp. */
__device__ __forceinline__ void join_w(const cv_match_gpu &m, int k)
{
    const int lane = threadIdx.x & 31, each = (m.slices + 31) / 32;
    float sum = 0, first = 0, second = 0, taps = 0, energy = 0, most = 0, density = 0;
    for (int i = lane * each; i < min((lane + 1) * each, m.slices); ++i) {
        const float *a = m.wslice + ((int64_t)k * m.slices + i) * CV_MATCH_PIECE_W;
        second += a[2] + 2 * sum * a[1] + a[5] * sum * sum;
        first += a[1] + a[5] * sum;
        sum += a[0], taps += a[5], energy += a[3];
        most = fmaxf(most, a[4]);
        density = fmaxf(density, a[3] / a[5]);
    }
#pragma unroll
    for (int d = 1; d < 32; d *= 2) { /* the lane d further holds what follows */
        const float n_sum = __shfl_down_sync(~0u, sum, d), n_first = __shfl_down_sync(~0u, first, d),
                    n_second = __shfl_down_sync(~0u, second, d), n_taps = __shfl_down_sync(~0u, taps, d);
        second += n_second + 2 * sum * n_first + n_taps * sum * sum;
        first += n_first + n_taps * sum;
        sum += n_sum, taps += n_taps;
        most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
        density = fmaxf(density, __shfl_xor_sync(~0u, density, d));
    }
    energy = warp_sum(energy);
    if (lane == 0) {
        const bool odd = !isfinite(energy) || !isfinite(second);
        /* NaN: nothing of this channel is safe */
        *(float4 *)(m.wstat + (int64_t)k * CV_MATCH_W) =
            make_float4(sqrtf(density), odd ? nanf("") : sqrtf(most), second, odd ? 1.0f : 0.0f);
    }
}

__global__ void __launch_bounds__(THREADS) cv_match_boxes_kernel(const cv_match_gpu m, int boxes, int tiles)
{
    cv_overlap_next();
    cv_overlap_wait();
    if ((int)blockIdx.x < boxes)
        box_x(m, blockIdx.x);
    else if ((int)blockIdx.x < boxes + tiles)
        norm_of_tile(m, blockIdx.x - boxes);
    else {
        const int k = (blockIdx.x - boxes - tiles) * WARPS + (threadIdx.x >> 5);
        if (k < m.k)
            join_w(m, k);
    }
}

const int MOST_SHARED = 144 * 1024; /* that blocks of boxes ask for, where the device has it */

int blocks_of(int64_t items, int each) { return (int)((items + each - 1) / each); }

} // namespace

size_t cv_match_gpu_box_bytes(const cv_match_gpu *m)
{
    const size_t tall = (size_t)(m->box - 1) * m->st_h + m->r, wide = (size_t)(m->box - 1) * m->st_w + m->s;
    return m->at_once * (tall * wide + tall * m->box) * sizeof(float);
}

int cv_match_gpu_cut(cv_match_gpu *m, size_t shared_bytes)
{
    const size_t most = shared_bytes && shared_bytes < MOST_SHARED ? shared_bytes - 1024 : MOST_SHARED - 16 * 1024;
    m->parts = m->cg >= 2 * CV_MATCH_PARTS ? CV_MATCH_PARTS : 1;
    m->part = (m->cg + m->parts - 1) / m->parts;
    m->slice = 512 / (m->r * m->s);
    m->slice = m->slice < 1 ? 1 : m->slice > m->cg ? m->cg : m->slice;
    m->slices = (m->cg + m->slice - 1) / m->slice;
    m->box = 16;
    m->at_once = m->parts + 1;
    if (cv_match_gpu_box_bytes(m) > 96 * 1024)
        m->at_once = 1;
    for (; cv_match_gpu_box_bytes(m) > most; m->box /= 2)
        if (m->box == 1)
            return 0;
    return 1;
}

int cv_match_gpu_setup(void) { return cv_allow_shared((const void *)cv_match_boxes_kernel, MOST_SHARED); }

int cv_match_gpu_sums(const cv_match_gpu *m, int counters, int what, void *stream)
{
    const int x = what & CV_MATCH_X ? m->n * m->groups * blocks_of((int64_t)m->h * m->w, POINTS) : 0;
    const int w = what & CV_MATCH_WEIGHTS ? blocks_of((int64_t)m->k * m->slices, WARPS) : 0;
    cv_match_sums_kernel<<<x + w, THREADS, 0, (cudaStream_t)stream>>>(*m, w, counters);
    return cudaGetLastError();
}

int cv_match_gpu_boxes(const cv_match_gpu *m, int what, void *stream)
{
    const int ng = m->n * m->groups;
    const int x = what & CV_MATCH_X ? ng * blocks_of(m->p, m->box) * blocks_of(m->q, m->box) : 0;
    const int t = what & CV_MATCH_X ? ng * m->down * m->across : 0;
    const int w = what & CV_MATCH_WEIGHTS ? blocks_of(m->k, WARPS) : 0;
    cv_match_gpu g = *m;
    int boxes = x, tiles = t;
    void *args[] = {&g, &boxes, &tiles};
    return cv_overlap_launch((const void *)cv_match_boxes_kernel, dim3((unsigned)(x + t + w)), THREADS,
                             x ? cv_match_gpu_box_bytes(m) : 0, stream, m->overlap, args);
}
