/* The dense ways: spectra of a chunk of tiles, spectra of a chunk of kernels, the product in every bin, the inverse. */
#include "fft.h"

#include <math.h>

/* One operand of the product as lane groups. rows: flat items*cg values, VL at a time; else cg vectors for every VL
 * items. */
typedef struct operand {
    int kernels, rows;
    int64_t items, cg, first; /* first: item 0's tile or output channel */
    cv_fft_spectrum spectrum; /* of lane group 0 */
    int64_t group_floats;     /* rows: VL; vectors: 2*VL */
    float *max, *min;         /* [lane group][lane] */
    const int32_t *exponent;  /* [item]; used when redoing */
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
    const int rows = s->way == CV_FFT_LANES_K;
    const cv_fft_spectrum at = rows ? (cv_fft_spectrum){run->x_spectra, s->row_step, s->row_imaginary}
                                    : (cv_fft_spectrum){run->x_spectra, s->vector_step, s->lanes};
    return (operand){0,          rows, run->tiles,     run->st->r.cg, run->tile0, at, rows ? s->lanes : 2 * s->lanes,
                     run->x_max, NULL, run->x_exponent};
}

static operand w_operand(const cv_fft_run *run)
{
    const cv_fft_shape *s = &run->st->s;
    const int rows = s->way != CV_FFT_LANES_K;
    const cv_fft_spectrum at = rows ? (cv_fft_spectrum){run->w_spectra, s->row_step, s->row_imaginary}
                                    : (cv_fft_spectrum){run->w_spectra, s->vector_step, s->lanes};
    return (operand){1,          rows,       run->ks,        run->st->r.cg, run->k0, at, rows ? s->lanes : 2 * s->lanes,
                     run->w_max, run->w_min, run->w_exponent};
}

typedef struct forward_job {
    const cv_fft_run *run;
    operand o;
    int64_t together; /* lane groups a task takes */
} forward_job;

static void forward_group(const cv_fft_run *run, const operand *o, int64_t group, float *scratch)
{
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
            cv_fft_kernel_source(run, o->first + item, c, &load.lane[l]);
        else
            cv_fft_tile_source(run, o->first + item, run->group * o->cg + c, &load.lane[l]);
        const int32_t e = run->redo ? o->exponent[item] : 0;
        scale[l] = e == 0 || e == CV_FFT_DIRECT ? 1.0f : ldexpf(1.0f, -e);
        scaled |= scale[l] != 1.0f;
        load.lanes++;
    }
    if (run->redo && !scaled)
        return;
    load.scale = run->redo ? scale : NULL;
    cv_fft_load_end(run, o->kernels, &load);
    st->k->rows_forward(&st->s.tile, &load, o->kernels, scratch, scratch + st->half);
    cv_fft_spectrum out = o->spectrum;
    out.at += group * o->group_floats;
    st->k->columns_forward(&st->s.tile, scratch, load.rows, o->kernels, st->s.lanes == 16, out, scratch + st->half);
    if (!run->redo)
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
        forward_group(job->run, &job->o, g, cv_fft_thread_scratch(job->run, thread));
}

/* Exponents of all items from the lanes' magnitudes; returns how many items want a scale. */
static int64_t judge(const cv_fft_run *run, const operand *o, int32_t *exponent)
{
    const int64_t vl = run->st->s.lanes;
    int64_t scaled = 0;
    for (int64_t item = 0; item < o->items; item++) {
        float max = 0, min = INFINITY;
        for (int64_t c = 0; c < o->cg; c++) {
            const int64_t flat = item * o->cg + c, at = o->rows ? flat : (item / vl * o->cg + c) * vl + item % vl;
            const float m = o->max[at];
            max = m > max || m != m ? m : max; /* a NaN stays: no later m is greater, and NaN again is NaN */
            if (o->min && o->min[at] < min)
                min = o->min[at];
        }
        exponent[item] = o->kernels ? cv_fft_kernel_exponent(run->st, max, min) : cv_fft_exponent(run->st, max);
        scaled += exponent[item] != 0 && exponent[item] != CV_FFT_DIRECT;
    }
    return scaled;
}

/* Optimistic: everything as it is first; the few items whose magnitudes threaten overflow or underflow again, scaled.
 */
static void forward(cv_fft_run *run, operand o, int32_t *exponent, const char *phase)
{
    const cv_fft_state *st = run->st;
    const double start = cv_now_s();
    const int64_t groups = operand_groups(run, &o);
    forward_job job = {run, o, groups > 64 * st->s.threads ? 4 : 1};
    run->redo = 0;
    cv_pool_run(st->r.machine->pool, over(groups, job.together), forward_task, &job);
    if (judge(run, &o, exponent) > 0) {
        run->redo = 1;
        cv_pool_run(st->r.machine->pool, over(groups, job.together), forward_task, &job);
        run->redo = 0;
    }
    if (run->phases) {
        const double points = (double)(o.items * o.cg), bins = (double)st->s.tile.bins;
        const double in = o.kernels ? (double)(st->s.y.taps * st->s.x.taps) : (double)(st->s.tile.ty * st->s.tile.tx);
        const int rows = o.kernels ? (int)st->s.y.taps : st->s.tile.ty;
        const double flop =
            ((rows + 1) / 2 * cv_fft_line_ops(st->s.tile.tx) + st->s.tile.ux * cv_fft_line_ops(st->s.tile.ty)) * points;
        cv_phase_add(run->phases, phase, cv_now_s() - start, points * (4 * in + 8 * bins), flop);
    }
}

