/* Tiles whose lanes are output columns: what the kernels of rows.c take, and the table of them. */
#ifndef CV_ROWS_H
#define CV_ROWS_H

#include "taps.h"

enum { CV_ROWS_M = 6, CV_ROWS_V = 4, CV_ROWS_SLIDE = 4 };

/* A tile: m rows of outputs (neighbouring channels of one image row, or neighbouring image rows of one channel) times v
 * vectors along q. Steps are in floats. */
typedef struct cv_rows_tile {
    const float *x[CV_ROWS_V]; /* vector's lane 0 at channel 0, first input row, tap 0: may lie outside the image */
    int64_t q[CV_ROWS_V];      /* its output column */
    const float *w; /* row 0's weights at channel 0, first input row, tap 0: may lie outside w when sliding */
    int64_t x_q, x_c, x_r, x_s; /* from a lane, channel, input row, tap to the next */
    int64_t w_m, w_c, w_r, w_s; /* from a row of the tile, channel, input row, tap to the next */
    int64_t cs, rs;             /* channels and input rows to sum */
    int64_t before, taps; /* sliding only: input row i is tap row before + i - j of the tile's row j, if in [0, taps) */
    int64_t s0, sf0, sf1,
        s1;              /* s0 <= sf0 <= sf1 <= s1: taps; those in [sf0, sf1) are inside for every lane of the tile */
    const cv_axis *axis; /* the column axis; not read when sf0 = s0 and sf1 = s1 */
    int lanes;           /* lanes that exist in each vector; below VL no tap may be in [sf0, sf1) unless x_q != 1 */
    float *y[CV_ROWS_V]; /* row 0 */
    int64_t y_m, y_q;
    const float *bias; /* row 0's, or NULL */
    int64_t bias_m;
} cv_rows_tile;

typedef void (*cv_rows_fn)(const cv_rows_tile *tile);

typedef struct cv_rows_set {
    int vl;
    int v_most;                                         /* most vectors in a tile */
    cv_rows_fn rows[CV_ROWS_M + 1][CV_ROWS_V + 1];      /* by m and v; x_q = 1 */
    cv_rows_fn slide[CV_ROWS_SLIDE + 1][CV_ROWS_V + 1]; /* the same, for neighbouring image rows */
    cv_rows_fn apart[CV_ROWS_M + 1];                    /* by m; one vector, any x_q */
} cv_rows_set;

extern const cv_rows_set cv_rows_scalar, cv_rows_avx2, cv_rows_avx512;

#endif
