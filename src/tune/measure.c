/* Timing one plan by the rules of docs/benchmarking.md: fresh normal(0,1) data, cold caches, medians.
 *
 * CPU: x, w, y rotate over enough sets of buffers that together exceed twice the L2 of all threads, so that no run finds its
 * tensors there; L3 is left alone. GPU: the device's timer overwrites L2 before each run. */
#include "measure.h"
#include "noise.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SETS = 16, MOST_RUNS = 101 };

struct buffers {
    const cv_machine *m;
    convoy_weights *weights;
    float *bias;
    void *workspace;
    size_t workspace_bytes;
    int sets;
    float *x[MOST_SETS], *w[MOST_SETS], *y[MOST_SETS];
    void *timer;
};

struct call {
    const convoy_plan *plan;
    convoy_args args;
};

/* Floats from a tensor's first address to past its last, and how far its element 0 lies from the first. */
void cv_tensor_extent(const int64_t size[4], const int64_t stride[4], int64_t *floats, int64_t *origin)
{
    int64_t low = 0, high = 0;
    for (int d = 0; d < 4; d++) {
        const int64_t reach = (size[d] - 1) * stride[d];
        *(reach < 0 ? &low : &high) += reach;
    }
    *floats = high - low + 1;
    *origin = -low;
}

static convoy_status device_noise(const cv_machine *m, int64_t floats, uint64_t seed, float **out)
{
    convoy_status status = m->ops->alloc(m, (size_t)floats * sizeof(float), (void **)out);
    if (status != CONVOY_OK)
        return status;
    if (m->device == CONVOY_CPU) {
        cv_noise_fill(m->pool, *out, floats, seed);
        return CONVOY_OK;
    }
    float *host = cv_alloc(&m->memory, (size_t)floats * sizeof(float));
    if (!host)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: %lld floats of test data", (long long)floats);
    cv_noise_fill(m->pool, host, floats, seed);
    status = m->ops->copy(m, *out, host, (size_t)floats * sizeof(float), CONVOY_TO_DEVICE, NULL);
    cv_free(&m->memory, host);
    return status;
}

static void release(struct buffers *b)
{
    for (int i = 0; i < b->sets; i++) {
        b->m->ops->free(b->m, b->x[i]);
        b->m->ops->free(b->m, b->w[i]);
        b->m->ops->free(b->m, b->y[i]);
    }
    b->m->ops->free(b->m, b->bias);
    b->m->ops->free(b->m, b->workspace);
    convoy_weights_destroy(b->weights);
    if (b->timer)
        b->m->ops->timer_destroy(b->m, b->timer);
}

static convoy_status acquire(const convoy_plan *plan, struct buffers *b)
{
    const cv_request *q = &plan->request;
    const convoy_problem *p = &q->p;
    const cv_machine *m = b->m;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ws[4] = {p->k, q->cg, p->r, p->s}, ys[4] = {p->n, p->k, q->P, q->Q};
    int64_t nx, nw, ny, ox, ow, oy;
    cv_tensor_extent(xs, p->x_stride, &nx, &ox);
    cv_tensor_extent(ws, p->w_stride, &nw, &ow);
    cv_tensor_extent(ys, p->y_stride, &ny, &oy);
    int sets = 1;
    if (m->device == CONVOY_CPU) {
        const double want = 2.0 * (double)m->cpu.l2_bytes * m->threads / (4.0 * (double)(nx + nw + ny));
        sets = want > MOST_SETS - 1 ? MOST_SETS : 1 + (int)want;
    }
    convoy_status status = m->ops->timer_create(m, &b->timer);
    for (int i = 0; i < sets && status == CONVOY_OK; i++) {
        b->sets = i + 1;
        status = device_noise(m, nx, (uint64_t)(3 * i + 1), &b->x[i]);
        if (status == CONVOY_OK)
            status = device_noise(m, nw, (uint64_t)(3 * i + 2), &b->w[i]);
        if (status == CONVOY_OK)
            status = m->ops->alloc(m, (size_t)ny * sizeof(float), (void **)&b->y[i]);
    }
    if (status == CONVOY_OK && q->bias)
        status = device_noise(m, p->k, 7, &b->bias);
    b->workspace_bytes = convoy_plan_workspace_bytes(plan);
    if (status == CONVOY_OK && b->workspace_bytes)
        status = m->ops->alloc(m, b->workspace_bytes, &b->workspace);
    if (status == CONVOY_OK && q->prepared)
        status = convoy_weights_create(plan, b->w[0] + ow, NULL, &b->weights);
    return status;
}

static convoy_status run_once(void *user)
{
    struct call *call = user;
    return convoy_execute(call->plan, &call->args);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static convoy_status time_runs(const convoy_plan *plan, struct buffers *b, double limit_s, convoy_timing *timing)
{
    const cv_machine *m = b->m;
    const convoy_problem *p = &plan->request.p;
    const cv_request *q = &plan->request;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ws[4] = {p->k, q->cg, p->r, p->s}, ys[4] = {p->n, p->k, q->P, q->Q};
    int64_t unused, ox, ow, oy;
    cv_tensor_extent(xs, p->x_stride, &unused, &ox);
    cv_tensor_extent(ws, p->w_stride, &unused, &ow);
    cv_tensor_extent(ys, p->y_stride, &unused, &oy);
    const int least = m->device == CONVOY_CPU ? 5 : 20, warm = 2;
    double seconds[MOST_RUNS], first = cv_now_s();
    int runs = 0;
    for (int i = 0; runs < MOST_RUNS; i++) {
        const int set = i % b->sets;
        struct call call = {plan, {.struct_bytes = sizeof(convoy_args), .x = b->x[set] + ox, .y = b->y[set] + oy, .bias = b->bias,
                                   .workspace = b->workspace, .workspace_bytes = b->workspace_bytes}};
        call.args.w = q->prepared ? NULL : b->w[set] + ow;
        call.args.weights = b->weights;
        double s;
        convoy_status status = m->ops->timer_run(m, b->timer, run_once, &call, &s);
        if (status != CONVOY_OK)
            return status;
        const double spent = cv_now_s() - first;
        if (i < warm && spent < limit_s) {
            if (i == warm - 1)
                first = cv_now_s();
            continue;
        }
        seconds[runs++] = s;
        if ((spent > limit_s && runs >= least) || spent > 10 * limit_s)
            break;
    }
    qsort(seconds, (size_t)runs, sizeof *seconds, ascending);
    timing->runs = runs;
    timing->median_s = runs % 2 ? seconds[runs / 2] : 0.5 * (seconds[runs / 2 - 1] + seconds[runs / 2]);
    timing->p10_s = seconds[(runs - 1) / 10];
    timing->p90_s = seconds[(9 * (runs - 1) + 9) / 10];
    return CONVOY_OK;
}

convoy_status cv_measure(const convoy_plan *plan, double time_limit_s, convoy_timing *timing)
{
    struct buffers b = {.m = &plan->shared->machine};
    memset(timing, 0, sizeof *timing);
    if (plan->empty)
        return CONVOY_OK;
    convoy_status status = b.m->ops->bind(b.m);
    if (status == CONVOY_OK)
        status = acquire(plan, &b);
    if (status == CONVOY_OK)
        status = time_runs(plan, &b, time_limit_s > 0 ? time_limit_s : 1.0, timing);
    release(&b);
    return status;
}
