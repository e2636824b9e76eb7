/* The bound of match.h in numbers: what one plan's tolerance covers. */
#ifndef CV_MATCH_RULE_H
#define CV_MATCH_RULE_H

#include "match.h"

#include <math.h>

/* Checked by tests/conv/test_match.c: how many sigmas of the chain's error, how far the path may wander beyond its
 * variance, and how many u of the rms output of a tile the transform may be off by. */
static const double factor_one_run = 12.0, factor_more_runs = 8.0, spread = 2.0, transform_factor = 64.0;
static const double unit = 0x1p-24;
static const double slack = 1.001; /* for sums in binary32 */

/* What the bounds are made of, for one window or the worst of some. */
struct sums {
    double root4[CV_MATCH_RUNS]; /* sqrt(sum of x^4) of each piece */
    double mean2;                /* square of x's mean over the window */
    double tile2;                /* sum of x^2 over every tile that may hold the output */
};

/* The numbers of one plan and tolerance. */
struct rule {
    int runs;
    double square, steps, taps, transform, rtol, atol, path_factor;
    double floor4, floor2; /* what sums of powers below 2^-126 may have lost */
};

static inline struct rule rule_of(const cv_request *q, int runs, double tile)
{
    const double factor = (runs > 1 ? factor_more_runs : factor_one_run) * unit;
    struct rule r = {.runs = runs, .square = 0.18 * factor * factor};
    r.taps = (double)q->cg * (double)q->p.r * (double)q->p.s;
    r.steps = r.taps / runs;
    r.transform = transform_factor * transform_factor * unit * unit / tile;
    r.rtol = q->rtol / (1.0 + q->rtol);
    r.atol = q->atol / (1.0 + q->rtol);
    r.path_factor = r.square * r.steps;
    r.floor4 = r.taps * 0x1p-110;
    r.floor2 = 4.0 * tile * (double)q->cg * 0x1p-110;
    return r;
}

/* Square of what may separate the two results, but for the known path's share. Sums that may overflow in binary32 are
 * never safe. */
static inline double bound_of(const struct rule *r, const struct sums *x, const cv_match_w *w)
{
    double bridge = 0;
    for (int b = 0; b < r->runs; b++)
        bridge += x->root4[b] * w->root4[b];
    const double bound = r->square * (r->steps * spread / 6.0 * bridge + 2.0 * x->mean2 * w->prefix) +
                         r->transform * x->tile2 * w->norm * w->norm;
    return bound < 1e50 ? bound : HUGE_VAL;
}

/* 1 when every y is safe under this bound: room grows at least as fast with |y| as what the path adds. */
static inline int covers_all(const struct rule *r, double bound, double bias)
{
    const double slope = sqrt(r->path_factor / 3.0), rest = r->atol - (2.0 * unit + slope) * fabs(bias);
    return r->runs == 1 && r->rtol >= slope + 4.0 * unit && rest >= 0 && bound <= rest * rest;
}

#endif
