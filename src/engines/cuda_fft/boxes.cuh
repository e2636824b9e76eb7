/*
 * Boxes of tensors to shared memory by the tensor copy engine (compute capability 9.0 on), and barriers that count
 * their arriving bytes. Whatever lies outside the tensor comes as zeros.
 */
#ifndef CV_CUDA_FFT_BOXES_CUH
#define CV_CUDA_FFT_BOXES_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ void cv_barrier_init(unsigned at)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
}
/* After the initialisation, before the first copy that arrives there. */
__device__ __forceinline__ void cv_barrier_fence()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void cv_barrier_expect(unsigned at, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cv_barrier_wait(unsigned at, int parity)
{
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(at),
        "r"(parity)
        : "memory");
}
__device__ __forceinline__ void cv_copy_box(unsigned to, const CUtensorMap *map, int channel, int group, int row,
                                            unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
        "[%5];" ::"r"(to),
        "l"(map), "r"(channel), "r"(group), "r"(row), "r"(barrier)
        : "memory");
}
__device__ __forceinline__ void cv_copy_box(unsigned to, const CUtensorMap *map, int col, int channel, int row,
                                            int group, int image, unsigned barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, "
        "%6}], [%7];" ::"r"(to),
        "l"(map), "r"(col), "r"(channel), "r"(row), "r"(group), "r"(image), "r"(barrier)
        : "memory");
}

#endif

/* The driver's function that describes boxes to the engine; NULL where there is none. */
static inline decltype(&cuTensorMapEncodeTiled) cv_boxes_encoder()
{
    cudaDriverEntryPointQueryResult found;
    void *address = nullptr;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found) !=
        cudaSuccess)
        return nullptr;
    return (decltype(&cuTensorMapEncodeTiled))address;
}

#endif
