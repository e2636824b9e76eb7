/* The match contract on a GPU: what its kernels are told. See match.h for the bound's ideas; on a GPU it is
 *
 *   unsafe when T > atol' + rtol' |sum| ,   T = min over z of (G + runs/2 ln(z / sin z)) e / z + z/2 * V / e
 *   e = 0.42 u sqrt(L * variance of a piece),   V = 0.18 u^2 (L sum of (a^2 + a b + b^2) / 3 + mean^2 prefix)
 *       + (12 u * rms output of the tile)^2
 *
 * Chernoff's bound for an error that, given the path, is normal with variance 0.18 u^2 * sum s_j^2, over paths that are
 * Brownian bridges between the known sums: E exp(z^2/2 * energy of a bridge of variance 1) = sqrt(z / sin z). G is the
 * logarithm of 2 / probability. docs/numerics.md has the derivation.
 *
 * The order on the stream: sums (over channels of x, along w's chains), boxes (window sums, tile norms), the engine's
 * runs, select (mask and counts; y where there are several runs), scatter (chain/scatter.h). */
#ifndef CV_MATCH_GPU_H
#define CV_MATCH_GPU_H

#include "chain/scatter.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CV_MATCH_PARTS = 4, CV_MATCH_W = 4, CV_MATCH_PIECE_W = 6 };

typedef struct cv_match_gpu {
    int n, h, w, k, p, q, r, s, cg, kg, groups;
    int st_h, st_w, pad_t, pad_l, tile_h, tile_w, step_h, step_w, down, across; /* the engine's tiles: side, outputs */
    int64_t xs[4], ws[4], ys[4];
    int runs, parts, part; /* parts: of a group's channels, whose energies are told apart; channels of one */
    int slices, slice;     /* of w's channels, the same */
    int box, at_once;      /* outputs along both sides of a block of boxes; maps it has in shared memory together */
    int overlap;           /* kernels may start while the one before still runs */
    float rtol, atol;      /* both over 1 + rtol */
    float *xsum;           /* (parts + 1, n * groups, h, w): sums over channels of x^2 by parts, then of x */
    float *wslice;         /* (k, slices, CV_MATCH_PIECE_W) */
    float *wstat;  /* (k, CV_MATCH_W): rms tap of the strongest slice, norm of the strongest channel, energy of the
                      prefix sums, and not 0 where something is not finite */
    void *maps;    /* float2 (n * groups, p, q): e over w's rms; the window's mean, squared */
    float *tiles;  /* (n * groups, down, across): rms of an output for a kernel of norm 1 */
    float *pieces; /* (runs, n, k, p, q) when runs > 1 */
    unsigned *mask, *counts; /* as cv_scatter has them */
    const float *x, *weight, *bias;
    float *y;
} cv_match_gpu;

/* Only enqueue; cudaError_t. what: 1 x, 2 w. */
enum { CV_MATCH_X = 1, CV_MATCH_WEIGHTS = 2 };
int cv_match_gpu_setup(void);
size_t cv_match_gpu_box_bytes(const cv_match_gpu *m);
/* From cg, r, s and what the problem says of windows: parts, slices and boxes that shared memory holds; 0 when none do.
 */
int cv_match_gpu_cut(cv_match_gpu *m, size_t shared_bytes);
int cv_match_gpu_sums(const cv_match_gpu *m, int counters, int what, void *stream); /* zeroes the counters too */
int cv_match_gpu_boxes(const cv_match_gpu *m, int what, void *stream);
int cv_match_gpu_select(const cv_match_gpu *m, const cv_scatter *scatter, void *stream);

#ifdef __cplusplus
}
#endif

#endif
