#include "spectral_plan.h"

#include "lanes.h"

#include <math.h>
#include <string.h>

const int cv_spectral_sides[] = {16, 24, 28, 32, 36, 40, 48, 54, 56, 60, 64, 72, 80, 96, 112, 128, 0};

/* Blocks of the workspace and of prepared weights start at multiples of 256 bytes. */
static size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

enum { PHASE_X, PHASE_W, PHASE_PRODUCT, PHASE_INVERSE };

/* Whether the kernels for tiles with this larger side have this side: CV_SIDES_0 to _3 of tile.cuh. */
static int has_side(int side, int larger)
{
    static const int sides[4][9] = {
        {16, 24, 28, 32}, {16, 32, 36, 40, 48}, {32, 48, 54, 56, 60, 64}, {32, 48, 64, 72, 80, 96, 112, 128}};
    const int *s = sides[larger <= 32 ? 0 : larger <= 48 ? 1 : larger <= 64 ? 2 : 3];
    while (*s && *s != side)
        s++;
    return *s == side;
}

int cv_spectral_channels(int ty, int tx)
{
    const int larger = ty > tx ? ty : tx;
    if (!has_side(ty, larger) || !has_side(tx, larger))
        return 0;
    int cb = 16;
    while (cb * larger / 2 > 128 && cb > 2)
        cb /= 2;
    return cb;
}

/* Of the transforms on an H200, fitted to 143 problems and tiles (docs/performance-log.md): a side's share of the time
 * until a kernel's first blocks are done, microseconds, and the nanoseconds that a point more takes a multiprocessor
 * once all of its blocks run. */
static void side_times(int side, double *first, double *point)
{
    static const struct {
        int side;
        double first, point;
    } table[] = {{16, 2.6, 0.398},  {24, 3.6, 0.326},  {28, 4.0, 0.407},   {32, 2.0, 0.340},
                 {36, 11.3, 0.461}, {40, 11.5, 0.430}, {48, 11.5, 0.398},  {54, 8.8, 0.494},
                 {56, 12.3, 0.472}, {60, 11.2, 0.435}, {64, 13.8, 0.436},  {72, 30.1, 1.638},
                 {80, 16.2, 1.342}, {96, 17.3, 1.680}, {112, 17.9, 2.487}, {128, 14.1, 1.417}};
    int i = 0;
    while (table[i].side < side)
        i++;
    *first = table[i].first;
    *point = table[i].point;
}

static double largest(double a, double b) { return a > b ? a : b; }

/* The product's block shape of least cost; *cycles: what 16 x 8 x 8 of the product then cost, padding included. */
static int choose_shape(int outputs, int tiles, int channels, const cv_spectral_machine *m, double *cycles)
{
    const double steps = (channels + 15) / 16;
    int best = 0;
    *cycles = INFINITY;
    for (int i = 0; i < cv_spectral_product_shapes(m->hopper); i++) {
        int bk, bt, begin, bytes;
        const double one = cv_spectral_product_shape(i, &bk, &bt, &begin, &bytes);
        if (m->block > 0 && bytes > m->block)
            continue;
        const double nk = (outputs + bk - 1) / bk, nt = (tiles + bt - 1) / bt;
        const double cost = one * (steps + begin) * 16 / channels * nk * bk * nt * bt / ((double)outputs * tiles);
        if (cost < *cycles) {
            *cycles = cost;
            best = i;
        }
    }
    return best;
}

/* What a transform kernel's blocks take: their beginning, and a full round of blocks on all multiprocessors. A pass
 * over lines takes as long for few as for a thread each, so the larger side counts for both. */
typedef struct rounds {
    double first, round, blocks;
} rounds;

static rounds rounds_of(const cv_spectral *g, const cv_spectral_machine *m)
{
    const int larger = g->ty > g->tx ? g->ty : g->tx;
    const double shared = 4.0 * g->cb * (g->ty * (g->tx + 4.0)) + 1024;
    double fit = larger <= 32 ? 5 : larger <= 48 ? 4 : larger <= 64 ? 3 : 1, first[2], point[2];
    if (fit * shared > m->shared)
        fit = largest(1, floor(m->shared / shared));
    side_times(g->ty, &first[0], &point[0]);
    side_times(g->tx, &first[1], &point[1]);
    const rounds r = {0.5e-6 * (first[0] + first[1]) / m->rate,
                      0.5e-9 * fit * g->cb * larger * (g->ty * point[0] + g->tx * point[1]) / m->rate,
                      fit * m->multiprocessors};
    return r;
}

/* Rounds that so many blocks take: the last one is as long as the others, the more so the fewer there are. */
static double in_rounds(const rounds *r, double blocks)
{
    const double n = blocks / r->blocks, whole = largest(1, ceil(n - 1e-9)), few = 1.9 / largest(n, 1);
    return n + (whole - n) * (few < 1 ? few : 1);
}

