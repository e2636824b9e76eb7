/* Instances of the slide kernel and the arithmetic around them: tiles, stages, shared memory, waves. */
#include "chain_host.h"
#include "slide_kernel.cuh"

namespace
{

enum { STAGES = 2 };

struct variant {
    int kt, qt, tk, nb;
    int resident; /* blocks that a multiprocessor's registers hold */
    const void *plain, *any;
};

#define CV_SLIDE(kt, qt, tk, nb, minb)                                                                                 \
    {                                                                                                                  \
        kt, qt, tk, nb, minb, (const void *)cv_slide_kernel<kt, qt, tk, nb, STAGES, false, minb>,                      \
            (const void *)cv_slide_kernel<kt, qt, tk, nb, STAGES, true, minb>                                          \
    }

/* Column counts that divide the common row lengths with little waste: 113 = 9 x 13 - 4, 121 = 11 x 11, 225 = 15 x 15,
 * 241 = 11 x 22 - 1, 56 = 7 x 8. All odd: lanes QT columns apart then never meet in a shared-memory bank. The resident
 * blocks leave ptxas the registers with which its FMAs meet fewest bank conflicts. The last three spread small problems
 * over more threads. */
const variant table[CV_SLIDE_VARIANTS] = {
    CV_SLIDE(8, 7, 8, 16, 4),  CV_SLIDE(8, 9, 8, 16, 3),  CV_SLIDE(8, 11, 8, 16, 3),
    CV_SLIDE(8, 13, 8, 16, 3), CV_SLIDE(8, 15, 8, 16, 3), CV_SLIDE(8, 9, 4, 32, 3),
    CV_SLIDE(4, 7, 8, 8, 8),   CV_SLIDE(4, 5, 4, 16, 8),  CV_SLIDE(4, 3, 8, 8, 12),
};

struct layout {
    int64_t tq, items, nib, nkb, tiles, stage_floats, x_floats, beyond, slots, entries, shared, stages;
    int nr;
};

layout lay_out(const cv_chain_shape *c, const variant *v, int taps)
{
    layout l;
    const int64_t kg = c->k / c->groups, rows = c->c / c->groups * c->r;
    l.tq = cv_ceil(c->q, v->qt);
    l.items = c->n * c->p * l.tq;
    l.nib = cv_ceil(l.items, v->nb);
    l.nkb = cv_ceil(kg, v->tk * v->kt);
    l.tiles = l.nib * l.nkb * c->groups;
    l.nr = 1;
    while (l.nr * c->s < taps && l.nr < rows)
        ++l.nr;
    l.stages = cv_ceil(rows, l.nr);
    l.slots = (v->nb - 2) / l.tq + 2;
    if (l.slots > c->n * c->p)
        l.slots = c->n * c->p;
    l.beyond = ((c->s - 1) * c->dil_w + c->st_w - 1) / c->st_w + 4;
    l.x_floats = c->st_w * (v->nb * v->qt + l.slots * (l.beyond + 3));
    l.x_floats = (l.x_floats + 3) / 4 * 4;
    l.stage_floats = (int64_t)l.nr * (c->s * v->tk * v->kt + l.x_floats);
    l.entries = v->nb * v->qt * c->st_w + l.slots * ((c->s - 1) * c->dil_w + 4);
    l.shared = STAGES * l.stage_floats * 4 + l.entries * (int64_t)sizeof(cv_slide_entry);
    return l;
}

/* Blocks that a multiprocessor holds at once: what registers and shared memory allow. */
int64_t resident(const cv_chain_gpu *gpu, const variant *v, const layout *l)
{
    const int64_t by_shared = (int64_t)(gpu->shared_bytes + 1024) / (l->shared + 1024);
    return by_shared < 1 ? 1 : by_shared < v->resident ? by_shared : v->resident;
}

/* Blocks among which tiles are split: the same number on each multiprocessor, and at least a tile each, so that no tile
 * has three parts. */
int64_t split_blocks(const cv_chain_gpu *gpu, const variant *v, const layout *l)
{
    const int64_t each = l->tiles / gpu->sm_count, most = resident(gpu, v, l);
    return (each < most ? each : most) * gpu->sm_count;
}

int can_split(const cv_chain_gpu *gpu, const variant *v, const layout *l)
{
    const int64_t blocks = split_blocks(gpu, v, l);
    return blocks > 0 && blocks < l->tiles && l->tiles * l->stages < INT32_MAX;
}

size_t carry_bytes(const cv_chain_gpu *gpu, const variant *v, const layout *l)
{
    const size_t slot = (size_t)(v->tk * v->nb) * v->kt * v->qt * sizeof(float) + sizeof(unsigned);
    return ((size_t)split_blocks(gpu, v, l) * slot + 255) / 256 * 256;
}

/* Needs the kernel for columns outside the image or apart. */
int any(const cv_chain_shape *c)
{
    return c->pad_t > 0 || c->pad_l > 0 || c->pad_b > 0 || c->pad_r > 0 || c->st_w > 1 || c->dil_w > 1;
}

} // namespace

