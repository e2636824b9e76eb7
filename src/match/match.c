/* Composing a plan for the match contract: planning, memory, and the order of the steps. See match.h. */
#include "core/services.h"
#include "match.h"
#if CV_WITH_CUDA
#include "gpu_plan.h"
#endif

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t long_chain = 16384; /* from here on the path is worth knowing at more than its end */

static size_t up64(size_t bytes) { return (bytes + 63) / 64 * 64; }

static void *place(const void *block, size_t at) { return (char *)block + at; }

static cv_request inner_request(const cv_request *q, int runs)
{
    cv_request r = *q;
    r.math = CONVOY_MATH_FP32;
    r.rtol = r.atol = 0;
    r.bias = 0;
    if (runs > 1) {
        r.p.c /= runs;
        r.cg /= runs;
        r.p.strided = 1; /* images and kernels lie as far apart as before */
    }
    return r;
}

/* Sizes and places of everything but the inner engine's workspace; the inner limit is what is left. */
static int lay_out(cv_match_state *m, const cv_request *q, int runs)
{
    const convoy_problem *p = &q->p;
    const size_t outputs = (size_t)(p->n * p->k * q->P * q->Q),
                 map = (size_t)(p->groups * q->P * q->Q) * sizeof(double);
    const int64_t rows = (p->r - 1) * p->dil_h + 1, tile_rows = 2 * 512;
    size_t at = 0;
    if (8.0 * ((double)(rows + tile_rows) * (double)q->Q + 2.0 * (double)p->w) > (double)q->workspace_limit)
        return 0; /* before a product overflows */
    memset(m, 0, sizeof *m);
    m->request = *q;
    m->runs = runs;
    m->steps = (double)q->cg / runs * (double)p->r * (double)p->s;
    m->sums_at = at;
    at += runs > 1 ? up64(outputs * sizeof(float)) : 0;
    m->energy_at = at;
    at += runs > 1 ? up64(outputs * sizeof(float)) : 0;
    m->maps_at = at;
    at += up64((size_t)(runs + 2) * map);
    m->stats_at = at;
    at += up64(sizeof(cv_match_w) * (size_t)p->k);
    m->ring_at = at;
    m->ring_bytes = up64((size_t)((rows > tile_rows ? rows : tile_rows) * q->Q + 2 * p->w + 64) * sizeof(double));
    at += m->ring_bytes * (size_t)q->machine->threads;
    m->inner_at = at;
    m->inner_request = inner_request(q, runs);
    if (at > q->workspace_limit)
        return 0;
    m->inner_request.workspace_limit = q->workspace_limit - at;
    return 1;
}

static int divisible(const cv_request *q)
{
    return q->p.groups == 1 && q->cg % CV_MATCH_RUNS == 0 && q->cg * q->p.r * q->p.s >= long_chain;
}

/* The finest division that the engine accepts and for which the candidate fits the limit; 0 when there is none. Fills
 * m, and the inner engine's prediction. */
static int choose_runs(cv_match_state *m, const cv_request *q, const cv_engine *e, const cv_candidate *candidate,
                       double *seconds, size_t *inner_bytes)
{
    char reason[CV_REASON_BYTES];
    for (int runs = divisible(q) ? CV_MATCH_RUNS : 1;; runs = 1) {
        if (lay_out(m, q, runs) && !e->refuse(&m->inner_request, reason)) {
            *seconds = e->estimate(&m->inner_request, candidate, inner_bytes);
            if (*inner_bytes <= m->inner_request.workspace_limit)
                return runs;
        }
        if (runs == 1)
            return 0;
    }
}

static const char *refuse(const cv_request *q, const cv_engine *e, char reason[CV_REASON_BYTES])
{
    if (!(e->traits & CV_IS_TRANSFORM) || (e->traits & CV_IS_VENDOR))
        return "it keeps neither the exact contract nor a transform's bound that the match contract can be composed "
               "from";
#if CV_WITH_CUDA
    if (e->device == CONVOY_CUDA)
        return cv_match_gpu_table.refuse(q, e, reason);
#endif
    const cv_request inner = inner_request(q, 1);
    char words[CV_REASON_BYTES];
    const char *declined = e->refuse(&inner, words); /* a constant, or text in words */
    if (!declined)
        return NULL;
    snprintf(reason, CV_REASON_BYTES, "%s", declined);
    return reason;
}

