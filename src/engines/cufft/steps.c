/* The steps, in the order of the pipeline. In a dry walk they only make the cuFFT plans that they will need. */
#include "steps.h"
#include "gpu/cuda_status.h"
#include "gpu/guard.h"
#include "kernels.h"

#include <string.h>

/* Planes whose rows fill the stage. */
static int64_t stage_planes(const cv_spectral *s, int64_t plane_rows, int64_t planes)
{
    const int64_t fit = (int64_t)(s->stage_bytes / sizeof(float)) / (plane_rows * s->tx);
    return cv_fft_least(fit < 1 ? 1 : fit, planes);
}

void cv_fft_x_rows(cv_fft_walk *v, const cv_fft_span *a)
{
    const cv_request *q = &v->l->q;
    const convoy_problem *p = &q->p;
    const cv_spectral *s = &v->l->s;
    const int64_t channels = a->groups * q->cg, planes = a->images * channels, plane_rows = a->rows * s->tw;
    if (!plane_rows)
        return; /* a band of padding only */
    const int64_t at_once = stage_planes(s, plane_rows, planes);
    cv_fft_begin(v);
    for (int64_t from = 0; from < planes && cv_fft_going(v); from += at_once) {
        const int64_t count = cv_fft_least(at_once, planes - from);
        if (!v->dry) {
            cv_pad_x pad = {.x = v->exec->x,
                            .out = v->stage,
                            .slots = v->slots,
                            .plane_from = from,
                            .planes = count,
                            .channels = channels,
                            .n_from = a->n,
                            .c_from = a->g * q->cg,
                            .cg = q->cg,
                            .groups = p->groups,
                            .row_from = a->row,
                            .rows = a->rows,
                            .W = p->w,
                            .pad_l = p->pad_l,
                            .pad_t = p->pad_t,
                            .step_w = s->step_w,
                            .step_h = s->step_h,
                            .tw = s->tw,
                            .th = s->th,
                            .t_from = a->t,
                            .t_count = a->tile_rows,
                            .tx = s->tx,
                            .ty = s->ty};
            memcpy(pad.xs, p->x_stride, sizeof pad.xs);
            cv_fft_note_cuda(v, cv_cufft_pad_x(&pad, v->stream), "padding x");
        }
        cv_fft_rows(v, v->x_rows + (v->dry ? 0 : 2 * from * plane_rows * s->bins), count * plane_rows);
    }
    cv_fft_end(v, "x rows", (double)(planes * plane_rows) * (4.0 * s->tx + 8.0 * s->bins), 0);
}

static int packed_w(const cv_request *q)
{
    const int64_t *t = q->p.w_stride;
    return t[3] == 1 && t[2] == q->p.s && t[1] == q->p.r * q->p.s && t[0] == q->cg * t[1];
}

/* planes of w without padding, R rows of S values each -> their spectra: out (rows x 2F) = w (rows x S) * dft (S x 2F)
 */
static void product_rows(cv_fft_walk *v, const float *w, int64_t planes, float *spectra)
{
    const cv_pipeline *l = v->l;
    const float one = 1, zero = 0;
    const int outputs = 2 * l->s.bins, taps = (int)l->q.p.s;
    if (cv_fft_going(v))
        cv_fft_note_blas(v, l->blas->sgemm(l->handle, CUBLAS_OP_N, CUBLAS_OP_N, outputs, (int)(planes * l->q.p.r), taps,
                                           &one, l->dft, outputs, w, taps, &zero, spectra, outputs));
}

/* w as it lies, when its rows lie one after another. */
static void w_in_place(cv_fft_walk *v, const cv_fft_span *a, const float *w, unsigned *slots)
{
    const cv_request *q = &v->l->q;
    const int64_t k = a->g * q->kg + a->k, kernels = a->groups * a->kernels;
    const int64_t size[4] = {kernels, q->cg, q->p.r, q->p.s};
    const float *from = w + k * q->p.w_stride[0];
    cv_fft_note_cuda(v, cv_guard_scan(from, size, q->p.w_stride, 1, q->cg, slots + CV_GUARD_WORDS * k, v->stream),
                     "scanning w");
    product_rows(v, from, kernels * q->cg, v->w_rows);
}

