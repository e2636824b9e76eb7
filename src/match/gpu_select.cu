/* Which outputs the tolerance does not cover: a mask, and how many in each pool of the scatter kernel.
 *
 * A warp has WORDS words of 32 columns of one image and group, and goes through CHANNELS output channels with them, so
 * that what belongs to the place is read once. With several runs, y gets the sum of the pieces here.
 *
 * The outputs' own spread over the block's words measures the path too: where a channel's outputs are larger than x's
 * and w's energies make plausible (x and w go together), the larger variance holds.
 *
 * Traffic: the pieces (or y) read, y written where there are several, the maps from L2. */
#include <cuda_runtime.h>

#include "gpu.h"

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32, WORDS = 4, CHANNELS = 4 };

const float unit = 0x1p-24f, step_error = 0.4243f, step_variance = 0.18f, spread = 1.25f;
const float surprise = 16.0f; /* -log(probability / 2) */
const float z_most = 2.8f;

/* (surprise + runs/2 ln(z / sin z)) / z + z/2 v for a z near the best one, all over e. An upper bound for any z. */
template <int RUNS> __device__ __forceinline__ float allowance(float v)
{
    const float z = fminf(z_most, sqrtf(2 * surprise) * rsqrtf(v)), z2 = z * z;
    /* ln(z / sin z) = -ln(1 - z^2/pi^2) + 0.0653 z^2 + 0.0005 z^4, a little above it */
    const float bridge = fmaf(z2, fmaf(z2, 0.0005f, 0.0654f), -__logf(1 - z2 * 0.101321184f));
    return __fdividef(fmaf(0.5f * RUNS, bridge, surprise), z) + 0.5f * z * v;
}

struct place {
    int64_t at; /* in a plane of y's outputs; negative: none */
    int64_t y;  /* in the caller's y */
    float e, mean, tile;
    int p, q;
};

