#include "kit.h"

#include <stdio.h>
#include <string.h>

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

static convoy_status failed(int status, const char *what)
{
    if (status == CV_DNNL_NO_MEMORY)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: oneDNN, %s", what);
    return cv_fail(status == CV_DNNL_UNIMPLEMENTED ? CONVOY_UNSUPPORTED : CONVOY_INTERNAL,
                   "oneDNN gave status %d for %s", status, what);
}

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

static void free_step(const cv_dnnl *d, cv_kit_step *step)
{
    if (step->primitive)
        d->primitive_destroy(step->primitive);
    if (step->pd)
        d->pd_destroy(step->pd);
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

/* x or y in a layout of our choosing; no descriptor where it is oneDNN's. */
static int fixed_layout(const cv_dnnl *d, cv_dnnl_own_md *md, const int64_t size[4], int layout)
{
    const int64_t image = size[2] * size[3], nchw[4] = {size[1] * image, image, size[3], 1},
                  nhwc[4] = {size[1] * image, 1, size[3] * size[1], size[1]};
    return layout == CV_KIT_ANY ? CV_DNNL_OK : cv_dnnl_md_strides(d, md, 4, size, layout == CV_KIT_NCHW ? nchw : nhwc);
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
    k->at_w = k->at_x + (k->to_x.pd ? round_up(d->md_get_size(k->own_x)) : 0);
    k->at_y = k->at_w + (k->to_w.pd ? round_up(d->md_get_size(k->own_w)) : 0);
    k->at_scratch = k->at_y + (k->to_y.pd ? round_up(d->md_get_size(k->own_y)) : 0);
    for (int i = 0; i < 4; i++)
        scratch = step[i]->scratch_bytes > scratch ? step[i]->scratch_bytes : scratch;
    k->workspace_bytes = k->at_scratch + round_up(scratch);
    k->w_bytes = d->md_get_size(k->w.md);
    k->block_bytes = k->prepared ? CV_KIT_BLOCK_HEAD + round_up(k->w_bytes) + d->md_get_size(k->block_w) : 0;
}

/* Memory objects begin without data; a slot's are made once, when a thread first takes it. */
static int make_slot(const cv_kit *k, cv_kit_slot *s)
{
    const cv_dnnl *d = k->d;
    const cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y};
    const struct {
        void **memory;
        cv_dnnl_md md;
    } object[] = {{&s->x, k->x.md},      {&s->w, k->w.md},      {&s->bias, k->bias.md}, {&s->y, k->y.md},
                  {&s->own_x, k->own_x}, {&s->own_w, k->own_w}, {&s->own_y, k->own_y}};
    int status = s->stream ? CV_DNNL_OK : d->stream_create(&s->stream, d->engine, 1);
    for (size_t i = 0; i < sizeof object / sizeof *object && status == CV_DNNL_OK; i++)
        if (object[i].md && !*object[i].memory)
            status = d->memory_create(object[i].memory, object[i].md, d->engine, NULL);
    for (int i = 0; i < 4 && status == CV_DNNL_OK; i++)
        if (step[i]->scratch_bytes && !s->scratch[i])
            status =
                d->memory_create(&s->scratch[i], d->query_md(step[i]->pd, CV_DNNL_SCRATCHPAD_MD, 0), d->engine, NULL);
    s->made = status == CV_DNNL_OK;
    return status;
}

static void free_slot(const cv_dnnl *d, cv_kit_slot *s)
{
    void *memory[] = {s->x,     s->w,          s->bias,       s->y,          s->own_x,     s->own_w,
                      s->own_y, s->scratch[0], s->scratch[1], s->scratch[2], s->scratch[3]};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            d->memory_destroy(memory[i]);
    if (s->stream)
        d->stream_destroy(s->stream);
    s->stream = NULL;
}

struct making {
    cv_kit *kit;
    const cv_request *request;
    int layout, status;
};

static void describe_all(void *user)
{
    struct making *m = user;
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

/* Code is generated here. */
static void make(void *user)
{
    struct making *m = user;
    cv_kit *k = m->kit;
    cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y, &k->to_block};
    describe_all(m);
    for (size_t i = 0; i < sizeof step / sizeof *step && m->status == CV_DNNL_OK; i++)
        if (step[i]->pd)
            m->status = k->d->primitive_create(&step[i]->primitive, step[i]->pd);
    if (m->status == CV_DNNL_OK)
        m->status = make_slot(k, &k->slot[0]);
}

static void begin(cv_kit *k, const cv_dnnl *d, const cv_request *q)
{
    memset(k, 0, sizeof *k);
    k->d = d;
    k->machine = q->machine;
    k->threads = q->machine->threads;
    k->has_bias = q->bias;
    k->prepared = q->prepared;
    k->flop = convoy_problem_flop(&q->p);
    for (int i = 0; i < CV_KIT_SLOTS; i++)
        atomic_flag_clear(&k->slot[i].taken);
}

