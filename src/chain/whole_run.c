/* The tasks of whole tensors.
 *
 * By channel, a task owns a run of output tiles and `together` panels, and goes
 *
 *   for block of channels:  for tile:  for panel:  kernel over (channels of the block, r, s)
 *
 * so that a block of the panels (a few hundred KB) stays in L2 while tiles pass over it, and a tile's x stays in L1
 * while panels pass over it. Between blocks the sums wait in y: they are binary32 already, so the chain goes on as if
 * uncut.
 */
#include "whole_parts.h"

struct running {
    const cv_whole *h;
    const cv_chain_io *io;
    const float *panels;
    char *stage;
};

/* Tap ranges of a tile of outputs [q0, q1). */
static void tile_taps(const cv_whole *h, cv_lanes_tile *t, int64_t q0, int64_t q1)
{
    int64_t in0, in1;
    cv_axis_taps(&h->aw, q0, &in0, &t->s1);
    cv_axis_taps(&h->aw, q1 - 1, &t->s0, &in1);
    t->sf0 = cv_clamp(in0, t->s0, t->s1);
    t->sf1 = cv_clamp(in1, t->sf0, t->s1);
    if (t->sf0 == t->sf1)
        t->sf0 = t->sf1 = t->s1;
    t->first = h->first;
    t->last = h->last;
    t->q0 = q0;
}

struct chunk {
    const struct running *run;
    int64_t n, group, panel0, panel1, tile0, tile1;
};

/* Channels [from, to) of a chunk's tiles: their taps when a 1x1 kernel has made them so. */
static void run_block(const struct chunk *k, int64_t from, int64_t to)
{
    const cv_whole *h = k->run->h;
    const convoy_problem *p = &h->p;
    const cv_chain_io *io = k->run->io;
    const cv_lanes_set *set = set_of(h->isa);
    const int done = to == (h->joined ? h->ss : h->cs);
    float acc[2 * CV_LANES_U * 16] __attribute__((aligned(64)));
    cv_lanes_tile t = {.x_u = p->stride_w * p->x_stride[3],
                       .x_c = h->x_c,
                       .x_r = p->dil_h * p->x_stride[2],
                       .x_s = h->x_s,
                       .cs = h->joined ? 1 : to - from,
                       .resume = from > 0};
    const float *x0 = io->x + k->n * p->x_stride[0] + k->group * h->cg * p->x_stride[1];
    for (int64_t i = k->tile0; i < k->tile1; i++) {
        const int64_t row = i / h->tiles, a = i % h->tiles;
        const int64_t q0 = part(h->columns, h->tiles, a), q1 = part(h->columns, h->tiles, a + 1);
        int64_t r0 = 0, r1 = 1;
        if (h->joined) {
            t.s0 = t.sf0 = from, t.s1 = t.sf1 = to;
        } else {
            cv_axis_taps(&h->ah, row, &r0, &r1);
            tile_taps(h, &t, q0, q1);
        }
        t.rs = r1 - r0;
        t.x = x0 + row * h->x_row + (r0 * p->dil_h - p->pad_t) * p->x_stride[2] +
              (q0 * p->stride_w - p->pad_l) * p->x_stride[3] + (h->joined ? 0 : from * h->x_c);
        for (int64_t panel = k->panel0; panel < k->panel1; panel++) {
            const int width = panel_width(h, panel);
            const int64_t channel = k->group * h->kg + panel * h->width;
            t.w_r = h->ss * width;
            t.w_c = h->rs * t.w_r;
            t.w = k->run->panels + k->group * panel_at(h, h->panels) + panel_at(h, panel) + r0 * t.w_r +
                  (h->joined ? 0 : from * t.w_c);
            const cv_lanes_out out = {.y = io->y + k->n * p->y_stride[0] + channel * p->y_stride[1] + row * h->y_row +
                                           q0 * p->y_stride[3],
                                      .y_lane = p->y_stride[1],
                                      .y_u = p->y_stride[3],
                                      .bias = done && io->bias ? io->bias + channel : NULL,
                                      .u = (int)(q1 - q0),
                                      .vectors = width / set->vl,
                                      .lanes = panel_lanes(h, panel)};
            if (t.resume)
                set->load(&out, acc);
            set->lanes[out.vectors][out.u](&t, acc);
            set->store(&out, acc);
        }
    }
}

static void run_channels(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct running *run = user;
    const cv_whole *h = run->h;
    const int64_t sets = up(h->panels, h->together), at = task % h->chunks, n = task / h->chunks % h->p.n;
    const int64_t set = task / h->chunks / h->p.n % sets, channels = h->joined ? h->ss : h->cs;
    struct chunk k = {run,
                      n,
                      task / h->chunks / h->p.n / sets,
                      set * h->together,
                      least((set + 1) * h->together, h->panels),
                      at * h->chunk,
                      least((at + 1) * h->chunk, h->rows * h->tiles)};
    for (int64_t from = 0; from < channels; from += h->block)
        run_block(&k, from, least(from + h->block, channels));
}

/* Rows of x on their way into a thread's interleaved copy. */
struct staging {
    const cv_whole *h;
    const float *x; /* at the block's first channel */
    float *to;
    int lanes;
    int64_t first, next, end; /* rows: the copy's first, the next to come, past the last */
};

/* Brings the rows before `end` in, some whole blocks of the transposition at a time, and asks for the lines of those
 * that will be wanted next: the sums that run in between hide their way from memory. */
