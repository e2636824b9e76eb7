/* The steps, in the order of the pipeline. In a dry walk they only make the cuFFT plans that they will need. */
#include "steps.h"
#include "gpu/cuda_status.h"
#include "gpu/guard.h"
#include "kernels.h"

#include <string.h>

/* ---- Errors, phases */

void cv_fft_note_cuda(cv_fft_walk *v, int error, const char *doing)
{
    if (cv_fft_going(v) && error)
        v->status = cv_cuda_status(error, doing);
}

static void note_fft(cv_fft_walk *v, cufftResult result, const char *doing)
{
    if (cv_fft_going(v) && result != CUFFT_SUCCESS)
        v->status = cv_fail(result == CUFFT_ALLOC_FAILED ? CONVOY_OUT_OF_MEMORY : CONVOY_DEVICE_ERROR,
                            "%s: cuFFT error %d", doing, (int)result);
}

void cv_fft_note_blas(cv_fft_walk *v, cublasStatus_t result)
{
    if (cv_fft_going(v) && result != CUBLAS_STATUS_SUCCESS)
        v->status = cv_fail(CONVOY_DEVICE_ERROR, "multiplying spectra: cuBLAS error %d", (int)result);
}

static void begin(cv_fft_walk *v)
{
    if (v->phases)
        cv_fft_note_cuda(v, cudaEventRecord(v->from, v->stream), "timing a phase");
}

static void end(cv_fft_walk *v, const char *name, double bytes, double flop)
{
    float ms = 0;
    if (!v->phases)
        return;
    cv_fft_note_cuda(v, cudaEventRecord(v->to, v->stream), "timing a phase");
    cv_fft_note_cuda(v, cudaEventSynchronize(v->to), "timing a phase");
    cv_fft_note_cuda(v, cudaEventElapsedTime(&ms, v->from, v->to), "timing a phase");
    cv_phase_add(v->phases, name, ms * 1e-3, bytes, flop);
}

/* ---- cuFFT plans */

static convoy_status make_plan(cv_pipeline *l, cv_fft_kind kind, int64_t batch, cv_fft_plan *plan)
{
    long long n = kind == CV_FFT_COLUMNS ? l->s.ty : l->s.tx, bins = l->s.bins;
    const long long step = kind == CV_FFT_COLUMNS ? batch : 1;
    const long long in = kind == CV_FFT_COLUMNS ? 1 : kind == CV_FFT_ROWS ? n : bins;
    const long long out = kind == CV_FFT_COLUMNS ? 1 : kind == CV_FFT_ROWS ? bins : n;
    const cufftType type = kind == CV_FFT_COLUMNS ? CUFFT_C2C : kind == CV_FFT_ROWS ? CUFFT_R2C : CUFFT_C2R;
    long long *in_embed = kind == CV_FFT_ROWS_BACK ? &bins : &n, *out_embed = kind == CV_FFT_ROWS ? &bins : &n;
    size_t work = 0;
    cufftResult r = l->fft->create(&plan->handle);
    if (r == CUFFT_SUCCESS) {
        r = l->fft->no_work_area(plan->handle, 0);
        if (r == CUFFT_SUCCESS)
            r = l->fft->make_many(plan->handle, 1, &n, in_embed, step, in, out_embed, step, out, type, batch, &work);
        if (r != CUFFT_SUCCESS)
            l->fft->destroy(plan->handle);
    }
    if (r != CUFFT_SUCCESS)
        return cv_fail(r == CUFFT_ALLOC_FAILED ? CONVOY_OUT_OF_MEMORY : CONVOY_DEVICE_ERROR,
                       "planning %lld transforms of %lld points: cuFFT error %d", (long long)batch, n, (int)r);
    plan->kind = kind;
    plan->batch = batch;
    if (work > l->work_bytes)
        l->work_bytes = work;
    return CONVOY_OK;
}

/* NULL in a dry walk, after making sure that the plan is there. */
static const cv_fft_plan *plan_for(cv_fft_walk *v, cv_fft_kind kind, int64_t batch)
{
    cv_pipeline *l = v->l;
    if (!cv_fft_going(v))
        return NULL;
    for (int i = 0; i < l->plans; i++)
        if (l->plan[i].kind == kind && l->plan[i].batch == batch)
            return v->dry ? NULL : &l->plan[i];
    if (!v->dry || l->plans == CV_FFT_PLANS) {
        v->status = cv_fail(CONVOY_INTERNAL, "cufft has no plan for a batch of %lld", (long long)batch);
        return NULL;
    }
    v->status = make_plan(l, kind, batch, &l->plan[l->plans]);
    if (cv_fft_going(v))
        l->plans++;
    return NULL;
}

static int aim(cv_fft_walk *v, const cv_fft_plan *plan)
{
    if (!plan || !cv_fft_going(v))
        return 0;
    note_fft(v, v->l->fft->set_stream(plan->handle, v->stream), "aiming a transform at the stream");
    if (v->l->work_bytes)
        note_fft(v, v->l->fft->set_work_area(plan->handle, v->work), "giving a transform its workspace");
    return cv_fft_going(v);
}

