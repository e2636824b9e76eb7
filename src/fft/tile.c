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

static ptrdiff_t half_pitch(const cv_fft_tile *t)
{
    return (ptrdiff_t)(t->ux | 1) * 2 * VL;
} /* odd: columns spread over L1's sets */

static size_t half_floats(const cv_fft_tile *t) { return (size_t)(half_pitch(t) * t->ty); }

/* Two lines and two spare ones; columns_pointwise uses three lines. */
static size_t line_floats(const cv_fft_tile *t)
{
    const size_t longest = (size_t)(t->tx > t->ty ? t->tx : t->ty);
    return (longest + VL) * 2 * VL * 5;
}

static size_t line_pitch(const cv_fft_tile *t) { return line_floats(t) / 5; }

/* Loads from lane source s, row y, the VL columns from x on; both count from the cut. */
static vf load_lane(const cv_fft_load *load, const cv_fft_source *s, int y, int x)
{
    y += load->cut_y;
    x += load->cut_x;
    if (y < s->y0 || y >= s->y1 || x >= s->x1 || x + VL <= s->x0)
        return vf_zero();
    const float *at = s->plane + (s->offset + y * load->step_y + x * load->step_x);
    if (load->step_x == 1) {
        if (x >= s->x0 && x + VL <= s->x1)
            return vf_load(at);
        return vf_load_between(at, x < s->x0 ? s->x0 - x : 0, x + VL > s->x1 ? s->x1 - x : VL);
    }
    float lane[VL] = {0};
    for (int i = 0; i < VL; i++)
        if (x + i >= s->x0 && x + i < s->x1)
            lane[i] = at[i * load->step_x];
    return vf_load(lane);
}

/* Row y of every lane to line[x], real parts only: VL floats every 2*VL. */
static void load_row(const cv_fft_load *load, int y, float *line, vf scale, vf *max, vf *min)
{
    for (int x = 0; x < load->columns; x += VL) {
        vf m[VL];
        for (int l = 0; l < VL; l++)
            m[l] = l < load->lanes ? load_lane(load, &load->lane[l], y, x) : vf_zero();
        vf_transpose(m);
        for (int i = 0; i < VL; i++) { /* line has room for whole blocks */
            *max = vf_maxmag(*max, m[i]);
            if (min)
                *min = vf_minmag(*min, m[i]);
            vf_store(line + (size_t)(x + i) * 2 * VL, vf_mul(m[i], scale));
        }
    }
}

/* z is the transform of row a + i*b of two real rows: separates them into their own half-spectra, doubled. */
static void separate(const cv_fft_tile *t, const float *z, int conjugate, float *a, float *b)
{
    const vf sign = vf_set1(conjugate ? -1.0f : 1.0f);
    for (int u = 0; u < t->ux; u++) {
        const float *p = z + (size_t)u * 2 * VL, *q = z + (size_t)(u ? t->tx - u : 0) * 2 * VL;
        const vf pr = vf_load(p), pi = vf_load(p + VL), qr = vf_load(q), qi = vf_load(q + VL);
        vf_store(a + (size_t)u * 2 * VL, vf_add(pr, qr));
        vf_store(a + (size_t)u * 2 * VL + VL, vf_mul(sign, vf_sub(pi, qi)));
        if (b) {
            vf_store(b + (size_t)u * 2 * VL, vf_add(pi, qi));
            vf_store(b + (size_t)u * 2 * VL + VL, vf_mul(sign, vf_sub(qr, pr)));
        }
    }
}

static void rows_forward(const cv_fft_tile *t, cv_fft_load *load, int conjugate, float *half, float *scratch)
{
    float *line = scratch, *z = line + line_pitch(t), *spare = z + line_pitch(t);
    vf max = vf_zero(), min = vf_set1(1.0f / 0.0f), scale = vf_set1(1.0f);
    if (load->scale)
        scale = vf_load_n(load->scale, load->lanes);
    for (int y = 0; y < load->rows; y += 2) {
        float *a = half + half_pitch(t) * y, *b = y + 1 < load->rows ? a + half_pitch(t) : NULL;
        load_row(load, y, line, scale, &max, load->want_min ? &min : NULL);
        if (b)
            load_row(load, y + 1, line + VL, scale, &max, load->want_min ? &min : NULL);
        else
            for (int x = 0; x < load->columns; x++)
                vf_store(line + (size_t)x * 2 * VL + VL, vf_zero());
        line_forward(&t->row, cvec_packed(line), load->columns, cvec_packed(z), spare);
        separate(t, z, conjugate, a, b);
    }
    vf_store_n(load->max, max, VL);
    vf_store_n(load->min, min, VL);
}

