/* Which primitives a plan takes, and what they need: oneDNN's descriptors, before any code is generated. */
#include "kit.h"

#include <stdio.h>
#include <string.h>

/* Sizes of w with the group as a dimension of its own, which is how oneDNN wants it: (G, K/G, C/G, R, S). */
static int shape_w(const cv_request *q, int64_t size[5], int64_t stride[5])
{
    const int grouped = q->p.groups > 1;
    const int64_t plain[5] = {q->p.groups, q->kg, q->cg, q->p.r, q->p.s};
    for (int i = grouped ? 0 : 1, at = 0; i < 5; i++, at++)
        size[at] = plain[i];
    const int dims = 4 + grouped;
    int64_t step = 1;
    for (int i = dims - 1; i >= 0; i--) {
        stride[i] = step;
        step *= size[i];
    }
    return dims;
}

static void measure_scratch(const cv_dnnl *d, cv_kit_step *step)
{
    cv_dnnl_md scratch = d->query_md(step->pd, CV_DNNL_SCRATCHPAD_MD, 0);
    step->scratch_bytes = scratch ? d->md_get_size(scratch) : 0;
}

static int describe_reorder(const cv_dnnl *d, cv_kit_step *step, cv_dnnl_md from, cv_dnnl_md to)
{
    if (d->md_equal(from, to))
        return CV_DNNL_OK;
    const int status = d->reorder_create(&step->pd, from, d->engine, to, d->engine, d->attr);
    if (status == CV_DNNL_OK)
        measure_scratch(d, step);
    return status;
}

static cv_dnnl_window window_of(const convoy_problem *p)
{
    return (cv_dnnl_window){.stride = {p->stride_h, p->stride_w},
                            .dilation = {p->dil_h - 1, p->dil_w - 1},
                            .pad_low = {p->pad_t, p->pad_l},
                            .pad_high = {p->pad_b, p->pad_r}};
}

/* A convolution in whatever layouts oneDNN likes best, for given descriptors or, where they are NULL, any. */
static int describe(const cv_dnnl *d, const cv_request *q, cv_dnnl_md x, cv_dnnl_md w, cv_dnnl_md bias, cv_dnnl_md y,
                    void **pd)
{
    const convoy_problem *p = &q->p;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ys[4] = {p->n, p->k, q->P, q->Q};
    int64_t ws[5], unused[5];
    const int dims = shape_w(q, ws, unused);
    const cv_dnnl_window window = window_of(p);
    cv_dnnl_own_md any_x = {0}, any_w = {0}, any_y = {0};
    int status = cv_dnnl_md_any(d, &any_x, 4, xs);
    if (status == CV_DNNL_OK)
        status = cv_dnnl_md_any(d, &any_w, dims, ws);
    if (status == CV_DNNL_OK)
        status = cv_dnnl_md_any(d, &any_y, 4, ys);
    if (status == CV_DNNL_OK)
        status = cv_dnnl_convolution(d, pd, x ? x : any_x.md, w ? w : any_w.md, bias, y ? y : any_y.md, &window);
    cv_dnnl_md_free(d, &any_x);
    cv_dnnl_md_free(d, &any_w);
    cv_dnnl_md_free(d, &any_y);
    return status;
}

/* x or y as the caller has it; no descriptor where the layout is oneDNN's affair. */
static int fixed_layout(const cv_dnnl *d, cv_dnnl_own_md *md, const int64_t size[4], int layout)
{
    const int64_t image = size[2] * size[3], stride[4] = {size[1] * image, image, size[3], 1};
    return layout == CV_KIT_ANY ? CV_DNNL_OK : cv_dnnl_md_strides(d, md, 4, size, stride);
}

/* The layout of prepared weights must not depend on more than w's sizes and the candidate, so it is the one that oneDNN
 * takes for a middling image without frills. */
