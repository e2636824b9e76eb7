/* The products of a chunk of tiles with a chunk of output channels, bin by bin, and their columns back: into
 * out_spectra, as half-spectra of the rows that are kept.
 *
 * w's spectra are the largest thing there is when kernels are large: 8 * bins * C * K bytes, 540 MB for
 * n1c128h256k128r32. So w is stored after its rows alone (R rows instead of T), and a task finishes it for one u: it
 * packs x's rows of that column of bins, and then for a lane group of output channels transforms w's columns into L2,
 * multiplies, and goes on. With tiles in the lanes, x and w change places: w's columns are packed, for some output
 * channels at a time, and x's spectra are read where they are. Prepared weights stop after the rows too: the columns
 * cost no more than reading them finished would.
 *
 * Sums of a column of bins gather in L2; when all channels are in, they are transformed back there and only then go to
 * out_spectra, O of T rows. Sums of several calls, or of more panels than there is room for, gather in out_spectra.
 *
 * Traffic: x's spectra, w's and the results' half-spectra once; x's panels as often as there are lane groups of output
 * channels, or x's spectra as often as there are blocks of them, mostly from L2 and L3. */
#include "fft.h"

#include <string.h>

enum { CLOCKS = 3 }; /* numbers of a thread: see bins_scratch */

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct bins_job {
    const cv_fft_run *run;
    cv_fft_product product;
    int whole, parts;        /* columns that are one task each, and tasks of one that is shared */
    const float *w;          /* half-spectra: u's are w_step floats on, a lane group's s.w_column */
    int64_t w_step, w_pitch; /* w_pitch: channels from one output channel, or lane group of them, to the next */
    int64_t w_first;         /* lanes are tiles: flat number of the first value */
} bins_job;

/* Scratch of a thread, after what transforms use. */
typedef struct bins_scratch {
    float *line, *columns, *sums, *panels;
    double *clock; /* seconds in w's columns, in products, in the results' columns */
} bins_scratch;

static bins_scratch scratch_of(const cv_fft_run *run, int thread)
{
    const cv_fft_state *st = run->st;
    float *at = cv_fft_thread_scratch(run, thread);
    float *columns = at + st->half + st->line, *sums = columns + (st->s.block_columns * st->s.column + 15) / 16 * 16;
    return (bins_scratch){.line = at + st->half,
                          .columns = columns,
                          .sums = sums,
                          .panels = sums + (st->s.block_rows * st->s.block_groups * st->s.column + 15) / 16 * 16,
                          .clock = cv_fft_thread_clock(run, thread)};
}

/* What a task does: a part of a column's output channels. */
typedef struct share {
    int u, part, parts;
} share;

static share share_of(const bins_job *job, int64_t task)
{
    if (task < job->whole)
        return (share){(int)task, 0, 1};
    task -= job->whole;
    return (share){job->whole + (int)(task / job->parts), (int)(task % job->parts), job->parts};
}

/* Transforms w's columns of `count` lane groups from `first` on. */
static void columns(const bins_job *job, int u, int64_t first, int64_t count, bins_scratch *s)
{
    const cv_fft_state *st = job->run->st;
    const double start = job->run->phases ? cv_now_s() : 0;
    st->k->columns_lines(&st->s.tile, job->w + u * job->w_step + first * st->s.w_column, (int)st->s.y.taps, count, 1,
                         s->columns, s->line);
    if (job->run->phases)
        s->clock[0] += cv_now_s() - start;
}

/* Where rows n0, n0 + 1, ... of lane groups g, ... are kept: columns of u. */
static float *kept(const bins_job *job, int u, int64_t n0, int64_t g)
{
    const cv_fft_shape *s = &job->run->st->s;
    return job->run->out_spectra + (n0 * job->product.groups + g) * s->out_group + u * s->out_column;
}

/* Says where sums of f's rows and groups, from n0 and g on, gather. */
static void aim(const bins_job *job, const bins_scratch *scratch, int u, int64_t n0, int64_t g, cv_fft_product *f)
{
    const cv_fft_shape *s = &job->run->st->s;
    f->out = s->in_place ? kept(job, u, n0, g) : scratch->sums;
    f->out_group = s->in_place ? s->out_group : s->column;
    f->out_row = (s->in_place ? job->product.groups : f->groups) * f->out_group;
}

