/* Kernels that may start while the one before them in the stream still runs (programmatic dependent launch, compute
 * capability 9.0 on). A kernel that is launched so calls cv_overlap_wait before it touches memory: it lasts until the
 * kernel before has ended and its writes are visible. cv_overlap_next, called early, lets the next such kernel start.
 */
#ifndef CV_GPU_OVERLAP_CUH
#define CV_GPU_OVERLAP_CUH

#include <cuda_runtime.h>

__device__ __forceinline__ void cv_overlap_next()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void cv_overlap_wait()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* A launch with or without that; a cudaError_t. CV_PLAIN_LAUNCHES: a build whose launches never overlap. */
static inline int cv_overlap_launch(const void *kernel, dim3 grid, unsigned threads, size_t shared, void *stream,
                                    int overlap, void **arguments)
{
#ifdef CV_PLAIN_LAUNCHES
    (void)overlap;
    return cudaLaunchKernel(kernel, grid, dim3(threads), arguments, shared, (cudaStream_t)stream);
#else
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelExC(&config, kernel, arguments);
#endif
}

#endif
