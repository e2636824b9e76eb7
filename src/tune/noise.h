#ifndef CV_NOISE_H
#define CV_NOISE_H

#include "platform/threads.h"

/* normal(0,1) draws that depend on seed and position only. */
void cv_noise_fill(cv_pool *pool, float *out, int64_t floats, uint64_t seed);

#endif
