/* cudnn: NVIDIA's library, held to FP32 multiply-adds, through its graph interface.
 *
 * Candidates are all that it offers in FP32 (offers.c); which one is quickest is found by timing, since its own ranking
 * is for tensor cores. A candidate is named by the engine's index and its knobs' values, so it means the same thing as
 * long as cuDNN's version, which wisdom's fingerprint holds, is the same.
 *
 * Its FFT and Winograd configurations spread a NaN over a tile and round norm-wise. They run guarded: magnitudes of
 * each image (and group) and of each output channel's weights are gathered first, and where they are out of range the
 * exact chain recomputes the image or channel afterwards, on the same stream. */
#include "chain/chain_cuda.h"
#include "descriptor.h"
#include "gpu/bias.h"
#include "gpu/cuda_status.h"
#include "gpu/guard.h"
#include "shared.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN = 256 };

static int64_t reach(const int64_t size[4], const int64_t stride[4])
{
    double total = 1;
    for (int i = 0; i < 4; i++)
        total += (double)(size[i] - 1) * (double)stride[i];
    return total < 9e18 ? (int64_t)total : INT64_MAX;
}

static const char *bad_strides(const int64_t size[4], const int64_t stride[4])
{
    for (int i = 0; i < 4; i++)
        if (size[i] > 1 && stride[i] <= 0)
            return "it takes positive strides only";
    return reach(size, stride) > INT32_MAX ? "a tensor spans more than 2^31 elements, which its kernels do not index"
                                           : NULL;
}

static const char *refuse(const cv_request *q, char reason[CV_REASON_BYTES])
{
    const convoy_problem *p = &q->p;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ws[4] = {p->k, q->cg, p->r, p->s}, ys[4] = {p->n, p->k, q->P, q->Q};
    const cv_cudnn *dnn = cv_cudnn_open(q->machine, reason, CV_REASON_BYTES);
    if (!dnn)
        return reason;
    const char *bad = p->h == 0 || p->w == 0 ? "the image is empty" : bad_strides(xs, p->x_stride);
    if (!bad)
        bad = bad_strides(ws, p->w_stride);
    if (!bad)
        bad = bad_strides(ys, p->y_stride);
    if (bad)
        return bad;
    cv_dnn_enter();
    const cv_dnn_offer *o = cv_dnn_offer_of(q, dnn, reason, CV_REASON_BYTES);
    const int count = o ? o->count : 0;
    if (o && !count)
        snprintf(reason, CV_REASON_BYTES, "%s", o->why);
    cv_dnn_leave();
    return count ? NULL : reason;
}

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static int guarded(const cv_dnn_config *c) { return (c->notes & (CV_DNN_FFT | CV_DNN_WINOGRAD)) != 0; }

/* Slots and flags of the images' groups, then of the output channels. */
static size_t guard_bytes(const cv_request *q, const cv_dnn_config *c)
{
    return guarded(c) ? (size_t)(q->p.n * q->p.groups + q->p.k) * (CV_GUARD_WORDS + 1) * sizeof(unsigned) : 0;
}

static size_t workspace_of(const cv_request *q, const cv_dnn_config *c)
{
    return round_up(c->workspace_bytes) + guard_bytes(q, c);
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    char why[CV_REASON_BYTES];
    const cv_cudnn *dnn = cv_cudnn_open(q->machine, why, sizeof why);
    int count = 0;
    if (!dnn)
        return 0;
    cv_dnn_enter();
    const cv_dnn_offer *o = cv_dnn_offer_of(q, dnn, why, sizeof why);
    for (int i = 0; o && i < o->count && count < capacity; i++)
        if (workspace_of(q, &o->config[i]) <= q->workspace_limit)
            list[count++] = o->config[i].candidate;
    cv_dnn_leave();
    return count;
}

static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    char why[CV_REASON_BYTES];
    const cv_cudnn *dnn = cv_cudnn_open(q->machine, why, sizeof why);
    double seconds = 1e9;
    *workspace_bytes = SIZE_MAX;
    if (!dnn)
        return seconds;
    cv_dnn_enter();
    const cv_dnn_offer *o = cv_dnn_offer_of(q, dnn, why, sizeof why);
    for (int i = 0; o && i < o->count; i++)
        if (memcmp(&o->config[i].candidate, candidate, sizeof *candidate) == 0) {
            *workspace_bytes = workspace_of(q, &o->config[i]);
            seconds = cv_dnn_seconds(q, &o->config[i], i);
            break;
        }
    cv_dnn_leave();
    return seconds;
}

struct state {
    const cv_machine *machine;
    cv_request q;
    const cv_cudnn *dnn;
    cv_dnn_graph graph;
    cv_dnn_config config;
    cudnnBackendDescriptor_t plan;
};

static void destroy(void *state)
{
    struct state *s = state;
    if (!s)
        return;
    cv_dnn_enter();
    if (s->plan)
        s->dnn->destroy(s->plan);
    cv_dnn_graph_free(&s->graph);
    cv_dnn_leave();
    cv_state_free(s);
}

/* Direct: a sum of cg*r*s products in some order. FFT: cuDNN does not say its tile; it is no larger than the padded
 * image. Winograd, tiles of 2x2 and 4x4 outputs of a 3x3 kernel: |A'| |G| |B'| sums to 48 along one axis, so 48^2 times
 * the roundings of three transforms and of the sum over channels. */
