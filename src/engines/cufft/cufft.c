/* cufft: tiled overlap-save from vendor parts, cuFFT's transforms and cuBLAS's complex product (spectral.h has the
 * steps).
 *
 * The baseline that a fused spectral engine has to beat, and the engine for tiles that such a one lacks: sides of 2^a
 * 3^b 5^c 7^d from 16 to 128, to 1024 where few channels share a tile. Candidates: ty, tx, and kx, the columns of bins
 * that are multiplied at a time. All arithmetic is FP32: cuBLAS is in its pedantic mode, which rules out TF32 whatever
 * the environment says.
 *
 * Tiles of x with a NaN, an infinity or a magnitude that the transforms cannot hold, and such output channels of w, are
 * flagged while they are read and computed again by the exact chain at the end; nothing waits for the host.
 *
 * cuFFT's plans and cuBLAS's handle keep a stream and a workspace in them, so enqueueing happens under one lock a
 * device; executions overlap on the GPU as their streams allow. */
#include "gpu/cuda_status.h"
#include "pipeline.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

enum { MOST_DEVICES = 64 };

static mtx_t locks[MOST_DEVICES];
static cublasHandle_t handles[MOST_DEVICES]; /* made when first needed, kept like the library */
static once_flag locks_once = ONCE_FLAG_INIT;

static void make_locks(void)
{
    for (int i = 0; i < MOST_DEVICES; i++)
        mtx_init(&locks[i], mtx_plain);
}

static void enter(const cv_machine *m)
{
    call_once(&locks_once, make_locks);
    mtx_lock(&locks[m->device_index]);
}

static void leave(const cv_machine *m) { mtx_unlock(&locks[m->device_index]); }

static const char *refuse(const cv_request *q, char reason[CV_REASON_BYTES])
{
    const convoy_problem *p = &q->p;
    const int64_t high = p->dil_h * (p->r - 1) + 1, wide = p->dil_w * (p->s - 1) + 1;
    if (!cv_cufft_open(q->machine, reason, CV_REASON_BYTES) || !cv_cublas_open(q->machine, reason, CV_REASON_BYTES))
        return reason;
    if (q->machine->device_index >= MOST_DEVICES)
        return "it serves the first 64 devices only";
    if (p->h == 0 || p->w == 0)
        return "the image is empty";
    if (high > 1024 || wide > 1024) {
        snprintf(reason, CV_REASON_BYTES, "its tiles end at 1024 and the kernel spans %lldx%lld", (long long)high,
                 (long long)wide);
        return reason;
    }
    if (p->h > INT32_MAX / 2 || p->w > INT32_MAX / 2 || p->pad_t > INT32_MAX / 4 || p->pad_l > INT32_MAX / 4 ||
        p->c > INT32_MAX / 2 || p->k > INT32_MAX / 2 || p->n > INT32_MAX / 2)
        return "its sizes exceed what the kernels' indices hold";
    return NULL;
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    return cv_spectral_candidates(q, list, capacity);
}

static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    cv_spectral s;
    *workspace_bytes = SIZE_MAX;
    if (!cv_spectral_make(q, candidate, 0, &s))
        return 1e9;
    *workspace_bytes = s.own_bytes;
    return cv_spectral_seconds(q, &s);
}

static void destroy(void *state)
{
    cv_pipeline *l = state;
    if (!l)
        return;
    enter(l->q.machine);
    cv_pipeline_close(l);
    leave(l->q.machine);
    l->q.machine->ops->free(l->q.machine, l->dft);
    cv_state_free(l);
}

/* Under the lock. Pedantic: FP32 as written, no TF32. */
static convoy_status blas_handle(cv_pipeline *l)
{
    cublasHandle_t *handle = &handles[l->q.machine->device_index];
    if (!*handle) {
        cublasStatus_t status = l->blas->create(handle);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = l->blas->set_math(*handle, CUBLAS_PEDANTIC_MATH);
        else
            *handle = NULL;
        if (status != CUBLAS_STATUS_SUCCESS) {
            if (*handle)
                l->blas->destroy(*handle);
            *handle = NULL;
            return cv_fail(CONVOY_DEVICE_ERROR, "starting cuBLAS: error %d", (int)status);
        }
    }
    l->handle = *handle;
    return CONVOY_OK;
}

/* The chunks are cut to the limit without cuFFT's own work area, whose size only its plans tell: if it does not fit,
 * again. */
