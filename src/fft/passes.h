/* Runs a cv_fft_line on vectors: every lane is a transform of its own.
 *
 * Between passes data are packed (element i: VL real parts, then VL imaginary ones); only the first pass reads, and the
 * last one writes, at the caller's step, so each kind of pass has as many constant offsets as can be. Offsets that are
 * not constant are computed in the loop from one opaque hop: left to itself the compiler keeps 2*R running pointers, in
 * memory. */
#ifndef CV_FFT_PASSES_H
#define CV_FFT_PASSES_H

#include "butterfly.h"
#include "line.h"

#if defined(__GNUC__)
#define CV_OPAQUE(value) __asm__("" : "+r"(value))
#else
#define CV_OPAQUE(value) ((void)0)
#endif
#define CV_UNROLL _Pragma("GCC unroll 16")

/* Complex vectors in memory: element i has its real part at re + i*step and its imaginary part at im + i*step. */
typedef struct cvec {
    float *re, *im;
    ptrdiff_t step;
    int stream; /* written past the caches (a hint) */
} cvec;

static inline cvec cvec_packed(float *at) { return (cvec){at, at + VL, 2 * VL, 0}; }
static inline cvec cvec_swapped(cvec v) { return (cvec){v.im, v.re, v.step, v.stream}; }

/* R elements from at on, hop apart; those from live on are zero. */
#define CV_LOAD(R, REAL, IMAG, HOP, LIVE)                                                                              \
    do {                                                                                                               \
        ptrdiff_t hop_ = (HOP);                                                                                        \
        CV_OPAQUE(hop_);                                                                                               \
        CV_UNROLL for (int j = 0; j < R; j++)                                                                          \
        {                                                                                                              \
            re[j] = j < (LIVE) ? vf_load((REAL) + j * hop_) : vf_zero();                                               \
            im[j] = j < (LIVE) ? vf_load((IMAG) + j * hop_) : vf_zero();                                               \
        }                                                                                                              \
    } while (0)

#define CV_STORE(R, REAL, IMAG, HOP, STORE)                                                                            \
    do {                                                                                                               \
        ptrdiff_t hop_ = (HOP);                                                                                        \
        CV_OPAQUE(hop_);                                                                                               \
        CV_UNROLL for (int k = 0; k < R; k++)                                                                          \
        {                                                                                                              \
            STORE((REAL) + k * hop_, re[k]);                                                                           \
            STORE((IMAG) + k * hop_, im[k]);                                                                           \
        }                                                                                                              \
    } while (0)

#define CV_TWIDDLE(R, TW)                                                                                              \
    CV_UNROLL for (int k = 1; k < R; k++) twiddle(&re[k], &im[k], vf_set1((TW)[2 * k - 2]), vf_set1((TW)[2 * k - 1]))

