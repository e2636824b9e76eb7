/* Which outputs the tolerance covers, and the chain for the others. See match.h for the bound. */
#include "chain/chain.h"
#include "match.h"

#include <math.h>

/* Checked by tests/conv/test_match.c: how many sigmas of the chain's error, how far the path may wander beyond its
 * variance, and how many u of the rms output of a tile the transform may be off by. */
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

/* Columns judged at a time. The tests are branch-free loops over doubles, so that the compiler makes vectors of them.
 */
enum { COLUMNS = 64 };

struct block {
    int64_t columns, place; /* in the maps */
    double value[COLUMNS], path[COLUMNS], bridge[COLUMNS];
    unsigned char unsafe[COLUMNS];
};

/* unsafe[j]: the tolerance does not cover what may separate value + bias from the chain's result,
 *
 *   (chain + transform + 2u (|value| + |sum|)) (1 + rtol) > atol + rtol |sum| .
 *
 * The chain's part is compared squared, which spares the root. NaN and Inf are never covered. */
static void judge(const struct pick *a, const cv_match_w *w, double bias, struct block *b)
{
    const cv_match_state *m = a->m;
    const int th = m->inner_needs.tile_h > 0 ? m->inner_needs.tile_h : 8,
              tw = m->inner_needs.tile_w > 0 ? m->inner_needs.tile_w : 8;
    const double factor = (m->runs > 1 ? factor_more_runs : factor_one_run) * unit, square = 0.18 * factor * factor;
    const double rtol = m->request.rtol / (1.0 + m->request.rtol), atol = m->request.atol / (1.0 + m->request.rtol);
    const double transform = transform_factor * unit * w->norm / sqrt((double)th * tw), prefix = 2.0 * w->prefix;
    const double *mean = a->maps->mean + b->place, *norm = a->maps->norm + b->place;
    for (int64_t j = 0; j < b->columns; j++)
        b->bridge[j] = 0;
    for (int r = 0; r < m->runs; r++) {
        const double *x = a->maps->root4[r] + b->place, root = w->root4[r] * spread / 6.0;
        for (int64_t j = 0; j < b->columns; j++)
            b->bridge[j] += x[j] * root;
    }
    for (int64_t j = 0; j < b->columns; j++) {
        const double energy = m->steps * (b->path[j] + b->bridge[j]) + mean[j] * mean[j] * prefix;
        const double sum = fabs(b->value[j] + bias);
        const double room = atol + rtol * sum - transform * norm[j] - 2.0 * unit * (fabs(b->value[j]) + sum);
        b->unsafe[j] = !((room >= 0) & (square * energy <= room * room));
    }
}

/* Rows of one output channel a task, and unsafe outputs gathered before the chains run: outputs of one channel share w,
 * so the list kernel runs many of their chains at once. */
enum { ROWS = 64, LIST = 1024 };

struct list {
    int64_t count, index[LIST];
};

static void flush(const struct pick *a, struct list *list)
{
    if (list->count)
        cv_chain_list_run(a->m->request.machine->cpu.isa, &a->chain_problem, &a->io, list->count, list->index);
    list->count = 0;
}

/* The transform's sums of one block of a row, with the path's energy as far as it is known; y gets sum + bias. */
static void gather(const struct pick *a, float *y, int64_t step, int64_t at, float bias, struct block *b)
{
    const float *before = a->sums + at, *energy = a->energy + at;
    for (int64_t j = 0; j < b->columns; j++) {
        float value = y[j * step];
        if (a->m->runs > 1) {
            const double p = before[j];
            value = before[j] + value;
            b->path[j] = energy[j] + (p * p + p * value + (double)value * value) / 3.0;
        } else {
            b->path[j] = (double)value * value / 3.0;
        }
        b->value[j] = value;
        y[j * step] = a->run->bias ? value + bias : value;
    }
}

/* Finishes one row: unsafe outputs go to the list, or the whole row to the chain at once when they are many. */
static void pick_row(const struct pick *a, int64_t k, int64_t row, struct list *list)
{
    const cv_request *q = &a->m->request;
    const int64_t g = k / q->kg, at = ((a->n * q->p.k + k) * q->P + row) * q->Q, step = q->p.y_stride[3];
    float *y = a->run->y + a->n * q->p.y_stride[0] + k * q->p.y_stride[1] + row * q->p.y_stride[2];
    const float bias = a->run->bias ? a->run->bias[k] : 0.0f;
    int64_t total = 0, listed = 0;
    for (int64_t from = 0; from < q->Q; from += COLUMNS) {
        struct block b = {.columns = q->Q - from < COLUMNS ? q->Q - from : COLUMNS,
                          .place = (g * q->P + row) * q->Q + from};
        gather(a, y + from * step, step, at + from, bias, &b);
        judge(a, &a->stats[k], bias, &b);
        for (int64_t j = 0; j < b.columns; j++) {
            if (!b.unsafe[j] || ++total > q->Q / 3)
                continue; /* a row with so many is lost to the list; the rest of it is still summed */
            if (list->count == LIST) {
                flush(a, list);
                listed = 0;
            }
            list->index[list->count++] = at + from + j;
            listed++;
        }
    }
    if (total > q->Q / 3) {
        const cv_chain_box box = {a->n, a->n + 1, k, k + 1, row, row + 1, 0, q->Q};
        cv_chain_box_run(q->machine->cpu.isa, &a->chain_problem, &a->io, &box);
        list->count -= listed; /* this row's; those flushed before had the same bits */
    }
}

static void pick_rows(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct pick *a = user;
    const int64_t P = a->m->request.P, chunks = (P + ROWS - 1) / ROWS, k = task / chunks, from = task % chunks * ROWS;
    struct list list = {.count = 0};
    for (int64_t row = from; row < from + ROWS && row < P; row++)
        pick_row(a, k, row, &list);
    flush(a, &list);
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
    cv_pool_run(q->machine->pool, q->p.k * ((q->P + ROWS - 1) / ROWS), pick_rows, &a);
}
