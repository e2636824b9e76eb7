#ifndef CV_MEASURE_H
#define CV_MEASURE_H

#include "core/services.h"

/* See convoy_measure. */
convoy_status cv_measure(const convoy_plan *plan, double time_limit_s, convoy_timing *timing);

/* Floats that a strided tensor spans, and the place of its element 0 in them. No size may be 0. */
void cv_tensor_extent(const int64_t size[4], const int64_t stride[4], int64_t *floats, int64_t *origin);

#endif
