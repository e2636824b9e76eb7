/*
 * Host planning of the spectral engine: which tile, what it will cost, how to cut the work to a workspace limit, and
 * the run. Nothing here needs a device except cv_spectral_run and cv_spectral_prepare, which only enqueue.
 */
#ifndef CV_CUDA_FFT_SPECTRAL_PLAN_H
#define CV_CUDA_FFT_SPECTRAL_PLAN_H

#include <stddef.h>

#include "spectral.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rates that the cost model divides by. */
typedef struct cv_spectral_machine {
    double bytes;         /* of device memory a second, read or written, as kernels of this kind reach it */
    double tensor_cycles; /* cycles of all quarters of multiprocessors a second */
    double rate;          /* what a multiprocessor does of the arithmetic that an H200's does */
    int multiprocessors;
    double shared; /* bytes of shared memory a multiprocessor */
    int hopper;    /* compute capability 9.0 */
    double launch; /* seconds between dependent kernels */
    double block;  /* bytes of shared memory that a block may have; 0 for what the kernels ask at most */
} cv_spectral_machine;

typedef struct cv_spectral_plan {
    cv_spectral g; /* geometry; pointers and the pass's ranges are filled in by the run */
    int groups, all_tiles;
    int depthwise, shape;
    int few;                                                       /* the product runs on the FMA pipes */
    int group_step, tile_step, k_step;                             /* sizes of a pass */
    size_t xf_bytes, yf_bytes, wf_bytes, wflag_bytes, xflag_bytes; /* the workspace's parts, in this order */
    size_t workspace_bytes;
    /* Prepared weights: spectra, flags, and a packed copy of w for the direct sum. */
    size_t weights_flags_at, weights_copy_at, weights_bytes;
    int prepared;                            /* weights come prepared: none of theirs in the workspace */
    double seconds;                          /* predicted */
    double phase_bytes[4], phase_seconds[4]; /* x, w, product, inverse */
} cv_spectral_plan;

/* Fills plan for tile ty x tx within limit bytes of workspace. base has the problem and strides. Returns 0, or -1 if
 * the tile does not suit the problem or the limit is too small. */
int cv_spectral_make_plan(const cv_spectral *base, int groups, int ty, int tx, size_t limit, int prepared,
                          const cv_spectral_machine *machine, cv_spectral_plan *plan);

/* Called after each launch with the phase that it was: 0 x and w, 1 w alone, 2 product, 3 inverse (or all of a
 * depthwise tile). */
typedef void (*cv_spectral_mark)(void *user, int phase);

/* Enqueue. prepared is NULL unless plan->prepared; mark may be NULL; follows as in core/engine.h. Return a cudaError_t.
 */
int cv_spectral_run(const cv_spectral_plan *plan, const float *x, const float *weight, const void *prepared,
                    const float *bias, float *y, void *workspace, void *stream, int follows, cv_spectral_mark mark,
                    void *user);
int cv_spectral_prepare(const cv_spectral_plan *plan, const float *weight, void *prepared, void *stream);

#ifdef __cplusplus
}
#endif
#endif
