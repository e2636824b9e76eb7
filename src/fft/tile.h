/* Two-dimensional real transforms of VL tiles at once, one tile a lane, and the per-bin products: the kernels of the
 * CPU `fft` engine as one table of functions an instruction set.
 *
 * A tile has ty x tx points and bins = ty * ux spectral bins, ux = tx/2 + 1; bin number is u*ty + v (u along x, v along
 * y). Spectra are unnormalised and doubled (rows go in pairs as the real and imaginary part of one complex row, and the
 * halves of the separation are left out), so that inverse(forward(x) * forward(w)) carries a factor 4 * tx * ty.
 *
 * Sources and results may start anywhere: a lane's data lie in rows y0..y1-1 and columns x0..x1-1 of its tile; the
 * transform runs on the tile moved up and left by (cut_y, cut_x), common to all lanes, so that zero rows and columns
 * come last and cost little. The inverse takes the same cut to put outputs back. */
#ifndef CV_FFT_TILE_H
#define CV_FFT_TILE_H

#include "line.h"

#include <stdint.h>

enum { CV_FFT_LANES = 16, CV_FFT_DEPTH = 160 }; /* the widest vector; the most channels of a multiply */

typedef struct cv_fft_tile {
    int ty, tx, ux;
    int64_t bins;
    cv_fft_line row, column; /* of lengths tx and ty */
} cv_fft_tile;

/* What a lane reads. plane + offset is where the tile's element (0,0) would lie; only rows y0..y1-1 and columns
 * x0..x1-1 do. */
typedef struct cv_fft_source {
    const float *plane;
    int64_t offset;
    int y0, y1, x0, x1;
} cv_fft_source;

typedef struct cv_fft_load {
    cv_fft_source lane[CV_FFT_LANES];
    int lanes;              /* in use; the others transform zeros */
    int64_t step_y, step_x; /* element strides of the source */
    const float *scale;     /* a power of two for each lane, or NULL */
    int want_min;
    int cut_y, cut_x, rows, columns; /* the extent from the cut on that any lane fills */
    float max[CV_FFT_LANES],
        min[CV_FFT_LANES]; /* out: largest and smallest non-zero magnitude (+Inf: none; NaN: as max) */
} cv_fft_load;

/* What a lane writes: outputs (0..rows-1, 0..columns-1) of its tile, y = value * scale * power + bias, to plane[offset
 * + row*step_y + ...]. */
typedef struct cv_fft_sink {
    float *plane;
    int64_t offset;
    int rows, columns;
    float scale, power, bias;
} cv_fft_sink;

typedef struct cv_fft_store {
    cv_fft_sink lane[CV_FFT_LANES];
    int lanes;
    int every_y, every_x; /* output row i*every_y goes to row i: strides above 1 keep every st-th */
    int64_t step_y, step_x;
    int cut_y, cut_x;
} cv_fft_store;

/* The spectrum of a lane group: bin (u, v) is VL real parts at at + u*step + v*2*VL, then VL imaginary ones. A group's
 * column is contiguous, so transforms write and read kilobytes at a time; the groups of one u lie together, for the
 * product. */
typedef struct cv_fft_spectrum {
    float *at;
    int64_t step;
    int stream; /* written past the caches */
} cv_fft_spectrum;

/* Floats from a lane group's column to the next group's: an odd number of pairs of lines, so that equal bins of many
 * groups spread over the sets of a cache. */
static inline int64_t cv_fft_column_floats(const cv_fft_tile *tile, int lanes)
{
    return (int64_t)(tile->ty | 1) * 2 * lanes;
}

/* Per bin: out[n][g] = sum over c < depth of row[n][c] * vector[g][c], complex; g is a group of VL lanes. The operands
 * are lane groups as above, `step` from one u to the next: value (n, c) of the rows is lane i % VL of group i / VL with
 * i = row_first + n*row_pitch + c; vectors are groups g*vector_pitch + c. Results are columns of one u, out_row floats
 * from one n to the next and out_group from one g to the next. */
