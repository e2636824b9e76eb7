/* Sums over w, and over x's cells, for the bounds of match.h. */
#include "kernels.h"
#include "match.h"

#include <math.h>
#include <string.h>

const cv_match_kernels *cv_match_kernels_of(cv_isa isa)
{
    return isa == CV_AVX512 ? &cv_match_kernels_avx512
           : isa == CV_AVX2 ? &cv_match_kernels_avx2
                            : &cv_match_kernels_scalar;
}

struct weights {
    const cv_match_state *m;
    const float *w;
    cv_match_w *stats;
};

static void channel_stats(void *user, int64_t k, int thread)
{
    (void)thread;
    const struct weights *job = user;
    const convoy_problem *p = &job->m->request.p;
    const int64_t cg = job->m->request.cg, piece = cg / job->m->runs;
    cv_match_w a;
    double prefix = 0;
    memset(&a, 0, sizeof a);
    for (int64_t c = 0; c < cg; c++) {
        double square = 0, fourth = 0;
        for (int64_t r = 0; r < p->r; r++) {
            const float *w = job->w + k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2];
            for (int64_t s = 0; s < p->s; s++) {
                const double v = (double)w[s * p->w_stride[3]];
                square += v * v;
                fourth += v * v * (v * v);
                prefix += v;
                a.prefix += prefix * prefix;
            }
        }
        a.root4[c / piece] += fourth;
        a.norm = a.norm != a.norm || square <= a.norm ? a.norm : square; /* NaN, once met, for good */
    }
    for (int b = 0; b < job->m->runs; b++)
        a.root4[b] = sqrt(a.root4[b]);
    a.norm = sqrt(a.norm);
    job->stats[k] = a;
}

