/* Adds the bias in place: y is read and written once, a warp a row. */
#include <cuda_runtime.h>

#include "gpu/bias.h"

namespace
{

struct tensor {
    long long size[4], stride[4];
};

__global__ void __launch_bounds__(256) cv_bias_kernel(float *y, const tensor t, const float *bias)
{
    const long long rows = t.size[0] * t.size[1] * t.size[2];
    const int lane = threadIdx.x & 31;
    for (long long i = blockIdx.x * 8ll + (threadIdx.x >> 5); i < rows; i += gridDim.x * 8ll) {
        const long long p = i % t.size[2], k = i / t.size[2] % t.size[1], n = i / t.size[2] / t.size[1];
        float *row = y + n * t.stride[0] + k * t.stride[1] + p * t.stride[2];
        const float b = bias[k];
        for (long long q = lane; q < t.size[3]; q += 32)
            row[q * t.stride[3]] = __fadd_rn(row[q * t.stride[3]], b);
    }
}

} // namespace

int cv_bias_add(float *y, const int64_t size[4], const int64_t stride[4], const float *bias, void *stream)
{
    tensor t;
    for (int i = 0; i < 4; ++i)
        t.size[i] = size[i], t.stride[i] = stride[i];
    const long long rows = size[0] * size[1] * size[2], blocks = (rows + 7) / 8;
    cv_bias_kernel<<<(unsigned)(blocks < 65535 ? blocks : 65535), 256, 0, (cudaStream_t)stream>>>(y, t, bias);
    return cudaGetLastError();
}
