/* The products of a chunk of tiles with a chunk of output channels, bin by bin, into out_spectra.
 *
 * w's spectra are the largest thing there is when kernels are large: 8 * bins * C * K bytes, 540 MB for
 * n1c128h256k128r32. So w is stored after its rows alone (R rows instead of T), and a task finishes it for one u: it
 * packs x's rows of that column of bins, and then for a lane group of output channels transforms w's columns into L2,
 * multiplies, and goes on. With tiles in the lanes, x and w change places: w's columns are packed, for some output
 * channels at a time, and x's spectra are read where they are. Prepared weights stop after the rows too: the columns
 * cost no more than reading them finished would.
 *
 * Traffic: x's and the results' spectra once, w's half-spectra once; x's panels as often as there are lane groups of
 * output channels, or x's spectra as often as there are blocks of them, mostly from L2 and L3. */
#include "fft.h"

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct bins_job {
    const cv_fft_run *run;
    cv_fft_product product;
    int parts;               /* of a column's output channels */
    const float *w;          /* half-spectra: u's are w_step floats on, a lane group's s.w_column */
    int64_t w_step, w_pitch; /* w_pitch: channels from one output channel, or lane group of them, to the next */
    int64_t w_first;         /* lanes are tiles: flat number of the first value */
} bins_job;

/* Scratch of a thread, after what transforms use. */
typedef struct bins_scratch {
    float *line, *columns, *panels;
    double *clock; /* seconds in w's columns, and in products */
} bins_scratch;

static bins_scratch scratch_of(const cv_fft_run *run, int thread)
{
    const cv_fft_state *st = run->st;
    float *at = cv_fft_thread_scratch(run, thread);
    float *columns = at + st->half + st->line;
    return (bins_scratch){.line = at + st->half,
                          .columns = columns,
                          .panels = columns + (st->s.block_columns * st->s.column + 15) / 16 * 16,
                          .clock = cv_fft_thread_clock(run, thread)};
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

/* Lanes are output channels: x's panels stay while w's columns come and go. */
static void lanes_k_task(void *user, int64_t task, int thread)
{
    const bins_job *job = user;
    const cv_fft_run *run = job->run;
    const cv_fft_state *st = run->st;
    const cv_fft_product *whole = &job->product;
    const int u = (int)(task / job->parts), part = (int)(task % job->parts), ty = st->s.tile.ty;
    const int64_t g0 = whole->groups * part / job->parts, g1 = whole->groups * (part + 1) / job->parts;
    const int64_t chunks = over(whole->rows, st->s.block_rows);
    bins_scratch s = scratch_of(run, thread);
    const double start = run->phases ? cv_now_s() : 0;
    const double before = s.clock[0];
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t n0 = whole->rows * i / chunks, n1 = whole->rows * (i + 1) / chunks;
        for (int64_t c0 = 0; c0 < whole->depth; c0 += st->s.block_depth) {
            cv_fft_product f = *whole;
            f.rows = n1 - n0;
            f.depth = least(st->s.block_depth, whole->depth - c0);
            f.row_first += n0 * f.row_pitch + c0;
            f.more |= c0 > 0;
            f.groups = 1;
            f.vector = s.columns;
            f.vector_step = 0;
            st->k->pack(&f, u, 0, ty, s.panels);
            for (int64_t g = g0; g < g1; g++) {
                columns(job, u, g * job->w_pitch + c0, f.depth, &s);
                f.out = whole->out + (n0 * whole->out_pitch + g) * st->s.column;
                st->k->multiply(&f, u, 0, ty, s.panels);
            }
        }
    }
    if (run->phases)
        s.clock[1] += cv_now_s() - start - (s.clock[0] - before);
}

/* Lanes are tiles: panels are w's, for some output channels at a time. */
static void lanes_t_task(void *user, int64_t task, int thread)
{
    const bins_job *job = user;
    const cv_fft_run *run = job->run;
    const cv_fft_state *st = run->st;
    const cv_fft_product *whole = &job->product;
    const int u = (int)(task / job->parts), part = (int)(task % job->parts), ty = st->s.tile.ty;
    const int64_t k0 = whole->rows * part / job->parts, k1 = whole->rows * (part + 1) / job->parts;
    const int64_t chunks = over(k1 - k0, st->s.block_rows), parts = over(whole->depth, st->s.block_depth);
    const int64_t vl = st->s.lanes;
    bins_scratch s = scratch_of(run, thread);
    const double start = run->phases ? cv_now_s() : 0;
    const double before = s.clock[0];
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t n0 = k0 + (k1 - k0) * i / chunks, n1 = k0 + (k1 - k0) * (i + 1) / chunks;
        const int64_t at = job->w_first + n0 * job->w_pitch, first = at / vl;
        columns(job, u, first, over(job->w_first + (n1 - 1) * job->w_pitch + whole->depth, vl) - first, &s);
        for (int64_t j = 0; j < parts; j++) {
            const int64_t c0 = whole->depth * j / parts, c1 = whole->depth * (j + 1) / parts;
            cv_fft_product f = *whole;
            f.rows = n1 - n0;
            f.depth = c1 - c0;
            f.row = s.columns;
            f.row_step = 0;
            f.row_pitch = job->w_pitch;
            f.row_first = at - first * vl + c0;
            f.vector += c0 * st->s.column;
            f.out += n0 * f.out_pitch * st->s.column;
            f.more |= c0 > 0;
            st->k->pack(&f, u, 0, ty, s.panels);
            st->k->multiply(&f, u, 0, ty, s.panels);
        }
    }
    if (run->phases)
        s.clock[1] += cv_now_s() - start - (s.clock[0] - before);
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
    double all[2] = {0, 0};
    for (int i = 0; i < st->s.threads; i++)
        for (int j = 0; j < 2; j++)
            all[j] += cv_fft_thread_clock(run, i)[j];
    const double share = all[0] / (all[0] + all[1] + 1e-12), again = by_k ? (double)over(f->rows, st->s.block_rows) : 1;
    cv_phase_add(run->phases, "columns of w", seconds * share, w * again * 8 * (double)(t->ux * st->s.y.taps),
                 w * again * t->ux * cv_fft_line_flop(&t->column));
    cv_phase_add(run->phases, "product", seconds * (1 - share),
                 8 * (double)t->bins * ((double)run->tiles * cg + items * lanes),
                 6 * (double)t->bins * items * lanes * cg);
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
                                .out_pitch = groups,
                                .more = run->c0 > 0,
                                .row = run->x_spectra,
                                .vector = run->x_spectra,
                                .out = run->out_spectra,
                                .row_step = s->x_step,
                                .vector_step = s->x_step,
                                .out_step = s->out_step}};
    find_w(&job);
    for (int i = 0; run->phases && i < s->threads; i++)
        cv_fft_thread_clock(run, i)[0] = cv_fft_thread_clock(run, i)[1] = 0;
    /* More tasks than columns when threads are many: so that they end together. */
    const int64_t most = by_k ? groups : over(items, s->block_rows);
    while (job.parts < most && (int64_t)s->tile.ux * job.parts < 6 * s->threads)
        job.parts++;
    cv_pool_run(st->r.machine->pool, (int64_t)s->tile.ux * job.parts, by_k ? lanes_k_task : lanes_t_task, &job);
    if (run->phases)
        report(run, &job.product, cv_now_s() - start);
}
