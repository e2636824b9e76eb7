/* The kernels around cuFFT and cuBLAS. All enqueue only and return a cudaError_t as an int. Strides are in elements;
 * complex arrays are pairs of floats. */
#ifndef CV_CUFFT_KERNELS_H
#define CV_CUFFT_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of x, cut into tiles across and padded with zeros, planes [plane_from, plane_from + planes) of (image, channel):
 *   out[((plane*rows + h)*tw + j)*tx + i] = x[n, c, row_from + h, j*step_w - pad_l + i]     (plane counted from
 * plane_from) and the largest magnitude of each tile into slot ((n*groups + g)*th + t)*tw + j, two words each. */
typedef struct cv_pad_x {
    const float *x;
    int64_t xs[4];
    float *out;
    unsigned *slots;
    int64_t plane_from, planes, channels; /* planes number image * channels + channel, from n_from and c_from on */
    int64_t n_from, c_from, cg, groups;
    int64_t row_from, rows, W, pad_l, pad_t, step_w, step_h, tw, th;
    int64_t t_from, t_count;
    int tx, ty;
} cv_pad_x;
int cv_cufft_pad_x(const cv_pad_x *a, void *stream);

/* Rows of w padded with zeros, taps dilated: out[(plane*R + r)*tx + s*dil] = w[k, c, r, s], planes number k * cg + c of
 * `kernels` output channels a group; magnitudes into slot k; and packed, undilated, into raw unless NULL. */
typedef struct cv_pad_w {
    const float *w;
    int64_t ws[4];
    float *out, *raw;
    unsigned *slots;
    int64_t plane_from, planes, cg;
    int64_t k_from, kernels, kg; /* plane / cg = group * kernels + k - k_from, channel g*kg + k */
    int64_t g_from;
    int R, S, dil, tx;
} cv_pad_w;
int cv_cufft_pad_w(const cv_pad_w *a, void *stream);

/* Row spectra -> chunk [ty][kx][b]. Of x: b = (group, image, tile row, tile, channel); of w (tiles == 0): b = (group,
 * k, channel). */
typedef struct cv_cut {
    const float *rows;
    float *out;
    int64_t count;                                       /* of b */
    int64_t cg, tiles, tw, t_count, channels;            /* x: tiles of a group; channels of all groups */
    int64_t plane_rows, row_from, t_from, step_h, pad_t; /* x: stored rows of a plane, the first one's number */
    int64_t R, dil;                                      /* w */
    int ty, bins, kx_from, kx;
} cv_cut;
int cv_cufft_cut(const cv_cut *a, void *stream);

/* Chunk [ty][kx][b], b = (group, image, tile row, tile, k) -> row spectra of y, the rows that are outputs only. */
typedef struct cv_pick {
    const float *in;
    float *rows;
    int64_t count, kernels, tiles, tw, t_count, planes; /* kernels: of a group; planes: of an image */
    int64_t plane_rows, tile_p, stride_h;
    int bins, kx_from, kx;
} cv_pick;
int cv_cufft_pick(const cv_pick *a, void *stream);

/* Real rows -> y, cropped, with bias. */
typedef struct cv_spread {
    const float *in, *bias;
    float *y;
    int64_t ys[4];
    int64_t plane_from, planes, per_image; /* planes number image * per_image + group * kernels + k */
    int64_t n_from, g_from, k_from, kernels, kg, p_from, rows, Q, tw, tile_q, stride_w;
    int tx;
} cv_spread;
int cv_cufft_spread(const cv_spread *a, void *stream);

/* y[bin][g][tile][k] = scale * sum over c of x[bin][g][tile][c] * conj(w[bin][g][k][c]), for few channels. */
typedef struct cv_product {
    const float *x, *w;
    float *y;
    int64_t bins, groups, tiles, kernels, cg;
    int64_t x_bin, w_bin, y_bin, w_group; /* complex elements between bins; between groups of w */
    float scale;
} cv_product;
int cv_cufft_product(const cv_product *a, void *stream);

#ifdef __cplusplus
}
#endif

#endif
