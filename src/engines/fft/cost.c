/* Which tiles to consider, and what they will cost. */
#include "fft.h"

enum { SIDES = 20, KEPT = 64 };

static double least(double a, double b) { return a < b ? a : b; }
static double over(int64_t a, int64_t b) { return (double)((a + b - 1) / b); }

/* Seconds, from operations over measured rates and bytes over bandwidths. */
double cv_fft_cost(const cv_request *r, const cv_fft_shape *s)
{
    const double peak = r->machine->flop_per_s, memory = r->machine->bytes_per_s, vl = s->lanes;
    const double cycle = 3.6e9 * r->machine->threads * vl,
                 product_rate = peak * 0.85; /* lanes times cycles of transforms; flop of products */
    const double row = cv_fft_line_cycles(s->tile.tx), column = cv_fft_line_cycles(s->tile.ty) * s->tile.ux;
    const double tiles = (double)s->tiles, cg = (double)r->cg, kg = (double)r->kg, g = (double)r->p.groups,
                 bins = (double)s->tile.bins;
    const double taps_rows = ((double)s->y.taps + 1) / 2, out_rows = ((double)s->y.step + 1) / 2;
    const double in_rows = (double)(least(s->y.step + s->y.taps - 1, s->tile.ty) + 1) / 2;
    const double copy = 3.0 * s->tile.tx; /* transposition and guards, a row */
    const double x_ops = in_rows * (row + 2 * copy) + column, w_ops = taps_rows * (row + 2 * copy) + column;
    const double y_ops = out_rows * (row + 2 * copy) + column;
    double seconds;
    if (s->way == CV_FFT_POINT_C || s->way == CV_FFT_POINT_T) {
        const int by_c = s->way == CV_FFT_POINT_C;
        const double waste =
            by_c ? over(r->p.c, s->lanes) * vl / (double)r->p.c : over(s->tiles, s->lanes) * vl / tiles;
        const double w_waste = by_c ? waste : 1.0, kernels = r->prepared ? 0 : (double)r->p.k;
        double ops = (double)r->p.c * tiles * waste * (x_ops + kg * (y_ops + column * (kg > 1) + 6 * bins));
        ops += kernels * w_waste * w_ops;
        const double half = bins * 8 * vl; /* a lane group's half-spectrum: twice of it beyond L2 is slower */
        const double slow = 2 * half > (double)r->machine->cpu.l2_bytes ? 1.25 : 1.0;
        const double bytes = 4 * ((double)r->p.c * tiles * (double)(s->tile.ty * s->tile.tx) +
                                  (double)r->p.n * (double)(r->p.k * r->P * r->Q)) +
                             kernels * bins * 8;
        seconds = ops / cycle * slow + bytes / memory / 2;
    } else {
        const int by_k = s->way == CV_FFT_LANES_K;
        const double t_chunks = over(s->tiles, s->tile_chunk), k_chunks = over(r->kg, s->k_chunk);
        const double x_times = s->k_outer ? k_chunks : 1, w_times = r->prepared ? 0 : s->k_outer ? 1 : t_chunks;
        const double t_lanes = by_k ? tiles : over(s->tiles, s->lanes) * vl,
                     k_lanes = by_k ? over(r->kg, s->lanes) * vl : kg;
        const double ops = tiles * cg * x_times * x_ops + cg * kg * w_times * w_ops + t_lanes * k_lanes * y_ops;
        const double product = 6 * bins * t_lanes * k_lanes * cg;
        /* Spectra go to memory and back: x and w once each way for every time they are made, x again for every chunk of
         * w. */
        const double spectra =
            8 * bins * (tiles * cg * (x_times + k_chunks) + cg * kg * (w_times + t_chunks) + 2 * tiles * kg);
        const double tensors =
            4 * (tiles * cg * (double)(s->tile.ty * s->tile.tx) * x_times +
                 cg * kg * (double)(s->y.taps * s->x.taps) * w_times + (double)r->p.n * kg * (double)(r->P * r->Q));
        seconds = g * (ops / cycle + product / product_rate + (spectra * 0.5 + tensors) / memory);
        /* What the sums above leave out grows as tiles shrink: measured over the suites, 1.6 at T = 8 to 1.25 at T
         * = 72. */
        seconds *= 1.2 * (1 + 1.5 / least(s->tile.ty, s->tile.tx));
        const double chunks = g * t_chunks * k_chunks * 4;
        seconds += chunks * 3e-6;
    }
    return seconds + 5e-6;
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
