/* The dense ways: spectra of a chunk of tiles, spectra of a chunk of kernels, the product in every bin, the inverse. */
#include "fft.h"

#include <math.h>

/* One operand of the product as lane groups. rows: flat items*cg values, VL at a time; else cg vectors for every VL
 * items. */
typedef struct operand {
    int kernels, rows;
    int64_t items, cg, first;   /* first: item 0's tile or output channel; cg: channels in work */
    cv_fft_spectrum spectrum;   /* of lane group 0 */
    int64_t column;             /* floats from one lane group to the next */
    float *max, *min;           /* [lane group][lane] */
    float *item_max, *item_min; /* [item], over the channels so far */
    int32_t *exponent;          /* [item] */
} operand;

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t operand_groups(const cv_fft_run *run, const operand *o)
{
    const int64_t vl = run->st->s.lanes;
    return o->rows ? over(o->items * o->cg, vl) : over(o->items, vl) * o->cg;
}

/* Item and channel of a lane; 0 when the lane has none. */
static int operand_lane(const operand *o, int64_t vl, int64_t group, int64_t lane, int64_t *item, int64_t *c)
{
    if (o->rows) {
        const int64_t flat = group * vl + lane;
        *item = flat / o->cg, *c = flat % o->cg;
    } else
        *item = group / o->cg * vl + lane, *c = group % o->cg;
    return *item < o->items;
}

static operand x_operand(const cv_fft_run *run)
{
    const cv_fft_shape *s = &run->st->s;
    return (operand){.kernels = 0,
                     .rows = s->way == CV_FFT_LANES_K,
                     .items = run->tiles,
                     .cg = run->cs,
                     .first = run->tile0,
                     .spectrum = {run->x_spectra, s->x_step, s->stream},
                     .column = s->column,
                     .max = run->x_max,
                     .item_max = run->x_item_max,
                     .exponent = run->x_exponent};
}

static operand w_operand(const cv_fft_run *run)
{
    const cv_fft_shape *s = &run->st->s;
    return (operand){.kernels = 1,
                     .rows = s->way == CV_FFT_LANES_T,
                     .items = run->ks,
                     .cg = run->cs,
                     .first = run->k0,
                     .spectrum = {run->w_spectra, s->w_step, s->w_stream},
                     .column = s->w_column,
                     .max = run->w_max,
                     .min = run->w_min,
                     .item_max = run->w_item_max,
                     .item_min = run->w_item_min,
                     .exponent = run->w_exponent};
}

typedef struct forward_job {
    const cv_fft_run *run;
    operand o;
    int64_t together;                    /* lane groups a task takes */
    enum { PLAIN, SCALED, RESCALE } how; /* RESCALE: scaled, and only lane groups that hold a scaled item */
} forward_job;

static void forward_group(const forward_job *job, int64_t group, float *scratch)
{
    const cv_fft_run *run = job->run;
    const operand *o = &job->o;
    const cv_fft_state *st = run->st;
    const int64_t vl = st->s.lanes;
    float scale[CV_FFT_LANES];
    int scaled = 0;
    cv_fft_load load;
    cv_fft_load_begin(run, o->kernels, &load);
    for (int64_t l = 0; l < vl; l++) {
        int64_t item, c;
        if (!operand_lane(o, vl, group, l, &item, &c))
            break;
        if (o->kernels)
            cv_fft_kernel_source(run, o->first + item, run->c0 + c, &load.lane[l]);
        else
            cv_fft_tile_source(run, o->first + item, run->group * st->r.cg + run->c0 + c, &load.lane[l]);
        const int32_t e = job->how == PLAIN ? 0 : o->exponent[item];
        scale[l] = e == 0 || e == CV_FFT_DIRECT ? 1.0f : ldexpf(1.0f, -e);
        scaled |= scale[l] != 1.0f;
        load.lanes++;
    }
    if (job->how == RESCALE && !scaled)
        return;
    load.scale = scaled ? scale : NULL;
    cv_fft_load_end(run, o->kernels, &load);
    st->k->rows_forward(&st->s.tile, &load, o->kernels, scratch, scratch + st->half);
    cv_fft_spectrum out = o->spectrum;
    out.at += group * o->column;
    if (o->kernels) /* their columns are left to cv_fft_bins */
        st->k->columns_copy(&st->s.tile, scratch, load.rows, out);
    else
        st->k->columns_forward(&st->s.tile, scratch, load.rows, 0, out, scratch + st->half);
    if (job->how == PLAIN)
        for (int64_t l = 0; l < vl; l++) {
            o->max[group * vl + l] = load.max[l];
            if (o->min)
                o->min[group * vl + l] = load.min[l];
        }
}

static void forward_task(void *user, int64_t task, int thread)
{
    const forward_job *job = user;
    const int64_t groups = operand_groups(job->run, &job->o);
    for (int64_t g = task * job->together; g < groups && g < (task + 1) * job->together; g++)
        forward_group(job, g, cv_fft_thread_scratch(job->run, thread));
}

