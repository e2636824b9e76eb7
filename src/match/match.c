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
    if (runs > 1) { /* pieces of the channels: images and kernels lie as far apart as before */
        r.bias = 0;
        r.p.c /= runs;
        r.cg /= runs;
        r.p.strided = 1;
    }
    return r;
}

/* Cells, starts of windows and bands along one axis. */
static void lay_axis(int64_t size, int64_t outputs, int64_t stride, int64_t pad, int64_t *cells, int64_t *start,
                     int64_t *grid)
{
    *cells = (size + CV_MATCH_CELL - 1) / CV_MATCH_CELL;
    *start = cv_match_cell_of(-pad);
    *grid = cv_match_cell_of((outputs - 1) * stride - pad) - *start + 1;
}

static size_t take(size_t *at, size_t bytes)
{
    const size_t place = *at;
    *at += up64(bytes);
    return place;
}

/* Sizes and places of everything but the inner engine's workspace; the inner limit is what is left. */
static int lay_out(cv_match_state *m, const cv_request *q, int runs)
{
    const convoy_problem *p = &q->p;
    const size_t outputs = (size_t)(p->n * p->k * q->P * q->Q), planes = (size_t)(p->n * p->groups);
    size_t at = 0;
    memset(m, 0, sizeof *m);
    m->request = *q;
    m->runs = runs;
    m->reach_h = (p->r - 1) * p->dil_h + 1;
    m->reach_w = (p->s - 1) * p->dil_w + 1;
    m->padded_w = p->w + p->pad_l + p->pad_r;
    const double rows = (double)cv_match_rows(m, CV_MATCH_BAND), width = (double)m->padded_w,
                 height = (double)(p->h + p->pad_t + p->pad_b), cell = CV_MATCH_CELL;
    if (4.0 * (runs + 2) * rows * width +
            (double)sizeof(cv_match_cell) * (double)planes * (height / cell) * width / cell >
        (double)q->workspace_limit)
        return 0; /* before a product overflows */
    m->bands = (q->P + CV_MATCH_BAND - 1) / CV_MATCH_BAND;
    m->words = (q->Q + CV_MATCH_COLUMNS - 1) / CV_MATCH_COLUMNS;
    lay_axis(p->h, q->P, p->stride_h, p->pad_t, &m->cells_h, &m->start_h, &m->grid_h);
    lay_axis(p->w, q->Q, p->stride_w, p->pad_l, &m->cells_w, &m->start_w, &m->grid_w);
    m->sums_at = take(&at, runs > 1 ? outputs * sizeof(float) : 0);
    m->energy_at = take(&at, runs > 1 ? outputs * sizeof(float) : 0);
    m->cells_at = take(&at, planes * (size_t)(m->cells_h * m->cells_w * (runs + 2)) * sizeof(float));
    m->grid_at = take(&at, planes * (size_t)(m->grid_h * m->grid_w) * sizeof(cv_match_cell));
    m->mask_at = take(&at, (size_t)(p->n * p->k * q->P * m->words) * sizeof(uint16_t));
    m->counts_at = take(&at, planes * (size_t)m->bands * sizeof(int64_t));
    m->stats_at = take(&at, sizeof(cv_match_w) * (size_t)p->k);
    m->scratch_bytes = up64(cv_match_scratch(m));
    m->scratch_at = take(&at, m->scratch_bytes * (size_t)q->machine->threads);
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

struct shape {
    int runs; /* 0: nothing fits */
    double seconds;
    size_t inner_bytes;
};

/* The quickest division that the engine accepts and for which the candidate fits the limit. Fills m. */
static struct shape choose_runs(cv_match_state *m, const cv_request *q, const cv_engine *e,
                                const cv_candidate *candidate, const cv_match_exact *exact)
{
    char reason[CV_REASON_BYTES];
    struct shape best = {0, HUGE_VAL, 0};
    for (int runs = divisible(q) ? CV_MATCH_RUNS : 1; runs; runs = runs > 1 ? 1 : 0) {
        size_t inner;
        if (!lay_out(m, q, runs) || e->refuse(&m->inner_request, reason))
            continue;
        const double seconds =
            runs * e->estimate(&m->inner_request, candidate, &inner) + cv_match_extra_seconds(q, runs, exact->seconds);
        if (inner <= m->inner_request.workspace_limit && seconds < best.seconds)
            best = (struct shape){runs, seconds, inner};
    }
    if (best.runs)
        lay_out(m, q, best.runs);
    return best;
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

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static double estimate(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, size_t *workspace_bytes)
{
    cv_match_state m;
    cv_match_exact exact;
    cv_match_find_exact(q, &exact);
    const struct shape shape = choose_runs(&m, q, e, candidate, &exact);
    *workspace_bytes = shape.runs ? larger(m.inner_at + up64(shape.inner_bytes), exact.workspace_bytes) : SIZE_MAX;
    return shape.seconds;
}

static convoy_status create_engines(cv_match_state *m, const cv_candidate *candidate, const cv_match_exact *exact,
                                    cv_needs *needs)
{
    const cv_request *q = &m->request;
    cv_needs exact_needs = {0};
    convoy_status status = m->engine->create(&m->inner_request, candidate, &m->inner, &m->inner_needs);
    if (status == CONVOY_OK && exact->engine) {
        status = exact->engine->create(&exact->request, &exact->candidate, &m->exact_state, &exact_needs);
        if (status != CONVOY_OK)
            m->engine->destroy(m->inner);
    }
    if (status != CONVOY_OK)
        return status;
    m->exact = exact->engine;
    m->most = m->exact ? exact->seconds * cv_match_list_rate(q, 1.0) * q->machine->flop_per_s /
                             (2.0 * (double)q->cg * (double)q->p.r * (double)q->p.s)
                       : HUGE_VAL;
    m->workspace_bytes = m->inner_at + up64(m->inner_needs.workspace_bytes);
    needs->workspace_bytes = larger(m->workspace_bytes, exact_needs.workspace_bytes);
    return CONVOY_OK;
}

static convoy_status create(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, void **state,
                            cv_needs *needs)
{
    cv_match_exact exact;
    *state = NULL;
    cv_match_state *m = cv_alloc(&q->machine->memory, sizeof *m);
    if (!m)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of the match contract");
    cv_match_find_exact(q, &exact);
    convoy_status status =
        choose_runs(m, q, e, candidate, &exact).runs
            ? CONVOY_OK
            : cv_fail(CONVOY_INTERNAL, "engine %s no longer accepts a problem that it accepted", e->name);
    m->engine = e;
    if (status == CONVOY_OK)
        status = create_engines(m, candidate, &exact, needs);
    if (status != CONVOY_OK) {
        cv_free(&q->machine->memory, m);
        return status;
    }
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
    if (m->exact)
        m->exact->destroy(m->exact_state);
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

/* The transform, in pieces of the channels; all but the last folded. */
static convoy_status run_transform(const cv_match_call *call, const char *pieces)
{
    const cv_match_state *m = call->m;
    const cv_exec *run = call->run;
    const convoy_problem *p = &m->request.p;
    for (int b = 0; b < m->runs; b++) {
        cv_exec inner = *run;
        inner.bias = m->runs > 1 ? NULL : run->bias;
        inner.workspace = place(run->workspace, m->inner_at);
        inner.x = run->x + b * m->inner_request.cg * p->x_stride[1];
        inner.w = run->w ? run->w + b * m->inner_request.cg * p->w_stride[1] : NULL;
        inner.weights = run->weights ? pieces + (size_t)b * up64(m->inner_needs.weights_bytes) : NULL;
        convoy_status status = m->engine->execute(m->inner, &inner);
        if (status != CONVOY_OK)
            return status;
        if (b < m->runs - 1)
            cv_match_fold(call, b == 0);
    }
    return CONVOY_OK;
}

/* Outputs one by one, or all of them by the exact engine. */
static convoy_status recompute(const cv_match_call *call, int64_t unsafe)
{
    const cv_match_state *m = call->m;
    const double from = cv_now_s(), outputs = (double)m->request.p.n * (double)m->request.p.k * (double)m->request.P *
                                              (double)m->request.Q;
    const int all = (double)unsafe > m->most;
    convoy_status status = CONVOY_OK;
    if (all) {
        cv_exec exact = *call->run;
        exact.w = call->w;
        exact.weights = NULL;
        exact.phases = NULL;
        status = m->exact->execute(m->exact_state, &exact);
    } else if (unsafe) {
        cv_match_chains(call);
    }
    cv_phase_add(call->run->phases, all ? "exact, all" : "chains", cv_now_s() - from, 0,
                 (all ? 1.0 : (double)unsafe / outputs) * convoy_problem_flop(&m->request.p));
    return status;
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    const cv_match_state *m = state;
    struct prepared g = {NULL, NULL, NULL};
    cv_match_w *stats = place(run->workspace, m->stats_at);
    cv_match_call call = {.m = m,
                          .run = run,
                          .w = run->w,
                          .stats = stats,
                          .sums = place(run->workspace, m->sums_at),
                          .energy = place(run->workspace, m->energy_at),
                          .cells = place(run->workspace, m->cells_at),
                          .grid = place(run->workspace, m->grid_at),
                          .mask = place(run->workspace, m->mask_at),
                          .counts = place(run->workspace, m->counts_at),
                          .scratch = place(run->workspace, m->scratch_at)};
    double from = cv_now_s();
    if (run->weights) {
        g = split(m, run->weights);
        call.stats = g.stats;
        call.w = g.w;
    } else {
        cv_match_weights_stats(m, run->w, stats);
    }
    cv_match_cells(&call);
    double seconds = cv_now_s() - from;
    const convoy_status status = run_transform(&call, g.pieces);
    if (status != CONVOY_OK)
        return status;
    from = cv_now_s();
    const int64_t unsafe = cv_match_judge(&call);
    seconds += cv_now_s() - from;
    cv_phase_add(run->phases, "judge", seconds,
                 4.0 * (double)m->request.p.n * (double)m->request.p.k * (double)m->request.P * (double)m->request.Q,
                 0);
    return recompute(&call, unsafe);
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
