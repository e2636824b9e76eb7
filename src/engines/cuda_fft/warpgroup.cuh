/*
 * Hopper's instructions for product_hopper.cu, each behind a function: warpgroup products, and 16-byte accesses to
 * shared memory.
 */
#ifndef CV_CUDA_FFT_WARPGROUP_CUH
#define CV_CUDA_FFT_WARPGROUP_CUH

#include <cuda.h>

#include "tf32.cuh"

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

/* d (+)= SIGN a b for 64 x 8 NT; add 0 begins a new sum. b: descriptor of the plane's core matrices. */
#define CV_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CV_OPERANDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(SIGN)
#define CV_WGMMA(N, LIST, A0, A1, A2, A3, B, P, S)                                                                     \
    "{ .reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" N "k8.f32.tf32.tf32 {" LIST "}, {" A0 \
    "," A1 "," A2 "," A3 "}, " B ", p, " S ", 1; }"
#define CV_L4(a, b, c, e) "%" #a ",%" #b ",%" #c ",%" #e
template <int NT, int SIGN>
__device__ __forceinline__ void cv_wgmma(float *d, const unsigned *a, unsigned long long b, int add)
{
#define CV_LIST3 CV_L4(0, 1, 2, 3) "," CV_L4(4, 5, 6, 7) "," CV_L4(8, 9, 10, 11)
#define CV_LIST4 CV_LIST3 "," CV_L4(12, 13, 14, 15)
#define CV_LIST5 CV_LIST4 "," CV_L4(16, 17, 18, 19)
#define CV_LIST7 CV_LIST5 "," CV_L4(20, 21, 22, 23) "," CV_L4(24, 25, 26, 27)
#define CV_LIST9 CV_LIST7 "," CV_L4(28, 29, 30, 31) "," CV_L4(32, 33, 34, 35)
    if constexpr (NT == 3)
        asm volatile(CV_WGMMA("24", CV_LIST3, "%12", "%13", "%14", "%15", "%16", "%17", "%18")
                     : CV_D4(0), CV_D4(4), CV_D4(8)
                     : CV_OPERANDS);
    else if constexpr (NT == 4)
        asm volatile(CV_WGMMA("32", CV_LIST4, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12)
                     : CV_OPERANDS);
    else if constexpr (NT == 5)
        asm volatile(CV_WGMMA("40", CV_LIST5, "%20", "%21", "%22", "%23", "%24", "%25", "%26")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12), CV_D4(16)
                     : CV_OPERANDS);
    else if constexpr (NT == 7)
        asm volatile(CV_WGMMA("56", CV_LIST7, "%28", "%29", "%30", "%31", "%32", "%33", "%34")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12), CV_D4(16), CV_D4(20), CV_D4(24)
                     : CV_OPERANDS);
    else
        asm volatile(CV_WGMMA("72", CV_LIST9, "%36", "%37", "%38", "%39", "%40", "%41", "%42")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12), CV_D4(16), CV_D4(20), CV_D4(24), CV_D4(28), CV_D4(32)
                     : CV_OPERANDS);
}

/* Before products that read planes which threads wrote; before the first product of a batch; its end; and until all
 * batches are done. */
__device__ __forceinline__ void cv_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void cv_wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void cv_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void cv_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

__device__ __forceinline__ float4 cv_shared_16(unsigned from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}
__device__ __forceinline__ void cv_store_16(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

#endif

#endif
