/* Instances of the gather kernel. */
#include "chain_async.cuh"
#include "chain_host.h"
#include "gather_kernel.cuh"

namespace
{

struct variant {
    int kt, pt, tk, tp, tc;
    double issue, alone; /* cycles a tap and warp, with many warps and with one; half again where taps are tested */
    const void *kernel;
};

#define CV_GATHER(kt, pt, tk, tp, tc, issue, alone)                                                                    \
    {                                                                                                                  \
        kt, pt, tk, tp, tc, issue, alone, (const void *)cv_gather_kernel<kt, pt, tk, tp, tc>                           \
    }

const variant table[CV_GATHER_VARIANTS] = {
    CV_GATHER(4, 4, 8, 16, 16, 60, 190),
    CV_GATHER(1, 1, 4, 32, 32, 39, 80),
};

} // namespace

int cv_gather_fits(const cv_chain_shape *c, int i)
{
    const variant *v = &table[i];
    const int64_t kg = c->k / c->groups, nkb = cv_ceil(kg, v->tk * v->kt);
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    if (c->h > (1 << 30) || c->w > (1 << 30) || c->p > INT32_MAX || c->q > INT32_MAX || c->k > 1000000000 || taps > 2e9)
        return 0;
    if ((double)(c->h + c->pad_t + c->pad_b) > 1e9 || (double)(c->w + c->pad_l + c->pad_r) > 1e9)
        return 0;
    const double blocks = (double)cv_ceil(c->n * c->p * c->q, v->tp * v->pt) * nkb * c->groups;
    return blocks < 2147483647.0;
}

double cv_gather_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                         size_t *relaid_bytes)
{
    const variant *v = &table[choice->variant];
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    const int64_t nkb = cv_ceil(c->k / c->groups, v->tk * v->kt);
    const double blocks = (double)cv_ceil(c->n * c->p * c->q, v->tp * v->pt) * nkb * c->groups;
    const double clock = gpu->flop_per_s / gpu->sm_count / 256;
    const double warps = blocks * (v->tk * v->tp / 128.0) / gpu->sm_count; /* of one scheduler */
    const int tests = c->pad_t || c->pad_l || c->pad_b || c->pad_r;
    const double busy = v->issue * warps, tap = (busy > v->alone ? busy : v->alone) * (tests ? 1.4 : 1);
    const double relaid =
        v->kt >= 4 ? taps * 8 * (double)(nkb * v->tk * v->kt * c->groups) : 0; /* others read w as it is */
    *relaid_bytes = relaid > 0 ? ((size_t)(relaid / 2) + 4 + 255) / 256 * 256 : 0;
    return taps * tap / clock + relaid / gpu->bytes_per_s + (relaid > 0 ? 11e-6 : 6e-6);
}

int cv_gather_plan(const cv_chain_shape *c, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    const variant *v = &table[choice->variant];
    cv_gather_args *a = &plan->args.gather;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = c->xs[2], a->xs_w = c->xs[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = c->ys[2], a->ys_q = c->ys[3];
    a->pixels = c->n * c->p * c->q;
    a->pixel_blocks = cv_ceil(a->pixels, v->tp * v->pt);
    a->H = (int)c->h, a->W = (int)c->w, a->P = (int)c->p, a->Q = (int)c->q;
    a->Kg = (int)(c->k / c->groups), a->Cg = (int)(c->c / c->groups), a->R = (int)c->r, a->S = (int)c->s;
    a->st_h = (int)c->st_h, a->st_w = (int)c->st_w, a->dil_h = (int)c->dil_h, a->dil_w = (int)c->dil_w;
    a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    const int kb = v->tk * v->kt;
    const int64_t taps = (int64_t)a->Cg * a->R * a->S;
    a->nkb = (int)cv_ceil(a->Kg, kb);
    if (v->kt >= 4) {
        plan->kb = kb;
        a->wr_kblock = taps * kb;
        a->wr_group = a->wr_kblock * a->nkb;
        plan->relaid_bytes = (size_t)(a->wr_group * c->groups) * sizeof(float);
    } else {
        const int64_t cg = c->c / c->groups;
        plan->kb = 1;
        a->ws_k = c->ws[0], a->ws_c = c->ws[1], a->ws_r = c->ws[2], a->ws_s = c->ws[3];
        a->w_packed =
            (a->ws_s == 1 || c->s == 1) && (a->ws_r == c->s || c->r == 1) && (a->ws_c == c->r * c->s || cg == 1);
        a->wr_kblock = a->ws_k * kb;
        a->wr_group = a->ws_k * a->Kg;
    }
    plan->block = (unsigned)(v->tk * v->tp);
    plan->grid = (unsigned)(a->pixel_blocks * a->nkb * c->groups);
    return cudaSuccess;
}

int cv_gather_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                  cudaStream_t stream)
{
    cv_gather_args a = plan->args.gather;
    a.x = x, a.wr = w, a.bias = bias, a.y = y;
    void *args[] = {&a};
    return cudaLaunchKernel(table[plan->choice.variant].kernel, dim3(plan->grid), dim3(plan->block), args, 0, stream);
}
