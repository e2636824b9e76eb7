/* Instances of the strip kernel, and how a block is cut out of the planes. */
#include <math.h>

#include "chain_host.h"
#include "strip_kernel.cuh"

namespace
{

enum { SHARED_MOST = 100 * 1024, STATIC_SHARED = 20 * CV_STRIP_THREADS, MULTIPROCESSOR_SHARED = 227 * 1024 };

struct variant {
    int qt, un, by_taps, wide; /* wide: words that a window's load takes, and begins at a multiple of */
    int resident;              /* warps that a multiprocessor's registers hold */
    const void *kernel;
};

#define CV_STRIP(qt, un, by_taps, wide, resident)                                                                      \
    {                                                                                                                  \
        qt, un, by_taps, wide, resident, (const void *)cv_strip_kernel<qt, un, by_taps, wide>                          \
    }

const variant table[CV_STRIP_VARIANTS] = {
    CV_STRIP(7, 7, false, 4, 36), CV_STRIP(14, 14, false, 4, 32), CV_STRIP(14, 14, false, 2, 32),
    CV_STRIP(8, 8, false, 4, 36), CV_STRIP(16, 8, false, 4, 32),  CV_STRIP(8, 8, true, 4, 36),
    CV_STRIP(16, 8, true, 4, 32), CV_STRIP(8, 5, true, 4, 36),    CV_STRIP(8, 7, true, 4, 36)};

struct layout {
    int64_t tq, tp, tnn, tnk, tiles_q, tiles_p, tiles_n, blocks;
    int64_t steps, rows, x_cols, x_pitch, x_floats, w_first, w_cols, w_pitch, w_floats, y_pitch, shared;
    int x_words, y_words, w_flat; /* as the kernel's arguments have them */
    double seconds;
};

int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes of shared memory that a block may ask for. */
int64_t shared_most(const cv_chain_gpu *gpu) { return least(SHARED_MOST, (int64_t)gpu->shared_bytes - STATIC_SHARED); }

/* Rows that are an odd multiple of 16 bytes apart: eight of them meet no bank twice. */
int64_t odd_pitch(int64_t cols) { return (cols + 3) / 4 * 4 + ((cols + 3) / 4 % 2 ? 0 : 4); }

int64_t power_of_two(int64_t n)
{
    int64_t p = 1;
    while (p < n && p < 32)
        p *= 2;
    return p;
}

/* Steps of a row that strip q0 of the tile at q_tile takes, [*first, *last), and the column that its first step begins
 * at; as the kernel counts them. */
void steps_of(const cv_chain_shape *c, const variant *v, int64_t q_tile, int64_t q0, int64_t *first, int64_t *last,
              int64_t *col0)
{
    const int64_t left = q0 - c->pad_l;
    if (v->by_taps) {
        *col0 = q_tile - c->pad_l;
        *first = most(0, -(left + v->qt - 1)) / v->un;
        *last = least(cv_ceil(c->s, v->un), (c->w - left + v->un - 1) / v->un);
    } else {
        *col0 = most(0, q_tile - c->pad_l) & ~(int64_t)3;
        *first = (most(0, left) - *col0) / v->un;
        *last = (least(c->w, left + v->qt - 1 + c->s) - *col0 + v->un - 1) / v->un;
    }
}

/* Columns that a block stores, of x and of w; returns the steps of a row that a strip takes on average. */
double measure_rows(const cv_chain_shape *c, const variant *v, layout *l)
{
    int64_t low = 0, high = c->s - 1;
    double all = 0;
    l->steps = cv_ceil(c->s, v->un);
    l->x_cols = v->by_taps ? l->tq * v->qt + l->steps * v->un - 1 : 0;
    for (int64_t q0 = 0; q0 < c->q; q0 += v->qt) {
        int64_t first, last, col0;
        const int64_t q_tile = q0 / (l->tq * v->qt) * (l->tq * v->qt);
        steps_of(c, v, q_tile, q0, &first, &last, &col0);
        if (last <= first)
            continue;
        all += (double)(last - first);
        if (v->by_taps)
            continue;
        const int64_t tap = col0 - (q0 - c->pad_l) - (v->qt - 1); /* of the window's beginning at step 0 */
        low = least(low, tap + first * v->un);
        high = most(high, tap + (last - 1) * v->un + v->qt + v->un - 2);
        l->x_cols = most(l->x_cols, last * v->un);
    }
    l->w_first = 0;
    if (!v->by_taps) { /* windows begin at multiples of what their loads take */
        l->w_first = (v->qt - 1 - c->pad_l) % 4;
        while (l->w_first < most(0, -low))
            l->w_first += 4;
    }
    l->w_cols = v->by_taps ? l->steps * v->un : high + 1 + l->w_first;
    l->x_pitch = odd_pitch(v->by_taps ? l->x_cols : cv_ceil(l->x_cols, v->un) * ((v->un + 3) / 4 * 4));
    l->w_pitch = odd_pitch(l->w_cols);
    l->y_pitch = v->qt % 4 ? (l->tq * v->qt) | 1 : odd_pitch(l->tq * v->qt);
    return all / (double)cv_ceil(c->q, v->qt);
}

/* Words of a piece of planes without gaps: all of them begin at such a multiple, and so do rows. */
int piece(const int64_t stride[4], int64_t rows, int64_t cols, int64_t corner)
{
    if (stride[3] != 1 || (stride[2] != cols && rows > 1))
        return 0;
    for (int words = 4; words > 1; words /= 2)
        if (cols % words == 0 && corner % words == 0 && stride[1] % words == 0 && stride[0] % words == 0)
            return words;
    return 1;
}

/* Pieces as planes and strides allow, steps and windows left whole. A block copies whole rows then, so most of a row
 * must be wanted. */
void choose_pieces(const cv_chain_shape *c, const variant *v, layout *l)
{
    const int wanted = l->tiles_q == 1 || c->w <= 2 * l->x_cols;
    const int small = l->rows * c->w < INT32_MAX && c->h * c->w < INT32_MAX && c->p * c->q < INT32_MAX;
    l->x_words = wanted && small ? piece(c->xs, c->h, c->w, v->by_taps ? c->pad_l : v->un % 4 ? v->un : 0) : 0;
    l->y_words = l->tiles_q == 1 && small ? piece(c->ys, c->p, c->q, 0) : 0;
    l->w_flat = c->ws[3] == 1 && (c->ws[2] == c->s || c->r == 1);
}

/* Cycles that a warp waits for its share of the work, and that it keeps a scheduler busy. */
struct turns {
    double alone, busy;
};

/* A copy: pieces of planes, or whole rows where words is 0. */
void add_copy(turns *t, double threads, int64_t words, int64_t planes, int64_t rows, int64_t cols)
{
    if (words) {
        const double pieces = (double)(rows * cols / words), together = fmax(1, floor(threads / pieces));
        const double outer = fmax(1, ceil(pieces / threads)), inner = ceil((double)planes / together);
        t->alone += outer * (250 + 150 * inner);
        t->busy += outer * (5 + 76 * inner);
    } else {
        const double lanes = (double)power_of_two(cols), each = ceil((double)(planes * rows) * lanes / threads);
        t->alone += 500 * each * (double)cv_ceil(cols, (int64_t)lanes);
        t->busy += 50 * each * (double)cv_ceil(cols, (int64_t)lanes);
    }
}

/* What sets the time: a warp's latency, or instructions; rounds of blocks; and no less than the bytes. Fitted to an
 * H200 (docs/performance-log.md). steps: of a row. */
double seconds_of(const cv_chain_shape *c, const cv_chain_gpu *gpu, const variant *v, const layout *l, double steps)
{
    const double clock = gpu->flop_per_s / gpu->sm_count / 250;
    const double warps = (double)cv_ceil(l->tp * l->tq * l->tnn * l->tnk, 32), threads = 32 * warps;
    const double loads = (v->un + 3) / 4 + (v->qt + v->un + 2) / v->wide;
    const double sums = (double)least(c->r, c->h) * (steps * (v->qt * v->un + loads + 22) + 7.5);
    const double each = ceil((double)l->blocks / gpu->sm_count);
    const double fit =
        fmin(floor(MULTIPROCESSOR_SHARED / (double)(l->shared + STATIC_SHARED + 1024)), floor(v->resident / warps));
    const double resident = fmax(1, fmin(fit, each)), busy = resident * warps / 4;
    const double planes = (double)(l->tnn * l->tnk);
    const double read = planes * (double)(l->rows * l->x_cols) + (double)(l->tnk * c->r * c->s);
    const double bytes = 4.0 * ((double)l->blocks * read + (double)c->n * c->k * c->p * c->q);
    /* few rows a plane, and each at a row of its own: lanes of two planes meet banks again */
    const double meet = l->tp < 8 && planes > 1 && c->p - 1 > c->pad_t ? 1.4 : 1.0;
    turns t = {2.9 * meet * sums, 1.15 * meet * sums};
    t.busy += 5 * (double)l->shared / 16 / threads; /* zeros first */
    add_copy(&t, threads, l->x_words, l->tnn * l->tnk, l->rows, l->x_words ? c->w : l->x_cols);
    add_copy(&t, threads, l->w_flat, l->tnk, c->r, l->w_flat ? c->s : l->w_cols);
    add_copy(&t, threads, l->y_words, l->tnn * l->tnk, l->tp, l->y_words ? c->q : l->tq * v->qt);
    /* small blocks: one copies while another sums */
    const double work = each / resident * fmax(t.alone, busy * t.busy) / clock * (1 + threads / 8192);
    return 6e-6 + fmax(bytes / (0.6 * gpu->bytes_per_s), work);
}

int measure_block(const cv_chain_shape *c, const cv_chain_gpu *gpu, const variant *v, layout *l)
{
    const double steps = measure_rows(c, v, l);
    l->tiles_q = cv_ceil(cv_ceil(c->q, v->qt), l->tq);
    l->tiles_p = cv_ceil(c->p, l->tp);
    l->tiles_n = cv_ceil(c->n, l->tnn);
    l->blocks = l->tiles_n * cv_ceil(c->k, l->tnk) * l->tiles_p * l->tiles_q;
    l->rows = least(c->h, l->tp + c->r - 1);
    l->x_floats = odd_pitch(l->rows * l->x_pitch);
    l->w_floats = odd_pitch(c->r * l->w_pitch);
    const int64_t planes = l->tnn * l->tnk;
    l->shared = 4 * (l->tnk * l->w_floats + most(planes * l->x_floats, planes * l->tp * l->y_pitch));
    if (l->shared > shared_most(gpu) || l->blocks >= INT32_MAX)
        return 0;
    choose_pieces(c, v, l);
    l->seconds = seconds_of(c, gpu, v, l, steps);
    return 1;
}

/* The cheapest block, of those whose sides halve the plane's. */
int lay_out(const cv_chain_shape *c, const cv_chain_gpu *gpu, const variant *v, layout *best)
{
    const int64_t across = cv_ceil(c->q, v->qt);
    best->seconds = INFINITY;
    for (int64_t cuts_q = cv_ceil(across, CV_STRIP_THREADS / 4), i = 0; i < 4; cuts_q *= 2, ++i)
        for (int64_t cuts_p = 1, j = 0; j < 16 && cuts_p <= 2 * c->p;
             cuts_p = cuts_p < 4 ? cuts_p + 1 : cuts_p * 2, ++j)
            for (int64_t tnn = 1; tnn < 2 * c->n; tnn *= 2)
                for (int64_t tnk = 1; tnk <= 8 && tnk < 2 * c->k; tnk *= 2) {
                    layout l = {};
                    l.tq = cv_ceil(across, cuts_q);
                    l.tp = cv_ceil(c->p, cuts_p);
                    l.tnn = least(tnn, c->n), l.tnk = least(tnk, c->k);
                    if (l.tp * l.tq * l.tnn * l.tnk > CV_STRIP_THREADS)
                        break;
                    if (measure_block(c, gpu, v, &l) && l.seconds < best->seconds)
                        *best = l;
                }
    return best->seconds < INFINITY;
}

/* Fewer words where the address allows no more. */
int fewer(int words, const void *at)
{
    while (words > 1 && (uintptr_t)at % (4 * words))
        words /= 2;
    return words;
}

/* After by_rows and by_tp. */
void set_pieces(cv_strip_args *a, int x_words, int y_words)
{
    a->x_words = x_words, a->y_words = y_words;
    if (x_words) {
        a->by_x_row = cv_divider_make(a->W / x_words);
        a->by_x_plane = cv_divider_make((int64_t)a->by_rows.d * a->W / x_words);
    }
    if (y_words) {
        a->by_y_row = cv_divider_make(a->Q / y_words);
        a->by_y_plane = cv_divider_make((int64_t)a->by_tp.d * a->Q / y_words);
    }
}

} // namespace

