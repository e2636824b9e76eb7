/* Small kernels that serve the device table: all enqueue only, and return a cudaError_t as an int. */
#ifndef CV_GPU_KERNELS_H
#define CV_GPU_KERNELS_H

#include "convoy/convoy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 0 when this build has code for the current device. */
int cv_gpu_has_code(void);

/* FP32 multiply-adds on all multiprocessors: enough rounds for about a millisecond each; *flop gets their operations.
 * sink: 4 bytes of device memory. */
int cv_gpu_burn(int blocks, int rounds, float *sink, double *flop);

int cv_gpu_fill_bias(const convoy_problem *p, int64_t P, int64_t Q, const float *bias, float *y, void *stream);

/* FP64 sums of count outputs; all pointers on the device, norms may be NULL. */
int cv_gpu_reference(const convoy_problem *p, int64_t P, int64_t Q, const float *x, const float *w, const float *bias,
                     int64_t count, const int64_t *index, double *values, double *norms);

#ifdef __cplusplus
}
#endif

#endif
