/* One-dimensional transforms of length 2^a 3^b 5^c as a list of Stockham passes: the part that no instruction set
 * changes.
 *
 * Pass i with radix r works on what is left of the length, n_i (n_0 = n), with m = n_i / r and s = n / n_i:
 *
 *     out[q + s*(r*p + k)] = W(n_i)^(p*k) * sum over j < r of W(r)^(j*k) * in[q + s*(p + m*j)],   p < m, q < s, k < r
 *
 * so that data come out in order without a bit reversal. W(n) = exp(-2 pi i / n). The last pass has m = 1: no twiddles.
 */
#ifndef CV_FFT_LINE_H
#define CV_FFT_LINE_H

#include <stddef.h>

enum { CV_FFT_PASSES = 6, CV_FFT_MAX = 512 };

typedef struct cv_fft_line {
    int n, passes;
    int radix[CV_FFT_PASSES];
    const float *twiddle[CV_FFT_PASSES]; /* of a pass: [p][k - 1][re, im] */
} cv_fft_line;

/* 1 when n is 2^a 3^b 5^c and 2..CV_FFT_MAX. */
int cv_fft_line_has(int n);

/* Cycles of one transform of n points with 16 lanes, for cost models; operations that it makes in every lane. */
double cv_fft_line_cycles(int n);
double cv_fft_line_flop(const cv_fft_line *line);

/* Floats of the twiddle table of a transform of length n. */
size_t cv_fft_line_floats(int n);
void cv_fft_line_init(cv_fft_line *line, int n, float *table);

#endif
