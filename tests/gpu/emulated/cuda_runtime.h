/*
 * What Convoy's kernels use of CUDA, for a machine made of fibers (fibers.cpp): found instead of the toolkit's header
 * of this name, it lets a C++ compiler build kernel sources as they are and run them without a GPU.
 *
 * A block's threads are fibers of one thread of the host, which change where a thread meets others; shared memory is
 * the host thread's own. `tile` and `ring` are a block's dynamic shared memory.
 */
#ifndef CV_EMULATED_CUDA_RUNTIME_H
#define CV_EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#define __CUDACC__
#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ thread_local
#define ring tile

using std::max;
using std::min;

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorNotSupported = 801 };
enum { cudaDevAttrComputeCapabilityMajor };
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);

namespace emulated
{

/* Waits for all threads of the warp, or of the block; `what` they all must have come for. The last to come calls last.
 */
void meet_warp(const char *what, const std::function<void()> &last = nullptr);
void meet_block(const char *what, const std::function<void()> &last = nullptr);
/* 32-bit words that every thread of the warp or block has given. */
const unsigned *exchange_warp(unsigned value, const char *what);
int any_of_block(int value);
unsigned shared_address(const void *p);

} // namespace emulated

static inline void __syncwarp() { emulated::meet_warp("__syncwarp"); }
static inline void __syncthreads() { emulated::meet_block("__syncthreads"); }
static inline int __syncthreads_or(int value) { return emulated::any_of_block(value); }
static inline unsigned __ballot_sync(unsigned, bool value)
{
    const unsigned *all = emulated::exchange_warp(value, "__ballot_sync");
    unsigned bits = 0;
    for (int i = 0; i < 32; i++)
        bits |= all[i] << i;
    return bits;
}
static inline bool __any_sync(unsigned mask, bool value) { return __ballot_sync(mask, value) != 0; }
static inline unsigned __shfl_xor_sync(unsigned, unsigned value, int far)
{
    return emulated::exchange_warp(value, "__shfl_xor_sync")[(threadIdx.x ^ far) & 31];
}
static inline unsigned __reduce_min_sync(unsigned, unsigned value)
{
    const unsigned *all = emulated::exchange_warp(value, "__reduce_min_sync");
    return *std::min_element(all, all + 32);
}

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
static inline unsigned atomicMax(unsigned *p, unsigned v)
{
    const unsigned old = *p;
    *p = max(old, v);
    return old;
}
static inline unsigned atomicMin(unsigned *p, unsigned v)
{
    const unsigned old = *p;
    *p = min(old, v);
    return old;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
static inline float __uint_as_float(unsigned bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz((unsigned)v); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline size_t __cvta_generic_to_shared(const void *p) { return emulated::shared_address(p); }

#endif
