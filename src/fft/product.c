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
 * [c][re, im, re + im of the rows], up to ROWS rows (for L2). Vectors are read where they are: the DEPTH pairs of lines
 * of a group fit L1, over whose sets the odd column length spreads them, and serve all blocks of rows (packing them too
 * cost 4 %). Working on bin v asks for bin v + 1, which lies next to it. Traffic: rows, vectors and results once. */
#include "tile.h"
#include "simd/simd.h"

enum { BLOCK = VL >= 2 ? VL / 2 : 1, LINE = 3 * BLOCK, DEPTH = 160, ROWS = 128, PANEL = (DEPTH + VL) * LINE };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Values i..i+n-1 (n <= VL) of the rows' flat order, at one bin. imaginary: 0 or VL. */
static inline vf flat_load(const float *bin, int64_t column, int64_t i, int n)
{
    const int lane = (int)(i % VL), left = VL - lane;
    const float *at = bin + i / VL * column + lane;
    if (lane == 0 && n == VL)
        return vf_load(at);
    const vf head = vf_load_n(at, n < left ? n : left);
    return n <= left ? head : vf_add(head, vf_load_between(at + (column - VL), left, n));
}

/* Rows n0..n0+count-1, columns c0..c0+depth-1, to panel; bin is the bin's first vector. */
static void pack_rows(const cv_fft_product *f, const float *bin, int64_t column, int64_t n0, int count, int64_t c0,
                      int64_t depth, float *panel)
{
    for (int64_t c = 0; c < depth; c += VL) {
        const int n = (int)least(VL, depth - c);
        vf m[2 * BLOCK];
        for (int j = 0; j < BLOCK; j++) {
            const int64_t i = f->row_first + (n0 + j) * f->row_pitch + c0 + c;
            const int there = j < count;
            m[j] = there ? flat_load(bin, column, i, n) : vf_zero();
            m[BLOCK + j] = there ? flat_load(bin + VL, column, i, n) : vf_zero();
            if (there) {
                vf_prefetch_l2(bin + i / VL * column + 2 * VL);
                vf_prefetch_l2(bin + i / VL * column + 3 * VL);
            }
        }
#if VL == 1
        panel[c * LINE] = m[0];
        panel[c * LINE + 1] = m[1];
        panel[c * LINE + 2] = m[0] + m[1];
#else
        vf_transpose(m);
        for (int i = 0; i < VL; i++) {
            vf_store(panel + (c + i) * LINE, m[i]);
            vf_fold_store(panel + (c + i) * LINE + VL, m[i]);
        }
#endif
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

size_t CV_ISA_NAME(cv_fft_product_floats)(void);
size_t CV_ISA_NAME(cv_fft_product_floats)(void) { return (size_t)((ROWS + BLOCK - 1) / BLOCK * PANEL); }

/* One bin, columns c..c+depth-1, rows n0..n1-1, which go in blocks of nearly equal size: 50 rows as 8,7,7,7,7,7,7. */
static void product_part(const cv_fft_product *f, int64_t n0, int64_t n1, int64_t c, int64_t depth, int64_t column,
                         const float *row, const float *vector, float *out, float *panels)
{
    const int64_t blocks = (n1 - n0 + BLOCK - 1) / BLOCK, pitch = f->groups * column;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t from = n0 + (n1 - n0) * b / blocks, to = n0 + (n1 - n0) * (b + 1) / blocks;
        pack_rows(f, row, column, from, (int)(to - from), c, depth, panels + b * PANEL);
    }
    for (int64_t g = 0; g < f->groups; g++) {
        const float *from_c = vector + (g * f->vector_pitch + c) * column;
        for (int64_t i = 0; i < depth; i++) {
            vf_prefetch_l2(from_c + i * column + 2 * VL);
            vf_prefetch_l2(from_c + i * column + 3 * VL);
        }
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t from = n0 + (n1 - n0) * b / blocks, to = n0 + (n1 - n0) * (b + 1) / blocks;
            product_of[to - from - 1](panels + b * PANEL, from_c, column, depth, out + from * pitch + g * column, pitch,
                                      f->more || c > 0);
        }
    }
}

void CV_ISA_NAME(cv_fft_product)(const cv_fft_product *f, int u, int v0, int v1, float *scratch);
void CV_ISA_NAME(cv_fft_product)(const cv_fft_product *f, int u, int v0, int v1, float *scratch)
{
    const int64_t column = cv_fft_column_floats(f->tile, VL);
    const int64_t parts = (f->depth + DEPTH - 1) / DEPTH, chunks = (f->rows + ROWS - 1) / ROWS;
    for (int v = v0; v < v1; v++) {
        const float *row = f->row + u * f->row_step + v * 2 * VL, *vector = f->vector + u * f->vector_step + v * 2 * VL;
        float *out = f->out + u * f->out_step + v * 2 * VL;
        for (int64_t i = 0; i < chunks; i++)
            for (int64_t j = 0; j < parts; j++) {
                const int64_t c0 = f->depth * j / parts, c1 = f->depth * (j + 1) / parts;
                product_part(f, f->rows * i / chunks, f->rows * (i + 1) / chunks, c0, c1 - c0, column, row, vector, out,
                             scratch);
            }
    }
}
