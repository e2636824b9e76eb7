/* Scattered chains over the taps of a stage in shared memory (scatter_kernel.cuh): loads of the next group of taps run
 * while the present one is summed. */
#ifndef CV_CHAIN_SCATTER_TAPS_CUH
#define CV_CHAIN_SCATTER_TAPS_CUH

#include "scatter.h"

/* Where a thread's chains stand: byte addresses in shared memory, and what is left until the next jump. */
struct cv_scatter_lane {
    unsigned x, w;                    /* the first chain's operands of the group that is read next */
    unsigned begin, both;             /* x where the present stage begins; the sum of that of both stages */
    unsigned across;                  /* from x to w where a stage begins */
    int columns, rows, channels;      /* left: groups of this row, rows of this channel, channels of this stage */
    int apart[CV_SCATTER_CHAINS - 1]; /* the other chains' windows from the first one's */
    int late;                         /* groups that this lane runs behind */
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
__device__ __forceinline__ void cv_scatter_take(cv_scatter_taps<U, M> &to, const cv_scatter_lane &t)
{
    if constexpr (U % 4 == 0)
#pragma unroll
        for (int u = 0; u < U; u += 4)
            cv_scatter_read4(t.w + 4 * u, to.w + u);
    else
        to.w[0] = cv_scatter_read(t.w);
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
        for (int m = 0; m < M; ++m)
            to.x[m][u] = cv_scatter_read(t.x + (m ? t.apart[m ? m - 1 : 0] : 0) + 4 * u);
}

template <int U, int M> __device__ __forceinline__ void cv_scatter_sum(const cv_scatter_taps<U, M> &from, float *acc)
{
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
        for (int m = 0; m < M; ++m)
            asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(acc[m]) : "f"(from.x[m][u]), "f"(from.w[u]));
}

/* To the next group. G groups are a row; 0: as many as S / U says. */
template <int U, int G>
__device__ __forceinline__ void cv_scatter_advance(const cv_scatter &a, int floats, cv_scatter_lane &t)
{
    t.x += 4 * U;
    t.w += 4 * U;
    if (G == 1 || --t.columns == 0) {
        t.columns = G ? G : a.s / U;
        t.x += 4 * (floats - a.s);
        if (--t.rows == 0) {
            t.rows = a.r;
            t.x += 4 * (a.plane - a.r * floats);
            if (--t.channels == 0) {
                t.channels = a.cc;
                t.begin = t.both - t.begin;
                t.x = t.begin;
                t.w = t.begin + t.across;
            }
        }
    }
}

/* One group is summed, the next one is read. EDGE: some lanes may not have begun yet or may be through; g is the number
 * of this group among `groups` of a lane that is not late. */
template <int U, int G, int M, bool EDGE>
__device__ __forceinline__ void cv_scatter_step(const cv_scatter &a, int floats, int g, int groups,
                                                const cv_scatter_taps<U, M> &from, cv_scatter_taps<U, M> &to,
                                                cv_scatter_lane &t, float *acc)
{
    cv_scatter_take<U, M>(to, t);
    if (!EDGE || g + 1 >= t.late)
        cv_scatter_advance<U, G>(a, floats, t);
    if (!EDGE || (unsigned)(g - t.late) < (unsigned)groups)
        cv_scatter_sum<U, M>(from, acc);
}

template <int U, int G, int M, bool EDGE>
__device__ __forceinline__ void cv_scatter_steps(const cv_scatter &a, int floats, int count, int g, int groups,
                                                 cv_scatter_taps<U, M> &one, cv_scatter_taps<U, M> &two,
                                                 cv_scatter_lane &t, float *acc)
{
#pragma unroll 1
    for (; count > 1; count -= 2, g += 2) {
        cv_scatter_step<U, G, M, EDGE>(a, floats, g, groups, one, two, t, acc);
        cv_scatter_step<U, G, M, EDGE>(a, floats, g + 1, groups, two, one, t, acc);
    }
    if (count > 0) {
        cv_scatter_step<U, G, M, EDGE>(a, floats, g, groups, one, two, t, acc);
        one = two;
    }
}

#endif
