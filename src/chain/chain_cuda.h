/* The exact chain on a GPU: whole tensors, or those tiles of y that a transform engine flagged.
 *
 * Every output is acc = fmaf(x, w, acc) from +0 over c, then r, then s, ascending, taps outside the image skipped, then
 * one add of the bias. Four kernels share the work:
 *
 *   slide   many output channels: register tiles along q (slide_kernel.cuh)
 *   plane   stride and dilation 1, few channels a group: imaging, kernels beyond shared memory (plane_kernel.cuh)
 *   strip   stride and dilation 1, one channel a group: depthwise (strip_kernel.cuh)
 *   gather  everything else, and small problems (gather_kernel.cuh)
 *
 * slide reads w as relay.cu lays it. All functions only enqueue; they return a cudaError_t as an int. */
#ifndef CV_CHAIN_CUDA_H
#define CV_CHAIN_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Strides in elements: x (n, c, h, w), w (k, c, r, s), y (n, k, p, q). */
typedef struct cv_chain_shape {
    int64_t n, c, h, w, k, r, s, p, q;
    int64_t st_h, st_w, pad_t, pad_l, pad_b, pad_r, dil_h, dil_w, groups;
    int64_t xs[4], ws[4], ys[4];
} cv_chain_shape;

/* Of a problem whose strides are filled in, with P x Q outputs. */
struct convoy_problem;
void cv_chain_shape_of(const struct convoy_problem *problem, int64_t P, int64_t Q, cv_chain_shape *shape);

typedef struct cv_chain_gpu {
    int sm_count;
    size_t shared_bytes; /* the most a block may opt in to */
    double flop_per_s, bytes_per_s;
} cv_chain_gpu;

/* The most that cv_chain_cuda_choices gives. */
enum { CV_CHAIN_CHOICES = 64 };

enum cv_chain_kind { CV_CHAIN_SLIDE, CV_CHAIN_PLANE, CV_CHAIN_GATHER, CV_CHAIN_STRIP };

/* variant: an index into the kind's table of instances. slide only: swizzle, split, and the taps that a stage has at
 * least (more: fewer barriers, longer loads in flight; fewer: less shared memory). */
typedef struct cv_chain_choice {
    int kind, variant, swizzle, split, taps;
} cv_chain_choice;

/* n / d for 0 <= n < 2^31 as a multiplication: see cv_divider_make. */
typedef struct cv_divider {
    unsigned magic;
    int shift, d;
} cv_divider;

typedef struct cv_slide_args {
    const float *x, *bias, *wr; /* wr: w as relay.cu lays it, [group][k block][c][r][s][KB] */
    float *y;
    float *carry;    /* split: accumulators under way, one slot a block */
    unsigned *flags; /* split: carry slot b is ready; zeroed before the launch */
    long long xs_n, xs_c, ys_n, ys_k, wr_group, wr_kblock;
    int xs_h, xs_w, ys_p, ys_q;
    int H, W, P, Q, TQ, items; /* TQ: items a row; items: of one group of channels */
    int Kg, Cg, R, S;
    int st_h, st_w, dil_h, dil_w, pad_t, pad_l;
    int beyond;                 /* floats of a slot's phase besides its items' own columns */
    int step_at, step_ph;       /* dil_w as places in a phase and phases */
    int nr, stages;             /* rows (c, r) a stage; stages a tile */
    int stage_floats, x_floats; /* floats of a stage, of the x rows of one (c, r) */
    int row_shift;              /* log2 of the threads that copy one row of x */
    int vec;                    /* x is copied 16 bytes at a time */
    int nib, swizzle;           /* item blocks of a group; item blocks walked per k block */
    int split, share, extra;    /* stages of a block; the first `extra` blocks have one more */
    cv_divider by_group, by_band, by_swizzle,
        by_last; /* tiles of a group, of a band, item blocks of a band, of the last one */
    cv_divider by_tq, by_p, by_r, by_stages;
} cv_slide_args;

typedef struct cv_plane_args {
    const float *x, *w, *bias;
    float *y;
    long long xs_n, xs_c, xs_h, xs_w, ws_k, ws_c, ws_r, ws_s, ys_n, ys_k, ys_p, ys_q;
    int N, H, W, P, Q, K, Kg, Cg, R, S, pad_t, pad_l;
    int tq, tp, tnn, tnk; /* threads across and down a plane; images and channels of a block */
    int tiles_q, tiles_p, tiles_n;
    int rc, sp, pitch;      /* kernel rows a round; floats of a w row, of an x row */
    int x_floats, w_floats; /* of one plane's x, of one channel's w */
    int x_lanes, w_lanes;   /* lanes that copy one row: a power of two up to 32 */
} cv_plane_args;

