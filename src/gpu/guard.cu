/* Scanning whole tensors for their magnitudes, and judging what was gathered.
 *
 * Scan: one warp a row of a plane, a block a part of a plane; the tensor is read once. Judge: one thread a slot. */
#include <cuda_runtime.h>
#include <math.h>

#include "gpu/guard.cuh"
#include "gpu/guard.h"

namespace
{

enum { WARPS = 8, ROWS = 64 }; /* rows of one block's part */

struct tensor {
    long long size[4], stride[4];
};

__global__ void __launch_bounds__(32 * WARPS)
    cv_guard_scan_kernel(const float *data, const tensor t, long long per, long long div, unsigned *slots)
{
    __shared__ cv_magnitude found[WARPS];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const long long parts = (t.size[2] + ROWS - 1) / ROWS, all = t.size[0] * t.size[1] * parts;
    for (long long i = blockIdx.x; i < all; i += gridDim.x) {
        const long long part = i % parts, b = i / parts % t.size[1], a = i / parts / t.size[1];
        const long long end = min((part + 1) * ROWS, t.size[2]);
        cv_magnitude m = {0, 0};
        for (long long row = part * ROWS + warp; row < end; row += WARPS) {
            const float *p = data + a * t.stride[0] + b * t.stride[1] + row * t.stride[2];
            for (long long col = lane; col < t.size[3]; col += 32)
                cv_magnitude_see(m, p[col * t.stride[3]]);
        }
        cv_magnitude_warp(m);
        if (lane == 0)
            found[warp] = m;
        __syncthreads();
        if (threadIdx.x < 32) {
            m = lane < WARPS ? found[lane] : cv_magnitude{0, 0};
            cv_magnitude_warp(m);
            if (lane == 0)
                cv_magnitude_store(m, slots + CV_GUARD_WORDS * (a * per + b / div));
        }
        __syncthreads();
    }
}

struct list {
    const unsigned *slots;
    long long count;
    unsigned low, high;
    int span;
};

__device__ __forceinline__ unsigned judge(const list &l, long long i)
{
    const unsigned most = l.slots[CV_GUARD_WORDS * i], least = ~l.slots[CV_GUARD_WORDS * i + 1];
    const bool fine = most == 0 || (most >= l.low && most < l.high);
    return !fine || (most && l.span && (int)(most >> 23) - (int)(least >> 23) >= l.span);
}

__global__ void cv_guard_judge_kernel(const list x, const list w, unsigned *flags)
{
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < x.count + w.count; i += step)
        flags[i] = i < x.count ? judge(x, i) : judge(w, i - x.count);
}

unsigned power_of_two_bits(int exponent)
{
    const int e = exponent < -126 ? -126 : exponent > 128 ? 128 : exponent;
    return (unsigned)(e + 127) << 23;
}

list list_of(const unsigned *slots, int64_t count, cv_guard_range r)
{
    const list l = {slots, count, power_of_two_bits(r.low), power_of_two_bits(r.high), r.span};
    return l;
}

unsigned grid(long long wanted) { return (unsigned)(wanted < 1 ? 1 : wanted < 8192 ? wanted : 8192); }

} // namespace

int cv_guard_scan(const float *data, const int64_t size[4], const int64_t stride[4], int64_t per, int64_t div,
                  unsigned *slots, void *stream)
{
    tensor t;
    for (int i = 0; i < 4; ++i)
        t.size[i] = size[i], t.stride[i] = stride[i];
    const long long all = size[0] * size[1] * ((size[2] + ROWS - 1) / ROWS);
    cv_guard_scan_kernel<<<grid(all), 32 * WARPS, 0, (cudaStream_t)stream>>>(data, t, per, div, slots);
    return cudaGetLastError();
}

int cv_guard_judge(const unsigned *x_slots, int64_t x_count, cv_guard_range x_range, const unsigned *w_slots,
                   int64_t w_count, cv_guard_range w_range, unsigned *flags, void *stream)
{
    const list x = list_of(x_slots, x_count, x_range), w = list_of(w_slots, w_count, w_range);
    cv_guard_judge_kernel<<<grid((x_count + w_count + 255) / 256), 256, 0, (cudaStream_t)stream>>>(x, w, flags);
    return cudaGetLastError();
}

/* |X| < points * 2^high and |W| < taps * 2^high, so sums over the channels stay below points * taps * channels *
 * 2^(2*high): that must be below 2^127. Products of values near 2^low must keep 24 bits above the smallest normal
 * number, 2^-126. Weights that span more than 44 binary places hide their small taps below the bound: the chain keeps
 * them. */
cv_guard_range cv_guard_range_of(double points, double taps, double channels)
{
    cv_guard_range r;
    r.high = (int)floor((126 - ceil(log2(points) + log2(taps) + log2(channels))) / 2);
    r.low = -50;
    r.span = 44;
    return r;
}
