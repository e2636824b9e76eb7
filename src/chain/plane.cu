/* Instances of the plane kernel, and how a block is cut out of the planes. */
#include "chain_async.cuh"
#include "chain_host.h"
#include "plane_kernel.cuh"

namespace
{

enum { THREADS = 128, SHARED_GOAL = 56 * 1024 };

struct variant {
    int pt, qt;
    int resident;      /* blocks that a multiprocessor's registers hold */
    double efficiency; /* FMAs a cycle and scheduler when enough warps are there */
    const void *plain, *masked;
};

#define CV_PLANE(pt, qt, resident, eff)                                                                                \
    {                                                                                                                  \
        pt, qt, resident, eff, (const void *)cv_plane_kernel<pt, qt, false>,                                           \
            (const void *)cv_plane_kernel<pt, qt, true>                                                                \
    }

const variant table[CV_PLANE_VARIANTS] = {CV_PLANE(4, 7, 5, 0.55), CV_PLANE(4, 9, 4, 0.6), CV_PLANE(2, 7, 8, 0.5)};

struct layout {
    int64_t tq, tp, tnn, tnk, tiles_q, tiles_p, tiles_n, rc, sp, pitch, x_floats, w_floats, shared, blocks;
};

int64_t power_of_two(int64_t n)
{
    int64_t p = 1;
    while (p < n && p < 32)
        p *= 2;
    return p;
}

void measure_block(const cv_chain_shape *c, const variant *v, layout *l)
{
    const int64_t rows = l->tp * v->pt + l->rc - 1;
    l->x_floats = ((rows < c->h ? rows : c->h) * l->pitch + 3) / 4 * 4;
    l->w_floats = l->rc * l->sp + (l->rc * l->sp % 32 == 0 ? 4 : 0);
    l->shared = (l->tnk * l->w_floats + l->tnk * l->tnn * l->x_floats) * 4;
    l->tiles_n = cv_ceil(c->n, l->tnn);
    l->blocks = l->tiles_n * cv_ceil(c->k, l->tnk) * l->tiles_p * l->tiles_q;
}

layout lay_out(const cv_chain_shape *c, const cv_chain_gpu *gpu, const variant *v)
{
    layout l;
    const int64_t across = cv_ceil(c->q, v->qt), down = cv_ceil(c->p, v->pt);
    l.tiles_q = cv_ceil(across, 16);
    l.tq = cv_ceil(across, l.tiles_q);
    l.tiles_p = cv_ceil(down, THREADS / l.tq);
    l.tp = cv_ceil(down, l.tiles_p);
    const int64_t planes = THREADS / (l.tq * l.tp);
    l.tnn = planes < c->n ? planes : c->n;
    l.tnk = planes / l.tnn;
    if (l.tnk > c->k)
        l.tnk = c->k;
    l.sp = (c->s + 7) / 8 * 8 + 4;
    /* rows that end 2 past a multiple of 8 keep lanes PT rows apart off one another's banks */
    l.pitch = (l.tq * v->qt + (c->s + 7) / 8 * 8 + 7) / 8 * 8 + 2;
    l.rc = c->r;
    for (;;) {
        measure_block(c, v, &l);
        /* Too large: fewer channels, then fewer images, then fewer kernel rows a round. Too few blocks for the GPU:
         * fewer planes as well, then fewer rows of a plane. */
        const int large = l.shared > SHARED_GOAL, few = l.blocks < 2 * gpu->sm_count;
        if ((large || few) && l.tnk > 1) {
            l.tnk = (l.tnk + 1) / 2;
        } else if ((large || few) && l.tnn > 1) {
            l.tnn = (l.tnn + 1) / 2;
        } else if (few && l.tp > 1 && l.tp * l.tq > 32) {
            l.tp = (l.tp + 1) / 2;
            l.tiles_p = cv_ceil(down, l.tp);
        } else if (large && l.rc > 8) {
            l.rc = (l.rc + 1) / 2;
        } else {
            break;
        }
    }
    return l;
}

/* Taps in the padding before, or after, the image, of so many outputs along an axis. */
double outside(int64_t pad, int64_t outputs)
{
    const double n = (double)(pad < outputs ? pad : outputs);
    return n * (double)pad - n * (n - 1) / 2;
}

int padded(const cv_chain_shape *c) { return c->pad_l > 0 || c->pad_r > 0; }

} // namespace

