/* From a candidate to sizes: tiles, chunks and workspace. */
#include "fft.h"

#include <string.h>

static double least(double a, double b) { return a < b ? a : b; }
static int64_t fewer(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t up(int64_t a, int64_t b) { return over(a, b) * b; }

static size_t line_bytes(int64_t floats) { return (size_t)up(floats, 16) * sizeof(float); }

static int64_t divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int axis_make(cv_fft_axis *a, int tile, int64_t stride, int64_t dil)
{
    const int64_t common = divisor(stride, dil);
    a->dil = dil, a->phases = dil / common, a->stride = stride / common;
    const int64_t room = tile - a->taps + 1;
    if (room < a->stride)
        return 0;
    a->tile = tile;
    a->step = (int)(room / a->stride * a->stride);                       /* tiles start on outputs that are kept */
    const int64_t outs = (over(a->outs, a->phases) - 1) * a->stride + 1; /* of phase 0, the longest */
    if (outs < a->step)
        a->step = (int)up(outs, a->stride);
    a->tiles = over(outs, a->step);
    a->cut = 0;
    a->x_step = a->x_unit * a->dil;
    a->y_step = a->y_unit * a->phases;
    if (a->tiles == 1) {
        cv_fft_span span; /* later phases start further into the image, so the last one has least to cut */
        cv_fft_span_of(a, fewer(a->phases, a->outs) - 1, 0, &span);
        a->cut = span.lo;
    }
    return 1;
}

/* What cv_fft_bins keeps in a thread's scratch: w's columns, for half of L2, panels, for L3, and sums, for the rest of
 * L2; less when the workspace limit is low. With output channels in the lanes, panels of all channels let a column's
 * sums be finished at once; where that would have w's columns transformed twice as often, sums wait in place. */
static size_t block_sizes(const cv_request *r, cv_fft_shape *s, const cv_fft_kernels *kernels)
{
    const int64_t vl = s->lanes, block = vl >= 2 ? vl / 2 : 1, column = cv_fft_column_floats(&s->tile, s->lanes);
    const int64_t room = (int64_t)(r->workspace_limit / 64) / s->threads; /* floats, a sixteenth of the limit */
    const int64_t l2 = (int64_t)r->machine->cpu.l2_bytes / 4, l3 = (int64_t)r->machine->cpu.l3_bytes / 4;
    const int64_t columns = fewer(l2 * 11 / 20, (int64_t)(r->workspace_limit / 128)) / column;
    const int64_t panels = fewer(l3 / 8, room);
    const int by_k = s->way == CV_FFT_LANES_K;
    const int64_t items = by_k ? s->tiles : r->kg;
    if (by_k) {
        const int64_t units = over(r->cg, vl), most = columns < vl ? 1 : fewer(columns, CV_FFT_DEPTH) / vl;
        s->block_depth = fewer(over(units, over(units, most)) * vl, r->cg);
    } else
        s->block_depth = over(r->cg, over(r->cg, CV_FFT_DEPTH));
    const int64_t panel = s->tile.ty * (int64_t)kernels->panel_floats(block, s->block_depth);
    const int64_t depths = by_k ? over(r->cg, s->block_depth) : 1, sums = fewer(l2 / 2, room) / (column * block);
    int64_t blocks = panels / panel, whole = fewer(blocks / depths, sums);
    if (!by_k) {
        blocks = fewer(blocks, fewer(columns, room / column) * vl / (r->cg * block));
        whole = fewer(blocks, sums);
    }
    s->panel_depth = r->cg;
    if (by_k && over(items, (whole < 1 ? 1 : whole) * block) > 2 * over(items, (blocks < 1 ? 1 : blocks) * block)) {
        s->panel_depth = s->block_depth;
        s->in_place = depths > 1;
    } else
        blocks = whole;
    s->block_rows = fewer(blocks < 1 ? block : blocks * block, items);
    s->block_columns = by_k ? s->block_depth : s->block_rows * r->cg / vl + 2;
    const int64_t groups = by_k || s->block_rows < 1 ? 1 : l2 / 2 / (s->block_rows * column);
    s->block_groups = groups <= 1 ? 1 : fewer(groups, over(s->tiles, vl));
    return line_bytes(s->block_columns * column) + line_bytes(s->block_rows * s->block_groups * column) +
           line_bytes((by_k ? over(s->panel_depth, s->block_depth) : 1) * s->tile.ty *
                      (int64_t)kernels->panel_floats(s->block_rows, s->block_depth));
}

/* The dense ways work on chunks of tiles, output channels and input channels: all at once when that fits, else the
 * chunks for which least is transformed again. With all input channels in one chunk, what the outer loop transforms
 * serves the whole inner loop; with several, x and w are transformed for every pair of chunks. */
static int dense_chunks(const cv_request *r, cv_fft_shape *s, size_t fixed)
{
    const int64_t vl = s->lanes, cg = r->cg, kg = r->kg;
    const int by_k = s->way == CV_FFT_LANES_K;
    const int64_t t_unit = by_k ? 1 : vl, k_unit = by_k ? vl : 1;
    const int64_t t_units = over(s->tiles, t_unit), k_units = over(kg, k_unit);
    /* Bytes of a channel of a unit's spectra, and of a pair of units' results. */
    const double unit = (double)s->tile.ux * (double)(s->tile.ty | 1) * 2 * (double)sizeof(float);
    const double x1 = unit * (double)t_unit, o1 = unit * (double)vl;
    const double w1 = r->prepared ? 0 : (double)(s->tile.ux * r->p.r * 2 * k_unit) * (double)sizeof(float);
    const double room = (double)r->workspace_limit - (double)fixed - unit * 2 * (double)vl - 8192;
    const double points = (double)s->tile.ty * s->tile.tx, taps = (double)(r->p.r * r->p.s);
    const double x_cost = (double)s->tiles * (points + points / 2), w_cost = (double)kg * (points + taps / 2);
    /* For every chunk of the other's, x's rows are packed (or read) and w's columns transformed once more. */
    const double x_again = 0.4 * (double)s->tiles * points, w_again = 0.4 * (double)kg * points;
    double best = -1;
    for (int64_t kn = 1, last_k = 0; kn <= k_units; kn = kn < 8 ? kn + 1 : kn * 2) {
        const int64_t kc = over(k_units, kn);
        if (kc == last_k)
            continue;
        last_k = kc;
        for (int64_t tn = 1, last_t = 0; tn <= t_units; tn = tn < 8 ? tn + 1 : tn * 2) {
            const int64_t tc = over(t_units, tn);
            if (tc == last_t)
                continue;
            last_t = tc;
            const double lanes = (double)(tc * t_unit + kc * k_unit * 2) * 4; /* of the guards, a channel */
            const double left = room - (double)(tc * kc) * o1 - (double)(tc * t_unit + kc * k_unit) * 12;
            const double each = (double)tc * x1 + (double)kc * w1 + lanes;
            if (left < each)
                continue;
            const int64_t c = fewer(cg, (int64_t)(left / each)), parts = over(cg, c), depth = over(cg, parts);
            const double t_times = (double)over(t_units, tc), k_times = (double)over(k_units, kc);
            const double again = parts > 1 ? x_cost * k_times + w_cost * t_times
                                           : least(x_cost + w_cost * (k_times > 1 ? t_times : 1),
                                                   x_cost * (t_times > 1 ? k_times : 1) + w_cost) +
                                                 x_again * (k_times - 1) + w_again * (t_times - 1);
            /* A product of few channels is mostly reading and writing results. */
            const double product = (double)(s->tiles * kg) * (double)cg * points * 0.04;
            const double cost = again + product * (parts > 1 ? 1 + 2 / (double)depth : 1);
            if (best < 0 || cost < best * 0.999) {
                best = cost;
                s->tile_chunk = fewer(s->tiles, tc * t_unit);
                s->k_chunk = fewer(kg, kc * k_unit);
                s->depth = depth;
                s->k_outer =
                    parts == 1 && k_times > 1 && t_times > 1 && x_cost * (k_times - 1) < w_cost * (t_times - 1);
            }
            if (c == cg)
                break; /* fewer tiles at a time gain nothing */
        }
    }
    return best >= 0;
}

static void dense_sizes(const cv_request *r, cv_fft_shape *s)
{
    const int64_t vl = s->lanes, ux = s->tile.ux;
    const int by_k = s->way == CV_FFT_LANES_K;
    const int64_t rows = by_k ? s->tile_chunk : s->k_chunk, groups = over(by_k ? s->k_chunk : s->tile_chunk, vl);
    const int64_t tiles = up(s->tile_chunk, vl), ks = up(s->k_chunk, vl);
    s->column = cv_fft_column_floats(&s->tile, s->lanes);
    s->w_column = r->p.r * 2 * vl;
    const int64_t row_groups = over(rows * s->depth, vl), vector_groups = groups * s->depth;
    s->x_step = (by_k ? row_groups : vector_groups) * s->column;
    s->w_step = (by_k ? vector_groups : row_groups) * s->w_column;
    s->x_bytes = line_bytes(ux * s->x_step);
    s->w_bytes = r->prepared ? 0 : line_bytes(ux * s->w_step);
    s->in_place |= s->depth < r->cg;
    s->out_rows = s->y.step / s->y.stride;
    s->out_column = s->in_place ? s->column : (s->out_rows | 1) * 2 * vl;
    s->out_group = ux * s->out_column;
    s->out_bytes = line_bytes(rows * groups * s->out_group);
    s->stream = s->x_bytes + s->w_bytes + s->out_bytes > r->machine->cpu.l3_bytes;
    s->w_stream = s->w_bytes > r->machine->cpu.l3_bytes / 2;
    s->guard_bytes = line_bytes(tiles * s->depth + vl) + 2 * line_bytes(ks * s->depth + vl) + 2 * line_bytes(tiles) +
                     3 * line_bytes(ks);
}

/* Pointwise: only w's spectra are kept, for as many channels as fit. */
static int pointwise_chunks(const cv_request *r, cv_fft_shape *s, size_t fixed)
{
    const int64_t vl = s->lanes, c = r->p.c;
    const int by_c = s->way == CV_FFT_POINT_C;
    const int64_t units = by_c ? over(c, vl) : c;
    const double per =
        (double)s->tile.bins * 2 * (double)(by_c ? vl : 1) * (double)r->kg * 4 + (double)(vl * r->kg * 4);
    s->w_rows = by_c && !r->prepared && s->tiles == 1 && r->kg == 1;
    s->c_chunk = units;
    if (!r->prepared && !s->w_rows) {
        const double fit = ((double)r->workspace_limit - (double)fixed - 4096) / per;
        if (fit < 1)
            return 0;
        const int64_t chunks = over(units, fit < (double)units ? (int64_t)fit : units);
        s->c_chunk = over(units, chunks);
    }
    const int64_t values = s->c_chunk * (by_c ? vl : 1) * r->kg; /* kernels */
    s->w_bytes = r->prepared || s->w_rows ? 0 : line_bytes(values * s->tile.bins * 2);
    s->guard_bytes = line_bytes(values + vl);
    return 1;
}

int cv_fft_shape_make(const cv_request *r, const cv_candidate *candidate, cv_fft_shape *s)
{
    const convoy_problem *p = &r->p;
    memset(s, 0, sizeof *s);
    s->way = candidate->v[2];
    s->lanes = candidate->v[3];
    const cv_fft_kernels *kernels = cv_fft_kernels_of(r->machine->cpu.isa);
    const int ty = candidate->v[0], tx = candidate->v[1];
    if (s->lanes != kernels->lanes || s->way < 0 || s->way >= CV_FFT_WAYS || !cv_fft_line_has(ty) ||
        !cv_fft_line_has(tx))
        return 0;
    const int point = s->way == CV_FFT_POINT_C || s->way == CV_FFT_POINT_T;
    if (point && r->cg != 1)
        return 0;
    s->tile.ty = ty, s->tile.tx = tx;
    s->tile.ux = tx / 2 + 1;
    s->tile.bins = (int64_t)ty * s->tile.ux;
    s->y = (cv_fft_axis){
        .in = p->h, .taps = p->r, .outs = r->P, .pad = p->pad_t, .x_unit = p->x_stride[2], .y_unit = p->y_stride[2]};
    s->x = (cv_fft_axis){
        .in = p->w, .taps = p->s, .outs = r->Q, .pad = p->pad_l, .x_unit = p->x_stride[3], .y_unit = p->y_stride[3]};
    if (!axis_make(&s->y, ty, p->stride_h, p->dil_h) || !axis_make(&s->x, tx, p->stride_w, p->dil_w))
        return 0;
    s->images = p->n * s->y.phases * s->x.phases;
    s->tiles = s->images * s->y.tiles * s->x.tiles;
    s->threads = r->machine->threads;
    const int64_t half = (int64_t)kernels->half_floats(&s->tile), line = (int64_t)kernels->line_floats(&s->tile);
    s->thread_bytes = line_bytes(half) * (point ? 2 : 1) + line_bytes(line) + CV_FFT_CLOCK;
    if (!point)
        s->thread_bytes += block_sizes(r, s, kernels);
    const size_t fixed = s->thread_bytes * (size_t)s->threads + 64;
    if (fixed > r->workspace_limit)
        return 0;
    if (point ? !pointwise_chunks(r, s, fixed) : !dense_chunks(r, s, fixed))
        return 0;
    /* Prepared weights count against no limit, but their bytes must be a number. */
    if (r->prepared && (double)(p->k + s->lanes) * (double)(r->cg + s->lanes) * (double)s->tile.bins * 8 > 0x1p60)
        return 0;
    if (!point)
        dense_sizes(r, s);
    s->workspace_bytes = fixed + s->x_bytes + s->w_bytes + s->out_bytes + s->guard_bytes;
    return s->workspace_bytes <= r->workspace_limit;
}
