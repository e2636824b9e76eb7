/* Two-dimensional real transforms of VL tiles at once: see tile.h.
 *
 *   half[y][u] = sum over x of tile[y][x] W(tx)^(x u),  u <= tx/2        rows, in pairs as one complex row
 *   bin[u][v]  = sum over y of half[y][u] W(ty)^(y v)                    columns
 *
 * A lane of every vector is a tile of its own; the only shuffles are the transpositions of VL x VL blocks on the way in
 * and out. Rows and columns are transformed in L1 (tx or ty complex vectors of 2*VL floats); half, the largest thing,
 * is for L2: 4*VL*ty*(tx + 2) bytes, written and read once. Zero rows are neither loaded nor transformed. */
#include "tile.h"
#include "passes.h"
#include "tile_load.h"

enum { AHEAD = 8 }; /* rows of a block that fetch asks for */

static ptrdiff_t half_pitch(const cv_fft_tile *t) /* odd: columns spread over L1's sets */
{
    return (ptrdiff_t)(t->ux | 1) * 2 * VL;
}

static size_t half_floats(const cv_fft_tile *t) { return (size_t)(half_pitch(t) * t->ty); }

/* Lines have room for whole blocks of VL; two and the passes' two spare ones, or three in columns_pointwise. */
static size_t line_pitch(const cv_fft_tile *t) { return (size_t)((t->tx > t->ty ? t->tx : t->ty) + VL) * 2 * VL; }

static size_t line_floats(const cv_fft_tile *t) { return line_pitch(t) * 5; }

/* z is the transform of row a + i*b of two real rows: separates them into their own half-spectra, doubled. */
CV_INLINE void separate(const cv_fft_tile *t, const float *z, int conjugate, float *a, float *b)
{
    for (int u = 0; u < t->ux; u++) {
        const float *p = z + (size_t)u * 2 * VL, *q = z + (size_t)(u ? t->tx - u : 0) * 2 * VL;
        const vf pr = vf_load(p), pi = vf_load(p + VL), qr = vf_load(q), qi = vf_load(q + VL);
        vf_store(a + (size_t)u * 2 * VL, vf_add(pr, qr));
        vf_store(a + (size_t)u * 2 * VL + VL, conjugate ? vf_sub(qi, pi) : vf_sub(pi, qi));
        if (b) {
            vf_store(b + (size_t)u * 2 * VL, vf_add(pi, qi));
            vf_store(b + (size_t)u * 2 * VL + VL, conjugate ? vf_sub(pr, qr) : vf_sub(qr, pr));
        }
    }
}

static void rows_forward(const cv_fft_tile *t, cv_fft_load *load, int conjugate, float *half, float *scratch)
{
    float *line = scratch, *z = line + line_pitch(t), *spare = z + line_pitch(t);
    loading g = loading_begin(load);
    for (int y = 0; y < load->rows; y += 2) {
        float *a = half + half_pitch(t) * y, *b = y + 1 < load->rows ? a + half_pitch(t) : NULL;
        load_row(&g, y, line);
        if (b)
            load_row(&g, y + 1, line + VL);
        else
            for (int x = 0; x < load->columns; x++)
                vf_store(line + (size_t)x * 2 * VL + VL, vf_zero());
        line_forward(&t->row, cvec_packed(line), load->columns, cvec_packed(z), spare);
        if (conjugate)
            separate(t, z, 1, a, b);
        else
            separate(t, z, 0, a, b);
    }
    vf_store_n(load->max, g.max, VL);
    vf_store_n(load->min, g.min, VL);
}

static cvec half_column(const cv_fft_tile *t, float *half, int u)
{
    float *at = half + (size_t)u * 2 * VL;
    return (cvec){at, at + VL, half_pitch(t), 0};
}

/* Conjugates go through the inverse transform: the conjugate of a forward transform is the inverse transform of the
 * conjugate. */
static void columns_forward(const cv_fft_tile *t, const float *half, int rows, int conjugate, cv_fft_spectrum out,
                            float *scratch)
{
    for (int u = 0; u < t->ux; u++) {
        const cvec in = half_column(t, (float *)half, u);
        cvec to = cvec_packed(out.at + u * out.step);
        to.stream = out.stream;
        line_forward(&t->column, conjugate ? cvec_swapped(in) : in, rows, conjugate ? cvec_swapped(to) : to, scratch);
    }
    if (out.stream)
        vf_stream_end();
}

