/* Twelve chains of multiply-adds in registers: more than latency times ports on any current core. */
#include "fma_rate.h"
#include "simd.h"

float CV_ISA_NAME(cv_fma)(int64_t rounds)
{
    vf a[CV_FMA_CHAINS];
    const vf m = vf_set1(0.999f), b = vf_set1(1e-3f);
#pragma GCC unroll 12
    for (int i = 0; i < CV_FMA_CHAINS; i++)
        a[i] = vf_set1((float)i);
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CV_FMA_CHAINS; i++)
            a[i] = vf_fma(a[i], m, b);
    }
#pragma GCC unroll 12 /* all three: else the array stays in memory and stores are what is timed */
    for (int i = 1; i < CV_FMA_CHAINS; i++)
        a[0] = vf_add(a[0], a[i]);
    return vf_hmax(a[0]);
}
