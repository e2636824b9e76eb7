/*
 * Instructions for product.cu, each behind a function: products of a warp, and asynchronous copies. The emulated
 * machine of the tests has its own.
 */
#ifndef CV_CUDA_FFT_MMA_CUH
#define CV_CUDA_FFT_MMA_CUH

#include "tf32.cuh"

__device__ __forceinline__ void cv_mma(float *d, const unsigned *a, const unsigned *b)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void cv_copy_16(unsigned to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
__device__ __forceinline__ void cv_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Until all but the last N groups of this thread's copies have arrived. */
template <int N> __device__ __forceinline__ void cv_copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ float4 cv_shared_16(unsigned from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from));
    return v;
}

#endif
