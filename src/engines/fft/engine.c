/* fft: tiled overlap-save convolution on the CPU. docs/engines/fft.md tells the story; fft.h has the parts. */
#include "fft.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const cv_fft_kernels *cv_fft_kernels_of(cv_isa isa)
{
    static const cv_fft_kernels *const table[] = {&cv_fft_kernels_scalar, &cv_fft_kernels_avx2, &cv_fft_kernels_avx512};
    return table[isa];
}

static const char *refuse(const cv_request *r, char *reason)
{
    const convoy_problem *p = &r->p;
    const int64_t longest = p->r > p->s ? p->r : p->s;
    if (longest > CV_FFT_MAX) {
        snprintf(reason, CV_REASON_BYTES, "the kernel's side is %lld: its tiles reach %d", (long long)longest,
                 CV_FFT_MAX);
        return reason;
    }
    return NULL;
}

static int candidates(const cv_request *r, cv_candidate *list, int capacity) { return cv_fft_list(r, list, capacity); }

static double estimate(const cv_request *r, const cv_candidate *candidate, size_t *workspace_bytes)
{
    cv_fft_shape s;
    if (!cv_fft_shape_make(r, candidate, &s)) {
        *workspace_bytes = SIZE_MAX;
        return HUGE_VAL;
    }
    *workspace_bytes = s.workspace_bytes;
    return cv_fft_cost(r, &s);
}

static size_t lines(size_t floats) { return (floats + 15) / 16 * 16; }

/* Magnitudes that leave 2^120 of room for the largest sum the transforms make, and as much below. */
static void set_range(cv_fft_state *st)
{
    const double terms =
        (double)st->r.cg * (double)(st->r.p.r * st->r.p.s) * pow((double)st->s.tile.tx * st->s.tile.ty, 2) * 16;
    int e = (int)((120 - ceil(log2(terms))) / 2);
    e = e > 40 ? 40 : e < 1 ? 1 : e;
    st->high = ldexpf(1.0f, e);
    st->low = ldexpf(1.0f, -e);
}

static convoy_status create(const cv_request *r, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    cv_fft_shape s;
    *state = NULL;
    if (!cv_fft_shape_make(r, candidate, &s))
        return cv_fail(CONVOY_UNSUPPORTED,
                       "engine fft cannot run candidate ty%dtx%dway%dv%d here: expected 5-smooth sides that hold the "
                       "kernel, and a workspace limit (%zu bytes) that holds a tile of every channel",
                       candidate->v[0], candidate->v[1], candidate->v[2], candidate->v[3], r->workspace_limit);
    const size_t row = cv_fft_line_floats(s.tile.tx), column = cv_fft_line_floats(s.tile.ty);
    const size_t head = (sizeof(cv_fft_state) + 63) & ~(size_t)63; /* whole cache lines, then the tables */
    cv_fft_state *st = cv_state_alloc(r, "fft", head + (row + column) * sizeof(float));
    if (!st)
        return CONVOY_OUT_OF_MEMORY;
    float *tables = (float *)(void *)((char *)st + head);
    st->r = *r;
    st->s = s;
    st->k = cv_fft_kernels_of(r->machine->cpu.isa);
    cv_fft_line_init(&st->s.tile.row, s.tile.tx, tables);
    cv_fft_line_init(&st->s.tile.column, s.tile.ty, tables + row);
    st->half = lines(st->k->half_floats(&st->s.tile));
    st->line = lines(st->k->line_floats(&st->s.tile));
    set_range(st);
    needs->workspace_bytes = s.workspace_bytes;
    needs->bound_kind = 1;
    needs->bound_factor = 4 * log2((double)s.tile.tx * s.tile.ty);
    needs->tile_h = (int)s.tile.ty;
    needs->tile_w = (int)s.tile.tx;

    /* A block of prepared weights: exponents, spectra, and w itself, packed, for outputs that go to the direct sum. */
    const int64_t vl = s.lanes, kg = r->kg, cg = r->cg, g = r->p.groups, k_up = (kg + vl - 1) / vl;
    size_t spectra;
    if (s.way == CV_FFT_LANES_K || s.way == CV_FFT_LANES_T) {
        st->prepared_step = g * (s.way == CV_FFT_LANES_K ? k_up * cg : (kg * cg + vl - 1) / vl) * s.w_column;
        spectra = (size_t)(st->prepared_step * s.tile.ux);
    } else
        spectra = (size_t)((r->p.c + vl - 1) / vl * vl * kg * 2 * s.tile.bins);
    st->spectra_at = lines((size_t)((r->p.c + vl) * kg + r->p.k));
    st->raw_at = st->spectra_at + lines(spectra);
    needs->weights_bytes = (st->raw_at + (size_t)(r->p.k * cg * r->p.r * r->p.s)) * sizeof(float);
    const size_t thread = s.thread_bytes * (size_t)s.threads;
    needs->prepare_bytes = 64 + thread + 2 * (lines((size_t)((kg + vl) * cg + vl)) + lines((size_t)kg)) * sizeof(float);
    *state = st;
    return CONVOY_OK;
}

