/* Chosen outputs, one chain each.
 *
 *   y[n,k,p,q] = chain over c, r, s of x[n, c, p*sh + r*dh - pt, q*sw + s*dw - pl] * w[k,c,r,s]
 *
 * Registers: one sum. Traffic: each tap reads one x and one w. The latency of an FMA (4 cycles) a tap bounds it;
 * outputs that lie in boxes go through box.c, which has a chain in every lane.
 */
#include "kernels.h"
#include "simd/simd.h"
#include "taps.h"

#include <math.h>

static float chain(const convoy_problem *p, const cv_chain_io *io, int64_t n, int64_t k, int64_t row, int64_t col)
{
    const cv_axis ah = {p->h, p->r, p->stride_h, p->dil_h, p->pad_t},
                  aw = {p->w, p->s, p->stride_w, p->dil_w, p->pad_l};
    const int64_t cg = p->c / p->groups, c0 = k / (p->k / p->groups) * cg;
    const int64_t xstep = p->dil_w * p->x_stride[3], wstep = p->w_stride[3];
    int64_t r0, r1, s0, s1;
    cv_axis_taps(&ah, row, &r0, &r1);
    cv_axis_taps(&aw, col, &s0, &s1);
    float acc = 0.0f;
    for (int64_t c = 0; c < cg; c++)
        for (int64_t r = r0; r < r1; r++) {
            const float *x = io->x + n * p->x_stride[0] + (c0 + c) * p->x_stride[1] +
                             (row * p->stride_h + r * p->dil_h - p->pad_t) * p->x_stride[2] +
                             (col * p->stride_w - p->pad_l) * p->x_stride[3];
            const float *w = io->w + k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2];
            for (int64_t s = s0; s < s1; s++)
                acc = fmaf(x[s * xstep], w[s * wstep], acc);
        }
    return io->bias ? acc + io->bias[k] : acc;
}

static void one(const convoy_problem *p, const cv_chain_io *io, int64_t n, int64_t k, int64_t row, int64_t col)
{
    io->y[n * p->y_stride[0] + k * p->y_stride[1] + row * p->y_stride[2] + col * p->y_stride[3]] =
        chain(p, io, n, k, row, col);
}

void CV_ISA_NAME(cv_chain_list)(const convoy_problem *p, int64_t Q, int64_t PQ, const cv_chain_io *io, int64_t count,
                                const int64_t *index)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = index[i] % PQ, nk = index[i] / PQ;
        one(p, io, nk / p->k, nk % p->k, at / Q, at % Q);
    }
}
