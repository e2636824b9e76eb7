/* Composing a plan for the match contract on a GPU: sizes and places in the workspace, the number of runs, what it
 * will cost, and the order of the steps. See gpu.h. Everything is enqueued on the caller's stream. */
#include "gpu_plan.h"
#include "gpu/cuda_status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t long_chain = 8192; /* from here on the path may be worth knowing at more than its end */

static cv_request inner_request(const cv_request *q, int runs)
{
    cv_request r = *q;
    r.math = CONVOY_MATH_FP32;
    r.rtol = r.atol = 0;
    if (runs > 1) { /* pieces of the channels of the same tensors; results side by side in the workspace */
        r.bias = 0;
        r.p.c /= runs;
        r.cg /= runs;
        r.p.y_stride[3] = 1;
        r.p.y_stride[2] = q->Q;
        r.p.y_stride[1] = q->P * q->Q;
        r.p.y_stride[0] = q->p.k * q->P * q->Q;
        r.p.strided = 1;
    }
    return r;
}

/* Sizes of the kernels' work; 0 where they exceed what the kernels' indices hold. */
static int describe(const cv_request *q, int runs, cv_match_gpu *m)
{
    const convoy_problem *p = &q->p;
    const double most = INT32_MAX / 8;
    if ((double)p->n * (double)p->groups > 65535 || (double)p->h * (double)p->w > most ||
        (double)p->n * (double)p->groups * (double)q->P * (double)q->Q > most || p->h + p->pad_t + p->pad_b > 1 << 20 ||
        p->w + p->pad_l + p->pad_r > 1 << 20 || p->k >= 1 << 17 || (double)q->cg * (double)p->r * (double)p->s > most)
        return 0;
    *m = (cv_match_gpu){.n = (int)p->n,
                        .h = (int)p->h,
                        .w = (int)p->w,
                        .k = (int)p->k,
                        .p = (int)q->P,
                        .q = (int)q->Q,
                        .r = (int)p->r,
                        .s = (int)p->s,
                        .cg = (int)q->cg,
                        .kg = (int)q->kg,
                        .groups = (int)p->groups,
                        .st_h = (int)p->stride_h,
                        .st_w = (int)p->stride_w,
                        .pad_t = (int)p->pad_t,
                        .pad_l = (int)p->pad_l,
                        .runs = runs};
    if (!cv_match_gpu_cut(m, q->machine->gpu_shared_bytes))
        return 0;
    m->rtol = (float)(q->rtol / (1 + q->rtol));
    m->atol = (float)(q->atol / (1 + q->rtol));
    return 1;
}

/* The engine's tiles; one without tiles has the image as one. */
static void lay_tiles(const cv_request *q, int tile_h, int tile_w, cv_match_gpu *m)
{
    const int64_t down = (q->P - 1) * q->p.stride_h + 1, across = (q->Q - 1) * q->p.stride_w + 1;
    m->tile_h = tile_h, m->step_h = tile_h - m->r + 1;
    m->tile_w = tile_w, m->step_w = tile_w - m->s + 1;
    if (m->step_h < 1)
        m->tile_h = m->h + m->pad_t + m->r, m->step_h = (int)down;
    if (m->step_w < 1)
        m->tile_w = m->w + m->pad_l + m->s, m->step_w = (int)across;
    m->down = (int)((down + m->step_h - 1) / m->step_h);
    m->across = (int)((across + m->step_w - 1) / m->step_w);
}

/* Places of everything but the inner engine's workspace, which is last. */
static int lay_out(cv_match_gpu_state *s, const cv_request *q, int runs)
{
    memset(s, 0, sizeof *s);
    cv_match_gpu *m = &s->args;
    if (!describe(q, runs, m))
        return 0;
    s->request = *q;
    const size_t ng = (size_t)(m->n * m->groups), plane = (size_t)m->p * (size_t)m->q;
    const size_t outputs = (size_t)m->n * (size_t)m->k * plane;
    const size_t words = (size_t)m->n * (size_t)m->k * (size_t)m->p * (size_t)((m->q + 31) / 32);
    size_t at = 0;
    s->xsum_at = at, at += cv_match_gpu_up((size_t)(m->parts + 1) * ng * (size_t)m->h * (size_t)m->w * 4);
    s->wslice_at = at, at += cv_match_gpu_up((size_t)m->k * (size_t)m->slices * CV_MATCH_PIECE_W * 4);
    s->wstat_at = at, at += cv_match_gpu_up((size_t)m->k * CV_MATCH_W * 4);
    s->maps_at = at, at += cv_match_gpu_up(2 * ng * plane * 4);
    s->tiles_at = at, at += cv_match_gpu_up(ng * plane * 4); /* of tiles that yield one output each, at most */
    s->mask_at = at, at += cv_match_gpu_up(words * 4);
    s->counts_at = at, at += cv_match_gpu_up((words + 1) * 4); /* a pool has a word at least */
    s->pieces_at = at, at += runs > 1 ? cv_match_gpu_up((size_t)runs * outputs * 4) : 0;
    s->inner_at = at;
    if (at > q->workspace_limit)
        return 0;
    s->inner_request = inner_request(q, runs);
    s->inner_request.workspace_limit = q->workspace_limit - at;
    return 1;
}

