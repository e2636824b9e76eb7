/* Shared-memory limits of all kernels, raised once a device; and w's packed copy. */
#include <cuda_runtime.h>

#include "launch.cuh"

extern "C" {
int cv_forward_setup(void);
int cv_forward_lanes_setup(void);
int cv_product_setup(void);
int cv_inverse_setup(void);
int cv_inverse_lanes_setup(void);
int cv_depthwise_setup(void);
}

extern "C" int cv_spectral_setup(void)
{
    int (*const parts[])(void) = {cv_forward_setup, cv_forward_lanes_setup, cv_product_setup,
                                  cv_inverse_setup, cv_inverse_lanes_setup, cv_depthwise_setup};
    for (auto part : parts)
        if (int e = part())
            return e;
    return cudaSuccess;
}

/* copy[k][c][r][s] = w[k, c, r, s]. */
static __global__ void pack_kernel(const __grid_constant__ cv_spectral g, float *copy)
{
    const int64_t points = (int64_t)g.r * g.s, count = g.k * g.cg * points;
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t kc = i / points, point = i - kc * points, k = kc / g.cg, r = point / g.s;
        copy[i] = g.weight[k * g.ws[0] + (kc - k * g.cg) * g.ws[1] + r * g.ws[2] + (point - r * g.s) * g.ws[3]];
    }
}

extern "C" int cv_spectral_pack(const cv_spectral *g, float *copy, void *stream)
{
    const int64_t blocks = ((int64_t)g->k * g->cg * g->r * g->s + 255) / 256;
    pack_kernel<<<(unsigned)(blocks < 16384 ? blocks : 16384), 256, 0, (cudaStream_t)stream>>>(*g, copy);
    return cudaGetLastError();
}

/* A build for older devices that a driver translates for this one has no waits in its kernels. */
extern "C" int cv_spectral_overlaps(void)
{
    int device = 0, major = 0;
    cudaFuncAttributes attributes;
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaFuncGetAttributes(&attributes, (const void *)pack_kernel) == cudaSuccess)
        return major >= 9 && attributes.ptxVersion >= 90;
    (void)cudaGetLastError(); /* or the next launch would be blamed */
    return 0;
}
