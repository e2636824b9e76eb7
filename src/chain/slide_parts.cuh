/* The pieces of the slide kernel (slide_kernel.cuh): taps in registers, tiles, and the copies that fill a stage. */
#ifndef CV_SLIDE_PARTS_CUH
#define CV_SLIDE_PARTS_CUH

#include <limits.h>

#include "alone.cuh"
#include "chain_async.cuh"
#include "chain_cuda.h"
#include "divide.cuh"

struct cv_slide_entry {
    int from, to, h, unused; /* element offset in x; float offset in the slot area; row h at r = 0 */
};

/* UN taps from s on: xv[j + u] is the window. */
template <int KT, int QT, int KB, int UN>
__device__ __forceinline__ void cv_slide_taps(float (&acc)[QT][KT], const float *xp, const float *wp)
{
    float xv[QT + UN - 1];
#pragma unroll
    for (int i = 0; i < QT + UN - 1; ++i)
        xv[i] = xp[i];
#pragma unroll
    for (int u = 0; u < UN; ++u) {
        float wv[KT];
#pragma unroll
        for (int v = 0; v < KT; v += 4) {
            float4 f = *(const float4 *)(wp + u * KB + (v / 4) * (KB / (KT / 4)));
            wv[v] = f.x, wv[v + 1] = f.y, wv[v + 2] = f.z, wv[v + 3] = f.w;
        }
#pragma unroll
        for (int j = 0; j < QT; ++j)
#pragma unroll
            for (int v = 0; v < KT; ++v) {
                int k = (j & 1) ? KT - 1 - v : v; /* there and back: the turn reuses an operand */
                acc[j][k] = __fmaf_rn(xv[u + j], wv[k], acc[j][k]);
            }
    }
}

/* One row's taps where columns are st_w or dil_w apart. x is stored by phases of st_w, so that the columns of one tap
 * are adjacent: column m of the slot lies at (m % st_w) * phase + m / st_w. */
template <int KT, int QT, int KB>
__device__ __forceinline__ void cv_slide_row_apart(float (&acc)[QT][KT], const float *xrow, const float *wp, int phase,
                                                   const cv_slide_args &a)
{
    int at = 0, ph = 0;
#pragma unroll 1
    for (int s = 0; s < a.S; ++s, wp += KB) {
        cv_slide_taps<KT, QT, KB, 1>(acc, xrow + ph * phase + at, wp);
        at += a.step_at;
        ph += a.step_ph;
        if (ph >= a.st_w) {
            ph -= a.st_w;
            ++at;
        }
    }
}

/* Where a tile lies: computed from its number alone, twice, so that nothing but offsets lives through the main loop. */
struct cv_slide_tile {
    int g, kb, i0, count, row_first, group_first, row_last;
};

template <int NB> __device__ __forceinline__ cv_slide_tile cv_slide_tile_of(const cv_slide_args &a, int job)
{
    cv_slide_tile t;
    /* tile -> group, k block, item block: `swizzle` item blocks go by under one k block before the next k block */
    t.g = cv_divide(job, a.by_group);
    const int in_group = job - t.g * a.by_group.d;
    const int band = cv_divide(in_group, a.by_band), in_band = in_group - band * a.by_band.d;
    const int width = min(a.swizzle, a.nib - band * a.swizzle);
    t.kb = width == a.swizzle ? cv_divide(in_band, a.by_swizzle) : cv_divide(in_band, a.by_last);
    t.i0 = (band * a.swizzle + in_band - t.kb * width) * NB;
    t.count = min(NB, a.items - t.i0);
    t.row_first = cv_divide(t.i0, a.by_tq);
    t.group_first = t.i0 - t.row_first * a.TQ;
    t.row_last = cv_divide(t.i0 + t.count - 1, a.by_tq);
    return t;
}

/* A thread's part of a tile. Lanes t and t^1 share w, t and t^2 share x: 16-byte shared loads then take half the
 * wavefronts. */
template <int TK> __device__ __forceinline__ int cv_slide_tk(int tid)
{
    return (tid >> 5) % (TK / 4) * 4 + ((tid >> 1) & 3);
}