int cv_strip_fits(const cv_chain_shape *c, const cv_chain_gpu *gpu, int i)
{
    const variant *v = &table[i];
    layout l;
    if (c->c != c->groups || c->st_h != 1 || c->st_w != 1 || c->dil_h != 1 || c->dil_w != 1)
        return 0;
    if (c->h > (1 << 20) || c->w > (1 << 20) || c->p > (1 << 20) || c->q > (1 << 20) || c->r > 1024 || c->s > 1024 ||
        c->k > (1 << 28) || c->n > (1 << 28))
        return 0;
    /* where steps or strips are no multiple of what a window's load takes: one a row */
    if ((v->un % v->wide || v->qt % v->wide) && (v->by_taps ? c->s > v->un : c->w > v->un || c->q > v->qt))
        return 0;
    return lay_out(c, gpu, v, &l);
}

double cv_strip_seconds(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice)
{
    layout l;
    return lay_out(c, gpu, &table[choice->variant], &l) ? l.seconds : HUGE_VAL;
}

int cv_strip_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, const cv_chain_choice *choice, cv_chain_plan *plan)
{
    const variant *v = &table[choice->variant];
    layout l;
    if (!lay_out(c, gpu, v, &l))
        return cudaErrorInvalidValue;
    cv_strip_args *a = &plan->args.strip;
    a->xs_n = c->xs[0], a->xs_c = c->xs[1], a->xs_h = c->xs[2], a->xs_w = c->xs[3];
    a->ws_k = c->ws[0], a->ws_c = c->ws[1], a->ws_r = c->ws[2], a->ws_s = c->ws[3];
    a->ys_n = c->ys[0], a->ys_k = c->ys[1], a->ys_p = c->ys[2], a->ys_q = c->ys[3];
    a->N = (int)c->n, a->H = (int)c->h, a->W = (int)c->w, a->P = (int)c->p, a->Q = (int)c->q, a->K = (int)c->k;
    a->R = (int)c->r, a->S = (int)c->s, a->pad_t = (int)c->pad_t, a->pad_l = (int)c->pad_l;
    a->Cg = a->dil_h = a->dil_w = 1;
    a->tq = (int)l.tq, a->tnk = (int)l.tnk, a->steps = (int)l.steps;
    a->x_cols = (int)l.x_cols, a->x_pitch = (int)l.x_pitch, a->x_floats = (int)l.x_floats;
    a->w_cols = (int)l.w_cols, a->w_pitch = (int)l.w_pitch, a->w_floats = (int)l.w_floats;
    a->w_first = (int)l.w_first, a->y_pitch = (int)l.y_pitch;
    a->x_lanes = (int)power_of_two(l.x_cols), a->w_lanes = (int)power_of_two(l.w_cols);
    a->y_lanes = (int)power_of_two(least(c->q, l.tq * v->qt));
    a->by_tiles_q = cv_divider_make(l.tiles_q), a->by_tiles_p = cv_divider_make(l.tiles_p);
    a->by_tiles_n = cv_divider_make(l.tiles_n);
    a->by_tp = cv_divider_make(l.tp), a->by_planes = cv_divider_make(l.tnn * l.tnk);
    a->by_tnn = cv_divider_make(l.tnn);
    a->by_rows = cv_divider_make(l.rows), a->by_r = cv_divider_make(c->r);
    a->by_kg = cv_divider_make(c->k / c->groups);
    set_pieces(a, l.x_words, l.y_words);
    a->w_flat = l.w_flat;
    a->by_s = cv_divider_make(c->s), a->by_w_plane = cv_divider_make(c->r * c->s);
    plan->block = (unsigned)((l.tp * l.tq * l.tnn * l.tnk + 31) / 32 * 32);
    plan->shared = (unsigned)l.shared;
    plan->grid = (unsigned)l.blocks;
    return cudaFuncSetAttribute(v->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_most(gpu));
}

int cv_strip_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                 cudaStream_t stream)
{
    cv_strip_args a = plan->args.strip;
    a.x = x, a.w = w, a.bias = bias, a.y = y;
    if (fewer(a.x_words, x) != a.x_words || fewer(a.y_words, y) != a.y_words)
        set_pieces(&a, fewer(a.x_words, x), fewer(a.y_words, y));
    void *args[] = {&a};
    return cudaLaunchKernel(table[plan->choice.variant].kernel, dim3(plan->grid), dim3(plan->block), args, plan->shared,
                            stream);
}