static void columns_copy(const cv_fft_tile *t, const float *half, int rows, cv_fft_spectrum out)
{
    const ptrdiff_t pitch = half_pitch(t);
    for (int u = 0; u < t->ux; u++) {
        const float *from = half + (size_t)u * 2 * VL;
        float *to = out.at + u * out.step;
        for (int y = 0; y < rows; y++, from += pitch, to += 2 * VL) {
            const vf re = vf_load(from), im = vf_load(from + VL);
            if (out.stream) {
                vf_stream(to, re);
                vf_stream(to + VL, im);
            } else {
                vf_store(to, re);
                vf_store(to + VL, im);
            }
        }
    }
    if (out.stream)
        vf_stream_end();
}

static void columns_lines(const cv_fft_tile *t, const float *in, int rows, int64_t count, int conjugate, float *out,
                          float *scratch)
{
    for (int64_t i = 0; i < count; i++) {
        const cvec from = cvec_packed((float *)in + i * rows * 2 * VL);
        const cvec to = cvec_packed(out + i * cv_fft_column_floats(t, VL));
        line_forward(&t->column, conjugate ? cvec_swapped(from) : from, rows, conjugate ? cvec_swapped(to) : to,
                     scratch);
    }
}

static void columns_finish(const cv_fft_tile *t, const cv_fft_finish *f, float *scratch)
{
    float *line = scratch, *spare = line + line_pitch(t);
    for (int64_t i = 0; i < f->count; i++) {
        float *to = f->out + i * f->out_pitch;
        if (!f->stream) /* storing reads lines first: let that pass while the line is transformed */
            for (int v = 0; v < f->rows * 2 * VL; v += 16)
                vf_prefetch_l2(to + v);
        line_forward(&t->column, cvec_swapped(cvec_packed((float *)f->in + i * f->in_pitch)), t->ty,
                     cvec_swapped(cvec_packed(line)), spare);
        int at = f->first;
        for (int y = 0; y < f->rows; y++, to += 2 * VL) {
            const float *from = line + (size_t)at * 2 * VL;
            at += f->every;
            at -= at >= t->ty ? t->ty : 0;
            if (f->stream) {
                vf_stream(to, vf_load(from));
                vf_stream(to + VL, vf_load(from + VL));
            } else {
                vf_store(to, vf_load(from));
                vf_store(to + VL, vf_load(from + VL));
            }
        }
    }
    if (f->stream)
        vf_stream_end();
}

/* Lines of a far half-spectrum are asked for a few at a time between other work: a burst of them would fill the core's
 * miss buffers and make that work wait. AHEAD rows of a value u lie together and come one after the other, then those
 * of the next u. */
typedef struct fetching {
    const cv_fft_half *half;
    int y, rows, u, ux, line; /* the block of rows, all rows, where in the block */
} fetching;

static inline void fetch(fetching *f, int lines)
{
    if (f->y >= f->rows)
        return;
    const int left = f->rows - f->y, end = (left < AHEAD ? left : AHEAD) * 2 * VL;
    const float *at = f->half->at + f->u * f->half->column + f->y * f->half->row;
    for (int i = 0; i < lines; i++, f->line += 16) {
        if (f->line >= end) {
            f->line = 0;
            at += f->half->column;
            if (++f->u == f->ux) {
                f->u = 0;
                f->y += AHEAD;
                return;
            }
        }
        vf_prefetch_l2(at + f->line);
    }
}

/* Puts two half-spectra together as the transform of a + i*b; step: floats from one u to the next. The imaginary parts
 * at u = 0 and tx/2 are zero but for rounding. */