static void end(cv_kit *k)
{
    const cv_dnnl *d = k->d;
    for (int i = 0; i < CV_KIT_SLOTS; i++)
        free_slot(d, &k->slot[i]);
    cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y, &k->to_block};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++)
        free_step(d, step[i]);
    if (k->block_pd)
        d->pd_destroy(k->block_pd);
    cv_dnnl_own_md *md[] = {&k->x, &k->w, &k->bias, &k->y};
    for (size_t i = 0; i < sizeof md / sizeof *md; i++)
        cv_dnnl_md_free(d, md[i]);
}

void cv_kit_find(const cv_dnnl *d, const cv_request *q, int layout, cv_kit_facts *facts)
{
    cv_kit k;
    struct making m = {&k, q, layout, CV_DNNL_OK};
    const char *name = NULL;
    memset(facts, 0, sizeof *facts);
    begin(&k, d, q);
    if (cv_dnnl_run(d, k.threads, describe_all, &m) && m.status == CV_DNNL_OK) {
        facts->offered = !is_slow(d, k.sum.pd) && !spoils_padding(d, k.sum.pd, &q->p);
        d->query(k.sum.pd, CV_DNNL_IMPLEMENTATION, 0, &name);
        snprintf(facts->implementation, sizeof facts->implementation, "%s", name ? name : "");
        facts->workspace_bytes = k.workspace_bytes;
        facts->x_bytes = k.to_x.pd ? d->md_get_size(k.own_x) : 0;
        facts->w_bytes = k.to_w.pd ? d->md_get_size(k.own_w) : 0;
        facts->y_bytes = k.to_y.pd ? d->md_get_size(k.own_y) : 0;
    }
    end(&k);
}

convoy_status cv_kit_create(const cv_dnnl *d, const cv_request *q, int layout, cv_kit **out)
{
    cv_kit *k = cv_alloc(&q->machine->memory, sizeof *k);
    *out = NULL;
    if (!k)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of engine onednn");
    begin(k, d, q);
    struct making m = {k, q, layout, CV_DNNL_OK};
    if (!cv_dnnl_run(d, k->threads, make, &m))
        m.status = CV_DNNL_NO_MEMORY;
    if (m.status == CV_DNNL_OK) {
        *out = k;
        return CONVOY_OK;
    }
    cv_kit_destroy(k);
    return failed(m.status, "a convolution");
}

void cv_kit_destroy(cv_kit *k)
{
    if (!k)
        return;
    end(k);
    cv_free(&k->machine->memory, k);
}

/* ---- Prepared weights: a head of 64 bytes, w as it was, w in the block's layout */

struct preparing {
    const cv_kit *kit;
    const float *w;
    char *block;
    int status;
};

static void prepare(void *user)
{
    struct preparing *p = user;
    const cv_kit *k = p->kit;
    const cv_dnnl *d = k->d;
    char *plain = p->block + CV_KIT_BLOCK_HEAD, *own = plain + round_up(k->w_bytes);
    void *stream = NULL, *from = NULL, *to = NULL, *scratch = NULL, *room = NULL;
    memset(p->block, 0, CV_KIT_BLOCK_HEAD);
    memcpy(plain, p->w, k->w_bytes);
    if (!k->to_block.primitive) {
        memcpy(own, p->w, k->w_bytes);
        return;
    }
    int status = d->stream_create(&stream, d->engine, 1);
    if (status == CV_DNNL_OK)
        status = d->memory_create(&from, k->w.md, d->engine, plain);
    if (status == CV_DNNL_OK)
        status = d->memory_create(&to, k->block_w, d->engine, own);
    cv_dnnl_arg args[3] = {{CV_DNNL_FROM, from}, {CV_DNNL_TO, to}};
    int count = 2;
    if (status == CV_DNNL_OK && k->to_block.scratch_bytes) {
        room = cv_alloc(&k->machine->memory, k->to_block.scratch_bytes);
        status =
            room ? d->memory_create(&scratch, d->query_md(k->to_block.pd, CV_DNNL_SCRATCHPAD_MD, 0), d->engine, room)
                 : CV_DNNL_NO_MEMORY;
        args[count++] = (cv_dnnl_arg){CV_DNNL_SCRATCHPAD, scratch};
    }
    if (status == CV_DNNL_OK)
        status = d->primitive_execute(k->to_block.primitive, stream, count, args);
    if (status == CV_DNNL_OK)
        status = d->stream_wait(stream);
    void *const memory[] = {from, to, scratch};
    for (int i = 0; i < 3; i++)
        if (memory[i])
            d->memory_destroy(memory[i]);
    if (stream)
        d->stream_destroy(stream);
    cv_free(&k->machine->memory, room);
    p->status = status;
}

convoy_status cv_kit_prepare(const cv_kit *k, const float *w, void *block)
{
    struct preparing p = {k, w, block, CV_DNNL_OK};
    if (!cv_dnnl_run(k->d, k->threads, prepare, &p))
        p.status = CV_DNNL_NO_MEMORY;
    return p.status == CV_DNNL_OK ? CONVOY_OK : failed(p.status, "preparing weights");
}

/* ---- Executing */

