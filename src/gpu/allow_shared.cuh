/* How much dynamic shared memory a kernel's launches may ask for. */
#ifndef CV_GPU_ALLOW_SHARED_CUH
#define CV_GPU_ALLOW_SHARED_CUH

#include <cuda_runtime.h>

/* Lets KERNEL ask the current device for BYTES, or for what a block may have there where that is less; a cudaError_t.
 * The limit is the kernel's own, not a plan's: call it with the same BYTES every time, so that no plan lowers
 * another's. */
static inline int cv_allow_shared(const void *kernel, int bytes)
{
    int device = 0, most = 0;
    cudaFuncAttributes f;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e == cudaSuccess)
        e = cudaFuncGetAttributes(&f, kernel);
    if (e != cudaSuccess)
        return e;
    most -= (int)f.sharedSizeBytes;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes < most ? bytes : most);
}

#endif
