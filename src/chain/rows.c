/* Lanes along output columns, straight from the caller's tensors.
 *
 *   for c, r, s:  for j, v:  acc[j][v] = fma(x[c, r, q_v + s ..], w[j][c, r, s], acc[j][v])
 *
 * The m rows of a tile are output channels, which share x's vectors (dense layers with few channels, or no workspace),
 * or output rows of one channel, which share them too but meet them at different r (one-channel images): then the loop
 * goes over input rows, each row of the tile still sees its own r ascending, and at both ends only some rows take part.
 *
 * Registers (AVX-512): 6 x 4 sums, 4 vectors of x, one w for all lanes; AVX2: 6 x 2 sums. A tap loads 4 unaligned
 * vectors, most of which straddle two lines, and 6 values for 24 FMAs. Traffic: nothing is copied; w streams at a byte
 * an FMA.
 *
 * At the image's border taps are inside for a run of the lanes: masked FMAs leave the others as they are.
 */
#include "rows.h"
#include "simd/simd.h"

#include <stddef.h>

#if VL == 16
#define V_MOST 4
#elif VL == 8
#define V_MOST 2
#else
#define V_MOST 2
#endif

/* The undefined-behaviour sanitizer would check every address of the unrolled tiles, and take minutes to compile; the
 * address sanitizer watches the same loads. */
#define KERNEL static __attribute__((no_sanitize("undefined")))
#define INLINE KERNEL inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 24")

/* The tile's rows' weights: every third has a pointer, addressing modes reach the two after it. */
typedef struct weights {
    const float *at[2];
    int64_t step;
} weights;

INLINE float weight(const weights *w, const int j) { return w->at[j / 3][j % 3 * w->step]; }

/* Lanes [a, b) of a vector whose lanes are apart in memory. */
static vf gather_between(const float *p, int64_t step, int64_t a, int64_t b)
{
    float lane[VL] = {0};
    for (int64_t i = a < 0 ? 0 : a; i < b && i < VL; i++)
        lane[i] = p[i * step];
    return vf_load(lane);
}

/* Taps [from, to) that some lanes lack, for rows first .. first+m-1. */
INLINE void partial(const cv_rows_tile *t, vf *acc, int64_t x_at, const weights *w, int64_t from, int64_t to,
                    const int first, const int m, const int v, const int apart)
{
    for (int64_t s = from; s < to; s++) {
        int64_t lo, hi;
        cv_axis_outputs(t->axis, s, INT64_MIN / 2, INT64_MAX / 2, &lo, &hi);
        weights ws = {{w->at[0] + s * t->w_s, w->at[1] + s * t->w_s}, w->step};
        UNROLL
        for (int i = 0; i < v; i++) {
            const int64_t a = lo - t->q[i], b = hi - t->q[i] < t->lanes ? hi - t->q[i] : t->lanes;
            const float *at = t->x[i] + x_at + s * t->x_s;
            if (a <= 0 && b >= VL && !apart) { /* not a vector of the border */
                const vf x = vf_hold(vf_load(at));
                UNROLL
                for (int j = first; j < first + m; j++)
                    acc[j * v + i] = vf_fma(x, vf_set1(weight(&ws, j)), acc[j * v + i]);
                continue;
            }
            const vm mask = vm_between(a, b);
            const vf x = apart ? gather_between(at, t->x_q, a, b) : vf_load_m(at, mask);
            UNROLL
            for (int j = first; j < first + m; j++)
                acc[j * v + i] = vf_fma_m(x, vf_set1(weight(&ws, j)), acc[j * v + i], mask);
        }
    }
}

INLINE void full(const cv_rows_tile *t, vf *acc, int64_t x_at, const weights *w, const int first, const int m,
                 const int v, const int apart)
{
    const float *x[CV_ROWS_V];
    UNROLL
    for (int i = 0; i < v; i++)
        x[i] = t->x[i] + x_at + t->sf0 * t->x_s;
    weights ws = {{w->at[0] + t->sf0 * t->w_s, w->at[1] + t->sf0 * t->w_s}, w->step};
    const int64_t x_s = t->x_s, w_s = t->w_s;
    for (int64_t left = t->sf1 - t->sf0; left > 0; left--) {
        vf xv[CV_ROWS_V];
        UNROLL
        for (int i = 0; i < v; i++) {
            xv[i] = vf_hold(apart ? vf_gather_n(x[i], t->x_q, t->lanes) : vf_load(x[i]));
            x[i] += x_s;
        }
        UNROLL
        for (int j = first; j < first + m; j++) {
            const vf wv = vf_set1(weight(&ws, j));
            UNROLL
            for (int i = 0; i < v; i++)
                acc[j * v + i] = vf_fma(xv[i], wv, acc[j * v + i]);
        }
        ws.at[0] += w_s;
        ws.at[1] += w_s;
    }
}

