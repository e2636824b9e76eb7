/* The per-bin complex product of the `fft` engine:
 *
 *   out[n][g][lane] = sum over c of row[n][c] * vector[g][c][lane]           (complex; n: rows, g: groups of VL lanes)
 *
 * with three real products a complex one: (a + ib)(c + id) = (p - q) + i(r - p - q), p = ac, q = bd, r = (a+b)(c+d).
 * The rows' sums a+b are packed with them, the vectors' c+d made once for BLOCK rows. The register tile is BLOCK rows
 * by one group: 3*BLOCK accumulators (24 of 32 registers with 16 lanes, 12 of 16 with 8), and a step reads 2 vectors
 * and 3*BLOCK broadcasts, which are memory operands, for 3*BLOCK multiply-adds.
 *
 * A bin's values lie far apart, as a column's bins are together for the transforms. Rows are packed BLOCK at a time to
 * panels [v][block][c][re, im, re + im of the block's rows]. Vectors are read where they are: up to CV_FFT_DEPTH pairs
 * of lines of a group fit L1, over whose sets the odd column length spreads them, and serve all blocks of rows (packing
 * them too cost 4 %). Working on bin v asks for bin v + 1, which lies next to it.
 *
 * Packing and multiplying are apart, a column of bins each, so that the caller keeps panels or vectors in cache and
 * decides what comes again. Traffic of a multiplication: panels, vectors and results once; results twice when they are
 * added to. */
#include "tile.h"
#include "simd/simd.h"

enum { BLOCK = VL >= 2 ? VL / 2 : 1, LINE = 3 * BLOCK };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* n <= VL values from a lane on; what the vector at bin does not hold, the next lane group's does. */
static inline vf flat_load(const float *bin, int64_t column, int lane, int n)
{
    const int left = VL - lane;
    if (lane == 0 && n == VL)
        return vf_load(bin);
    const vf head = vf_load_n(bin + lane, n < left ? n : left);
    return n <= left ? head : vf_add(head, vf_load_between(bin + lane + (column - VL), left, n));
}

static int64_t blocks_of(int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }
static int64_t panel_floats(int64_t depth) { return (depth + VL - 1) / VL * VL * LINE; }
/* Blocks are of nearly equal size: 50 rows go as 8,7,7,7,7,7,7. */
static int64_t block_from(int64_t rows, int64_t blocks, int64_t b) { return rows * b / blocks; }

/* VL channels of a block of rows at one bin. at: the rows' first values' vector, lane: and lane there. */
static inline void pack_square(const float *const *at, const int *lane, int count, int n, int64_t column, float *panel)
{
    vf m[2 * BLOCK];
    for (int j = 0; j < BLOCK; j++) {
        const int there = j < count;
        m[j] = there ? flat_load(at[j], column, lane[j], n) : vf_zero();
        m[BLOCK + j] = there ? flat_load(at[j] + VL, column, lane[j], n) : vf_zero();
        if (there) {
            vf_prefetch_l2(at[j] + 2 * VL);
            vf_prefetch_l2(at[j] + 3 * VL);
        }
    }
#if VL == 1
    panel[0] = m[0];
    panel[1] = m[1];
    panel[2] = m[0] + m[1];
#else
    vf_transpose(m);
    for (int i = 0; i < VL; i++) {
        vf_store(panel + i * LINE, m[i]);
        vf_fold_store(panel + i * LINE + VL, m[i]);
    }
#endif
}

void CV_ISA_NAME(cv_fft_pack)(const cv_fft_product *f, int u, int v0, int v1, float *panels);
void CV_ISA_NAME(cv_fft_pack)(const cv_fft_product *f, int u, int v0, int v1, float *panels)
{
    const int64_t column = cv_fft_column_floats(f->tile, VL), blocks = blocks_of(f->rows);
    const float *bins = f->row + u * f->row_step + v0 * 2 * VL;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t from = block_from(f->rows, blocks, b), count = block_from(f->rows, blocks, b + 1) - from;
        for (int64_t c = 0; c < f->depth; c += VL) {
            const float *at[BLOCK];
            int lane[BLOCK];
            for (int64_t j = 0; j < BLOCK; j++) {
                const int64_t i = f->row_first + (from + (j < count ? j : 0)) * f->row_pitch + c;
                at[j] = bins + i / VL * column;
                lane[j] = (int)(i % VL);
            }
            float *panel = panels + b * panel_floats(f->depth) + c * LINE;
            for (int v = v0; v < v1; v++, panel += blocks * panel_floats(f->depth)) {
                pack_square(at, lane, (int)count, (int)least(VL, f->depth - c), column, panel);
                for (int j = 0; j < BLOCK; j++)
                    at[j] += 2 * VL;
            }
        }
    }
}

