/* Instances of the plane kernel, and how a block is cut out of the planes. */
#include "chain_async.cuh"
#include "chain_host.h"
#include "plane_kernel.cuh"

namespace
{

enum { THREADS = 128, SHARED_GOAL = 72 * 1024 };

struct variant {
    int pt, qt;
    const void *plain, *masked;
};

const variant table[CV_PLANE_VARIANTS] = {
    {4, 7, (const void *)cv_plane_kernel<4, 7, false>, (const void *)cv_plane_kernel<4, 7, true>},
    {4, 8, (const void *)cv_plane_kernel<4, 8, false>, (const void *)cv_plane_kernel<4, 8, true>},
};

struct layout {
    int64_t tq, tp, tn, tiles_q, tiles_p, rc, sp, pitch, rows, x_floats, w_floats, shared, blocks;
};

layout lay_out(const cv_chain_shape *c, const variant *v)
{
    layout l;
    const int64_t across = cv_ceil(c->q, v->qt), down = cv_ceil(c->p, v->pt), planes = c->n * c->k;
    /* a block is a rectangle of one image, or several planes where one does not fill it */
    l.tiles_q = cv_ceil(across, 16);
    l.tq = cv_ceil(across, l.tiles_q);
    const int64_t most = THREADS / l.tq;
    l.tiles_p = cv_ceil(down, most);
    l.tp = cv_ceil(down, l.tiles_p);
    l.tn = THREADS / (l.tq * l.tp);
    if (l.tn > planes)
        l.tn = planes;
    l.sp = (c->s + 7) / 8 * 8 + 4;
    const int64_t wide = l.tq * v->qt + (c->s + 7) / 8 * 8;
    l.pitch = v->qt == 8 ? (wide + wide / 8) | 1 : (wide + 7) / 8 * 8 + 2;
    /* all kernel rows at once if they fit in the goal, else rounds of them; fewer planes before fewer rows */
    l.rc = c->r;
    for (;;) {
        l.rows = l.tp * v->pt + l.rc - 1;
        l.x_floats = (l.rows * l.pitch + 3) / 4 * 4 + 4;
        l.w_floats = l.rc * l.sp + (l.rc * l.sp % 32 == 0 ? 4 : 0);
        l.shared = l.tn * (l.x_floats + l.w_floats) * 4;
        if (l.shared <= SHARED_GOAL)
            break;
        if (l.tn > 1)
            l.tn = (l.tn + 1) / 2;
        else if (l.rc > 8)
            l.rc = (l.rc + 1) / 2;
        else
            break;
    }
    l.blocks = cv_ceil(planes, l.tn) * l.tiles_p * l.tiles_q;
    return l;
}

int padded(const cv_chain_shape *c) { return c->pad_l > 0 || c->pad_r > 0; }

} // namespace

int cv_plane_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, int i)
{
    if (c->st_h != 1 || c->st_w != 1 || c->dil_h != 1 || c->dil_w != 1)
        return 0;
    if (c->h > (1 << 24) || c->w > (1 << 24) || c->r > (1 << 20) || c->s > (1 << 20) || c->k > INT32_MAX ||
        c->c > INT32_MAX || c->n > INT32_MAX)
        return 0;
    const layout l = lay_out(c, &table[i]);
    return l.shared <= (int64_t)gpu->shared_bytes && l.blocks < INT32_MAX;
}

double cv_plane_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice)
{
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, v);
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    /* blocks reach about half of the FMA peak, rows at the tile's ends less; four of them fill a multiprocessor */
    const double block = taps * (l.tq * v->qt) * (l.tp * v->pt) * l.tn * 2 * (1 + 0.5 * v->pt / (double)c->r);
    const double each = (double)l.blocks / gpu->sm_count;
    const double rounds = each < 4 ? (each < 1 ? 3.0 : 2.0 + each / 2) : each;
    return rounds * block / (gpu->flop_per_s / gpu->sm_count * 0.45) + 3e-6;
}

int cv_plane_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    (void)gpu;
    const variant *v = &table[choice->variant];
    const layout l = lay_out(c, v);
    cv_plane_args *a = &plan->args.plane;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = c->xs[2], a->xs_w = c->xs[3];
    a->ws_k = c->ws[0], a->ws_c = c->ws[1], a->ws_r = c->ws[2], a->ws_s = c->ws[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = c->ys[2], a->ys_q = c->ys[3];
    a->planes = c->n * c->k;
    a->H = (int)c->h, a->W = (int)c->w, a->P = (int)c->p, a->Q = (int)c->q, a->K = (int)c->k;
    a->Kg = (int)(c->k / c->groups), a->Cg = (int)(c->c / c->groups), a->R = (int)c->r, a->S = (int)c->s;
    a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    a->tq = (int)l.tq, a->tp = (int)l.tp, a->tn = (int)l.tn, a->tiles_q = (int)l.tiles_q, a->tiles_p = (int)l.tiles_p;
    a->rc = (int)l.rc, a->sp = (int)l.sp, a->pitch = (int)l.pitch, a->rows = (int)l.rows;
    a->x_floats = (int)l.x_floats, a->w_floats = (int)l.w_floats;
    plan->block = (unsigned)((l.tq * l.tp * l.tn + 31) / 32 * 32);
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