/* Transforms the columns of such sums back, when no more channels come. */
static void finish(const bins_job *job, const cv_fft_product *f, int u, int64_t n0, int64_t g, bins_scratch *scratch)
{
    const cv_fft_run *run = job->run;
    const cv_fft_shape *s = &run->st->s;
    if (run->c0 + run->cs < run->st->r.cg)
        return;
    const double start = run->phases ? cv_now_s() : 0;
    cv_fft_finish columns = {.count = f->groups,
                             .in_pitch = f->out_group,
                             .out_pitch = s->out_group,
                             .first = (s->tile.ty - s->y.cut) % s->tile.ty,
                             .every = (int)s->y.stride,
                             .rows = (int)s->out_rows,
                             .stream = s->stream && !s->in_place};
    for (int64_t n = 0; n < f->rows; n++) {
        columns.in = f->out + n * f->out_row;
        columns.out = kept(job, u, n0 + n, g);
        run->st->k->columns_finish(&s->tile, &columns, scratch->line);
    }
    if (run->phases)
        scratch->clock[2] += cv_now_s() - start;
}

/* Lanes are output channels: x's panels stay while w's columns come and go. */
static void lanes_k_task(void *user, int64_t task, int thread)
{
    const bins_job *job = user;
    const cv_fft_run *run = job->run;
    const cv_fft_state *st = run->st;
    const cv_fft_product *whole = &job->product;
    const share own = share_of(job, task);
    const int u = own.u, ty = st->s.tile.ty;
    const int64_t g0 = whole->groups * own.part / own.parts, g1 = whole->groups * (own.part + 1) / own.parts;
    const int64_t chunks = over(whole->rows, st->s.block_rows);
    bins_scratch s = scratch_of(run, thread);
    const double start = run->phases ? cv_now_s() : 0;
    const double before = s.clock[0] + s.clock[2];
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t n0 = whole->rows * i / chunks, n1 = whole->rows * (i + 1) / chunks;
        const int64_t panel = ty * (int64_t)st->k->panel_floats(n1 - n0, st->s.block_depth);
        cv_fft_product f = *whole;
        f.rows = n1 - n0;
        f.groups = 1;
        f.vector = s.columns;
        f.vector_step = 0;
        for (int64_t p0 = 0; p0 < whole->depth; p0 += st->s.panel_depth) {
            const int64_t p1 = least(p0 + st->s.panel_depth, whole->depth);
            for (int64_t c0 = p0, at = 0; c0 < p1; c0 += st->s.block_depth, at += panel) {
                f.depth = least(st->s.block_depth, p1 - c0);
                f.row_first = whole->row_first + n0 * f.row_pitch + c0;
                st->k->pack(&f, u, 0, ty, s.panels + at);
            }
            for (int64_t g = g0; g < g1; g++) {
                aim(job, &s, u, n0, g, &f);
                for (int64_t c0 = p0, at = 0; c0 < p1; c0 += st->s.block_depth, at += panel) {
                    f.depth = least(st->s.block_depth, p1 - c0);
                    f.more = whole->more || c0 > 0;
                    columns(job, u, g * job->w_pitch + c0, f.depth, &s);
                    st->k->multiply(&f, u, 0, ty, s.panels + at);
                }
                if (p1 == whole->depth)
                    finish(job, &f, u, n0, g, &s);
            }
        }
    }
    if (run->phases)
        s.clock[1] += cv_now_s() - start - (s.clock[0] + s.clock[2] - before);
}

/* Lanes are tiles: panels are w's, for some output channels at a time. */
static void lanes_t_task(void *user, int64_t task, int thread)
{
    const bins_job *job = user;
    const cv_fft_run *run = job->run;
    const cv_fft_state *st = run->st;
    const cv_fft_product *whole = &job->product;
    const share own = share_of(job, task);
    const int u = own.u, ty = st->s.tile.ty;
    const int64_t k0 = whole->rows * own.part / own.parts, k1 = whole->rows * (own.part + 1) / own.parts;
    const int64_t chunks = over(k1 - k0, st->s.block_rows), parts = over(whole->depth, st->s.block_depth);
    const int64_t vl = st->s.lanes;
    bins_scratch s = scratch_of(run, thread);
    const double start = run->phases ? cv_now_s() : 0;
    const double before = s.clock[0] + s.clock[2];
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t n0 = k0 + (k1 - k0) * i / chunks, n1 = k0 + (k1 - k0) * (i + 1) / chunks;
        const int64_t at = job->w_first + n0 * job->w_pitch, first = at / vl;
        columns(job, u, first, over(job->w_first + (n1 - 1) * job->w_pitch + whole->depth, vl) - first, &s);
        cv_fft_product f = *whole;
        f.rows = n1 - n0;
        f.row = s.columns;
        f.row_step = 0;
        f.row_pitch = job->w_pitch;
        for (int64_t g = 0; g < whole->groups; g += st->s.block_groups) {
            f.groups = least(st->s.block_groups, whole->groups - g);
            aim(job, &s, u, n0, g, &f);
            for (int64_t j = 0; j < parts; j++) {
                const int64_t c0 = whole->depth * j / parts, c1 = whole->depth * (j + 1) / parts;
                f.depth = c1 - c0;
                f.row_first = at - first * vl + c0;
                f.vector = whole->vector + (g * f.vector_pitch + c0) * st->s.column;
                f.more = whole->more || c0 > 0;
                if (g == 0 || parts > 1)
                    st->k->pack(&f, u, 0, ty, s.panels);
                st->k->multiply(&f, u, 0, ty, s.panels);
            }
            finish(job, &f, u, n0, g, &s);
        }
    }
    if (run->phases)
        s.clock[1] += cv_now_s() - start - (s.clock[0] + s.clock[2] - before);
}

