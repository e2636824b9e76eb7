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

/* Bulk copies (sm_90 on), which one thread enqueues and a barrier in shared memory counts by bytes. Addresses and
 * sizes are multiples of 16 bytes. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CV_HAS_BULK 1
#else
#define CV_HAS_BULK 0
#endif

__device__ __forceinline__ void cv_bulk_barrier(unsigned barrier)
{
#if CV_HAS_BULK
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" ::"r"(barrier)
                 : "memory");
#endif
}

/* So many bytes are to come. */
__device__ __forceinline__ void cv_bulk_expect(unsigned barrier, int bytes)
{
#if CV_HAS_BULK
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}

__device__ __forceinline__ void cv_bulk_copy(float *to, const float *from, int bytes, unsigned barrier)
{
#if CV_HAS_BULK
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
#endif
}

/* What was read or written here by ordinary accesses comes before the bulk copies that follow a barrier. */
__device__ __forceinline__ void cv_bulk_fence()
{
#if CV_HAS_BULK
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void cv_bulk_wait(unsigned barrier, int parity)
{
#if CV_HAS_BULK
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(barrier),
        "r"(parity)
        : "memory");
#endif
}

#endif
