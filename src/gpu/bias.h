/* y += bias of its channel, one FP32 add an output, for libraries that do not take a bias. */
#ifndef CV_BIAS_H
#define CV_BIAS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y (N, K, P, Q) with element strides. Enqueues; a cudaError_t as an int. */
int cv_bias_add(float *y, const int64_t size[4], const int64_t stride[4], const float *bias, void *stream);

#ifdef __cplusplus
}
#endif

#endif
