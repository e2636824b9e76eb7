/* Which outputs the tolerance does not cover: a mask, and how many in each pool of the scatter kernel.
 *
 * A warp has WORDS words of 32 columns of one image and group, and PASSES times CHANNELS output channels of each, whose
 * results it has on the way at once. With several runs, y gets the sum of the pieces here.
 *
 * The outputs' own spread over the block's words measures the path too: where a channel's outputs are larger than x's
 * and w's energies make plausible (x and w go together), the larger variance holds.
 *
 * Traffic: the pieces (or y) read, y written where there are several, the maps from L2. Bound by instructions: about 90
 * for a word of one run. */
#include <cuda_runtime.h>

#include "gpu.h"
#include "gpu/overlap.cuh"

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32, WORDS = 2 };

/* Passes of a block: for one run, as many blocks as are under way at once on problem A. */
template <int RUNS> struct passes {
    enum { COUNT = RUNS == 1 ? 3 : 4 };
};

const float unit = 0x1p-24f, step_error = 0.4243f, step_variance = 0.18f, spread = 1.15f;
const float surprise = 17.0f; /* -log(probability / 2) */

/* The largest z that is tried, near the best one for an output at zero; ln(z / sin z) there. */
template <int RUNS> struct limit {
    static constexpr float z = RUNS > 2 ? 2.8f : 3.0f, bridge = RUNS > 2 ? 2.125f : 3.06f;
};

/* (surprise + runs/2 ln(z / sin z)) / z + z/2 v for a z near the best one; an upper bound for any z. */
template <int RUNS> __device__ __forceinline__ float allowance(float v)
{
    const float z = fminf(limit<RUNS>::z, sqrtf(2 * surprise) * rsqrtf(v)), z2 = z * z;
    /* ln(z / sin z) = -ln(1 - z^2/pi^2) + 0.0653 z^2 + 0.0005 z^4, a little above it */
    const float bridge = fmaf(z2, fmaf(z2, 0.0005f, 0.0654f), -__logf(1 - z2 * 0.101321184f));
    return __fdividef(fmaf(0.5f * RUNS, bridge, surprise), z) + 0.5f * z * v;
}

/* The same test with the best z, and with squares over e, which keep their range whatever the data's scale. */
template <int RUNS>
__device__ __forceinline__ bool is_safe(float scale, float f, float line, float mean, float prefix, float room)
{
    const float inverse = __fdividef(1.0f, scale);
    const float v = step_variance * ((line * inverse) * inverse + 2 * (mean * inverse) * (prefix * inverse)) +
                    (f * inverse) * (f * inverse);
    return unit * scale * allowance<RUNS>(v) <= room;
}

/* Whether the test passes for every sum whatever, where no output has more than these e, mean and f: a pass over one
 * channel's outputs is spared. T grows with a sum s no quicker than quadratically, by T(0) + k s^2 for z = z_most; and
 * beyond s = (rtol) / k no quicker than by the root of its two parts, G e / z_most + sqrt(2 G V). */
__device__ __forceinline__ bool all_safe(float scale, float f, float length, float mean, float prefix, float rtol,
                                         float atol)
{
    const float z_most = limit<1>::z, g = surprise + 0.5f * limit<1>::bridge,
                still = fmaf(f, f, step_variance * 2 * mean * prefix);
    const float growth = step_variance * length / 3, flat = unit * g / z_most * scale;
    const float k = unit * 0.5f * z_most * growth / scale, half = 0.5f * rtol;
    return scale > 1e-15f && scale < 1e15f && flat + unit * 0.5f * z_most * still / scale <= atol &&
           unit * sqrtf(2 * g * growth) <= half && flat + unit * sqrtf(2 * g * still) <= atol + half * (rtol / k);
}

/* The largest of values that are not negative; NaN if there is one. */
__device__ __forceinline__ unsigned warp_most(float v) { return __reduce_max_sync(~0u, __float_as_uint(v)); }

/* Sums of N values over the warp: lane l gets that of value (l / (32 / N)). */
template <int N> __device__ __forceinline__ float reduce(float (&v)[N])
{
    const int lane = threadIdx.x & 31;
    int far = 16;
#pragma unroll
    for (int n = N; n > 1; n /= 2, far /= 2) {
        const bool upper = lane & far;
#pragma unroll
        for (int i = 0; i < n / 2; ++i) {
            const float mine = upper ? v[i + n / 2] : v[i], other = upper ? v[i] : v[i + n / 2];
            v[i] = mine + __shfl_xor_sync(~0u, other, far);
        }
    }
    float sum = v[0];
    for (; far; far /= 2)
        sum += __shfl_xor_sync(~0u, sum, far);
    return sum;
}