/* first: s = 1; the first `have` inputs exist. middle: packed to packed. last: m = 1. whole: n = R. */
#define CV_PASS(R)                                                                                                     \
    static void first##R(const float *tw, int m, cvec in, int have, float *out)                                        \
    {                                                                                                                  \
        const float *pr = in.re, *pi = in.im;                                                                          \
        for (int p = 0; p < m; p++, tw += 2 * (R - 1), pr += in.step, pi += in.step, out += 2 * VL * R) {              \
            vf re[R], im[R];                                                                                           \
            const int live = (have - p + m - 1) / m;                                                                   \
            if (live >= R)                                                                                             \
                CV_LOAD(R, pr, pi, m *in.step, R);                                                                     \
            else                                                                                                       \
                CV_LOAD(R, pr, pi, m *in.step, live);                                                                  \
            dft##R(re, im);                                                                                            \
            if (p > 0)                                                                                                 \
                CV_TWIDDLE(R, tw);                                                                                     \
            CV_UNROLL for (int k = 0; k < R; k++)                                                                      \
            {                                                                                                          \
                vf_store(out + 2 * VL * k, re[k]);                                                                     \
                vf_store(out + 2 * VL * k + VL, im[k]);                                                                \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void middle##R(const float *tw, int m, int s, const float *in, float *out)                                  \
    {                                                                                                                  \
        for (int p = 0; p < m; p++, tw += 2 * (R - 1), out += (ptrdiff_t)2 * VL * s * (R - 1))                         \
            for (int q = 0; q < s; q++, in += 2 * VL, out += 2 * VL) {                                                 \
                vf re[R], im[R];                                                                                       \
                CV_LOAD(R, in, in + VL, (ptrdiff_t)2 * VL * s * m, R);                                                 \
                dft##R(re, im);                                                                                        \
                if (p > 0)                                                                                             \
                    CV_TWIDDLE(R, tw);                                                                                 \
                CV_STORE(R, out, out + VL, (ptrdiff_t)2 * VL * s, vf_store);                                           \
            }                                                                                                          \
    }                                                                                                                  \
    static void last##R(int s, const float *in, cvec out)                                                              \
    {                                                                                                                  \
        float *pr = out.re, *pi = out.im;                                                                              \
        for (int q = 0; q < s; q++, in += 2 * VL, pr += out.step, pi += out.step) {                                    \
            vf re[R], im[R];                                                                                           \
            CV_LOAD(R, in, in + VL, (ptrdiff_t)2 * VL * s, R);                                                         \
            dft##R(re, im);                                                                                            \
            if (out.stream)                                                                                            \
                CV_STORE(R, pr, pi, s *out.step, vf_stream);                                                           \
            else                                                                                                       \
                CV_STORE(R, pr, pi, s *out.step, vf_store);                                                            \
        }                                                                                                              \
    }                                                                                                                  \
    static void whole##R(cvec in, int have, cvec out)                                                                  \
    {                                                                                                                  \
        vf re[R], im[R];                                                                                               \
        CV_LOAD(R, in.re, in.im, in.step, have);                                                                       \
        dft##R(re, im);                                                                                                \
        CV_STORE(R, out.re, out.im, out.step, vf_store);                                                               \
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

#define CV_EACH_RADIX(CASE) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(8) CASE(9) CASE(10) CASE(12) CASE(15) CASE(16)

/* The transform of in, of which the first `have` elements exist and the rest are zero, to out. in and out do not
 * overlap; spare is room for 2*n complex vectors. */
static void line_forward(const cv_fft_line *line, cvec in, int have, cvec out, float *spare)
{
    const int n = line->n, passes = line->passes;
    int m = n / line->radix[0], s = line->radix[0];
    float *from = spare, *to = spare + (size_t)n * 2 * VL;
    if (passes == 1) {
        switch (n) {
#define CV_WHOLE(R)                                                                                                    \
    case R:                                                                                                            \
        whole##R(in, have, out);                                                                                       \
        break;
            CV_EACH_RADIX(CV_WHOLE)
        }
        return;
    }
    switch (s) {
#define CV_FIRST(R)                                                                                                    \
    case R:                                                                                                            \
        first##R(line->twiddle[0], m, in, have, from);                                                                 \
        break;
        CV_EACH_RADIX(CV_FIRST)
    }
    for (int i = 1; i < passes - 1; i++) {
        const int r = line->radix[i];
        m /= r;
        switch (r) {
#define CV_MIDDLE(R)                                                                                                   \
    case R:                                                                                                            \
        middle##R(line->twiddle[i], m, s, from, to);                                                                   \
        break;
            CV_EACH_RADIX(CV_MIDDLE)
        }
        s *= r;
        float *swap = from;
        from = to;
        to = swap;
    }
    switch (line->radix[passes - 1]) {
#define CV_LAST(R)                                                                                                     \
    case R:                                                                                                            \
        last##R(s, from, out);                                                                                         \
        break;
        CV_EACH_RADIX(CV_LAST)
    }
}

#endif
