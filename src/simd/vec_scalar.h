/* The vector vocabulary, one lane wide: plain C. The oracle for the wider versions, and what a machine without AVX2
 * runs.
 *
 * Every kernel source that uses this vocabulary is compiled once per instruction set; simd.h picks the header. All
 * versions give the same bits for the same lane-wise expression: each operation is one IEEE-754 rounding (vf_fma is
 * fused everywhere), none reorders. The words:
 *
 *   VL                         lanes in a vector (power of two)
 *   vf, vm                     a vector of floats; a mask with one bit a lane
 *   vf_zero vf_set1            constants
 *   vf_load vf_store           unaligned, VL floats
 *   vf_load_n vf_store_n       the first n lanes (0 <= n <= VL); lanes past n load as +0, their memory is not touched
 *   vf_load_between(p, a, b)   lanes a..b-1 of the vector at p; the others are +0 and their memory is not touched
 *   vf_fold_store              p[i] = lane i + lane i + VL/2, i < VL/2 (not with one lane)
 *   vf_stream                  non-temporal store where there is one (aligned address), else vf_store
 *   vf_stream_end              makes the streamed stores visible to other threads before what this one stores next
 *   vf_gather                  base[i * stride] for lane i, stride in floats; vf_gather_n the first n lanes
 *   vf_scatter_n               the inverse of vf_gather_n
 *   vf_columns(p, at, quads, out)   lane l of out[t] is p[l][at + t], t < 4 * quads: columns of VL rows that lie
 * anywhere vm_between(a, b)           the mask of lanes a..b-1; a and b of any size, empty when b <= a vm_within(a, lo,
 * hi)       the mask of lanes with lo <= a < hi vf_outside(a, lo, hi)      bit l is set unless lo <= a <= hi in lane l;
 * NaN is outside vf_load_m(p, m)            lanes outside m load as +0 and no memory is touched for them vf_fma_m(a, b,
 * c, m)       a*b + c in the lanes of m, c in the others vf_add vf_sub vf_mul vf_neg vf_fma(a,b,c) = a*b + c
 * vf_fnma(a,b,c) = c - a*b    vf_fms(a,b,c) = a*b - c vf_max vf_abs              for range scans; vf_max(a, b) returns
 * b when either is NaN vf_hmax                    the largest lane vf_maxmag(acc, a)          the larger magnitude, by
 * its bits: Inf above all numbers, NaN above Inf, kept for good vf_minmag(acc, a)          the smaller magnitude, zeros
 * of a passed over (start from +Inf) vf_hold(a)                 a, in a register from here on: a load is not repeated
 * at each use vf_transpose(m)            in-register transposition of a VL x VL block m[VL] vf_prefetch(p) into L1;
 * vf_prefetch_l2(p) into L2
 */
#ifndef CV_VEC_SCALAR_H
#define CV_VEC_SCALAR_H

#include <math.h>
#include <stdint.h>

#define VL 1

typedef float vf;

static inline vf vf_zero(void) { return 0.0f; }
static inline vf vf_set1(float a) { return a; }
static inline vf vf_load(const float *p) { return *p; }
static inline void vf_store(float *p, vf a) { *p = a; }
static inline vf vf_load_n(const float *p, int n) { return n > 0 ? *p : 0.0f; }
static inline void vf_store_n(float *p, vf a, int n)
{
    if (n > 0)
        *p = a;
}
static inline void vf_stream(float *p, vf a) { *p = a; }
static inline void vf_stream_end(void) {}
static inline vf vf_gather(const float *p, int64_t stride) { return (void)stride, *p; }
static inline vf vf_gather_n(const float *p, int64_t stride, int n) { return (void)stride, n > 0 ? *p : 0.0f; }
static inline void vf_scatter_n(float *p, int64_t stride, vf a, int n)
{
    (void)stride;
    if (n > 0)
        *p = a;
}

static inline void vf_columns(const float *const *p, int64_t at, const int quads, vf *out)
{
    for (int t = 0; t < 4 * quads; t++)
        out[t] = p[0][at + t];
}

typedef int vm;
static inline vm vm_between(int64_t a, int64_t b) { return a <= 0 && b > 0; }
static inline vm vm_within(vf a, vf lo, vf hi) { return lo <= a && a < hi; }
static inline unsigned vf_outside(vf a, vf lo, vf hi) { return !(lo <= a && a <= hi); }
static inline vf vf_load_m(const float *p, vm m) { return m ? *p : 0.0f; }
static inline vf vf_fma_m(vf a, vf b, vf c, vm m) { return m ? fmaf(a, b, c) : c; }

static inline vf vf_add(vf a, vf b) { return a + b; }
static inline vf vf_sub(vf a, vf b) { return a - b; }
static inline vf vf_mul(vf a, vf b) { return a * b; }
static inline vf vf_neg(vf a) { return -a; }
static inline vf vf_fma(vf a, vf b, vf c) { return fmaf(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return fmaf(-a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return fmaf(a, b, -c); }
static inline vf vf_max(vf a, vf b) { return a > b ? a : b; }
static inline vf vf_abs(vf a) { return fabsf(a); }
static inline float vf_hmax(vf a) { return a; }
static inline vf vf_load_between(const float *p, int a, int b) { return a <= 0 && b > 0 ? *p : 0.0f; }
static inline uint32_t cv_magnitude(float a)
{
    union {
        float f;
        uint32_t u;
    } v = {a};
    return v.u & 0x7fffffffu;
}
static inline vf vf_maxmag(vf acc, vf a) { return cv_magnitude(a) > cv_magnitude(acc) ? fabsf(a) : acc; }
static inline vf vf_minmag(vf acc, vf a)
{
    return cv_magnitude(a) != 0 && cv_magnitude(a) < cv_magnitude(acc) ? fabsf(a) : acc;
}
static inline void vf_transpose(vf *m) { (void)m; }
static inline vf vf_hold(vf a) { return a; }
static inline void vf_prefetch(const float *p) { __builtin_prefetch(p); }
static inline void vf_prefetch_l2(const float *p) { __builtin_prefetch(p, 0, 2); }

#endif
