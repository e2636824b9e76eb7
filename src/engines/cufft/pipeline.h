/* The pipeline of one plan: its cuFFT plans, and the order in which its steps are enqueued. */
#ifndef CV_CUFFT_PIPELINE_H
#define CV_CUFFT_PIPELINE_H

#include "chain/chain_cuda.h"
#include "gpu/vendor.h"
#include "spectral.h"

enum { CV_FFT_PLANS = 96 };
typedef enum cv_fft_kind { CV_FFT_ROWS, CV_FFT_ROWS_BACK, CV_FFT_COLUMNS } cv_fft_kind;

typedef struct cv_fft_plan {
    cv_fft_kind kind;
    int64_t batch;
    cufftHandle handle;
} cv_fft_plan;

typedef struct cv_pipeline {
    const cv_machine *machine;
    cv_request q;
    cv_spectral s;
    cv_chain_shape shape; /* for the guards; w's strides are packed when it comes prepared */
    const cv_cufft *fft;
    const cv_cublas *blas;
    cublasHandle_t handle; /* the device's, NULL for the pointwise product */
    float *dft; /* on the device, S x 2F, for w_product: row s holds exp(-2 pi i f s dil / TX), f = 0 .. F-1 */
    cv_fft_plan plan[CV_FFT_PLANS];
    int plans;
    size_t work_bytes; /* cuFFT's, the most of all plans */
} cv_pipeline;

/* Prepared weights: slots of w (2*K words), w packed, then chunk after chunk its spectrum [ty][kx][K][C/G]. */
typedef struct cv_fft_weights {
    size_t raw_at, spectrum_at, bytes;
} cv_fft_weights;
cv_fft_weights cv_pipeline_weights(const cv_pipeline *l);
size_t cv_pipeline_prepare_bytes(const cv_pipeline *l);

/* Makes the cuFFT plans that run and prepare will ask for. */
convoy_status cv_pipeline_open(cv_pipeline *l);
void cv_pipeline_close(cv_pipeline *l);

/* Both under the device's lock. */
convoy_status cv_pipeline_run(cv_pipeline *l, const cv_exec *exec);
convoy_status cv_pipeline_prepare(cv_pipeline *l, const float *w, void *weights, void *scratch, void *stream);

#endif
