/* What cuDNN's engines take. It says nothing about time but the order of its list, so this is what cuDNN 9.19 was seen
 * to do on an H200: some 500 times of 67 problems (docs/performance-log.md), rates scaled to other GPUs. */
#include "graph.h"

#include <math.h>
#include <stddef.h>

/* A direct engine: the share of the FMA rate that it comes to on whole blocks of channels, what one tap of a sum takes
 * however few outputs there are, and what a call takes at least. -1: the knobs are left to cuDNN, or any others. */
typedef struct direct {
    int engine, a, b;
    double share, tap_s, call_s;
} direct;

static const direct seen[] = {
    {0, -1, -1, 0.045, 80e-9, 4.6e-6},  {1, -1, -1, 0.545, 61e-9, 7.2e-6}, {2, -1, -1, 0.15, 134e-9, 25e-6},
    {28, 4, 0, 0.30, 66e-9, 4.6e-6},    {28, -1, -1, 0.143, 132e-9, 5e-6}, {70, 12, 0, 0.364, 33e-9, 5.6e-6},
    {70, 12, 1, 0.258, 43e-9, 5.6e-6},  {70, 2, 0, 0.377, 44e-9, 6.1e-6},  {70, 4, 0, 0.42, 103e-9, 10e-6},
    {70, -1, -1, 0.267, 42e-9, 6.1e-6},
};
static const direct unknown = {-1, -1, -1, 0.15, 100e-9, 8e-6};

static const direct *find(const cv_candidate *c)
{
    const direct *of_engine = &unknown;
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        if (seen[i].engine != c->v[0])
            continue;
        if (seen[i].a < 0)
            of_engine = &seen[i];
        else if (seen[i].a == c->v[1] && seen[i].b == c->v[2])
            return &seen[i];
    }
    return of_engine;
}

/* Blocks of 32 output channels, of 128 x 128 for engine 1, which come in rounds of one a multiprocessor; engine 0, the
 * plain loop, takes any number. Groups follow one another, but for engine 0. */
static double direct_seconds(const cv_request *q, const cv_candidate *candidate)
{
    const direct *d = find(candidate);
    const int engine = candidate->v[0];
    const double kg = (double)q->kg, width = engine == 0 ? 1 : engine == 1 ? 128 : 32;
    const double taps = (double)q->cg * (double)q->p.r * (double)q->p.s, groups = (double)q->p.groups;
    double filled = width * ceil(kg / width) / kg;
    if (engine == 1) {
        const double pixels = (double)q->p.n * (double)q->P * (double)q->Q, sms = q->machine->sm_count;
        const double blocks = ceil(pixels / 128) * ceil(kg / 128) * groups;
        filled *= ceil(blocks / sms) * sms / blocks;
    }
    const double busy = filled * convoy_problem_flop(&q->p) / (d->share * q->machine->flop_per_s);
    const double seconds = d->call_s + hypot(busy, d->tap_s * taps);
    return groups == 1 || engine == 0 ? seconds : fmax(seconds, groups * (engine == 28 ? 4e-6 : 13e-6));
}

/* Engine 4 takes one tile of 32 x 32 of all images after another; the other FFT takes whole images, on powers of two,
 * and goes over the spectra of x, w and y six times, ten where a side is longer than 64. Its first knob at 1 multiplies
 * point by point. Guards included. */
static double fft_seconds(const cv_request *q, const cv_candidate *candidate)
{
    const convoy_problem *p = &q->p;
    const double high = (double)(p->h + p->pad_t + p->pad_b), wide = (double)(p->w + p->pad_l + p->pad_r);
    const double channels = (double)q->cg * (double)p->k, n = (double)p->n, groups = (double)p->groups;
    if (candidate->v[0] == 4) {
        const double down = p->r < 32 ? (double)(33 - p->r) : 1, across = p->s < 32 ? (double)(33 - p->s) : 1;
        const double tiles = ceil((high - (double)p->r + 1) / down) * ceil((wide - (double)p->s + 1) / across);
        return 35e-6 + tiles * groups * (12e-6 + (1.6e5 + 1.6e4 * n) * channels / groups / q->machine->flop_per_s);
    }
    const double points = exp2(ceil(log2(high)) + ceil(log2(wide))), passes = fmax(high, wide) > 64 ? 10 : 6;
    const double spectra = channels + n * (double)(p->c + p->k);
    return 42e-6 * groups + passes * 4 * spectra * points / q->machine->bytes_per_s +
           (candidate->v[1] == 1 ? 4.2e-6 * points * groups : 0);
}

/* Engine 6. Guards included. */
static double winograd_seconds(const cv_request *q)
{
    const double taps = (double)q->cg * (double)q->p.r * (double)q->p.s;
    return 28e-6 + fmin(60e-6, 0.1e-6 * taps) + convoy_problem_flop(&q->p) / (1.6 * q->machine->flop_per_s);
}

double cv_dnn_seconds(const cv_request *q, const cv_dnn_config *c, int place)
{
    const convoy_problem *p = &q->p;
    const double y = (double)p->n * (double)q->P * (double)q->Q * (double)p->k;
    const double bytes = 4 * ((double)p->n * (double)p->c * (double)p->h * (double)p->w + y +
                              (double)p->k * (double)q->cg * (double)p->r * (double)p->s);
    const double moved = 4e-6 + bytes / q->machine->bytes_per_s;
    const double work = c->notes & CV_DNN_FFT        ? fft_seconds(q, &c->candidate)
                        : c->notes & CV_DNN_WINOGRAD ? winograd_seconds(q)
                                                     : direct_seconds(q, &c->candidate);
    return (fmax(work, moved) + (q->bias ? 8 * y / q->machine->bytes_per_s : 0)) * (1 + 0.003 * place);
}