void cv_match_weights_stats(const cv_match_state *m, const float *w, cv_match_w *stats)
{
    struct weights job = {m, w, stats};
    cv_pool_run(m->request.machine->pool, m->request.p.k, channel_stats, &job);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* One row of cells of one image and group. */
static void fill_cells(void *user, int64_t task, int thread)
{
    const cv_match_call *call = user;
    const cv_match_state *m = call->m;
    const cv_request *q = &m->request;
    const convoy_problem *p = &q->p;
    const int64_t row = task % m->cells_h, g = task / m->cells_h % p->groups, n = task / m->cells_h / p->groups;
    const int64_t piece = q->cg / m->runs, width = m->cells_w * CV_MATCH_CELL;
    const int64_t i0 = row * CV_MATCH_CELL, rows = least(p->h - i0, CV_MATCH_CELL);
    float *s2 = (float *)(call->scratch + (size_t)thread * m->scratch_bytes), *s4 = s2 + width, *top = s4 + width;
    float *cell = call->cells + task * m->cells_w * (m->runs + 2);
    memset(s2, 0, sizeof(float) * (size_t)width);
    memset(top, 0, sizeof(float) * (size_t)width);
    for (int b = 0; b < m->runs; b++) {
        memset(s4, 0, sizeof(float) * (size_t)width);
        for (int64_t c = b * piece; c < (b + 1) * piece; c++)
            cv_match_kernels_of(q->machine->cpu.isa)
                ->cells(call->run->x + n * p->x_stride[0] + (g * q->cg + c) * p->x_stride[1] + i0 * p->x_stride[2],
                        p->x_stride[2], p->x_stride[3], rows, p->w, s2, s4, top);
        for (int64_t j = 0; j < width; j++)
            cell[j / CV_MATCH_CELL * (m->runs + 2) + b] =
                j % CV_MATCH_CELL ? cell[j / CV_MATCH_CELL * (m->runs + 2) + b] + s4[j] : s4[j];
    }
    for (int64_t j = 0; j < m->cells_w; j++) {
        float second = 0, most = 0;
        for (int64_t i = j * CV_MATCH_CELL; i < (j + 1) * CV_MATCH_CELL; i++) {
            second += s2[i];
            most = most != most || top[i] <= most ? most : top[i]; /* NaN, once met, for good */
        }
        cell[j * (m->runs + 2) + m->runs] = second;
        cell[j * (m->runs + 2) + m->runs + 1] = most;
    }
}

/* Cells that hold values [start, start + reach), for any start in cell i: [*a, *b) of `cells`. */
static void cells_of(int64_t i, int64_t before, int64_t reach, int64_t cells, int64_t *a, int64_t *b)
{
    const int64_t first = i * CV_MATCH_CELL - before, last = i * CV_MATCH_CELL + CV_MATCH_CELL - 1 + reach - 1;
    *a = first < 0 ? 0 : least(first / CV_MATCH_CELL, cells);
    *b = last < 0 ? 0 : least(last / CV_MATCH_CELL + 1, cells);
    *b = *b < *a ? *a : *b;
}

/* Sum `field` of the cells around each cell where windows start, first along rows, then along columns. */
static void gather(const cv_match_state *m, const float *cells, int field, int64_t before_h, int64_t reach_h,
                   int64_t before_w, int64_t reach_w, double *rows, cv_match_cell *grid, size_t to)
{
    const int64_t pitch = m->runs + 2;
    int64_t a, b;
    for (int64_t i = 0; i < m->cells_h; i++)
        for (int64_t j = 0; j < m->grid_w; j++) {
            double sum = 0;
            cells_of(j + m->start_w, before_w, reach_w, m->cells_w, &a, &b);
            for (; a < b; a++)
                sum += (double)cells[(i * m->cells_w + a) * pitch + field];
            rows[i * m->grid_w + j] = sum;
        }
    for (int64_t i = 0; i < m->grid_h; i++)
        for (int64_t j = 0; j < m->grid_w; j++) {
            double sum = 0;
            cells_of(i + m->start_h, before_h, reach_h, m->cells_h, &a, &b);
            for (; a < b; a++)
                sum += rows[a * m->grid_w + j];
            *(double *)((char *)&grid[i * m->grid_w + j] + to) = sum;
        }
}

/* The grid of one image and group. An output's tile starts at most a tile before its window and ends at most a tile
 * behind its start. */
static void fill_grid(void *user, int64_t task, int thread)
{
    const cv_match_call *call = user;
    const cv_match_state *m = call->m;
    double *rows = (double *)(call->scratch + (size_t)thread * m->scratch_bytes);
    const float *cells = call->cells + task * m->cells_h * m->cells_w * (m->runs + 2);
    cv_match_cell *grid = call->grid + task * m->grid_h * m->grid_w;
    const int64_t th = m->inner_needs.tile_h > 0 ? m->inner_needs.tile_h : 512,
                  tw = m->inner_needs.tile_w > 0 ? m->inner_needs.tile_w : 512;
    for (int b = 0; b < m->runs; b++)
        gather(m, cells, b, 0, m->reach_h, 0, m->reach_w, rows, grid,
               offsetof(cv_match_cell, fourth) + sizeof(double) * (size_t)b);
    gather(m, cells, m->runs, 0, m->reach_h, 0, m->reach_w, rows, grid, offsetof(cv_match_cell, second));
    /* A tile's elements lie a dilation apart. */
    const int64_t back_h = (th - 1) * m->request.p.dil_h, back_w = (tw - 1) * m->request.p.dil_w;
    gather(m, cells, m->runs, back_h, back_h + 1, back_w, back_w + 1, rows, grid, offsetof(cv_match_cell, tile));
}

void cv_match_cells(const cv_match_call *call)
{
    const cv_match_state *m = call->m;
    const int64_t planes = m->request.p.n * m->request.p.groups;
    cv_pool_run(m->request.machine->pool, planes * m->cells_h, fill_cells, (void *)call);
    cv_pool_run(m->request.machine->pool, planes, fill_grid, (void *)call);
}
