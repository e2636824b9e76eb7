/* Chosen outputs, a chain a lane.
 *
 *   y[n,k,p,q] = chain over c, r, s of x[n, c, p*sh + r*dh - pt, q*sw + s*dw - pl] * w[k,c,r,s]
 *
 * Outputs that follow one another in the list and share image and channel make groups of two vectors: one w for all
 * lanes, and x by vf_columns, which turns rows of the lanes' windows into vectors of one tap each. That costs a load of
 * 16 bytes for four taps of a lane and a shuffle for a vector of lanes, where a chain alone waits for the FMA's
 * latency, 4 cycles a tap.
 *
 * Channels go in blocks of about 256 taps, the groups of a chunk inside: a channel's rows of x stay in L1 and L2 while
 * all groups pass over them, and the sums wait in an array meanwhile (they are binary32, so the chain goes on uncut).
 *
 * Windows that padding cuts, and x whose taps lie apart, go through a copy of a row's taps, with a mask of the taps
 * that are inside. Outputs that lie in boxes go through box.c, whose lanes need no shuffles.
 */
#include "kernels.h"
#include "simd/simd.h"
#include "taps.h"

#include <string.h>

/* The address sanitizer watches the same loads; the undefined-behaviour one would check every address. */
#define INLINE static inline __attribute__((always_inline, no_sanitize("undefined")))
#define UNROLL _Pragma("GCC unroll 16")

enum {
    VECTORS = VL > 1 ? 2 : 8, /* of a group: hides the FMA's latency */
    QUADS = VL == 8 ? 1 : 2,  /* fours of taps at a time */
    MOST = VECTORS * VL,      /* outputs of a group */
    CHUNK = 1024,             /* outputs whose sums wait side by side while x passes by once */
    GROUPS = 256,             /* of a chunk, at most */
    BLOCK = 256,              /* taps of a block of channels, about */
    SEGMENT = 64              /* taps of a copied row */
};

struct chain {
    const float *x; /* at channel 0, tap (0, 0): may lie outside the image */
    float *y;
    int32_t r0, r1, s0, s1; /* taps inside, of a transform's kernel; short, as a thousand of these are on the stack */
};

struct group {
    int first, count, inside;
    const float *w;
    float bias;
};

struct steps {
    int64_t cg, r, s, x_c, x_r, x_s, w_c, w_r, w_s;
};

INLINE vf load_sums(const float *acc, int count) { return count >= VL ? vf_load(acc) : vf_load_n(acc, count); }

INLINE void store_sums(float *acc, vf sum, int count)
{
    if (count >= VL)
        vf_store(acc, sum);
    else if (count > 0)
        vf_store_n(acc, sum, count);
}

/* Taps [skip, 4 * quads) from `at` on of `vectors` vectors of lanes. */
INLINE void taps(const struct steps *t, vf *sum, const float *const *x, int64_t at, const float *w, const int skip,
                 const int quads, const int vectors)
{
    __asm__("" : "+r"(x)); /* else the compiler hoists 32 sums of row and offset out of the loop, and spills them */
    UNROLL
    for (int v = 0; v < vectors; v++) {
        vf column[4 * QUADS];
        vf_columns(x + v * VL, at, quads, column);
        UNROLL
        for (int i = skip; i < 4 * quads; i++)
            sum[v] = vf_fma(column[i], vf_set1(w[(i - skip) * t->w_s]), sum[v]);
    }
}

