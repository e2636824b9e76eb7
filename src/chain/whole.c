/* Blocking and tasks of whole tensors.
 *
 * By channel, a task owns a run of output tiles and `together` panels, and goes
 *
 *   for block of channels:  for tile:  for panel:  kernel over (channels of the block, r, s)
 *
 * so that a block of the panels (a few hundred KB) stays in L2 while tiles pass over it, and a tile's x stays in L1
 * while panels pass over it. Between blocks the sums wait in y: they are binary32 already, so the chain goes on as if
 * uncut.
 */
#include "whole.h"
#include "lanes.h"
#include "rows.h"

#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static int64_t part(int64_t count, int64_t parts, int64_t i)
{
    return count / parts * i + least(count % parts, i);
}

static const cv_lanes_set *set_of(cv_isa isa)
{
    return isa == CV_AVX512 ? &cv_lanes_avx512 : isa == CV_AVX2 ? &cv_lanes_avx2 : &cv_lanes_scalar;
}

int cv_whole_vl(cv_isa isa)
{
    return set_of(isa)->vl;
}

int cv_whole_width(cv_isa isa, cv_whole_kind kind, int64_t kg)
{
    const int vl = cv_whole_vl(isa);
    return kind == CV_BY_COLUMN ? 0 : kind == CV_BY_CHANNEL && kg > vl ? 2 * vl : vl;
}

/* Channels that exist in panel i of a group, and floats of its lanes. */
static int panel_lanes(const cv_whole *h, int64_t i)
{
    return (int)least(h->kg - i * h->width, h->width);
}
static int panel_width(const cv_whole *h, int64_t i)
{
    const int vl = cv_whole_vl(h->isa);
    return (int)up(panel_lanes(h, i), vl) * vl;
}

/* Floats of all panels of a group before panel i. */
static int64_t panel_at(const cv_whole *h, int64_t i)
{
    const int64_t taps = h->cg * h->p.r * h->p.s;
    return i < h->panels ? i * h->width * taps : ((i - 1) * h->width + panel_width(h, i - 1)) * taps;
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
    while (h->bands < h->P && input_rows(h, up(h->P, h->bands)) * row_bytes > (int64_t)cpu->l2_bytes / 2)
        h->bands++;
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

size_t cv_whole_table_bytes(const cv_whole *h)
{
    return 2 * sizeof(int64_t) * (size_t)h->p.s;
}

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
    return sizeof(float) * (size_t)(lanes * taps);
}

size_t cv_whole_stage_bytes(const cv_whole *h)
{
    return h->stage_bytes * (size_t)h->threads;
}

/* ---- Packing */

struct packing {
    const cv_whole *h;
    const float *w;
    float *to;
};

static void pack_channel_panel(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct packing *a = user;
    const cv_whole *h = a->h;
    const convoy_problem *p = &h->p;
    const int64_t c = task % h->cg, panel = task / h->cg % h->panels, group = task / h->cg / h->panels,
                  taps = p->r * p->s;
    const int width = panel_width(h, panel), lanes = panel_lanes(h, panel);
    const float *w = a->w + (group * h->kg + panel * h->width) * p->w_stride[0] + c * p->w_stride[1];
    float *to = a->to + group * panel_at(h, h->panels) + panel_at(h, panel) + c * taps * width;
    const int joined = p->w_stride[2] == p->s * p->w_stride[3];
    for (int64_t r = 0; r < (joined ? 1 : p->r); r++)
        set_of(h->isa)->interleave(to + r * p->s * width, width, w + r * p->w_stride[2], lanes, p->w_stride[0],
                                   joined ? taps : p->s, p->w_stride[3]);
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
        cv_pool_run(pool, h->p.groups * h->panels * h->cg, pack_channel_panel, &a);
}

/* ---- Running */

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
    const float *x = io->x + n * p->x_stride[0] + channel * p->x_stride[1];
    for (int64_t i = i0; i < i1; i++)
        set->interleave(stage + (i - i0) * p->w * vl, (int)vl, x + i * p->x_stride[2], lanes, p->x_stride[1], p->w,
                        p->x_stride[3]);
    cv_lanes_tile t = {
        .x_u = p->stride_w * vl, .x_r = p->dil_h * p->w * vl, .x_s = p->dil_w * vl, .w_r = p->s * vl, .cs = 1};
    for (int64_t row = p0; row < p1; row++) {
        int64_t r0, r1;
        cv_axis_taps(&h->ah, row, &r0, &r1);
        t.rs = r1 - r0;
        t.w = run->panels + (block * p->r + r0) * t.w_r;
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
