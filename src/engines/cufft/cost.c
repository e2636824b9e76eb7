/* What a candidate costs, and which candidates there are. */
#include "spectral.h"

#include <math.h>
#include <string.h>

/* What a launch adds, and the shares of bandwidth and of the FMA rate that the steps reach: measured on an H200. */
static const double launch_s = 2.5e-6, moves = 0.8, in_cache = 1.3, multiplies = 0.66;

static double up(double a, double unit) { return ceil(a / unit) * unit; }

double cv_spectral_seconds(const cv_request *q, const cv_spectral *s)
{
    const convoy_problem *p = &q->p;
    const double n = (double)p->n, c = (double)p->c, k = (double)p->k, cg = (double)q->cg, r = (double)p->r;
    const double bands = ceil(n / (double)s->n_at_once) * ceil((double)s->th / (double)s->t_at_once);
    const double passes = ceil((double)q->kg / (double)s->k_at_once);
    const double groups = ceil((double)p->groups / (double)s->g_at_once);
    const double x_repeats = bands > 1 ? passes : 1, w_repeats = bands;
    const double tiles = n * (double)s->th * (double)s->tw, bins = (double)s->ty * s->bins;
    const double band_overlap =
        ((double)(s->t_at_once - 1) * (double)s->step_h + s->ty) / ((double)s->t_at_once * (double)s->step_h);
    const double h = fmin((double)p->h, (double)s->th * (double)s->step_h) * (s->t_at_once < s->th ? band_overlap : 1);
    const double row = 4.0 * s->tx + 8.0 * s->bins; /* real row and its spectrum */
    const double x_rows = n * c * h * (double)s->tw * x_repeats, y_rows = n * k * (double)q->P * (double)s->tw;
    const double w_rows = q->prepared ? 0 : k * cg * r;
    const double rows = (x_rows + w_rows + y_rows) * (row + 4.0 * s->tx) +
                        4 * (n * c * (double)p->h * (double)p->w + w_rows * (double)p->s);
    const double x = 8 * bins * tiles * c * passes, y = 8 * bins * tiles * k, w = 8 * bins * k * cg;
    const double made = x + y + (q->prepared ? 0 : w * w_repeats); /* chunks that cut writes and columns go over */
    const double cut = (x_rows * passes / x_repeats + y_rows + w_rows * w_repeats) * 8 * s->bins + made;
    const double middle = 2 * made + x + y + w * w_repeats;
    const double chunk = (double)(s->x_chunk_bytes + s->w_chunk_bytes + s->y_chunk_bytes);
    const double speed = q->machine->bytes_per_s * moves;
    double seconds =
        rows / speed + cut / speed + middle / (speed * (chunk < 0.6 * (double)q->machine->gpu_l2_bytes ? in_cache : 1));
    const double calls = groups * passes * bands * ceil((double)s->bins / s->kx);
    if (s->pointwise) {
        seconds += 8 * bins * tiles * k * cg / (0.3 * q->machine->flop_per_s);
    } else {
        const double per_call = (double)s->n_at_once * (double)s->t_at_once * (double)s->tw,
                     across = (double)s->k_at_once;
        const double waste =
            up(per_call, per_call <= 64 ? 64 : 32) / per_call * up(across, across <= 64 ? 32 : 64) / across;
        const double depth = cg / (cg + 16); /* a short sum does not fill the pipes */
        seconds += 8 * bins * tiles * k * cg * waste / (multiplies * depth * q->machine->flop_per_s);
    }
    const double stages = (double)(s->x_rows_bytes + s->w_rows_bytes + s->y_rows_bytes) / (double)s->stage_bytes + 3;
    return seconds + launch_s * (calls * (s->pointwise ? 7 : 6 + (double)s->g_at_once) + 2 * stages * groups + 4);
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
    ranked best[KEPT];
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
