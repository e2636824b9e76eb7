/* Instances of the slide kernel and the arithmetic around them: tiles, stages, shared memory, waves. */
#include "chain_host.h"
#include "slide_kernel.cuh"

namespace
{

enum { STAGES = 3 };

struct variant {
    int kt, qt, tk, nb;
    int resident;      /* blocks that a multiprocessor's registers hold */
    double efficiency; /* share of the FMA peak that its inner loop reaches */
    const void *plain, *masked;
};

#define CV_SLIDE(kt, qt, tk, nb, minb, eff)                                                                            \
    {                                                                                                                  \
        kt, qt, tk, nb, minb, eff, (const void *)cv_slide_kernel<kt, qt, tk, nb, STAGES, false, minb>,                 \
            (const void *)cv_slide_kernel<kt, qt, tk, nb, STAGES, true, minb>                                          \
    }

/* Column counts that divide the common row lengths with little waste: 113 = 9 x 13 - 4, 121 = 11 x 11, 225 = 9 x 25 =
 * 15 x 15, 241 = 11 x 22 - 1, 56 = 7 x 8. All odd: lanes QT columns apart then never meet in a shared-memory bank. */
const variant table[CV_SLIDE_VARIANTS] = {
    CV_SLIDE(8, 9, 8, 16, 4, 0.75),  CV_SLIDE(8, 11, 8, 16, 3, 0.75), CV_SLIDE(8, 15, 8, 16, 2, 0.75),
    CV_SLIDE(8, 13, 8, 16, 3, 0.75), CV_SLIDE(8, 19, 8, 16, 2, 0.75), CV_SLIDE(8, 7, 8, 16, 4, 0.70),
    CV_SLIDE(8, 9, 4, 32, 4, 0.70),
};

struct layout {
    int64_t tq, items, nib, nkb, tiles, stage_floats, x_floats, xrow, slots, entries, shared, stages;
    int nr;
};

layout lay_out(const cv_chain_shape *c, const variant *v)
{
    layout l;
    const int64_t kg = c->k / c->groups, rows = c->c / c->groups * c->r;
    l.tq = cv_ceil(c->q, v->qt);
    l.items = c->n * c->p * l.tq;
    l.nib = cv_ceil(l.items, v->nb);
    l.nkb = cv_ceil(kg, v->tk * v->kt);
    l.tiles = l.nib * l.nkb * c->groups;
    /* a stage of eight taps or more keeps the barrier rare */
    l.nr = 1;
    while (l.nr * c->s < 8 && l.nr < 8 && l.nr < rows)
        l.nr *= 2;
    l.stages = cv_ceil(rows, l.nr);
    l.slots = (v->nb - 2) / l.tq + 2;
    if (l.slots > c->n * c->p)
        l.slots = c->n * c->p;
    const int64_t across = l.tq < v->nb ? l.tq : v->nb;
    l.xrow = (across * v->qt + c->s - 1 + 3 + 3) / 4 * 4;
    l.x_floats = l.slots * l.xrow;
    l.stage_floats = (int64_t)l.nr * (c->s * v->tk * v->kt + l.x_floats);
    l.entries = v->nb * v->qt + l.slots * (c->s + 3);
    l.shared = STAGES * l.stage_floats * 4 + l.entries * (int64_t)sizeof(cv_slide_entry);
    return l;
}

/* Blocks that are resident at once when tiles are split: what registers and shared memory allow. */
int64_t split_blocks(const cv_chain_gpu *gpu, const variant *v, const layout *l)
{
    int64_t by_shared = (int64_t)(gpu->shared_bytes + 1024) / (l->shared + 1024);
    if (by_shared < 1)
        by_shared = 1;
    return (by_shared < v->resident ? by_shared : v->resident) * gpu->sm_count;
}

/* The rule needs at least a tile a block: then no tile has three parts. */
int can_split(const cv_chain_gpu *gpu, const variant *v, const layout *l) { return l->tiles > split_blocks(gpu, v, l); }

size_t carry_bytes(const cv_chain_gpu *gpu, const variant *v, const layout *l)
{
    const size_t slot = (size_t)(v->tk * v->nb) * v->kt * v->qt * sizeof(float) + sizeof(unsigned);
    return ((size_t)split_blocks(gpu, v, l) * slot + 255) / 256 * 256;
}

int padded(const cv_chain_shape *c) { return c->pad_t > 0 || c->pad_l > 0 || c->pad_b > 0 || c->pad_r > 0; }

} // namespace

