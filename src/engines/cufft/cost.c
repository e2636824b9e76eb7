/* What a candidate costs, and which candidates there are. */
#include "spectral.h"

#include <math.h>
#include <string.h>

/* Fitted to 311 times of 66 problems on an H200 (0.05 to 2 ms), of which they predict two thirds within 11 %: shares of
 * the bandwidth that the steps come to, L2 helping the rows, and of the FMA rate that cuBLAS does; what a call takes
 * however small it is, a dozen launches that wait for one another; what another chunk costs in half-filled launches;
 * and what each value of a line does, since lines are as long as they are however few there are. */
static const double row_moves = 1.0, column_moves = 0.61, best_rate = 0.82, best_depth = 156;
static const double call_s = 52e-6, chunk_s = 23e-6, chunk_share = 0.057, value_s = 0.2e-6;

static double up(double a, double unit) { return ceil(a / unit) * unit; }

/* Bytes that a row of w moves: the product is done 64 outputs at a time, after a pass over w for the guards. */
static double w_row_bytes(const cv_request *q, const cv_spectral *s)
{
    const double taps = 4.0 * (double)q->p.s, spectrum = 8.0 * s->bins;
    return s->w_product ? (taps + spectrum) * ceil(2.0 * s->bins / 64) + 0.75 * taps : taps + 8.0 * s->tx + spectrum;
}

static double product_seconds(const cv_request *q, const cv_spectral *s, double tiles, double bins)
{
    const double k = (double)q->p.k, cg = (double)q->cg, flop = 8 * bins * tiles * k * cg;
    if (s->pointwise)
        return fmax(flop / (0.25 * q->machine->flop_per_s),
                    8 * bins * (tiles * (k + (double)q->p.c) + k * cg) / (0.6 * q->machine->bytes_per_s));
    const double at_once = (double)s->n_at_once * (double)s->t_at_once * (double)s->tw, across = (double)s->k_at_once;
    const double waste = up(at_once, at_once <= 64 ? 64 : 32) / at_once * up(across, across <= 64 ? 32 : 64) / across;
    return flop * waste / (fmin(best_rate, cg / best_depth) * q->machine->flop_per_s);
}

double cv_spectral_seconds(const cv_request *q, const cv_spectral *s)
{
    const convoy_problem *p = &q->p;
    const double n = (double)p->n, c = (double)p->c, k = (double)p->k, cg = (double)q->cg;
    const double bands = ceil(n / (double)s->n_at_once) * ceil((double)s->th / (double)s->t_at_once);
    const double passes = ceil((double)q->kg / (double)s->k_at_once);
    const double groups = ceil((double)p->groups / (double)s->g_at_once);
    const double tiles = n * (double)s->th * (double)s->tw, bins = (double)s->ty * s->bins;
    /* bands of tile rows read the rows between them twice */
    const double step = (double)s->step_h, band = (double)(s->t_at_once - 1) * step + s->ty;
    const double overlap = s->t_at_once < s->th ? band / ((double)s->t_at_once * step) : 1;
    const double h = fmin((double)p->h, (double)s->th * step) * overlap;
    const double row = 8.0 * s->tx + 8.0 * s->bins; /* a real row written and read, its spectrum written or read */
    const double x_rows = n * c * h * (double)s->tw * (bands > 1 ? passes : 1),
                 y_rows = n * k * (double)q->P * (double)s->tw;
    const double w_rows = q->prepared ? 0 : k * cg * (double)p->r;
    const double rows = (x_rows + y_rows) * row + w_rows * w_row_bytes(q, s) + 4 * n * c * (double)p->h * (double)p->w;
    const double chunks = 8 * bins * (tiles * (c * passes + k) + (q->prepared ? 0 : k * cg * bands));
    const double cut = (x_rows * (bands > 1 ? 1 : passes) + y_rows + w_rows * bands) * 8 * s->bins;
    const double columns = (cut + 3 * chunks) / (column_moves * q->machine->bytes_per_s);
    const double calls = groups * passes * bands * ceil((double)s->bins / s->kx);
    return rows / (row_moves * q->machine->bytes_per_s) + columns * (1 + chunk_share * (calls - 1)) +
           product_seconds(q, s, tiles, bins) + call_s + chunk_s * (calls - 1) + value_s * (double)(s->ty + s->tx);
}

static int smooth(int64_t n)
{
    static const int primes[] = {2, 3, 5, 7};
    for (int i = 0; i < 4; i++)
        while (n % primes[i] == 0)
            n /= primes[i];
    return n == 1;
}

/* The smallest tile side for each number of tiles along an axis: larger ones only move zeros. */
static int sides(int64_t outputs, int64_t stride, int64_t kernel, int64_t longest, int even, int *list, int capacity)
{
    int count = 0;
    int64_t last = INT64_MAX;
    for (int64_t t = kernel < 16 ? 16 : kernel; t <= longest && count < capacity; t++) {
        if (!smooth(t) || (even && t % 2))
            continue;
        const int64_t yields = (t - kernel) / stride + 1, tiles = (outputs + yields - 1) / yields;
        if (tiles < last) {
            list[count++] = (int)t;
            last = tiles;
        }
        if (tiles == 1)
            break;
    }
    return count;
}

typedef struct ranked {
    cv_candidate candidate;
    double seconds;
} ranked;

static void insert(ranked *list, int *count, int capacity, const ranked *r)
{
    int at = *count;
    if (at == capacity) {
        if (list[at - 1].seconds <= r->seconds)
            return;
        at--;
    } else {
        ++*count;
    }
    for (; at > 0 && list[at - 1].seconds > r->seconds; at--)
        list[at] = list[at - 1];
    list[at] = *r;
}

/* Up to 128 a side; more when the kernel needs it, or when so few channels share a tile that its spectra stay small. */
static int64_t longest_side(const cv_request *q, int64_t kernel)
{
    const int64_t few = q->kg * q->cg <= 32 ? 1024 : 128, twice = 2 * kernel + 16;
    const int64_t longest = few > twice ? few : twice;
    return longest < 1024 ? longest : 1024;
}

int cv_spectral_candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    enum { SIDES = 64, KEPT = 96 };
    const convoy_problem *p = &q->p;
    const int64_t high = p->dil_h * (p->r - 1) + 1, wide = p->dil_w * (p->s - 1) + 1;
    int ty[SIDES], tx[SIDES], count = 0;
    ranked best[KEPT] = {0};
    const int ny = sides(q->P, p->stride_h, high, longest_side(q, high), 0, ty, SIDES);
    const int nx = sides(q->Q, p->stride_w, wide, longest_side(q, wide), 1, tx, SIDES);
    for (int i = 0; i < ny; i++)
        for (int j = 0; j < nx; j++) {
            const int bins = tx[j] / 2 + 1;
            for (int parts = 1; parts <= 16 && parts <= bins; parts *= 2) {
                ranked r = {{{ty[i], tx[j], (bins + parts - 1) / parts}}, 0};
                cv_spectral s;
                if (!cv_spectral_make(q, &r.candidate, 0, &s))
                    continue;
                r.seconds = cv_spectral_seconds(q, &s);
                insert(best, &count, KEPT, &r);
            }
        }
    if (count == 0)
        return 0;
    if (count > capacity)
        count = capacity;
    for (int i = 0; i < count; i++)
        list[i] = best[i].candidate;
    return count;
}
