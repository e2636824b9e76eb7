/* ref: the readable loop nest, in double. The oracle of whole-tensor checks and the last resort.
 *
 *   y[n,k,p,q] = bias[k] + sum over c, r, s of x[...] * w[k,c,r,s]      accumulated in FP64, rounded once
 *
 * Accepts every problem. One task a row of outputs. */
#include "core/engine.h"

#include <string.h>

static const char *refuse(const cv_request *q, char *reason)
{
    (void)q, (void)reason;
    return NULL;
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    (void)q;
    if (capacity > 0)
        memset(list, 0, sizeof *list);
    return capacity > 0;
}

static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    (void)candidate;
    *workspace_bytes = 0;
    return (q->machine->threads > 1 ? 8e-6 : 0) + convoy_problem_flop(&q->p) / (1e9 * q->machine->threads);
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    (void)candidate;
    cv_request *copy = cv_alloc(&q->machine->memory, sizeof *copy);
    if (!(*state = copy))
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of engine ref");
    *copy = *q;
    needs->bound_factor = 1.0; /* one rounding of the FP64 sum, and that sum's own error far below it */
    return CONVOY_OK;
}

static void destroy(void *state)
{
    const cv_request *q = state;
    cv_free(&q->machine->memory, state);
}

struct run {
    const cv_request *q;
    const cv_exec *exec;
};

static double sum_one(const cv_request *q, const cv_exec *e, int64_t n, int64_t k, int64_t row, int64_t col)
{
    const convoy_problem *p = &q->p;
    double sum = 0;
    for (int64_t c = 0; c < q->cg; c++)
        for (int64_t r = 0; r < p->r; r++) {
            const int64_t i = row * p->stride_h + r * p->dil_h - p->pad_t;
            if (i < 0 || i >= p->h)
                continue;
            const float *x = e->x + n * p->x_stride[0] + (k / q->kg * q->cg + c) * p->x_stride[1] + i * p->x_stride[2];
            const float *w = e->w + k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2];
            for (int64_t s = 0; s < p->s; s++) {
                const int64_t j = col * p->stride_w + s * p->dil_w - p->pad_l;
                if (j >= 0 && j < p->w)
                    sum += (double)x[j * p->x_stride[3]] * (double)w[s * p->w_stride[3]];
            }
        }
    return e->bias ? sum + (double)e->bias[k] : sum;
}

static void one_row(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct run *run = user;
    const cv_request *q = run->q;
    const int64_t row = task % q->P, k = task / q->P % q->p.k, n = task / q->P / q->p.k;
    float *y = run->exec->y + n * q->p.y_stride[0] + k * q->p.y_stride[1] + row * q->p.y_stride[2];
    for (int64_t col = 0; col < q->Q; col++)
        y[col * q->p.y_stride[3]] = (float)sum_one(q, run->exec, n, k, row, col);
}

static convoy_status execute(const void *state, const cv_exec *exec)
{
    struct run run = {state, exec};
    cv_pool_run(run.q->machine->pool, run.q->p.n * run.q->p.k * run.q->P, one_row, &run);
    return CONVOY_OK;
}

const cv_engine cv_engine_ref = {
    .name = "ref",
    .about = "the readable loop nest in FP64: the oracle and the last resort",
    .revision = 1,
    .device = CONVOY_CPU,
    .traits = 0,
    .candidate_keys = "",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = destroy,
    .execute = execute,
};
