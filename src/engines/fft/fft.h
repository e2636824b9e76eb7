/* Inside the CPU `fft` engine: geometry of tiles, chunks of work, and the two ways of running them.
 *
 * Dense (more than one channel a group): for a chunk of tiles, x's spectra; for a chunk of output channels, w's
 * spectra, the product in every bin, and the inverse. In the product one operand gives vectors (its items in the
 * lanes), the other gives rows (its values are broadcast):
 *
 *   CV_FFT_LANES_K   lanes are output channels (w gives vectors, tiles are rows)
 *   CV_FFT_LANES_T   lanes are tiles (x gives vectors, output channels are rows): few output channels, many tiles
 *
 * Pointwise (one channel a group: depthwise, imaging): a lane group goes forward, through the product and back at once,
 * in L2:
 *
 *   CV_FFT_POINT_C   lanes are channels of one tile
 *   CV_FFT_POINT_T   lanes are tiles of one channel */
#ifndef CV_ENGINE_FFT_H
#define CV_ENGINE_FFT_H

#include "core/engine.h"
#include "fft/tile.h"

enum { CV_FFT_CLOCK = 64 }; /* bytes at the end of a thread's scratch */
enum { CV_FFT_LANES_K, CV_FFT_LANES_T, CV_FFT_POINT_C, CV_FFT_POINT_T, CV_FFT_WAYS };

/* One axis of the tiling. With dilation d and stride t, outputs p fall into d/gcd(d,t) phases; those of a phase read
 * the elements of x at one remainder by d, with a stride of t/gcd(d,t) among them. Each phase is an image of its own
 * without dilation; what is left of the stride is computed at 1 and decimated on the way out. */
typedef struct cv_fft_axis {
    int64_t in, taps, outs, pad;
    int64_t dil, phases, stride; /* stride: within a phase */
    int tile, step;              /* the tile's side, and the stride-1 outputs it yields */
    int cut;                     /* leading elements that exist in no tile: transforms run on tiles moved by as much */
    int64_t tiles;               /* that cover a phase */
    int64_t x_step, y_step; /* element strides of x and y along this axis, from one element of a phase to its next */
    int64_t x_unit, y_unit; /* and of the tensors themselves */
} cv_fft_axis;

/* Where one tile lies along an axis. */
typedef struct cv_fft_span {
    int64_t x_at, y_at; /* element offsets of tile element 0 (may lie outside x) and of the first output */
    int lo, hi;         /* the tile's elements lo..hi-1 exist */
    int count;          /* outputs: stride-1 output i*stride of the tile, i < count */
    int64_t out;        /* index of the first output along the whole axis, and the distance to the next */
    int64_t out_step;
} cv_fft_span;

void cv_fft_span_of(const cv_fft_axis *axis, int64_t phase, int64_t index, cv_fft_span *span);

/* What a candidate means for a problem; filled by cv_fft_shape, cheap enough for the cost model. */
typedef struct cv_fft_shape {
    int way, lanes;   /* lanes: VL of the kernels */
    cv_fft_tile tile; /* lines are set up by create only */
    cv_fft_axis y, x;
    int64_t images, tiles;              /* images: N times the phases; tiles: in all of them */
    int64_t tile_chunk, k_chunk, depth; /* dense: tiles, output and input channels (of a group) at a time */
    int k_outer;                        /* dense: output channels in the outer loop (w once, x again and again) */
    int64_t c_chunk; /* pointwise: lane groups of channels (POINT_C) or channels (POINT_T) at a time */
    int w_rows;      /* pointwise: w is transformed while its one tile is */
    int threads;
    int64_t column, w_column; /* dense: floats of a lane group's column of bins, and of w's, stored after its rows */
    int64_t x_step, w_step;   /* dense: floats from one u to the next */
    int stream, w_stream;     /* dense: x's and the results' spectra, w's spectra outgrow the last cache */
    /* Dense: rows, channels of a block of panels, channels packed at once; columns of w, groups of lanes at a time. */
    int64_t block_rows, block_depth, panel_depth, block_columns, block_groups;
    /* Dense, results: summed up where they stay, or in a thread's scratch; rows kept of a column; floats of a column
     * and of a lane group's columns, which lie together. */
    int in_place;
    int64_t out_rows, out_column, out_group;
    size_t x_bytes, w_bytes, out_bytes, guard_bytes, thread_bytes, workspace_bytes;
} cv_fft_shape;

