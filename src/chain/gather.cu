/* Instances of the gather kernel. */
#include "chain_async.cuh"
#include "chain_host.h"
#include "gather_kernel.cuh"

namespace
{

struct variant {
    int kt, pt, tk, tp, tc;
    double efficiency;
    const void *kernel;
};

#define CV_GATHER(kt, pt, tk, tp, tc, eff)                                                                             \
    {                                                                                                                  \
        kt, pt, tk, tp, tc, eff, (const void *)cv_gather_kernel<kt, pt, tk, tp, tc>                                    \
    }

const variant table[CV_GATHER_VARIANTS] = {
    CV_GATHER(8, 8, 8, 16, 8, 0.5),
    CV_GATHER(4, 4, 8, 16, 16, 0.35),
    CV_GATHER(1, 1, 4, 32, 32, 0.1),
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
    return blocks < 2147483647.0 && nkb * cv_ceil(v->tk * v->kt, 32) <= 65535;
}

double cv_gather_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                         size_t *relaid_bytes)
{
    const variant *v = &table[choice->variant];
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    const int64_t nkb = cv_ceil(c->k / c->groups, v->tk * v->kt);
    const double blocks = (double)cv_ceil(c->n * c->p * c->q, v->tp * v->pt) * nkb * c->groups;
    const double block = taps * v->tk * v->kt * v->tp * v->pt * 2;
    const double each = blocks / gpu->sm_count;
    double seconds = (each < 2 ? 2 : each) * block / (gpu->flop_per_s / gpu->sm_count * v->efficiency);
    /* a chain is served one tap after another: about 12 ns a tap in the large tiles' loop, 4 in the small one's */
    const double latency = taps * (v->kt >= 8 ? 50e-9 : v->kt >= 4 ? 16e-9 : 5e-9);
    if (seconds < latency)
        seconds = latency;
    const double relaid = taps * nkb * v->tk * v->kt * c->groups * 8;
    *relaid_bytes = ((size_t)(relaid / 2) + 255) / 256 * 256;
    return seconds + relaid / gpu->bytes_per_s + 5e-6;
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
    plan->kb = v->tk * v->kt;
    a->nkb = (int)cv_ceil(a->Kg, plan->kb);
    a->wr_kblock = (int64_t)a->Cg * a->R * a->S * plan->kb;
    a->wr_group = a->wr_kblock * a->nkb;
    plan->relaid_bytes = (size_t)(a->wr_group * c->groups) * sizeof(float);
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
