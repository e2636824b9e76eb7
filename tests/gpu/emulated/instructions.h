/*
 * The emulated machine's own versions of the headers that hold PTX: boxes.cuh, mma.cuh, warpgroup.cuh and launch.cuh
 * with gpu/overlap.cuh. Included before a kernel's source, it keeps those out by their guards.
 */
#ifndef CV_EMULATED_INSTRUCTIONS_H
#define CV_EMULATED_INSTRUCTIONS_H

#define CV_CUDA_FFT_BOXES_CUH
#define CV_CUDA_FFT_MMA_CUH
#define CV_CUDA_FFT_WARPGROUP_CUH
#define CV_CUDA_FFT_LAUNCH_CUH
#define CV_GPU_OVERLAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include "engines/cuda_fft/spectral.h"

namespace emulated
{

int launch(const void *kernel, int64_t blocks, int threads, size_t shared_bytes, const std::function<void()> &body);
void copy_box(unsigned to, const CUtensorMap *map, const int *corner, unsigned barrier);
void queue_wgmma(int nt, int sign, float *d, const unsigned *a, unsigned long long b, int add);

} // namespace emulated

template <class... Arguments>
int cv_launch(void (*kernel)(Arguments...), int64_t blocks, int threads, size_t shared_bytes, void *, int,
              Arguments... arguments)
{
    return emulated::launch((const void *)kernel, blocks, threads, shared_bytes, [&] { kernel(arguments...); });
}
extern "C" int cv_allow_shared(const void *kernel, int bytes);
static inline void cv_overlap_next() {}
static inline void cv_overlap_wait() {}

/* boxes.cuh */
void cv_barrier_init(unsigned at);
static inline void cv_barrier_fence() {}
void cv_barrier_expect(unsigned at, int bytes);
void cv_barrier_wait(unsigned at, int parity);
static inline void cv_copy_box(unsigned to, const CUtensorMap *map, int channel, int group, int row, unsigned barrier)
{
    const int corner[5] = {channel, group, row, 0, 0};
    emulated::copy_box(to, map, corner, barrier);
}
static inline void cv_copy_box(unsigned to, const CUtensorMap *map, int col, int channel, int row, int group, int image,
                               unsigned barrier)
{
    const int corner[5] = {col, channel, row, group, image};
    emulated::copy_box(to, map, corner, barrier);
}
static inline decltype(&cuTensorMapEncodeTiled) cv_boxes_encoder() { return cuTensorMapEncodeTiled; }

/* mma.cuh and warpgroup.cuh, which share the kernels' own cut */
#include "engines/cuda_fft/tf32.cuh"
float4 cv_shared_16(unsigned from);
void cv_store_16(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d);
void cv_mma(float *d, const unsigned *a, const unsigned *b);
void cv_copy_16(unsigned to, const void *from, bool inside);
void cv_copy_commit();
void cv_copy_wait_for(int groups);
template <int N> static inline void cv_copy_wait() { cv_copy_wait_for(N); }
template <int NT, int SIGN> static inline void cv_wgmma(float *d, const unsigned *a, unsigned long long b, int add)
{
    emulated::queue_wgmma(NT, SIGN, d, a, b, add);
}
static inline void cv_proxy_fence() {}
static inline void cv_wgmma_begin() {}
void cv_wgmma_commit();
void cv_wgmma_wait();

#endif