/* Where the chunk's part of w lies. */
static void find_w(bins_job *job)
{
    const cv_fft_run *run = job->run;
    const cv_fft_shape *s = &run->st->s;
    const int64_t vl = s->lanes, cg = run->st->r.cg, kg = run->st->r.kg, k = run->k0 - run->group * kg;
    if (!run->prepared) {
        job->w = run->w_spectra, job->w_step = s->w_step, job->w_pitch = run->cs;
        return;
    }
    const int by_k = s->way == CV_FFT_LANES_K;
    job->w = run->prepared + run->group * (by_k ? over(kg, vl) * cg : over(kg * cg, vl)) * s->w_column;
    job->w += by_k ? (k / vl * cg + run->c0) * s->w_column : 0;
    job->w_first = by_k ? 0 : k * cg + run->c0;
    job->w_step = run->st->prepared_step, job->w_pitch = cg;
}

static void report(const cv_fft_run *run, const cv_fft_product *f, double seconds)
{
    const cv_fft_state *st = run->st;
    const cv_fft_tile *t = &st->s.tile;
    const int by_k = st->s.way == CV_FFT_LANES_K;
    const double items = (double)f->rows, cg = (double)f->depth, lanes = (double)(by_k ? run->ks : run->tiles);
    const double w = (double)run->ks * cg;
    double all[CLOCKS] = {0};
    for (int i = 0; i < st->s.threads; i++)
        for (int j = 0; j < CLOCKS; j++)
            all[j] += cv_fft_thread_clock(run, i)[j];
    const double each = seconds / (all[0] + all[1] + all[2] + 1e-12);
    const double again = by_k ? (double)over(f->rows, st->s.block_rows) : 1;
    const int last = run->c0 + run->cs == st->r.cg;
    cv_phase_add(run->phases, "columns of w", all[0] * each, w * again * 8 * (double)(t->ux * st->s.y.taps),
                 w * again * t->ux * cv_fft_line_flop(&t->column));
    cv_phase_add(run->phases, "product", all[1] * each,
                 8 * (double)t->bins * ((double)run->tiles * cg + (st->s.in_place ? items * lanes : 0)),
                 6 * (double)t->bins * items * lanes * cg);
    if (last)
        cv_phase_add(run->phases, "columns of y", all[2] * each, items * lanes * 8 * (double)(t->ux * st->s.out_rows),
                     items * lanes * t->ux * cv_fft_line_flop(&t->column));
}

void cv_fft_bins(const cv_fft_run *run)
{
    const cv_fft_state *st = run->st;
    const cv_fft_shape *s = &st->s;
    const int by_k = s->way == CV_FFT_LANES_K;
    const int64_t items = by_k ? run->tiles : run->ks, lanes = by_k ? run->ks : run->tiles,
                  groups = over(lanes, s->lanes);
    const double start = cv_now_s();
    bins_job job = {.run = run,
                    .parts = 1,
                    .product = {.tile = &s->tile,
                                .rows = items,
                                .groups = groups,
                                .depth = run->cs,
                                .row_pitch = run->cs,
                                .vector_pitch = run->cs,
                                .more = run->c0 > 0,
                                .row = run->x_spectra,
                                .vector = run->x_spectra,
                                .row_step = s->x_step,
                                .vector_step = s->x_step}};
    find_w(&job);
    for (int i = 0; run->phases && i < s->threads; i++)
        memset(cv_fft_thread_clock(run, i), 0, CLOCKS * sizeof(double));
    /* So that threads end together: the columns left when they are dealt out evenly go in parts, and all of them when
     * they are few. */
    const int64_t most = by_k ? groups : over(items, s->block_rows);
    const int few = s->tile.ux < 6 * s->threads, rest = few ? s->tile.ux : s->tile.ux % s->threads;
    job.whole = s->tile.ux - rest;
    job.parts = (int)least(most, rest ? over(few ? 6 * s->threads : s->threads, rest) : 1);
    cv_pool_run(st->r.machine->pool, job.whole + (int64_t)rest * job.parts, by_k ? lanes_k_task : lanes_t_task, &job);
    if (run->phases)
        report(run, &job.product, cv_now_s() - start);
}
