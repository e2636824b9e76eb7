/* Which tiles to consider, and what they will cost. */
#include "fft.h"

#include <math.h>

enum { SIDES = 20, KEPT = 64 };

static double least(double a, double b) { return a < b ? a : b; }
static double over(int64_t a, int64_t b) { return (double)((a + b - 1) / b); }

/* The model counts slots: times in which a core can issue one vector multiply-add (a cycle, with 16 lanes on Zen 4).
 * The constants were measured there, one thread, data in L2; traffic to memory is added at the machine's measured rate.
 */
enum {
    LINE = 30,   /* a line's call, beside its passes */
    BLOCK = 130, /* loading or storing a VL x VL block: transposition, range scan, cache misses */
    LANE = 90,   /* finding where one lane's data lie */
    CALL = 60,   /* a register tile of the product, beside its steps */
    PACK = 170,  /* packing half a block of rows by VL channels */
    MISS = 5,    /* a cache line from memory */
    NEAR = 1     /* a cache line from L2 or L3 while there is other work */
};

static double at_least(double a, double b) { return a > b ? a : b; }

/* Rows of a lane group, in pairs, between tensor and half-spectrum: `rows` of `columns` elements. */
static double row_slots(const cv_fft_shape *s, double rows, double columns)
{
    const double vl = s->lanes, blocks = (double)(int64_t)((columns + vl - 1) / vl);
    return (rows + 1) / 2 * (cv_fft_line_cycles(s->tile.tx) + LINE + 5 * s->tile.ux + 2 * BLOCK * blocks * vl / 16);
}

static double column_slots(const cv_fft_shape *s) { return s->tile.ux * (cv_fft_line_cycles(s->tile.ty) + LINE); }

/* Half-spectra that leave L2 come back from the next cache; several large ones displace each other there too. */
static double spill_slots(const cv_request *r, const cv_fft_shape *s, double halves)
{
    const double bytes = (double)s->tile.bins * 8 * s->lanes, l2 = (double)r->machine->cpu.l2_bytes;
    return halves * bytes > 0.9 * l2 ? bytes / 64 * (halves > 1 && halves * bytes > 3.5 * l2 ? 12 : 4) : 0;
}

/* Products and w's columns, over all chunks: see bins.c. */
static double bins_slots(const cv_request *r, const cv_fft_shape *s)
{
    const int by_k = s->way == CV_FFT_LANES_K;
    const double vl = s->lanes, block = vl >= 2 ? vl / 2 : 1, cg = (double)r->cg, kg = (double)r->kg;
    const double t_chunks = over(s->tiles, s->tile_chunk), k_chunks = over(kg > 0 ? r->kg : 1, s->k_chunk);
    const double bins = (double)s->tile.bins, taps = (double)r->p.r, parts = over(r->cg, s->depth);
    const int64_t items = by_k ? s->tile_chunk : s->k_chunk, lanes = by_k ? s->k_chunk : s->tile_chunk;
    const double rows = (double)items * (by_k ? (double)s->tiles / (double)s->tile_chunk / t_chunks
                                              : kg / (double)s->k_chunk / k_chunks);
    const double groups = over(lanes, s->lanes), passes = over(items, s->block_rows);
    const double blocks = passes * ceil(rows / passes / block), each = at_least(3 * rows / blocks, 9);
    const double depths = parts * over(s->depth, s->block_depth), units = over(r->cg, s->lanes);
    const double multiply = blocks * groups * (cg * each + depths * CALL);
    const double pack = blocks * units * PACK;
    /* Lines that come from L2 or L3 while the sums run: panels for every group of lanes, vectors for every pass. */
    const double lines = rows * cg * 12 / 64 * groups + 2 * groups * cg * passes + 2 * rows * groups * depths;
    const double column = cv_fft_line_cycles(s->tile.ty) + LINE + 2 * taps * MISS;
    const double w_groups = by_k ? groups * cg * passes : over(r->cg * s->k_chunk, s->lanes) + 1;
    return t_chunks * k_chunks *
           (bins * (multiply + pack + lines * NEAR) + w_groups * column * (double)s->tile.ux + s->tile.ux * 500.0);
}

/* Tasks of equal length keep all threads busy only when they can be dealt out evenly. */
static double dealt(double tasks, int threads) { return ceil(tasks / threads) * threads; }