struct running {
    cv_kit *kit;
    const cv_exec *exec;
    cv_kit_slot *slot;
    int status;
};

static int point(const cv_dnnl *d, void *memory, const void *data)
{
    return memory ? d->memory_set_data_handle(memory, (void *)(uintptr_t)data) : CV_DNNL_OK;
}

/* Gives every object of the slot its address. */
static int aim(const struct running *r)
{
    const cv_kit *k = r->kit;
    const cv_exec *e = r->exec;
    cv_kit_slot *s = r->slot;
    char *room = e->workspace;
    const char *block = e->weights;
    const char *w = k->prepared ? block + CV_KIT_BLOCK_HEAD : (const char *)e->w;
    const char *own_w = k->w_is_own         ? block + CV_KIT_BLOCK_HEAD + round_up(k->w_bytes)
                        : k->to_w.primitive ? room + k->at_w
                                            : w;
    const struct {
        void *memory;
        const void *data;
    } object[] = {
        {s->x, e->x},
        {s->w, w},
        {s->bias, e->bias},
        {s->y, e->y},
        {s->own_x, k->to_x.primitive ? (const void *)(room + k->at_x) : e->x},
        {s->own_w, own_w},
        {s->own_y, k->to_y.primitive ? (const void *)(room + k->at_y) : e->y},
        {s->scratch[0], room + k->at_scratch},
        {s->scratch[1], room + k->at_scratch},
        {s->scratch[2], room + k->at_scratch},
        {s->scratch[3], room + k->at_scratch},
    };
    int status = CV_DNNL_OK;
    for (size_t i = 0; i < sizeof object / sizeof *object && status == CV_DNNL_OK; i++)
        status = point(k->d, object[i].memory, object[i].data);
    return status;
}

static int take_step(const struct running *r, const cv_kit_step *step, int number, cv_dnnl_arg args[5], int count,
                     const char *phase, double bytes, double flop)
{
    if (!step->primitive)
        return CV_DNNL_OK;
    const cv_dnnl *d = r->kit->d;
    const double from = r->exec->phases ? cv_now_s() : 0;
    if (r->slot->scratch[number])
        args[count++] = (cv_dnnl_arg){CV_DNNL_SCRATCHPAD, r->slot->scratch[number]};
    int status = d->primitive_execute(step->primitive, r->slot->stream, count, args);
    if (status == CV_DNNL_OK)
        status = d->stream_wait(r->slot->stream);
    if (r->exec->phases)
        cv_phase_add(r->exec->phases, phase, cv_now_s() - from, bytes, flop);
    return status;
}

static void run_steps(void *user)
{
    struct running *r = user;
    const cv_kit *k = r->kit;
    const cv_dnnl *d = k->d;
    cv_kit_slot *s = r->slot;
    int status = s->made ? CV_DNNL_OK : make_slot(k, s);
    if (status == CV_DNNL_OK)
        status = aim(r);
    const double x = (double)d->md_get_size(k->own_x), w = (double)d->md_get_size(k->own_w),
                 y = (double)d->md_get_size(k->own_y);
    cv_dnnl_arg to_x[5] = {{CV_DNNL_FROM, s->x}, {CV_DNNL_TO, s->own_x}},
                to_w[5] = {{CV_DNNL_FROM, s->w}, {CV_DNNL_TO, s->own_w}},
                to_y[5] = {{CV_DNNL_FROM, s->own_y}, {CV_DNNL_TO, s->y}},
                sum[5] = {{CV_DNNL_SRC, s->own_x},
                          {CV_DNNL_WEIGHTS, s->own_w},
                          {CV_DNNL_DST, s->own_y},
                          {CV_DNNL_BIAS, s->bias}};
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->to_x, 0, to_x, 2, "lay out x", 2 * x, 0);
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->to_w, 1, to_w, 2, "lay out w", 2 * w, 0);
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->sum, 2, sum, k->has_bias ? 4 : 3, "sum", x + w + y, k->flop);
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->to_y, 3, to_y, 2, "lay out y", 2 * y, 0);
    r->status = status;
}

convoy_status cv_kit_execute(cv_kit *k, const cv_exec *exec)
{
    cv_kit_slot spare, *slot = NULL;
    for (int i = 0; i < CV_KIT_SLOTS && !slot; i++)
        if (!atomic_flag_test_and_set_explicit(&k->slot[i].taken, memory_order_acquire))
            slot = &k->slot[i];
    if (!slot) { /* more threads at once than slots: this one pays for objects of its own */
        memset(&spare, 0, sizeof spare);
    }
    struct running r = {k, exec, slot ? slot : &spare, CV_DNNL_OK};
    if (!cv_dnnl_run(k->d, k->threads, run_steps, &r))
        r.status = CV_DNNL_NO_MEMORY;
    if (slot)
        atomic_flag_clear_explicit(&slot->taken, memory_order_release);
    else
        free_slot(k->d, &spare);
    return r.status == CV_DNNL_OK ? CONVOY_OK : failed(r.status, "a convolution");
}