/* Those of the undivided problem; estimate says which fit, and in how many runs. */
static int candidates(const cv_request *q, const cv_engine *e, cv_candidate *list, int capacity)
{
    cv_match_state m;
    return lay_out(&m, q, 1) ? e->candidates(&m.inner_request, list, capacity) : 0;
}

/* The share of normal(0,1) outputs whose tolerance is not safe. */
static double unsafe_share(const cv_request *q, int runs)
{
    const double n = (double)(q->cg * q->p.r * q->p.s), u = 0x1p-24;
    const double allowed = (runs > 1 ? 14.0 : 21.0) * 0.1732 * u * n;
    const double share = q->rtol > 0         ? 0.8 * fmax(0.0, allowed - q->atol) / q->rtol / sqrt(n)
                         : allowed > q->atol ? 1.0
                                             : 0.0;
    return share < 1 ? share : 1;
}

static double estimate(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, size_t *workspace_bytes)
{
    cv_match_state m;
    size_t inner = 0;
    double seconds = 0;
    const int runs = choose_runs(&m, q, e, candidate, &seconds, &inner);
    *workspace_bytes = SIZE_MAX;
    if (!runs)
        return HUGE_VAL;
    *workspace_bytes = m.inner_at + up64(inner);
    const double outputs = (double)q->p.n * (double)q->p.k * (double)q->P * (double)q->Q;
    const double chains = unsafe_share(q, runs) * convoy_problem_flop(&q->p) / (0.12 * q->machine->flop_per_s);
    return runs * seconds + chains + outputs * (8.0 * runs / q->machine->bytes_per_s + 2e-9 / q->machine->threads);
}

static convoy_status create(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, void **state,
                            cv_needs *needs)
{
    double seconds;
    size_t inner;
    *state = NULL;
    cv_match_state *m = cv_alloc(&q->machine->memory, sizeof *m);
    if (!m)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of the match contract");
    if (!choose_runs(m, q, e, candidate, &seconds, &inner)) {
        cv_free(&q->machine->memory, m);
        return cv_fail(CONVOY_INTERNAL, "engine %s no longer accepts a problem that it accepted", e->name);
    }
    m->engine = e;
    convoy_status status = e->create(&m->inner_request, candidate, &m->inner, &m->inner_needs);
    if (status != CONVOY_OK) {
        cv_free(&q->machine->memory, m);
        return status;
    }
    m->workspace_bytes = m->inner_at + up64(m->inner_needs.workspace_bytes);
    needs->workspace_bytes = m->workspace_bytes;
    needs->prepare_bytes = m->inner_needs.prepare_bytes;
    needs->bound_kind = 2;
    needs->bound_factor = 0;
    const convoy_problem *p = &q->p;
    needs->weights_bytes = (size_t)m->runs * up64(m->inner_needs.weights_bytes) +
                           up64(sizeof(cv_match_w) * (size_t)p->k) +
                           sizeof(float) * (size_t)(p->k * q->cg * p->r * p->s);
    *state = m;
    return CONVOY_OK;
}

static void destroy(void *state)
{
    cv_match_state *m = state;
    m->engine->destroy(m->inner);
    cv_free(&m->request.machine->memory, m);
}

/* Prepared weights: each piece's transform, the sums for the bounds, and a packed copy of w for the chains. */
struct prepared {
    char *pieces;
    cv_match_w *stats;
    float *w;
};

static struct prepared split(const cv_match_state *m, const void *weights)
{
    const size_t stats = (size_t)m->runs * up64(m->inner_needs.weights_bytes);
    const size_t w = stats + up64(sizeof(cv_match_w) * (size_t)m->request.p.k);
    return (struct prepared){place(weights, 0), place(weights, stats), place(weights, w)};
}

