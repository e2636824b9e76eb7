/* Peer: oneDNN 2 through its C API, strict FP32, plain NCHW arrays in and out. The primitive chooses its own layouts;
 * reorders of x and y are counted, and that of w with fresh weights. Direct, and Winograd where oneDNN has it; the
 * quicker of each is reported. */
#include "peer.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#if DNNL_VERSION_MAJOR != 2
#error "this peer is written for oneDNN 2; version 3 changed this part of the C API"
#endif

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != dnnl_success) {                                                                                  \
            fprintf(stderr, "convoy-peer: oneDNN failed: %s\n", #call);                                                \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A tensor as the caller has it, as the primitive wants it, and the way between; both are the same object where layouts
 * agree. */
struct side {
    dnnl_memory_t plain, own;
    dnnl_primitive_t reorder;
};

struct conv {
    struct peer *e;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct side x, w, y;
    dnnl_primitive_t primitive;
};

static void reorder(const struct conv *v, const struct side *s, bool back)
{
    if (!s->reorder)
        return;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, back ? s->own : s->plain}, {DNNL_ARG_TO, back ? s->plain : s->own}};
    TRY(dnnl_primitive_execute(s->reorder, v->stream, 2, args));
}

static void run_prepared(void *self, int set)
{
    const struct conv *v = self;
    TRY(dnnl_memory_set_data_handle(v->x.plain, v->e->x[set]));
    TRY(dnnl_memory_set_data_handle(v->y.plain, v->e->y[set]));
    reorder(v, &v->x, false);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, v->x.own}, {DNNL_ARG_WEIGHTS, v->w.own}, {DNNL_ARG_DST, v->y.own}};
    TRY(dnnl_primitive_execute(v->primitive, v->stream, 3, args));
    reorder(v, &v->y, true);
    TRY(dnnl_stream_wait(v->stream));
}

static void prepare(void *self, int set)
{
    const struct conv *v = self;
    TRY(dnnl_memory_set_data_handle(v->w.plain, v->e->w[set]));
    reorder(v, &v->w, false);
    TRY(dnnl_stream_wait(v->stream));
}

static void run_fresh(void *self, int set)
{
    prepare(self, set);
    run_prepared(self, set);
}

static struct side make_side(const struct conv *v, const dnnl_memory_desc_t *plain, float *data,
                             const dnnl_memory_desc_t *own, bool back)
{
    struct side s = {0};
    TRY(dnnl_memory_create(&s.plain, plain, v->engine, data));
    s.own = s.plain;
    if (dnnl_memory_desc_equal(plain, own))
        return s;
    dnnl_primitive_desc_t pd;
    TRY(dnnl_memory_create(&s.own, own, v->engine, DNNL_MEMORY_ALLOCATE));
    TRY(dnnl_reorder_primitive_desc_create(&pd, back ? own : plain, v->engine, back ? plain : own, v->engine, NULL));
    TRY(dnnl_primitive_create(&s.reorder, pd));
    TRY(dnnl_primitive_desc_destroy(pd));
    return s;
}

static void free_side(struct side *s)
{
    if (s->reorder)
        TRY(dnnl_primitive_destroy(s->reorder));
    if (s->own != s->plain)
        TRY(dnnl_memory_destroy(s->own));
    TRY(dnnl_memory_destroy(s->plain));
}

struct descs {
    dnnl_memory_desc_t x, w, y;
};

static struct descs describe(const struct peer_problem *p, bool plain)
{
    const dnnl_dims_t x = {p->n, p->c, p->h, p->w}, y = {p->n, p->k, p->P, p->Q}, w = {p->k, p->c, p->r, p->s},
                      grouped = {p->groups, p->k / p->groups, p->c / p->groups, p->r, p->s};
    struct descs d;
    TRY(dnnl_memory_desc_init_by_tag(&d.x, 4, x, dnnl_f32, plain ? dnnl_nchw : dnnl_format_tag_any));
    TRY(dnnl_memory_desc_init_by_tag(&d.y, 4, y, dnnl_f32, plain ? dnnl_nchw : dnnl_format_tag_any));
    if (p->groups > 1)
        TRY(dnnl_memory_desc_init_by_tag(&d.w, 5, grouped, dnnl_f32, plain ? dnnl_goihw : dnnl_format_tag_any));
    else
        TRY(dnnl_memory_desc_init_by_tag(&d.w, 4, w, dnnl_f32, plain ? dnnl_oihw : dnnl_format_tag_any));
    return d;
}

