/* Running a composed plan on a GPU: prepared weights, the order of the steps, and their phases. All is enqueued on the
 * caller's stream. */
#include "gpu_plan.h"
#include "gpu/cuda_status.h"

#include <cuda_runtime_api.h>
#include <string.h>

static void *place(const void *block, size_t at) { return (char *)block + at; }

/* Prepared weights: each piece's transform, what the choice needs of w, and a packed copy for the chains. */
static size_t stats_in_weights(const cv_match_gpu_state *s)
{
    return (size_t)s->args.runs * cv_match_gpu_up(s->inner_needs.weights_bytes);
}
static size_t copy_in_weights(const cv_match_gpu_state *s) { return stats_in_weights(s) + (s->maps_at - s->wstat_at); }

convoy_status cv_match_gpu_prepare(const void *p, const float *w, void *weights, void *scratch, void *stream)
{
    const cv_match_gpu_state *s = p;
    const int64_t piece = s->inner_request.cg * s->request.p.w_stride[1];
    for (int b = 0; b < s->args.runs; b++) {
        const convoy_status status = s->engine->prepare(
            s->inner, w + b * piece, place(weights, (size_t)b * cv_match_gpu_up(s->inner_needs.weights_bytes)), scratch,
            stream);
        if (status != CONVOY_OK)
            return status;
    }
    cv_match_gpu m = s->args;
    m.weight = w;
    m.wslice = place(scratch, cv_match_gpu_up(s->inner_needs.prepare_bytes));
    m.wstat = place(weights, stats_in_weights(s));
    cv_chain_shape shape;
    cv_chain_shape_of(&s->request.p, s->request.P, s->request.Q, &shape);
    int e = cv_match_gpu_sums(&m, 0, CV_MATCH_WEIGHTS, stream);
    if (!e)
        e = cv_match_gpu_boxes(&m, CV_MATCH_WEIGHTS, stream);
    if (!e)
        e = cv_chain_cuda_relay(&shape, 1, w, place(weights, copy_in_weights(s)), stream);
    return cv_cuda_status(e, "preparing weights for the match contract");
}

/* Events between the steps, when phases are asked. */
enum { MARKS = 6 };
typedef struct step_marks {
    int on, count;
    cudaStream_t stream;
    cudaEvent_t event[MARKS];
} step_marks;

static int mark(step_marks *m)
{
    int e = m->on ? (int)cudaEventCreate(&m->event[m->count]) : 0;
    if (m->on && !e)
        e = (int)cudaEventRecord(m->event[m->count++], m->stream);
    return e;
}

static int report(const cv_match_gpu_state *s, const step_marks *m, const unsigned *counts, cv_phases *phases)
{
    const cv_match_gpu *a = &s->args;
    const double outputs = (double)a->n * a->k * a->p * a->q, taps = (double)a->cg * a->r * a->s;
    const double bytes[3] = {
        4.0 * ((double)a->n * a->cg * a->groups * a->h * a->w + (s->request.prepared ? 0 : (double)a->k * taps)),
        4 * outputs * (a->runs > 1 ? a->runs + 1 : 1), 0};
    static const char *const names[3] = {"sums", "choose", "recompute"};
    unsigned marked = 0;
    int e = (int)cudaMemcpyAsync(&marked, counts + s->scatter.pools, sizeof marked, cudaMemcpyDeviceToHost, m->stream);
    if (!e)
        e = (int)cudaStreamSynchronize(m->stream);
    for (int i = 0; i < 3 && !e; i++) {
        const int first = i == 0 ? 0 : i + 1; /* the engine's own phases lie between the second mark and the third */
        float ms = 0;
        e = (int)cudaEventElapsedTime(&ms, m->event[first], m->event[first + 1]);
        if (!e)
            cv_phase_add(phases, names[i], ms * 1e-3, bytes[i], i == 2 ? 2 * taps * marked : 0);
    }
    return e;
}

static convoy_status execute_marked(const cv_match_gpu_state *s, const cv_exec *run, step_marks *marks)
{
    cv_match_gpu m = s->args;
    cv_scatter a = s->scatter;
    void *base = run->workspace;
    const convoy_problem *p = &s->request.p;
    const int what = CV_MATCH_X | (run->weights ? 0 : CV_MATCH_WEIGHTS);
    m.xsum = place(base, s->xsum_at), m.wslice = place(base, s->wslice_at), m.maps = place(base, s->maps_at);
    m.wstat = run->weights ? place(run->weights, stats_in_weights(s)) : place(base, s->wstat_at);
    m.tiles = place(base, s->tiles_at), m.pieces = place(base, s->pieces_at);
    m.mask = place(base, s->mask_at), m.counts = place(base, s->counts_at);
    m.x = run->x, m.weight = run->w, m.bias = run->bias, m.y = run->y;
    a.x = run->x, a.bias = run->bias, a.y = run->y, a.mask = m.mask, a.counts = m.counts;
    a.weight = run->weights ? place(run->weights, copy_in_weights(s)) : run->w;
    a.odd = m.wstat + 3, a.odd_step = CV_MATCH_W;

    int e = mark(marks);
    if (!e)
        e = cv_match_gpu_sums(&m, a.pools + 1, what, run->stream);
    if (!e)
        e = cv_match_gpu_boxes(&m, what, run->stream);
    if (!e)
        e = mark(marks);
    for (int b = 0; b < m.runs && !e; b++) {
        cv_exec inner = *run;
        inner.workspace = place(base, s->inner_at);
        inner.follows = 1; /* the boxes' kernel, or the run before */
        inner.x = run->x + b * s->inner_request.cg * p->x_stride[1];
        inner.w = run->w ? run->w + b * s->inner_request.cg * p->w_stride[1] : NULL;
        inner.weights =
            run->weights ? place(run->weights, (size_t)b * cv_match_gpu_up(s->inner_needs.weights_bytes)) : NULL;
        if (m.runs > 1) {
            inner.bias = NULL;
            inner.y = m.pieces + (size_t)b * (size_t)(p->n * p->k) * (size_t)m.p * (size_t)m.q;
        }
        const convoy_status status = s->engine->execute(s->inner, &inner);
        if (status != CONVOY_OK)
            return status;
    }
    if (!e)
        e = mark(marks);
    if (!e)
        e = cv_match_gpu_select(&m, &a, run->stream);
    if (!e)
        e = mark(marks);
    if (!e)
        e = cv_scatter_run(&a, run->stream);
    if (!e)
        e = mark(marks);
    if (!e && marks->on)
        e = report(s, marks, m.counts, run->phases);
    return cv_cuda_status(e, "launching the match contract's kernels");
}

convoy_status cv_match_gpu_execute(const void *p, const cv_exec *run)
{
    step_marks m = {.on = run->phases != NULL, .stream = run->stream};
    const convoy_status status = execute_marked(p, run, &m);
    for (int i = 0; i < m.count; i++)
        cudaEventDestroy(m.event[i]);
    return status;
}