/* N rows of the panel with one group. more: add to what out holds. */
#define CV_PRODUCT(N)                                                                                                  \
    static void product##N(const float *panel, const float *vector, int64_t step, int64_t depth, float *out,           \
                           int64_t pitch, int more)                                                                    \
    {                                                                                                                  \
        vf p[N], q[N], r[N];                                                                                           \
        _Pragma("GCC unroll 8") for (int j = 0; j < N; j++)                                                            \
        {                                                                                                              \
            vf_prefetch(out + j * pitch);                                                                              \
            vf_prefetch(out + j * pitch + VL);                                                                         \
            p[j] = q[j] = r[j] = vf_zero();                                                                            \
        }                                                                                                              \
        for (int64_t c = 0; c < depth; c++, panel += LINE, vector += step) {                                           \
            const vf wr = vf_load(vector), wi = vf_load(vector + VL), ws = vf_add(wr, wi);                             \
            _Pragma("GCC unroll 8") for (int j = 0; j < N; j++)                                                        \
            {                                                                                                          \
                const vf xr = vf_set1(panel[j]), xi = vf_set1(panel[BLOCK + j]);                                       \
                const vf xs = vf_set1(panel[2 * BLOCK + j]);                                                           \
                p[j] = vf_fma(xr, wr, p[j]);                                                                           \
                q[j] = vf_fma(xi, wi, q[j]);                                                                           \
                r[j] = vf_fma(xs, ws, r[j]);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int j = 0; j < N; j++, out += pitch)                                              \
        {                                                                                                              \
            vf re = vf_sub(p[j], q[j]), im = vf_sub(vf_sub(r[j], p[j]), q[j]);                                         \
            if (more) {                                                                                                \
                re = vf_add(re, vf_load(out));                                                                         \
                im = vf_add(im, vf_load(out + VL));                                                                    \
            }                                                                                                          \
            vf_store(out, re);                                                                                         \
            vf_store(out + VL, im);                                                                                    \
        }                                                                                                              \
    }
CV_PRODUCT(1)
#if VL >= 8
CV_PRODUCT(2)
CV_PRODUCT(3)
CV_PRODUCT(4)
#endif
#if VL >= 16
CV_PRODUCT(5)
CV_PRODUCT(6)
CV_PRODUCT(7)
CV_PRODUCT(8)
#endif

typedef void (*product_fn)(const float *, const float *, int64_t, int64_t, float *, int64_t, int);
static const product_fn product_of[BLOCK] = {
    product1,
#if VL >= 8
    product2, product3, product4,
#endif
#if VL >= 16
    product5, product6, product7, product8,
#endif
};

size_t CV_ISA_NAME(cv_fft_panel_floats)(int64_t rows, int64_t depth);
size_t CV_ISA_NAME(cv_fft_panel_floats)(int64_t rows, int64_t depth)
{
    return (size_t)(blocks_of(rows) * panel_floats(depth));
}

void CV_ISA_NAME(cv_fft_multiply)(const cv_fft_product *f, int u, int v0, int v1, const float *panels);
void CV_ISA_NAME(cv_fft_multiply)(const cv_fft_product *f, int u, int v0, int v1, const float *panels)
{
    const int64_t column = cv_fft_column_floats(f->tile, VL), blocks = blocks_of(f->rows);
    for (int v = v0; v < v1; v++, panels += blocks * panel_floats(f->depth))
        for (int64_t g = 0; g < f->groups; g++) {
            const float *vector = f->vector + u * f->vector_step + v * 2 * VL + g * f->vector_pitch * column;
            float *out = f->out + v * 2 * VL + g * f->out_group;
            for (int64_t i = 0; i < f->depth; i++) {
                vf_prefetch_l2(vector + i * column + 2 * VL);
                vf_prefetch_l2(vector + i * column + 3 * VL);
            }
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t from = block_from(f->rows, blocks, b), to = block_from(f->rows, blocks, b + 1);
                product_of[to - from - 1](panels + b * panel_floats(f->depth), vector, column, f->depth,
                                          out + from * f->out_row, f->out_row, f->more);
            }
        }
}