/* NULL where oneDNN has no such algorithm for the problem. */
static dnnl_primitive_desc_t choose(const struct conv *v, dnnl_alg_kind_t algorithm)
{
    const struct peer_problem *p = &v->e->p;
    const struct descs any = describe(p, false);
    const dnnl_dims_t stride = {p->stride_h, p->stride_w}, dilation = {p->dil_h - 1, p->dil_w - 1},
                      before = {p->pad_t, p->pad_l}, after = {p->pad_b, p->pad_r};
    dnnl_convolution_desc_t desc;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd = NULL;
    TRY(dnnl_primitive_attr_create(&attr));
    TRY(dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict));
    if (dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, algorithm, &any.x, &any.w, NULL,
                                                   &any.y, stride, dilation, before, after) != dnnl_success ||
        dnnl_primitive_desc_create(&pd, &desc, attr, v->engine, NULL) != dnnl_success)
        pd = NULL;
    TRY(dnnl_primitive_attr_destroy(attr));
    return pd;
}

static void open_conv(struct conv *v, dnnl_primitive_desc_t pd)
{
    const struct descs plain = describe(&v->e->p, true);
    v->x = make_side(v, &plain.x, v->e->x[0], dnnl_primitive_desc_query_md(pd, dnnl_query_src_md, 0), false);
    v->w = make_side(v, &plain.w, v->e->w[0], dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0), false);
    v->y = make_side(v, &plain.y, v->e->y[0], dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0), true);
    TRY(dnnl_primitive_create(&v->primitive, pd));
}

static void close_conv(struct conv *v)
{
    free_side(&v->x);
    free_side(&v->w);
    free_side(&v->y);
    TRY(dnnl_primitive_destroy(v->primitive));
}

static bool measure(struct conv *v, bool prepared, dnnl_primitive_desc_t *pd, const char *const *name)
{
    struct peer_timing best = {0};
    int chosen = -1;
    for (int i = 0; i < 2; i++) {
        if (!pd[i])
            continue;
        open_conv(v, pd[i]);
        prepare(v, 0);
        const struct peer_timing t = peer_time(v->e, v->e->seconds, prepared ? run_prepared : run_fresh, v);
        close_conv(v);
        if (chosen < 0 || t.median_ms < best.median_ms)
            best = t, chosen = i;
    }
    if (chosen < 0)
        return true;
    open_conv(v, pd[chosen]);
    prepare(v, 0);
    const bool good =
        peer_report(v->e, "onednn_nchw", name[chosen], prepared, best, prepared ? run_prepared : run_fresh, v);
    close_conv(v);
    return good;
}

int main(int argc, char **argv)
{
    static struct peer e;
    static const char *const name[] = {"direct", "winograd"};
    peer_open(&e, argc, argv);
    struct conv v = {.e = &e};
    TRY(dnnl_engine_create(&v.engine, dnnl_cpu, 0));
    TRY(dnnl_stream_create(&v.stream, v.engine, dnnl_stream_default_flags));
    dnnl_primitive_desc_t pd[] = {choose(&v, dnnl_convolution_direct), choose(&v, dnnl_convolution_winograd)};
    const bool fresh = measure(&v, false, pd, name), prepared = measure(&v, true, pd, name);
    for (int i = 0; i < 2; i++)
        if (pd[i])
            TRY(dnnl_primitive_desc_destroy(pd[i]));
    TRY(dnnl_stream_destroy(v.stream));
    TRY(dnnl_engine_destroy(v.engine));
    return fresh && prepared ? 0 : 1;
}
