/* Boxes of outputs, cut into tiles for the kernels of rows.c. Needs no workspace: every operand is read where it lies.
 */
#include "chain.h"
#include "kernels.h"
#include "rows.h"

#include <string.h>

/* How the box is cut, and what all its tiles share. */
typedef struct walk {
    const cv_rows_set *set;
    const convoy_problem *p;
    const cv_chain_io *io;
    cv_axis ah, aw;
    int64_t cg, kg, q0, q1;
    int apart, lanes, vectors; /* vectors: in a row of the box */
    cv_rows_tile tile;
} walk;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Where part i of `parts` nearly equal parts of `count` begins. */
static int64_t part(int64_t count, int64_t parts, int64_t i) { return count / parts * i + least(count % parts, i); }

/* Columns: vectors first .. first+v-1 of the row. The last one is moved back to end with the box, and does some outputs
 * twice. */
static void place_columns(walk *k, int64_t n, int64_t group, int64_t row, int64_t first_tap_row, int first, int v)
{
    const convoy_problem *p = k->p;
    cv_rows_tile *t = &k->tile;
    const float *x = k->io->x + n * p->x_stride[0] + group * k->cg * p->x_stride[1] +
                     (row * p->stride_h + first_tap_row * p->dil_h - p->pad_t) * p->x_stride[2];
    for (int i = 0; i < v; i++) {
        t->q[i] = least(k->q0 + (int64_t)(first + i) * k->lanes, k->q1 - k->lanes);
        t->x[i] = x + (t->q[i] * p->stride_w - p->pad_l) * p->x_stride[3];
        t->y[i] = k->io->y + n * p->y_stride[0] + row * p->y_stride[2] + t->q[i] * p->y_stride[3];
    }
    int64_t in0, in1, out0, out1;
    cv_axis_taps(&k->aw, t->q[0], &in0, &out1);
    cv_axis_taps(&k->aw, t->q[v - 1] + k->lanes - 1, &out0, &in1);
    t->s0 = out0;
    t->s1 = out1;
    t->sf0 = cv_clamp(in0, out0, out1);
    t->sf1 = cv_clamp(in1, t->sf0, out1);
    if (t->sf0 == t->sf1 || (k->lanes < k->set->vl && !k->apart))
        t->sf0 = t->sf1 = t->s1;
}

static void run_tile(walk *k, int64_t channel, int m, int v, int slide)
{
    const convoy_problem *p = k->p;
    cv_rows_tile *t = &k->tile;
    for (int i = 0; i < v; i++)
        t->y[i] += channel * p->y_stride[1];
    t->bias = k->io->bias ? k->io->bias + channel : NULL;
    (k->apart ? k->set->apart[m] : slide ? k->set->slide[m][v] : k->set->rows[m][v])(t);
    for (int i = 0; i < v; i++)
        t->y[i] -= channel * p->y_stride[1];
}

/* One image, one group's channels [k0, k1), one row: tiles of neighbouring channels. */
static void channels(walk *k, int64_t n, int64_t group, int64_t k0, int64_t k1, int64_t row)
{
    const convoy_problem *p = k->p;
    cv_rows_tile *t = &k->tile;
    int64_t r0, r1;
    cv_axis_taps(&k->ah, row, &r0, &r1);
    t->rs = r1 - r0;
    t->w_m = p->w_stride[0];
    t->w_r = p->w_stride[2];
    t->y_m = p->y_stride[1];
    t->bias_m = 1;
    const int v_most = k->apart ? 1 : k->set->v_most, across = (k->vectors + v_most - 1) / v_most;
    const int64_t down = (k1 - k0 + CV_ROWS_M - 1) / CV_ROWS_M;
    for (int a = 0; a < across; a++) {
        const int first = (int)part(k->vectors, across, a), v = (int)part(k->vectors, across, a + 1) - first;
        place_columns(k, n, group, row, r0, first, v);
        for (int64_t d = 0; d < down; d++) {
            const int64_t from = k0 + part(k1 - k0, down, d), to = k0 + part(k1 - k0, down, d + 1);
            t->w = k->io->w + from * p->w_stride[0] + r0 * p->w_stride[2];
            run_tile(k, from, (int)(to - from), v, 0);
        }
    }
}

