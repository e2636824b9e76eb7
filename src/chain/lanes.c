/* Lanes along output channels, a tile of u outputs sliding along q.
 *
 *   for c, r, s:  for u, v:  acc[u][v] = fma(x[c, r, q0+u, s], w[c, r, s, v*VL..], acc[u][v])
 *
 * Registers (AVX-512): 14 x 2 sums, 2 vectors of w, one x for all lanes; AVX2: 6 x 2 sums. A tap loads 2 + 14 values
 * for 28 FMAs. x may have any steps, since its values are broadcast (lanes) or come from an interleaved copy (planes:
 * one input channel a lane). Traffic: w streams from L2, 128 bytes a tap; x comes from L1.
 *
 * At the image's border a tap is inside for only some of the outputs, always a run of them: a jump into the unrolled
 * tile does just that run, so taps outside are skipped as the contract has it, and no zero is ever multiplied.
 *
 * The tile is GotoBLAS's outer product with the c, r, s loop nest as its long axis (Goto and van de Geijn, 2008).
 */
#include "lanes.h"
#include "simd/simd.h"

#include <stddef.h>

#if VL == 16
#define U2 14
#elif VL == 8
#define U2 6
#else
#define U2 4
#endif

/* The undefined-behaviour sanitizer would check every address of the unrolled tiles, and take minutes to compile; the
 * address sanitizer watches the same loads. */
#define KERNEL static __attribute__((no_sanitize("undefined")))
#define INLINE KERNEL inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 28")

/* Every third output has a pointer; the two after it are one and two steps away, which the addressing modes give for
 * nothing. */
#define GROUPS ((CV_LANES_U + 2) / 3)

INLINE void fma_one(vf *acc, const float *const *x, int64_t x_u, const vf *w, const int u, const int vectors,
                    const int planes)
{
    const float *at = x[u / 3] + u % 3 * x_u;
    const vf xv = planes ? vf_load(at) : vf_set1(*at);
    UNROLL
    for (int v = 0; v < vectors; v++)
        acc[u * vectors + v] = vf_fma(xv, w[v], acc[u * vectors + v]);
}

/* Tap s for outputs [a, b) of the tile. */
INLINE void fma_run(vf *acc, const float *const *x, int64_t x_u, const float *wp, int64_t a, int64_t b, const int u,
                    const int vectors, const int planes)
{
    vf w[2];
    w[0] = vf_load(wp);
    w[1] = vectors > 1 ? vf_load(wp + VL) : w[0];
#define FROM(i)                                                                                                        \
    case i:                                                                                                            \
        if (i >= u || i >= b)                                                                                          \
            break;                                                                                                     \
        fma_one(acc, x, x_u, w, i < u ? i : 0, vectors, planes);                                                       \
        __attribute__((fallthrough));
    switch (a) {
        FROM(0)
        FROM(1)
        FROM(2)
        FROM(3) FROM(4) FROM(5) FROM(6) FROM(7) FROM(8) FROM(9) FROM(10) FROM(11) FROM(12) FROM(13) default : break;
    }
#undef FROM
}

INLINE void partial(const cv_lanes_tile *t, vf *acc, const float *xr, const float *wr, int64_t from, int64_t to,
                    const int u, const int vectors, const int planes)
{
    for (int64_t s = from; s < to; s++) {
        const float *x[GROUPS];
        UNROLL
        for (int g = 0; g < (u + 2) / 3; g++)
            x[g] = xr + s * t->x_s + 3 * g * t->x_u;
        const int64_t a = t->first[s] - t->q0, b = t->last[s] - t->q0;
        fma_run(acc, x, t->x_u, wr + s * (vectors * VL), a < 0 ? 0 : a, b, u, vectors, planes);
    }
}

