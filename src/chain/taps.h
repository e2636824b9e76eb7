/* Which taps of a kernel axis fall inside the image, and the reverse. One axis at a time: output o reads input
 * o*stride + t*dil - pad for taps t in [0, taps), and the image is [0, size). */
#ifndef CV_TAPS_H
#define CV_TAPS_H

#include <stdint.h>

typedef struct cv_axis {
    int64_t size, taps, stride, dil, pad; /* pad: before the image */
} cv_axis;

/* ceil(a / b) for b > 0 and any a. */
static inline int64_t cv_ceil_div(int64_t a, int64_t b) { return a > 0 ? (a - 1) / b + 1 : -(-a / b); }

static inline int64_t cv_clamp(int64_t a, int64_t lo, int64_t hi) { return a < lo ? lo : a > hi ? hi : a; }

/* Taps [*t0, *t1) of output o are inside; an output with none gets an empty range. */
static inline void cv_axis_taps(const cv_axis *a, int64_t o, int64_t *t0, int64_t *t1)
{
    const int64_t first = o * a->stride - a->pad;
    *t0 = cv_clamp(cv_ceil_div(-first, a->dil), 0, a->taps);
    *t1 = cv_clamp(cv_ceil_div(a->size - first, a->dil), *t0, a->taps);
}

/* Outputs [*o0, *o1) within [lo, hi) whose tap t is inside. Both ends fall as t grows. */
static inline void cv_axis_outputs(const cv_axis *a, int64_t t, int64_t lo, int64_t hi, int64_t *o0, int64_t *o1)
{
    const int64_t shift = t * a->dil - a->pad;
    *o0 = cv_clamp(cv_ceil_div(-shift, a->stride), lo, hi);
    *o1 = cv_clamp(cv_ceil_div(a->size - shift, a->stride), *o0, hi);
}

/* The mean share of an axis' taps that lie inside, over outputs outputs: what a kernel that skips padding has to do. */
static inline double cv_axis_share(const cv_axis *a, int64_t outputs)
{
    double sum = 0;
    const int64_t samples = outputs < 16 ? outputs : 16;
    for (int64_t i = 0; i < samples; i++) {
        int64_t t0, t1;
        cv_axis_taps(a, samples > 1 ? i * (outputs - 1) / (samples - 1) : 0, &t0, &t1);
        sum += (double)(t1 - t0);
    }
    return samples ? sum / ((double)samples * (double)a->taps) : 1.0;
}

#endif
