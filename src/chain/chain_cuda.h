/* The exact chain on a GPU: whole tensors, or those tiles of y that a transform engine flagged.
 *
 * Every output is acc = fmaf(x, w, acc) from +0 over c, then r, then s, ascending, taps outside the image skipped, then
 * one add of the bias. Three kernels share the work:
 *
 *   slide   stride 1 and dilation 1 across, many output channels: register tiles along q (slide_kernel.cuh)
 *   plane   stride and dilation 1, few channels a group: depthwise, imaging (plane_kernel.cuh)
 *   gather  everything else, and small problems (gather_kernel.cuh)
 *
 * slide and gather read w as relay.cu lays it. All functions only enqueue; they return a cudaError_t as an int. */
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

typedef struct cv_chain_gpu {
    int sm_count;
    size_t shared_bytes; /* the most a block may opt in to */
    double flop_per_s, bytes_per_s;
} cv_chain_gpu;

/* The most that cv_chain_cuda_choices gives. */
enum { CV_CHAIN_CHOICES = 64 };

enum cv_chain_kind { CV_CHAIN_SLIDE, CV_CHAIN_PLANE, CV_CHAIN_GATHER };

/* variant: an index into the kind's table of instances; swizzle, split: slide only. */
typedef struct cv_chain_choice {
    int kind, variant, swizzle, split;
} cv_chain_choice;

typedef struct cv_slide_args {
    const float *x, *bias, *wr; /* wr: w as relay.cu lays it, [group][k block][c][r][s][KB] */
    float *y;
    float *carry;    /* split: accumulators under way, one slot a block */
    unsigned *flags; /* split: carry slot b is ready; zeroed before the launch */
    long long xs_n, xs_c, ys_n, ys_k, wr_group, wr_kblock;
    int xs_h, xs_w, ys_p, ys_q;
    int H, W, P, Q, TQ, items; /* TQ: items a row; items: of one group of channels */
    int Kg, Cg, R, S, groups;
    int st_h, dil_h, pad_t, pad_l;
    int nr, stages, stage_floats,
        x_floats;           /* rows a stage; stages a tile; floats of one stage; floats of x rows in it, one row */
    int xrow, slots, table; /* floats of one slot; slots; entries of the copy table */
    int vec;                /* x is copied 16 bytes at a time */
    int nib, nkb, tiles, swizzle; /* item blocks, k blocks of a group; tiles in all; item blocks walked per k block */
    int split;
} cv_slide_args;

typedef struct cv_plane_args {
    const float *x, *w, *bias;
    float *y;
    long long xs_n, xs_c, xs_h, xs_w, ws_k, ws_c, ws_r, ws_s, ys_n, ys_k, ys_p, ys_q;
    long long planes;
    int H, W, P, Q, K, Kg, Cg, R, S, pad_t, pad_l;
    int tq, tp, tn; /* threads across, down, and planes of a block */
    int tiles_q, tiles_p;
    int rc, sp, pitch, rows; /* kernel rows a round; floats of a w row, of an x row; x rows of a plane */
    int x_floats, w_floats;  /* of one plane */
} cv_plane_args;

typedef struct cv_gather_args {
    const float *x, *bias, *wr;
    float *y;
    long long xs_n, xs_c, xs_h, xs_w, ys_n, ys_k, ys_p, ys_q, wr_group, wr_kblock;
    long long pixels, pixel_blocks;
    int H, W, P, Q, Kg, Cg, R, S, st_h, st_w, dil_h, dil_w, pad_t, pad_l;
    int nkb;
} cv_gather_args;

/* A launch without its pointers; plain data, copied freely. */
typedef struct cv_chain_plan {
    cv_chain_shape shape;
    cv_chain_choice choice;
    unsigned grid, block, shared;
    int vec;                /* x's strides allow 16-byte copies; its address decides at launch */
    size_t relaid_bytes;    /* w as the kernel wants it; 0: the caller's w will do */
    size_t workspace_bytes; /* besides relaid_bytes */
    int kb;                 /* channels of a block, for relay */
    union {
        cv_slide_args slide;
        cv_plane_args plane;
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
