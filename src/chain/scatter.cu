/* Planning and launching the scatter kernel. */
#include <math.h>
#include <string.h>

#include "chain_host.h"
#include "scatter_kernel.cuh"

namespace
{

const double unsure_share = 0.012; /* of outputs, that pools are sized for */
const double l2_bytes = 36;        /* a multiprocessor and cycle */

int up_to(int v, int rest, int step) /* the next number that is rest modulo step */
{
    return v + ((rest - v) % step + step) % step;
}

/* Everything that follows from tp, tq and kb; 0 when shared memory does not hold it. */
int size_up(cv_scatter *a, const cv_chain_gpu *gpu)
{
    a->np = (int)cv_ceil(a->p, a->tp);
    a->nq = (int)cv_ceil(a->q, a->tq);
    a->nk = (int)cv_ceil(a->kg, a->kb);
    a->rows = (a->tp - 1) * a->st_h + a->r;
    a->cols = ((a->tq < a->q ? a->tq : a->q) - 1) * a->st_w + a->s + a->shift;
    const double plane = (double)a->rows * (a->cols + 32), taps = (double)a->kb * a->r * a->s;
    if (plane + taps > 1e6)
        return 0;
    a->pitch = (a->cols + 3) & ~3;
    a->plane = a->rows * (a->pitch + 4 * (a->pitches - 1));
    const int list = a->kb * 64 + CV_SCATTER_CAP; /* two words a key, one an output */
    const int room = (int)(gpu->shared_bytes / 4) - list - 1280;
    for (a->cc = 1024 / (a->r * a->s); a->cc >= 0; --a->cc) {
        if (a->cc < 1)
            a->cc = 1;
        if (a->cc > a->cg)
            a->cc = a->cg;
        a->wp = up_to(a->cc * a->r * a->s, 4, 32); /* channels lie in different banks */
        a->stage = (a->cc * a->plane + a->kb * a->wp + 3) & ~3;
        if (2 * a->stage <= room)
            break;
        if (a->cc == 1)
            return 0;
    }
    a->shared = 4u * (unsigned)(2 * a->stage + list);
    const double pools = (double)a->n * a->groups * a->np * a->nq * a->nk;
    if (pools > 1e9)
        return 0;
    a->pools = (int)pools;
    a->grid = (unsigned)gpu->sm_count;
    return 1;
}

/* Cycles of the multiprocessor with most to do, at the share of outputs that is expected. */
double cycles(const cv_scatter *a, const cv_chain_gpu *gpu)
{
    const double taps = (double)a->cg * a->r * a->s, waves = ceil((double)a->pools / gpu->sm_count);
    const double outputs = unsure_share * a->tp * (a->tq < a->q ? a->tq : a->q) * a->kb;
    const double bank = outputs / 32, fullest = bank + (a->pitches > 1 ? 1.7 : 2.2) * sqrt(bank) + 1;
    const double copies = (double)a->cg * (a->rows * a->cols + (double)a->kb * a->r * a->s) * 4 / l2_bytes;
    const double chains = taps * fmax(6, fullest * 1.4);
    return waves * (fmax(copies, chains) + 0.3 * fmin(copies, chains) + 1500.0 * cv_ceil(a->cg, a->cc));
}

} // namespace

int cv_scatter_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, cv_scatter *plan)
{
    cv_scatter a = {}, best = {};
    const double most = INT32_MAX / 4;
    if ((c->dil_h > 1 && c->r > 1) || (c->dil_w > 1 && c->s > 1) || (double)c->p * c->q > most ||
        (double)c->h + c->pad_t + c->pad_b > most || (double)c->w + c->pad_l + c->pad_r > most ||
        (double)c->n * c->groups > most || c->k > most || (double)(c->c / c->groups) * c->r * c->s > most ||
        c->st_h > 64 || c->st_w > 64)
        return -1;
    a.n = (int)c->n, a.h = (int)c->h, a.w = (int)c->w, a.k = (int)c->k, a.p = (int)c->p, a.q = (int)c->q;
    a.r = (int)c->r, a.s = (int)c->s, a.groups = (int)c->groups;
    a.cg = (int)(c->c / c->groups), a.kg = (int)(c->k / c->groups);
    a.st_h = (int)c->st_h, a.st_w = (int)c->st_w, a.pad_t = (int)c->pad_t, a.pad_l = (int)c->pad_l;
    a.padded = c->pad_t || c->pad_l || c->pad_b || c->pad_r;
    memcpy(a.xs, c->xs, sizeof a.xs);
    memcpy(a.ws, c->ws, sizeof a.ws);
    memcpy(a.ys, c->ys, sizeof a.ys);
    a.words = (int)cv_ceil(a.q, 32);
    a.packed_w = a.ws[3] == 1 && a.ws[2] == a.s && a.ws[1] == (int64_t)a.r * a.s;
    a.vec_w = a.packed_w && a.ws[1] % 4 == 0 && a.ws[0] % 4 == 0;
    a.vec_x = a.xs[3] == 1 && a.xs[2] % 4 == 0 && a.xs[1] % 4 == 0 && a.xs[0] % 4 == 0 && a.w % 4 == 0 && a.s % 4 == 0;
    a.shift = a.vec_x ? (4 - a.pad_l % 4) % 4 : 0;
    const int wide = a.words * 32;
    double least = INFINITY;
    for (int tq = wide;; tq = (tq / 2 + 31) / 32 * 32) {
        for (int down = 1; down <= a.p; down = down < 16 ? down + 1 : down * 2)
            for (int kb = 1; kb <= a.kg && kb <= 32; kb *= 2) {
                a.tp = (int)cv_ceil(a.p, down), a.tq = tq, a.kb = kb;
                /* the more pitches to choose from, the more room they take */
                for (a.pitches = 8; a.pitches > 1 && !size_up(&a, gpu); a.pitches /= 2)
                    ;
                if (!size_up(&a, gpu))
                    continue;
                const double t = cycles(&a, gpu);
                if (t < least)
                    least = t, best = a;
            }
        if (tq == 32)
            break;
    }
    if (!(least < INFINITY))
        return -1;
    *plan = best;
    return 0;
}

static const void *kernel_of(const cv_scatter *a)
{
    return a->s == 8       ? (const void *)cv_scatter_kernel<8, 1>
           : a->s == 16    ? (const void *)cv_scatter_kernel<8, 2>
           : a->s == 32    ? (const void *)cv_scatter_kernel<8, 4>
           : a->s % 4 == 0 ? (const void *)cv_scatter_kernel<4, 0>
                           : (const void *)cv_scatter_kernel<1, 0>;
}

int cv_scatter_setup(const cv_scatter *plan)
{
    int device, most = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e != cudaSuccess)
        return e;
    /* the same for every plan, so that plans do not lower each other's limit */
    cudaFuncAttributes f;
    if ((e = cudaFuncGetAttributes(&f, kernel_of(plan))) != cudaSuccess)
        return e;
    return cudaFuncSetAttribute(kernel_of(plan), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                most - (int)f.sharedSizeBytes);
}

int cv_scatter_run(const cv_scatter *plan, void *stream)
{
    cv_scatter a = *plan;
    a.vec_x = a.vec_x && (uintptr_t)a.x % 16 == 0;
    a.vec_w = a.vec_w && (uintptr_t)a.weight % 16 == 0;
    void *args[] = {&a};
    return cv_overlap_launch(kernel_of(plan), dim3(a.grid), CV_SCATTER_THREADS, a.shared, stream, a.overlap, args);
}
