/* Runs a cv_fft_line on vectors: every lane is a transform of its own. */
#ifndef CV_FFT_PASSES_H
#define CV_FFT_PASSES_H

#include "butterfly.h"
#include "line.h"

/* Complex vectors in memory: element i has its real part at re + i*step and its imaginary part at im + i*step. */
typedef struct cvec {
    float *re, *im;
    ptrdiff_t step;
} cvec;

static inline cvec cvec_packed(float *at) { return (cvec){at, at + VL, 2 * VL}; }
static inline cvec cvec_swapped(cvec v) { return (cvec){v.im, v.re, v.step}; }

/* One pass; only the first `have` inputs exist when first is set, the others are zero. */
#define CV_PASS(R)                                                                                                     \
    CV_INLINE void pass##R##_body(const float *tw, int m, int s, cvec in, cvec out, int first, int have)               \
    {                                                                                                                  \
        for (int p = 0; p < m; p++, tw += 2 * (R - 1))                                                                 \
            for (int q = 0; q < s; q++) {                                                                              \
                vf re[R], im[R];                                                                                       \
                const ptrdiff_t at = (q + (ptrdiff_t)s * p) * in.step, hop = (ptrdiff_t)s * m * in.step;               \
                _Pragma("GCC unroll 16") for (int j = 0; j < R; j++)                                                   \
                {                                                                                                      \
                    const int there = !first || p + m * j < have;                                                      \
                    re[j] = there ? vf_load(in.re + at + j * hop) : vf_zero();                                         \
                    im[j] = there ? vf_load(in.im + at + j * hop) : vf_zero();                                         \
                }                                                                                                      \
                dft##R(re, im);                                                                                        \
                if (p > 0)                                                                                             \
                    _Pragma("GCC unroll 16") for (int k = 1; k < R; k++)                                               \
                        twiddle(&re[k], &im[k], vf_set1(tw[2 * k - 2]), vf_set1(tw[2 * k - 1]));                       \
                const ptrdiff_t to = (q + (ptrdiff_t)s * R * p) * out.step, jump = (ptrdiff_t)s * out.step;            \
                _Pragma("GCC unroll 16") for (int k = 0; k < R; k++)                                                   \
                {                                                                                                      \
                    vf_store(out.re + to + k * jump, re[k]);                                                           \
                    vf_store(out.im + to + k * jump, im[k]);                                                           \
                }                                                                                                      \
            }                                                                                                          \
    }                                                                                                                  \
    static void pass##R(const float *tw, int m, int s, cvec in, cvec out, int have)                                    \
    {                                                                                                                  \
        if (have < m * R * s)                                                                                          \
            pass##R##_body(tw, m, s, in, out, 1, have);                                                                \
        else                                                                                                           \
            pass##R##_body(tw, m, s, in, out, 0, have);                                                                \
    }

CV_PASS(2)
CV_PASS(3)
CV_PASS(4)
CV_PASS(5)
CV_PASS(6)
CV_PASS(8)
CV_PASS(9)
CV_PASS(10)
CV_PASS(12)
CV_PASS(15)
CV_PASS(16)

static void pass(int radix, const float *tw, int m, int s, cvec in, cvec out, int have)
{
    switch (radix) {
    case 2:
        pass2(tw, m, s, in, out, have);
        break;
    case 3:
        pass3(tw, m, s, in, out, have);
        break;
    case 4:
        pass4(tw, m, s, in, out, have);
        break;
    case 5:
        pass5(tw, m, s, in, out, have);
        break;
    case 6:
        pass6(tw, m, s, in, out, have);
        break;
    case 8:
        pass8(tw, m, s, in, out, have);
        break;
    case 9:
        pass9(tw, m, s, in, out, have);
        break;
    case 10:
        pass10(tw, m, s, in, out, have);
        break;
    case 12:
        pass12(tw, m, s, in, out, have);
        break;
    case 15:
        pass15(tw, m, s, in, out, have);
        break;
    default:
        pass16(tw, m, s, in, out, have);
        break;
    }
}

/* The transform of in, of which the first `have` elements exist and the rest are zero, to out. in and out do not
 * overlap; spare is room for 2*n complex vectors. */
static void line_forward(const cv_fft_line *line, cvec in, int have, cvec out, float *spare)
{
    cvec ping = cvec_packed(spare), pong = cvec_packed(spare + (size_t)line->n * 2 * VL);
    for (int i = 0, left = line->n; i < line->passes; i++) {
        const int m = left / line->radix[i];
        const cvec to = i == line->passes - 1 ? out : i % 2 ? pong : ping;
        pass(line->radix[i], line->twiddle[i], m, line->n / left, in, to, i == 0 ? have : line->n);
        in = to;
        left = m;
    }
}

#endif