/* One channel, rows [row, row+m): tiles that slide over the input rows. Stride and dilation along h are 1. */
static void image_rows(walk *k, int64_t n, int64_t channel, int64_t row, int m)
{
    const convoy_problem *p = k->p;
    cv_rows_tile *t = &k->tile;
    /* Input rows that some row of the tile reads: from row - pad_t on, h of them at most. */
    const int64_t top = row - p->pad_t, i0 = top < 0 ? 0 : top, i1 = least(row + m - 1 - p->pad_t + p->r, p->h);
    t->before = i0 - top; /* row 0's tap row at the first input row */
    t->taps = p->r;
    t->rs = i1 > i0 ? i1 - i0 : 0;
    t->w_m = -p->w_stride[2];
    t->w_r = p->w_stride[2];
    t->y_m = p->y_stride[2];
    t->bias_m = 0;
    t->w = k->io->w + channel * p->w_stride[0] + t->before * p->w_stride[2];
    const int v_most = k->apart ? 1 : k->set->v_most, across = (k->vectors + v_most - 1) / v_most;
    for (int a = 0; a < across; a++) {
        const int first = (int)part(k->vectors, across, a), v = (int)part(k->vectors, across, a + 1) - first;
        place_columns(k, n, channel / k->kg, row, t->before, first, v);
        run_tile(k, channel, m, v, 1);
    }
}

/* Rows of a sliding tile: at both ends of the input rows only some take part, at half the speed, so short kernels want
 * fewer. */
static int slide_rows(int64_t taps) { return taps < 3 ? 1 : taps < 6 ? 2 : taps < 16 ? 3 : 4; }

static void walk_box(walk *k, const cv_chain_box *b)
{
    const convoy_problem *p = k->p;
    const int most = p->stride_h == 1 && p->dil_h == 1 && !k->apart ? slide_rows(p->r) : 1;
    for (int64_t n = b->n0; n < b->n1; n++)
        for (int64_t c0 = b->k0, c1; c0 < b->k1; c0 = c1) {
            const int64_t group = c0 / k->kg;
            c1 = least(b->k1, (group + 1) * k->kg);
            if (c1 - c0 >= most) {
                for (int64_t row = b->p0; row < b->p1; row++)
                    channels(k, n, group, c0, c1, row);
                continue;
            }
            for (int64_t c = c0; c < c1; c++) {
                const int64_t tiles = (b->p1 - b->p0 + most - 1) / most;
                for (int64_t i = 0; i < tiles; i++) {
                    const int64_t from = part(b->p1 - b->p0, tiles, i), to = part(b->p1 - b->p0, tiles, i + 1);
                    image_rows(k, n, c, b->p0 + from, (int)(to - from));
                }
            }
        }
}

void cv_chain_box_run(cv_isa isa, const convoy_problem *p, const cv_chain_io *io, const cv_chain_box *b)
{
    if (b->n0 >= b->n1 || b->k0 >= b->k1 || b->p0 >= b->p1 || b->q0 >= b->q1)
        return;
    walk k;
    memset(&k, 0, sizeof k);
    k.set = isa == CV_AVX512 ? &cv_rows_avx512 : isa == CV_AVX2 ? &cv_rows_avx2 : &cv_rows_scalar;
    k.p = p;
    k.io = io;
    k.ah = (cv_axis){p->h, p->r, p->stride_h, p->dil_h, p->pad_t};
    k.aw = (cv_axis){p->w, p->s, p->stride_w, p->dil_w, p->pad_l};
    k.cg = p->c / p->groups;
    k.kg = p->k / p->groups;
    k.q0 = b->q0;
    k.q1 = b->q1;
    k.lanes = (int)least(k.set->vl, b->q1 - b->q0);
    k.vectors = (int)((b->q1 - b->q0 + k.lanes - 1) / k.lanes);
    cv_rows_tile *t = &k.tile;
    t->x_q = p->stride_w * p->x_stride[3];
    k.apart = t->x_q != 1;
    t->x_c = p->x_stride[1];
    t->x_r = p->dil_h * p->x_stride[2];
    t->x_s = p->dil_w * p->x_stride[3];
    t->w_c = p->w_stride[1];
    t->w_s = p->w_stride[3];
    t->cs = k.cg;
    t->axis = &k.aw;
    t->lanes = k.lanes;
    t->y_q = p->y_stride[3];
    walk_box(&k, b);
}

void cv_chain_list_run(cv_isa isa, const convoy_problem *problem, const cv_chain_io *io, int64_t count,
                       const int64_t *index)
{
    static void (*const run[])(const convoy_problem *, int64_t, int64_t, const cv_chain_io *, int64_t,
                               const int64_t *) = {cv_chain_list_scalar, cv_chain_list_avx2, cv_chain_list_avx512};
    int64_t P, Q;
    if (count > 0 && convoy_problem_output(problem, &P, &Q) == CONVOY_OK)
        run[isa](problem, Q, P * Q, io, count, index);
}
