/* Window sums of x and sums over w, for the bounds of match.h.
 *
 * A map's value at (g, p, q) is a sum over the group's channels (or one piece of them) and over taps: rows first summed
 * along W into a ring of rows, then along H. In double: fourth powers of any float fit. */
#include "match.h"

#include <math.h>
#include <string.h>

void cv_match_weights_stats(const cv_match_state *m, const float *w, cv_match_w *stats)
{
    const convoy_problem *p = &m->request.p;
    const int64_t cg = m->request.cg, piece = cg / m->runs;
    for (int64_t k = 0; k < p->k; k++) {
        cv_match_w *a = &stats[k];
        double prefix = 0;
        memset(a, 0, sizeof *a);
        for (int64_t c = 0; c < cg; c++) {
            double square = 0, fourth = 0;
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++) {
                    const double v =
                        (double)w[k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2] + s * p->w_stride[3]];
                    square += v * v;
                    fourth += v * v * v * v;
                    prefix += v;
                    a->prefix += prefix * prefix;
                }
            a->root4[c / piece] += fourth;
            a->norm = square > a->norm ? square : a->norm;
        }
        for (int b = 0; b < m->runs; b++)
            a->root4[b] = sqrt(a->root4[b]);
        a->norm = sqrt(a->norm);
    }
}

enum what { FIRST, SECOND, FOURTH };

/* One map: channels [c0, c1) of every group, taps x taps2 window positions row * stride + t * dilation - pad. */
struct map {
    enum what power;
    int64_t c0, c1; /* within the group */
    int64_t taps_h, taps_w, dil_h, dil_w, pad_h, pad_w;
    double scale; /* of the result; a root is taken of even powers */
    double *out;  /* (G, P, Q) */
};

struct job {
    const cv_match_state *m;
    const float *x; /* image n */
    char *rings;
    struct map map[CV_MATCH_RUNS + 2];
};

enum { ROWS = 64 }; /* of outputs a task */

static double power_of(double v, enum what power)
{
    return power == FIRST ? v : power == SECOND ? v * v : v * v * v * v;
}

/* sums[q] = the row's window sums along W; line holds the channel sums of one image row. */
static void row_sums(const struct job *job, const struct map *a, int64_t g, int64_t row, double *line, double *sums)
{
    const convoy_problem *p = &job->m->request.p;
    const int64_t Q = job->m->request.Q, cg = job->m->request.cg;
    memset(line, 0, sizeof(double) * (size_t)p->w);
    for (int64_t c = a->c0; c < a->c1; c++) {
        const float *x = job->x + (g * cg + c) * p->x_stride[1] + row * p->x_stride[2];
        for (int64_t j = 0; j < p->w; j++)
            line[j] += power_of((double)x[j * p->x_stride[3]], a->power);
    }
    for (int64_t q = 0; q < Q; q++) {
        double sum = 0;
        const int64_t from = q * p->stride_w - a->pad_w;
        int64_t t0 = from < 0 ? (-from + a->dil_w - 1) / a->dil_w : 0;
        for (int64_t t = t0; t < a->taps_w && from + t * a->dil_w < p->w; t++)
            sum += line[from + t * a->dil_w];
        sums[q] = sum;
    }
}

static void fill_rows(void *user, int64_t task, int thread)
{
    const struct job *job = user;
    const cv_request *q = &job->m->request;
    const convoy_problem *p = &q->p;
    const int64_t chunks = (q->P + ROWS - 1) / ROWS, chunk = task % chunks, g = task / chunks % p->groups;
    const struct map *a = &job->map[task / chunks / p->groups];
    double *line = (double *)(job->rings + (size_t)thread * job->m->ring_bytes), *ring = line + p->w;
    const int64_t reach = (a->taps_h - 1) * a->dil_h + 1;
    const int64_t p0 = chunk * ROWS, p1 = p0 + ROWS < q->P ? p0 + ROWS : q->P;
    int64_t ready = INT64_MIN; /* image rows below this are in the ring */
    for (int64_t row = p0; row < p1; row++) {
        const int64_t from = row * p->stride_h - a->pad_h, to = from + reach;
        double *out = a->out + (g * q->P + row) * q->Q;
        if (ready < from)
            ready = from;
        for (; ready < to; ready++)
            if (ready >= 0 && ready < p->h)
                row_sums(job, a, g, ready, line, ring + (ready % reach) * q->Q);
        memset(out, 0, sizeof(double) * (size_t)q->Q);
        for (int64_t i = from; i < to; i += a->dil_h)
            if (i >= 0 && i < p->h)
                for (int64_t j = 0; j < q->Q; j++)
                    out[j] += ring[(i % reach) * q->Q + j];
        for (int64_t j = 0; j < q->Q; j++)
            out[j] = a->power == FIRST ? out[j] * a->scale : sqrt(out[j]);
    }
}

void cv_match_fill_maps(const cv_match_state *m, const float *x, int64_t n, void *workspace, cv_match_maps *maps)
{
    const cv_request *q = &m->request;
    const convoy_problem *p = &q->p;
    const size_t map = (size_t)(p->groups * q->P * q->Q);
    double *out = (double *)((char *)workspace + m->maps_at);
    struct job job = {.m = m, .x = x + n * p->x_stride[0], .rings = (char *)workspace + m->ring_at};
    const struct map window = {SECOND, 0, q->cg, p->r, p->s, p->dil_h, p->dil_w, p->pad_t, p->pad_l, 1.0, NULL};
    const int64_t piece = q->cg / m->runs;
    for (int b = 0; b < m->runs; b++) {
        job.map[b] = window;
        job.map[b].power = FOURTH;
        job.map[b].c0 = b * piece;
        job.map[b].c1 = (b + 1) * piece;
        maps->root4[b] = job.map[b].out = out + (size_t)b * map;
    }
    struct map *mean = &job.map[m->runs], *norm = &job.map[m->runs + 1];
    *mean = window;
    mean->power = FIRST;
    mean->scale = 1.0 / ((double)q->cg * (double)p->r * (double)p->s);
    maps->mean = mean->out = out + (size_t)m->runs * map;
    /* An output's tile starts at most a tile before its window and ends at most a tile behind its start. */
    const int th = m->inner_needs.tile_h > 0 ? m->inner_needs.tile_h : 512,
              tw = m->inner_needs.tile_w > 0 ? m->inner_needs.tile_w : 512;
    *norm = window;
    norm->taps_h = 2 * th - 1, norm->taps_w = 2 * tw - 1, norm->dil_h = norm->dil_w = 1;
    norm->pad_h = p->pad_t + th - 1, norm->pad_w = p->pad_l + tw - 1;
    maps->norm = norm->out = out + (size_t)(m->runs + 1) * map;
    cv_pool_run(q->machine->pool, (m->runs + 2) * p->groups * ((q->P + ROWS - 1) / ROWS), fill_rows, &job);
}
