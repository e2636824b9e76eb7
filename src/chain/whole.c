/* Whole tensors: how they are blocked and cut into tasks. */
#include "whole_parts.h"

#include <string.h>

int cv_whole_vl(cv_isa isa) { return set_of(isa)->vl; }

int cv_whole_width(cv_isa isa, cv_whole_kind kind, int64_t kg)
{
    const int vl = cv_whole_vl(isa);
    return kind == CV_BY_COLUMN ? 0 : kind == CV_BY_CHANNEL && kg > vl ? 2 * vl : vl;
}

static void plan_channels(cv_whole *h, const cv_cpu *cpu)
{
    const convoy_problem *p = &h->p;
    h->rows = h->P, h->columns = h->Q;
    h->cs = h->cg, h->rs = p->r, h->ss = p->s;
    h->x_c = p->x_stride[1], h->x_s = p->dil_w * p->x_stride[3];
    h->x_row = p->stride_h * p->x_stride[2], h->y_row = p->y_stride[2];
    if (p->r == 1 && p->s == 1 && !(p->pad_t | p->pad_b | p->pad_l | p->pad_r)) {
        h->joined = 1;
        h->ss = h->cg, h->cs = 1;
        h->x_s = p->x_stride[1];
        if (h->x_row == h->Q * p->stride_w * p->x_stride[3] && h->y_row == h->Q * p->y_stride[3])
            h->columns = h->P * h->Q, h->rows = 1;
    }
    h->panels = up(h->kg, h->width);
    const int64_t vectors = h->panels > 1 ? 2 : panel_width(h, 0) / cv_whole_vl(h->isa);
    h->tiles = up(h->columns, set_of(h->isa)->u_most[vectors]);
    h->u = up(h->columns, h->tiles);
    const int64_t channels = h->joined ? h->ss : h->cs, taps = h->joined ? 1 : h->rs * h->ss; /* of one channel */
    const int64_t bytes = taps * h->width * (int64_t)sizeof(float), l2 = (int64_t)cpu->l2_bytes;
    h->block = most(1, least(channels, l2 / 4 / bytes));
    h->block = up(channels, up(channels, h->block));
    h->together = most(1, least(h->panels, l2 / 2 / (bytes * h->block)));
    h->together = up(h->panels, up(h->panels, h->together));
    const int64_t sets = p->n * p->groups * up(h->panels, h->together), all = h->rows * h->tiles;
    const int64_t tasks = h->threads == 1 ? 1 : up(8 * h->threads, sets);
    h->chunk = up(all, least(all, tasks));
    h->chunks = up(all, h->chunk);
}

static int64_t input_rows(const cv_whole *h, int64_t rows)
{
    return least(h->p.h, (rows - 1) * h->p.stride_h + (h->p.r - 1) * h->p.dil_h + 1);
}

static void plan_planes(cv_whole *h, const cv_cpu *cpu)
{
    const convoy_problem *p = &h->p;
    const int64_t row_bytes = p->w * h->width * (int64_t)sizeof(float), sets = p->n * up(p->groups, h->width);
    h->columns = h->Q;
    h->tiles = up(h->Q, CV_LANES_U);
    h->u = up(h->Q, h->tiles);
    h->bands = least(h->P, h->threads == 1 ? 1 : up(4 * h->threads, sets));
    for (int64_t most_bands = h->P; h->bands < most_bands;) { /* the fewest whose rows fit half of L2 */
        const int64_t middle = h->bands + (most_bands - h->bands) / 2;
        if (input_rows(h, up(h->P, middle)) > (int64_t)cpu->l2_bytes / 2 / row_bytes)
            h->bands = middle + 1;
        else
            most_bands = middle;
    }
    h->band = up(h->P, h->bands);
    h->bands = up(h->P, h->band);
    h->stage_bytes = (size_t)(input_rows(h, h->band) * row_bytes);
}

/* Tasks of whole groups' channels, or one channel each where a group has one, by bands of rows. */
static void plan_columns(cv_whole *h)
{
    const convoy_problem *p = &h->p;
    h->together = h->kg;
    const int64_t sets = p->n * up(p->k, h->together);
    h->bands = least(h->P, h->threads == 1 ? 1 : up(8 * h->threads, sets));
    h->band = up(h->P, h->bands);
    h->bands = up(h->P, h->band);
}

void cv_whole_plan(cv_whole *h, const convoy_problem *p, cv_isa isa, const cv_cpu *cpu, int threads, cv_whole_kind kind)
{
    memset(h, 0, sizeof *h);
    h->p = *p;
    h->ah = (cv_axis){p->h, p->r, p->stride_h, p->dil_h, p->pad_t};
    h->aw = (cv_axis){p->w, p->s, p->stride_w, p->dil_w, p->pad_l};
    convoy_problem_output(p, &h->P, &h->Q);
    h->cg = p->c / p->groups;
    h->kg = p->k / p->groups;
    h->isa = isa;
    h->threads = threads;
    h->kind = kind;
    h->width = cv_whole_width(isa, kind, h->kg);
    if (kind == CV_BY_CHANNEL)
        plan_channels(h, cpu);
    else if (kind == CV_BY_PLANE)
        plan_planes(h, cpu);
    else
        plan_columns(h);
}

size_t cv_whole_table_bytes(const cv_whole *h) { return 2 * sizeof(int64_t) * (size_t)h->p.s; }

void cv_whole_tables(cv_whole *h, void *memory)
{
    h->first = memory;
    h->last = h->first + h->p.s;
    for (int64_t s = 0; s < h->p.s; s++)
        cv_axis_outputs(&h->aw, s, 0, h->Q, &h->first[s], &h->last[s]);
}

size_t cv_whole_panel_bytes(const cv_whole *h)
{
    const int64_t taps = h->cg * h->p.r * h->p.s;
    const int64_t lanes = h->kind == CV_BY_COLUMN ? h->p.k
                          : h->kind == CV_BY_PLANE
                              ? up(h->p.groups, h->width) * h->width
                              : h->p.groups * ((h->panels - 1) * h->width + panel_width(h, h->panels - 1));
    /* Lanes that stand idle can take it beyond what a size_t counts, though never what any limit allows. */
    return (double)lanes * (double)taps < 0x1p58 ? sizeof(float) * (size_t)(lanes * taps) : SIZE_MAX / 4;
}

size_t cv_whole_stage_bytes(const cv_whole *h) { return h->stage_bytes * (size_t)h->threads; }