static void combine(const cv_fft_tile *t, const float *a, const float *b, int64_t step, float *z, fetching *next)
{
    for (int u = 0; u < t->ux; u++) {
        fetch(next, 2);
        const vf ar = vf_load(a + u * step), ai = vf_load(a + u * step + VL);
        const vf br = b ? vf_load(b + u * step) : vf_zero(), bi = b ? vf_load(b + u * step + VL) : vf_zero();
        float *p = z + (size_t)u * 2 * VL, *q = z + (size_t)(t->tx - u) * 2 * VL;
        if (u == 0 || 2 * u == t->tx) {
            vf_store(p, ar);
            vf_store(p + VL, br);
        } else {
            vf_store(p, vf_sub(ar, bi));
            vf_store(p + VL, vf_add(ai, br));
            vf_store(q, vf_add(ar, bi));
            vf_store(q + VL, vf_sub(br, ai));
        }
    }
}

/* A store under way: the lanes' factors, and the outputs that all lanes have, adjacent in y. */
typedef struct storing {
    const cv_fft_store *store;
    float *at[VL];
    int rows, columns;           /* of the largest lane */
    int full_rows, full_columns; /* of all lanes; 0 when the fast way is closed */
    int fetches;                 /* lines of the spectrum to ask for beside a block */
    vf scale, power, bias;
} storing;

static storing storing_begin(const cv_fft_store *store)
{
    storing g = {
        .store = store, .full_rows = store->lanes == VL && store->step_x == 1 ? 1 << 30 : 0, .full_columns = 1 << 30};
    float scale[VL] = {0}, power[VL] = {0}, bias[VL] = {0};
    for (int l = 0; l < store->lanes; l++) {
        const cv_fft_sink *s = &store->lane[l];
        scale[l] = s->scale;
        power[l] = s->power;
        bias[l] = s->bias;
        g.at[l] = s->plane + s->offset;
        g.rows = s->rows > g.rows ? s->rows : g.rows;
        g.columns = s->columns > g.columns ? s->columns : g.columns;
        g.full_rows = s->rows < g.full_rows ? s->rows : g.full_rows;
        g.full_columns = s->columns < g.full_columns ? s->columns : g.full_columns;
    }
    g.scale = vf_load(scale);
    g.power = vf_load(power);
    g.bias = vf_load(bias);
    return g;
}

/* Row i of the outputs, from a line whose real parts are VL floats every 2*VL. */
static void store_row(const cv_fft_tile *t, const storing *g, int i, const float *line, fetching *next)
{
    const cv_fft_store *store = g->store;
    const int first = (t->tx - store->cut_x) % t->tx, every = store->every_x;
    for (int block = 0; block < g->columns; block += VL) {
        int q = block;
        if (q + VL > g->columns && g->columns >= VL)
            q = g->columns - VL;
        vf m[VL];
        fetch(next, g->fetches);
        int at = (first + q * every) % t->tx;
        if (at + (VL - 1) * every < t->tx)
            CV_UNROLL for (int j = 0; j < VL; j++) m[j] = vf_load(line + (size_t)(at + j * every) * 2 * VL);
        else
            for (int j = 0; j < VL; j++, at = (at + every) % t->tx)
                m[j] = vf_load(line + (size_t)at * 2 * VL);
        CV_UNROLL for (int j = 0; j < VL; j++) m[j] = vf_fma(vf_mul(m[j], g->scale), g->power, g->bias);
        vf_transpose(m);
        if (i < g->full_rows && q + VL <= g->full_columns) {
            const ptrdiff_t to = i * store->step_y + q;
            CV_UNROLL for (int l = 0; l < VL; l++)
            {
                vf_store(g->at[l] + to, m[l]);
                vf_prefetch_l2(g->at[l] + to + 2 * store->step_y);
            }
            continue;
        }
        for (int l = 0; l < store->lanes; l++) {
            const cv_fft_sink *s = &store->lane[l];
            const int n = s->columns - q < VL ? s->columns - q : VL;
            if (i >= s->rows || n <= 0)
                continue;
            float *to = g->at[l] + (i * store->step_y + q * store->step_x);
            if (store->step_x == 1)
                vf_store_n(to, m[l], n);
            else
                vf_scatter_n(to, store->step_x, m[l], n);
        }
    }
}