/* Adds the lanes' magnitudes to the items'. */
static void gather_magnitudes(const cv_fft_run *run, const operand *o)
{
    const int64_t vl = run->st->s.lanes;
    for (int64_t item = 0; item < o->items; item++) {
        float max = run->c0 ? o->item_max[item] : 0, min = run->c0 && o->min ? o->item_min[item] : INFINITY;
        for (int64_t c = 0; c < o->cg; c++) {
            const int64_t flat = item * o->cg + c, at = o->rows ? flat : (item / vl * o->cg + c) * vl + item % vl;
            const float m = o->max[at];
            max = m > max || m != m ? m : max; /* a NaN stays: no later m is greater, and NaN again is NaN */
            if (o->min && o->min[at] < min)
                min = o->min[at];
        }
        o->item_max[item] = max;
        if (o->min)
            o->item_min[item] = min;
    }
}

/* Exponents of all items; returns how many want a scale. */
static int64_t judge(const cv_fft_run *run, const operand *o)
{
    int64_t scaled = 0;
    for (int64_t i = 0; i < o->items; i++) {
        o->exponent[i] = o->kernels ? cv_fft_kernel_exponent(run->st, o->item_max[i], o->item_min[i])
                                    : cv_fft_exponent(run->st, o->item_max[i]);
        scaled += o->exponent[i] != 0 && o->exponent[i] != CV_FFT_DIRECT;
    }
    return scaled;
}

/* Optimistic: everything as it is first; what threatens overflow or underflow again, scaled. When the channels come in
 * several chunks, all of them have to pass before anything can be said: then the caller tries again. Returns how many
 * items are found to want a scale that they have not got. */
static int64_t forward(cv_fft_run *run, operand o, const char *phase)
{
    const cv_fft_state *st = run->st;
    const double start = cv_now_s();
    const int64_t groups = operand_groups(run, &o);
    int64_t missing = 0;
    const int64_t share = groups / (64 * st->s.threads);
    forward_job job = {run, o, share < 1 ? 1 : share > 4 ? 4 : share, run->scaled ? SCALED : PLAIN};
    cv_pool_run(st->r.machine->pool, over(groups, job.together), forward_task, &job);
    if (!run->scaled) {
        gather_magnitudes(run, &o);
        if (run->c0 + o.cg == st->r.cg)
            missing = judge(run, &o);
        if (missing > 0 && run->c0 == 0) {
            job.how = RESCALE;
            cv_pool_run(st->r.machine->pool, over(groups, job.together), forward_task, &job);
            missing = 0;
        }
    }
    if (run->phases) {
        const double points = (double)(o.items * o.cg);
        const double in = o.kernels ? (double)(st->s.y.taps * st->s.x.taps) : (double)(st->s.tile.ty * st->s.tile.tx);
        const int rows = o.kernels ? (int)st->s.y.taps : st->s.tile.ty;
        const double columns = o.kernels ? 0 : st->s.tile.ux * cv_fft_line_flop(&st->s.tile.column);
        const double flop = ((rows + 1) / 2 * cv_fft_line_flop(&st->s.tile.row) + columns) * points;
        const double values = o.kernels ? (double)rows * st->s.tile.ux : (double)st->s.tile.bins;
        cv_phase_add(run->phases, phase, cv_now_s() - start, points * (4 * in + 8 * values), flop);
    }
    return missing;
}

static void sink_of(const cv_fft_run *run, int64_t t, int64_t k, cv_fft_sink *sink, cv_fft_store *store)
{
    const int32_t *w_exponent = run->prepared ? run->prepared_exponent + k : run->w_exponent + (k - run->k0);
    cv_fft_tile_sink(run, t, k, sink, store);
    cv_fft_sink_scale(run->st, run->x_exponent[t - run->tile0], *w_exponent, sink);
}

static void inverse_task(void *user, int64_t task, int thread)
{
    const cv_fft_run *run = user;
    const cv_fft_state *st = run->st;
    const int64_t vl = st->s.lanes;
    const int by_k = st->s.way == CV_FFT_LANES_K;
    const int64_t groups = over(by_k ? run->ks : run->tiles, vl), row = task / groups, g = task % groups;
    float *scratch = cv_fft_thread_scratch(run, thread);
    cv_fft_store store = {.lanes = 0};
    for (int64_t l = 0; l < vl && g * vl + l < (by_k ? run->ks : run->tiles); l++, store.lanes++)
        sink_of(run, run->tile0 + (by_k ? row : g * vl + l), run->k0 + (by_k ? g * vl + l : row), &store.lane[l],
                &store);
    const cv_fft_half half = {.at = run->out_spectra + task * st->s.out_group,
                              .row = 2 * vl,
                              .column = st->s.out_column,
                              .every = 1,
                              .rows = (int)st->s.out_rows,
                              .far = 1};
    st->k->rows_finish(&st->s.tile, &half, &store, scratch + st->half);
}