static double forward_time(const rounds *r, double x_blocks, double w_blocks, double w_cost)
{
    const double blocks = x_blocks + w_blocks * w_cost;
    return blocks > 0 ? r->first + r->round * in_rounds(r, blocks) : 0;
}

/* A kernel's block in blocks of x: the share of its rows and columns, each cheaper where half is zero. */
static double w_block_cost(const cv_spectral *g)
{
    const double rows = 2 * g->s <= g->tx && g->tx <= 64 ? 0.77 : 0.91;
    const double columns = 2 * g->r <= g->ty && g->ty <= 64 ? 0.77 : 0.91;
    return (double)g->wcb / g->cb * (g->r * rows + g->tx * columns) / (g->ty + g->tx);
}

/* The transforms of lanes.h, fitted on an H200: what a launch costs beyond its bytes, and picoseconds. Of a forward
 * one, for each piece of a line that a store fills (a block's channels at one bin); of an inverse, for each value it
 * reads, in whole lines or less, and for each byte it writes. */
static const double LANE_FORWARD = 6e-6, LANE_PIECE = 25e-12, LANE_INVERSE = 10e-6, LANE_WHOLE = 3.1e-12,
                    LANE_PART = 4.7e-12, LANE_Y_BYTE = 0.55e-12;

/* x and w of the first part of the outputs, and w alone for each further part. */
static void predict_lanes(cv_spectral_plan *p, const cv_spectral_machine *m, double x_passes, double w_passes,
                          double passes, double y_bytes)
{
    const cv_spectral *g = &p->g;
    const double slower = 132 / (m->rate * m->multiprocessors), tiles = p->all_tiles, bins = g->bins;
    double *t = p->phase_seconds;
    t[PHASE_X] = x_passes * LANE_FORWARD / m->rate +
                 bins * tiles * p->groups * cv_spectral_xblocks(g) / g->ng * LANE_PIECE * slower;
    t[PHASE_W] = (w_passes - x_passes > 0 ? w_passes - x_passes : 0) * LANE_FORWARD / m->rate +
                 bins * w_passes * (p->groups > 1 ? (double)p->group_step * g->kg : p->k_step) *
                     cv_spectral_wblocks(g) * LANE_PIECE * slower;
    t[PHASE_INVERSE] = passes * LANE_INVERSE / m->rate +
                       (bins * tiles * g->k * (g->ycb == 8 ? LANE_WHOLE : LANE_PART) + y_bytes * LANE_Y_BYTE) * slower;
}