int cv_slide_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice)
{
    if (choice->variant < 0 || choice->variant >= CV_SLIDE_VARIANTS || choice->taps < 1 || choice->taps > 1024)
        return 0;
    const variant *v = &table[choice->variant];
    const int64_t xsize[4] = {c->n, c->c, c->h + c->pad_t + c->pad_b, c->w + c->pad_l + c->pad_r};
    const int64_t ysize[4] = {0, 0, 1, 1};
    if (!cv_small(xsize, c->xs) || !cv_small(ysize, c->ys) || c->s > 1024 || c->st_w > 64 || c->dil_w > 4096 ||
        c->st_h > INT32_MAX / 2)
        return 0;
    if (c->h + c->pad_t + c->pad_b > (1 << 28) || c->w + c->pad_l + c->pad_r > (1 << 28) ||
        c->n * c->p > INT32_MAX / c->q || c->k > 1000000 || c->c / c->groups * c->r > INT32_MAX / 2)
        return 0;
    const layout l = lay_out(c, v, choice->taps);
    return l.shared <= (int64_t)gpu->shared_bytes && l.items < INT32_MAX && l.tiles < INT32_MAX &&
           (!choice->split || can_split(gpu, v, &l));
}

double cv_slide_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                        size_t *relaid_bytes, size_t *carry)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, v, choice->taps);
    const double clock = gpu->flop_per_s / gpu->sm_count / 256;
    const double taps = (double)(c->c / c->groups) * c->r * c->s, fma = v->kt * v->qt;
    /* cycles a tap and warp: with enough warps, bound by issue; with one, by latency, of short rows above all. A row of
     * S taps pays for its loads, a stage for copying. */
    const double loads = v->kt / 4 + (c->s >= 8 ? (v->qt + 7) / 8.0 : (double)(v->qt + c->s - 1) / c->s);
    double issue = 1.12 * fma + loads + 2 + 110.0 / c->s + 200.0 / (l.nr * c->s);
    double alone = 1.2 * fma + 20 + 200.0 / c->s + 500.0 / (l.nr * c->s);
    if (c->st_w > 1 || c->dil_w > 1) {
        issue = (1.12 * fma + 3 * v->qt + 25) * (c->st_w > 1 ? 1.4 : 1);
        alone = issue + 60;
    }
    const int64_t most = choice->split ? split_blocks(gpu, v, &l) / gpu->sm_count : resident(gpu, v, &l);
    const double rounds = (double)l.tiles / (double)(most * gpu->sm_count);
    double seconds = 0;
    for (int last = 0; last < 2; ++last) {
        /* whole rounds, then the rest, which has the multiprocessors' pipes to fewer blocks */
        const int64_t whole = (int64_t)rounds, rest = l.tiles - whole * most * gpu->sm_count;
        const double share = choice->split ? (last ? 0 : rounds) : last ? rest > 0 : (double)whole;
        const int64_t blocks = last ? cv_ceil(rest, gpu->sm_count) : most;
        const double warps = (double)cv_ceil(blocks * v->tk * v->nb, 128), busy = warps * issue;
        const double stage = (double)(l.nr * c->s) * (busy > alone ? busy : alone), wait = 1e-6 * clock;
        /* the next stage's loads are under way meanwhile and take about 1 us */
        seconds += share * taps / (double)(l.nr * c->s) * (stage > wait ? stage : wait) / clock;
    }
    const double relaid = taps * l.nkb * v->tk * v->kt * c->groups * 8;
    *relaid_bytes = ((size_t)(relaid / 2) + 255) / 256 * 256;
    *carry = choice->split ? carry_bytes(gpu, v, &l) : 0;
    /* a tile's table, its first loads and its stores stand alone */
    seconds += 6e-6 * rounds + 8.0 * (double)(c->n * c->k * c->p) * (double)c->q / gpu->bytes_per_s;
    return seconds + relaid / gpu->bytes_per_s + (choice->split ? 17e-6 : 14e-6) + (any(c) ? 2e-6 : 0);
}

