/* CUDA's errors as Convoy's statuses, with CUDA's own text. */
#ifndef CV_CUDA_STATUS_H
#define CV_CUDA_STATUS_H

#include "convoy/convoy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* error is a cudaError_t. OK for 0; else OUT_OF_MEMORY or DEVICE_ERROR and a message that begins with what was being
 * done: "launching cuda_igemm: invalid argument (cudaErrorInvalidValue)". */
convoy_status cv_cuda_status(int error, const char *doing);

/* CUDA works in this process: children that are forked from now on will get no more out of it. */
void cv_cuda_started(void);
/* Whether this process is such a child, with the status and the message for it. */
int cv_cuda_is_forked(void);
convoy_status cv_cuda_forked(const char *doing);

#ifdef __cplusplus
}
#endif

#endif
