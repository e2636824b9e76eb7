/* Forward DFTs of 2 to 16 points on vectors held in registers: re[j] + i*im[j] are replaced by sum over j of W^(j*k)
 * x_j. A lane of the vectors is a transform of its own, so there is no shuffle anywhere. Inverse transforms come from
 * swapping re and im.
 *
 * Lengths with coprime factors (6, 10, 12, 15) use the prime-factor map, which needs no twiddles; 9 and 16 are 3x3 and
 * 4x4. */
#ifndef CV_FFT_BUTTERFLY_H
#define CV_FFT_BUTTERFLY_H

#include "simd/simd.h"

#define CV_INLINE static inline __attribute__((always_inline))

CV_INLINE void dft2(vf *re, vf *im)
{
    vf r = re[0], i = im[0];
    re[0] = vf_add(r, re[1]);
    im[0] = vf_add(i, im[1]);
    re[1] = vf_sub(r, re[1]);
    im[1] = vf_sub(i, im[1]);
}

CV_INLINE void dft3(vf *re, vf *im)
{
    const vf half = vf_set1(0.5f), sin60 = vf_set1(0.86602540378443864676f);
    vf sr = vf_add(re[1], re[2]), si = vf_add(im[1], im[2]);
    vf dr = vf_sub(re[1], re[2]), di = vf_sub(im[1], im[2]);
    vf mr = vf_fnma(half, sr, re[0]), mi = vf_fnma(half, si, im[0]);
    re[0] = vf_add(re[0], sr);
    im[0] = vf_add(im[0], si);
    re[1] = vf_fma(sin60, di, mr);
    im[1] = vf_fnma(sin60, dr, mi);
    re[2] = vf_fnma(sin60, di, mr);
    im[2] = vf_fma(sin60, dr, mi);
}

CV_INLINE void dft4(vf *re, vf *im)
{
    vf ar = vf_add(re[0], re[2]), ai = vf_add(im[0], im[2]);
    vf br = vf_sub(re[0], re[2]), bi = vf_sub(im[0], im[2]);
    vf cr = vf_add(re[1], re[3]), ci = vf_add(im[1], im[3]);
    vf dr = vf_sub(re[1], re[3]), di = vf_sub(im[1], im[3]);
    re[0] = vf_add(ar, cr);
    im[0] = vf_add(ai, ci);
    re[1] = vf_add(br, di);
    im[1] = vf_sub(bi, dr);
    re[2] = vf_sub(ar, cr);
    im[2] = vf_sub(ai, ci);
    re[3] = vf_sub(br, di);
    im[3] = vf_add(bi, dr);
}

CV_INLINE void dft5(vf *re, vf *im)
{
    const vf c1 = vf_set1(0.30901699437494742410f), c2 = vf_set1(-0.80901699437494742410f);
    const vf s1 = vf_set1(0.95105651629515357212f), s2 = vf_set1(0.58778525229247312917f);
    vf ar = vf_add(re[1], re[4]), ai = vf_add(im[1], im[4]), cr = vf_sub(re[1], re[4]), ci = vf_sub(im[1], im[4]);
    vf br = vf_add(re[2], re[3]), bi = vf_add(im[2], im[3]), dr = vf_sub(re[2], re[3]), di = vf_sub(im[2], im[3]);
    vf m1r = vf_fma(c2, br, vf_fma(c1, ar, re[0])), m1i = vf_fma(c2, bi, vf_fma(c1, ai, im[0]));
    vf m2r = vf_fma(c1, br, vf_fma(c2, ar, re[0])), m2i = vf_fma(c1, bi, vf_fma(c2, ai, im[0]));
    vf n1r = vf_fma(s2, dr, vf_mul(s1, cr)), n1i = vf_fma(s2, di, vf_mul(s1, ci));
    vf n2r = vf_fnma(s1, dr, vf_mul(s2, cr)), n2i = vf_fnma(s1, di, vf_mul(s2, ci));
    re[0] = vf_add(re[0], vf_add(ar, br));
    im[0] = vf_add(im[0], vf_add(ai, bi));
    re[1] = vf_add(m1r, n1i);
    im[1] = vf_sub(m1i, n1r);
    re[4] = vf_sub(m1r, n1i);
    im[4] = vf_add(m1i, n1r);
    re[2] = vf_add(m2r, n2i);
    im[2] = vf_sub(m2i, n2r);
    re[3] = vf_sub(m2r, n2i);
    im[3] = vf_add(m2i, n2r);
}

CV_INLINE void dft8(vf *re, vf *im)
{
    const vf h = vf_set1(0.70710678118654752440f);
    vf er[4] = {re[0], re[2], re[4], re[6]}, ei[4] = {im[0], im[2], im[4], im[6]};
    vf pr[4] = {re[1], re[3], re[5], re[7]}, pi[4] = {im[1], im[3], im[5], im[7]};
    dft4(er, ei);
    dft4(pr, pi);
    vf s1 = vf_add(pr[1], pi[1]), d1 = vf_sub(pi[1], pr[1]); /* W8 * p1 = h * (s1 + i d1) */
    vf d3 = vf_sub(pi[3], pr[3]), s3 = vf_add(pr[3], pi[3]); /* W8^3 * p3 = h * (d3 - i s3) */
    re[0] = vf_add(er[0], pr[0]);
    im[0] = vf_add(ei[0], pi[0]);
    re[4] = vf_sub(er[0], pr[0]);
    im[4] = vf_sub(ei[0], pi[0]);
    re[1] = vf_fma(h, s1, er[1]);
    im[1] = vf_fma(h, d1, ei[1]);
    re[5] = vf_fnma(h, s1, er[1]);
    im[5] = vf_fnma(h, d1, ei[1]);
    re[2] = vf_add(er[2], pi[2]);
    im[2] = vf_sub(ei[2], pr[2]);
    re[6] = vf_sub(er[2], pi[2]);
    im[6] = vf_add(ei[2], pr[2]);
    re[3] = vf_fma(h, d3, er[3]);
    im[3] = vf_fnma(h, s3, ei[3]);
    re[7] = vf_fnma(h, d3, er[3]);
    im[7] = vf_fma(h, s3, ei[3]);
}

