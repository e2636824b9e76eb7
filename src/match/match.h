/* The match contract on the CPU: |y - exact| <= atol + rtol * |exact| for every output, at near the transform's speed.
 *
 *   1. The transform engine computes s = conv(x, w), in `runs` pieces of the channels, so that s is known at the ends
 * of the pieces: places on the path that the serial chain's partial sums take.
 *   2. For each output, the chain's own possible error is estimated from that path (below), and the transform's from
 * the energy around it. Where the tolerance covers both, s + bias is the answer.
 *   3. The other outputs are recomputed by the exact chain.
 *
 * The chain's error, given its partial sums s_j: every step rounds once, by at most u*|s_j|, and as measured over
 * random mantissas by 0.42 u |s_j| rms (ulp^2/12, averaged over a binade). Steps taken as independent:
 *
 *   sigma^2 = 0.18 u^2 E,   E = sum over j of s_j^2
 *
 * Between two known sums a and b, L steps apart, the path is a line plus a bridge whose variance the products give:
 *
 *   E_piece = L * ((a^2 + a b + b^2) / 3 + spread * V / 6) ,   V = sum x^2 w^2 <= sqrt(sum x^4 * sum w^4)
 *
 * and a mean of x over the window pushes the sums along the prefix sums of w: 2 * mean^2 * sum_j prefix_j(w)^2 is
 * added. With `factor` sigmas allowed, what this misses is a probability, not a proof; docs/numerics.md has the
 * calibration.
 *
 * match sees core/engine.h, chain and platform; core reaches it through the table in core/services.h. */
#ifndef CV_MATCH_H
#define CV_MATCH_H

#include "core/engine.h"

enum { CV_MATCH_RUNS = 4 };

/* Sums over w that the bounds need, a row for each output channel. */
typedef struct cv_match_w {
    double root4[CV_MATCH_RUNS]; /* sqrt(sum w^4) of each piece of the channels */
    double norm;                 /* the largest channel's sqrt(sum w^2) */
    double prefix;               /* sum over the chain's steps of (w's prefix sum)^2 */
} cv_match_w;

typedef struct cv_match_state {
    cv_request request, inner_request;
    const cv_engine *engine;
    void *inner;
    cv_needs inner_needs;
    int runs;
    double steps; /* terms of one piece's chain */
    /* bytes from the workspace's start; the inner engine's workspace is last */
    size_t sums_at, energy_at, maps_at, ring_at, stats_at, inner_at, workspace_bytes;
    size_t ring_bytes; /* of one thread */
} cv_match_state;

/* What the select step reads at one image's place (g, p, q): one map each, of doubles, (G, P, Q). */
typedef struct cv_match_maps {
    const double *root4[CV_MATCH_RUNS]; /* sqrt(sum of x^4 over the window) of each piece */
    const double *mean;                 /* of x over the window */
    const double *norm;                 /* sqrt(sum of x^2) over every tile that may hold the output */
} cv_match_maps;

void cv_match_weights_stats(const cv_match_state *m, const float *w, cv_match_w *stats);

/* Fills the maps of image n at base (runs + 2 of them, G*P*Q doubles each). */
void cv_match_fill_maps(const cv_match_state *m, const float *x, int64_t n, void *workspace, cv_match_maps *maps);

/* Folds one piece's result, which lies in y, into the running sums and path energies. */
void cv_match_fold(const cv_match_state *m, const float *y, float *sums, float *energy, int first);

/* The last piece lies in y: writes every output of image n, recomputing the unsafe ones. */
void cv_match_select(const cv_match_state *m, const cv_exec *run, const float *w, int64_t n, const float *sums,
                     const float *energy, const cv_match_maps *maps, const cv_match_w *stats);

#endif
