/*
 * Tiles in shared memory, and the row and column passes of their two-dimensional real transforms.
 *
 * Shared memory holds CB channels of one tile. A row is TX reals; after its transform the same words hold TX/2 complex values,
 * real parts first, then imaginary parts, so the rows can be transformed in place and every access of a warp meets 32 banks:
 *   rows     thread = (channel, row l with row l + half): pitch = TX + 1 words is odd
 *   columns  thread = (kx, channel), channel fastest:     channel stride is 32/CB modulo 32
 * Two real rows ride in one complex transform and are told apart by its symmetry: with U = F(a + ib),
 * F(a)[k] = (U[k] + conj U[-k]) / 2 and F(b)[k] = (U[k] - conj U[-k]) / 2i, all inside the thread's registers. The halves are
 * left out in the row pass; the weights' scale makes up for them. Slot kx = 0 carries F[0] + i F[TX/2], both real.
 *
 * Sides above 32 are shared by two threads after a radix-2 step (decimation in frequency: thread j makes the outputs 2m + j, both
 * read all T inputs): half the registers, twice the warps. Mirrored outputs k and T - k stay with one thread.
 */
#ifndef CV_CUDA_FFT_TILE_CUH
#define CV_CUDA_FFT_TILE_CUH

#include "codelets.cuh"
#include "spectral.h"

#ifndef CV_SMALL_SIDES
#define CV_SMALL_SIDES(X) X(16) X(20) X(24) X(28) X(32)
#define CV_MIDDLE_SIDES(X) CV_SMALL_SIDES(X) X(36) X(40) X(48) X(54) X(56) X(60) X(64)
#define CV_LARGE_SIDES(X) X(16) X(32) X(48) X(64) X(72) X(80) X(96) X(112) X(128)
#endif
#ifndef CV_SPLIT_ABOVE
#define CV_SPLIT_ABOVE 32
#endif

/* A kernel's class by the larger side, the threads it is built for, and the blocks that should fit a multiprocessor then. */
__host__ __device__ inline int cv_tile_class(int ty, int tx)
{
    const int side = ty > tx ? ty : tx;
    return side <= 32 ? 0 : side <= 64 ? 1 : 2;
}
#define CV_THREADS(CLASS) (CLASS == 0 ? 128 : 256)
#ifndef CV_BLOCKS
#define CV_BLOCKS(CLASS) (CLASS == 0 ? 5 : CLASS == 1 ? 2 : 1)
#endif
/* Shared memory that a block of a class may ask for. */
constexpr int CV_SHARED_LIMIT = 140 * 1024;

template <int T> struct cv_side {
    static constexpr int SPLIT = T > CV_SPLIT_ABOVE ? 2 : 1, H = T / SPLIT;
};

/* Threads of a block: one for each share of a line, at most what the class has; the halves of a split line in different warps. */
inline int cv_tile_threads(int ty, int tx, int cb)
{
    const int side = ty > tx ? ty : tx, limit = cv_tile_class(ty, tx) == 0 ? 128 : 256, tasks = cb * side / (side > CV_SPLIT_ABOVE ? 1 : 2);
    const int threads = (tasks + 63) / 64 * 64;
    return threads < limit ? threads : limit;
}

/* The tasks of a pass: line, and share j of it. Both shares of a line come in the same round, so that all of a round can read a
 * line before any writes it. */
template <int T> struct cv_tasks {
    static constexpr int SPLIT = cv_side<T>::SPLIT;
    int step, j, first;
    __device__ cv_tasks()
    {
        step = blockDim.x / SPLIT;
        j = SPLIT == 1 ? 0 : threadIdx.x / step;
        first = threadIdx.x - j * step;
    }
};

/* Shared memory of a block: words between rows and between channels. */
struct cv_pitch {
    int row, chan;
};
__host__ __device__ inline cv_pitch cv_tile_pitch(int rows, int tx, int cb)
{
    cv_pitch t = {tx + 1, (rows * (tx + 1) + 31) / 32 * 32 + (cb == 1 ? 0 : 32 / cb)};
    return t;
}

/* (a, b) = U and its mirror -> the two spectra times 2, and back (exactly inverse but for that 2). */
CV_HD void cv_unpack(float2 &a, float2 &b)
{
    float2 u = a, m = b;
    a = cv_c(u.x + m.x, u.y - m.y);
    b = cv_c(u.y + m.y, m.x - u.x);
}
CV_HD void cv_pack(float2 &a, float2 &b)
{
    float2 s = a, t = b;
    a = cv_c(s.x - t.y, s.y + t.x);
    b = cv_c(s.x + t.y, t.x - s.y);
}

/* This thread's share of a T-point transform of at(0) .. at(T-1): on return v[m] is output SPLIT * m + j. */
template <int T, class At> __device__ __forceinline__ void cv_gather(float2 *v, int j, At at)
{
    constexpr int H = cv_side<T>::H;
    if (cv_side<T>::SPLIT == 1) {
#pragma unroll
        for (int i = 0; i < H; i++)
            v[i] = at(i);
    } else {
        constexpr cv_twiddles<T> tw = cv_make_twiddles<T>();
        if (j == 0) {
#pragma unroll
            for (int i = 0; i < H; i++)
                v[i] = at(i) + at(i + H);
        } else {
#pragma unroll
            for (int i = 0; i < H; i++)
                v[i] = cv_cmul(at(i) - at(i + H), tw.re[i], tw.im[i]);
        }
    }
}

