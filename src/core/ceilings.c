/* The CPU's two ceilings, measured: FMA rate with the widest allowed vectors, and copy bandwidth. */
#include "device_cpu.h"
#include "simd/fma_rate.h"
#include "platform/memory.h"
#include "platform/status.h"

#include <string.h>

typedef float (*cv_fma_fn)(int64_t rounds);

struct job {
    cv_fma_fn fma;
    int64_t rounds;
    float *from, *to;
    size_t slice;
    _Atomic float sink; /* keeps the sums alive */
};

static void burn(void *user, int64_t task, int thread)
{
    (void)task, (void)thread;
    struct job *job = user;
    job->sink = job->fma(job->rounds);
}

static void move(void *user, int64_t task, int thread)
{
    (void)thread;
    struct job *job = user;
    memcpy(job->to + (size_t)task * job->slice, job->from + (size_t)task * job->slice, job->slice * sizeof(float));
}

/* The best of several runs: a ceiling is what the machine can do when nobody disturbs it. */
static double best_s(const cv_machine *m, cv_work_fn work, struct job *job, int64_t tasks, int runs)
{
    double best = 1e30;
    for (int i = 0; i < runs; i++) {
        double from = cv_now_s();
        cv_pool_run(m->pool, tasks, work, job);
        double s = cv_now_s() - from;
        best = s < best ? s : best;
    }
    return best;
}

convoy_status cv_cpu_ceilings(const cv_machine *m, double *flop_per_s, double *bytes_per_s)
{
    static const cv_fma_fn fma[] = {cv_fma_scalar, cv_fma_avx2, cv_fma_avx512};
    static const int lanes[] = {1, 8, 16};
    const size_t floats = (size_t)32 << 20; /* 128 MiB each way: beyond any cache here */
    struct job job = {
        .fma = fma[m->cpu.isa], .rounds = m->cpu.isa == CV_SCALAR ? 200000 : 1000000, .slice = floats / 64};
    float *block = cv_alloc(&m->memory, 2 * floats * sizeof(float));
    if (!block)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: %zu bytes to measure the memory's bandwidth",
                       2 * floats * sizeof(float));
    memset(block, 1, 2 * floats * sizeof(float));
    job.from = block;
    job.to = block + floats;
    cv_pool_run(m->pool, m->threads, burn, &job); /* wakes the workers and the clock */
    *flop_per_s = 2.0 * CV_FMA_CHAINS * lanes[m->cpu.isa] * (double)job.rounds * m->threads /
                  best_s(m, burn, &job, m->threads, 5);
    *bytes_per_s = 2.0 * (double)(floats * sizeof(float)) / best_s(m, move, &job, 64, 5);
    cv_free(&m->memory, block);
    return CONVOY_OK;
}