static int describe_block(cv_kit *k, const cv_request *q, int layout)
{
    const cv_dnnl *d = k->d;
    const int64_t image = 56;
    cv_request like = *q;
    like.p.n = 1;
    like.p.h = image + q->p.r - 1, like.p.w = image + q->p.s - 1;
    like.p.stride_h = like.p.stride_w = like.p.dil_h = like.p.dil_w = 1;
    like.p.pad_t = like.p.pad_b = like.p.pad_l = like.p.pad_r = 0;
    like.P = like.Q = image;
    const int64_t xs[4] = {1, q->p.c, like.p.h, like.p.w}, ys[4] = {1, q->p.k, image, image};
    cv_dnnl_own_md x = {0}, y = {0};
    int status = fixed_layout(d, &x, xs, layout);
    if (status == CV_DNNL_OK)
        status = fixed_layout(d, &y, ys, layout);
    if (status == CV_DNNL_OK)
        status = describe(d, &like, x.md, NULL, NULL, y.md, &k->block_pd);
    cv_dnnl_md_free(d, &x);
    cv_dnnl_md_free(d, &y);
    if (status == CV_DNNL_OK)
        k->block_w = d->query_md(k->block_pd, CV_DNNL_WEIGHTS_MD, 0);
    return status;
}

/* oneDNN's own plain loops are a last resort for it, and no good for us. */
static int is_slow(const cv_dnnl *d, void *pd)
{
    const char *name = NULL;
    return d->query(pd, CV_DNNL_IMPLEMENTATION, 0, &name) == CV_DNNL_OK && name && strstr(name, "ref") != NULL;
}

/* Its way through a matrix product multiplies the padding like any other zero, which an infinite weight turns into NaN
 * where the direct sum has nothing. */
static int spoils_padding(const cv_dnnl *d, void *pd, const convoy_problem *p)
{
    const char *name = NULL;
    return (p->pad_t || p->pad_b || p->pad_l || p->pad_r) &&
           d->query(pd, CV_DNNL_IMPLEMENTATION, 0, &name) == CV_DNNL_OK && name && strstr(name, "gemm") != NULL;
}

/* With prepared weights, first in their layout; if that costs the quick loops, in the convolution's own, and w is laid
 * out anew in each call. */
static int describe_sum_in(cv_kit *k, const cv_request *q, cv_dnnl_md x, cv_dnnl_md y)
{
    const cv_dnnl *d = k->d;
    const int status = describe(d, q, x, NULL, k->bias.md, y, &k->sum.pd);
    if (status != CV_DNNL_OK || !k->prepared)
        return status;
    k->w_is_own = d->md_equal(k->block_w, d->query_md(k->sum.pd, CV_DNNL_WEIGHTS_MD, 0));
    if (k->w_is_own)
        return CV_DNNL_OK;
    void *pd = NULL;
    if (describe(d, q, x, k->block_w, k->bias.md, y, &pd) == CV_DNNL_OK && (!is_slow(d, pd) || is_slow(d, k->sum.pd))) {
        d->pd_destroy(k->sum.pd);
        k->sum.pd = pd;
        k->w_is_own = 1;
    } else if (pd) {
        d->pd_destroy(pd);
    }
    return CV_DNNL_OK;
}

static int describe_sum(cv_kit *k, const cv_request *q, int layout)
{
    const cv_dnnl *d = k->d;
    const int64_t xs[4] = {q->p.n, q->p.c, q->p.h, q->p.w}, ys[4] = {q->p.n, q->p.k, q->P, q->Q};
    cv_dnnl_own_md x = {0}, y = {0};
    int status = fixed_layout(d, &x, xs, layout);
    if (status == CV_DNNL_OK)
        status = fixed_layout(d, &y, ys, layout);
    if (status == CV_DNNL_OK)
        status = describe_sum_in(k, q, x.md, y.md);
    cv_dnnl_md_free(d, &x);
    cv_dnnl_md_free(d, &y);
    if (status != CV_DNNL_OK)
        return status;
    measure_scratch(d, &k->sum);
    k->own_x = d->query_md(k->sum.pd, CV_DNNL_SRC_MD, 0);
    k->own_w = d->query_md(k->sum.pd, CV_DNNL_WEIGHTS_MD, 0);
    k->own_y = d->query_md(k->sum.pd, CV_DNNL_DST_MD, 0);
    return CV_DNNL_OK;
}

