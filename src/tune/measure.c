/* CPU: x, w, y rotate over enough sets of buffers that together exceed twice the L2 of all threads, so that no run
 * finds its tensors there; L3 is left alone. GPU: the device's timer overwrites L2 before each run. */
#include "measure.h"
#include "noise.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SETS = 16, MOST_RUNS = 101 };

struct cv_bench {
    const cv_machine *m;
    const cv_request *request;
    void *timer;
    float *bias;
    void *workspace;
    size_t workspace_bytes;
    int64_t x_origin, w_origin, y_origin;
    int sets, next;
    float *x[MOST_SETS], *w[MOST_SETS], *y[MOST_SETS];
};

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

/* Every page of y is touched here rather than in the first timed run. */
static convoy_status blank(const cv_machine *m, int64_t floats, float **out)
{
    convoy_status status = m->ops->alloc(m, (size_t)floats * sizeof(float), (void **)out);
    if (status == CONVOY_OK && m->device == CONVOY_CPU)
        memset(*out, 0, (size_t)floats * sizeof(float));
    return status;
}

static convoy_status fill(cv_bench *b)
{
    const cv_request *q = b->request;
    const convoy_problem *p = &q->p;
    const cv_machine *m = b->m;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ws[4] = {p->k, q->cg, p->r, p->s}, ys[4] = {p->n, p->k, q->P, q->Q};
    int64_t nx, nw, ny;
    cv_tensor_extent(xs, p->x_stride, &nx, &b->x_origin);
    cv_tensor_extent(ws, p->w_stride, &nw, &b->w_origin);
    cv_tensor_extent(ys, p->y_stride, &ny, &b->y_origin);
    int sets = 1;
    if (m->device == CONVOY_CPU) {
        const double want = 2.0 * (double)m->cpu.l2_bytes * m->threads / (4.0 * (double)(nx + nw + ny));
        sets = want > MOST_SETS - 1 ? MOST_SETS : 1 + (int)want;
    }
    convoy_status status = m->ops->bind(m);
    if (status == CONVOY_OK)
        status = m->ops->timer_create(m, &b->timer);
    for (; b->sets < sets && status == CONVOY_OK; b->sets++) {
        const int i = b->sets;
        status = device_noise(m, nx, (uint64_t)(3 * i + 1), &b->x[i]);
        if (status == CONVOY_OK)
            status = device_noise(m, nw, (uint64_t)(3 * i + 2), &b->w[i]);
        if (status == CONVOY_OK)
            status = blank(m, ny, &b->y[i]);
    }
    if (status == CONVOY_OK && q->bias)
        status = device_noise(m, p->k, 7, &b->bias);
    return status;
}

convoy_status cv_bench_open(const cv_request *request, cv_bench **bench)
{
    cv_bench *b = cv_alloc(&request->machine->memory, sizeof *b);
    *bench = NULL;
    if (!b)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a timer");
    memset(b, 0, sizeof *b);
    b->m = request->machine;
    b->request = request;
    convoy_status status = fill(b);
    if (status == CONVOY_OK)
        *bench = b;
    else
        cv_bench_close(b);
    return status;
}

void cv_bench_close(cv_bench *b)
{
    if (!b)
        return;
    for (int i = 0; i < MOST_SETS; i++) {
        b->m->ops->free(b->m, b->x[i]);
        b->m->ops->free(b->m, b->w[i]);
        b->m->ops->free(b->m, b->y[i]);
    }
    b->m->ops->free(b->m, b->bias);
    b->m->ops->free(b->m, b->workspace);
    if (b->timer)
        b->m->ops->timer_destroy(b->m, b->timer);
    cv_free(&b->m->memory, b);
}

convoy_status cv_bench_prepare(cv_bench *b, const convoy_plan *plan, convoy_weights **weights)
{
    *weights = NULL;
    return b->request->prepared ? convoy_weights_create(plan, b->w[0] + b->w_origin, NULL, weights) : CONVOY_OK;
}