static void stage_rows(struct staging *g, int64_t end)
{
    const convoy_problem *p = &g->h->p;
    const int64_t vl = g->h->width, some = p->x_stride[2] == p->w * p->x_stride[3] ? up(64, p->w) : 1;
    while (g->next < least(end, g->end)) { /* a row of outputs without taps may name rows past the band's */
        const int64_t rows = least(some, g->end - g->next);
        const float *x = g->x + g->next * p->x_stride[2];
        set_of(g->h->isa)->interleave(g->to + (g->next - g->first) * p->w * vl, (int)vl, x, g->lanes, p->x_stride[1],
                                      rows * p->w, p->x_stride[3]);
        g->next += rows;
        if (p->x_stride[3] == 1 && g->next < g->end)
            for (int l = 0; l < g->lanes; l++)
                for (int64_t i = 0; i < rows * p->w; i += 16)
                    __builtin_prefetch(x + l * p->x_stride[1] + rows * p->x_stride[2] + i);
    }
}

/* One image, one block of channels, a band of rows: x's rows are interleaved, then read by all the band's tiles. */
static void run_planes(void *user, int64_t task, int thread)
{
    const struct running *run = user;
    const cv_whole *h = run->h;
    const convoy_problem *p = &h->p;
    const cv_chain_io *io = run->io;
    const cv_lanes_set *set = set_of(h->isa);
    const int64_t vl = h->width, blocks = up(p->groups, vl), band = task % h->bands, block = task / h->bands % blocks;
    const int64_t n = task / h->bands / blocks, channel = block * vl, p0 = band * h->band,
                  p1 = least(p0 + h->band, h->P);
    const int lanes = (int)least(p->groups - channel, vl);
    float *stage = (float *)(run->stage + (size_t)thread * h->stage_bytes),
          acc[CV_LANES_U * 16] __attribute__((aligned(64)));
    const int64_t i0 = cv_clamp(p0 * p->stride_h - p->pad_t, 0, p->h);
    const int64_t i1 = cv_clamp((p1 - 1) * p->stride_h + (p->r - 1) * p->dil_h + 1 - p->pad_t, i0, p->h);
    struct staging g = {h, io->x + n * p->x_stride[0] + channel * p->x_stride[1], stage, lanes, i0, i0, i1};
    cv_lanes_tile t = {
        .x_u = p->stride_w * vl, .x_r = p->dil_h * p->w * vl, .x_s = p->dil_w * vl, .w_r = p->s * vl, .cs = 1};
    for (int64_t row = p0; row < p1; row++) {
        int64_t r0, r1;
        cv_axis_taps(&h->ah, row, &r0, &r1);
        t.rs = r1 - r0;
        t.w = run->panels + (block * p->r + r0) * t.w_r;
        stage_rows(&g, row * p->stride_h + (r1 - 1) * p->dil_h - p->pad_t + 1);
        for (int64_t a = 0; a < h->tiles; a++) {
            const int64_t q0 = part(h->Q, h->tiles, a), q1 = part(h->Q, h->tiles, a + 1);
            tile_taps(h, &t, q0, q1);
            t.x =
                stage + ((row * p->stride_h + r0 * p->dil_h - p->pad_t - i0) * p->w + q0 * p->stride_w - p->pad_l) * vl;
            set->planes[q1 - q0](&t, acc);
            const cv_lanes_out out = {.y = io->y + n * p->y_stride[0] + channel * p->y_stride[1] +
                                           row * p->y_stride[2] + q0 * p->y_stride[3],
                                      .y_lane = p->y_stride[1],
                                      .y_u = p->y_stride[3],
                                      .bias = io->bias ? io->bias + channel : NULL,
                                      .u = (int)(q1 - q0),
                                      .vectors = 1,
                                      .lanes = lanes};
            set->store(&out, acc);
        }
    }
}

/* Boxes: a band of rows of one image and a run of its channels. */
static void run_columns(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct running *run = user;
    const cv_whole *h = run->h;
    const convoy_problem *p = &h->p;
    const int64_t sets = up(p->k, h->together), band = task % h->bands, set = task / h->bands % sets,
                  n = task / h->bands / sets;
    const cv_chain_box box = {n,
                              n + 1,
                              set * h->together,
                              least((set + 1) * h->together, p->k),
                              band * h->band,
                              least((band + 1) * h->band, h->P),
                              0,
                              h->Q};
    cv_chain_io io = *run->io;
    convoy_problem packed = *p;
    if (run->panels) {
        io.w = run->panels;
        packed.w_stride[3] = 1;
        packed.w_stride[2] = p->s;
        packed.w_stride[1] = p->r * p->s;
        packed.w_stride[0] = h->cg * p->r * p->s;
    }
    cv_chain_box_run(h->isa, &packed, &io, &box);
}

void cv_whole_run(const cv_whole *h, cv_pool *pool, const cv_chain_io *io, const float *panels, void *stage)
{
    struct running run = {h, io, panels, stage};
    if (h->kind == CV_BY_CHANNEL)
        cv_pool_run(pool, h->p.groups * up(h->panels, h->together) * h->p.n * h->chunks, run_channels, &run);
    else if (h->kind == CV_BY_PLANE)
        cv_pool_run(pool, h->p.n * up(h->p.groups, h->width) * h->bands, run_planes, &run);
    else
        cv_pool_run(pool, h->p.n * up(h->p.k, h->together) * h->bands, run_columns, &run);
}