static cvec half_column(const cv_fft_tile *t, float *half, int u)
{
    float *at = half + (size_t)u * 2 * VL;
    return (cvec){at, at + VL, half_pitch(t)};
}

/* Conjugates go through the inverse transform: the conjugate of a forward transform is the inverse transform of the
 * conjugate. */
static void columns_forward(const cv_fft_tile *t, const float *half, int rows, int conjugate, int stream,
                            cv_fft_spectrum out, float *scratch)
{
    float *line = scratch, *spare = scratch + line_pitch(t);
    for (int u = 0; u < t->ux; u++) {
        const cvec in = half_column(t, (float *)half, u);
        float *at = out.at + (int64_t)u * t->ty * out.step;
        const cvec to = stream ? cvec_packed(line) : (cvec){at, at + out.imaginary, out.step};
        line_forward(&t->column, conjugate ? cvec_swapped(in) : in, rows, conjugate ? cvec_swapped(to) : to, spare);
        if (stream)
            for (int v = 0; v < t->ty; v++, at += out.step) {
                vf_stream(at, vf_load(line + (size_t)v * 2 * VL));
                vf_stream(at + out.imaginary, vf_load(line + (size_t)v * 2 * VL + VL));
            }
    }
    if (stream)
        vf_stream_end();
}

static void columns_inverse(const cv_fft_tile *t, cv_fft_spectrum in, float *half, float *scratch)
{
    for (int u = 0; u < t->ux; u++) {
        float *at = in.at + (int64_t)u * t->ty * in.step;
        if (u + 1 < t->ux) /* bins lie pages apart: no prefetcher follows */
            for (int v = t->ty; v < 2 * t->ty; v++) {
                vf_prefetch(at + v * in.step);
                vf_prefetch(at + v * in.step + in.imaginary);
            }
        line_forward(&t->column, cvec_swapped((cvec){at, at + in.imaginary, in.step}), t->ty,
                     cvec_swapped(half_column(t, half, u)), scratch);
    }
}

/* Puts two half-spectra together as the transform of a + i*b. The imaginary parts at u = 0 and tx/2 are zero but for
 * rounding. */
