/* Instances of the gather kernel, and the pieces into which a very long list of pixels is cut. */
#include <math.h>

#include "chain_host.h"
#include "gather_kernel.cuh"

namespace
{

/* Pixels of one launch at most, so that their numbers stay below 2^31 with a block's worth past the end. */
const int64_t MOST_PIXELS = (1LL << 31) - 4096;

/* Tensors up to this size are asked for as a whole when a kernel starts. */
const double FETCH_BYTES = 4e6;

struct variant {
    int kt, pt, tk, tp, stages;
    double issue, alone; /* cycles a tap: for each block of a multiprocessor, and at least */
    int resident;        /* blocks that a multiprocessor holds */
    const void *plain, *padded;
};

#define CV_GATHER(kt, pt, tk, tp, stages, issue, alone, resident)                                                      \
    {                                                                                                                  \
        kt, pt, tk, tp, stages, issue, alone, resident, (const void *)cv_gather_kernel<kt, pt, tk, tp, stages, false>, \
            (const void *)cv_gather_kernel<kt, pt, tk, tp, stages, true>                                               \
    }

const variant table[CV_GATHER_VARIANTS] = {
    CV_GATHER(4, 4, 8, 16, 3, 45, 89, 4),
    CV_GATHER(2, 4, 16, 8, 4, 27, 59, 5),
    CV_GATHER(2, 2, 8, 16, 4, 20, 50, 7),
    CV_GATHER(1, 1, 4, 32, 4, 15, 44, 9),
};

int padded(const cv_chain_shape *c) { return c->pad_t > 0 || c->pad_l > 0 || c->pad_b > 0 || c->pad_r > 0; }

/* A launch takes some rows of one image, or some whole images. */
int64_t launch_rows(const cv_chain_shape *c)
{
    const int64_t rows = MOST_PIXELS / c->q;
    return rows < c->p ? rows : c->p;
}

int64_t launch_images(const cv_chain_shape *c)
{
    const int64_t images = launch_rows(c) < c->p ? 1 : MOST_PIXELS / (c->p * c->q);
    return images < c->n ? images : c->n;
}

double launch_blocks(const cv_chain_shape *c, const variant *v)
{
    const int64_t pixels = launch_images(c) * launch_rows(c) * c->q;
    return (double)cv_ceil(pixels, v->tp * v->pt) * (double)cv_ceil(c->k / c->groups, v->tk * v->kt) *
           (double)c->groups;
}

/* 128-byte lines from a tensor's first element to its last, when it is small, dense and runs upwards; else 0. */
unsigned lines(const int64_t size[4], const int64_t stride[4])
{
    double reach = 1, elements = 1;
    for (int i = 0; i < 4; ++i) {
        if (stride[i] < 0)
            return 0;
        reach += (double)(size[i] - 1) * (double)stride[i];
        elements *= (double)size[i];
    }
    return reach * 4 <= FETCH_BYTES && reach <= 2 * elements ? (unsigned)((reach * 4 + 127) / 128) : 0;
}

} // namespace

int cv_gather_fits(const cv_chain_shape *c, int i)
{
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    if (c->h > (1 << 30) || c->w > (1 << 30) || c->p > INT32_MAX || c->q > MOST_PIXELS || c->k > 1000000000 ||
        taps > 2e9)
        return 0;
    if ((double)(c->h + c->pad_t + c->pad_b) > 1e9 || (double)(c->w + c->pad_l + c->pad_r) > 1e9)
        return 0;
    return launch_blocks(c, &table[i]) < 2147483647.0;
}

double cv_gather_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice)
{
    const variant *v = &table[choice->variant];
    const double taps = (double)(c->c / c->groups) * c->r * c->s;
    const double pieces = (double)cv_ceil(c->p, launch_rows(c)) * (double)cv_ceil(c->n, launch_images(c));
    const double clock = gpu->flop_per_s / gpu->sm_count / 256;
    const double each = launch_blocks(c, v) * pieces / gpu->sm_count, whole = ceil(each); /* blocks of one */
    const double busy = v->issue * (whole <= v->resident ? whole : each);
    return taps * (busy > v->alone ? busy : v->alone) / clock + 4.6e-6;
}

