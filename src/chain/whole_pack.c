/* Weights on their way into panels: [c][r][s][lanes], so that a tap's vectors follow one another. */
#include "whole_parts.h"

struct packing {
    const cv_whole *h;
    const float *w;
    float *to;
};

/* Channels of a packing task: enough taps for whole blocks of the transposition. */
static int64_t pack_channels(const cv_whole *h) { return least(h->cg, up(256, h->p.r * h->p.s)); }

static void pack_channel_panel(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct packing *a = user;
    const cv_whole *h = a->h;
    const convoy_problem *p = &h->p;
    const cv_lanes_set *set = set_of(h->isa);
    const int64_t step = pack_channels(h), parts = up(h->cg, step), taps = p->r * p->s;
    const int64_t panel = task / parts % h->panels, group = task / parts / h->panels;
    const int64_t c0 = task % parts * step, c1 = least(c0 + step, h->cg);
    const int width = panel_width(h, panel), lanes = panel_lanes(h, panel);
    const int rows_joined = p->w_stride[2] == p->s * p->w_stride[3];
    const int joined = rows_joined && p->w_stride[1] == taps * p->w_stride[3];
    const float *w = a->w + (group * h->kg + panel * h->width) * p->w_stride[0];
    float *to = a->to + group * panel_at(h, h->panels) + panel_at(h, panel);
    if (joined) {
        set->interleave(to + c0 * taps * width, width, w + c0 * p->w_stride[1], lanes, p->w_stride[0], (c1 - c0) * taps,
                        p->w_stride[3]);
        return;
    }
    for (int64_t c = c0; c < c1; c++)
        for (int64_t r = 0; r < (rows_joined ? 1 : p->r); r++)
            set->interleave(to + (c * p->r + r) * p->s * width, width, w + c * p->w_stride[1] + r * p->w_stride[2],
                            lanes, p->w_stride[0], rows_joined ? taps : p->s, p->w_stride[3]);
}

static void pack_plane_panel(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct packing *a = user;
    const cv_whole *h = a->h;
    const convoy_problem *p = &h->p;
    const int lanes = (int)least(p->groups - task * h->width, h->width);
    for (int64_t r = 0; r < p->r; r++)
        set_of(h->isa)->interleave(a->to + (task * p->r + r) * p->s * h->width, h->width,
                                   a->w + task * h->width * p->w_stride[0] + r * p->w_stride[2], lanes, p->w_stride[0],
                                   p->s, p->w_stride[3]);
}

static void copy_channel(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct packing *a = user;
    const convoy_problem *p = &a->h->p;
    float *to = a->to + task * a->h->cg * p->r * p->s;
    for (int64_t c = 0; c < a->h->cg; c++)
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++)
                *to++ = a->w[task * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2] + s * p->w_stride[3]];
}

void cv_whole_pack(const cv_whole *h, cv_pool *pool, const float *w, float *panels)
{
    struct packing a = {h, w, panels};
    if (h->kind == CV_BY_COLUMN)
        cv_pool_run(pool, h->p.k, copy_channel, &a);
    else if (h->kind == CV_BY_PLANE)
        cv_pool_run(pool, up(h->p.groups, h->width), pack_plane_panel, &a);
    else
        cv_pool_run(pool, h->p.groups * h->panels * up(h->cg, pack_channels(h)), pack_channel_panel, &a);
}