static void predict(cv_spectral_plan *p, const cv_spectral_machine *m)
{
    const cv_spectral *g = &p->g;
    const double tiles = p->all_tiles, bins = g->bins, channels = (double)p->groups * g->cgp;
    const int tile_passes = (p->all_tiles + p->tile_step - 1) / p->tile_step;
    const int group_passes = (p->groups + p->group_step - 1) / p->group_step;
    const int k_passes = p->groups > 1 ? 1 : (g->k + p->k_step - 1) / p->k_step;
    const double w_again = k_passes > 1 ? tile_passes : 1, passes = (double)group_passes * tile_passes * k_passes;
    const double y_bytes = 4.0 * g->n * g->k * g->p * g->q, x_bytes = 4.0 * g->n * g->c * g->h * g->w;
    const double w_bytes = 4.0 * g->k * g->cg * g->r * g->s;
    const double outputs = p->groups > 1 ? p->group_step * g->kg : p->k_step;
    const double channel_blocks = ceil((double)p->group_step * g->cgp / g->cb);
    const rounds r = rounds_of(g, m);
    double *b = p->phase_bytes, *t = p->phase_seconds, cycles = 1;

    memset(b, 0, sizeof p->phase_bytes);
    memset(t, 0, sizeof p->phase_seconds);
    if (p->depthwise) {
        const double cb = g->cb < 4 ? g->cb : 4, w_blocks = ceil(outputs / cb), blocks = ceil(outputs / g->cb);
        b[PHASE_X] = x_bytes + y_bytes + 8 * bins * g->k;
        b[PHASE_W] = w_bytes + 8 * bins * g->k;
        t[PHASE_X] = passes * (1.4 * r.first + 1.47 * r.round * in_rounds(&r, p->tile_step * blocks));
        t[PHASE_W] = 0.77 * group_passes * (r.first + 0.75 * r.round * cb / g->cb * in_rounds(&r, w_blocks));
    } else {
        const double x_blocks = p->tile_step * channel_blocks, w_cost = w_block_cost(g);
        const double w_blocks = outputs * cv_spectral_wblocks(g), steps = (g->cgp + 15) / 16;
        const double x_alone = forward_time(&r, x_blocks, 0, 0);
        p->shape = choose_shape(p->groups > 1 ? g->kg : p->k_step, p->tile_step, g->cgp, m, &cycles);
        b[PHASE_X] = x_bytes + 8 * bins * tiles * channels;
        b[PHASE_W] = w_again * (w_bytes + 8 * bins * g->k * g->cgp);
        b[PHASE_PRODUCT] =
            8 * bins * (k_passes * tiles * channels + (double)tile_passes * g->k * g->cgp + tiles * g->k);
        b[PHASE_INVERSE] = y_bytes + 8 * bins * tiles * g->k;
        t[PHASE_X] = group_passes * tile_passes * x_alone;
        /* w comes beside x first, and again alone for each further part of the outputs */
        t[PHASE_W] = group_passes * w_again *
                     (forward_time(&r, x_blocks, w_blocks, w_cost) - x_alone +
                      (k_passes - 1) * forward_time(&r, 0, w_blocks, w_cost));
        t[PHASE_PRODUCT] = 9.0 / 1024 * bins * tiles * g->k * g->cgp * cycles / m->tensor_cycles +
                           passes * (1.5e-6 + 0.3e-6 * steps) / m->rate;
        /* seven and eight channels leave too few threads to wait for memory */
        const double few = passes * 4e-6 + (g->cgp > 6 ? 1.5 : 1.0) * b[PHASE_PRODUCT] / (0.85 * m->bytes);
        p->few = g->cgp <= CV_FEW && few < largest(t[PHASE_PRODUCT], b[PHASE_PRODUCT] / m->bytes);
        if (p->few)
            t[PHASE_PRODUCT] = few;
        t[PHASE_INVERSE] =
            passes * (0.63 * r.first + 0.89 * r.round * in_rounds(&r, p->tile_step * ceil(outputs / g->cb)));
        if (g->lanes)
            predict_lanes(p, m, (double)group_passes * tile_passes, group_passes * w_again * k_passes, passes, y_bytes);
    }
    if (p->prepared)
        b[PHASE_W] = t[PHASE_W] = 0;
    p->seconds = (p->depthwise ? 1 : 3) * m->launch * passes;
    for (int i = 0; i < 4; i++) {
        t[i] = largest(t[i], b[i] / m->bytes);
        p->seconds += t[i];
    }
}

static int fit(cv_spectral_plan *p, size_t limit)
{
    cv_spectral *g = &p->g;
    const size_t point = 8 * (size_t)g->bins;
    const size_t wblocks = (size_t)cv_spectral_wblocks(g);
    const size_t outputs = p->groups > 1 ? (size_t)p->group_step * g->kg : (size_t)p->k_step;
    const size_t channels = (size_t)p->group_step * g->cgp, xblocks = (channels + g->cb - 1) / g->cb;
    p->wf_bytes = p->prepared ? 0 : round_up(point * outputs * g->cgp);
    p->wflag_bytes = p->prepared ? 0 : round_up(outputs * wblocks);
    p->xf_bytes = p->depthwise ? 0 : round_up(point * p->tile_step * channels);
    p->yf_bytes = p->depthwise ? 0 : round_up(point * p->tile_step * outputs);
    p->xflag_bytes = p->depthwise ? 0 : round_up(p->tile_step * xblocks);
    p->workspace_bytes = p->xf_bytes + p->yf_bytes + p->wf_bytes + p->wflag_bytes + p->xflag_bytes;
    return p->workspace_bytes <= limit;
}

/* Outputs along a side of a tile: side - taps + 1, or all of the (unit-stride) result if one tile holds the whole image
 * and what wraps around meets only zeros: local row i + r of the last outputs i is i + r - side, above the image. */
static int tile_outputs(int side, int taps, int image, int pad, int64_t outputs)
{
    if (side < taps)
        return 0;
    if (side >= outputs && side >= pad + (int64_t)image && outputs + taps - 1 - side <= pad)
        return (int)outputs;
    return side - taps + 1 < outputs ? side - taps + 1 : (int)outputs;
}

/* Whether a block of the transforms has room, by an upper bound: rows are up to 7 words longer than the tile's,
 * channels up to 35 apart, and the inverse holds the spectra first. */
static int has_room(const cv_spectral *g, const cv_spectral_machine *m)
{
    const int rows = 2 * g->r <= g->ty && g->ty <= 64 ? g->ty / 2 : g->ty;
    const double row = g->tx + 7, x = g->cb * (g->ty * row + 35), w = g->wcb * (rows * row + 35);
    return !(m->block > 0) || 4 * largest(largest(x, w), 2.0 * g->bins * g->cb) + 256 <= m->block;
}