typedef struct product_job {
    const cv_fft_run *run;
    cv_fft_product product;
    int64_t together;
} product_job;

static void product_task(void *user, int64_t task, int thread)
{
    const product_job *job = user;
    const cv_fft_state *st = job->run->st;
    const int64_t first = task * job->together, last = first + job->together;
    st->k->product(&job->product, first, last < st->s.tile.bins ? last : st->s.tile.bins,
                   cv_fft_thread_scratch(job->run, thread) + st->half + st->line);
}

static void product(cv_fft_run *run)
{
    const cv_fft_state *st = run->st;
    const cv_fft_shape *s = &st->s;
    const int64_t vl = s->lanes, cg = st->r.cg;
    const int by_k = s->way == CV_FFT_LANES_K;
    const double start = cv_now_s();
    cv_fft_product f = {.rows = by_k ? run->tiles : run->ks,
                        .groups = over(by_k ? run->ks : run->tiles, vl),
                        .depth = cg,
                        .row = by_k ? run->x_spectra : run->w_spectra,
                        .row_step = s->row_step,
                        .row_imaginary = s->row_imaginary,
                        .row_pitch = cg,
                        .vector = by_k ? run->w_spectra : run->x_spectra,
                        .vector_step = s->vector_step,
                        .vector_pitch = cg * 2 * vl,
                        .out = run->out_spectra,
                        .out_step = s->out_step,
                        .l2_bytes = st->r.machine->cpu.l2_bytes};
    f.out_pitch = f.groups * 2 * vl;
    if (run->prepared) { /* whole: all groups, all output channels */
        const int64_t k = run->k0 - run->group * st->r.kg;
        if (by_k) {
            f.vector_step = st->prepared_step;
            f.vector = run->prepared + (run->group * over(st->r.kg, vl) + k / vl) * cg * 2 * vl;
        } else {
            f.row_step = st->prepared_step;
            f.row_imaginary = st->prepared_imaginary;
            f.row = run->prepared + run->group * over(st->r.kg * cg, vl) * vl + k * cg;
        }
    }
    const double per_bin = (double)(f.rows * f.groups) * (double)cg;
    product_job job = {run, f, per_bin > 20000 ? 1 : per_bin > 2000 ? 4 : 32};
    cv_pool_run(st->r.machine->pool, over(s->tile.bins, job.together), product_task, &job);
    if (run->phases) {
        const double rows = (double)f.rows, lanes = (double)(by_k ? run->ks : run->tiles), bins = (double)s->tile.bins;
        cv_phase_add(run->phases, "product", cv_now_s() - start,
                     8 * bins * (rows * (double)cg + lanes * (double)cg + rows * lanes),
                     6 * bins * rows * lanes * (double)cg);
    }
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
    const cv_fft_spectrum in = {run->out_spectra + (row * groups + g) * 2 * vl, st->s.out_step, vl};
    st->k->columns_inverse(&st->s.tile, in, scratch, scratch + st->half);
    st->k->rows_inverse(&st->s.tile, scratch, &store, scratch + st->half);
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
        cv_phase_add(run->phases, "inverse", cv_now_s() - start,
                     points * (8.0 * (double)t->bins + 4.0 * st->s.y.step * st->s.x.step),
                     points * (t->ux * cv_fft_line_ops(t->ty) + (st->s.y.step + 1) / 2 * cv_fft_line_ops(t->tx)));
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

static void forward_x(cv_fft_run *run) { forward(run, x_operand(run), run->x_exponent, "forward x"); }

static void forward_w(cv_fft_run *run)
{
    if (!run->prepared)
        forward(run, w_operand(run), run->w_exponent, "forward w");
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
                if (j == 0 || s->k_outer)
                    forward_x(run);
                if (j == 0 || !s->k_outer)
                    forward_w(run);
                product(run);
                inverse(run);
                direct(run);
            }
}

/* Spectra of all kernels: [bin][group][VL channels][c] vectors, or two planes of rows. */
void cv_fft_dense_prepare(cv_fft_run *run, float *spectra, int32_t *exponent)
{
    const cv_fft_state *st = run->st;
    const int64_t kg = st->r.kg, cg = st->r.cg, vl = st->s.lanes, groups = st->r.p.groups;
    run->redo = 0;
    for (run->group = 0; run->group < groups; run->group++) {
        operand o = w_operand(run);
        o.items = kg;
        o.first = run->group * kg;
        const int64_t at = run->group * (o.rows ? over(kg * cg, vl) * vl : over(kg, vl) * cg * 2 * vl);
        o.spectrum = (cv_fft_spectrum){spectra + at, st->prepared_step, o.rows ? st->prepared_imaginary : vl};
        o.exponent = exponent + run->group * kg;
        forward(run, o, exponent + run->group * kg, "forward w");
    }
}
