/* The pointwise ways: every output channel reads one input channel, so a lane group goes through rows, columns,
 * product, inverse columns and inverse rows at once, in two half-spectra that live in L2. */
#include "fft.h"

#include <math.h>

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* A chunk of channel units: VL channels (POINT_C) or one (POINT_T). */
typedef struct chunk {
    cv_fft_run *run;
    int64_t unit0, units;
    float *spectra;    /* of the chunk's kernels, unit by unit */
    int32_t *exponent; /* of its output channels, from unit0's first on */
} chunk;

static int by_channel(const cv_fft_run *run) { return run->st->s.way == CV_FFT_POINT_C; }

/* Floats of spectra of a unit: kg kernels of all its channels. */
static int64_t unit_floats(const cv_fft_run *run)
{
    return run->st->s.tile.bins * 2 * run->st->r.kg * (by_channel(run) ? run->st->s.lanes : 1);
}

static int64_t unit_channels(const cv_fft_run *run) { return by_channel(run) ? run->st->s.lanes : 1; }

/* Rows of a load, again with exact powers of two when a lane's magnitude asks for them. */
static void rows_guarded(const cv_fft_run *run, cv_fft_load *load, int kernels, float *half, float *line,
                         int32_t *exponent)
{
    const cv_fft_state *st = run->st;
    float scale[CV_FFT_LANES];
    int scaled = 0;
    cv_fft_load_end(run, kernels, load);
    st->k->rows_forward(&st->s.tile, load, kernels, half, line);
    for (int l = 0; l < load->lanes; l++) {
        exponent[l] =
            kernels ? cv_fft_kernel_exponent(st, load->max[l], load->min[l]) : cv_fft_exponent(st, load->max[l]);
        const int want = exponent[l] != 0 && exponent[l] != CV_FFT_DIRECT;
        scale[l] = want ? ldexpf(1.0f, -exponent[l]) : 1.0f;
        scaled |= want;
    }
    if (scaled) {
        load->scale = scale;
        st->k->rows_forward(&st->s.tile, load, kernels, half, line);
    }
}

/* Kernels of unit u, multiple m: lanes are the unit's channels; POINT_T: lanes are output channels k0, k0 + 1, ... */
static void kernel_task(void *user, int64_t task, int thread)
{
    const chunk *ch = user;
    const cv_fft_run *run = ch->run;
    const cv_fft_state *st = run->st;
    const int64_t kg = st->r.kg, vl = st->s.lanes, bins = st->s.tile.bins;
    float *half = cv_fft_thread_scratch(run, thread), *other = half + st->half, *line = other + st->half;
    cv_fft_load load;
    int32_t exponent[CV_FFT_LANES];
    cv_fft_load_begin(run, 1, &load);
    if (by_channel(run)) {
        const int64_t unit = task / kg, m = task % kg, c0 = (ch->unit0 + unit) * vl, n = least(vl, st->r.p.c - c0);
        for (load.lanes = 0; load.lanes < n; load.lanes++)
            cv_fft_kernel_source(run, (c0 + load.lanes) * kg + m, 0, &load.lane[load.lanes]);
        rows_guarded(run, &load, 1, half, line, exponent);
        const cv_fft_spectrum out = {ch->spectra + unit * unit_floats(run) + m * bins * 2 * vl, st->s.tile.ty * 2 * vl,
                                     0};
        st->k->columns_forward(&st->s.tile, half, load.rows, 1, out, line);
        for (int64_t l = 0; l < n; l++)
            ch->exponent[(unit * vl + l) * kg + m] = exponent[l];
        return;
    }
    const int64_t first = task * vl, n = least(vl, ch->units * kg - first);
    for (load.lanes = 0; load.lanes < n; load.lanes++)
        cv_fft_kernel_source(run, ch->unit0 * kg + first + load.lanes, 0, &load.lane[load.lanes]);
    rows_guarded(run, &load, 1, half, line, exponent);
    const cv_fft_spectrum out = {other, st->s.tile.ty * 2 * vl, 0};
    st->k->columns_forward(&st->s.tile, half, load.rows, 1, out, line);
    for (int64_t l = 0; l < n; l++) {
        float *to = ch->spectra + (first + l) * bins * 2;
        for (int64_t b = 0; b < bins; b++) {
            to[2 * b] = other[b * 2 * vl + l];
            to[2 * b + 1] = other[b * 2 * vl + vl + l];
        }
        ch->exponent[first + l] = exponent[l];
    }
}

static void transform_kernels(chunk *ch)
{
    const cv_fft_run *run = ch->run;
    const int64_t kg = run->st->r.kg;
    cv_pool_run(run->st->r.machine->pool, by_channel(run) ? ch->units * kg : over(ch->units * kg, run->st->s.lanes),
                kernel_task, ch);
}

typedef struct group {
    int64_t lanes, unit, tile[CV_FFT_LANES], channel[CV_FFT_LANES];
} group;

static void group_of(const chunk *ch, int64_t task, group *g)
{
    const cv_fft_run *run = ch->run;
    const int64_t vl = run->st->s.lanes, tiles = run->st->s.tiles;
    const int by_c = by_channel(run);
    const int64_t per_unit = by_c ? tiles : over(tiles, vl), at = task % per_unit;
    g->unit = task / per_unit;
    const int64_t c0 = (ch->unit0 + g->unit) * unit_channels(run);
    g->lanes = by_c ? least(vl, run->st->r.p.c - c0) : least(vl, tiles - at * vl);
    for (int64_t l = 0; l < g->lanes; l++) {
        g->tile[l] = by_c ? at : at * vl + l;
        g->channel[l] = by_c ? c0 + l : c0;
    }
}

