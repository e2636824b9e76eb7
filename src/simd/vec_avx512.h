/* The vector vocabulary on AVX-512 (F, VL, DQ): 16 lanes, 32 registers. The words are defined in vec_scalar.h. */
#ifndef CV_VEC_AVX512_H
#define CV_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define VL 16

typedef __m512 vf;

static inline __mmask16 cv_mask_n(int n) { return (__mmask16)((1u << n) - 1u); }

static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_set1(float a) { return _mm512_set1_ps(a); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline vf vf_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(cv_mask_n(n), p); }
static inline void vf_store_n(float *p, vf a, int n) { _mm512_mask_storeu_ps(p, cv_mask_n(n), a); }
static inline void vf_fold_store(float *p, vf a)
{
    _mm256_storeu_ps(p, _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}
static inline void vf_stream(float *p, vf a) { _mm512_stream_ps(p, a); }

static inline void vf_stream_end(void) { _mm_sfence(); }

/* Offsets are 64-bit: a stride may be large or negative. */
static inline __m512i cv_offsets(int64_t first, int64_t stride)
{
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi64(_mm512_mullo_epi64(lane, _mm512_set1_epi64(stride)), _mm512_set1_epi64(first * stride));
}
static inline vf vf_gather_n(const float *p, int64_t stride, int n)
{
    const __mmask16 m = cv_mask_n(n);
    const __m256 z = _mm256_setzero_ps();
    __m256 lo = _mm512_mask_i64gather_ps(z, (__mmask8)m, cv_offsets(0, stride), p, 4);
    __m256 hi = _mm512_mask_i64gather_ps(z, (__mmask8)(m >> 8), cv_offsets(8, stride), p, 4);
    return _mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1);
}
static inline vf vf_gather(const float *p, int64_t stride) { return vf_gather_n(p, stride, 16); }
static inline void vf_scatter_n(float *p, int64_t stride, vf a, int n)
{
    const __mmask16 m = cv_mask_n(n);
    _mm512_mask_i64scatter_ps(p, (__mmask8)m, cv_offsets(0, stride), _mm512_castps512_ps256(a), 4);
    _mm512_mask_i64scatter_ps(p, (__mmask8)(m >> 8), cv_offsets(8, stride), _mm512_extractf32x8_ps(a, 1), 4);
}

/* Quarters of 128 bits come by loads; only the transposition within them takes shuffles. */
static inline void vf_columns(const float *const *p, int64_t at, const int quads, vf *out)
{
    vf m[4 * 4];
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < quads; i++) {
            const int64_t from = at + 4 * i;
            const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p[j] + from)),
                                                    _mm_loadu_ps(p[4 + j] + from), 1);
            const __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p[8 + j] + from)),
                                                     _mm_loadu_ps(p[12 + j] + from), 1);
            m[4 * i + j] = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
        }
    for (int i = 0; i < 4 * quads; i += 4) {
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(m[i], m[i + 1]));
        const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(m[i], m[i + 1]));
        const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(m[i + 2], m[i + 3]));
        const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(m[i + 2], m[i + 3]));
        out[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        out[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        out[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        out[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
}

typedef __mmask16 vm;
static inline vm vm_between(int64_t a, int64_t b)
{
    const int lo = a < 0 ? 0 : a > 16 ? 16 : (int)a, hi = b < 0 ? 0 : b > 16 ? 16 : (int)b;
    return (vm)(cv_mask_n(hi) & ~cv_mask_n(lo));
}
static inline vm vm_within(vf a, vf lo, vf hi)
{
    return _mm512_cmp_ps_mask(lo, a, _CMP_LE_OQ) & _mm512_cmp_ps_mask(a, hi, _CMP_LT_OQ);
}
static inline unsigned vf_outside(vf a, vf lo, vf hi)
{
    return _mm512_cmp_ps_mask(lo, a, _CMP_NLE_UQ) | _mm512_cmp_ps_mask(a, hi, _CMP_NLE_UQ);
}
static inline vf vf_load_m(const float *p, vm m) { return _mm512_maskz_loadu_ps(m, p); }
static inline vf vf_fma_m(vf a, vf b, vf c, vm m) { return _mm512_mask3_fmadd_ps(a, b, c, m); }

static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_neg(vf a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline float vf_hmax(vf a) { return _mm512_reduce_max_ps(a); }
static inline vf vf_load_between(const float *p, int a, int b)
{
    return _mm512_maskz_loadu_ps(cv_mask_n(b) & (__mmask16)~cv_mask_n(a), p);
}
static inline vf vf_maxmag(vf acc, vf a)
{
    __m512i mag = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(acc), mag));
}
static inline vf vf_minmag(vf acc, vf a)
{
    __m512i mag = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
    __mmask16 nonzero = _mm512_test_epi32_mask(mag, mag);
    return _mm512_castsi512_ps(_mm512_mask_min_epu32(_mm512_castps_si512(acc), nonzero, _mm512_castps_si512(acc), mag));
}
static inline vf vf_hold(vf a)
{
    __asm__("" : "+v"(a));
    return a;
}
static inline void vf_prefetch(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
static inline void vf_prefetch_l2(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

/* Four stages: 4-byte pairs, 8-byte pairs, then 128-bit quarters twice. */
static inline void vf_transpose(vf *m)
{
    vf t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(m[i], m[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(m[i], m[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
        __m512d c = _mm512_castps_pd(t[i + 2]), d = _mm512_castps_pd(t[i + 3]);
        m[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        m[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        m[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        m[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int h = 0; h < 16; h += 8)
        for (int i = 0; i < 4; i++) {
            t[h + i] = _mm512_shuffle_f32x4(m[h + i], m[h + i + 4], 0x88);
            t[h + i + 4] = _mm512_shuffle_f32x4(m[h + i], m[h + i + 4], 0xdd);
        }
    for (int i = 0; i < 8; i++) {
        m[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        m[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

#endif