static void promise(const cv_request *q, const cv_dnn_config *c, cv_needs *needs)
{
    const convoy_problem *p = &q->p;
    needs->bound_kind = guarded(c);
    needs->bound_factor = (double)q->cg * (double)p->r * (double)p->s + 1;
    if (c->notes & CV_DNN_FFT)
        needs->bound_factor =
            4 * log2(4.0 * (double)(p->h + p->pad_t + p->pad_b) * (double)(p->w + p->pad_l + p->pad_r));
    if (c->notes & CV_DNN_WINOGRAD)
        needs->bound_factor = 48.0 * 48.0 * (16.0 + (double)q->cg);
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    char why[CV_REASON_BYTES] = "";
    *state = NULL;
    const cv_cudnn *dnn = cv_cudnn_open(q->machine, why, sizeof why);
    if (!dnn)
        return cv_fail(CONVOY_UNSUPPORTED, "cudnn: %s", why);
    struct state *s = cv_state_alloc(q, "cudnn", sizeof *s);
    if (!s)
        return CONVOY_OUT_OF_MEMORY;
    s->q = *q;
    s->dnn = dnn;
    cv_dnn_enter();
    cudnnHandle_t handle = cv_dnn_handle(q->machine, dnn, why, sizeof why);
    if (handle && cv_dnn_graph_make(&s->graph, dnn, handle, q, why, sizeof why)) {
        s->plan = cv_dnn_plan(&s->graph, candidate, &s->config);
        if (!s->plan)
            cv_dnn_words(dnn, CUDNN_STATUS_NOT_SUPPORTED, why, sizeof why);
    }
    cv_dnn_leave();
    if (!s->plan) {
        destroy(s);
        return cv_fail(CONVOY_DEVICE_ERROR, "cudnn: engine %d makes no plan: %s", candidate->v[0], why);
    }
    needs->workspace_bytes = workspace_of(q, &s->config);
    promise(q, &s->config, needs);
    *state = s;
    return CONVOY_OK;
}

static cudnnStatus_t enqueue(const struct state *s, const cv_exec *run)
{
    const cv_dnn_graph *g = &s->graph;
    void *pointers[3] = {(void *)(uintptr_t)run->x, (void *)(uintptr_t)run->w, run->y};
    const int64_t uids[3] = {CV_DNN_X, CV_DNN_W, CV_DNN_Y};
    void *workspace = s->config.workspace_bytes ? run->workspace : NULL;
    cudnnStatus_t status = s->dnn->set_stream(g->handle, run->stream);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    descriptor pack = cv_dnn_make(g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (pack && cv_dnn_set(g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, pointers) &&
        cv_dnn_set_ints(g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3, uids) &&
        cv_dnn_set(g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) &&
        cv_dnn_finish(g, pack))
        status = s->dnn->execute(g->handle, s->plan, pack);
    else
        status = CUDNN_STATUS_BAD_PARAM;
    cv_dnn_drop(g, pack);
    return status;
}

/* Recomputes the images and channels whose magnitudes the transforms cannot take. */
static int guard(const struct state *s, const cv_exec *run)
{
    const cv_request *q = &s->q;
    const convoy_problem *p = &q->p;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ws[4] = {p->k, q->cg, p->r, p->s}, images = p->n * p->groups;
    const double points = 4.0 * (double)(p->h + p->pad_t + p->pad_b) * (double)(p->w + p->pad_l + p->pad_r);
    const cv_guard_range range = cv_guard_range_of(points, (double)(p->r * p->s), (double)q->cg);
    const cv_guard_range any_span = {range.low, range.high, 0};
    cv_chain_shape shape;
    cv_chain_shape_of(p, q->P, q->Q, &shape);
    unsigned *slots = (unsigned *)((char *)run->workspace + round_up(s->config.workspace_bytes));
    unsigned *flags = slots + CV_GUARD_WORDS * (images + p->k);
    int e = cudaMemsetAsync(slots, 0, (size_t)(images + p->k) * CV_GUARD_WORDS * sizeof *slots, run->stream);
    if (!e)
        e = cv_guard_scan(run->x, xs, p->x_stride, p->groups, q->cg, slots, run->stream);
    if (!e)
        e = cv_guard_scan(run->w, ws, p->w_stride, 1, q->cg, slots + CV_GUARD_WORDS * images, run->stream);
    if (!e)
        e = cv_guard_judge(slots, images, any_span, slots + CV_GUARD_WORDS * images, p->k, range, flags, run->stream);
    if (!e)
        e = cv_chain_cuda_tiles(&shape, q->P, q->Q, flags, flags + images, run->x, run->w, run->bias, run->y,
                                run->stream);
    return e;
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    const struct state *s = state;
    char why[CV_REASON_BYTES];
    cv_dnn_enter();
    const cudnnStatus_t status = enqueue(s, run);
    if (status != CUDNN_STATUS_SUCCESS)
        cv_dnn_words(s->dnn, status, why, sizeof why);
    cv_dnn_leave();
    if (status != CUDNN_STATUS_SUCCESS)
        return cv_fail(CONVOY_DEVICE_ERROR, "running cudnn: %s", why);
    int e = 0;
    if (run->bias) {
        const int64_t size[4] = {s->q.p.n, s->q.p.k, s->q.P, s->q.Q};
        e = cv_bias_add(run->y, size, s->q.p.y_stride, run->bias, run->stream);
    }
    if (!e && guarded(&s->config))
        e = guard(s, run);
    return cv_cuda_status(e, "running cudnn");
}

const cv_engine cv_engine_cudnn = {
    .name = "cudnn",
    .about = "cuDNN's FP32 convolutions, all configurations, no tensor cores (loaded at run time)",
    .revision = 1,
    .device = CONVOY_CUDA,
    .traits = CV_IS_VENDOR,
    .candidate_keys = "eng a b c d e f g",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = destroy,
    .execute = execute,
};
