/*
 * Launches that overlap: a kernel's blocks may start while the kernel before it in the stream still runs its last ones.
 *
 * Programmatic dependent launch, compute capability 9.0 and later. A kernel calls cv_let_next_start early (its
 * successor is then scheduled as soon as all of this kernel's blocks run or have run) and cv_wait_for_previous before
 * it reads what the kernel before it wrote, or writes what that one may still read. The wait lasts until all blocks of
 * the kernel before have ended and their writes are visible; since every kernel here waits, so have all earlier ones.
 * Both do nothing in a kernel that was launched without the attribute, as the first of a run is. CUDA graphs capture
 * it.
 */
#ifndef CV_CUDA_FFT_LAUNCH_CUH
#define CV_CUDA_FFT_LAUNCH_CUH

#include <cuda_runtime.h>

#include "spectral.h"

__device__ __forceinline__ void cv_let_next_start()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void cv_wait_for_previous()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* CV_PLAIN_LAUNCHES: a build whose launches never overlap. */
template <class... Arguments>
int cv_launch(void (*kernel)(Arguments...), int64_t blocks, int threads, size_t shared_bytes, void *stream, int overlap,
              Arguments... arguments)
{
#ifdef CV_PLAIN_LAUNCHES
    (void)overlap;
    kernel<<<(unsigned)blocks, threads, shared_bytes, (cudaStream_t)stream>>>(arguments...);
    return cudaGetLastError();
#else
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)stream;
    config.attrs = &attribute;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
#endif
}

#endif