typedef struct cv_fft_product {
    const cv_fft_tile *tile;
    int64_t rows, groups, depth, row_first, row_pitch, vector_pitch, out_row, out_group;
    int more; /* add to what out holds */
    const float *row, *vector;
    float *out;
    int64_t row_step, vector_step;
} cv_fft_product;

/* Columns to transform back: `count` of them, of which the `rows` elements first, first + every, ... (modulo ty) are
 * kept, one after the other. A column may be finished in place. */
typedef struct cv_fft_finish {
    const float *in;
    float *out;
    int64_t count, in_pitch, out_pitch; /* floats from one column to the next */
    int first, every, rows;
    int stream; /* written past the caches */
} cv_fft_finish;

/* A half-spectrum on its way back: row y's value u at at + y*row + u*column. Output i is row (first + i*every) % rows.
 */
typedef struct cv_fft_half {
    const float *at;
    int64_t row, column;
    int first, every, rows;
    int far; /* not in L2: wants prefetching, columns lie together */
} cv_fft_half;

/* How the kernels' spectra reach a pointwise product: a vector of lanes a bin, one value a bin for all lanes, or as
 * rows of their own that still want their columns transformed. */
typedef enum cv_fft_factor { CV_FFT_LANEWISE, CV_FFT_SHARED, CV_FFT_ROWS } cv_fft_factor;

typedef struct cv_fft_kernels {
    int lanes; /* VL */

    /* Floats: of the half-spectrum that rows_forward fills (row y at pitch y: ux complex vectors), of line scratch, of
     * one bin's panels. */
    size_t (*half_floats)(const cv_fft_tile *tile);
    size_t (*line_floats)(const cv_fft_tile *tile);
    size_t (*panel_floats)(int64_t rows, int64_t depth);

    /* Transforms the rows of the lanes of load; conjugate: to the conjugates, and columns_* must be told the same. */
    void (*rows_forward)(const cv_fft_tile *tile, cv_fft_load *load, int conjugate, float *half, float *scratch);
    void (*columns_forward)(const cv_fft_tile *tile, const float *half, int rows, int conjugate, cv_fft_spectrum out,
                            float *scratch);
    void (*columns_finish)(const cv_fft_tile *tile, const cv_fft_finish *finish, float *scratch);
    void (*rows_finish)(const cv_fft_tile *tile, const cv_fft_half *half, const cv_fft_store *store, float *scratch);
    void (*rows_inverse)(const cv_fft_tile *tile, const float *half, const cv_fft_store *store, float *scratch);

    /* The same in two steps: columns_copy puts half's columns, `rows` complex vectors each, to out (group after group
     * without a gap); columns_lines transforms `count` groups' columns of one u from there to a spectrum at out. */
    void (*columns_copy)(const cv_fft_tile *tile, const float *half, int rows, cv_fft_spectrum out);
    void (*columns_lines)(const cv_fft_tile *tile, const float *in, int rows, int64_t count, int conjugate, float *out,
                          float *scratch);

    /* half (of x, `rows` rows) -> columns, times factor, inverse columns -> out, which may be half itself. LANEWISE:
     * factor is [bin][2][VL]; SHARED: [bin][2]; ROWS: a conjugate half-spectrum of factor_rows rows. */
    void (*columns_pointwise)(const cv_fft_tile *tile, const float *half, int rows, cv_fft_factor kind,
                              const float *factor, int factor_rows, float *out, float *scratch);

    /* Bins (u, v) for v0 <= v < v1: the rows to panels, one bin's after the other's; panels times vectors. depth is at
     * most CV_FFT_DEPTH. */
    void (*pack)(const cv_fft_product *product, int u, int v0, int v1, float *panels);
    void (*multiply)(const cv_fft_product *product, int u, int v0, int v1, const float *panels);
} cv_fft_kernels;

extern const cv_fft_kernels cv_fft_kernels_scalar, cv_fft_kernels_avx2, cv_fft_kernels_avx512;

#endif