static void inverse(cv_fft_run *run)
{
    const cv_fft_state *st = run->st;
    const cv_fft_tile *t = &st->s.tile;
    const int by_k = st->s.way == CV_FFT_LANES_K;
    const double start = cv_now_s();
    const int64_t tasks = by_k ? run->tiles * over(run->ks, st->s.lanes) : run->ks * over(run->tiles, st->s.lanes);
    cv_pool_run(st->r.machine->pool, tasks, inverse_task, run);
    if (run->phases) {
        const double points = (double)run->tiles * (double)run->ks;
        const double rows = (double)st->s.out_rows, columns = (double)(st->s.x.step / st->s.x.stride);
        cv_phase_add(run->phases, "rows of y", cv_now_s() - start,
                     points * rows * (8.0 * (double)t->ux + 4.0 * columns),
                     points * (rows + 1) / 2 * cv_fft_line_flop(&t->row));
    }
}

static int32_t w_exponent_of(const cv_fft_run *run, int64_t k)
{
    return run->prepared ? run->prepared_exponent[k] : run->w_exponent[k - run->k0];
}

static void direct_task(void *user, int64_t task, int thread)
{
    const cv_fft_run *run = user;
    const int64_t t = run->tile0 + task / run->ks, k = run->k0 + task % run->ks;
    (void)thread;
    if (run->x_exponent[t - run->tile0] == CV_FFT_DIRECT || w_exponent_of(run, k) == CV_FFT_DIRECT)
        cv_fft_direct(run, t, k);
}

/* What the guards took away from the transform. */
static void direct(cv_fft_run *run)
{
    int64_t found = 0;
    for (int64_t i = 0; i < run->tiles; i++)
        found += run->x_exponent[i] == CV_FFT_DIRECT;
    for (int64_t i = 0; i < run->ks; i++)
        found += w_exponent_of(run, run->k0 + i) == CV_FFT_DIRECT;
    if (found == 0)
        return;
    const double start = cv_now_s();
    cv_pool_run(run->st->r.machine->pool, run->tiles * run->ks, direct_task, run);
    cv_phase_add(run->phases, "direct", cv_now_s() - start, 0, 0);
}

/* All channels of a chunk of tiles and output channels, into their spectra; x and w: transform them. */
static int64_t sum(cv_fft_run *run, int x, int w)
{
    const int64_t cg = run->st->r.cg, parts = over(cg, run->st->s.depth);
    int64_t missing = 0;
    for (int64_t part = 0; part < parts; part++) {
        run->c0 = part * run->st->s.depth;
        run->cs = cg - run->c0 < run->st->s.depth ? cg - run->c0 : run->st->s.depth;
        if (x || parts > 1)
            missing += forward(run, x_operand(run), "forward x");
        if (!run->prepared && (w || parts > 1))
            missing += forward(run, w_operand(run), "rows of w");
        cv_fft_bins(run);
    }
    return missing;
}

void cv_fft_dense(cv_fft_run *run)
{
    const cv_fft_shape *s = &run->st->s;
    const int64_t kg = run->st->r.kg, t_chunks = over(s->tiles, s->tile_chunk), k_chunks = over(kg, s->k_chunk);
    const int64_t outer = s->k_outer ? k_chunks : t_chunks, inner = s->k_outer ? t_chunks : k_chunks;
    for (run->group = 0; run->group < run->st->r.p.groups; run->group++)
        for (int64_t i = 0; i < outer; i++)
            for (int64_t j = 0; j < inner; j++) {
                const int64_t tc = s->k_outer ? j : i, kc = s->k_outer ? i : j;
                run->tile0 = tc * s->tile_chunk;
                run->tiles = s->tiles - run->tile0 < s->tile_chunk ? s->tiles - run->tile0 : s->tile_chunk;
                run->k0 = run->group * kg + kc * s->k_chunk;
                run->ks = kg - kc * s->k_chunk < s->k_chunk ? kg - kc * s->k_chunk : s->k_chunk;
                run->scaled = 0;
                if (sum(run, j == 0 || s->k_outer, j == 0 || !s->k_outer) > 0) {
                    run->scaled = 1;
                    sum(run, 1, 1);
                }
                inverse(run);
                direct(run);
            }
}

/* Spectra of all kernels: the lane groups of all groups of channels, one after the other. */
void cv_fft_dense_prepare(cv_fft_run *run, float *spectra, int32_t *exponent)
{
    const cv_fft_state *st = run->st;
    const int64_t kg = st->r.kg, cg = st->r.cg, vl = st->s.lanes, groups = st->r.p.groups;
    run->scaled = 0;
    run->c0 = 0, run->cs = cg;
    for (run->group = 0; run->group < groups; run->group++) {
        operand o = w_operand(run);
        o.items = kg;
        o.first = run->group * kg;
        const int64_t at = run->group * (o.rows ? over(kg * cg, vl) : over(kg, vl) * cg);
        o.spectrum = (cv_fft_spectrum){spectra + at * st->s.w_column, st->prepared_step, 0};
        o.exponent = exponent + run->group * kg;
        forward(run, o, "rows of w");
    }
}