/* Channels [c0, c1) for windows inside the image, at least four taps wide. */
INLINE void run_inside(const struct steps *t, const struct group *g, const struct chain *chain, int64_t c0, int64_t c1,
                       float *acc, const int vectors)
{
    const float *x[MOST];
    vf sum[VECTORS];
    for (int i = 0; i < vectors * VL; i++)
        x[i] = chain[i < g->count ? i : g->count - 1].x;
    UNROLL
    for (int v = 0; v < vectors; v++)
        sum[v] = load_sums(acc + v * VL, g->count - v * VL);
    for (int64_t c = c0; c < c1; c++)
        for (int64_t r = 0; r < t->r; r++) {
            const int64_t at = c * t->x_c + r * t->x_r;
            const float *w = g->w + c * t->w_c + r * t->w_r;
            int64_t s = 0;
            for (; s + 4 * QUADS <= t->s; s += 4 * QUADS)
                taps(t, sum, x, at + s, w + s * t->w_s, 0, QUADS, vectors);
            if (QUADS > 1 && s + 4 <= t->s) {
                taps(t, sum, x, at + s, w + s * t->w_s, 0, 1, vectors);
                s += 4;
            }
            const int64_t last = at + t->s - 4;
            const float *rest = w + s * t->w_s;
            if (t->s - s == 1)
                taps(t, sum, x, last, rest, 3, 1, vectors);
            else if (t->s - s == 2)
                taps(t, sum, x, last, rest, 2, 1, vectors);
            else if (t->s - s == 3)
                taps(t, sum, x, last, rest, 1, 1, vectors);
        }
    UNROLL
    for (int v = 0; v < vectors; v++)
        store_sums(acc + v * VL, sum[v], g->count - v * VL);
}

/* One row of taps [from, from + some) of any windows: copies of those inside, and where they begin and end. */
struct row {
    float copy[MOST][SEGMENT], lo[MOST], hi[MOST];
    const float *at[MOST];
};

static int copy_row(const struct steps *t, const struct chain *chain, int count, int64_t c, int64_t r, int64_t from,
                    int64_t some, struct row *row)
{
    int any = 0;
    for (int i = 0; i < count; i++) {
        const struct chain *a = &chain[i];
        const int64_t s0 = cv_clamp(a->s0 - from, 0, some), s1 = cv_clamp(a->s1 - from, s0, some);
        const int in = r >= a->r0 && r < a->r1 && s0 < s1;
        row->lo[i] = in ? (float)s0 : 0;
        row->hi[i] = in ? (float)s1 : 0;
        if (!in)
            continue;
        any = 1;
        const float *x = a->x + c * t->x_c + r * t->x_r + (from + s0) * t->x_s;
        if (t->x_s == 1)
            memcpy(row->copy[i] + s0, x, sizeof(float) * (size_t)(s1 - s0));
        else
            for (int64_t s = s0; s < s1; s++)
                row->copy[i][s] = x[(s - s0) * t->x_s];
    }
    return any;
}

static void run_cut(const struct steps *t, const struct group *g, const struct chain *chain, int64_t c0, int64_t c1,
                    float *acc)
{
    struct row row;
    memset(&row, 0, sizeof row);
    for (int i = 0; i < MOST; i++)
        row.at[i] = row.copy[i];
    const int vectors = (g->count + VL - 1) / VL;
    vf sum[VECTORS];
    for (int v = 0; v < vectors; v++)
        sum[v] = load_sums(acc + v * VL, g->count - v * VL);
    for (int64_t c = c0; c < c1; c++)
        for (int64_t r = 0; r < t->r; r++)
            for (int64_t from = 0; from < t->s; from += SEGMENT) {
                const int64_t some = t->s - from < SEGMENT ? t->s - from : SEGMENT;
                if (!copy_row(t, chain, g->count, c, r, from, some, &row))
                    continue;
                const float *w = g->w + c * t->w_c + r * t->w_r + from * t->w_s;
                for (int64_t s = 0; s < some; s += 4)
                    for (int v = 0; v < vectors; v++) {
                        const vf lo = vf_load(row.lo + v * VL), hi = vf_load(row.hi + v * VL);
                        vf column[4];
                        vf_columns(row.at + v * VL, s, 1, column);
                        for (int64_t i = s; i < s + 4 && i < some; i++)
                            sum[v] = vf_fma_m(column[i - s], vf_set1(w[i * t->w_s]), sum[v],
                                              vm_within(vf_set1((float)i), lo, hi));
                    }
            }
    for (int v = 0; v < vectors; v++)
        store_sums(acc + v * VL, sum[v], g->count - v * VL);
}

static void run_group(const struct steps *t, const struct group *g, const struct chain *chain, int64_t c0, int64_t c1,
                      float *acc)
{
    if (!g->inside)
        run_cut(t, g, chain, c0, c1, acc);
    else if (g->count <= VL)
        run_inside(t, g, chain, c0, c1, acc, 1);
    else
        run_inside(t, g, chain, c0, c1, acc, VECTORS);
}

