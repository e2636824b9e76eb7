/* The walk over passes, bands and chunks. The same walk, run dry, finds out which cuFFT plans it needs. */
#include "steps.h"
#include "gpu/guard.h"

#include <string.h>

enum { ALIGN = 256 };

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- The cv_fft_walk */

static void one_band(cv_fft_walk *v, const cv_fft_span *a, const float *spectrum)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t pass = a->groups * a->kernels * q->cg, all = q->p.k * q->cg;
    for (int from = 0; from < s->bins && cv_fft_going(v); from += s->kx) {
        const int kx = s->bins - from < s->kx ? s->bins - from : s->kx;
        cv_fft_x_columns(v, a, from, kx);
        if (q->prepared) {
            const float *w =
                v->dry ? NULL : spectrum + 2 * ((int64_t)from * s->ty * all + (a->g * q->kg + a->k) * q->cg);
            cv_fft_multiply(v, a, kx, w, all, q->kg * q->cg);
        } else {
            cv_fft_w_columns(v, a, from, kx, v->w_chunk);
            cv_fft_multiply(v, a, kx, v->w_chunk, pass, a->kernels * q->cg);
        }
        cv_fft_y_columns(v, a, from, kx);
    }
    cv_fft_y_rows(v, a);
}

static void all_bands(cv_fft_walk *v, cv_fft_span *a, const float *spectrum)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int single = s->n_at_once >= q->p.n && s->t_at_once >= s->th;
    for (a->n = 0; a->n < q->p.n; a->n += s->n_at_once)
        for (a->t = 0; a->t < s->th && cv_fft_going(v); a->t += s->t_at_once) {
            a->images = cv_fft_least(s->n_at_once, q->p.n - a->n);
            a->tile_rows = cv_fft_least(s->t_at_once, s->th - a->t);
            a->rows = cv_spectral_rows(q, s, a->t, a->tile_rows, &a->row);
            a->p = a->t * s->tile_p;
            a->outputs = cv_fft_least(q->P - a->p, a->tile_rows * s->tile_p);
            if (!single || a->k == 0)
                cv_fft_x_rows(v, a);
            one_band(v, a, spectrum);
        }
}

static void whole(cv_fft_walk *v, const float *spectrum)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    unsigned *w_slots = v->dry ? NULL : v->slots + CV_GUARD_WORDS * q->p.n * q->p.groups * s->th * s->tw;
    for (int64_t g = 0; g < q->p.groups; g += s->g_at_once)
        for (int64_t k = 0; k < q->kg && cv_fft_going(v); k += s->k_at_once) {
            cv_fft_span a = {.g = g,
                             .groups = cv_fft_least(s->g_at_once, q->p.groups - g),
                             .k = k,
                             .kernels = cv_fft_least(s->k_at_once, q->kg - k)};
            if (!q->prepared)
                cv_fft_w_rows(v, &a, v->dry ? NULL : v->exec->w, NULL, w_slots);
            all_bands(v, &a, spectrum);
        }
}

static void prepare_walk(cv_fft_walk *v, const float *w, unsigned *slots, float *raw, float *spectrum)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const cv_fft_span a = {.groups = q->p.groups, .kernels = q->kg};
    cv_fft_w_rows(v, &a, w, raw, slots);
    for (int from = 0; from < s->bins && cv_fft_going(v); from += s->kx) {
        const int kx = s->bins - from < s->kx ? s->bins - from : s->kx;
        /* cppcheck-suppress nullPointerArithmetic ; NULL in a dry walk, which reads no pointer */
        cv_fft_w_columns(v, &a, from, kx, v->dry ? NULL : spectrum + 2 * (int64_t)from * s->ty * q->p.k * q->cg);
    }
}

/* ---- Outside */

cv_fft_weights cv_pipeline_weights(const cv_pipeline *l)
{
    const convoy_problem *p = &l->q.p;
    const size_t pairs = (size_t)(p->k * l->q.cg);
    cv_fft_weights at;
    at.raw_at = round_up((size_t)p->k * CV_GUARD_WORDS * sizeof(unsigned));
    at.spectrum_at = at.raw_at + round_up(pairs * (size_t)(p->r * p->s) * sizeof(float));
    at.bytes = at.spectrum_at + pairs * (size_t)l->s.ty * (size_t)l->s.bins * 8;
    return at;
}

static size_t prepare_rows_bytes(const cv_pipeline *l)
{
    return round_up((size_t)(l->q.p.k * l->q.cg * l->q.p.r) * (size_t)l->s.bins * 8);
}

static size_t prepare_stage_bytes(const cv_pipeline *l)
{
    const size_t plane = (size_t)l->q.p.r * (size_t)l->s.tx * sizeof(float);
    return round_up(l->s.stage_bytes > plane ? l->s.stage_bytes : plane);
}