template <int RUNS, int CHANNELS>
__global__ void __launch_bounds__(THREADS, 3) cv_match_select_kernel(const cv_match_gpu m, const cv_scatter pools)
{
    enum { SUMS = RUNS * CHANNELS, PASSES = passes<RUNS>::COUNT };
    __shared__ float squares[WARPS][SUMS], sums[SUMS];
    __shared__ unsigned live[WARPS], most_of[3];
    __shared__ int calm; /* this pass's channels need no look at their outputs */
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, words = (m.q + 31) / 32;
    const int ng = blockIdx.z, n = ng / m.groups, g = ng - n * m.groups;
    const int64_t plane = (int64_t)m.p * m.q, outputs = (int64_t)m.n * m.k * plane;
    const float length = (float)m.cg * (float)m.r * (float)m.s / RUNS;
    const int word0 = (blockIdx.x * WARPS + warp) * WORDS;
    int p[WORDS], q[WORDS], at[WORDS]; /* at: in a plane of outputs */
    bool in[WORDS];
    float e[WORDS], mean[WORDS], tile[WORDS];
    if (RUNS == 1 && threadIdx.x < 3)
        most_of[threadIdx.x] = 0;
    cv_overlap_next();
    cv_overlap_wait();
    if (RUNS == 1)
        __syncthreads();
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        p[i] = (word0 + i) / words;
        q[i] = (word0 + i - p[i] * words) * 32 + lane;
        in[i] = p[i] < m.p && q[i] < m.q;
        at[i] = in[i] ? p[i] * m.q + q[i] : 0;
        const float2 map = ((const float2 *)m.maps)[ng * plane + at[i]];
        e[i] = map.x, mean[i] = map.y;
        tile[i] =
            in[i] ? m.tiles[(ng * m.down + p[i] * m.st_h / m.step_h) * m.across + q[i] * m.st_w / m.step_w] : 0.0f;
    }
    if (RUNS == 1) { /* the block's largest e, mean and tile */
        float large[3] = {0, 0, 0};
#pragma unroll
        for (int i = 0; i < WORDS; ++i)
            if (in[i]) {
                large[0] = __uint_as_float(max(__float_as_uint(large[0]), __float_as_uint(e[i])));
                large[1] = __uint_as_float(max(__float_as_uint(large[1]), __float_as_uint(mean[i])));
                large[2] = __uint_as_float(max(__float_as_uint(large[2]), __float_as_uint(tile[i])));
            }
#pragma unroll
        for (int j = 0; j < 3; ++j) {
            const unsigned most = warp_most(large[j]);
            if (lane == 0)
                atomicMax(&most_of[j], most);
        }
    }
    unsigned marked = 0;
    const int k_end = min((g + 1) * m.kg, g * m.kg + (int)(blockIdx.y + 1) * PASSES * CHANNELS);
    for (int k0 = g * m.kg + blockIdx.y * PASSES * CHANNELS; k0 < k_end; k0 += CHANNELS) {
        const int kn = min(CHANNELS, k_end - k0);
        float d[CHANNELS][WORDS][RUNS];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            const int64_t y =
                n * m.ys[0] + (in[i] ? p[i] * m.ys[2] + q[i] * m.ys[3] : 0); /* outside: any of the plane's */
            const int64_t piece = (int64_t)n * m.k * plane + at[i];
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
                for (int r = 0; r < RUNS; ++r) {
                    const int k = k0 + min(c, kn - 1);
                    d[c][i][r] =
                        RUNS == 1 ? __ldcs(m.y + y + k * m.ys[1]) : __ldcs(m.pieces + r * outputs + piece + k * plane);
                }
        }
        if (RUNS == 1 && m.bias)
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
                for (int i = 0; i < WORDS; ++i)
                    d[c][i][0] -= m.bias[k0 + min(c, kn - 1)];
        float square[SUMS];
        bool wild = false;
