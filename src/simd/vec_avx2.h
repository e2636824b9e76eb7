/* The vector vocabulary on AVX2 + FMA: 8 lanes, 16 registers. The words are defined in vec_scalar.h. */
#ifndef CV_VEC_AVX2_H
#define CV_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define VL 8

typedef __m256 vf;

static inline __m256i cv_mask_n(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_set1(float a) { return _mm256_set1_ps(a); }
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline vf vf_load_n(const float *p, int n) { return _mm256_maskload_ps(p, cv_mask_n(n)); }
static inline void vf_store_n(float *p, vf a, int n) { _mm256_maskstore_ps(p, cv_mask_n(n), a); }
static inline void vf_fold_store(float *p, vf a)
{
    _mm_storeu_ps(p, _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1)));
}
static inline void vf_stream(float *p, vf a) { _mm256_stream_ps(p, a); }

static inline void vf_stream_end(void) { _mm_sfence(); }

/* Plain loads: AVX2's gather is no faster, and this never touches a lane past n. */
static inline vf vf_gather_n(const float *p, int64_t stride, int n)
{
    float lane[8] = {0};
    for (int i = 0; i < n; i++)
        lane[i] = p[i * stride];
    return _mm256_loadu_ps(lane);
}
static inline vf vf_gather(const float *p, int64_t stride)
{
    return _mm256_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride], p[4 * stride], p[5 * stride], p[6 * stride],
                          p[7 * stride]);
}
static inline void vf_scatter_n(float *p, int64_t stride, vf a, int n)
{
    float lane[8];
    _mm256_storeu_ps(lane, a);
    for (int i = 0; i < n; i++)
        p[i * stride] = lane[i];
}

static inline void vf_columns(const float *const *p, int64_t at, const int quads, vf *out)
{
    vf m[4 * 4];
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < quads; i++)
            m[4 * i + j] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p[j] + at + 4 * i)),
                                                _mm_loadu_ps(p[4 + j] + at + 4 * i), 1);
    for (int i = 0; i < 4 * quads; i += 4) {
        const vf a = _mm256_unpacklo_ps(m[i], m[i + 1]), b = _mm256_unpackhi_ps(m[i], m[i + 1]);
        const vf c = _mm256_unpacklo_ps(m[i + 2], m[i + 3]), d = _mm256_unpackhi_ps(m[i + 2], m[i + 3]);
        out[i] = _mm256_shuffle_ps(a, c, 0x44);
        out[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        out[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        out[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
}

typedef __m256i vm;
static inline vm vm_between(int64_t a, int64_t b)
{
    const int lo = a < 0 ? 0 : a > 8 ? 8 : (int)a, hi = b < 0 ? 0 : b > 8 ? 8 : (int)b;
    return _mm256_andnot_si256(cv_mask_n(lo), cv_mask_n(hi));
}
static inline vm vm_within(vf a, vf lo, vf hi)
{
    return _mm256_castps_si256(_mm256_and_ps(_mm256_cmp_ps(lo, a, _CMP_LE_OQ), _mm256_cmp_ps(a, hi, _CMP_LT_OQ)));
}
static inline unsigned vf_outside(vf a, vf lo, vf hi)
{
    return (unsigned)_mm256_movemask_ps(
        _mm256_or_ps(_mm256_cmp_ps(lo, a, _CMP_NLE_UQ), _mm256_cmp_ps(a, hi, _CMP_NLE_UQ)));
}
static inline vf vf_load_m(const float *p, vm m) { return _mm256_maskload_ps(p, m); }
static inline vf vf_fma_m(vf a, vf b, vf c, vm m)
{
    return _mm256_blendv_ps(c, _mm256_fmadd_ps(a, b, c), _mm256_castsi256_ps(m));
}

static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_neg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
static inline vf vf_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); }
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline float vf_hmax(vf a)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}
static inline vf vf_load_between(const float *p, int a, int b)
{
    return _mm256_maskload_ps(p, _mm256_andnot_si256(cv_mask_n(a), cv_mask_n(b)));
}
static inline vf vf_maxmag(vf acc, vf a)
{
    __m256i mag = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(acc), mag));
}
static inline vf vf_minmag(vf acc, vf a)
{
    __m256i mag = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffffff));
    mag = _mm256_or_si256(mag, _mm256_cmpeq_epi32(mag, _mm256_setzero_si256()));
    return _mm256_castsi256_ps(_mm256_min_epu32(_mm256_castps_si256(acc), mag));
}
static inline vf vf_hold(vf a)
{
    __asm__("" : "+x"(a));
    return a;
}
static inline void vf_prefetch(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
static inline void vf_prefetch_l2(const float *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }

static inline void vf_transpose(vf *m)
{
    vf t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(m[i], m[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(m[i], m[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        m[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        m[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        m[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        m[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(m[i], m[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(m[i], m[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++)
        m[i] = t[i];
}

#endif