static const char *refuse(const cv_request *q, const cv_engine *e, char reason[CV_REASON_BYTES])
{
    cv_match_gpu m;
    char words[CV_REASON_BYTES];
    const cv_request inner = inner_request(q, 1);
    const char *declined = e->refuse(&inner, words); /* a constant, or text in words */
    if (!declined && !describe(q, 1, &m))
        return "its sizes exceed what the kernels that choose outputs can index";
    if (!declined)
        return NULL;
    snprintf(reason, CV_REASON_BYTES, "%s", declined);
    return reason;
}

static int candidates(const cv_request *q, const cv_engine *e, cv_candidate *list, int capacity)
{
    cv_match_gpu_state s;
    return lay_out(&s, q, 1) ? e->candidates(&s.inner_request, list, capacity) : 0;
}

/* The share of normal(0,1) outputs that are recomputed. allowed: what gpu_select.cu allows in units of 0.42 u n when an
 * output ends at zero and its path is known in one, two or four pieces; measured on problems B, C and D. */
static double unsafe_share(const cv_request *q, int runs)
{
    const double n = (double)(q->cg * q->p.r * q->p.s), pieces = runs == 1 ? 7.0 : runs == 2 ? 4.05 : 2.85;
    const double allowed = pieces * 0.4243 * 0x1p-24 * n, beyond = fmax(0.0, allowed - q->atol);
    return beyond == 0 ? 0 : q->rtol > 0 ? fmin(1.0, 0.8 * beyond / q->rtol / sqrt(n)) : 1.0;
}

static double seconds_of(const cv_match_gpu_state *s, int runs, double engine)
{
    const cv_request *q = &s->request;
    const cv_machine *g = q->machine;
    const double outputs = (double)q->p.n * (double)q->p.k * (double)q->P * (double)q->Q;
    const double bytes = 4 * (outputs * (runs > 1 ? 2 * runs + 1 : 1) + (double)q->p.n * q->p.c * q->p.h * q->p.w +
                              (double)q->p.k * q->cg * q->p.r * q->p.s);
    const double share = unsafe_share(q, runs), taps = (double)q->cg * q->p.r * q->p.s;
    /* Measured on an H200: a pool's round lasts 40 cycles a tap, whatever it holds, and a little for each output. The
     * fullest pool has a quarter more than the mean. */
    const double rounds = ceil(1.25 * share * outputs / ((double)g->sm_count * CV_SCATTER_CAP)),
                 peak = g->flop_per_s > 0 ? g->flop_per_s : 6e13, round = taps * 40 * g->sm_count * 256 / peak;
    const double chains = rounds * round + share * convoy_problem_flop(&q->p) / (0.35 * peak);
    return runs * engine + bytes / (0.7 * g->bytes_per_s) + 14e-6 + chains;
}

/* The cheapest number of runs that fits; 0 when there is none. Fills s and the prediction. */
static int choose_runs(cv_match_gpu_state *s, const cv_request *q, const cv_engine *e, const cv_candidate *candidate,
                       double *seconds, size_t *bytes)
{
    char reason[CV_REASON_BYTES];
    int best = 0;
    *seconds = HUGE_VAL;
    for (int runs = 1; runs <= CV_MATCH_RUNS; runs *= 2) {
        size_t inner = 0;
        if (runs > 1 && (q->p.groups > 1 || q->cg % runs || q->cg * q->p.r * q->p.s < long_chain))
            continue;
        if (!lay_out(s, q, runs) || e->refuse(&s->inner_request, reason))
            continue;
        const double engine = e->estimate(&s->inner_request, candidate, &inner);
        const double t = inner <= s->inner_request.workspace_limit ? seconds_of(s, runs, engine) : HUGE_VAL;
        if (t < *seconds) {
            best = runs;
            *seconds = t;
            *bytes = s->inner_at + cv_match_gpu_up(inner);
        }
    }
    return best && lay_out(s, q, best) ? best : 0;
}