static void combine(const cv_fft_tile *t, const float *a, const float *b, float *z)
{
    for (int u = 0; u < t->ux; u++) {
        const vf ar = vf_load(a + (size_t)u * 2 * VL), ai = vf_load(a + (size_t)u * 2 * VL + VL);
        const vf br = b ? vf_load(b + (size_t)u * 2 * VL) : vf_zero(),
                 bi = b ? vf_load(b + (size_t)u * 2 * VL + VL) : vf_zero();
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

/* Row i of the outputs, from a line whose real parts are VL floats every 2*VL. */
static void store_row(const cv_fft_tile *t, const cv_fft_store *store, int i, int columns, const float *line, vf scale,
                      vf power, vf bias)
{
    int at = -store->cut_x % t->tx;
    at += at < 0 ? t->tx : 0;
    for (int q = 0; q < columns; q += VL) {
        vf m[VL];
        for (int j = 0; j < VL; j++) {
            m[j] = vf_fma(vf_mul(vf_load(line + (size_t)at * 2 * VL), scale), power, bias);
            at += store->every_x;
            while (at >= t->tx)
                at -= t->tx;
        }
        vf_transpose(m);
        for (int l = 0; l < store->lanes; l++) {
            const cv_fft_sink *s = &store->lane[l];
            const int n = s->columns - q < VL ? s->columns - q : VL;
            if (i >= s->rows || n <= 0)
                continue;
            float *to = s->plane + (s->offset + i * store->step_y + q * store->step_x);
            if (store->step_x != 1)
                vf_scatter_n(to, store->step_x, m[l], n);
            else if (n == VL)
                vf_store(to, m[l]);
            else
                vf_store_n(to, m[l], n);
        }
    }
}

static void rows_inverse(const cv_fft_tile *t, const float *half, const cv_fft_store *store, float *scratch)
{
    float *line = scratch, *z = line + line_pitch(t), *spare = z + line_pitch(t);
    float scales[VL] = {0}, powers[VL] = {0}, biases[VL] = {0};
    int rows = 0, columns = 0;
    for (int l = 0; l < store->lanes; l++) {
        scales[l] = store->lane[l].scale;
        powers[l] = store->lane[l].power;
        biases[l] = store->lane[l].bias;
        rows = store->lane[l].rows > rows ? store->lane[l].rows : rows;
        columns = store->lane[l].columns > columns ? store->lane[l].columns : columns;
    }
    const vf scale = vf_load(scales), power = vf_load(powers), bias = vf_load(biases);
    int at = -store->cut_y % t->ty;
    at += at < 0 ? t->ty : 0;
    for (int i = 0; i < rows; i += 2) {
        const float *a = half + half_pitch(t) * at;
        at = (at + store->every_y) % t->ty;
        const float *b = i + 1 < rows ? half + half_pitch(t) * at : NULL;
        at = (at + store->every_y) % t->ty;
        combine(t, a, b, z);
        line_forward(&t->row, cvec_swapped(cvec_packed(z)), t->tx, cvec_swapped(cvec_packed(line)), spare);
        store_row(t, store, i, columns, line, scale, power, bias);
        if (b)
            store_row(t, store, i + 1, columns, line + VL, scale, power, bias);
    }
}

static void columns_pointwise(const cv_fft_tile *t, const float *half, int rows, cv_fft_factor kind,
                              const float *factor, int factor_rows, float *out, float *scratch)
{
    float *x = scratch, *w = x + line_pitch(t), *spare = w + line_pitch(t);
    for (int u = 0; u < t->ux; u++) {
        line_forward(&t->column, half_column(t, (float *)half, u), rows, cvec_packed(x), spare);
        const float *f = factor;
        if (kind == CV_FFT_ROWS) {
            line_forward(&t->column, cvec_swapped(half_column(t, (float *)factor, u)), factor_rows,
                         cvec_swapped(cvec_packed(w)), spare);
            f = w;
        } else if (kind == CV_FFT_LANEWISE)
            f = factor + (size_t)u * t->ty * 2 * VL;
        else
            f = factor + (size_t)u * t->ty * 2;
        for (int v = 0; v < t->ty; v++) {
            float *p = x + (size_t)v * 2 * VL;
            const vf fr = kind == CV_FFT_SHARED ? vf_set1(f[2 * v]) : vf_load(f + (size_t)v * 2 * VL);
            const vf fi = kind == CV_FFT_SHARED ? vf_set1(f[2 * v + 1]) : vf_load(f + (size_t)v * 2 * VL + VL);
            vf re = vf_load(p), im = vf_load(p + VL);
            twiddle(&re, &im, fr, fi);
            vf_store(p, re);
            vf_store(p + VL, im);
        }
        line_forward(&t->column, cvec_swapped(cvec_packed(x)), t->ty, cvec_swapped(half_column(t, out, u)), spare);
    }
}

extern void CV_ISA_NAME(cv_fft_product)(const cv_fft_product *product, int64_t first_bin, int64_t last_bin,
                                        float *scratch);
extern size_t CV_ISA_NAME(cv_fft_product_floats)(void);

const cv_fft_kernels CV_ISA_NAME(cv_fft_kernels) = {
    VL,
    half_floats,
    line_floats,
    CV_ISA_NAME(cv_fft_product_floats),
    rows_forward,
    columns_forward,
    columns_inverse,
    rows_inverse,
    columns_pointwise,
    CV_ISA_NAME(cv_fft_product),
};