/* Mirror pairs among a thread's outputs: pair(m, mirror of m) for each; zero(m) and half(m) for the outputs 0 and T/2. */
template <int T, class Pair, class Zero, class Half>
__device__ __forceinline__ void cv_mirrors(int j, Pair pair, Zero zero, Half half)
{
    constexpr int H = cv_side<T>::H, SPLIT = cv_side<T>::SPLIT;
    if (SPLIT == 1 || j == 0) {
        zero(0);
        if (H % 2 == 0)
            half(H / 2);
#pragma unroll
        for (int m = 1; m < (H + 1) / 2; m++)
            pair(m, H - m);
    } else {
        if (H % 2 == 1)
            half(H / 2);
#pragma unroll
        for (int m = 0; m < H / 2; m++)
            pair(m, H - 1 - m);
    }
}

/* Rows, real to complex, in place. Returns the largest magnitude this thread saw in its channel, NaN if there was one. */
template <int T>
__device__ __forceinline__ void cv_rows_forward(float *tile, cv_pitch pitch, int rows, int cb, unsigned *largest)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const int half = (rows + 1) / 2, lines = cb * half;
    const cv_tasks<T> mine;
    const int j = mine.j;
    for (int base = 0; base < lines; base += mine.step) {
        const int line = base + mine.first, chan = line / half, l = line - chan * half;
        const bool live = line < lines, both = l + half < rows;
        float *a = tile + chan * pitch.chan + l * pitch.row, *b = both ? a + half * pitch.row : a;
        float2 v[H];
        if (live) {
            float top = 0.0f;
            cv_gather<T>(v, j, [&](int i) {
                float2 z = cv_c(a[i], b[i]);
                asm("max.NaN.f32 %0, %0, %1;" : "+f"(top) : "f"(fabsf(z.x)));
                asm("max.NaN.f32 %0, %0, %1;" : "+f"(top) : "f"(fabsf(z.y)));
                return z;
            });
            atomicMax(largest + chan, __float_as_uint(top) & 0x7fffffffu);
        }
        if (SPLIT > 1)
            __syncthreads();
        if (!live)
            continue;
        cv_dft<H>::run(v);
        cv_mirrors<T>(
            j,
            [&](int m, int mirror) {
                cv_unpack(v[m], v[mirror]);
                const int k = SPLIT * m + j;
                a[k] = v[m].x;
                a[k + T / 2] = v[m].y;
                if (both) {
                    b[k] = v[mirror].x;
                    b[k + T / 2] = v[mirror].y;
                }
            },
            [&](int m) {
                a[0] = 2.0f * v[m].x;
                if (both)
                    b[0] = 2.0f * v[m].y;
            },
            [&](int m) {
                a[T / 2] = 2.0f * v[m].x;
                if (both)
                    b[T / 2] = 2.0f * v[m].y;
            });
    }
}

/* Rows, complex to real, in place: row l and row l + half of the result are real and imaginary part of one inverse. */
template <int T> __device__ __forceinline__ void cv_rows_inverse(float *tile, cv_pitch pitch, int rows, int cols, int cb)
{
    constexpr int SPLIT = cv_side<T>::SPLIT, H = cv_side<T>::H;
    const int half = (rows + 1) / 2, lines = cb * half;
    const cv_tasks<T> mine;
    const int j = mine.j;
    for (int base = 0; base < lines; base += mine.step) {
        const int line = base + mine.first, chan = line / half, l = line - chan * half;
        const bool live = line < lines, both = l + half < rows;
        float *a = tile + chan * pitch.chan + l * pitch.row, *b = both ? a + half * pitch.row : a;
        float2 v[H];
        if (live)
            cv_gather<T>(v, j, [&](int i) {
                if (i == 0 || i == T / 2)
                    return cv_c(b[i], a[i]);
                const int k = i < T / 2 ? i : T - i;
                float2 s = cv_c(a[k], a[k + T / 2]), t = cv_c(b[k], b[k + T / 2]);
                cv_pack(s, t);
                return i < T / 2 ? cv_c(s.y, s.x) : cv_c(t.y, t.x); /* exchanged: an inverse */
            });
        if (SPLIT > 1)
            __syncthreads();
        if (!live)
            continue;
        cv_dft<H>::run(v);
#pragma unroll
        for (int m = 0; m < H; m++) {
            const int i = SPLIT * m + j;
            if (i < cols) {
                a[i] = v[m].y;
                if (both)
                    b[i] = v[m].x;
            }
        }
    }
}

/* Calls f(side) with the side as a compile-time constant. A kernel is built for three classes of tiles, by the larger side: to 32
 * (few registers), to 64, and above, where the smaller side must be among the few of CV_LARGE_SIDES. */
template <int T> struct cv_const_side {
    static constexpr int value = T;
};
template <int CLASS, class F> __device__ __forceinline__ void cv_with_side(int side, F f)
{
#define CV_CASE(T)                                                                                                     \
    case T:                                                                                                            \
        f(cv_const_side<T>());                                                                                         \
        break;
    if constexpr (CLASS == 0) {
        switch (side) { CV_SMALL_SIDES(CV_CASE) }
    } else if constexpr (CLASS == 1) {
        switch (side) { CV_MIDDLE_SIDES(CV_CASE) }
    } else {
        switch (side) { CV_LARGE_SIDES(CV_CASE) }
    }
#undef CV_CASE
}

#endif