/* 1 when the candidate can run within the workspace limit. */
int cv_fft_shape_make(const cv_request *request, const cv_candidate *candidate, cv_fft_shape *shape);

const cv_fft_kernels *cv_fft_kernels_of(cv_isa isa);
double cv_fft_cost(const cv_request *request, const cv_fft_shape *shape);
int cv_fft_list(const cv_request *request, cv_candidate *list, int capacity);

typedef struct cv_fft_state {
    const cv_machine *machine;
    cv_request r;
    cv_fft_shape s;
    const cv_fft_kernels *k;
    size_t half, line;         /* floats of scratch, rounded up to whole cache lines */
    float high, low;           /* magnitudes between which no scaling is needed */
    int64_t prepared_step;     /* dense: floats from one u to the next of prepared half-spectra */
    size_t spectra_at, raw_at; /* floats into the block of prepared weights: spectra, and w itself for the direct sum */
} cv_fft_state;

/* Guards. Magnitudes out of low..high ask for an exact power of two; what no scale can hold goes to the direct sum. */
enum { CV_FFT_DIRECT = INT32_MAX };
/* 0, an exponent e (work on values * 2^-e), or CV_FFT_DIRECT. */
int32_t cv_fft_exponent(const cv_fft_state *state, float max);
/* The same for a kernel, where a range beyond 2^40 is more than a norm-wise bound says anything about. */
int32_t cv_fft_kernel_exponent(const cv_fft_state *state, float max, float min);
void cv_fft_sink_scale(const cv_fft_state *state, int32_t x_exponent, int32_t w_exponent, cv_fft_sink *sink);

/* A run: the request's tensors and where everything lies. */
typedef struct cv_fft_run {
    const cv_fft_state *st;
    const float *x, *w, *bias;
    int64_t w_stride[4];
    float *y;
    const float *prepared; /* spectra, or NULL */
    const int32_t *prepared_exponent;
    float *x_spectra, *w_spectra, *out_spectra, *scratch; /* in the workspace */
    float *x_max, *w_max, *w_min;
    float *x_item_max, *w_item_max, *w_item_min; /* over the channels so far */
    int32_t *x_exponent, *w_exponent;
    cv_phases *phases;
    /* The chunk in work. */
    int64_t group, tile0, tiles, k0, ks, c0, cs;
    int scaled; /* another try at this chunk: the exponents are known */
} cv_fft_run;

float *cv_fft_thread_scratch(const cv_fft_run *run, int thread);
/* Two numbers of a thread's own, for phases. */
double *cv_fft_thread_clock(const cv_fft_run *run, int thread);
/* Source of tile t, channel c (of all); sink for tile t, output channel k (of all). */
void cv_fft_tile_source(const cv_fft_run *run, int64_t t, int64_t c, cv_fft_source *source);
void cv_fft_tile_sink(const cv_fft_run *run, int64_t t, int64_t k, cv_fft_sink *sink, cv_fft_store *store);
void cv_fft_kernel_source(const cv_fft_run *run, int64_t k, int64_t c, cv_fft_source *source);
void cv_fft_load_begin(const cv_fft_run *run, int kernels, cv_fft_load *load);
void cv_fft_load_end(const cv_fft_run *run, int kernels, cv_fft_load *load); /* once the lanes are filled in */
/* The outputs of tile t, channel k by the direct sum. */
void cv_fft_direct(const cv_fft_run *run, int64_t t, int64_t k);

void cv_fft_dense(cv_fft_run *run);
void cv_fft_bins(const cv_fft_run *run);
void cv_fft_pointwise(cv_fft_run *run);
/* Fill a block of prepared spectra and exponents. */
void cv_fft_dense_prepare(cv_fft_run *run, float *spectra, int32_t *exponent);
void cv_fft_pointwise_prepare(cv_fft_run *run, float *spectra, int32_t *exponent);

#endif
