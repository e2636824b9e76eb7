/* Chosen outputs, one chain each.
 *
 *   y[n,k,p,q] = chain over c, r, s of x[n, c, p*sh + r*dh - pt, q*sw + s*dw - pl] * w[k,c,r,s]
 *
 * Outputs in a row of the list that share image and output channel, and whose windows lie inside the image, run their
 * chains side by side: MANY sums in registers, one w for all, one x each. Two loads a cycle bound that at half a cycle
 * a tap, where a chain alone waits for the FMA's latency, 4 cycles. Others run alone. Outputs that lie in boxes go
 * through box.c, which has a chain in every lane.
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

enum { MANY = 8 };

struct place {
    int64_t n, k, row, col;
};

static struct place place_of(const convoy_problem *p, int64_t Q, int64_t PQ, int64_t index)
{
    const int64_t at = index % PQ, nk = index / PQ;
    return (struct place){nk / p->k, nk % p->k, at / Q, at % Q};
}

static int inside(const convoy_problem *p, const struct place *a)
{
    const int64_t i = a->row * p->stride_h - p->pad_t, j = a->col * p->stride_w - p->pad_l;
    return i >= 0 && j >= 0 && i + (p->r - 1) * p->dil_h < p->h && j + (p->s - 1) * p->dil_w < p->w;
}

/* The chains of MANY outputs of one image and channel, each with its whole window inside the image. */
static void many(const convoy_problem *p, const cv_chain_io *io, const struct place at[MANY])
{
    const int64_t n = at[0].n, k = at[0].k, cg = p->c / p->groups, c0 = k / (p->k / p->groups) * cg;
    const int64_t xstep = p->dil_w * p->x_stride[3], wstep = p->w_stride[3];
    const float *x[MANY];
    float acc[MANY] = {0};
    for (int i = 0; i < MANY; i++)
        x[i] = io->x + n * p->x_stride[0] + c0 * p->x_stride[1] +
               (at[i].row * p->stride_h - p->pad_t) * p->x_stride[2] +
               (at[i].col * p->stride_w - p->pad_l) * p->x_stride[3];
    for (int64_t c = 0; c < cg; c++)
        for (int64_t r = 0; r < p->r; r++) {
            const int64_t from = c * p->x_stride[1] + r * p->dil_h * p->x_stride[2];
            const float *w = io->w + k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2];
            for (int64_t s = 0; s < p->s; s++) {
                const float tap = w[s * wstep];
                const int64_t j = from + s * xstep;
#pragma GCC unroll 8
                for (int i = 0; i < MANY; i++)
                    acc[i] = fmaf(x[i][j], tap, acc[i]);
            }
        }
    for (int i = 0; i < MANY; i++)
        io->y[n * p->y_stride[0] + k * p->y_stride[1] + at[i].row * p->y_stride[2] + at[i].col * p->y_stride[3]] =
            io->bias ? acc[i] + io->bias[k] : acc[i];
}

void CV_ISA_NAME(cv_chain_list)(const convoy_problem *p, int64_t Q, int64_t PQ, const cv_chain_io *io, int64_t count,
                                const int64_t *index)
{
    struct place group[MANY];
    int held = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct place at = place_of(p, Q, PQ, index[i]);
        if (!inside(p, &at)) {
            one(p, io, at.n, at.k, at.row, at.col);
            continue;
        }
        if (held && (group[0].n != at.n || group[0].k != at.k)) {
            while (held)
                held--, one(p, io, group[held].n, group[held].k, group[held].row, group[held].col);
        }
        group[held++] = at;
        if (held == MANY) {
            many(p, io, group);
            held = 0;
        }
    }
    while (held)
        held--, one(p, io, group[held].n, group[held].k, group[held].row, group[held].col);
}