size_t cv_pipeline_prepare_bytes(const cv_pipeline *l)
{
    return prepare_rows_bytes(l) + prepare_stage_bytes(l) + l->s.blas_bytes + round_up(l->work_bytes);
}

convoy_status cv_pipeline_open(cv_pipeline *l)
{
    cv_fft_walk v = {.l = l, .dry = 1, .status = CONVOY_OK};
    whole(&v, NULL);
    if (l->q.prepared)
        prepare_walk(&v, NULL, NULL, NULL, NULL);
    return v.status;
}

void cv_pipeline_close(cv_pipeline *l)
{
    for (int i = 0; i < l->plans; i++)
        l->fft->destroy(l->plan[i].handle);
    l->plans = 0;
}

/* The next bytes of a block of memory. */
static void *carve(char **at, size_t bytes)
{
    void *here = *at;
    *at += bytes;
    return here;
}

static void aim_blas(cv_fft_walk *v, void *workspace)
{
    const cv_pipeline *l = v->l;
    if (!l->handle)
        return;
    cv_fft_note_blas(v, l->blas->set_stream(l->handle, v->stream));
    cv_fft_note_blas(v, l->blas->set_workspace(l->handle, workspace, l->s.blas_bytes));
}

convoy_status cv_pipeline_prepare(cv_pipeline *l, const float *w, void *weights, void *scratch, void *stream)
{
    const cv_fft_weights in = cv_pipeline_weights(l);
    char *at = scratch, *block = weights;
    cv_fft_walk v = {.l = l, .stream = stream, .status = CONVOY_OK};
    v.stage = carve(&at, prepare_stage_bytes(l));
    v.w_rows = carve(&at, prepare_rows_bytes(l));
    aim_blas(&v, carve(&at, l->s.blas_bytes));
    v.work = at;
    cv_fft_note_cuda(&v, cudaMemsetAsync(weights, 0, (size_t)l->q.p.k * CV_GUARD_WORDS * sizeof(unsigned), stream),
                     "preparing weights");
    void *raw = block + in.raw_at, *spectrum = block + in.spectrum_at;
    if (cv_fft_going(&v))
        prepare_walk(&v, w, weights, raw, spectrum);
    return v.status;
}

convoy_status cv_pipeline_run(cv_pipeline *l, const cv_exec *exec)
{
    const cv_spectral *s = &l->s;
    const convoy_problem *p = &l->q.p;
    const int64_t tiles = p->n * p->groups * s->th * s->tw;
    const size_t chunks = s->x_chunk_bytes + s->w_chunk_bytes + s->y_chunk_bytes;
    char *at = exec->workspace;
    cv_fft_walk v = {.l = l, .exec = exec, .stream = exec->stream, .phases = exec->phases, .status = CONVOY_OK};
    /* real rows are done with before chunks begin, and begin when those are done with */
    char *shared = carve(&at, s->stage_bytes > chunks ? s->stage_bytes : chunks);
    v.stage = (void *)shared;
    v.x_chunk = carve(&shared, s->x_chunk_bytes);
    v.w_chunk = carve(&shared, s->w_chunk_bytes);
    v.y_chunk = carve(&shared, s->y_chunk_bytes);
    v.x_rows = carve(&at, s->x_rows_bytes);
    v.w_rows = carve(&at, s->w_rows_bytes);
    v.y_rows = carve(&at, s->y_rows_bytes);
    v.slots = carve(&at, s->guard_bytes);
    aim_blas(&v, carve(&at, s->blas_bytes));
    v.work = at;
    if (v.phases) {
        cv_fft_note_cuda(&v, cudaEventCreate(&v.from), "timing phases");
        cv_fft_note_cuda(&v, cudaEventCreate(&v.to), "timing phases");
    }
    cv_fft_note_cuda(&v,
                     cudaMemsetAsync(v.slots, 0, (size_t)(tiles + p->k) * CV_GUARD_WORDS * sizeof(unsigned), v.stream),
                     "clearing the guards");
    const cv_fft_weights in = cv_pipeline_weights(l);
    const unsigned *w_slots = v.slots + CV_GUARD_WORDS * tiles;
    const void *w = exec->w, *spectrum = NULL;
    if (exec->weights) {
        w_slots = exec->weights;
        w = (const char *)exec->weights + in.raw_at;
        spectrum = (const char *)exec->weights + in.spectrum_at;
    }
    if (cv_fft_going(&v))
        whole(&v, spectrum);
    if (cv_fft_going(&v))
        cv_fft_guard(&v, w_slots, w);
    if (v.from)
        (void)cudaEventDestroy(v.from);
    if (v.to)
        (void)cudaEventDestroy(v.to);
    return v.status;
}
