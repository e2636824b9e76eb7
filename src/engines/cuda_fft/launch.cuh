/* Launches of this engine's kernels with their own argument types; those of a run overlap where the plan says so
 * (gpu/overlap.cuh). Every kernel waits for the one before it before it reads what that wrote, or writes what that may
 * still read; since every kernel here waits, all earlier ones have ended then as well. */
#ifndef CV_CUDA_FFT_LAUNCH_CUH
#define CV_CUDA_FFT_LAUNCH_CUH

#include "gpu/allow_shared.cuh"
#include "gpu/overlap.cuh"
#include "spectral.h"

template <class... Arguments>
int cv_launch(void (*kernel)(Arguments...), int64_t blocks, int threads, size_t shared_bytes, void *stream, int overlap,
              Arguments... arguments)
{
    void *list[] = {(void *)&arguments...};
    return cv_overlap_launch((const void *)kernel, dim3((unsigned)blocks), (unsigned)threads, shared_bytes, stream,
                             overlap, list);
}

#endif