typedef struct cv_strip_args {
    const float *x, *w, *bias;
    float *y;
    long long xs_n, xs_c, xs_h, xs_w, ws_k, ws_c, ws_r, ws_s, ys_n, ys_k, ys_p, ys_q;
    int N, H, W, P, Q, K, R, S, pad_t, pad_l;
    int Cg, dil_h, dil_w;                          /* all 1 */
    int tq, tnk;                                   /* strips and channels of a block */
    int steps;                                     /* by taps: of a row */
    int x_cols, x_pitch, x_floats;                 /* columns stored of a row of x, floats of a row and of a plane */
    int w_cols, w_pitch, w_floats;                 /* the same of w */
    int w_first;                                   /* where a row's first tap is stored */
    int y_pitch;                                   /* floats of a row of y in shared memory */
    int x_lanes, w_lanes, y_lanes;                 /* lanes that copy one row: a power of two up to 32 */
    cv_divider by_tiles_q, by_tiles_p, by_tiles_n; /* of blocks */
    cv_divider by_tp, by_planes, by_tnn;           /* of a block's threads: rows, planes, images of a channel */
    cv_divider by_rows, by_r, by_kg;               /* rows of x stored, rows of w, outputs of a group */
    /* Whole planes without gaps go in pieces of 1, 2 or 4 words, whatever the length of rows; 0 (or not flat): not so.
     */
    int x_words, y_words, w_flat;
    cv_divider by_x_plane, by_x_row, by_y_plane, by_y_row, by_w_plane, by_s; /* of pieces */
} cv_strip_args;

typedef struct cv_gather_args {
    const float *x, *w, *bias;
    float *y;
    long long xs_n, xs_c, xs_h, xs_w, ws_k, ws_c, ws_r, ws_s, ys_n, ys_k, ys_p, ys_q;
    int pixels; /* of one launch */
    int H, W, P, Q, Kg, Cg, R, S, st_h, st_w, dil_h, dil_w, pad_t, pad_l;
    int w_vec, y_vec;          /* four taps of w, four pixels of y lie in 16 bytes */
    unsigned x_lines, w_lines; /* of 128 bytes, asked for at the start; 0 where tensors are large or scattered */
    cv_divider by_blocks, by_kblocks, by_q, by_p, by_r, by_s; /* by_blocks: of pixels */
} cv_gather_args;

/* A launch without its pointers; plain data, copied freely. */
typedef struct cv_chain_plan {
    cv_chain_shape shape;
    cv_chain_choice choice;
    unsigned grid, block, shared;
    int vec;                /* x's strides allow 16-byte copies; its address decides at launch */
    size_t relaid_bytes;    /* w as the kernel wants it; 0: the caller's w will do */
    size_t workspace_bytes; /* besides these */
    int kb;                 /* channels of a block, for relay */
    union {
        cv_slide_args slide;
        cv_plane_args plane;
        cv_strip_args strip;
        cv_gather_args gather;
    } args;
} cv_chain_plan;

/* Choices that fit the shape, likely best first by cv_chain_cuda_estimate; returns how many. */
int cv_chain_cuda_choices(const cv_chain_shape *shape, const cv_chain_gpu *gpu, cv_chain_choice *list, int capacity);
double cv_chain_cuda_estimate(const cv_chain_shape *shape, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                              int relay, size_t *workspace_bytes);
/* 0, or a cudaError_t; cudaErrorInvalidValue when the choice does not fit the shape. */
int cv_chain_cuda_plan(const cv_chain_shape *shape, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                       cv_chain_plan *plan);
/* Writes w (strides of the shape) as [group][k block of kb][c][r][s][kb], zeros past K/G. With plan.kb that is what the
 * plan's kernel reads where relaid_bytes is not 0; with kb = 1 a packed copy. */
int cv_chain_cuda_relay(const cv_chain_shape *shape, int kb, const float *w, float *relaid, void *stream);
/* w is the caller's where relaid_bytes is 0, else what relay wrote. */
int cv_chain_cuda_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                      void *workspace, void *stream);

/* Recomputes the outputs of flagged tiles: tile (i, j) of an image covers rows i*tile_p .. and columns j*tile_q .. of
 * y. x_flags[((n * groups + g) * tiles_p + i) * tiles_q + j] marks a tile for all channels of a group, w_flags[k] every
 * tile of a channel; either may be NULL. Blocks whose flags are clear leave at once. */
int cv_chain_cuda_tiles(const cv_chain_shape *shape, int64_t tile_p, int64_t tile_q, const unsigned *x_flags,
                        const unsigned *w_flags, const float *x, const float *w, const float *bias, float *y,
                        void *stream);

/* Recomputes the outputs listed by their index ((n*K + k)*P + p)*Q + q; *count of them, at most capacity, both on the
 * device. */
int cv_chain_cuda_list(const cv_chain_shape *shape, const unsigned *count, const int64_t *list, int64_t capacity,
                       const float *x, const float *w, const float *bias, float *y, void *stream);

#ifdef __cplusplus
}
#endif

#endif
