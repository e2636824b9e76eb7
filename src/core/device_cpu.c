/* The host as a device: memory, clocks, ceilings. */
#include "device_cpu.h"
#include "platform/memory.h"
#include "platform/status.h"

#include <math.h>
#include <string.h>

static convoy_status probe(int index, cv_machine *m)
{
    /* Nominal rates a thread, for ranking only: what current server cores do with each instruction set. */
    static const double flop_per_s[] = {2e9, 60e9, 110e9};
    if (index != 0)
        return cv_fail(CONVOY_INVALID, "device_index is %d: expected 0, the only CPU device", index);
    m->device = CONVOY_CPU;
    m->device_index = 0;
    m->ops = &cv_device_cpu;
    m->flop_per_s = flop_per_s[m->cpu.isa] * m->threads;
    m->bytes_per_s = 11e9 * (m->threads < 4 ? m->threads : 4);
    return CONVOY_OK;
}

static convoy_status bind(const cv_machine *m)
{
    (void)m;
    return CONVOY_OK;
}

static int current(void) { return 0; }

static void restore(int index) { (void)index; }

static convoy_status host_alloc(const cv_machine *m, size_t bytes, void **memory)
{
    *memory = cv_alloc(&m->memory, bytes ? bytes : 1);
    return *memory ? CONVOY_OK : cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: %zu bytes", bytes);
}

static void host_free(const cv_machine *m, void *memory) { cv_free(&m->memory, memory); }

static convoy_status copy(const cv_machine *m, void *to, const void *from, size_t bytes, convoy_copy kind, void *stream)
{
    (void)m, (void)kind, (void)stream;
    if (bytes)
        memcpy(to, from, bytes);
    return CONVOY_OK;
}

static convoy_status synchronize(const cv_machine *m, void *stream)
{
    (void)m, (void)stream;
    return CONVOY_OK;
}

static convoy_status fill_bias(const cv_machine *m, const convoy_problem *p, const float *bias, float *y, void *stream)
{
    (void)m, (void)stream;
    int64_t P, Q;
    if (convoy_problem_output(p, &P, &Q) != CONVOY_OK)
        return CONVOY_INVALID;
    const int64_t *step = p->y_stride;
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t k = 0; k < p->k; k++)
            for (int64_t i = 0; i < P; i++)
                for (int64_t j = 0; j < Q; j++)
                    y[n * step[0] + k * step[1] + i * step[2] + j * step[3]] = bias ? bias[k] : 0.0f;
    return CONVOY_OK;
}

/* The tuner rotates buffers, so the timer itself has only the clock to read. */
static convoy_status timer_create(const cv_machine *m, void **timer)
{
    (void)m;
    *timer = NULL;
    return CONVOY_OK;
}

static void timer_destroy(const cv_machine *m, void *timer) { (void)m, (void)timer; }

static convoy_status timer_run(const cv_machine *m, void *timer, cv_timed_fn call, void *user, double *seconds)
{
    (void)m, (void)timer;
    double from = cv_now_s();
    convoy_status status = call(user);
    *seconds = cv_now_s() - from;
    return status;
}

/* ---- FP64 sums of chosen outputs */

struct sums {
    const convoy_problem *p;
    int64_t P, Q;
    const float *x, *w, *bias;
    const int64_t *index;
    double *values, *norms;
};

static void sum_one(void *user, int64_t i, int thread)
{
    (void)thread;
    const struct sums *a = user;
    const convoy_problem *p = a->p;
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups;
    int64_t rest = a->index[i];
    const int64_t q = rest % a->Q, prow = (rest /= a->Q) % a->P, k = (rest /= a->P) % p->k, n = rest / p->k;
    double sum = 0, norm = 0;
    for (int64_t c = 0; c < cg; c++)
        for (int64_t r = 0; r < p->r; r++) {
            const int64_t row = prow * p->stride_h + r * p->dil_h - p->pad_t;
            if (row < 0 || row >= p->h)
                continue;
            const float *xs = a->x + n * p->x_stride[0] + (k / kg * cg + c) * p->x_stride[1] + row * p->x_stride[2];
            const float *ws = a->w + k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2];
            for (int64_t s = 0; s < p->s; s++) {
                const int64_t col = q * p->stride_w + s * p->dil_w - p->pad_l;
                if (col < 0 || col >= p->w)
                    continue;
                const double product = (double)xs[col * p->x_stride[3]] * (double)ws[s * p->w_stride[3]];
                sum += product;
                norm += fabs(product);
            }
        }
    const double b = a->bias ? (double)a->bias[k] : 0.0;
    a->values[i] = sum + b;
    if (a->norms)
        a->norms[i] = norm + fabs(b);
}

static convoy_status reference(const cv_machine *m, const convoy_problem *p, const float *x, const float *w,
                               const float *bias, int64_t count, const int64_t *index, double *values, double *norms)
{
    struct sums a = {p, 0, 0, x, w, bias, index, values, norms};
    convoy_status status = convoy_problem_output(p, &a.P, &a.Q);
    if (status == CONVOY_OK)
        cv_pool_run(m->pool, count, sum_one, &a);
    return status;
}

static void versions(const cv_machine *m, char *text, size_t bytes)
{
    (void)m;
    if (bytes)
        text[0] = 0;
}

const cv_device_ops cv_device_cpu = {
    .device = CONVOY_CPU,
    .name = "cpu",
    .probe = probe,
    .bind = bind,
    .current = current,
    .restore = restore,
    .alloc = host_alloc,
    .free = host_free,
    .copy = copy,
    .synchronize = synchronize,
    .fill_bias = fill_bias,
    .timer_create = timer_create,
    .timer_destroy = timer_destroy,
    .timer_run = timer_run,
    .ceilings = cv_cpu_ceilings,
    .reference = reference,
    .versions = versions,
};
