/* The FMA ceiling of a GPU: chains of multiply-adds in registers.
 *
 * Each thread runs 16 independent chains acc = acc * a + b, so the four-cycle latency is hidden within a warp, and two
 * of the three operands come from the operand cache: the register file's bandwidth does not bound it. No memory
 * traffic. */
#include <cuda_runtime.h>

#include "gpu_kernels.h"

namespace
{

enum { CHAINS = 16, THREADS = 256, UNROLL = 8 };

__global__ void __launch_bounds__(THREADS) cv_burn_kernel(int rounds, float a, float b, float *sink)
{
    float acc[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i)
        acc[i] = (float)(threadIdx.x + i);
#pragma unroll 1
    for (int r = 0; r < rounds; ++r) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
#pragma unroll
            for (int i = 0; i < CHAINS; ++i)
                acc[i] = __fmaf_rn(acc[i], a, b);
    }
    float sum = 0;
#pragma unroll
    for (int i = 0; i < CHAINS; ++i)
        sum += acc[i];
    if (sum == -1.0f) /* never, but the compiler cannot know */
        *sink = sum;
}

} // namespace

int cv_gpu_has_code(void)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, cv_burn_kernel);
}

int cv_gpu_burn(int blocks, int rounds, float *sink, double *flop)
{
    cv_burn_kernel<<<blocks, THREADS>>>(rounds, 0.5f, 1.0f, sink);
    *flop = 2.0 * blocks * THREADS * CHAINS * UNROLL * rounds;
    return cudaGetLastError();
}
