/* Chosen outputs in FP64, the oracle, and y = bias where there is nothing to sum.
 *
 * One block an output: its threads sum every 128th tap of the row-major walk over c, r, s in double, then reduce in a
 * tree. Nothing here is meant to be quick; 4,096 outputs of 131,072 taps take a few milliseconds. */
#include <cuda_runtime.h>

#include "gpu_kernels.h"

namespace
{

enum { THREADS = 128 };

__global__ void __launch_bounds__(THREADS)
    cv_reference_kernel(const convoy_problem p, int64_t P, int64_t Q, const float *x, const float *w, const float *bias,
                        int64_t count, const int64_t *index, double *values, double *norms)
{
    __shared__ double sums[THREADS], sizes[THREADS];
    const int64_t cg = p.c / p.groups, kg = p.k / p.groups, taps = cg * p.r * p.s;
    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        int64_t rest = index[i];
        const int64_t q = rest % Q, row = (rest /= Q) % P, k = (rest /= P) % p.k, n = rest / p.k;
        double sum = 0, size = 0;
        for (int64_t t = threadIdx.x; t < taps; t += THREADS) {
            const int64_t s = t % p.s, r = t / p.s % p.r, c = t / p.s / p.r;
            const int64_t h = row * p.stride_h + r * p.dil_h - p.pad_t, col = q * p.stride_w + s * p.dil_w - p.pad_l;
            if (h < 0 || h >= p.h || col < 0 || col >= p.w)
                continue;
            const double product =
                (double)
                    x[n * p.x_stride[0] + (k / kg * cg + c) * p.x_stride[1] + h * p.x_stride[2] + col * p.x_stride[3]] *
                (double)w[k * p.w_stride[0] + c * p.w_stride[1] + r * p.w_stride[2] + s * p.w_stride[3]];
            sum += product;
            size += fabs(product);
        }
        sums[threadIdx.x] = sum;
        sizes[threadIdx.x] = size;
        __syncthreads();
        for (int half = THREADS / 2; half > 0; half /= 2) {
            if (threadIdx.x < half) {
                sums[threadIdx.x] += sums[threadIdx.x + half];
                sizes[threadIdx.x] += sizes[threadIdx.x + half];
            }
            __syncthreads();
        }
        if (threadIdx.x == 0) {
            const double b = bias ? (double)bias[k] : 0.0;
            values[i] = sums[0] + b;
            if (norms)
                norms[i] = sizes[0] + fabs(b);
        }
        __syncthreads();
    }
}

__global__ void __launch_bounds__(THREADS)
    cv_fill_bias_kernel(const convoy_problem p, int64_t P, int64_t Q, const float *bias, float *y)
{
    const int64_t all = p.n * p.k * P * Q, step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < all; i += step) {
        int64_t rest = i;
        const int64_t q = rest % Q, row = (rest /= Q) % P, k = (rest /= P) % p.k, n = rest / p.k;
        y[n * p.y_stride[0] + k * p.y_stride[1] + row * p.y_stride[2] + q * p.y_stride[3]] = bias ? bias[k] : 0.0f;
    }
}

unsigned blocks(int64_t wanted) { return (unsigned)(wanted < 1 ? 1 : wanted < 65536 ? wanted : 65536); }

} // namespace

int cv_gpu_reference(const convoy_problem *p, int64_t P, int64_t Q, const float *x, const float *w, const float *bias,
                     int64_t count, const int64_t *index, double *values, double *norms)
{
    cv_reference_kernel<<<blocks(count), THREADS>>>(*p, P, Q, x, w, bias, count, index, values, norms);
    return cudaGetLastError();
}

int cv_gpu_fill_bias(const convoy_problem *p, int64_t P, int64_t Q, const float *bias, float *y, void *stream)
{
    const int64_t all = p->n * p->k * P * Q;
    if (all)
        cv_fill_bias_kernel<<<blocks((all + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(*p, P, Q, bias,
                                                                                                         y);
    return cudaGetLastError();
}
