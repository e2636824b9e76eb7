/* The loops of match over many values, compiled once for each instruction set. */
#ifndef CV_MATCH_KERNELS_H
#define CV_MATCH_KERNELS_H

#include "platform/cpu.h"

#include <stdint.h>

/* Columns of one row of outputs, to be judged against bounds that change every CV_MATCH_COLUMNS. */
typedef struct cv_match_row {
    float *y;                   /* the last piece's sums (with the bias when there is one piece) */
    const float *before, *path; /* sums and energies of the pieces before, or NULL */
    int64_t columns, step;      /* step: in y */
    const double *bound;        /* per block: square of what may separate the results, but for the path's share */
    double path_factor;         /* ... which is this times the path's energy */
    double rtol, atol;          /* both over 1 + rtol */
    float bias;
    int add_bias;
} cv_match_row;

typedef struct cv_match_kernels {
    /* s2[j] += x^2, s4[j] += x^4, top[j] = max(top[j], |x|) down `rows` rows. */
    void (*cells)(const float *x, int64_t row_step, int64_t step, int64_t rows, int64_t columns, float *s2, float *s4,
                  float *top);
    /* first[j] += x * scale (when not NULL), fourth[j] += (x * scale)^4. */
    void (*powers)(const float *x, int64_t step, int64_t columns, float scale, float *first, float *fourth);
    /* to[j] = a[j] + b[j]; to may be a. */
    void (*add)(float *to, const float *a, const float *b, int64_t count);
    /* to[j] = max(to[j], |a[j]|) */
    void (*largest)(float *to, const float *a, int64_t count);
    /* A piece's sums into the running ones. */
    void (*fold)(float *sums, float *energy, const float *y, int64_t step, int64_t count, int first);
    /* Writes a bit for each unsafe output, and y + bias where asked; returns how many are unsafe. */
    int64_t (*judge)(const cv_match_row *row, uint16_t *mask);
} cv_match_kernels;

const cv_match_kernels *cv_match_kernels_of(cv_isa isa);

extern const cv_match_kernels cv_match_kernels_scalar, cv_match_kernels_avx2, cv_match_kernels_avx512;

#endif