static convoy_status open_within_limit(cv_pipeline *l, const cv_candidate *candidate)
{
    for (int tries = 0; tries < 4; tries++) {
        if (!cv_spectral_make(&l->q, candidate, l->work_bytes, &l->s))
            return cv_fail(CONVOY_UNSUPPORTED, "cufft needs %zu bytes for cuFFT alone: the workspace limit is %zu",
                           l->work_bytes, l->q.workspace_limit);
        convoy_status status = cv_pipeline_open(l);
        if (status != CONVOY_OK || l->s.own_bytes + l->work_bytes <= l->q.workspace_limit)
            return status;
        cv_pipeline_close(l);
    }
    return cv_fail(CONVOY_UNSUPPORTED, "cufft finds no division of the work within %zu bytes", l->q.workspace_limit);
}

/* The short DFT's matrix, worked out in double, in device memory. */
static convoy_status make_dft(cv_pipeline *l)
{
    const cv_machine *m = l->q.machine;
    const int64_t taps = l->q.p.s, bins = l->s.bins, period = l->s.tx;
    const size_t bytes = (size_t)(taps * bins) * 2 * sizeof(float);
    const double turn = -2 * 3.14159265358979323846 / (double)period;
    float *host = cv_alloc(&m->memory, bytes);
    void *device = NULL;
    if (!host)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: %zu bytes for a plan of engine cufft", bytes);
    for (int64_t s = 0; s < taps; s++)
        for (int64_t f = 0; f < bins; f++) {
            const double angle = turn * (double)(f * s % period * l->q.p.dil_w % period);
            host[2 * (s * bins + f)] = (float)cos(angle);
            host[2 * (s * bins + f) + 1] = (float)sin(angle);
        }
    convoy_status status = m->ops->alloc(m, bytes, &device);
    l->dft = device;
    if (status == CONVOY_OK)
        status = m->ops->copy(m, device, host, bytes, CONVOY_TO_DEVICE, NULL);
    cv_free(&m->memory, host);
    return status;
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    char why[CV_REASON_BYTES];
    *state = NULL;
    cv_pipeline *l = cv_state_alloc(q, "cufft", sizeof *l);
    if (!l)
        return CONVOY_OUT_OF_MEMORY;
    l->q = *q;
    cv_chain_shape_of(&q->p, q->P, q->Q, &l->shape);
    if (q->prepared)
        cv_packed_weights(&q->p, l->shape.ws);
    l->fft = cv_cufft_open(q->machine, why, sizeof why);
    l->blas = cv_cublas_open(q->machine, why, sizeof why);
    convoy_status status = l->fft && l->blas ? CONVOY_OK : cv_fail(CONVOY_UNSUPPORTED, "cufft: %s", why);
    enter(q->machine);
    if (status == CONVOY_OK)
        status = open_within_limit(l, candidate);
    if (status == CONVOY_OK && !l->s.pointwise)
        status = blas_handle(l);
    leave(q->machine);
    if (status == CONVOY_OK && l->s.w_product)
        status = make_dft(l);
    if (status != CONVOY_OK) {
        destroy(l);
        return status;
    }
    needs->workspace_bytes = l->s.own_bytes + l->work_bytes;
    needs->weights_bytes = cv_pipeline_weights(l).bytes;
    needs->prepare_bytes = q->prepared ? cv_pipeline_prepare_bytes(l) : 0;
    needs->bound_kind = 1;
    needs->bound_factor = 4 * log2((double)l->s.ty * l->s.tx);
    needs->tile_h = l->s.ty;
    needs->tile_w = l->s.tx;
    *state = l;
    return CONVOY_OK;
}

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    cv_pipeline *l = (cv_pipeline *)(uintptr_t)state; /* its cuFFT plans are aimed at the stream, under the lock */
    enter(l->q.machine);
    convoy_status status = cv_pipeline_prepare(l, w, weights, scratch, stream);
    leave(l->q.machine);
    return status;
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    cv_pipeline *l = (cv_pipeline *)(uintptr_t)state;
    enter(l->q.machine);
    convoy_status status = cv_pipeline_run(l, run);
    leave(l->q.machine);
    return status;
}

const cv_engine cv_engine_cufft = {
    .name = "cufft",
    .about = "tiled FFT from cuFFT and cuBLAS parts (loaded at run time)",
    .revision = 1,
    .device = CONVOY_CUDA,
    .traits = CV_IS_TRANSFORM | CV_IS_VENDOR | CV_PREPARES,
    .candidate_keys = "ty tx kx",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = destroy,
    .prepare = prepare,
    .execute = execute,
};
