/*
 * One pass of the spectral engine over a chunk of tiles and outputs: what its kernels are told, and how they are
 * launched.
 *
 * Letters as in convoy.h. A tile is TY x TX points of one padded image and yields OY x OX outputs (of the unit-stride
 * result). Spectra of real tiles keep BINS = TY * TX / 2 + 2 complex values: bin = ky * TX/2 + kx for kx in 1 .. TX/2
 * - 1. The columns kx = 0 and TX/2 are spectra of real columns, so half of each suffices: they share the slots of kx =
 * 0, the first in ky = 0 .. TY/2, the second in ky = TY/2 + 1 .. TY - 1 (holding 1 .. TY/2 - 1) and in the two last
 * bins (holding 0 and TY/2).
 *
 * The inverse of lanes.h may have the product lay two of its bins beside each other, ky and ky + 1, for the q outputs
 * that its block reads, so that it reads longer pieces of a line: see cv_spectral_y.
 */
#ifndef CV_CUDA_FFT_SPECTRAL_H
#define CV_CUDA_FFT_SPECTRAL_H

#include <stdint.h>

#ifdef __CUDACC__
#define CV_ANYWHERE __host__ __device__
#else
#define CV_ANYWHERE
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cv_spectral {
    int n, c, h, w, k, r, s, p, q; /* the problem, without taps that padding keeps from every output */
    int cg, kg;                    /* channels and outputs of one group */
    int stride_h, stride_w, pad_t, pad_l;
    int64_t xs[4], ws[4], ys[4]; /* element strides of (N, C, H, W), (K, C/G, R, S), (N, K, P, Q) */
    int64_t w_first;             /* element of w that is the first of these R x S */

    int ty, tx, oy, ox; /* tile and its outputs */
    int ny, nx;         /* tiles down and across one image */
    int bins;
    float scale; /* 1 / (4 TY TX): what the transforms leave out */
    int cgp;     /* channels of a group in the spectra: cg rounded up, the rest zero */
    int wcb;     /* the same for kernels: twice as many where they fill at most half of the tile's rows */
    int cb;      /* channels that one block of a transform works on */
    int ycb;     /* outputs that one block of an inverse works on */
    int lanes;   /* the transforms are those of lanes.h */
    int yq;      /* q of the product's spectrum, 0 if bins lie apart */

    int tile0, tiles; /* this pass: tiles of the flat list (n, tile row, tile column), */
    int k0, nk;       /* outputs (whole groups if there are several), */
    int g0, ng;       /* and their groups */
    int wrows, wk0;   /* outputs that wf has, and which of them is k0 */
    int overlap;      /* a launch may begin while the kernel before it ends (launch.cuh) */

    const float *x, *weight, *bias; /* bias may be NULL */
    float *y;
    float *xf;      /* (BINS, tiles, ng * cgp) complex */
    float *wf;      /* (BINS, wrows, cgp) complex; depthwise: (wrows, BINS) */
    float *yf;      /* (BINS, tiles, nk) complex, see above */
    uint8_t *xflag; /* (tiles, blocks of channels): 1 if the transform cannot hold the data */
    uint8_t *wflag; /* (wrows, blocks of channels) */
} cv_spectral;

/* Where in complex words a bin of the product's spectrum begins. With yq, output k of a tile then lies
 * tile * 2 nk + k / yq * 2 yq + k % yq further, else tile * nk + k. */
CV_ANYWHERE static inline int64_t cv_spectral_y(const cv_spectral *g, int bin)
{
    const int half = g->tx / 2, ky = bin / half, kx = bin - ky * half, beyond = bin > g->ty * half;
    const int64_t one = (int64_t)g->tiles * g->nk;
    if (!g->yq)
        return bin * one;
    return beyond ? g->ty * half * one + g->yq : ((ky >> 1) * half + kx) * 2 * one + (ky & 1) * g->yq;
}
CV_ANYWHERE static inline int cv_spectral_wide(int q) { return q ? 2 : 1; }

/* Blocks of channels that the flags count. */
CV_ANYWHERE static inline int cv_spectral_xblocks(const cv_spectral *g) { return (g->ng * g->cgp + g->cb - 1) / g->cb; }
CV_ANYWHERE static inline int cv_spectral_wblocks(const cv_spectral *g) { return (g->cgp + g->wcb - 1) / g->wcb; }

/* What a pass transforms. */
enum { CV_FORWARD_X = 1, CV_FORWARD_W = 2 };

/* The complex product's block shapes: how many (with those for Hopper, compute capability 9.0, or without). Of one:
 * outputs and tiles of a block, steps of 16 channels that its beginning and end cost, bytes of shared memory, and
 * (returned) a step's cycles for 16 outputs by 8 tiles by 8 channels. */
int cv_spectral_product_shapes(int hopper);
float cv_spectral_product_shape(int shape, int *outputs, int *tiles, int *begin, int *bytes);

/* Each launcher only enqueues and returns a cudaError_t. The first launch on a device must come after cv_spectral_setup
 * there. */
int cv_spectral_setup(void);
/* Whether this device and this build let a kernel begin while the one before it ends; after cv_spectral_setup. */
int cv_spectral_overlaps(void);
/* w with its strides to a packed copy. */
int cv_spectral_pack(const cv_spectral *g, float *copy, void *stream);
int cv_spectral_forward(const cv_spectral *g, int what, void *stream);
int cv_spectral_product(const cv_spectral *g, int shape, void *stream);
/* The same for at most CV_FEW channels of a group, without tensor cores. */
enum { CV_FEW = 8 };
int cv_spectral_product_few(const cv_spectral *g, void *stream);
int cv_spectral_inverse(const cv_spectral *g, void *stream);
int cv_spectral_depthwise(const cv_spectral *g, void *stream);

/* Channels a block of a transform should take for this tile, 0 if the tile is not among the sides that the kernels
 * have. */
int cv_spectral_channels(int ty, int tx);
extern const int cv_spectral_sides[]; /* ascending, ends with 0 */

#ifdef __cplusplus
}
#endif
#endif