double cv_fft_cost(const cv_request *r, const cv_fft_shape *s)
{
    const double vl = s->lanes, slots_per_s = r->machine->flop_per_s / (2 * vl), memory = r->machine->bytes_per_s;
    const double tiles = (double)s->tiles, cg = (double)r->cg, kg = (double)r->kg, bins = (double)s->tile.bins;
    const double x_rows = least(s->y.step + s->y.taps - 1 - s->y.cut, least(s->tile.ty, (double)s->y.in));
    const double x_columns = least(s->x.step + s->x.taps - 1 - s->x.cut, least(s->tile.tx, (double)s->x.in));
    const double find = LANE * vl, column = column_slots(s);
    const double x_group = find + row_slots(s, x_rows, x_columns) + column;
    const double w_rows = find + row_slots(s, (double)s->y.taps, (double)s->x.taps);
    const double y_group =
        find + column + row_slots(s, (double)s->y.step / (double)s->y.stride, (double)s->x.step / (double)s->x.stride);
    double slots, bytes;
    if (s->way == CV_FFT_POINT_C || s->way == CV_FFT_POINT_T) {
        const int by_c = s->way == CV_FFT_POINT_C;
        const double groups =
            dealt(by_c ? over(r->p.c, s->lanes) * tiles : (double)r->p.c * over(s->tiles, s->lanes), s->threads);
        const double kernels =
            r->prepared ? 0 : dealt(by_c ? over(r->p.c, s->lanes) * kg : over(r->p.k, s->lanes), s->threads);
        slots = groups * (x_group + kg * (y_group + column + 6 * bins +
                                          spill_slots(r, s,
                                                      by_c     ? 2.5
                                                      : kg > 1 ? 2
                                                               : 1)));
        slots += kernels * (w_rows + column + (s->w_rows ? 0 : bins * (by_c ? 2 : 40)));
        bytes = 4 * ((double)r->p.c * tiles * x_rows * x_columns + (double)r->p.n * (double)(r->p.k * r->P * r->Q));
    } else {
        const int by_k = s->way == CV_FFT_LANES_K;
        const double parts = over(r->cg, s->depth), t_chunks = over(s->tiles, s->tile_chunk),
                     k_chunks = over(r->kg, s->k_chunk);
        const double x_times = parts > 1 || s->k_outer ? k_chunks : 1;
        const double w_times = r->prepared ? 0 : parts > 1 ? t_chunks : s->k_outer || k_chunks == 1 ? 1 : t_chunks;
        const double x_groups = (by_k ? tiles * cg / vl : over(s->tiles, s->lanes) * cg) + t_chunks * 0.5;
        const double w_groups = (by_k ? over(r->kg, s->lanes) * cg : kg * cg / vl) + k_chunks * 0.5;
        const double y_groups = by_k ? tiles * over(r->kg, s->lanes) : kg * over(s->tiles, s->lanes);
        const double halves = (double)(s->y.taps * s->tile.ux);
        slots = x_times * dealt(x_groups, s->threads) * (x_group + spill_slots(r, s, 1)) +
                w_times * dealt(w_groups, s->threads) * (w_rows + halves * 2 * NEAR) +
                dealt(y_groups, s->threads) * (y_group + spill_slots(r, s, 1)) + bins_slots(r, s) +
                t_chunks * k_chunks * parts * 50000;
        slots *= (double)r->p.groups;
        /* What is larger than the last cache goes to memory; reading x's spectra and w is hidden behind the product. */
        const double spectra = 8 * bins * (tiles * cg * x_times + tiles * kg * parts),
                     w = 8 * halves * cg * kg * w_times;
        bytes = 4 * (double)r->p.groups *
                (tiles * cg * x_rows * x_columns * x_times + cg * kg * (double)(s->y.taps * s->x.taps) * w_times +
                 (double)r->p.n * kg * (double)(r->P * r->Q));
        bytes += (double)r->p.groups * ((s->stream ? spectra : 0) + (s->w_stream ? w : 0));
    }
    return slots / slots_per_s + bytes / memory + 5e-6;
}

/* Sides worth a thought along one axis, ascending: a larger one must come closer to covering the outputs without waste.
 */
static int sides(int64_t taps, int64_t stride, int64_t outs, int most, int *list)
{
    static const int all[] = {8,   9,   10,  12,  15,  16,  18,  20,  24,  25,  27,  30,  32,  36,  40,  45,  48,
                              50,  54,  60,  64,  72,  75,  80,  90,  96,  100, 108, 120, 128, 135, 144, 150, 160,
                              180, 192, 200, 216, 240, 256, 270, 288, 300, 320, 360, 384, 400, 432, 450, 480, 512};
    int n = 0;
    double best = 1e30;
    for (size_t i = 0; i < sizeof all / sizeof *all && n < SIDES; i++) {
        const int64_t step = (all[i] - taps + 1) / stride * stride;
        if (step < 1 || all[i] > most)
            continue;
        const double work = over(outs, step) * all[i];
        if (work > best * 1.1)
            continue;
        best = least(best, work);
        list[n++] = all[i];
        if (step >= outs) /* one tile holds everything */
            break;
    }
    return n;
}

int cv_fft_list(const cv_request *r, cv_candidate *list, int capacity)
{
    int ys[SIDES], xs[SIDES], kept = 0, ways[CV_FFT_WAYS], way_count = 0;
    double cost[KEPT];
    const convoy_problem *p = &r->p;
    const int most = r->cg <= 4 ? CV_FFT_MAX : 160;
    const int64_t y_outs = ((r->P - 1) * p->stride_h + p->dil_h) / p->dil_h;
    const int64_t x_outs = ((r->Q - 1) * p->stride_w + p->dil_w) / p->dil_w;
    const int ny = sides(p->r, p->stride_h, y_outs, most, ys), nx = sides(p->s, p->stride_w, x_outs, most, xs);
    const int square = p->r == p->s && y_outs == x_outs && p->stride_h == p->stride_w;
    if (r->cg == 1) {
        ways[way_count++] = CV_FFT_POINT_C;
        ways[way_count++] = CV_FFT_POINT_T;
    }
    if (r->cg > 1 || r->kg > 1) {
        ways[way_count++] = CV_FFT_LANES_K;
        ways[way_count++] = CV_FFT_LANES_T;
    }
    if (capacity > KEPT)
        capacity = KEPT;
    for (int w = 0; w < way_count; w++)
        for (int i = 0; i < ny; i++)
            for (int j = square ? i : 0; j < (square ? i + 1 : nx); j++) {
                const cv_candidate c = {{ys[i], xs[j], ways[w], cv_fft_kernels_of(r->machine->cpu.isa)->lanes}};
                cv_fft_shape s;
                if (!cv_fft_shape_make(r, &c, &s))
                    continue;
                const double seconds = cv_fft_cost(r, &s);
                int at = kept;
                while (at > 0 && cost[at - 1] > seconds)
                    at--;
                if (at == capacity)
                    continue;
                kept += kept < capacity;
                for (int m = kept - 1; m > at; m--)
                    cost[m] = cost[m - 1], list[m] = list[m - 1];
                cost[at] = seconds, list[at] = c;
            }
    return kept;
}
