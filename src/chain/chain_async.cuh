/* Copies from global to shared memory that run beside arithmetic (sm_80 on). */
#ifndef CV_CHAIN_ASYNC_CUH
#define CV_CHAIN_ASYNC_CUH

__device__ __forceinline__ void cv_cp4(float *to, const float *from)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(a), "l"(from));
}

__device__ __forceinline__ void cv_cp16(float *to, const float *from)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(from));
}

/* The same under a condition, without a branch. */
__device__ __forceinline__ void cv_cp4_if(float *to, const float *from, bool copy)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], 4; }" ::"r"(a),
                 "l"(from), "r"((int)copy));
}

__device__ __forceinline__ void cv_cp16_if(float *to, const float *from, bool copy)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::"r"(a),
                 "l"(from), "r"((int)copy));
}

/* Without a condition, or zeros in place of what would be read. */
__device__ __forceinline__ void cv_cp4_or_zero(float *to, const float *from, bool copy)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(to), bytes = copy ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(a), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void cv_cp16_or_zero(float *to, const float *from, bool copy)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(to), bytes = copy ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(a), "l"(from), "r"(bytes));
}

/* Asks for a line of memory to come to L2; nothing waits for it. */
__device__ __forceinline__ void cv_fetch_line(const void *line)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
}

__device__ __forceinline__ void cv_cp_commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ __forceinline__ void cv_cp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

#endif
