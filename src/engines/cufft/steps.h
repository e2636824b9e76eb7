/* The steps of the pipeline, each one enqueued when called: transforms, transpositions, products. */
#ifndef CV_CUFFT_STEPS_H
#define CV_CUFFT_STEPS_H

#include "pipeline.h"

#include <cuda_runtime_api.h>

/* One call under way. `dry`: no pointers, nothing is enqueued, missing plans are made. */
typedef struct cv_fft_walk {
    cv_pipeline *l;
    int dry;
    const cv_exec *exec;
    void *stream;
    float *stage, *x_rows, *w_rows, *y_rows, *x_chunk, *w_chunk, *y_chunk;
    void *work;
    unsigned *slots; /* of x's tiles, then of w's output channels */
    cv_phases *phases;
    cudaEvent_t from, to;
    convoy_status status;
} cv_fft_walk;

/* Groups g .. g+groups-1 and output channels k .. k+kernels-1 of each; images and tile rows of a band. */
typedef struct cv_fft_span {
    int64_t g, groups, k, kernels, n, images, t, tile_rows;
    int64_t row, rows;  /* of x */
    int64_t p, outputs; /* rows of y */
} cv_fft_span;

static inline int cv_fft_going(const cv_fft_walk *v) { return v->status == CONVOY_OK; }
static inline int64_t cv_fft_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Keeps the first failure. */
void cv_fft_note_cuda(cv_fft_walk *v, int error, const char *doing);
void cv_fft_note_blas(cv_fft_walk *v, cublasStatus_t result);

/* Around the work of one phase; nothing unless phases are asked for. */
void cv_fft_begin(cv_fft_walk *v);
void cv_fft_end(cv_fft_walk *v, const char *name, double bytes, double flop);

/* Transforms: the stage's real rows to spectra and back; columns of a chunk in place, batch of them side by side. */
void cv_fft_rows(cv_fft_walk *v, float *spectra, int64_t batch);
void cv_fft_rows_back(cv_fft_walk *v, float *spectra, int64_t batch);
void cv_fft_columns(cv_fft_walk *v, float *chunk, int64_t batch, int direction);

/* Rows of w for one pass, or for all of w into prepared weights (raw not NULL). */
void cv_fft_w_rows(cv_fft_walk *v, const cv_fft_span *a, const float *w, float *raw, unsigned *slots);
void cv_fft_w_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx, float *out);
void cv_fft_x_rows(cv_fft_walk *v, const cv_fft_span *a);
void cv_fft_x_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx);
/* w: a chunk [bin][group][k][c] whose groups and channels may be more than the pass takes; w_all of them a bin, w_group
 * a group. */
void cv_fft_multiply(cv_fft_walk *v, const cv_fft_span *a, int kx, const float *w, int64_t w_all, int64_t w_group);
void cv_fft_y_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx);
void cv_fft_y_rows(cv_fft_walk *v, const cv_fft_span *a);
/* Computes flagged tiles and channels again by the exact chain. */
void cv_fft_guard(cv_fft_walk *v, const unsigned *w_slots, const float *w);

#endif
