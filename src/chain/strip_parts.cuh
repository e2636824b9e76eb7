/* Parts of the strip kernel: a step's loads and FMAs, copies into shared memory, and walking planes piece by piece. */
#ifndef CV_STRIP_PARTS_CUH
#define CV_STRIP_PARTS_CUH

#include "alone.cuh"
#include "chain_async.cuh"
#include "divide.cuh"

enum { CV_STRIP_THREADS = 512 };

/* COUNT words, WIDE at a time: what is read beyond them is not used. */
template <int COUNT, int WIDE> __device__ __forceinline__ void cv_strip_load(float *v, const float *from)
{
#pragma unroll
    for (int i = 0; i < COUNT; i += WIDE) {
        if constexpr (WIDE == 4) {
            const float4 f = *(const float4 *)(from + i);
            v[i] = f.x, v[i + 1] = f.y, v[i + 2] = f.z, v[i + 3] = f.w;
        } else {
            const float2 f = *(const float2 *)(from + i);
            v[i] = f.x, v[i + 1] = f.y;
        }
    }
}

template <int QT, int UN, bool BY_TAPS, int WIDE>
__device__ __forceinline__ void cv_strip_step(float *acc, const float *walk, const float *window)
{
    float a[(UN + 3) / 4 * 4], b[(QT + UN + 2) / 4 * 4];
    cv_strip_load<UN, 4>(a, walk);
    cv_strip_load<QT + UN - 1, WIDE>(b, window);
#pragma unroll
    for (int u = 0; u < UN; ++u)
#pragma unroll
        for (int q = 0; q < QT; ++q)
            acc[q] = __fmaf_rn(a[u], b[BY_TAPS ? u + q : u - q + QT - 1], acc[q]);
}

/* Where word i of a walked row lies: every step at a multiple of 16 bytes. */
template <int UN> __device__ __forceinline__ int cv_strip_place(int i)
{
    constexpr int GAP = (UN + 3) / 4 * 4 - UN;
    return GAP == 0 ? i : i + i / UN * GAP;
}

/* A row to shared memory, lanes along its columns: cols of them, of which the first is column `first` of a row of
 * `live`; zeros beside those. UN: of the row's steps, if it is walked. For tensors of any strides. */
template <int UN>
__device__ __forceinline__ void cv_strip_copy_row(float *to, int cols, int lane, int lanes, const float *from,
                                                  long long stride, int first, int live)
{
#pragma unroll 1
    for (int i = lane; i < cols; i += lanes) {
        const bool inside = (unsigned)(first + i) < (unsigned)live;
        cv_cp4_or_zero(to + cv_strip_place<UN>(i), from + (inside ? (first + i) * stride : 0), inside);
    }
}

/* WORDS of a row without gaps. */
template <int WORDS> __device__ __forceinline__ void cv_strip_copy_words(float *to, const float *from)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if constexpr (WORDS == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(4 * WORDS) : "memory");
}

/* Planes without gaps, whatever their rows' length: a thread takes the pieces at, at + threads, ... of every plane, or
 * of each so-many-th where the block has threads for several planes. move = prepare(piece) does what depends on the
 * piece alone, move(plane) the rest. by_plane: of pieces. */
template <class Prepare>
__device__ __forceinline__ void cv_strip_pieces(int planes, const cv_divider &by_plane, Prepare prepare)
{
    const int together = max(1, cv_divide(blockDim.x, by_plane)), sub = cv_divide(threadIdx.x, by_plane);
#pragma unroll 1
    for (int at = threadIdx.x - sub * by_plane.d; at < by_plane.d && sub < together; at += blockDim.x) {
        const auto move = prepare(at);
#pragma unroll 2
        for (int plane = sub; plane < planes; plane += together)
            move(plane);
    }
}

template <int N> struct cv_strip_number {
    static constexpr int value = N;
};

/* Whether any of the words is not zero. */
__device__ __forceinline__ bool cv_strip_any(const float *rows, int count, int pitch, int cols)
{
    bool any = false;
#pragma unroll 1
    for (int i = 0; i < count && !any; ++i)
#pragma unroll 1
        for (int j = 0; j < cols; ++j)
            any |= rows[i * pitch + j] != 0.0f;
    return any;
}

#endif