/* Where one output lies. */
static struct chain place(const convoy_problem *p, const cv_chain_io *io, int64_t n, int64_t k, int64_t row,
                          int64_t col)
{
    const cv_axis ah = {p->h, p->r, p->stride_h, p->dil_h, p->pad_t},
                  aw = {p->w, p->s, p->stride_w, p->dil_w, p->pad_l};
    const int64_t c0 = k / (p->k / p->groups) * (p->c / p->groups);
    struct chain a;
    int64_t r0, r1, s0, s1;
    cv_axis_taps(&ah, row, &r0, &r1);
    cv_axis_taps(&aw, col, &s0, &s1);
    a.r0 = (int32_t)r0, a.r1 = (int32_t)r1, a.s0 = (int32_t)s0, a.s1 = (int32_t)s1;
    a.x = io->x + n * p->x_stride[0] + c0 * p->x_stride[1] + (row * p->stride_h - p->pad_t) * p->x_stride[2] +
          (col * p->stride_w - p->pad_l) * p->x_stride[3];
    a.y = io->y + n * p->y_stride[0] + k * p->y_stride[1] + row * p->y_stride[2] + col * p->y_stride[3];
    return a;
}

static void run_chunk(const struct steps *t, const struct group *group, int groups, const struct chain *chain,
                      int biased)
{
    float acc[CHUNK] = {0};
    const int64_t block = (BLOCK + t->r * t->s - 1) / (t->r * t->s);
    for (int64_t c = 0; c < t->cg; c += block)
        for (int g = 0; g < groups; g++)
            run_group(t, &group[g], chain + group[g].first, c, c + block < t->cg ? c + block : t->cg,
                      acc + group[g].first);
    for (int g = 0; g < groups; g++)
        for (int i = group[g].first; i < group[g].first + group[g].count; i++)
            *chain[i].y = biased ? acc[i] + group[g].bias : acc[i];
}

/* Outputs index[i..end) of one image and channel become chain[i..end) and groups: whole windows first, then cut ones.
 */
static int make_groups(const convoy_problem *p, int64_t Q, int64_t PQ, const cv_chain_io *io, const int64_t *index,
                       int i, int end, struct chain *chain, struct group *group)
{
    const int columns = p->dil_w * p->x_stride[3] == 1 && p->s >= 4; /* vf_columns may read the windows themselves */
    const int64_t plane = index[i] / PQ, n = plane / p->k, k = plane % p->k;
    int low = i, next = end, groups = 0;
    for (int j = i; j < end; j++) {
        const int64_t at = index[j] % PQ;
        const struct chain a = place(p, io, n, k, at / Q, at % Q);
        const int whole = columns && a.r0 == 0 && a.r1 == p->r && a.s0 == 0 && a.s1 == p->s;
        chain[whole ? low++ : --next] = a;
    }
    for (int a = i, some; a < end; a += some) {
        const int inside = a < low, left = (inside ? low : end) - a;
        some = left < MOST ? left : MOST;
        group[groups++] = (struct group){a, some, inside, io->w + k * p->w_stride[0], io->bias ? io->bias[k] : 0.0f};
    }
    return groups;
}

void CV_ISA_NAME(cv_chain_list)(const convoy_problem *p, int64_t Q, int64_t PQ, const cv_chain_io *io, int64_t count,
                                const int64_t *index)
{
    const struct steps t = {
        p->c / p->groups,          p->r,           p->s,           p->x_stride[1], p->dil_h * p->x_stride[2],
        p->dil_w * p->x_stride[3], p->w_stride[1], p->w_stride[2], p->w_stride[3]};
    struct chain chain[CHUNK];
    struct group group[GROUPS];
    while (count > 0) {
        const int most = count < CHUNK ? (int)count : CHUNK;
        int groups = 0, i = 0, end;
        for (; i < most && groups + (most - i) / MOST + 2 <= GROUPS; i = end) { /* an image and channel at a time */
            for (end = i + 1; end < most && index[end] / PQ == index[i] / PQ; end++)
                ;
            groups += make_groups(p, Q, PQ, io, index, i, end, chain, group + groups);
        }
        run_chunk(&t, group, groups, chain, io->bias != NULL);
        index += i;
        count -= i;
    }
}