static convoy_status reserve(cv_bench *b, size_t bytes)
{
    if (bytes <= b->workspace_bytes)
        return CONVOY_OK;
    b->m->ops->free(b->m, b->workspace);
    b->workspace = NULL;
    b->workspace_bytes = 0;
    convoy_status status = b->m->ops->alloc(b->m, bytes, &b->workspace);
    if (status != CONVOY_OK)
        return status;
    b->workspace_bytes = bytes;
    if (b->m->device == CONVOY_CPU)
        memset(b->workspace, 0, bytes); /* its pages too are the caller's affair */
    return CONVOY_OK;
}

struct call {
    const convoy_plan *plan;
    convoy_args args;
};

static convoy_status run_once(void *user)
{
    struct call *call = user;
    return convoy_execute(call->plan, &call->args);
}

convoy_status cv_bench_run(cv_bench *b, const convoy_plan *plan, const convoy_weights *weights, double *seconds)
{
    convoy_status status = reserve(b, convoy_plan_workspace_bytes(plan));
    if (status != CONVOY_OK)
        return status;
    const int set = b->next++ % b->sets;
    struct call call = {plan,
                        {.struct_bytes = sizeof(convoy_args),
                         .bias = b->bias,
                         .weights = weights,
                         .workspace = b->workspace,
                         .workspace_bytes = b->workspace_bytes}};
    call.args.x = b->x[set] + b->x_origin;
    call.args.w = weights ? NULL : b->w[set] + b->w_origin;
    call.args.y = b->y[set] + b->y_origin;
    return b->m->ops->timer_run(b->m, b->timer, run_once, &call, seconds);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void cv_timing_of(double *seconds, int runs, convoy_timing *timing)
{
    memset(timing, 0, sizeof *timing);
    if (runs < 1)
        return;
    qsort(seconds, (size_t)runs, sizeof *seconds, ascending);
    timing->runs = runs;
    timing->median_s = runs % 2 ? seconds[runs / 2] : 0.5 * (seconds[runs / 2 - 1] + seconds[runs / 2]);
    timing->p10_s = seconds[(runs - 1) / 10];
    timing->p90_s = seconds[(9 * (runs - 1) + 9) / 10];
}

static convoy_status time_runs(cv_bench *b, const convoy_plan *plan, const convoy_weights *weights, double limit_s,
                               convoy_timing *timing)
{
    const int least = b->m->device == CONVOY_CPU ? 5 : 20, warm = 2;
    double seconds[MOST_RUNS], from = cv_now_s();
    int runs = 0;
    for (int i = 0; runs < MOST_RUNS; i++) {
        double s;
        convoy_status status = cv_bench_run(b, plan, weights, &s);
        if (status != CONVOY_OK)
            return status;
        const double spent = cv_now_s() - from;
        if (i < warm && spent < limit_s) {
            if (i == warm - 1)
                from = cv_now_s();
            continue;
        }
        seconds[runs++] = s;
        if ((spent > limit_s && runs >= least) || spent > 10 * limit_s)
            break;
    }
    cv_timing_of(seconds, runs, timing);
    return CONVOY_OK;
}

convoy_status cv_measure(const convoy_plan *plan, double time_limit_s, convoy_timing *timing)
{
    cv_bench *bench;
    convoy_weights *weights = NULL;
    memset(timing, 0, sizeof *timing);
    if (plan->empty)
        return CONVOY_OK;
    convoy_status status = cv_bench_open(&plan->request, &bench);
    if (status != CONVOY_OK)
        return status;
    status = cv_bench_prepare(bench, plan, &weights);
    if (status == CONVOY_OK)
        status = time_runs(bench, plan, weights, time_limit_s > 0 ? time_limit_s : 1.0, timing);
    convoy_weights_destroy(weights);
    cv_bench_close(bench);
    return status;
}
