/* Launching the scatter kernel. */
#include "chain_host.h"
#include "gpu/allow_shared.cuh"
#include "scatter_kernel.cuh"

#include <limits.h>

static const void *kernel_of(const cv_scatter *a)
{
    return a->s == 8       ? (const void *)cv_scatter_kernel<8, 1>
           : a->s == 16    ? (const void *)cv_scatter_kernel<8, 2>
           : a->s == 32    ? (const void *)cv_scatter_kernel<8, 4>
           : a->s % 4 == 0 ? (const void *)cv_scatter_kernel<4, 0>
                           : (const void *)cv_scatter_kernel<1, 0>;
}

int cv_scatter_setup(const cv_scatter *plan) { return cv_allow_shared(kernel_of(plan), INT_MAX); }

int cv_scatter_run(const cv_scatter *plan, void *stream)
{
    cv_scatter a = *plan;
    a.vec_x = a.vec_x && (uintptr_t)a.x % 16 == 0;
    a.vec_w = a.vec_w && (uintptr_t)a.weight % 16 == 0;
    a.bulk = a.bulk && a.vec_x && a.vec_w;
    void *args[] = {&a};
    return cv_overlap_launch(kernel_of(plan), dim3(a.grid), CV_SCATTER_THREADS, a.shared, stream, a.overlap, args);
}
