/* A plan of the match contract on a GPU. gpu_plan.c makes it, gpu_run.c runs it; match.c calls the table for requests
 * on a GPU. */
#ifndef CV_MATCH_GPU_PLAN_H
#define CV_MATCH_GPU_PLAN_H

#include "core/services.h"
#include "gpu.h"
#include "match.h"

typedef struct cv_match_gpu_state {
    cv_request request, inner_request; /* request comes first: match.c reads the device from it */
    const cv_engine *engine;
    void *inner;
    cv_needs inner_needs;
    cv_match_gpu args;
    cv_scatter scatter;
    size_t xsum_at, wslice_at, wstat_at, maps_at, tiles_at, mask_at, counts_at, pieces_at, inner_at; /* bytes */
} cv_match_gpu_state;

static inline size_t cv_match_gpu_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

convoy_status cv_match_gpu_prepare(const void *state, const float *w, void *weights, void *scratch, void *stream);
convoy_status cv_match_gpu_execute(const void *state, const cv_exec *run);

extern const cv_match cv_match_gpu_table;

#endif