/* One input row of one channel for rows first .. first+m-1. */
INLINE void input_row(const cv_rows_tile *t, vf *acc, int64_t x_at, const weights *w, const int first, const int m,
                      const int v, const int apart)
{
    for (int64_t from = t->s0, to = t->sf0;; from = t->sf1, to = t->s1) { /* partial, full, partial */
        if (from < to)
            partial(t, acc, x_at, w, from, to, first, m, v, apart);
        if (to == t->s1)
            break;
        full(t, acc, x_at, w, first, m, v, apart);
    }
}

/* sums: [m][v][VL]. Out of line: it is long, and runs once a tile. */
static __attribute__((noinline)) void finish(const cv_rows_tile *t, const float *sums, int m, int v)
{
    for (int j = 0; j < m; j++)
        for (int i = 0; i < v; i++, sums += VL) {
            vf sum = vf_load(sums);
            if (t->bias)
                sum = vf_add(sum, vf_set1(t->bias[j * t->bias_m]));
            float *y = t->y[i] + j * t->y_m;
            if (t->y_q != 1)
                vf_scatter_n(y, t->y_q, sum, t->lanes);
            else if (t->lanes == VL)
                vf_store(y, sum);
            else
                vf_store_n(y, sum, t->lanes);
        }
}

INLINE void tile(const cv_rows_tile *t, const int m, const int v, const int slide, const int apart)
{
    vf acc[CV_ROWS_M * CV_ROWS_V];
    UNROLL
    for (int i = 0; i < m * v; i++)
        acc[i] = vf_zero();
    for (int64_t c = 0; c < t->cs; c++)
        for (int64_t r = 0; r < t->rs; r++) {
            const float *w0 = t->w + c * t->w_c + r * t->w_r;
            const weights w = {{w0, w0 + 3 * t->w_m}, t->w_m};
            const int64_t x_at = c * t->x_c + r * t->x_r, newest = t->before + r;
            if (!slide || (newest >= m - 1 && newest < t->taps)) {
                input_row(t, acc, x_at, &w, 0, m, v, apart);
                continue;
            }
#define ROW(j)                                                                                                         \
    if (j < m && newest >= j && newest - j < t->taps)                                                                  \
        input_row(t, acc, x_at, &w, j < m ? j : 0, 1, v, apart);
            ROW(0) ROW(1) ROW(2) ROW(3)
#undef ROW
        }
    float sums[CV_ROWS_M * CV_ROWS_V * VL];
    UNROLL
    for (int i = 0; i < m * v; i++)
        vf_store(sums + i * VL, acc[i]);
    finish(t, sums, m, v);
}

#define DEFINE(m, v)                                                                                                   \
    KERNEL void rows_##m##_##v(const cv_rows_tile *t) { tile(t, m, v, 0, 0); }
#define SLIDE(m, v)                                                                                                    \
    KERNEL void slide_##m##_##v(const cv_rows_tile *t) { tile(t, m, v, 1, 0); }
#define DEFINE_ALL(v)                                                                                                  \
    DEFINE(1, v)                                                                                                       \
    DEFINE(2, v)                                                                                                       \
    DEFINE(3, v)                                                                                                       \
    DEFINE(4, v)                                                                                                       \
    DEFINE(5, v)                                                                                                       \
    DEFINE(6, v)                                                                                                       \
    SLIDE(2, v)                                                                                                        \
    SLIDE(3, v)                                                                                                        \
    SLIDE(4, v)
#define APART(m)                                                                                                       \
    KERNEL void apart_##m(const cv_rows_tile *t) { tile(t, m, 1, 0, 1); }
DEFINE_ALL(1)
DEFINE_ALL(2)
#if V_MOST > 2
DEFINE_ALL(3)
DEFINE_ALL(4)
#define BY_V(name)                                                                                                     \
    {                                                                                                                  \
        NULL, name##_1, name##_2, name##_3, name##_4                                                                   \
    }
#else
#define BY_V(name)                                                                                                     \
    {                                                                                                                  \
        NULL, name##_1, name##_2                                                                                       \
    }
#endif
APART(1)
APART(2)
APART(3)
APART(4)
APART(5)
APART(6)

const cv_rows_set CV_ISA_NAME(cv_rows) = {
    .vl = VL,
    .v_most = V_MOST,
    .rows = {{NULL}, BY_V(rows_1), BY_V(rows_2), BY_V(rows_3), BY_V(rows_4), BY_V(rows_5), BY_V(rows_6)},
    .slide = {{NULL}, BY_V(rows_1), BY_V(slide_2), BY_V(slide_3), BY_V(slide_4)},
    .apart = {NULL, apart_1, apart_2, apart_3, apart_4, apart_5, apart_6},
};
