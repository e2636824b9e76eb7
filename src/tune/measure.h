/* Timing plans by the rules of docs/benchmarking.md: fresh normal(0,1) data, cold caches, medians. */
#ifndef CV_MEASURE_H
#define CV_MEASURE_H

#include "core/services.h"

/* The tensors of one request, and a workspace that grows as plans ask; any number of plans of that request are timed on
 * it. */
typedef struct cv_bench cv_bench;

convoy_status cv_bench_open(const cv_request *request, cv_bench **bench);
void cv_bench_close(cv_bench *bench); /* NULL is fine */

/* *weights is NULL when the request does not prepare any. */
convoy_status cv_bench_prepare(cv_bench *bench, const convoy_plan *plan, convoy_weights **weights);

/* One run on tensors that no cache of a core holds. */
convoy_status cv_bench_run(cv_bench *bench, const convoy_plan *plan, const convoy_weights *weights, double *seconds);

/* Sorts the seconds of some runs and sums them up. */
void cv_timing_of(double *seconds, int runs, convoy_timing *timing);

/* See convoy_measure. */
convoy_status cv_measure(const convoy_plan *plan, double time_limit_s, convoy_timing *timing);

/* Floats that a strided tensor spans, and the place of its element 0 in them. No size may be 0. */
void cv_tensor_extent(const int64_t size[4], const int64_t stride[4], int64_t *floats, int64_t *origin);

#endif
