/* Tiled overlap-save from vendor parts: sizes, workspace and the order of work.
 *
 *   y[n,k] on tile (i,j) = crop( IFFT( sum over c of FFT(x[n,c] on tile (i,j)) * conj(FFT(w[k,c])) ) )
 *
 * A 2-D transform is cut in two, because cuFFT is quick at both halves and slow at the layout that a product wants
 * (bins outermost) when asked for it in one call:
 *
 *   rows     real rows of TX values -> F = TX/2 + 1 bins, packed rows, one row a batch entry. Rows of x are transformed
 *            once, though two tiles above one another share them; of w only the R rows that are not zero, and where
 * that moves less, by one real product with the S x 2F matrix of the short DFT, without padding cut      our
 * transposition: row spectra -> chunks [TY][kx][b], b = (group, tile, channel) contiguous columns  C2C along TY with
 * stride kx*b and distance 1, in place: every load and store is contiguous in b product  one batched complex product
 * over the TY*kx bins of the chunk (cuBLAS), conj(w) as its op C, 1/(TY*TX) as alpha columns, pick, rows: the way back,
 * then the crop to y with its bias
 *
 * Chunks of kx columns bins keep the four steps in the middle inside L2, and the spectra are never held as a whole. */
#ifndef CV_CUFFT_SPECTRAL_H
#define CV_CUFFT_SPECTRAL_H

#include "core/engine.h"

typedef struct cv_spectral {
    int ty, tx, bins, kx;         /* tile; F bins a row; columns of bins a chunk */
    int64_t tile_p, tile_q;       /* outputs a tile yields */
    int64_t step_h, step_w;       /* rows and columns of x from tile to tile */
    int64_t th, tw;               /* tiles of an image */
    int64_t g_at_once, k_at_once; /* groups, and output channels of a group, in one pass */
    int64_t n_at_once, t_at_once; /* images, and rows of tiles, in one band */
    int pointwise;                /* few channels a group: our own product instead of cuBLAS */
    int w_product;                /* rows of w by a product with the DFT's matrix, which knows that they are short */
    size_t stage_bytes;           /* padded real rows under way; shares its memory with the chunks */
    double stage_goal;            /* no more of them than this at once */
    size_t x_rows_bytes, w_rows_bytes, y_rows_bytes;    /* row spectra of a band, a pass, a band */
    size_t x_chunk_bytes, w_chunk_bytes, y_chunk_bytes; /* [TY][kx][b] */
    size_t guard_bytes, blas_bytes;
    size_t own_bytes; /* all of the above; cuFFT's work area comes on top */
} cv_spectral;

/* Rows of x, of all images and channels alike, that tile rows t .. t+count-1 read: from *first on. */
int64_t cv_spectral_rows(const cv_request *q, const cv_spectral *s, int64_t t, int64_t count, int64_t *first);

/* Fills s for a candidate (ty, tx, kx) and the request's workspace limit, of which `reserved` bytes are spoken for; 0
 * when that is not possible. */
int cv_spectral_make(const cv_request *q, const cv_candidate *candidate, size_t reserved, cv_spectral *s);

/* Seconds, by bytes moved and operations made. */
double cv_spectral_seconds(const cv_request *q, const cv_spectral *s);

/* Tile sides worth trying and chunk widths, likely best first. */
int cv_spectral_candidates(const cv_request *q, cv_candidate *list, int capacity);

#endif
