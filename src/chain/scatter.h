/* The exact chain for scattered outputs on a GPU: those whose bit is set in a mask.
 *
 * Outputs are parted into pools: tp rows by tq columns by kb channels of one image and group. A pool's x and w are
 * staged in shared memory, cc channels at a time, while its marked outputs run their chains (scatter_kernel.cuh). Pools
 * with more than CAP marked outputs are worked off in rounds, and rounds are dealt to blocks in turn, so a pool that is
 * marked all over does not hold up the others. All functions but the planner only enqueue. */
#ifndef CV_CHAIN_SCATTER_H
#define CV_CHAIN_SCATTER_H

#include "chain_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CV_SCATTER_THREADS = 512, CV_SCATTER_CAP = 1280, CV_SCATTER_CHAINS = 4, CV_SCATTER_LATE = 3 };

/* Plain data for the kernel; a plan without its pointers. */
typedef struct cv_scatter {
    int n, h, w, k, p, q, r, s, cg, kg, groups;
    int st_h, st_w, pad_t, pad_l, padded; /* padded: some window hangs over the edge */
    int64_t xs[4], ws[4], ys[4];
    int tp, tq, kb, np, nq, nk; /* a pool, and how many there are down, across and in a group's channels */
    int pools, words;           /* words: of the mask in one row of outputs, 32 columns each */
    int rows, cols, shift;      /* x's tile; columns that it begins before its first window */
    int pitch, pitches;         /* floats of a row at least; how many pitches, 4 apart, a pool may choose from */
    int plane, wp, cc;          /* floats of a channel's tile, of a channel's taps; channels a stage */
    int late;                   /* groups of taps that a lane may run behind others: CV_SCATTER_LATE or 0 */
    int deal;                   /* rows of threads that a unit may need, at most */
    int overlap;                /* may start while the kernel before it still runs */
    int stage;                  /* floats of a stage: cc planes, then kb * wp */
    int vec_x, vec_w, packed_w; /* 16-byte copies are possible if the addresses are multiples of 16 */
    int bulk;                   /* whole rows can be copied where the GPU has that */
    unsigned grid, shared;
    const float *x, *weight, *bias;
    float *y;
    const unsigned *mask;   /* (n, k, p, words): bit j of word i marks column 32 i + j */
    const unsigned *counts; /* marked outputs of each pool, then of all pools */
    const float *odd;       /* one every odd_step floats: not 0 where channel k's weights are not all finite */
    int odd_step;
} cv_scatter;

/* Which pool an output belongs to. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline int
    cv_scatter_pool(const cv_scatter *a, int n, int k, int p, int q)
{
    const int g = k / a->kg;
    return ((((n * a->groups + g) * a->np + p / a->tp) * a->nq) + q / a->tq) * a->nk + (k - g * a->kg) / a->kb;
}

/* 0, or -1 where the shape is beyond the kernel (dilation, or a window that shared memory cannot hold). */
int cv_scatter_plan(const cv_chain_shape *shape, const cv_chain_gpu *gpu, cv_scatter *plan);
int cv_scatter_setup(const cv_scatter *plan); /* once on a device before the first run; a cudaError_t */
int cv_scatter_run(const cv_scatter *plan, void *stream);

#ifdef __cplusplus
}
#endif

#endif
