/* The per-bin complex product of the `fft` engine:
 *
 *   out[n][g][lane] = sum over c of row[n][c] * vector[g][c][lane]           (complex; n: rows, g: groups of VL lanes)
 *
 * with three real products a complex one: (a + ib)(c + id) = (p - q) + i(r - p - q), p = ac, q = bd, r = (a+b)(c+d).
 * The sums a+b and c+d are made in registers; on cores whose adders stand beside the multipliers (Zen 4) they are free.
 * The register tile is `block` rows by one group: 3*block accumulators (24 of 32 registers with 16 lanes), and a step
 * reads 2 vectors and 2*block broadcasts for 3*block multiply-adds. Rows are packed `block` at a time to [c][re of the
 * rows, im of the rows], one line of VL floats, so the inner loop reads two streams; the panel (DEPTH*VL*4 bytes, 16
 * KB) stays in L1 while the groups' vectors, L2 sized, pass by. Traffic a bin: rows once for every L2-full of vectors,
 * vectors and out once. */
#include "tile.h"
#include "simd/simd.h"

#define CV_INLINE static inline __attribute__((always_inline))

enum { DEPTH = 256, BLOCK = VL >= 2 ? VL / 2 : 1, LINE = 2 * BLOCK };

/* Rows n..n+count-1, columns c..c+depth-1, to panel. */
static void pack(const float *re, int64_t imaginary, int64_t pitch, int count, int64_t depth, float *panel)
{
#if VL == 1
    (void)pitch, (void)count;
    for (int64_t c = 0; c < depth; c++) {
        panel[2 * c] = re[c];
        panel[2 * c + 1] = re[imaginary + c];
    }
#else
    for (int64_t c = 0; c < depth; c += VL) {
        const int n = depth - c < VL ? (int)(depth - c) : VL;
        vf m[VL];
        for (int j = 0; j < BLOCK; j++) {
            const float *at = re + j * pitch + c;
            m[j] = j >= count ? vf_zero() : n == VL ? vf_load(at) : vf_load_n(at, n);
            m[BLOCK + j] = j >= count ? vf_zero() : n == VL ? vf_load(at + imaginary) : vf_load_n(at + imaginary, n);
        }
        vf_transpose(m);
        for (int i = 0; i < VL; i++)
            vf_store(panel + (c + i) * LINE, m[i]);
    }
#endif
}

/* N rows of the panel with one group. more: add to what out holds. */
#define CV_PRODUCT(N)                                                                                                  \
    static void product##N(const float *panel, const float *vector, int64_t depth, float *out, int64_t pitch,          \
                           int more)                                                                                   \
    {                                                                                                                  \
        vf p[N], q[N], r[N];                                                                                           \
        _Pragma("GCC unroll 8") for (int j = 0; j < N; j++) p[j] = q[j] = r[j] = vf_zero();                            \
        for (int64_t c = 0; c < depth; c++, panel += LINE, vector += 2 * VL) {                                         \
            const vf wr = vf_load(vector), wi = vf_load(vector + VL), ws = vf_add(wr, wi);                             \
            _Pragma("GCC unroll 8") for (int j = 0; j < N; j++)                                                        \
            {                                                                                                          \
                const vf xr = vf_set1(panel[j]), xi = vf_set1(panel[BLOCK + j]);                                       \
                p[j] = vf_fma(xr, wr, p[j]);                                                                           \
                q[j] = vf_fma(xi, wi, q[j]);                                                                           \
                r[j] = vf_fma(vf_add(xr, xi), ws, r[j]);                                                               \
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

static void product_rows(int n, const float *panel, const float *vector, int64_t depth, float *out, int64_t pitch,
                         int more)
{
    switch (n) {
#if VL >= 16
    case 8:
        product8(panel, vector, depth, out, pitch, more);
        break;
    case 7:
        product7(panel, vector, depth, out, pitch, more);
        break;
    case 6:
        product6(panel, vector, depth, out, pitch, more);
        break;
    case 5:
        product5(panel, vector, depth, out, pitch, more);
        break;
#endif
#if VL >= 8
    case 4:
        product4(panel, vector, depth, out, pitch, more);
        break;
    case 3:
        product3(panel, vector, depth, out, pitch, more);
        break;
    case 2:
        product2(panel, vector, depth, out, pitch, more);
        break;
#endif
    default:
        product1(panel, vector, depth, out, pitch, more);
        break;
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

size_t CV_ISA_NAME(cv_fft_product_floats)(void);
size_t CV_ISA_NAME(cv_fft_product_floats)(void) { return (size_t)(DEPTH + VL) * LINE; }

void CV_ISA_NAME(cv_fft_product)(const cv_fft_product *f, int64_t first_bin, int64_t last_bin, float *panel);
void CV_ISA_NAME(cv_fft_product)(const cv_fft_product *f, int64_t first_bin, int64_t last_bin, float *panel)
{
    /* Row blocks of nearly equal size: 50 rows go as 8,7,7,7,7,7,7 rather than six of 8 and one of 2. */
    const int64_t blocks = (f->rows + BLOCK - 1) / BLOCK;
    for (int64_t bin = first_bin; bin < last_bin; bin++)
        for (int64_t c = 0; c < f->depth; c += DEPTH) {
            const int64_t depth = least(DEPTH, f->depth - c);
            const int64_t fit = (int64_t)(f->l2_bytes / 2) / (depth * 2 * VL * (int64_t)sizeof(float)),
                          together = fit < 1 ? 1 : fit;
            for (int64_t g0 = 0; g0 < f->groups; g0 += together)
                for (int64_t b = 0; b < blocks; b++) {
                    const int64_t n0 = f->rows * b / blocks, n1 = f->rows * (b + 1) / blocks,
                                  g1 = least(f->groups, g0 + together);
                    pack(f->row + bin * f->row_step + n0 * f->row_pitch + c, f->row_imaginary, f->row_pitch,
                         (int)(n1 - n0), depth, panel);
                    for (int64_t g = g0; g < g1; g++)
                        product_rows((int)(n1 - n0), panel,
                                     f->vector + bin * f->vector_step + g * f->vector_pitch + c * 2 * VL, depth,
                                     f->out + bin * f->out_step + n0 * f->out_pitch + g * 2 * VL, f->out_pitch, c > 0);
                }
        }
}
