/*
 * Lines of tiles: reading rows and columns into a thread's registers, writing them back, and the two passes over rows.
 * See tile.cuh for where they lie in shared memory.
 */
#ifndef CV_CUDA_FFT_LINES_CUH
#define CV_CUDA_FFT_LINES_CUH

#include "tile.cuh"

/* N words of a row, 16 bytes at a time; reading may run into the row's padding, writing ends with 8 bytes where N asks
 * for it. */
template <int N> __device__ __forceinline__ void cv_read_row(float *v, const float *row)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 q = *(const float4 *)(row + i);
        const float four[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (i + e < N)
                v[i + e] = four[e];
    }
}
template <int N> __device__ __forceinline__ void cv_write_row(float *row, const float *v)
{
#pragma unroll
    for (int i = 0; i + 4 <= N; i += 4)
        *(float4 *)(row + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
    if (N % 4)
        *(float2 *)(row + N - 2) = make_float2(v[N - 2], v[N - 1]);
}

__device__ __forceinline__ float cv_max_nan(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(fabsf(b)));
    return r;
}

/* Rows, real to complex: reads two rows as one complex line; of the columns only the first half may live (half).
 * Returns the largest magnitude, NaN if there was one. */
template <int T>
__device__ __forceinline__ float cv_read_reals(float2 *v, int j, const float *a, const float *b, bool half)
{
    float top = 0.0f;
    if constexpr (cv_side<T>::SPLIT == 1) {
        auto take = [&](auto live) {
            constexpr int LIVE = decltype(live)::value;
            float re[LIVE], im[LIVE];
            cv_read_row<LIVE>(re, a);
            cv_read_row<LIVE>(im, b);
#pragma unroll
            for (int i = 0; i < LIVE; i++) {
                v[i] = cv_c(re[i], im[i]);
                top = cv_max_nan(cv_max_nan(top, re[i]), im[i]);
            }
        };
        if (half)
            take(cv_const_side<T / 2>());
        else
            take(cv_const_side<T>());
    } else {
        cv_gather<T>(v, j, [&](int i) {
            const float2 z = cv_c(a[i], b[i]);
            top = cv_max_nan(cv_max_nan(top, z.x), z.y);
            return z;
        });
    }
    return top;
}

/* ... and writes the spectra of the two rows (of the first only unless both). */
template <int T> __device__ __forceinline__ void cv_write_spectra(float2 *v, int j, float *a, float *b, bool both)
{
    constexpr int SPLIT = cv_side<T>::SPLIT;
    if constexpr (SPLIT == 1) {
        float s[T], t[T];
        s[0] = 2.0f * v[0].x, s[1] = 2.0f * v[T / 2].x;
        t[0] = 2.0f * v[0].y, t[1] = 2.0f * v[T / 2].y;
#pragma unroll
        for (int k = 1; k < T / 2; k++) {
            cv_unpack(v[k], v[T - k]);
            s[2 * k] = v[k].x, s[2 * k + 1] = v[k].y;
            t[2 * k] = v[T - k].x, t[2 * k + 1] = v[T - k].y;
        }
        cv_write_row<T>(a, s);
        if (both)
            cv_write_row<T>(b, t);
    } else {
        float2 *s = (float2 *)a, *t = (float2 *)b;
        cv_mirrors<T>(
            j,
            [&](int m, int mirror) {
                cv_unpack(v[m], v[mirror]);
                s[SPLIT * m + j] = v[m];
                if (both)
                    t[SPLIT * m + j] = v[mirror];
            },
            [&](int m) {
                a[0] = 2.0f * v[m].x;
                if (both)
                    b[0] = 2.0f * v[m].y;
            },
            [&](int m) {
                a[1] = 2.0f * v[m].x;
                if (both)
                    b[1] = 2.0f * v[m].y;
            });
    }
}

/* Rows, complex to real: reads the spectra of two rows as the spectrum of one complex line, real and imaginary part
 * exchanged for an inverse ... */