static void columns(cv_fft_walk *v, float *chunk, int64_t batch, int direction)
{
    const cv_fft_plan *plan = plan_for(v, CV_FFT_COLUMNS, batch);
    if (aim(v, plan))
        note_fft(v, v->l->fft->c2c(plan->handle, (cufftComplex *)chunk, (cufftComplex *)chunk, direction),
                 "transforming columns");
}

static void rows(cv_fft_walk *v, float *spectra, int64_t batch)
{
    const cv_fft_plan *plan = plan_for(v, CV_FFT_ROWS, batch);
    if (aim(v, plan))
        note_fft(v, v->l->fft->r2c(plan->handle, v->stage, (cufftComplex *)spectra), "transforming rows");
}

static void rows_back(cv_fft_walk *v, float *spectra, int64_t batch)
{
    const cv_fft_plan *plan = plan_for(v, CV_FFT_ROWS_BACK, batch);
    if (aim(v, plan))
        note_fft(v, v->l->fft->c2r(plan->handle, (cufftComplex *)spectra, v->stage), "transforming rows back");
}

/* ---- Steps */

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
    begin(v);
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
        rows(v, v->x_rows + (v->dry ? 0 : 2 * from * plane_rows * s->bins), count * plane_rows);
    }
    end(v, "x rows", (double)(planes * plane_rows) * (4.0 * s->tx + 8.0 * s->bins), 0);
}

void cv_fft_w_rows(cv_fft_walk *v, const cv_fft_span *a, const float *w, float *raw, unsigned *slots)
{
    const cv_request *q = &v->l->q;
    const convoy_problem *p = &q->p;
    const cv_spectral *s = &v->l->s;
    const int64_t planes = a->groups * a->kernels * q->cg, at_once = stage_planes(s, p->r, planes);
    begin(v);
    for (int64_t from = 0; from < planes && cv_fft_going(v); from += at_once) {
        const int64_t count = cv_fft_least(at_once, planes - from);
        if (!v->dry) {
            cv_pad_w pad = {.w = w,
                            .out = v->stage,
                            .raw = raw,
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
                            .dil = (int)p->dil_w,
                            .tx = s->tx};
            memcpy(pad.ws, p->w_stride, sizeof pad.ws);
            cv_fft_note_cuda(v, cv_cufft_pad_w(&pad, v->stream), "padding w");
        }
        rows(v, v->w_rows + (v->dry ? 0 : 2 * from * p->r * s->bins), count * p->r);
    }
    end(v, "w rows", (double)(planes * p->r) * (4.0 * (double)p->s + 8.0 * s->bins), 0);
}

void cv_fft_w_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx, float *out)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t count = a->groups * a->kernels * q->cg;
    begin(v);
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
    columns(v, out, count * kx, CUFFT_FORWARD);
    end(v, "w columns", 8.0 * (double)count * kx * (3.0 * s->ty + (double)q->p.r), 0);
}

void cv_fft_x_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t tiles = a->images * a->tile_rows * s->tw, count = a->groups * q->cg * tiles;
    begin(v);
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
    columns(v, v->x_chunk, count * kx, CUFFT_FORWARD);
    end(v, "x columns", 8.0 * (double)count * kx * 4.0 * s->ty, 0);
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
    begin(v);
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
    end(v, "product", 8.0 * (double)bins * (double)(x_all + y_all + a->groups * a->kernels * q->cg),
        8.0 * (double)bins * (double)(y_all * q->cg));
}

void cv_fft_y_columns(cv_fft_walk *v, const cv_fft_span *a, int kx_from, int kx)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t tiles = a->images * a->tile_rows * s->tw, count = a->groups * a->kernels * tiles;
    begin(v);
    columns(v, v->y_chunk, count * kx, CUFFT_INVERSE);
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
    end(v, "y columns", 8.0 * (double)count * kx * (2.0 * s->ty + 2.0 * (double)s->tile_p), 0);
}

void cv_fft_y_rows(cv_fft_walk *v, const cv_fft_span *a)
{
    const cv_request *q = &v->l->q;
    const cv_spectral *s = &v->l->s;
    const int64_t per_image = a->groups * a->kernels, planes = a->images * per_image, plane_rows = a->outputs * s->tw;
    const int64_t at_once = stage_planes(s, plane_rows, planes);
    begin(v);
    for (int64_t from = 0; from < planes && cv_fft_going(v); from += at_once) {
        const int64_t count = cv_fft_least(at_once, planes - from);
        rows_back(v, v->y_rows + (v->dry ? 0 : 2 * from * plane_rows * s->bins), count * plane_rows);
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
    end(v, "y rows", (double)(planes * plane_rows) * (8.0 * s->bins + 4.0 * (double)s->tile_q), 0);
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
    begin(v);
    cv_fft_note_cuda(v, cv_guard_judge(v->slots, tiles, any_span, w_slots, p->k, range, flags, v->stream),
                     "judging magnitudes");
    cv_fft_note_cuda(v,
                     cv_chain_cuda_tiles(&l->shape, s->tile_p, s->tile_q, flags, flags + tiles, v->exec->x, w,
                                         v->exec->bias, v->exec->y, v->stream),
                     "recomputing flagged tiles");
    end(v, "guard", 4.0 * (double)(3 * tiles + 3 * p->k), 0);
}