void cv_fft_w_rows(cv_fft_walk *v, const cv_fft_span *a, const float *w, float *raw, unsigned *slots)
{
    const cv_request *q = &v->l->q;
    const convoy_problem *p = &q->p;
    const cv_spectral *s = &v->l->s;
    const int64_t planes = a->groups * a->kernels * q->cg;
    const int in_place = s->w_product && !raw && packed_w(q), wide = s->w_product ? (int)p->s : s->tx;
    /* a product's rows go straight into the prepared weights, or are packed into the stage */
    const int64_t at_once = s->w_product && raw ? planes : stage_planes(s, p->r, planes);
    cv_fft_begin(v);
    if (in_place && !v->dry)
        w_in_place(v, a, w, slots);
    for (int64_t from = 0; from < planes && !in_place && cv_fft_going(v); from += at_once) {
        const int64_t count = cv_fft_least(at_once, planes - from);
        float *spectra = v->dry ? NULL : v->w_rows + 2 * from * p->r * s->bins,
              *out = s->w_product && raw ? raw : v->stage;
        if (!v->dry) {
            cv_pad_w pad = {.w = w,
                            .out = out,
                            .raw = s->w_product ? NULL : raw,
                            .slots = slots,
                            .plane_from = from,
                            .planes = count,
                            .cg = q->cg,
                            .k_from = a->k,
                            .kernels = a->kernels,
                            .kg = q->kg,
                            .g_from = a->g,
                            .R = (int)p->r,
                            .S = (int)p->s,
                            .dil = s->w_product ? 1 : (int)p->dil_w,
                            .tx = wide};
            memcpy(pad.ws, p->w_stride, sizeof pad.ws);
            cv_fft_note_cuda(v, cv_cufft_pad_w(&pad, v->stream), "padding w");
        }
        if (!s->w_product)
            cv_fft_rows(v, spectra, count * p->r);
        else if (!v->dry)
            product_rows(v, out, count, spectra);
    }
    cv_fft_end(v, "w rows", (double)(planes * p->r) * (4.0 * (double)p->s + 8.0 * s->bins), 0);
}

void cv_fft_w_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx, float *out)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t count = a->groups * a->kernels * q->cg;
    cv_fft_begin(v);
    if (!v->dry) {
        const cv_cut cut = {.rows = v->w_rows,
                            .out = out,
                            .count = count,
                            .cg = q->cg,
                            .R = q->p.r,
                            .dil = q->p.dil_h,
                            .ty = s->ty,
                            .bins = s->bins,
                            .kx_from = kx_from,
                            .kx = kx};
        cv_fft_note_cuda(v, cv_cufft_cut(&cut, v->stream), "cutting w's spectra");
    }
    cv_fft_columns(v, out, count * kx, CUFFT_FORWARD);
    cv_fft_end(v, "w columns", 8.0 * (double)count * kx * (3.0 * s->ty + (double)q->p.r), 0);
}

void cv_fft_x_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t tiles = a->images * a->tile_rows * s->tw, count = a->groups * q->cg * tiles;
    cv_fft_begin(v);
    if (!v->dry) {
        const cv_cut cut = {.rows = v->x_rows,
                            .out = v->x_chunk,
                            .count = count,
                            .cg = q->cg,
                            .tiles = tiles,
                            .tw = s->tw,
                            .t_count = a->tile_rows,
                            .channels = a->groups * q->cg,
                            .plane_rows = a->rows,
                            .row_from = a->row,
                            .t_from = a->t,
                            .step_h = s->step_h,
                            .pad_t = q->p.pad_t,
                            .ty = s->ty,
                            .bins = s->bins,
                            .kx_from = kx_from,
                            .kx = kx};
        cv_fft_note_cuda(v, cv_cufft_cut(&cut, v->stream), "cutting x's spectra");
    }
    cv_fft_columns(v, v->x_chunk, count * kx, CUFFT_FORWARD);
    cv_fft_end(v, "x columns", 8.0 * (double)count * kx * 4.0 * s->ty, 0);
}

void cv_fft_multiply(cv_fft_walk *v, const cv_fft_span *a, int kx, const float *w, int64_t w_all, int64_t w_group)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t tiles = a->images * a->tile_rows * s->tw, bins = (int64_t)s->ty * kx;
    const int64_t x_all = a->groups * tiles * q->cg, y_all = a->groups * tiles * a->kernels;
    const float scale = 1.0f / ((float)s->ty * (float)s->tx);
    if (v->dry)
        return;
    cv_fft_begin(v);
    if (s->pointwise) {
        const cv_product product = {.x = v->x_chunk,
                                    .w = w,
                                    .y = v->y_chunk,
                                    .bins = bins,
                                    .groups = a->groups,
                                    .tiles = tiles,
                                    .kernels = a->kernels,
                                    .cg = q->cg,
                                    .x_bin = x_all,
                                    .w_bin = w_all,
                                    .y_bin = y_all,
                                    .w_group = w_group,
                                    .scale = scale};
        cv_fft_note_cuda(v, cv_cufft_product(&product, v->stream), "multiplying spectra");
    } else {
        const cuComplex alpha = {scale, 0}, beta = {0, 0};
        for (int64_t g = 0; g < a->groups && cv_fft_going(v); g++)
            cv_fft_note_blas(v, v->l->blas->cgemm(v->l->handle, CUBLAS_OP_C, CUBLAS_OP_N, (int)a->kernels, (int)tiles,
                                                  (int)q->cg, &alpha, (const cuComplex *)w + g * w_group, (int)q->cg,
                                                  w_all, (const cuComplex *)v->x_chunk + g * tiles * q->cg, (int)q->cg,
                                                  x_all, &beta, (cuComplex *)v->y_chunk + g * tiles * a->kernels,
                                                  (int)a->kernels, y_all, (int)bins));
    }
    cv_fft_end(v, "product", 8.0 * (double)bins * (double)(x_all + y_all + a->groups * a->kernels * q->cg),
               8.0 * (double)bins * (double)(y_all * q->cg));
}