int cv_slide_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, v, choice->taps);
    cv_slide_args *a = &plan->args.slide;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = (int)c->xs[2], a->xs_w = (int)c->xs[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = (int)c->ys[2], a->ys_q = (int)c->ys[3];
    plan->vec =
        a->xs_w == 1 && c->st_w == 1 && c->w % 4 == 0 && c->xs[2] % 4 == 0 && c->xs[1] % 4 == 0 && c->xs[0] % 4 == 0;
    a->H = (int)c->h, a->W = (int)c->w, a->P = (int)c->p, a->Q = (int)c->q;
    a->TQ = (int)l.tq, a->items = (int)l.items;
    a->Kg = (int)(c->k / c->groups), a->Cg = (int)(c->c / c->groups), a->R = (int)c->r, a->S = (int)c->s;
    a->st_h = (int)c->st_h, a->st_w = (int)c->st_w, a->dil_h = (int)c->dil_h, a->dil_w = (int)c->dil_w;
    a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    a->beyond = (int)l.beyond;
    a->step_at = (int)(c->dil_w / c->st_w), a->step_ph = (int)(c->dil_w % c->st_w);
    a->nr = l.nr, a->stages = (int)l.stages;
    a->stage_floats = (int)l.stage_floats, a->x_floats = (int)l.x_floats;
    /* 2^row_shift threads copy one row of x. A turn is worth about three copies besides its own: the fewest in all */
    const int64_t pieces = l.x_floats / (plan->vec ? 4 : 1);
    int64_t least = INT64_MAX;
    for (int shift = 3; 1 << shift <= v->tk * v->nb; ++shift) {
        const int64_t cost = cv_ceil(l.nr, (v->tk * v->nb) >> shift) * (3 + cv_ceil(pieces, 1 << shift));
        if (cost < least) {
            least = cost;
            a->row_shift = shift;
        }
    }
    a->nib = (int)l.nib, a->swizzle = choice->swizzle > 0 ? choice->swizzle : 1;
    const int64_t last = l.nib % a->swizzle;
    a->by_group = cv_divider_make(l.nib * l.nkb);
    a->by_band = cv_divider_make(a->swizzle * l.nkb);
    a->by_swizzle = cv_divider_make(a->swizzle);
    a->by_last = cv_divider_make(last ? last : 1);
    a->by_tq = cv_divider_make(l.tq), a->by_p = cv_divider_make(c->p), a->by_r = cv_divider_make(c->r);
    a->by_stages = cv_divider_make(l.stages);
    plan->kb = v->tk * v->kt;
    const int64_t taps = (int64_t)a->Cg * a->R * a->S;
    a->wr_kblock = taps * plan->kb;
    a->wr_group = a->wr_kblock * l.nkb;
    plan->relaid_bytes = (size_t)(a->wr_group * c->groups) * sizeof(float);
    plan->block = (unsigned)(v->tk * v->nb);
    plan->shared = (unsigned)l.shared;
    plan->grid = (unsigned)l.tiles;
    if (choice->split) {
        plan->grid = (unsigned)split_blocks(gpu, v, &l);
        a->split = 1;
        a->share = (int)(l.tiles * l.stages / plan->grid), a->extra = (int)(l.tiles * l.stages % plan->grid);
        plan->workspace_bytes = carry_bytes(gpu, v, &l);
    }
    return cudaFuncSetAttribute(any(c) ? v->any : v->plain, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)plan->shared);
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
    return cudaLaunchKernel(any(&plan->shape) ? v->any : v->plain, dim3(plan->grid), dim3(plan->block), args,
                            plan->shared, stream);
}