static int make_plain(cv_kit *k, const cv_request *q)
{
    const cv_dnnl *d = k->d;
    const convoy_problem *p = &q->p;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ys[4] = {p->n, p->k, q->P, q->Q}, one = 1;
    int64_t ws[5], wt[5];
    const int dims = shape_w(q, ws, wt);
    int status = cv_dnnl_md_strides(d, &k->x, 4, xs, p->x_stride);
    if (status == CV_DNNL_OK)
        status = cv_dnnl_md_strides(d, &k->w, dims, ws, wt);
    if (status == CV_DNNL_OK)
        status = cv_dnnl_md_strides(d, &k->y, 4, ys, p->y_stride);
    if (status == CV_DNNL_OK && q->bias)
        status = cv_dnnl_md_strides(d, &k->bias, 1, &p->k, &one);
    return status;
}

static void lay_out(cv_kit *k)
{
    const cv_dnnl *d = k->d;
    const cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y};
    size_t scratch = 0;
    k->at_x = 0;
    k->at_w = k->at_x + (k->to_x.pd ? cv_kit_round_up(d->md_get_size(k->own_x)) : 0);
    k->at_y = k->at_w + (k->to_w.pd ? cv_kit_round_up(d->md_get_size(k->own_w)) : 0);
    k->at_scratch = k->at_y + (k->to_y.pd ? cv_kit_round_up(d->md_get_size(k->own_y)) : 0);
    for (int i = 0; i < 4; i++)
        scratch = step[i]->scratch_bytes > scratch ? step[i]->scratch_bytes : scratch;
    k->workspace_bytes = k->at_scratch + cv_kit_round_up(scratch);
    k->w_bytes = d->md_get_size(k->w.md);
    k->block_bytes = k->prepared ? CV_KIT_BLOCK_HEAD + cv_kit_round_up(k->w_bytes) + d->md_get_size(k->block_w) : 0;
}

void cv_kit_describe(void *user)
{
    cv_kit_making *m = user;
    cv_kit *k = m->kit;
    const cv_dnnl *d = k->d;
    int status = make_plain(k, m->request);
    if (d->set_threads)
        d->set_threads(1); /* weights may serve plans of another number */
    if (status == CV_DNNL_OK && k->prepared)
        status = describe_block(k, m->request, m->layout);
    if (d->set_threads)
        d->set_threads(k->threads);
    if (status == CV_DNNL_OK)
        status = describe_sum(k, m->request, m->layout);
    if (status == CV_DNNL_OK)
        status = describe_reorder(d, &k->to_x, k->x.md, k->own_x);
    if (status == CV_DNNL_OK && !k->w_is_own)
        status = describe_reorder(d, &k->to_w, k->w.md, k->own_w);
    if (status == CV_DNNL_OK)
        status = describe_reorder(d, &k->to_y, k->own_y, k->y.md);
    if (status == CV_DNNL_OK && k->prepared)
        status = describe_reorder(d, &k->to_block, k->w.md, k->block_w);
    if (status == CV_DNNL_OK)
        lay_out(k);
    m->status = status;
}

void cv_kit_find(const cv_dnnl *d, const cv_request *q, int layout, cv_kit_facts *facts)
{
    cv_kit k;
    cv_kit_making m = {&k, q, layout, CV_DNNL_OK};
    const char *name = NULL;
    memset(facts, 0, sizeof *facts);
    cv_kit_begin(&k, d, q);
    if (cv_dnnl_run(d, k.threads, cv_kit_describe, &m) && m.status == CV_DNNL_OK) {
        facts->offered = !is_slow(d, k.sum.pd) && !spoils_padding(d, k.sum.pd, &q->p);
        d->query(k.sum.pd, CV_DNNL_IMPLEMENTATION, 0, &name);
        snprintf(facts->implementation, sizeof facts->implementation, "%s", name ? name : "");
        facts->workspace_bytes = k.workspace_bytes;
        facts->x_bytes = k.to_x.pd ? d->md_get_size(k.own_x) : 0;
        facts->w_bytes = k.to_w.pd ? d->md_get_size(k.own_w) : 0;
        facts->y_bytes = k.to_y.pd ? d->md_get_size(k.own_y) : 0;
    }
    cv_kit_end(&k);
}