template <int TK> __device__ __forceinline__ int cv_slide_item(int tid)
{
    return (tid >> 5) / (TK / 4) * 8 + (tid & 1) + ((tid & 31) >> 3 << 1);
}

/* Floats that one phase of a slot takes, for a number of items side by side: a multiple of 4. */
template <int QT> __device__ __forceinline__ int cv_slide_phase(const cv_slide_args &a, int items)
{
    return (items * QT + a.beyond + 3) & ~3;
}

/* The copy table: one entry a chunk of x for r = 0, c = 0; ANY: chunks outside the image too, which are filled with
 * zeros. Returns their number. */
template <int QT, int T, bool ANY>
__device__ __forceinline__ int cv_slide_copy_table(const cv_slide_args &a, const cv_slide_tile &t,
                                                   cv_slide_entry *table)
{
    const int shift = a.vec ? 2 : 0;
    int entries = 0, to = 0;
#pragma unroll 1
    for (int row = t.row_first; row <= t.row_last; ++row) {
        const int n = cv_divide(row, a.by_p), p = row - n * a.P;
        const int ga = row == t.row_first ? t.group_first : 0;
        const int gb = min(a.TQ, t.i0 + t.count - row * a.TQ);
        int c0 = ga * QT * a.st_w - a.pad_l, end = (gb * QT - 1) * a.st_w + (a.S - 1) * a.dil_w + 1 - a.pad_l;
        if (a.vec)
            c0 &= ~3;
        if (!ANY)
            end = min(end, a.W);
        const int chunks = (end - c0 + (1 << shift) - 1) >> shift;
        const int h = p * a.st_h - a.pad_t;
        const int from = (int)(n * a.xs_n + (long long)h * a.xs_h), phase = cv_slide_phase<QT>(a, gb - ga);
#pragma unroll 1
        for (int i = threadIdx.x; i < chunks; i += T) {
            const int m = i << shift, col = c0 + m;
            const bool in = !ANY || (unsigned)col < (unsigned)a.W;
            cv_slide_entry e;
            e.from = from + col * a.xs_w;
            e.to = to + (ANY && a.st_w > 1 ? m % a.st_w * phase + m / a.st_w : m);
            e.h = in ? h : INT_MIN / 2; /* no row of the image */
            e.unused = 0;
            table[entries + i] = e;
        }
        entries += chunks;
        to += phase * a.st_w;
    }
    return entries;
}

/* Enqueues the copies of one stage: rows cr .. cr + nr - 1 of (c, r). */
template <int KB, int T, bool ANY>
__device__ __forceinline__ void cv_slide_load(const cv_slide_args &a, const float *wg, const float *xg, int cr,
                                              float *ws, const cv_slide_entry *table, int entries)
{
    const int nr = min(a.nr, a.Cg * a.R - cr);
    const float *from_w = wg + (long long)cr * a.S * KB + threadIdx.x * 4;
    float *to_w = ws + threadIdx.x * 4;
#pragma unroll 1
    for (int left = nr * a.S * (KB / 4) - (int)threadIdx.x; left > 0; left -= 4 * T, from_w += 16 * T, to_w += 16 * T)
#pragma unroll
        for (int u = 0; u < 4; ++u)
            if (u * T < left)
                cv_cp16(to_w + u * 4 * T, from_w + u * 4 * T);
    float *xs = ws + a.nr * a.S * KB;
    const int per_row = 1 << a.row_shift; /* threads that copy one row */
#pragma unroll 1
    for (int row = threadIdx.x >> a.row_shift; row < nr; row += T >> a.row_shift) {
        const int c = cv_divide(cr + row, a.by_r), r = cr + row - c * a.R;
        const float *src = xg + c * a.xs_c + (long long)(r * a.dil_h) * a.xs_h;
        float *dst = xs + row * a.x_floats;
#pragma unroll 1
        for (int i = threadIdx.x & (per_row - 1); i < entries; i += per_row) {
            const cv_slide_entry t = table[i];
            const bool in = !ANY || (unsigned)(t.h + r * a.dil_h) < (unsigned)a.H;
            const float *from = in ? src + t.from : xg;
            if (a.vec)
                cv_cp16_or_zero(dst + t.to, from, in);
            else
                cv_cp4_or_zero(dst + t.to, from, in);
        }
    }
}

#endif
