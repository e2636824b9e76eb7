/* Which outputs the tolerance covers, and the chain for the others. See match.h for the bound. */
#include "chain/chain.h"
#include "match.h"

#include <math.h>

/* Calibrated in tests/match: how many sigmas of the chain's error, how far the path may wander beyond its variance, and
 * how many u of the rms output of a tile the transform may be off by. */
static const double factor_one_run = 12.0, factor_more_runs = 8.0, spread = 2.0, transform_factor = 64.0;
static const double unit = 0x1p-24;

struct fold {
    const cv_match_state *m;
    const float *y;
    float *sums, *energy;
    int first;
};

static void fold_row(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct fold *f = user;
    const cv_request *q = &f->m->request;
    const int64_t row = task % q->P, k = task / q->P % q->p.k, n = task / q->P / q->p.k;
    const float *y = f->y + n * q->p.y_stride[0] + k * q->p.y_stride[1] + row * q->p.y_stride[2];
    float *sums = f->sums + task * q->Q, *energy = f->energy + task * q->Q;
    for (int64_t j = 0; j < q->Q; j++) {
        const float a = f->first ? 0.0f : sums[j], b = a + y[j * q->p.y_stride[3]];
        energy[j] = (f->first ? 0.0f : energy[j]) + (a * a + a * b + b * b) * (1.0f / 3.0f);
        sums[j] = b;
    }
}

void cv_match_fold(const cv_match_state *m, const float *y, float *sums, float *energy, int first)
{
    struct fold f = {m, y, sums, energy, first};
    cv_pool_run(m->request.machine->pool, m->request.p.n * m->request.p.k * m->request.P, fold_row, &f);
}

struct pick {
    const cv_match_state *m;
    const cv_exec *run;
    convoy_problem chain_problem; /* with the strides of the w that the chains read */
    cv_chain_io io;
    int64_t n;
    const float *sums, *energy;
    const cv_match_maps *maps;
    const cv_match_w *stats;
};

/* 1 when the tolerance covers what may separate value from the chain's result. NaN and Inf are never covered. */
static int safe(const struct pick *a, const cv_match_w *w, int64_t place, double path, double value, double bias)
{
    const cv_match_state *m = a->m;
    double bridge = 0;
    for (int b = 0; b < m->runs; b++)
        bridge += a->maps->root4[b][place] * w->root4[b];
    const double mean = a->maps->mean[place];
    const double energy = m->steps * (path + spread * bridge / 6.0) + 2.0 * mean * mean * w->prefix;
    const double chain = (m->runs > 1 ? factor_more_runs : factor_one_run) * unit * sqrt(0.18 * energy);
    const int th = m->inner_needs.tile_h > 0 ? m->inner_needs.tile_h : 8,
              tw = m->inner_needs.tile_w > 0 ? m->inner_needs.tile_w : 8;
    const double transform = transform_factor * unit * a->maps->norm[place] * w->norm / sqrt((double)th * tw);
    const double sum = fabs(value + bias);
    const double gap = chain + transform + 2.0 * unit * (fabs(value) + sum);
    return gap * (1.0 + m->request.rtol) <= m->request.atol + m->request.rtol * sum;
}

enum { LIST = 256 };

static void pick_row(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct pick *a = user;
    const cv_request *q = &a->m->request;
    const int64_t row = task % q->P, k = task / q->P, g = k / q->kg, at = (a->n * q->p.k + k) * q->P + row;
    float *y = a->run->y + a->n * q->p.y_stride[0] + k * q->p.y_stride[1] + row * q->p.y_stride[2];
    const float bias = a->run->bias ? a->run->bias[k] : 0.0f;
    int64_t index[LIST];
    int64_t count = 0, total = 0;
    for (int64_t j = 0; j < q->Q; j++) {
        float *to = y + j * q->p.y_stride[3];
        float value = *to;
        double path;
        if (a->m->runs > 1) {
            const float before = a->sums[at * q->Q + j];
            value = before + value;
            path = (double)a->energy[at * q->Q + j] +
                   ((double)before * before + (double)before * value + (double)value * value) / 3.0;
        } else {
            path = (double)value * value / 3.0;
        }
        *to = a->run->bias ? value + bias : value;
        if (safe(a, &a->stats[k], (g * q->P + row) * q->Q + j, path, value, bias))
            continue;
        total++;
        if (count == LIST) {
            cv_chain_list_run(q->machine->cpu.isa, &a->chain_problem, &a->io, count, index);
            count = 0;
        }
        index[count++] = at * q->Q + j;
    }
    if (total > q->Q / 3) { /* the chain in every lane is quicker than one by one */
        const cv_chain_box box = {a->n, a->n + 1, k, k + 1, row, row + 1, 0, q->Q};
        cv_chain_box_run(q->machine->cpu.isa, &a->chain_problem, &a->io, &box);
    } else if (count) {
        cv_chain_list_run(q->machine->cpu.isa, &a->chain_problem, &a->io, count, index);
    }
}

void cv_match_select(const cv_match_state *m, const cv_exec *run, const float *w, int64_t n, const float *sums,
                     const float *energy, const cv_match_maps *maps, const cv_match_w *stats)
{
    const cv_request *q = &m->request;
    struct pick a = {m, run, q->p, {run->x, w, run->bias, run->y}, n, sums, energy, maps, stats};
    if (run->weights) { /* w is the packed copy */
        a.chain_problem.w_stride[3] = 1;
        a.chain_problem.w_stride[2] = q->p.s;
        a.chain_problem.w_stride[1] = q->p.r * q->p.s;
        a.chain_problem.w_stride[0] = q->cg * q->p.r * q->p.s;
        a.chain_problem.strided = 1;
    }
    cv_pool_run(q->machine->pool, q->p.k * q->P, pick_row, &a);
}
