/* Division by a number that the host knows: cv_divider_make (chain_host.h) gives the multiplier. */
#ifndef CV_CHAIN_DIVIDE_CUH
#define CV_CHAIN_DIVIDE_CUH

#include "chain_cuda.h"

__device__ __forceinline__ int cv_divide(int n, const cv_divider &by)
{
    return by.d == 1 ? n : (int)(__umulhi((unsigned)n, by.magic) >> by.shift);
}

#endif