int cv_gather_plan(const cv_chain_shape *c, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    const variant *v = &table[choice->variant];
    cv_gather_args *a = &plan->args.gather;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = c->xs[2], a->xs_w = c->xs[3];
    a->ws_k = c->ws[0], a->ws_c = c->ws[1], a->ws_r = c->ws[2], a->ws_s = c->ws[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = c->ys[2], a->ys_q = c->ys[3];
    a->H = (int)c->h, a->W = (int)c->w, a->P = (int)launch_rows(c), a->Q = (int)c->q;
    a->Kg = (int)(c->k / c->groups), a->Cg = (int)(c->c / c->groups), a->R = (int)c->r, a->S = (int)c->s;
    a->st_h = (int)c->st_h, a->st_w = (int)c->st_w, a->dil_h = (int)c->dil_h, a->dil_w = (int)c->dil_w;
    a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    const int64_t xsize[4] = {c->n, c->c, c->h, c->w}, wsize[4] = {c->k, a->Cg, c->r, c->s};
    a->x_lines = lines(xsize, c->xs), a->w_lines = lines(wsize, c->ws);
    a->by_kblocks = cv_divider_make(cv_ceil(a->Kg, v->tk * v->kt));
    a->by_q = cv_divider_make(c->q), a->by_p = cv_divider_make(a->P);
    a->by_r = cv_divider_make(c->r), a->by_s = cv_divider_make(c->s);
    /* a channel's weights in a row, in whole pieces of 16 bytes; w's address decides at launch */
    a->w_vec = c->ws[3] == 1 && (c->ws[2] == c->s || c->r == 1) && (c->ws[1] == c->r * c->s || a->Cg == 1) &&
               a->Cg * c->r * c->s % 4 == 0 && c->ws[0] % 4 == 0;
    plan->kb = 1;
    plan->block = (unsigned)(v->tk * v->tp);
    /* where y's pixels lie in a row and images begin at multiples of 16 bytes; its address decides at launch */
    plan->vec = c->ys[3] == 1 && c->ys[2] == c->q && c->p * c->q % 4 == 0 && c->ys[1] % 4 == 0 && c->ys[0] % 4 == 0 &&
                launch_rows(c) == c->p;
    return cudaSuccess;
}

int cv_gather_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                  cudaStream_t stream)
{
    const cv_chain_shape *c = &plan->shape;
    const variant *v = &table[plan->choice.variant];
    const int64_t rows = launch_rows(c), images = launch_images(c);
    for (int64_t n = 0; n < c->n; n += images)
        for (int64_t p = 0; p < c->p; p += rows) {
            cv_gather_args a = plan->args.gather;
            const int64_t here = c->n - n < images ? c->n - n : images, down = c->p - p < rows ? c->p - p : rows;
            a.x = x + n * c->xs[0], a.w = w, a.bias = bias, a.y = y + n * c->ys[0] + p * c->ys[2];
            a.pad_t -= (int)(p * c->st_h); /* the first row's window begins further down */
            a.pixels = (int)(here * down * c->q);
            a.w_vec = a.w_vec && ((uintptr_t)w & 15) == 0;
            a.y_vec = plan->vec && ((uintptr_t)y & 15) == 0;
            a.by_blocks = cv_divider_make(cv_ceil(a.pixels, v->tp * v->pt));
            const int64_t blocks = (int64_t)a.by_blocks.d * a.by_kblocks.d * c->groups;
            void *args[] = {&a};
            const cudaError_t e = cudaLaunchKernel(padded(c) ? v->padded : v->plain, dim3((unsigned)blocks),
                                                   dim3(plan->block), args, 0, stream);
            if (e != cudaSuccess)
                return e;
        }
    return cudaSuccess;
}