template <int RUNS>
__global__ void __launch_bounds__(THREADS) cv_match_select_kernel(const cv_match_gpu m, const cv_scatter pools)
{
    __shared__ float squares[WARPS][RUNS];
    __shared__ int live[WARPS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, words = (m.q + 31) / 32;
    const int ng = blockIdx.z, n = ng / m.groups, g = ng - n * m.groups;
    const int64_t plane = (int64_t)m.p * m.q, outputs = (int64_t)m.n * m.k * plane;
    const float length = (float)m.cg * (float)m.r * (float)m.s / RUNS;
    place a[WORDS];
    int mine = 0;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        const int word = (blockIdx.x * WARPS + warp) * WORDS + i;
        a[i].p = word / words;
        a[i].q = (word - a[i].p * words) * 32 + lane;
        const bool in = a[i].p < m.p && a[i].q < m.q;
        a[i].at = in ? (int64_t)a[i].p * m.q + a[i].q : -1;
        a[i].y = a[i].p * m.ys[2] + a[i].q * m.ys[3];
        if (in) {
            a[i].e = m.maps[ng * plane + a[i].at];
            a[i].mean = m.maps[((int64_t)m.n * m.groups + ng) * plane + a[i].at];
            a[i].tile = m.tiles[(ng * m.down + a[i].p * m.st_h / m.step_h) * m.across + a[i].q * m.st_w / m.step_w];
        }
        mine += in;
    }
    if (lane == 0)
        live[warp] = 0;
    mine = __reduce_add_sync(~0u, mine);
    if (lane == 0)
        live[warp] = mine;
    unsigned marked = 0;
    const int k_end = min((g + 1) * m.kg, g * m.kg + (int)(blockIdx.y + 1) * CHANNELS);
    for (int k = g * m.kg + blockIdx.y * CHANNELS; k < k_end; ++k) {
        const float bias = m.bias ? m.bias[k] : 0.0f;
        float *y = m.y + n * m.ys[0] + k * m.ys[1];
        const int64_t from = ((int64_t)n * m.k + k) * plane;
        float sum[WORDS], value[WORDS], path[WORDS], square[RUNS];
#pragma unroll
        for (int r = 0; r < RUNS; ++r)
            square[r] = 0;
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            value[i] = path[i] = sum[i] = 0;
            if (a[i].at < 0)
                continue;
            if (RUNS == 1) {
                sum[i] = y[a[i].y];
                value[i] = sum[i] - bias;
                path[i] = value[i] * value[i];
                square[0] += isfinite(path[i]) ? path[i] : 0.0f;
            } else {
#pragma unroll
                for (int r = 0; r < RUNS; ++r) {
                    const float d = m.pieces[r * outputs + from + a[i].at], b = value[i] + d;
                    path[i] += fmaf(b, b, fmaf(value[i], b, value[i] * value[i]));
                    square[r] += isfinite(d * d) ? d * d : 0.0f;
                    value[i] = b;
                }
                sum[i] = m.bias ? value[i] + bias : value[i];
                y[a[i].y] = sum[i];
            }
            path[i] *= 1.0f / 3.0f;
        }
#pragma unroll
        for (int r = 0; r < RUNS; ++r) {
#pragma unroll
            for (int d = 16; d; d /= 2)
                square[r] += __shfl_xor_sync(~0u, square[r], d);
            if (lane == 0)
                squares[warp][r] = square[r];
        }
        __syncthreads();
        float most = 0;
        int count = 0;
        for (int w = 0; w < WARPS; ++w)
            count += live[w];
#pragma unroll
        for (int r = 0; r < RUNS; ++r) {
            float all = 0;
            for (int w = 0; w < WARPS; ++w)
                all += squares[w][r];
            most = fmaxf(most, all);
        }
        __syncthreads();
        const float seen = step_error * sqrtf(spread * length * (most / (float)max(count, 1)));
        const float *w = m.wstat + (int64_t)k * CV_MATCH_W;
        const float rms = w[0], norm = w[1], prefix = 2 * w[2];
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            bool unsafe = false;
            if (a[i].at >= 0) {
                /* in units of u; squares of e, which keep their range whatever the data's scale */
                const float model = a[i].e * rms, e = seen > model ? seen : model, f = a[i].tile * norm;
                float t = sqrtf(2 * surprise) * f;
                if (e != 0) {
                    const float inverse = 1 / e;
                    const float v = step_variance * ((length * inverse) * (path[i] * inverse) +
                                                     (a[i].mean * inverse) * (prefix * inverse)) +
                                    (f * inverse) * (f * inverse);
                    t = e * allowance<RUNS>(v);
                }
                const float room = m.atol + m.rtol * fabsf(sum[i]);
                unsafe = !(unit * (t + 4 * (fabsf(value[i]) + fabsf(sum[i]))) <= room);
            }
            const unsigned bits = __ballot_sync(~0u, unsafe);
            const int p = a[i].p, q = a[i].q - lane;
            if (lane == 0 && p < m.p) {
                m.mask[(((int64_t)n * m.k + k) * m.p + p) * words + q / 32] = bits;
                if (bits) {
                    atomicAdd(&m.counts[cv_scatter_pool(&pools, n, k, p, q)], __popc(bits));
                    marked += __popc(bits);
                }
            }
        }
    }
    if (lane == 0)
        live[warp] = (int)marked;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned all = 0;
        for (int w = 0; w < WARPS; ++w)
            all += (unsigned)live[w];
        if (all)
            atomicAdd(&m.counts[pools.pools], all);
    }
}

} // namespace

int cv_match_gpu_select(const cv_match_gpu *m, const cv_scatter *scatter, void *stream)
{
    const int words = (m->q + 31) / 32 * m->p, each = WARPS * WORDS;
    const dim3 grid((unsigned)((words + each - 1) / each), (unsigned)((m->kg + CHANNELS - 1) / CHANNELS),
                    (unsigned)(m->n * m->groups));
    if (m->runs == 1)
        cv_match_select_kernel<1><<<grid, THREADS, 0, (cudaStream_t)stream>>>(*m, *scatter);
    else
        cv_match_select_kernel<4><<<grid, THREADS, 0, (cudaStream_t)stream>>>(*m, *scatter);
    return cudaGetLastError();
}
