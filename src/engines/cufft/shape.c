/* From a candidate to sizes: tiles, chunks that fit the workspace limit, bytes. */
#include "spectral.h"
#include "gpu/guard.h"

#include <string.h>

enum { ALIGN = 256, BLAS_BYTES = 4 << 20, STAGE_LEAST = 24 << 20, POINTWISE_CHANNELS = 8, MOST_CALLS = 16 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Sizes are far below 2^63 after the engine's checks, but products of them need care only here. */
static size_t bytes_of(double count, size_t each)
{
    const double bytes = count * (double)each;
    return bytes < 4e18 ? ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN : (size_t)1 << 62;
}

int64_t cv_spectral_rows(const cv_request *q, const cv_spectral *s, int64_t t, int64_t count, int64_t *first)
{
    const int64_t from = most(t * s->step_h - q->p.pad_t, 0),
                  to = least((t + count - 1) * s->step_h - q->p.pad_t + s->ty, q->p.h);
    *first = from;
    return most(to - from, 0);
}

/* Whole planes of rows, as many as come near the goal. */
static double staged(const cv_spectral *s, double plane_floats, double planes)
{
    double at_once = s->stage_goal / 4.0 / plane_floats;
    at_once = at_once < 1 ? 1 : at_once > planes ? planes : (double)(int64_t)at_once;
    return at_once * plane_floats;
}

static size_t chunk_bytes(const cv_spectral *s) { return s->x_chunk_bytes + s->w_chunk_bytes + s->y_chunk_bytes; }

static void measure(const cv_request *q, cv_spectral *s)
{
    const convoy_problem *p = &q->p;
    const double c = (double)(s->g_at_once * q->cg), k = (double)(s->g_at_once * s->k_at_once),
                 n = (double)s->n_at_once;
    const double tiles = n * (double)s->t_at_once * (double)s->tw, bins = (double)s->ty * s->kx;
    /* no band reads more than this, also where the image's border cuts its first one short */
    const double rows = (double)least(p->h, (s->t_at_once - 1) * s->step_h + s->ty) * (double)s->tw;
    const double out_rows = (double)least(q->P, s->t_at_once * s->tile_p) * (double)s->tw;
    s->x_rows_bytes = bytes_of(n * c * rows * s->bins, 8);
    s->w_rows_bytes = q->prepared ? 0 : bytes_of(k * (double)q->cg * (double)p->r * s->bins, 8);
    s->y_rows_bytes = bytes_of(n * k * out_rows * s->bins, 8);
    s->x_chunk_bytes = bytes_of(bins * tiles * c, 8);
    s->w_chunk_bytes = q->prepared ? 0 : bytes_of(bins * k * (double)q->cg, 8);
    s->y_chunk_bytes = bytes_of(bins * tiles * k, 8);
    const double stage_x = staged(s, rows * s->tx, n * c), stage_y = staged(s, out_rows * s->tx, n * k);
    const double stage_w = q->prepared ? 0 : staged(s, (double)p->r * s->tx, k * (double)q->cg);
    const double stage = stage_x > stage_y ? stage_x : stage_y;
    s->stage_bytes = bytes_of(stage > stage_w ? stage : stage_w, 4);
    const double slots = (double)(p->n * p->groups) * (double)(s->th * s->tw) + (double)p->k;
    s->guard_bytes = bytes_of(slots * (CV_GUARD_WORDS + 1), 4);
    s->blas_bytes = s->pointwise ? 0 : BLAS_BYTES;
    const size_t chunks = chunk_bytes(s), shared = s->stage_bytes > chunks ? s->stage_bytes : chunks;
    s->own_bytes = shared + s->x_rows_bytes + s->w_rows_bytes + s->y_rows_bytes + s->guard_bytes + s->blas_bytes;
}

/* Rows of w by product: S values in, 2F out, and the sgemm works on 64 outputs at a time; by cuFFT: padded first. Both
 * run at the same share of the bandwidth (measured on an H200); the product needs a pass of its own over w for the
 * guards. */
static int product_moves_less(int64_t taps, int tx, int bins)
{
    const double product = (4.0 * (double)taps + 8.0 * bins) * ((2 * bins + 63) / 64) + 3.0 * (double)taps;
    return product < 4.0 * (double)taps + 8.0 * tx + 8.0 * bins;
}

/* Halves what takes most room, until the pass fits; 0 when nothing is left to halve. */
static int shrink(cv_spectral *s)
{
    const size_t images = s->x_rows_bytes + s->x_chunk_bytes, weights = s->w_rows_bytes + s->w_chunk_bytes;
    const double stage = (double)s->stage_bytes < s->stage_goal ? (double)s->stage_bytes : s->stage_goal;
    if (s->stage_bytes > chunk_bytes(s) && s->stage_goal > STAGE_LEAST)
        s->stage_goal = stage / 2 > STAGE_LEAST ? stage / 2 : STAGE_LEAST;
    else if (s->g_at_once > 1)
        s->g_at_once = ceil_div(s->g_at_once, 2);
    else if (s->n_at_once > 1 && images >= weights)
        s->n_at_once = ceil_div(s->n_at_once, 2);
    else if (s->t_at_once > 1 && images >= weights)
        s->t_at_once = ceil_div(s->t_at_once, 2);
    else if (s->k_at_once > 1)
        s->k_at_once = ceil_div(s->k_at_once, 2);
    else if (s->n_at_once > 1)
        s->n_at_once = ceil_div(s->n_at_once, 2);
    else if (s->t_at_once > 1)
        s->t_at_once = ceil_div(s->t_at_once, 2);
    else
        return 0;
    return 1;
}

/* The kernels number spectra by 32 bits. */
static int indexable(const cv_spectral *s)
{
    const size_t most_bytes = (size_t)INT32_MAX * 8;
    return s->x_rows_bytes < most_bytes && s->w_rows_bytes < most_bytes && s->y_rows_bytes < most_bytes &&
           s->x_chunk_bytes < most_bytes && s->w_chunk_bytes < most_bytes && s->y_chunk_bytes < most_bytes;
}

int cv_spectral_make(const cv_request *q, const cv_candidate *candidate, size_t reserved, cv_spectral *s)
{
    const convoy_problem *p = &q->p;
    const int64_t high = p->dil_h * (p->r - 1) + 1, wide = p->dil_w * (p->s - 1) + 1;
    memset(s, 0, sizeof *s);
    s->ty = candidate->v[0];
    s->tx = candidate->v[1];
    s->bins = s->tx / 2 + 1;
    s->kx = candidate->v[2] < s->bins ? candidate->v[2] : s->bins;
    if (reserved > q->workspace_limit || s->ty < high || s->tx < wide || s->kx < 1 || s->ty < 1 || s->ty > 1024 ||
        s->tx > 1024)
        return 0;
    s->tile_p = least((s->ty - high) / p->stride_h + 1, q->P);
    s->tile_q = least((s->tx - wide) / p->stride_w + 1, q->Q);
    s->step_h = s->tile_p * p->stride_h;
    s->step_w = s->tile_q * p->stride_w;
    s->th = ceil_div(q->P, s->tile_p);
    s->tw = ceil_div(q->Q, s->tile_q);
    s->pointwise = q->cg < POINTWISE_CHANNELS || (p->groups > MOST_CALLS && q->cg < 4 * POINTWISE_CHANNELS);
    s->w_product = !s->pointwise && product_moves_less(p->s, s->tx, s->bins);
    s->stage_goal = 4e18;
    if ((double)p->n * (double)p->groups * (double)(s->th * s->tw) > 1e9 ||
        (q->prepared && (double)p->k * (double)q->cg * (double)p->r * s->bins > INT32_MAX))
        return 0;
    s->g_at_once = p->groups;
    s->k_at_once = q->kg;
    s->n_at_once = p->n;
    s->t_at_once = s->th;
    for (measure(q, s); s->own_bytes > q->workspace_limit - reserved || !indexable(s); measure(q, s))
        if (!shrink(s))
            return 0;
    return 1;
}
