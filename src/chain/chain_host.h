/* What the four kernels' host parts offer to chain_cuda.cu. Plans: 0 or a cudaError_t. */
#ifndef CV_CHAIN_HOST_H
#define CV_CHAIN_HOST_H

#include <cuda_runtime.h>

#include "chain_cuda.h"

enum { CV_SLIDE_VARIANTS = 9, CV_PLANE_VARIANTS = 3, CV_STRIP_VARIANTS = 9, CV_GATHER_VARIANTS = 4 };

int cv_slide_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice);
double cv_slide_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, size_t *relaid,
                        size_t *carry);
int cv_slide_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan);
int cv_slide_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                 void *workspace, cudaStream_t stream);

int cv_plane_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, int variant);
double cv_plane_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice);
int cv_plane_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan);
int cv_plane_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                 cudaStream_t stream);

int cv_strip_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, int variant);
double cv_strip_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice);
int cv_strip_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan);
int cv_strip_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                 cudaStream_t stream);

int cv_gather_fits(const cv_chain_shape *c, int variant);
double cv_gather_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice);
int cv_gather_plan(const cv_chain_shape *c, const cv_chain_choice *choice, cv_chain_plan *plan);
int cv_gather_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                  cudaStream_t stream);

static inline int64_t cv_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Exact for numerators from 0 to 2^31 - 1: ceil(2^(32 + shift) / d) with 2^shift < d <= 2^(shift + 1). d below 2^31. */
static inline cv_divider cv_divider_make(int64_t d)
{
    cv_divider v = {0, 0, (int)d};
    while ((int64_t)2 << v.shift < d)
        ++v.shift;
    if (d > 1)
        v.magic = (unsigned)((((uint64_t)1 << (32 + v.shift)) + (uint64_t)d - 1) / (uint64_t)d);
    return v;
}

/* 1 when every offset into the tensor fits an int, so that kernels may keep them in one register. */
static inline int cv_small(const int64_t size[4], const int64_t stride[4])
{
    double reach = 0;
    for (int i = 0; i < 4; ++i)
        reach += (double)size[i] * (double)(stride[i] < 0 ? -stride[i] : stride[i]);
    return reach < 2147483647.0;
}

#endif