static double estimate(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, size_t *workspace_bytes)
{
    cv_match_gpu_state s;
    double seconds;
    *workspace_bytes = SIZE_MAX;
    return choose_runs(&s, q, e, candidate, &seconds, workspace_bytes) ? seconds : HUGE_VAL;
}

static void destroy(void *p)
{
    cv_match_gpu_state *s = p;
    if (s->inner)
        s->engine->destroy(s->inner);
    cv_free(&s->request.machine->memory, s);
}

static convoy_status plan_scatter(cv_match_gpu_state *s)
{
    const cv_request *q = &s->request;
    const cv_machine *g = q->machine;
    const cv_chain_gpu gpu = {g->sm_count, g->gpu_shared_bytes, g->flop_per_s, g->bytes_per_s};
    cv_chain_shape shape;
    cv_chain_shape_of(&q->p, q->P, q->Q, &shape);
    if (q->prepared) { /* chains read the packed copy */
        const int64_t packed[4] = {q->cg * q->p.r * q->p.s, q->p.r * q->p.s, q->p.s, 1};
        memcpy(shape.ws, packed, sizeof packed);
    }
    if (cv_scatter_plan(&shape, &gpu, &s->scatter))
        return cv_fail(CONVOY_UNSUPPORTED,
                       "the match contract's chains do not fit this GPU's shared memory for %lldx%lld "
                       "kernels",
                       (long long)q->p.r, (long long)q->p.s);
    int e = cv_scatter_setup(&s->scatter);
    return cv_cuda_status(e ? e : cv_match_gpu_setup(), "setting up the match contract");
}

static convoy_status create(const cv_request *q, const cv_engine *e, const cv_candidate *candidate, void **out,
                            cv_needs *needs)
{
    double seconds;
    size_t bytes;
    *out = NULL;
    cv_match_gpu_state *s = cv_alloc(&q->machine->memory, sizeof *s);
    if (!s)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of the match contract");
    const int runs = choose_runs(s, q, e, candidate, &seconds, &bytes);
    if (!runs) {
        cv_free(&q->machine->memory, s);
        return cv_fail(CONVOY_INTERNAL, "engine %s no longer accepts a problem that it accepted", e->name);
    }
    s->engine = e;
    convoy_status status = plan_scatter(s);
    if (status == CONVOY_OK)
        status = e->create(&s->inner_request, candidate, &s->inner, &s->inner_needs);
    if (status != CONVOY_OK) {
        cv_free(&q->machine->memory, s);
        return status;
    }
    cv_match_gpu *m = &s->args;
    lay_tiles(q, s->inner_needs.tile_h, s->inner_needs.tile_w, m);
    m->overlap = s->scatter.overlap = q->machine->sm_major >= 9;
    memcpy(m->xs, q->p.x_stride, sizeof m->xs);
    memcpy(m->ws, q->p.w_stride, sizeof m->ws);
    memcpy(m->ys, q->p.y_stride, sizeof m->ys);
    needs->workspace_bytes = s->inner_at + cv_match_gpu_up(s->inner_needs.workspace_bytes);
    needs->prepare_bytes = cv_match_gpu_up(s->inner_needs.prepare_bytes) + (s->wstat_at - s->wslice_at);
    needs->bound_kind = 2;
    needs->tile_h = s->inner_needs.tile_h;
    needs->tile_w = s->inner_needs.tile_w;
    needs->weights_bytes = (size_t)runs * cv_match_gpu_up(s->inner_needs.weights_bytes) + (s->maps_at - s->wstat_at) +
                           sizeof(float) * (size_t)(q->p.k * q->cg * q->p.r * q->p.s);
    *out = s;
    return CONVOY_OK;
}

const cv_match cv_match_gpu_table = {
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = destroy,
    .prepare = cv_match_gpu_prepare,
    .execute = cv_match_gpu_execute,
};