INLINE void full(const cv_lanes_tile *t, vf *acc, const float *xr, const float *wr, const int u, const int vectors,
                 const int planes)
{
    const int64_t x_u = t->x_u, x_s = t->x_s;
    const float *x[GROUPS];
    UNROLL
    for (int g = 0; g < (u + 2) / 3; g++)
        x[g] = xr + t->sf0 * x_s + 3 * g * x_u;
    const float *wp = wr + t->sf0 * (vectors * VL), *const end = wr + t->sf1 * (vectors * VL);
    for (; wp < end; wp += vectors * VL) {
        vf w[2];
        w[0] = vf_load(wp);
        w[1] = vectors > 1 ? vf_load(wp + VL) : w[0];
        UNROLL
        for (int i = 0; i < u; i++)
            fma_one(acc, x, x_u, w, i, vectors, planes);
        UNROLL
        for (int g = 0; g < (u + 2) / 3; g++)
            x[g] += x_s;
    }
}

INLINE void tile(const cv_lanes_tile *t, float *out, const int u, const int vectors, const int planes)
{
    vf acc[2 * CV_LANES_U];
    UNROLL
    for (int i = 0; i < u * vectors; i++)
        acc[i] = t->resume ? vf_load(out + i * VL) : vf_zero();
    for (int64_t c = 0; c < t->cs; c++)
        for (int64_t r = 0; r < t->rs; r++) {
            const float *xr = t->x + c * t->x_c + r * t->x_r, *wr = t->w + c * t->w_c + r * t->w_r;
            for (int64_t from = t->s0, to = t->sf0;; from = t->sf1, to = t->s1) { /* partial, full, partial */
                if (from < to)
                    partial(t, acc, xr, wr, from, to, u, vectors, planes);
                if (to == t->s1)
                    break;
                full(t, acc, xr, wr, u, vectors, planes);
            }
        }
    UNROLL
    for (int i = 0; i < u * vectors; i++)
        vf_store(out + i * VL, acc[i]);
}

#define DEFINE(u)                                                                                                      \
    KERNEL void one_##u(const cv_lanes_tile *t, float *out) { tile(t, out, u, 1, 0); }                                 \
    KERNEL void plane_##u(const cv_lanes_tile *t, float *out) { tile(t, out, u, 1, 1); }
#define DEFINE_TWO(u)                                                                                                  \
    KERNEL void two_##u(const cv_lanes_tile *t, float *out) { tile(t, out, u, 2, 0); }

DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)
DEFINE(7)
DEFINE(8)
DEFINE(9)
DEFINE(10)
DEFINE(11)
DEFINE(12)
DEFINE(13)
DEFINE(14)
DEFINE_TWO(1)
DEFINE_TWO(2)
DEFINE_TWO(3)
DEFINE_TWO(4)
#if U2 > 4
DEFINE_TWO(5)
DEFINE_TWO(6)
#endif
#if U2 > 6
DEFINE_TWO(7)
DEFINE_TWO(8)
DEFINE_TWO(9)
DEFINE_TWO(10)
DEFINE_TWO(11)
DEFINE_TWO(12)
DEFINE_TWO(13)
DEFINE_TWO(14)
#endif

const cv_lanes_set CV_ISA_NAME(cv_lanes) = {
    .vl = VL,
    .u_most = {0, CV_LANES_U, U2},
    .lanes = {[1] = {NULL, one_1, one_2, one_3, one_4, one_5, one_6, one_7, one_8, one_9, one_10, one_11, one_12,
                     one_13, one_14},
              [2] =
                  {
                      NULL,
                      two_1,
                      two_2,
                      two_3,
                      two_4,
#if U2 > 4
                      two_5,
                      two_6,
#endif
#if U2 > 6
                      two_7,
                      two_8,
                      two_9,
                      two_10,
                      two_11,
                      two_12,
                      two_13,
                      two_14,
#endif
                  }},
    .planes = {NULL, plane_1, plane_2, plane_3, plane_4, plane_5, plane_6, plane_7, plane_8, plane_9, plane_10,
               plane_11, plane_12, plane_13, plane_14},
    .load = CV_ISA_NAME(cv_lanes_load),
    .store = CV_ISA_NAME(cv_lanes_store),
    .interleave = CV_ISA_NAME(cv_lanes_interleave),
};