int cv_slide_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, int i, int split)
{
    const variant *v = &table[i];
    const int64_t xsize[4] = {c->n, c->c, c->h + c->pad_t + c->pad_b, c->w + c->pad_l + c->pad_r};
    if (c->st_w != 1 || c->dil_w != 1 || !cv_small(xsize, c->xs))
        return 0;
    if (c->s > 1024 || c->n * c->p > INT32_MAX / c->q || c->k > 1000000 || c->c / c->groups * c->r > INT32_MAX / 2)
        return 0;
    const layout l = lay_out(c, v);
    return l.shared <= (int64_t)gpu->shared_bytes && l.items < INT32_MAX && l.tiles < INT32_MAX &&
           (!split || can_split(gpu, v, &l));
}

double cv_slide_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                        size_t *relaid_bytes, size_t *carry)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, v);
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    const double tile = taps * v->kt * v->qt * v->tk * v->nb * 2; /* operations */
    const double per_sm = gpu->flop_per_s / gpu->sm_count * v->efficiency;
    /* tiles a multiprocessor works on at once share its pipes; one tile alone cannot fill them */
    const double each = (double)l.tiles / gpu->sm_count;
    double rounds = each <= 1 ? 1 : choice->split ? each : (double)cv_ceil(l.tiles, gpu->sm_count);
    if (each < 2)
        rounds *= 1.6 - 0.3 * (each > 1 ? each : 1);
    const double relaid = taps * l.nkb * v->tk * v->kt * c->groups * 8;
    *relaid_bytes = ((size_t)(relaid / 2) + 255) / 256 * 256;
    *carry = choice->split ? carry_bytes(gpu, v, &l) : 0;
    double eff_s = 1 + 1.0 / (double)c->s * 0.5; /* short rows: fewer FMAs a shared load */
    if (padded(c))
        eff_s *= 1.3;
    return rounds * tile / per_sm * eff_s + relaid / gpu->bytes_per_s + (choice->split ? 8e-6 : 5e-6);
}

int cv_slide_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, v);
    cv_slide_args *a = &plan->args.slide;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = (int)c->xs[2], a->xs_w = (int)c->xs[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = c->ys[2], a->ys_q = c->ys[3];
    a->H = (int)c->h, a->W = (int)c->w, a->P = (int)c->p, a->Q = (int)c->q;
    a->TQ = (int)l.tq, a->items = (int)l.items;
    a->Kg = (int)(c->k / c->groups), a->Cg = (int)(c->c / c->groups), a->R = (int)c->r, a->S = (int)c->s;
    a->st_h = (int)c->st_h, a->dil_h = (int)c->dil_h, a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    a->nr = l.nr, a->stages = (int)l.stages, a->stage_floats = (int)l.stage_floats, a->x_floats = (int)l.x_floats;
    a->xrow = (int)l.xrow;
    a->nib = (int)l.nib, a->nkb = (int)l.nkb, a->tiles = (int)l.tiles;
    a->swizzle = choice->swizzle > 0 ? choice->swizzle : 1;
    plan->kb = v->tk * v->kt;
    const int64_t taps = (int64_t)a->Cg * a->R * a->S;
    a->wr_kblock = taps * plan->kb;
    a->wr_group = a->wr_kblock * l.nkb;
    plan->relaid_bytes = (size_t)(a->wr_group * c->groups) * sizeof(float);
    plan->vec = a->xs_w == 1 && c->w % 4 == 0 && c->xs[2] % 4 == 0 && c->xs[1] % 4 == 0 && c->xs[0] % 4 == 0;
    plan->block = (unsigned)(v->tk * v->nb);
    plan->shared = (unsigned)l.shared;
    plan->grid = (unsigned)l.tiles;
    const void *kernel = padded(c) ? v->masked : v->plain;
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)plan->shared);
    if (e != cudaSuccess)
        return e;
    if (choice->split) {
        if (!can_split(gpu, v, &l))
            return cudaErrorInvalidValue;
        a->split = 1;
        plan->grid = (unsigned)split_blocks(gpu, v, &l);
        plan->workspace_bytes = carry_bytes(gpu, v, &l);
    }
    return cudaSuccess;
}

int cv_slide_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                 void *workspace, cudaStream_t stream)
{
    const variant *v = &table[plan->choice.variant];
    cv_slide_args a = plan->args.slide;
    a.x = x, a.wr = w, a.bias = bias, a.y = y;
    a.vec = plan->vec && ((uintptr_t)x & 15) == 0;
    if (a.split) {
        a.carry = (float *)workspace;
        a.flags = (unsigned *)(a.carry + (size_t)plan->grid * plan->block * v->kt * v->qt);
        cudaError_t e = cudaMemsetAsync(a.flags, 0, plan->grid * sizeof(unsigned), stream);
        if (e != cudaSuccess)
            return e;
    }
    void *args[] = {&a};
    return cudaLaunchKernel(padded(&plan->shape) ? v->masked : v->plain, dim3(plan->grid), dim3(plan->block), args,
                            plan->shared, stream);
}