/* N = A*B, A and B coprime: input (B*a + A*b) mod N, output the k with k mod A and k mod B given: EA*ka + EB*kb mod N.
 */
#define CV_PRIME_FACTOR(N, A, B, EA, EB)                                                                               \
    CV_INLINE void dft##N(vf *re, vf *im)                                                                              \
    {                                                                                                                  \
        vf r[B][A], i[B][A];                                                                                           \
        _Pragma("GCC unroll 16") for (int b = 0; b < B; b++)                                                           \
        {                                                                                                              \
            _Pragma("GCC unroll 16") for (int a = 0; a < A; a++)                                                       \
            {                                                                                                          \
                r[b][a] = re[(B * a + A * b) % N];                                                                     \
                i[b][a] = im[(B * a + A * b) % N];                                                                     \
            }                                                                                                          \
            dft##A(r[b], i[b]);                                                                                        \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int a = 0; a < A; a++)                                                           \
        {                                                                                                              \
            vf tr[B], ti[B];                                                                                           \
            _Pragma("GCC unroll 16") for (int b = 0; b < B; b++)                                                       \
            {                                                                                                          \
                tr[b] = r[b][a];                                                                                       \
                ti[b] = i[b][a];                                                                                       \
            }                                                                                                          \
            dft##B(tr, ti);                                                                                            \
            _Pragma("GCC unroll 16") for (int b = 0; b < B; b++)                                                       \
            {                                                                                                          \
                re[(EA * a + EB * b) % N] = tr[b];                                                                     \
                im[(EA * a + EB * b) % N] = ti[b];                                                                     \
            }                                                                                                          \
        }                                                                                                              \
    }

CV_PRIME_FACTOR(6, 2, 3, 3, 4)
CV_PRIME_FACTOR(10, 2, 5, 5, 6)
CV_PRIME_FACTOR(12, 4, 3, 9, 4)
CV_PRIME_FACTOR(15, 3, 5, 10, 6)

/* (r + i*s) * (c + i*d) */
CV_INLINE void twiddle(vf *re, vf *im, vf c, vf d)
{
    vf r = vf_fms(*re, c, vf_mul(*im, d));
    *im = vf_fma(*re, d, vf_mul(*im, c));
    *re = r;
}

/* N = A*A: DFTs over the stride-A subsets, twiddles W^(a*b), DFTs across. */
#define CV_SQUARE(N, A)                                                                                                \
    CV_INLINE void dft##N(vf *re, vf *im)                                                                              \
    {                                                                                                                  \
        vf r[A][A], i[A][A];                                                                                           \
        _Pragma("GCC unroll 16") for (int a = 0; a < A; a++)                                                           \
        {                                                                                                              \
            _Pragma("GCC unroll 16") for (int b = 0; b < A; b++)                                                       \
            {                                                                                                          \
                r[a][b] = re[a + A * b];                                                                               \
                i[a][b] = im[a + A * b];                                                                               \
            }                                                                                                          \
            dft##A(r[a], i[a]);                                                                                        \
            _Pragma("GCC unroll 16") for (int b = 1; b < A; b++) if (a > 0)                                            \
                twiddle(&r[a][b], &i[a][b], vf_set1(cv_root##N[a * b][0]), vf_set1(cv_root##N[a * b][1]));             \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int b = 0; b < A; b++)                                                           \
        {                                                                                                              \
            vf tr[A], ti[A];                                                                                           \
            _Pragma("GCC unroll 16") for (int a = 0; a < A; a++)                                                       \
            {                                                                                                          \
                tr[a] = r[a][b];                                                                                       \
                ti[a] = i[a][b];                                                                                       \
            }                                                                                                          \
            dft##A(tr, ti);                                                                                            \
            _Pragma("GCC unroll 16") for (int a = 0; a < A; a++)                                                       \
            {                                                                                                          \
                re[b + A * a] = tr[a];                                                                                 \
                im[b + A * a] = ti[a];                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

/* exp(-2 pi i j / N) */
static const float cv_root9[5][2] = {{1.0f, 0.0f},
                                     {0.76604444311897803520f, -0.64278760968653932632f},
                                     {0.17364817766693034885f, -0.98480775301220805937f},
                                     {-0.5f, -0.86602540378443864676f},
                                     {-0.93969262078590838405f, -0.34202014332566873304f}};
static const float cv_root16[10][2] = {{1.0f, 0.0f},
                                       {0.92387953251128675613f, -0.38268343236508977173f},
                                       {0.70710678118654752440f, -0.70710678118654752440f},
                                       {0.38268343236508977173f, -0.92387953251128675613f},
                                       {0.0f, -1.0f},
                                       {-0.38268343236508977173f, -0.92387953251128675613f},
                                       {-0.70710678118654752440f, -0.70710678118654752440f},
                                       {-0.92387953251128675613f, -0.38268343236508977173f},
                                       {-1.0f, 0.0f},
                                       {-0.92387953251128675613f, 0.38268343236508977173f}};
CV_SQUARE(9, 3)
CV_SQUARE(16, 4)

#endif