/* Block counts of a launch that must stay below 2^31. */
static int too_many(const cv_spectral_plan *p)
{
    const cv_spectral *g = &p->g;
    const double outputs = p->groups > 1 ? (double)p->group_step * g->kg : p->k_step;
    const double channels = (double)p->group_step * g->cgp;
    return (double)p->tile_step * (channels + outputs) + outputs * g->cgp > 1e9 ||
           (double)g->bins * p->group_step * outputs > 1e9 || (double)g->bins * p->tile_step > 2e9 ||
           (double)g->bins * g->k > 2e9; /* rows of spectra too */
}

int cv_spectral_make_plan(const cv_spectral *base, int groups, int ty, int tx, size_t limit, int prepared,
                          const cv_spectral_machine *machine, cv_spectral_plan *plan)
{
    cv_spectral_plan p = {0}, best = {0};
    cv_spectral *g = &p.g;
    *g = *base;
    g->ty = ty, g->tx = tx;
    g->cb = cv_spectral_channels(ty, tx);
    const int64_t pu = (int64_t)(g->p - 1) * g->stride_h + 1, qu = (int64_t)(g->q - 1) * g->stride_w + 1;
    g->oy = tile_outputs(ty, g->r, g->h, g->pad_t, pu);
    g->ox = tile_outputs(tx, g->s, g->w, g->pad_l, qu);
    if (g->cb == 0 || g->oy < 1 || g->ox < 1)
        return -1;
    g->ny = (int)((pu + g->oy - 1) / g->oy), g->nx = (int)((qu + g->ox - 1) / g->ox);
    const int64_t tiles = (int64_t)g->n * g->ny * g->nx;
    if (tiles > INT32_MAX / 2)
        return -1;
    p.all_tiles = (int)tiles;
    p.groups = groups;
    p.prepared = prepared;
    p.depthwise = g->cg == 1;
    g->bins = ty * tx / 2 + 2;
    g->scale = 1.0f / (4.0f * (float)ty * (float)tx);
    g->cgp = p.depthwise ? 1 : (g->cg + 1) / 2 * 2;
    g->ng = groups;
    g->wcb = 2 * g->r <= ty && ty <= 64 && g->cb < 16 && g->cgp > g->cb ? 2 * g->cb : g->cb;
    g->ycb = g->cb;
    g->lanes = !p.depthwise && cv_lane_tile(ty, tx) && g->stride_h == 1 && g->stride_w == 1 && g->xs[3] == 1 &&
               g->ws[3] == 1 && g->ys[3] == 1 && (machine->block <= 0 || CV_LANE_SHARED + 256 <= machine->block);
    if (g->lanes) {
        g->cb = cv_lane_channels(tx, ty, groups * g->cgp);
        g->wcb = cv_lane_channels(tx, cv_lane_rows_kept(ty, cv_lane_rows_of(ty, g->r)), g->cgp);
        g->ycb = cv_lane_channels(tx, cv_lane_rows_kept(ty, g->oy), groups > 1 ? g->kg : g->k);
    } else if (!has_room(g, machine))
        return -1;
    const int wblocks = cv_spectral_wblocks(g);
    p.weights_flags_at = round_up((size_t)8 * g->bins * g->k * g->cgp);
    p.weights_copy_at = p.weights_flags_at + round_up((size_t)g->k * wblocks);
    p.weights_bytes = p.weights_copy_at + round_up((size_t)4 * g->k * g->cg * g->r * g->s);

    /* uncut if that fits; else all pairs of halvings that do, and the cheapest of them */
    best.seconds = INFINITY;
    int done = 0;
    for (int tile_cuts = 1; !done && tile_cuts <= 2 * p.all_tiles && tile_cuts < 1 << 20; tile_cuts *= 2)
        for (int k_cuts = 1; !done && k_cuts <= 2 * g->k && k_cuts < 1 << 20; k_cuts *= 2) {
            p.tile_step = (p.all_tiles + tile_cuts - 1) / tile_cuts;
            p.group_step = groups > 1 ? (groups + k_cuts - 1) / k_cuts : 1;
            p.k_step = groups > 1 ? p.group_step * g->kg : (g->k + k_cuts - 1) / k_cuts;
            if (p.depthwise && tile_cuts > 1 && p.tile_step * (double)g->k < 1e9)
                continue;
            if (!fit(&p, limit) || too_many(&p))
                continue;
            predict(&p, machine);
            if (p.seconds < best.seconds)
                best = p;
            done = tile_cuts == 1 && k_cuts == 1;
        }
    if (!(best.seconds < INFINITY))
        return -1;
    *plan = best;
    return 0;
}