static void rows_finish(const cv_fft_tile *t, const cv_fft_half *half, const cv_fft_store *store, float *scratch)
{
    float *line = scratch, *z = line + line_pitch(t), *spare = z + line_pitch(t);
    storing g = storing_begin(store);
    int at = half->first;
    fetching next = {.half = half, .rows = half->far ? g.rows : 0, .ux = t->ux};
    fetch(&next, AHEAD * 2 * VL / 16 * t->ux); /* the first block; from then on a block ahead */
    g.fetches = (t->ux * 4 * VL / 16 - t->ux * 2) / (2 * (g.columns / VL + 1)) + 1;
    for (int i = 0; i < g.rows; i += 2) {
        const float *a = half->at + half->row * at;
        at = (at + half->every) % half->rows;
        const float *b = i + 1 < g.rows ? half->at + half->row * at : NULL;
        at = (at + half->every) % half->rows;
        combine(t, a, b, half->column, z, &next);
        line_forward(&t->row, cvec_swapped(cvec_packed(z)), t->tx, cvec_swapped(cvec_packed(line)), spare);
        store_row(t, &g, i, line, &next);
        if (b)
            store_row(t, &g, i + 1, line + VL, &next);
    }
}

static void rows_inverse(const cv_fft_tile *t, const float *half, const cv_fft_store *store, float *scratch)
{
    const cv_fft_half from = {half, half_pitch(t), 2 * VL, (t->ty - store->cut_y) % t->ty, store->every_y, t->ty, 0};
    rows_finish(t, &from, store, scratch);
}

/* x *= f, n complex vectors; shared: f holds one value for all lanes. */
CV_INLINE void multiply(float *x, const float *f, int n, int shared)
{
    for (int v = 0; v < n; v++, x += 2 * VL, f += shared ? 2 : 2 * VL) {
        vf re = vf_load(x), im = vf_load(x + VL);
        twiddle(&re, &im, shared ? vf_set1(f[0]) : vf_load(f), shared ? vf_set1(f[1]) : vf_load(f + VL));
        vf_store(x, re);
        vf_store(x + VL, im);
    }
}

static void columns_pointwise(const cv_fft_tile *t, const float *half, int rows, cv_fft_factor kind,
                              const float *factor, int factor_rows, float *out, float *scratch)
{
    float *x = scratch, *w = x + line_pitch(t), *spare = w + line_pitch(t);
    for (int u = 0; u < t->ux; u++) {
        line_forward(&t->column, half_column(t, (float *)half, u), rows, cvec_packed(x), spare);
        if (kind == CV_FFT_ROWS) {
            line_forward(&t->column, cvec_swapped(half_column(t, (float *)factor, u)), factor_rows,
                         cvec_swapped(cvec_packed(w)), spare);
            multiply(x, w, t->ty, 0);
        } else if (kind == CV_FFT_LANEWISE)
            multiply(x, factor + (size_t)u * t->ty * 2 * VL, t->ty, 0);
        else
            multiply(x, factor + (size_t)u * t->ty * 2, t->ty, 1);
        line_forward(&t->column, cvec_swapped(cvec_packed(x)), t->ty, cvec_swapped(half_column(t, out, u)), spare);
    }
}

extern size_t CV_ISA_NAME(cv_fft_panel_floats)(int64_t rows, int64_t depth);
extern void CV_ISA_NAME(cv_fft_pack)(const cv_fft_product *product, int u, int v0, int v1, float *panels);
extern void CV_ISA_NAME(cv_fft_multiply)(const cv_fft_product *product, int u, int v0, int v1, const float *panels);

const cv_fft_kernels CV_ISA_NAME(cv_fft_kernels) = {
    .lanes = VL,
    .half_floats = half_floats,
    .line_floats = line_floats,
    .panel_floats = CV_ISA_NAME(cv_fft_panel_floats),
    .rows_forward = rows_forward,
    .columns_forward = columns_forward,
    .columns_copy = columns_copy,
    .columns_lines = columns_lines,
    .columns_finish = columns_finish,
    .rows_finish = rows_finish,
    .rows_inverse = rows_inverse,
    .columns_pointwise = columns_pointwise,
    .pack = CV_ISA_NAME(cv_fft_pack),
    .multiply = CV_ISA_NAME(cv_fft_multiply),
};