void cv_fft_y_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t tiles = a->images * a->tile_rows * s->tw, count = a->groups * a->kernels * tiles;
    cv_fft_begin(v);
    cv_fft_columns(v, v->y_chunk, count * kx, CUFFT_INVERSE);
    if (!v->dry) {
        const cv_pick pick = {.in = v->y_chunk,
                              .rows = v->y_rows,
                              .count = count,
                              .kernels = a->kernels,
                              .tiles = tiles,
                              .tw = s->tw,
                              .t_count = a->tile_rows,
                              .planes = a->groups * a->kernels,
                              .plane_rows = a->outputs,
                              .tile_p = s->tile_p,
                              .stride_h = q->p.stride_h,
                              .bins = s->bins,
                              .kx_from = kx_from,
                              .kx = kx};
        cv_fft_note_cuda(v, cv_cufft_pick(&pick, v->stream), "picking y's rows");
    }
    cv_fft_end(v, "y columns", 8.0 * (double)count * kx * (2.0 * s->ty + 2.0 * (double)s->tile_p), 0);
}

void cv_fft_y_rows(cv_fft_walk *v, const cv_fft_span *a)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t per_image = a->groups * a->kernels, planes = a->images * per_image, plane_rows = a->outputs * s->tw;
    const int64_t at_once = stage_planes(s, plane_rows, planes);
    cv_fft_begin(v);
    for (int64_t from = 0; from < planes && cv_fft_going(v); from += at_once) {
        const int64_t count = cv_fft_least(at_once, planes - from);
        cv_fft_rows_back(v, v->y_rows + (v->dry ? 0 : 2 * from * plane_rows * s->bins), count * plane_rows);
        if (v->dry)
            continue;
        cv_spread spread = {.in = v->stage,
                            .bias = v->exec->bias,
                            .y = v->exec->y,
                            .plane_from = from,
                            .planes = count,
                            .per_image = per_image,
                            .n_from = a->n,
                            .g_from = a->g,
                            .k_from = a->k,
                            .kernels = a->kernels,
                            .kg = q->kg,
                            .p_from = a->p,
                            .rows = a->outputs,
                            .Q = q->Q,
                            .tw = s->tw,
                            .tile_q = s->tile_q,
                            .stride_w = q->p.stride_w,
                            .tx = s->tx};
        memcpy(spread.ys, q->p.y_stride, sizeof spread.ys);
        cv_fft_note_cuda(v, cv_cufft_spread(&spread, v->stream), "writing y");
    }
    cv_fft_end(v, "y rows", (double)(planes * plane_rows) * (8.0 * s->bins + 4.0 * (double)s->tile_q), 0);
}

void cv_fft_guard(cv_fft_walk *v, const unsigned *w_slots, const float *w)
{
    const cv_pipeline *l = v->l;
    const convoy_problem *p = &l->q.p;
    const cv_spectral *s = &l->s;
    const int64_t tiles = p->n * p->groups * s->th * s->tw;
    const cv_guard_range range = cv_guard_range_of((double)s->ty * s->tx, (double)p->r * (double)p->s, (double)l->q.cg);
    const cv_guard_range any_span = {range.low, range.high, 0};
    unsigned *flags = v->slots + CV_GUARD_WORDS * (tiles + p->k);
    cv_fft_begin(v);
    cv_fft_note_cuda(v, cv_guard_judge(v->slots, tiles, any_span, w_slots, p->k, range, flags, v->stream),
                     "judging magnitudes");
    cv_fft_note_cuda(v,
                     cv_chain_cuda_tiles(&l->shape, s->tile_p, s->tile_q, flags, flags + tiles, v->exec->x, w,
                                         v->exec->bias, v->exec->y, v->stream),
                     "recomputing flagged tiles");
    cv_fft_end(v, "guard", 4.0 * (double)(3 * tiles + 3 * p->k), 0);
}
