/* Scattered chains over the taps of a stage in shared memory (scatter_kernel.cuh): loads of the next group of taps run
 * while the present one is summed. */
#ifndef CV_CHAIN_SCATTER_TAPS_CUH
#define CV_CHAIN_SCATTER_TAPS_CUH

#include "scatter.h"

/* Where a thread's chains stand in a stage: byte addresses in shared memory. */
struct cv_scatter_chains {
    unsigned x, w; /* the first chain's window and its w */
    int apart;     /* of the second chain's window from the first one's */
    float acc[2];
};

/* Loads that stay where they are written: left to itself the compiler moves those of the next group to their use. */
__device__ __forceinline__ float cv_scatter_read(unsigned at)
{
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at));
    return v;
}

__device__ __forceinline__ void cv_scatter_read4(unsigned at, float *v)
{
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at));
}

/* Operands of U taps. */
template <int U, int M> struct cv_scatter_taps {
    float x[M][U], w[U];
};

template <int U, int M>
__device__ __forceinline__ void cv_scatter_take(cv_scatter_taps<U, M> &to, unsigned x, unsigned w, int apart)
{
    if constexpr (U % 4 == 0)
#pragma unroll
        for (int u = 0; u < U; u += 4)
            cv_scatter_read4(w + 4 * u, to.w + u);
    else
        to.w[0] = cv_scatter_read(w);
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
        for (int m = 0; m < M; ++m)
            to.x[m][u] = cv_scatter_read(x + (m ? apart : 0) + 4 * u);
}

template <int U, int M>
__device__ __forceinline__ void cv_scatter_sum(const cv_scatter_taps<U, M> &from, float (&acc)[2])
{
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
        for (int m = 0; m < M; ++m)
            asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[m]) : "f"(from.x[m][u]), "f"(from.w[u]));
}

/* `rows` kernel rows of taps, R to a channel. U taps at a time, G times a row; G = 0: as many as S / U says. */
template <int U, int G, int M>
__device__ __forceinline__ void cv_scatter_rows(const cv_scatter &a, int floats, int rows, cv_scatter_chains &t)
{
    const int groups = G ? G : a.s / U, pitch = 4 * floats, leap = 4 * (a.plane - a.r * floats);
    unsigned x = t.x, w = t.w;
    cv_scatter_taps<U, M> one, two;
    int r = 0;
    cv_scatter_take<U, M>(one, x, w, t.apart);
#pragma unroll 1
    for (; rows > 0; --rows) {
        /* after the last row its beginning is read again, in vain */
        const bool wrap = ++r == a.r;
        const unsigned next = rows > 1 ? x + pitch + (wrap ? leap : 0) : x, w_next = rows > 1 ? w + 4 * a.s : w;
        r = wrap ? 0 : r;
        if constexpr (G > 0) {
#pragma unroll
            for (int g = 0; g < G; g += 2) {
                if (g + 1 < G)
                    cv_scatter_take<U, M>(two, x + 4 * (g + 1) * U, w + 4 * (g + 1) * U, t.apart);
                else
                    cv_scatter_take<U, M>(two, next, w_next, t.apart);
                cv_scatter_sum<U, M>(one, t.acc);
                if (g + 1 == G) {
                    one = two;
                    break;
                }
                if (g + 2 < G)
                    cv_scatter_take<U, M>(one, x + 4 * (g + 2) * U, w + 4 * (g + 2) * U, t.apart);
                else
                    cv_scatter_take<U, M>(one, next, w_next, t.apart);
                cv_scatter_sum<U, M>(two, t.acc);
            }
        } else {
#pragma unroll 1
            for (int g = 1; g <= groups; ++g) {
                const bool more = g < groups;
                cv_scatter_take<U, M>(two, more ? x + 4 * g * U : next, more ? w + 4 * g * U : w_next, t.apart);
                cv_scatter_sum<U, M>(one, t.acc);
                one = two;
            }
        }
        x = next, w = w_next;
    }
}

#endif