int cv_plane_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, int i)
{
    if (c->st_h != 1 || c->st_w != 1 || c->dil_h != 1 || c->dil_w != 1)
        return 0;
    if (c->h > (1 << 24) || c->w > (1 << 24) || c->r > (1 << 20) || c->s > (1 << 20) || c->k > INT32_MAX ||
        c->c > INT32_MAX || c->n > INT32_MAX || c->p > INT32_MAX / 2 || c->q > INT32_MAX / 2)
        return 0;
    const layout l = lay_out(c, gpu, &table[i]);
    return l.shared <= (int64_t)gpu->shared_bytes && l.blocks < INT32_MAX;
}

double cv_plane_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, gpu, v);
    const double clock = gpu->flop_per_s / gpu->sm_count / 256, channels = (double)(c->c / c->groups);
    /* a thread skips rows in the padding, a warp those columns that all of its lanes have there */
    double rows = (double)c->r - (outside(c->pad_t, c->p) + outside(c->pad_b, c->p)) / (double)c->p;
    const int64_t right = c->w + c->pad_l < c->s ? c->w + c->pad_l : c->s;
    double columns = (double)(right - (c->pad_l > c->q - 1 ? c->pad_l - (c->q - 1) : 0));
    rows = rows < 1 ? 1 : rows, columns = columns < 1 ? 1 : columns;
    /* FMAs of a thread: rows at the tile's ends serve fewer outputs and cost half again, a row of taps begins slowly */
    const double fmas = rows * (columns + 4.4) * v->pt * v->qt * (1 + 0.5 * v->pt / rows) * channels;
    const double warps = cv_ceil(l.tq * l.tp * l.tnn * l.tnk, 32) / 4.0; /* of one scheduler */
    int64_t resident = (int64_t)(gpu->shared_bytes / (l.shared + 1024));
    resident = resident < 1 ? 1 : resident > v->resident ? v->resident : resident;
    /* whole rounds of blocks, and the rest, which has the multiprocessors to fewer blocks. A round of loads is not
     * hidden behind its block's sums */
    const int64_t whole = l.blocks / (resident * gpu->sm_count);
    const int64_t rest = cv_ceil(l.blocks - whole * resident * gpu->sm_count, gpu->sm_count);
    const double busy = 1.27 * fmas * warps / v->efficiency, alone = 4.6 * fmas;
    const double loads = 3.9e-6 * clock * channels * (double)cv_ceil(c->r, l.rc);
    double cycles = (double)whole * (loads + (resident * busy > alone ? resident * busy : alone));
    if (rest)
        cycles += loads + (rest * busy > alone ? rest * busy : alone);
    return 11.8e-6 + cycles / clock;
}

int cv_plane_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, gpu, v);
    cv_plane_args *a = &plan->args.plane;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = c->xs[2], a->xs_w = c->xs[3];
    a->ws_k = c->ws[0], a->ws_c = c->ws[1], a->ws_r = c->ws[2], a->ws_s = c->ws[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = c->ys[2], a->ys_q = c->ys[3];
    a->N = (int)c->n, a->H = (int)c->h, a->W = (int)c->w, a->P = (int)c->p, a->Q = (int)c->q, a->K = (int)c->k;
    a->Kg = (int)(c->k / c->groups), a->Cg = (int)(c->c / c->groups), a->R = (int)c->r, a->S = (int)c->s;
    a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    a->tq = (int)l.tq, a->tp = (int)l.tp, a->tnn = (int)l.tnn, a->tnk = (int)l.tnk;
    a->tiles_q = (int)l.tiles_q, a->tiles_p = (int)l.tiles_p, a->tiles_n = (int)l.tiles_n;
    a->rc = (int)l.rc, a->sp = (int)l.sp, a->pitch = (int)l.pitch;
    a->x_floats = (int)l.x_floats, a->w_floats = (int)l.w_floats;
    a->x_lanes = (int)power_of_two(c->w < l.tq * v->qt + c->s - 1 ? c->w : l.tq * v->qt + c->s - 1);
    a->w_lanes = (int)power_of_two(c->s);
    plan->block = (unsigned)((l.tq * l.tp * l.tnn * l.tnk + 31) / 32 * 32);
    plan->shared = (unsigned)l.shared;
    plan->grid = (unsigned)l.blocks;
    return cudaFuncSetAttribute(padded(c) ? v->masked : v->plain, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                (int)plan->shared);
}

int cv_plane_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                 cudaStream_t stream)
{
    const variant *v = &table[plan->choice.variant];
    cv_plane_args a = plan->args.plane;
    a.x = x, a.w = w, a.bias = bias, a.y = y;
    void *args[] = {&a};
    return cudaLaunchKernel(padded(&plan->shape) ? v->masked : v->plain, dim3(plan->grid), dim3(plan->block), args,
                            plan->shared, stream);
}
