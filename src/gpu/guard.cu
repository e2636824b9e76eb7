/* Scanning whole tensors for their magnitudes, and judging what was gathered.
 *
 * Scan: a block takes 2048 values of a plane, eight loads of a thread under way; the tensor is read once. Judge: a
 * thread a slot. */
#include <cuda_runtime.h>
#include <math.h>

#include "gpu/guard.cuh"
#include "gpu/guard.h"

namespace
{

enum { THREADS = 256, DEEP = 8, PART = DEEP * THREADS }; /* values of one block's part */

/* planes (a, b) of rows x cols values */
struct planes {
    long long a, b, rows, cols, stride_a, stride_b, stride_row, stride_col;
    long long per, div; /* plane (a, b) counts for slot a * per + b / div */
};

__global__ void __launch_bounds__(THREADS) cv_guard_scan_kernel(const float *data, const planes t, unsigned *slots)
{
    __shared__ cv_magnitude found[THREADS / 32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const long long values = t.rows * t.cols, parts = (values + PART - 1) / PART, all = t.a * t.b * parts;
    for (long long i = blockIdx.x; i < all; i += gridDim.x) {
        const long long part = i % parts, b = i / parts % t.b, a = i / parts / t.b;
        const long long end = min((part + 1) * PART, values);
        const float *plane = data + a * t.stride_a + b * t.stride_b;
        cv_magnitude m = {0, 0};
        for (long long e = part * PART + threadIdx.x; e < end; e += DEEP * THREADS) {
            float v[DEEP];
#pragma unroll
            for (int u = 0; u < DEEP; ++u) {
                const long long at = e + u * THREADS, row = t.rows > 1 ? at / t.cols : 0;
                v[u] = at < end ? plane[row * t.stride_row + (at - row * t.cols) * t.stride_col] : 0.0f;
            }
#pragma unroll
            for (int u = 0; u < DEEP; ++u)
                cv_magnitude_see(m, v[u]);
        }
        cv_magnitude_warp(m);
        if (lane == 0)
            found[warp] = m;
        __syncthreads();
        if (threadIdx.x < 32) {
            m = lane < THREADS / 32 ? found[lane] : cv_magnitude{0, 0};
            cv_magnitude_warp(m);
            if (lane == 0)
                cv_magnitude_store(m, slots + CV_GUARD_WORDS * (a * t.per + b / t.div));
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
    planes t = {size[0], size[1], size[2], size[3], stride[0], stride[1], stride[2], stride[3], per, div};
    /* rows without gaps make one row; planes without gaps that share a slot make one plane */
    if (t.stride_row == t.cols * t.stride_col) {
        t.cols *= t.rows;
        t.rows = 1;
        if (t.stride_b == t.cols * t.stride_col && t.b % div == 0) {
            t.cols *= div;
            t.b /= div;
            t.stride_b *= div;
            t.div = 1;
        }
    }
    const long long parts = (t.rows * t.cols + PART - 1) / PART;
    cv_guard_scan_kernel<<<grid(t.a * t.b * parts), THREADS, 0, (cudaStream_t)stream>>>(data, t, slots);
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
