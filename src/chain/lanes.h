/* Tiles whose lanes are output channels: what the kernels of lanes.c take, and the table of them. */
#ifndef CV_LANES_H
#define CV_LANES_H

#include <stdint.h>

enum { CV_LANES_U = 14 }; /* most outputs along q in a tile */

/* A tile: u outputs q0 .. q0+u-1 of one row, times one or two vectors of channels. Steps are in floats. */
typedef struct cv_lanes_tile {
    const float *x;             /* output q0's input at channel 0, tap (r0, 0): may lie outside the image */
    const float *w;             /* the panel [c][r][s][lanes] at channel 0, tap (r0, 0) */
    int64_t x_u, x_c, x_r, x_s; /* from an output, channel, tap row, tap to the next */
    int64_t w_c, w_r;
    int64_t cs, rs; /* channels and tap rows to sum */
    int64_t s0, sf0, sf1,
        s1; /* s0 <= sf0 <= sf1 <= s1: taps; those in [sf0, sf1) are inside for every output of the tile */
    const int64_t *first,
        *last; /* outputs [first[s], last[s]) have tap s inside; not read when sf0 = s0 and sf1 = s1 */
    int64_t q0;
    int resume; /* 0: sums start from +0; 1: from what acc holds */
} cv_lanes_tile;

/* acc: [u][vectors][VL] sums. */
typedef void (*cv_lanes_fn)(const cv_lanes_tile *tile, float *acc);

/* The tile's place in y. */
typedef struct cv_lanes_out {
    float *y; /* at lane 0, output 0 */
    int64_t y_lane, y_u;
    const float *bias;     /* at lane 0, or NULL */
    int u, vectors, lanes; /* lanes: channels that exist, at most vectors * VL */
} cv_lanes_out;

typedef struct cv_lanes_set {
    int vl;                               /* lanes in a vector */
    int u_most[3];                        /* by vectors (1, 2): most outputs in a tile */
    cv_lanes_fn lanes[3][CV_LANES_U + 1]; /* by vectors and u; x has one value for all lanes */
    cv_lanes_fn planes[CV_LANES_U + 1];   /* by u; x has a value for each lane (depthwise) */

    /* lanes_io.c. Sums begun earlier come back from y; finished ones go there, bias added. */
    void (*load)(const cv_lanes_out *out, float *acc);
    void (*store)(const cv_lanes_out *out, const float *acc);
    /* to[i * width + lane] = from[lane * step + i * along] for i < count; lanes past the given number become 0. */
    void (*interleave)(float *to, int width, const float *from, int lanes, int64_t step, int64_t count, int64_t along);
} cv_lanes_set;

extern const cv_lanes_set cv_lanes_scalar, cv_lanes_avx2, cv_lanes_avx512;

#define CV_LANES_DECLARE(isa)                                                                                          \
    void cv_lanes_load_##isa(const cv_lanes_out *out, float *acc);                                                     \
    void cv_lanes_store_##isa(const cv_lanes_out *out, const float *acc);                                              \
    void cv_lanes_interleave_##isa(float *to, int width, const float *from, int lanes, int64_t step, int64_t count,    \
                                   int64_t along);
CV_LANES_DECLARE(scalar)
CV_LANES_DECLARE(avx2)
CV_LANES_DECLARE(avx512)

#endif
