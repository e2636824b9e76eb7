/* Gathering magnitudes inside a kernel; see guard.h. */
#ifndef CV_GUARD_CUH
#define CV_GUARD_CUH

/* What one thread has seen: the largest bits, and the complement of the smallest non-zero ones. */
struct cv_magnitude {
    unsigned high, low;
};

__device__ __forceinline__ void cv_magnitude_see(cv_magnitude &m, float v)
{
    const unsigned bits = __float_as_uint(v) & 0x7fffffffu;
    m.high = max(m.high, bits);
    m.low = max(m.low, bits ? ~bits : 0u);
}

__device__ __forceinline__ void cv_magnitude_warp(cv_magnitude &m)
{
    m.high = __reduce_max_sync(~0u, m.high);
    m.low = __reduce_max_sync(~0u, m.low);
}

/* By one lane. Slots of zeros cost nothing. */
__device__ __forceinline__ void cv_magnitude_store(const cv_magnitude &m, unsigned *slot)
{
    if (m.high) {
        atomicMax(slot, m.high);
        atomicMax(slot + 1, m.low);
    }
}

#endif