float *cv_fft_thread_scratch(const cv_fft_run *run, int thread)
{
    return run->scratch + (size_t)thread * (run->st->s.thread_bytes / sizeof(float));
}

double *cv_fft_thread_clock(const cv_fft_run *run, int thread)
{
    return (double *)(void *)((char *)cv_fft_thread_scratch(run, thread + 1) - CV_FFT_CLOCK);
}

static void *take(char **at, size_t bytes)
{
    void *here = *at;
    *at += bytes;
    return here;
}

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    const cv_fft_state *st = state;
    const convoy_problem *p = &st->r.p;
    const size_t lanes = lines((size_t)((st->r.kg + st->s.lanes) * st->r.cg + st->s.lanes));
    cv_fft_run run = {.st = st, .w = w};
    (void)stream;
    memcpy(run.w_stride, p->w_stride, sizeof run.w_stride);
    char *at = scratch;
    run.scratch = take(&at, st->s.thread_bytes * (size_t)st->s.threads);
    run.w_max = take(&at, lanes * sizeof(float));
    run.w_min = take(&at, lanes * sizeof(float));
    run.w_item_max = take(&at, lines((size_t)st->r.kg) * sizeof(float));
    run.w_item_min = take(&at, lines((size_t)st->r.kg) * sizeof(float));
    float *spectra = (float *)weights + st->spectra_at, *raw = (float *)weights + st->raw_at;
    cv_fpenv saved;
    cv_fpenv_enter(&saved);
    if (st->s.way == CV_FFT_LANES_K || st->s.way == CV_FFT_LANES_T)
        cv_fft_dense_prepare(&run, spectra, weights);
    else
        cv_fft_pointwise_prepare(&run, spectra, weights);
    cv_fpenv_leave(&saved);
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t c = 0; c < st->r.cg; c++)
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++)
                    *raw++ = w[k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2] + s * p->w_stride[3]];
    return CONVOY_OK;
}

static convoy_status execute(const void *state, const cv_exec *exec)
{
    const cv_fft_state *st = state;
    const cv_fft_shape *s = &st->s;
    const convoy_problem *p = &st->r.p;
    cv_fft_run run = {.st = st, .x = exec->x, .w = exec->w, .bias = exec->bias, .y = exec->y, .phases = exec->phases};
    memcpy(run.w_stride, p->w_stride, sizeof run.w_stride);
    if (exec->weights) {
        const float *block = exec->weights;
        run.prepared_exponent = exec->weights;
        run.prepared = block + st->spectra_at;
        run.w = block + st->raw_at;
        cv_packed_weights(p, run.w_stride);
    }
    char *at = exec->workspace;
    run.x_spectra = take(&at, s->x_bytes);
    run.w_spectra = take(&at, s->w_bytes);
    run.out_spectra = take(&at, s->out_bytes);
    if (run.prepared)
        run.w_spectra = NULL;
    run.scratch = take(&at, s->thread_bytes * (size_t)s->threads);
    if (s->way == CV_FFT_LANES_K || s->way == CV_FFT_LANES_T) {
        const int64_t vl = s->lanes;
        const size_t tiles = (size_t)((s->tile_chunk + vl - 1) / vl * vl),
                     ks = (size_t)((s->k_chunk + vl - 1) / vl * vl);
        const size_t x_lanes = lines((size_t)(s->depth * (int64_t)tiles + vl)),
                     w_lanes = lines((size_t)(s->depth * (int64_t)ks + vl));
        run.x_max = take(&at, x_lanes * sizeof(float));
        run.w_max = take(&at, w_lanes * sizeof(float));
        run.w_min = take(&at, w_lanes * sizeof(float));
        run.x_item_max = take(&at, lines(tiles) * sizeof(float));
        run.w_item_max = take(&at, lines(ks) * sizeof(float));
        run.w_item_min = take(&at, lines(ks) * sizeof(float));
        run.x_exponent = take(&at, lines(tiles) * sizeof(float));
        run.w_exponent = take(&at, lines(ks) * sizeof(float));
        cv_fft_dense(&run);
    } else {
        run.w_exponent = (int32_t *)at;
        cv_fft_pointwise(&run);
    }
    return CONVOY_OK;
}

const cv_engine cv_engine_fft = {
    .name = "fft",
    .about = "tiled overlap-save FFT convolution: vector lanes carry channels or tiles",
    .revision = 2,
    .device = CONVOY_CPU,
    .traits = CV_IS_TRANSFORM | CV_PREPARES,
    .candidate_keys = "ty tx way v",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = cv_state_free,
    .prepare = prepare,
    .execute = execute,
};