static void pack_w(const cv_request *q, const float *w, float *to)
{
    const convoy_problem *p = &q->p;
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t c = 0; c < q->cg; c++)
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++)
                    *to++ = w[k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2] + s * p->w_stride[3]];
}

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    const cv_match_state *m = state;
    const struct prepared g = split(m, weights);
    const int64_t piece = m->inner_request.cg * m->request.p.w_stride[1];
    for (int b = 0; b < m->runs; b++) {
        convoy_status status = m->engine->prepare(
            m->inner, w + b * piece, g.pieces + (size_t)b * up64(m->inner_needs.weights_bytes), scratch, stream);
        if (status != CONVOY_OK)
            return status;
    }
    cv_match_weights_stats(m, w, g.stats);
    pack_w(&m->request, w, g.w);
    return CONVOY_OK;
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    const cv_match_state *m = state;
    const convoy_problem *p = &m->request.p;
    float *sums = place(run->workspace, m->sums_at), *energy = place(run->workspace, m->energy_at);
    cv_match_w *stats = place(run->workspace, m->stats_at);
    struct prepared g = {NULL, NULL, NULL};
    if (run->weights) {
        g = split(m, run->weights);
        stats = g.stats;
    } else {
        cv_match_weights_stats(m, run->w, stats);
    }
    for (int b = 0; b < m->runs; b++) {
        cv_exec inner = *run;
        inner.bias = NULL;
        inner.workspace = place(run->workspace, m->inner_at);
        inner.x = run->x + b * m->inner_request.cg * p->x_stride[1];
        inner.w = run->w ? run->w + b * m->inner_request.cg * p->w_stride[1] : NULL;
        inner.weights = run->weights ? g.pieces + (size_t)b * up64(m->inner_needs.weights_bytes) : NULL;
        convoy_status status = m->engine->execute(m->inner, &inner);
        if (status != CONVOY_OK)
            return status;
        if (b < m->runs - 1)
            cv_match_fold(m, run->y, sums, energy, b == 0);
    }
    const double from = cv_now_s();
    for (int64_t n = 0; n < p->n; n++) {
        cv_match_maps maps;
        cv_match_fill_maps(m, run->x, n, run->workspace, &maps);
        cv_match_select(m, run, g.w ? g.w : run->w, n, sums, energy, &maps, stats);
    }
    cv_phase_add(run->phases, "check and chain", cv_now_s() - from,
                 4.0 * (double)p->n * (double)p->k * (double)m->request.P * (double)m->request.Q, 0);
    return CONVOY_OK;
}

/* Requests on a GPU go to the composition for CUDA engines. A state of either kind begins with its request. */
#if CV_WITH_CUDA
static int on_gpu(const cv_request *q) { return q->machine->device == CONVOY_CUDA; }
#define CV_DISPATCH(request, call, cpu) (on_gpu(request) ? cv_match_gpu_table.call : cpu)
#else
#define CV_DISPATCH(request, call, cpu) (cpu)
#endif

static int any_candidates(const cv_request *q, const cv_engine *e, cv_candidate *list, int capacity)
{
    return CV_DISPATCH(q, candidates, candidates)(q, e, list, capacity);
}

static double any_estimate(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, size_t *bytes)
{
    return CV_DISPATCH(q, estimate, estimate)(q, e, candidate, bytes);
}

static convoy_status any_create(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, void **state,
                                cv_needs *needs)
{
    return CV_DISPATCH(q, create, create)(q, e, candidate, state, needs);
}

static void any_destroy(void *state) { CV_DISPATCH((cv_request *)state, destroy, destroy)(state); }

static convoy_status any_prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    return CV_DISPATCH((const cv_request *)state, prepare, prepare)(state, w, weights, scratch, stream);
}

static convoy_status any_execute(const void *state, const cv_exec *run)
{
    return CV_DISPATCH((const cv_request *)state, execute, execute)(state, run);
}

const cv_match cv_match_table = {
    .refuse = refuse,
    .candidates = any_candidates,
    .estimate = any_estimate,
    .create = any_create,
    .destroy = any_destroy,
    .prepare = any_prepare,
    .execute = any_execute,
};