static void point_task(void *user, int64_t task, int thread)
{
    const chunk *ch = user;
    const cv_fft_run *run = ch->run;
    const cv_fft_state *st = run->st;
    const int64_t kg = st->r.kg;
    const int by_c = by_channel(run);
    float *half = cv_fft_thread_scratch(run, thread), *other = half + st->half, *line = other + st->half;
    int32_t x_exponent[CV_FFT_LANES], w_exponent[CV_FFT_LANES];
    group g;
    group_of(ch, task, &g);
    cv_fft_load load, kernel;
    cv_fft_load_begin(run, 0, &load);
    for (load.lanes = 0; load.lanes < g.lanes; load.lanes++)
        cv_fft_tile_source(run, g.tile[load.lanes], g.channel[load.lanes], &load.lane[load.lanes]);
    rows_guarded(run, &load, 0, half, line, x_exponent);
    for (int64_t m = 0; m < kg; m++) {
        const float *factor;
        int factor_rows = 0;
        cv_fft_factor kind = by_c ? CV_FFT_LANEWISE : CV_FFT_SHARED;
        float *out = kg > 1 ? other : half;
        if (st->s.w_rows) { /* one tile and one kernel a channel */
            cv_fft_load_begin(run, 1, &kernel);
            for (kernel.lanes = 0; kernel.lanes < g.lanes; kernel.lanes++)
                cv_fft_kernel_source(run, g.channel[kernel.lanes], 0, &kernel.lane[kernel.lanes]);
            rows_guarded(run, &kernel, 1, other, line, w_exponent);
            factor = other, factor_rows = kernel.rows, kind = CV_FFT_ROWS;
        } else {
            factor = ch->spectra + g.unit * unit_floats(run) + m * st->s.tile.bins * 2 * (by_c ? st->s.lanes : 1);
            for (int64_t l = 0; l < g.lanes; l++)
                w_exponent[l] = ch->exponent[(g.channel[l] - ch->unit0 * unit_channels(run)) * kg + m];
        }
        st->k->columns_pointwise(&st->s.tile, half, load.rows, kind, factor, factor_rows, out, line);
        cv_fft_store store = {.lanes = (int)g.lanes};
        for (int64_t l = 0; l < g.lanes; l++) {
            cv_fft_tile_sink(run, g.tile[l], g.channel[l] * kg + m, &store.lane[l], &store);
            cv_fft_sink_scale(st, x_exponent[l], w_exponent[l], &store.lane[l]);
        }
        st->k->rows_inverse(&st->s.tile, out, &store, line);
        for (int64_t l = 0; l < g.lanes; l++)
            if (x_exponent[l] == CV_FFT_DIRECT || w_exponent[l] == CV_FFT_DIRECT)
                cv_fft_direct(run, g.tile[l], g.channel[l] * kg + m);
    }
}

void cv_fft_pointwise(cv_fft_run *run)
{
    const cv_fft_state *st = run->st;
    const cv_fft_tile *t = &st->s.tile;
    const int64_t vl = st->s.lanes, kg = st->r.kg, all = over(st->r.p.c, unit_channels(run));
    for (int64_t first = 0; first < all; first += st->s.c_chunk) {
        chunk ch = {run, first, least(st->s.c_chunk, all - first), run->w_spectra, run->w_exponent};
        const double start = cv_now_s();
        if (run->prepared) {
            ch.spectra = (float *)run->prepared + first * unit_floats(run);
            ch.exponent = (int32_t *)run->prepared_exponent + first * unit_channels(run) * kg;
        } else if (!st->s.w_rows)
            transform_kernels(&ch);
        const double middle = cv_now_s();
        cv_pool_run(st->r.machine->pool, ch.units * (by_channel(run) ? st->s.tiles : over(st->s.tiles, vl)), point_task,
                    &ch);
        if (run->phases) {
            const double taps = (double)(st->r.p.r * st->r.p.s), row = cv_fft_line_flop(&t->row),
                         column = cv_fft_line_flop(&t->column) * t->ux;
            const double channels =
                (double)least(ch.units * unit_channels(run), st->r.p.c - first * unit_channels(run));
            const double kernels = channels * (double)kg, points = channels * (double)st->s.tiles;
            const double w_flop = kernels * (((double)st->r.p.r + 1) / 2 * row + column);
            if (!run->prepared && !st->s.w_rows)
                cv_phase_add(run->phases, "forward w", middle - start, kernels * (4 * taps + 8 * (double)t->bins),
                             w_flop);
            const double in = (double)least((int64_t)t->ty * t->tx, st->r.p.h * st->r.p.w),
                         out = (double)(st->s.y.step * st->s.x.step);
            cv_phase_add(run->phases, "tiles", cv_now_s() - middle,
                         points * 4 * (in + (double)kg * out) + (st->s.w_rows ? kernels * 4 * taps : 0),
                         points * (t->ty / 2 * row +
                                   (double)kg * (2 * column + 6.0 * (double)t->bins + (st->s.y.step + 1) / 2 * row)) +
                             (st->s.w_rows ? w_flop : 0));
        }
    }
}

void cv_fft_pointwise_prepare(cv_fft_run *run, float *spectra, int32_t *exponent)
{
    chunk ch = {run, 0, over(run->st->r.p.c, unit_channels(run)), spectra, exponent};
    transform_kernels(&ch);
}