template <int T> __device__ __forceinline__ void cv_read_spectra(float2 *v, int j, const float *a, const float *b)
{
    if constexpr (cv_side<T>::SPLIT == 1) {
        float s[T], t[T];
        cv_read_row<T>(s, a);
        cv_read_row<T>(t, b);
        v[0] = cv_c(t[0], s[0]);
        v[T / 2] = cv_c(t[1], s[1]);
#pragma unroll
        for (int k = 1; k < T / 2; k++) {
            float2 p = cv_c(s[2 * k], s[2 * k + 1]), q = cv_c(t[2 * k], t[2 * k + 1]);
            cv_pack(p, q);
            v[k] = cv_c(p.y, p.x);
            v[T - k] = cv_c(q.y, q.x);
        }
    } else {
        cv_gather<T>(v, j, [&](int i) {
            if (i == 0 || i == T / 2)
                return cv_c(b[i != 0], a[i != 0]);
            const int k = i < T / 2 ? i : T - i;
            float2 p = ((const float2 *)a)[k], q = ((const float2 *)b)[k];
            cv_pack(p, q);
            return i < T / 2 ? cv_c(p.y, p.x) : cv_c(q.y, q.x);
        });
    }
}

/* ... and writes the two real rows. */
template <int T> __device__ __forceinline__ void cv_write_reals(const float2 *v, int j, float *a, float *b, bool both)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    if constexpr (SPLIT == 1) {
        float s[T], t[T];
#pragma unroll
        for (int i = 0; i < T; i++)
            s[i] = v[i].y, t[i] = v[i].x;
        cv_write_row<T>(a, s);
        if (both)
            cv_write_row<T>(b, t);
    } else {
#pragma unroll
        for (int m = 0; m < H; m++) {
            a[SPLIT * m + j] = v[m].y;
            if (both)
                b[SPLIT * m + j] = v[m].x;
        }
    }
}

/* The transform itself; half: the second half of its inputs is zero (and not read). */
template <int T> __device__ __forceinline__ void cv_transform(float2 *v, bool half)
{
    constexpr int H = cv_side<T>::H;
    if (cv_side<T>::SPLIT == 1 && half)
        cv_dft_half<H>::run(v);
    else
        cv_dft<H>::run(v);
}

/* Two rows that share a transform. */
struct cv_row_pair {
    int chan;
    bool both;
    float *a, *b;
    __device__ cv_row_pair(float *tile, cv_pitch pitch, int rows, int line)
    {
        const int half = (rows + 1) / 2, l = line % half;
        chan = line / half;
        both = l + half < rows;
        a = tile + chan * pitch.chan + l * pitch.row;
        b = both ? a + half * pitch.row : a;
    }
};

/* Rows, real to complex, in place; HALF: only the first T/2 columns are not zero. Raises largest[channel] to the
 * largest magnitude seen, as the bits of a float; a NaN is the largest of all. */
template <int T, bool HALF>
__device__ __forceinline__ void cv_rows_forward(float *tile, cv_pitch pitch, int rows, int cb, unsigned *largest)
{
    const cv_tasks<T> mine;
    for (int base = 0; base < cb * ((rows + 1) / 2); base += mine.step) {
        const int line = base + mine.first;
        const cv_row_pair pair(tile, pitch, rows, line);
        const bool live = line < cb * ((rows + 1) / 2);
        float2 v[cv_side<T>::H];
        if (live) {
            const float top = cv_read_reals<T>(v, mine.j, pair.a, pair.b, HALF);
            atomicMax(largest + pair.chan, __float_as_uint(top) & 0x7fffffffu);
        }
        if (cv_side<T>::SPLIT > 1)
            __syncthreads();
        if (!live)
            continue;
        cv_transform<T>(v, HALF);
        cv_write_spectra<T>(v, mine.j, pair.a, pair.b, pair.both);
    }
}

/* Rows, complex to real, in place: row l and row l + half of the result are real and imaginary part of one inverse. */
template <int T> __device__ __forceinline__ void cv_rows_inverse(float *tile, cv_pitch pitch, int rows, int cb)
{
    const cv_tasks<T> mine;
    for (int base = 0; base < cb * ((rows + 1) / 2); base += mine.step) {
        const int line = base + mine.first;
        const cv_row_pair pair(tile, pitch, rows, line);
        const bool live = line < cb * ((rows + 1) / 2);
        float2 v[cv_side<T>::H];
        if (live)
            cv_read_spectra<T>(v, mine.j, pair.a, pair.b);
        if (cv_side<T>::SPLIT > 1)
            __syncthreads();
        if (!live)
            continue;
        cv_transform<T>(v, false);
        cv_write_reals<T>(v, mine.j, pair.a, pair.b, pair.both);
    }
}

#endif