#pragma unroll
        for (int j = 0; j < SUMS; ++j) {
            square[j] = 0;
#pragma unroll
            for (int i = 0; i < WORDS; ++i) {
                const float v = d[j / RUNS][i][j % RUNS], v2 = v * v;
                square[j] += in[i] && v2 < INFINITY ? v2 : 0.0f;
                wild |= in[i] && !(v2 < INFINITY);
            }
        }
        const float part = reduce<SUMS>(square);
        if (lane % (32 / SUMS) == 0)
            squares[warp][lane / (32 / SUMS)] = part;
        wild = __syncthreads_or(wild);
        if (threadIdx.x < SUMS) {
            float all = 0;
            for (int w = 0; w < WARPS; ++w)
                all += squares[w][threadIdx.x];
            /* outputs in the block's words, but for the last word of a row */
            const int count = min(WARPS * WORDS, words * m.p - (int)blockIdx.x * WARPS * WORDS);
            const float seen = step_error * sqrtf(spread * length * all * (float)words / ((float)count * (float)m.q));
            sums[threadIdx.x] = seen;
            if (RUNS == 1) {
                const float4 w =
                    *(const float4 *)(m.wstat + (int64_t)(k0 + min((int)threadIdx.x, kn - 1)) * CV_MATCH_W);
                const float f = __uint_as_float(most_of[2]) * w.y,
                            scale = fmaxf(fmaxf(__uint_as_float(most_of[0]) * w.x, seen), fmaxf(0.25f * f, 1e-37f));
                const bool quiet =
                    all_safe(scale, f, length, __uint_as_float(most_of[1]), w.z, m.rtol - 8 * unit, m.atol);
                const unsigned all_quiet = __ballot_sync((unsigned)((1ull << SUMS) - 1), quiet && isfinite(f + w.x));
                if (threadIdx.x == 0)
                    calm = all_quiet == (unsigned)((1ull << SUMS) - 1);
            }
        }
        __syncthreads();
        unsigned *mask = m.mask + ((int64_t)n * m.k + k0) * m.p * words + word0;
        if (RUNS == 1 && calm && !wild && !m.bias) {
            if (lane < WORDS * kn && word0 + lane % WORDS < m.p * words)
                mask[(int64_t)(lane / WORDS) * m.p * words + lane % WORDS] = 0;
            continue;
        }
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) {
            if (c >= kn)
                break;
            const int k = k0 + c;
            const float bias = m.bias ? m.bias[k] : 0.0f;
            const float4 w = *(const float4 *)(m.wstat + (int64_t)k * CV_MATCH_W); /* rms, norm, prefix, odd */
            float seen = 0;
#pragma unroll
            for (int r = 0; r < RUNS; ++r)
                seen = fmaxf(seen, sums[c * RUNS + r]);
#pragma unroll
            for (int i = 0; i < WORDS; ++i) {
                float value = d[c][i][0], path = value * value;
#pragma unroll
                for (int r = 1; r < RUNS; ++r) {
                    const float b = value + d[c][i][r];
                    path += fmaf(b, b, fmaf(value, b, value * value));
                    value = b;
                }
                const float sum = m.bias ? value + bias : value;
                if (RUNS > 1 && in[i])
                    m.y[n * m.ys[0] + k * m.ys[1] + p[i] * m.ys[2] + q[i] * m.ys[3]] = sum;
                const float f = tile[i] * w.y, scale = fmaxf(fmaxf(e[i] * w.x, seen), fmaxf(0.25f * f, 1e-37f));
                const float room = fmaf(m.rtol - 8 * unit, fabsf(sum), m.atol) - 4 * unit * fabsf(bias);
                /* V */
                const float v = fmaf(f, f, step_variance * fmaf(length / 3, path, 2 * mean[i] * w.z));
                /* the largest z's bound times e: no division. Where its squares may have lost digits, the bound is
                 * taken anew.
                 */
                const float most =
                    fmaf(0.5f * limit<RUNS>::z, v,
                         (surprise + 0.5f * RUNS * limit<RUNS>::bridge) / limit<RUNS>::z * scale * scale);
                bool safe = unit * most < room * scale && scale > 1e-15f; /* infinity is not below infinity */
                if (!safe)
                    /* of sums so small that their squares vanish, only zeros without anything near are told apart */
                    safe = (scale > 1e-15f || path > 1e-30f || (f == 0 && value == 0)) &&
                           is_safe<RUNS>(scale, f, length / 3 * path, mean[i], w.z, room);
                const unsigned bits = __ballot_sync(~0u, in[i] && !safe);
                if (lane == 0 && p[i] < m.p) {
                    mask[i] = bits;
                    if (bits) {
                        atomicAdd(&m.counts[cv_scatter_pool(&pools, n, k, p[i], q[i])], __popc(bits));
                        marked += __popc(bits);
                    }
                }
            }
            mask += (int64_t)m.p * words;
        }
    }
    if (lane == 0)
        live[warp] = marked;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned all = 0;
        for (int w = 0; w < WARPS; ++w)
            all += live[w];
        if (all)
            atomicAdd(&m.counts[pools.pools], all);
    }
}

template <int RUNS, int CHANNELS> int launch(const cv_match_gpu *m, const cv_scatter *scatter, void *stream)
{
    const int words = (m->q + 31) / 32 * m->p, each = WARPS * WORDS, channels = passes<RUNS>::COUNT * CHANNELS;
    const dim3 grid((unsigned)((words + each - 1) / each), (unsigned)((m->kg + channels - 1) / channels),
                    (unsigned)(m->n * m->groups));
    cv_match_gpu g = *m;
    cv_scatter pools = *scatter;
    void *args[] = {&g, &pools};
    return cv_overlap_launch((const void *)cv_match_select_kernel<RUNS, CHANNELS>, grid, THREADS, 0, stream, m->overlap,
                             args);
}

} // namespace

int cv_match_gpu_select(const cv_match_gpu *m, const cv_scatter *scatter, void *stream)
{
    return m->runs == 4   ? launch<4, 2>(m, scatter, stream)
           : m->runs == 2 ? launch<2, 4>(m, scatter, stream)
           : m->kg > 1    ? launch<1, 8>(m, scatter, stream)
                          : launch<1, 1>(m, scatter, stream);
}
