/* The match contract on the CPU: |y - exact| <= atol + rtol * |exact| for every output, at near the transform's speed.
 *
 *   1. The transform engine computes s = conv(x, w), in `runs` pieces of the channels, so that s is known at the ends
 * of the pieces: places on the path that the serial chain's partial sums take.
 *   2. For each output, the chain's own possible error is estimated from that path (below), and the transform's from
 * the energy around it. Where the tolerance covers both, s + bias is the answer.
 *   3. The other outputs are recomputed by the exact chain; or all of them by an exact engine, where that is quicker.
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
 * added. The transform's error is independent of the chain's: `transform_factor` u of the rms output of its tile,
 * squared, is added to the square of `factor` sigmas. What this misses is a probability, not a proof; docs/numerics.md
 * has the calibration.
 *
 * The sums over windows of x are taken twice. First over cells of 16 x 16 values, in one pass over x: a window lies in
 * a few cells, and where even the cells' sums leave the tolerance room whatever y is, a whole band of output rows is
 * kept and y is not even read. For the other bands over the windows themselves, by sums of 1, 2, 4, ... rows and
 * columns (never by subtraction, which would leave a bright value's rounding behind), each output taking the largest of
 * its block of 4 x 16.
 *
 * match sees core/engine.h, chain, simd and platform; core reaches it through the table in core/services.h. */
#ifndef CV_MATCH_H
#define CV_MATCH_H

#include "core/engine.h"

#include <stddef.h>

enum {
    CV_MATCH_RUNS = 4,
    CV_MATCH_CELL = 16,   /* rows and columns of x in a cell */
    CV_MATCH_BAND = 32,   /* output rows of a task */
    CV_MATCH_ROWS = 4,    /* output rows of a block that shares a bound */
    CV_MATCH_COLUMNS = 16 /* and columns: the bits of a mask's word */
};

/* Sums over w that the bounds need, a row for each output channel. */
typedef struct cv_match_w {
    double root4[CV_MATCH_RUNS]; /* sqrt(sum w^4) of each piece of the channels */
    double norm;                 /* the largest channel's sqrt(sum w^2) */
    double prefix;               /* sum over the chain's steps of (w's prefix sum)^2 */
} cv_match_w;

/* Sums over x's cells that hold a window, or a transform's tile around it; by the cell where the window starts. */
typedef struct cv_match_cell {
    double fourth[CV_MATCH_RUNS], second; /* of x^4 by pieces, of x^2: over the window's cells */
    double tile;                          /* of x^2 over every tile that may hold the output */
} cv_match_cell;

typedef struct cv_match_state {
    cv_request request, inner_request; /* request comes first */
    const cv_engine *engine, *exact;   /* the transform, and who recomputes everything; NULL: none fits */
    void *inner, *exact_state;
    cv_needs inner_needs;
    int runs;
    double steps;                             /* terms of one piece's chain */
    double most;                              /* outputs that are recomputed one by one; from there on everything is */
    int64_t reach_h, reach_w, padded_w;       /* a window's extent; columns of a padded row */
    int64_t cells_h, cells_w;                 /* of an image */
    int64_t start_h, start_w, grid_h, grid_w; /* cells where windows start: the first one's, and how many */
    int64_t bands, words;                     /* of output rows; mask words of a row */
    /* bytes from the workspace's start; the inner engine's workspace is last */
    size_t sums_at, energy_at, cells_at, grid_at, mask_at, counts_at, scratch_at, stats_at, inner_at, workspace_bytes;
    size_t scratch_bytes; /* of one thread */
} cv_match_state;

/* Where the pieces lie in one call's workspace. */
typedef struct cv_match_call {
    const cv_match_state *m;
    const cv_exec *run;
    const float *w; /* that the chains read: the caller's or the packed copy */
    const cv_match_w *stats;
    float *sums, *energy; /* after all but the last piece, (N, K, P, Q); when runs > 1 */
    float *cells;         /* (N, G, cells, runs + 2): x^4 by pieces, x^2, largest magnitude */
    cv_match_cell *grid;  /* (N, G, grid) */
    uint16_t *mask;       /* (N, K, P, words): a bit is an unsafe output; only of bands that count some */
    int64_t *counts;      /* (N, G, bands): unsafe outputs */
    char *scratch;        /* scratch_bytes a thread */
} cv_match_call;

void cv_match_weights_stats(const cv_match_state *m, const float *w, cv_match_w *stats);

/* Fills cells and grid. */
void cv_match_cells(const cv_match_call *call);

/* Folds one piece's result, which lies in y, into the running sums and path energies. */
void cv_match_fold(const cv_match_call *call, int first);

/* The last piece lies in y: finishes y where it is safe, and marks and counts where it is not. */
int64_t cv_match_judge(const cv_match_call *call);

/* Recomputes the marked outputs. */
void cv_match_chains(const cv_match_call *call);

/* Who recomputes everything, when there is too much for a list: the exact engine that is predicted quickest. It runs
 * when nothing else is left in the workspace, and reads w, or the packed copy of prepared weights. */
typedef struct cv_match_exact {
    const cv_engine *engine;
    cv_request request;
    cv_candidate candidate;
    double seconds;
    size_t workspace_bytes;
} cv_match_exact;

void cv_match_find_exact(const cv_request *request, cv_match_exact *best);

/* The list kernel's multiply-adds a second over the machine's, for this problem's windows and a share of its outputs.
 */
double cv_match_list_rate(const cv_request *request, double share);

/* What comes on top of the transform's runs, in seconds, when x and w are normal(0,1); exact_seconds for all outputs.
 */
double cv_match_extra_seconds(const cv_request *request, int runs, double exact_seconds);

static inline int64_t cv_match_cell_of(int64_t i) /* which may be negative */
{
    return i >= 0 ? i / CV_MATCH_CELL : -((CV_MATCH_CELL - 1 - i) / CV_MATCH_CELL);
}

/* Rows of x under so many rows of outputs, at most those of a band. */
static inline int64_t cv_match_rows(const cv_match_state *m, int64_t outputs)
{
    const int64_t most = outputs < m->request.P ? outputs : m->request.P;
    return (most - 1) * m->request.p.stride_h + m->reach_h;
}

/* Bytes of scratch that judging wants, a thread. */
size_t cv_match_scratch(const cv_match_state *m);

#endif
