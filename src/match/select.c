/* Which outputs the tolerance covers. A task is a band of output rows of one image and group, all of its channels. See
 * match.h for the bound. */
#include "kernels.h"
#include "match.h"
#include "rule.h"

#include <math.h>
#include <string.h>

/* The larger; NaN, once met, for good. */
static double worse(double a, double b) { return a != a || b <= a ? a : b; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

struct fold {
    const cv_match_call *call;
    int first;
};

static void fold_row(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct fold *f = user;
    const cv_request *q = &f->call->m->request;
    const int64_t row = task % q->P, k = task / q->P % q->p.k, n = task / q->P / q->p.k;
    const float *y = f->call->run->y + n * q->p.y_stride[0] + k * q->p.y_stride[1] + row * q->p.y_stride[2];
    cv_match_kernels_of(q->machine->cpu.isa)
        ->fold(f->call->sums + task * q->Q, f->call->energy + task * q->Q, y, q->p.y_stride[3], q->Q, f->first);
}

void cv_match_fold(const cv_match_call *call, int first)
{
    const cv_request *q = &call->m->request;
    struct fold f = {call, first};
    cv_pool_run(q->machine->pool, q->p.n * q->p.k * q->P, fold_row, &f);
}

/* One thread's place for a band: sums over rows and columns of windows, and blocks of them. */
struct band {
    const cv_match_call *call;
    const cv_match_kernels *kernels;
    struct rule rule;
    int64_t n, g, p0, p1;
    float *plane[CV_MATCH_RUNS + 1]; /* x^4 by pieces, x: (rows, padded_w) */
    float *sum;                      /* (starts, padded_w) */
    struct sums *block;              /* of the four rows at hand, a block of columns each */
    float *top[CV_MATCH_RUNS + 1];   /* largest window sums of those rows, by columns */
    double *bound;
};

size_t cv_match_scratch(const cv_match_state *m)
{
    const size_t starts = (size_t)(cv_match_rows(m, CV_MATCH_BAND) - m->reach_h + 1), pitch = (size_t)m->padded_w;
    const size_t planes = ((size_t)(m->runs + 1) * ((size_t)cv_match_rows(m, CV_MATCH_BAND) + 1) + starts) * pitch;
    const size_t blocks = (size_t)m->words * (sizeof(struct sums) + sizeof(double));
    const size_t cells = 3 * sizeof(float) * CV_MATCH_CELL * (size_t)m->cells_w,
                 grid = sizeof(double) * (size_t)(m->cells_h * m->grid_w);
    const size_t judging = planes * sizeof(float) + blocks + 256, summing = cells > grid ? cells : grid;
    return (judging > summing ? judging : summing) + 64;
}

static void place_band(struct band *b, char *scratch)
{
    const cv_match_state *m = b->call->m;
    const int64_t rows = cv_match_rows(m, CV_MATCH_BAND);
    b->block = (struct sums *)scratch;
    b->bound = (double *)(b->block + m->words);
    float *at = (float *)(b->bound + m->words);
    for (int i = 0; i <= m->runs; i++, at += m->padded_w)
        b->top[i] = at;
    for (int i = 0; i <= m->runs; i++, at += rows * m->padded_w)
        b->plane[i] = at;
    b->sum = at;
}

/* The power of two that brings the image's largest magnitude near 1, so that fourth powers neither overflow nor vanish;
 * 1 where there is NaN or Inf. */
static float scale_of(const struct band *b)
{
    const cv_match_state *m = b->call->m;
    const int64_t count = m->cells_h * m->cells_w, pitch = m->runs + 2;
    const float *cell = b->call->cells + (b->n * m->request.p.groups + b->g) * count * pitch + m->runs + 1;
    float top = 0;
    for (int64_t i = 0; i < count; i++)
        top = (float)worse(top, cell[i * pitch]);
    int exponent = 0;
    if (!(top < HUGE_VALF) || top == 0)
        return 1.0f;
    frexpf(top, &exponent);
    return ldexpf(1.0f, exponent < -120 ? 120 : -exponent);
}

/* Powers of x's rows that the band's windows read, with zeros where they leave the image. */
static void fill_planes(struct band *b, float scale)
{
    const cv_match_state *m = b->call->m;
    const cv_request *q = &m->request;
    const convoy_problem *p = &q->p;
    const int64_t rows = cv_match_rows(m, b->p1 - b->p0), piece = q->cg / m->runs;
    for (int i = 0; i <= m->runs; i++)
        memset(b->plane[i], 0, sizeof(float) * (size_t)(rows * m->padded_w));
    for (int64_t c = 0; c < q->cg; c++)
        for (int64_t i = 0; i < rows; i++) {
            const int64_t row = b->p0 * p->stride_h - p->pad_t + i, at = i * m->padded_w + p->pad_l;
            if (row < 0 || row >= p->h)
                continue;
            const float *x =
                b->call->run->x + b->n * p->x_stride[0] + (b->g * q->cg + c) * p->x_stride[1] + row * p->x_stride[2];
            b->kernels->powers(x, p->x_stride[3], p->w, scale, b->plane[m->runs] + at, b->plane[c / piece] + at);
        }
}

/* to[i] = sum over t < taps of from[i + t * dil], a row of `width` each (or a single value); from is spoilt. Sums of 1,
 * 2, 4, ... taps follow one another in place. */
static void window_sums(const struct band *b, float *from, float *to, int64_t inputs, int64_t outputs, int64_t taps,
                        int64_t dil, int64_t width)
{
    int64_t done = 0, length = inputs;
    memset(to, 0, sizeof(float) * (size_t)(outputs * width));
    for (int64_t some = 1;; some *= 2) { /* from[i] holds `some` taps */
        if (taps & some) {
            b->kernels->add(to, to, from + done * dil * width, outputs * width);
            done += some;
        }
        if (done == taps)
            return;
        length -= some * dil;
        b->kernels->add(from, from, from + some * dil * width, length * width);
    }
}

/* The largest tile around windows that start in rows [i0, i1] and columns [j0, j1] of the image. */
static double largest_tile(const struct band *b, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    const cv_match_state *m = b->call->m;
    const cv_match_cell *grid = b->call->grid + (b->n * m->request.p.groups + b->g) * m->grid_h * m->grid_w;
    double most = 0;
    for (int64_t i = cv_match_cell_of(i0) - m->start_h; i <= cv_match_cell_of(i1) - m->start_h; i++)
        for (int64_t j = cv_match_cell_of(j0) - m->start_w; j <= cv_match_cell_of(j1) - m->start_w; j++) {
            most = worse(most, grid[i * m->grid_w + j].tile);
        }
    return most;
}

/* The worst of rows [row, end) of outputs, by blocks of columns. */
static void fill_blocks(struct band *b, int64_t row, int64_t end, double unscale)
{
    const cv_match_state *m = b->call->m;
    const convoy_problem *p = &m->request.p;
    const int64_t first = (row - b->p0) * p->stride_h, last = (end - 1 - b->p0) * p->stride_h;
    const int64_t width = m->padded_w - m->reach_w + 1;
    for (int i = 0; i <= m->runs; i++) {
        memset(b->top[i], 0, sizeof(float) * (size_t)width);
        for (int64_t s = first; s <= last; s++)
            b->kernels->largest(b->top[i], b->plane[i] + s * m->padded_w, width);
    }
    for (int64_t k = 0; k < m->words; k++) {
        struct sums *a = &b->block[k];
        const int64_t j0 = k * CV_MATCH_COLUMNS * p->stride_w,
                      j1 = (least((k + 1) * CV_MATCH_COLUMNS, m->request.Q) - 1) * p->stride_w;
        float top[CV_MATCH_RUNS + 1] = {0};
        for (int i = 0; i <= m->runs; i++)
            for (int64_t j = j0; j <= j1; j++)
                top[i] = (float)worse(top[i], b->top[i][j]);
        for (int i = 0; i < m->runs; i++)
            a->root4[i] = sqrt(slack * (double)top[i] + b->rule.floor4) * unscale * unscale;
        const double mean = (double)top[m->runs] / b->rule.taps * unscale;
        a->mean2 = slack * mean * mean;
        a->tile2 = b->rule.floor2 + largest_tile(b, row * p->stride_h - p->pad_t, (end - 1) * p->stride_h - p->pad_t,
                                                 j0 - p->pad_l, j1 - p->pad_l);
    }
}

static int64_t judge_rows(struct band *b, int64_t k, int64_t row, int64_t end)
{
    const cv_match_call *call = b->call;
    const cv_match_state *m = call->m;
    const cv_request *q = &m->request;
    const convoy_problem *p = &q->p;
    int64_t count = 0;
    for (int64_t i = 0; i < m->words; i++)
        b->bound[i] = bound_of(&b->rule, &b->block[i], &call->stats[k]);
    for (; row < end; row++) {
        const int64_t at = (b->n * p->k + k) * q->P + row;
        const cv_match_row r = {.y = call->run->y + b->n * p->y_stride[0] + k * p->y_stride[1] + row * p->y_stride[2],
                                .before = m->runs > 1 ? call->sums + at * q->Q : NULL,
                                .path = m->runs > 1 ? call->energy + at * q->Q : NULL,
                                .columns = q->Q,
                                .step = p->y_stride[3],
                                .bound = b->bound,
                                .path_factor = b->rule.path_factor,
                                .rtol = b->rule.rtol,
                                .atol = b->rule.atol,
                                .bias = call->run->bias ? call->run->bias[k] : 0.0f,
                                .add_bias = call->run->bias != NULL};
        count += b->kernels->judge(&r, call->mask + at * m->words);
    }
    return count;
}

/* 1 when the cells' sums keep all of the band's outputs. */
static int cells_cover(const struct band *b)
{
    const cv_match_call *call = b->call;
    const cv_match_state *m = call->m;
    const cv_request *q = &m->request;
    const cv_match_cell *grid = call->grid + (b->n * q->p.groups + b->g) * m->grid_h * m->grid_w;
    if (m->runs > 1)
        return 0;
    struct sums x = {{0}, 0, 0};
    const int64_t first = b->p0 * q->p.stride_h - q->p.pad_t, last = (b->p1 - 1) * q->p.stride_h - q->p.pad_t;
    for (int64_t i = cv_match_cell_of(first) - m->start_h; i <= cv_match_cell_of(last) - m->start_h; i++)
        for (int64_t j = 0; j < m->grid_w; j++) {
            const cv_match_cell *c = &grid[i * m->grid_w + j];
            x.root4[0] = worse(x.root4[0], c->fourth[0]);
            x.mean2 = worse(x.mean2, c->second);
            x.tile2 = worse(x.tile2, c->tile);
        }
    x.root4[0] = sqrt(slack * x.root4[0] + b->rule.floor4);
    x.mean2 = slack * (x.mean2 / b->rule.taps + 0x1p-110); /* a mean is at most the rms */
    x.tile2 += b->rule.floor2;
    for (int64_t k = b->g * q->kg; k < (b->g + 1) * q->kg; k++)
        if (!covers_all(&b->rule, bound_of(&b->rule, &x, &call->stats[k]), call->run->bias ? call->run->bias[k] : 0))
            return 0;
    return 1;
}

static void judge_band(void *user, int64_t task, int thread)
{
    const cv_match_call *call = user;
    const cv_match_state *m = call->m;
    const cv_request *q = &m->request;
    const convoy_problem *p = &q->p;
    const int64_t band = task % m->bands, plane = task / m->bands;
    const double th = m->inner_needs.tile_h > 0 ? m->inner_needs.tile_h : 8,
                 tw = m->inner_needs.tile_w > 0 ? m->inner_needs.tile_w : 8;
    struct band b = {.call = call,
                     .kernels = cv_match_kernels_of(q->machine->cpu.isa),
                     .rule = rule_of(q, m->runs, th * tw),
                     .n = plane / p->groups,
                     .g = plane % p->groups,
                     .p0 = band * CV_MATCH_BAND,
                     .p1 = least((band + 1) * CV_MATCH_BAND, q->P)};
    call->counts[task] = 0;
    if (cells_cover(&b))
        return;
    place_band(&b, call->scratch + (size_t)thread * m->scratch_bytes);
    const float scale = scale_of(&b);
    const int64_t rows = cv_match_rows(m, b.p1 - b.p0), starts = rows - m->reach_h + 1,
                  width = m->padded_w - m->reach_w + 1;
    fill_planes(&b, scale);
    for (int i = 0; i <= m->runs; i++) {
        window_sums(&b, b.plane[i], b.sum, rows, starts, p->r, p->dil_h, m->padded_w);
        for (int64_t s = 0; s < starts; s++)
            window_sums(&b, b.sum + s * m->padded_w, b.plane[i] + s * m->padded_w, m->padded_w, width, p->s, p->dil_w,
                        1);
    }
    for (int64_t row = b.p0; row < b.p1; row += CV_MATCH_ROWS) {
        const int64_t end = least(row + CV_MATCH_ROWS, b.p1);
        fill_blocks(&b, row, end, 1.0 / (double)scale);
        for (int64_t k = b.g * q->kg; k < (b.g + 1) * q->kg; k++)
            call->counts[task] += judge_rows(&b, k, row, end);
    }
}

int64_t cv_match_judge(const cv_match_call *call)
{
    const cv_match_state *m = call->m;
    const int64_t tasks = m->request.p.n * m->request.p.groups * m->bands;
    cv_pool_run(m->request.machine->pool, tasks, judge_band, (void *)call);
    int64_t count = 0;
    for (int64_t i = 0; i < tasks; i++)
        count += call->counts[i];
    return count;
}
