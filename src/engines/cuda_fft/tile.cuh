/*
 * Tiles in shared memory, and the row passes of their two-dimensional real transforms.
 *
 * Shared memory holds CB channels of one tile. A row is TX reals; after its transform the same words hold TX/2 complex
 * values, so rows are transformed in place. A thread takes two rows, l and l + half, as real and imaginary part of one
 * complex transform, and tells them apart by symmetry: with U = F(a + ib), F(a)[k] = (U[k] + conj U[-k]) / 2 and
 * F(b)[k] = (U[k] - conj U[-k]) / 2i, all inside its registers. The halves are left out; the inverse's scale makes up
 * for them. Slot kx = 0 carries F[0] + i F[TX/2], which are both real.
 *
 * Banks: a row's pitch is an odd multiple of 4 words, so that eight threads' 16-byte accesses to eight rows meet 32
 * banks; the channel stride is 32/CB modulo 32, so that a column pass with lanes (channel, kx), channel fastest, meets
 * 32 banks by 8 bytes.
 *
 * A side above 64 does not fit the registers of one thread: two threads do T/2 points each after a radix-2 step
 * (decimation in frequency: thread j makes the outputs 2m + j, both read all T inputs). Mirrored outputs k and T - k
 * stay with one thread.
 */
#ifndef CV_CUDA_FFT_TILE_CUH
#define CV_CUDA_FFT_TILE_CUH

#include "codelets.cuh"
#include "spectral.h"

#ifndef CV_SIDES_0
#define CV_SIDES_0(X) X(16) X(24) X(28) X(32)
#define CV_SIDES_1(X) X(16) X(32) X(36) X(40) X(48)
#define CV_SIDES_2(X) X(32) X(48) X(54) X(56) X(60) X(64)
#define CV_SIDES_3(X) X(32) X(48) X(64) X(72) X(80) X(96) X(112) X(128)
#endif

/* A kernel's class by the larger side (that is, by the registers a line takes), the threads it is built for, and the
 * blocks that should fit a multiprocessor then. */
constexpr int CV_CLASSES = 4;
__host__ __device__ inline int cv_tile_class(int ty, int tx)
{
    const int side = ty > tx ? ty : tx;
    return side <= 32 ? 0 : side <= 48 ? 1 : side <= 64 ? 2 : 3;
}
#define CV_THREADS(CLASS) ((CLASS) == 3 ? 256 : 128)
#define CV_BLOCKS(CLASS) ((CLASS) == 0 ? 5 : (CLASS) == 1 ? 4 : (CLASS) == 2 ? 3 : 1)
/* Shared memory that a block of a class may ask for. */
constexpr int CV_SHARED_LIMIT = 144 * 1024;

template <int T> struct cv_side {
    static constexpr int SPLIT = T > 64 ? 2 : 1, H = T / SPLIT;
};

/* Threads of a block: one for each share of a line, at most what the class has; the shares of a split line in different
 * warps. */
inline int cv_tile_threads(int ty, int tx, int cb)
{
    const int side = ty > tx ? ty : tx, limit = CV_THREADS(cv_tile_class(ty, tx));
    const int unit = side > 64 ? 64 : 32, threads = (cb * side / (side > 64 ? 1 : 2) + unit - 1) / unit * unit;
    return threads < limit ? threads : limit;
}

/* The lines of a pass that a thread takes, and which share j of them. Both shares of a line come in the same round, so
 * that all of a round can read before any writes. */
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
    cv_pitch t;
    t.row = (tx + 3) / 4 * 4 + ((tx + 3) / 4 % 2 ? 0 : 4);
    t.chan = (rows * t.row + 31) / 32 * 32 + (cb == 1 ? 0 : cb > 8 ? 4 : 32 / cb);
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

/* This thread's share of a T-point transform of at(0) .. at(T-1): on return v[m] is input m of the H-point transform
 * that makes the outputs SPLIT * m + j. */
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

/* Mirror pairs among a thread's outputs: pair(m, mirror of m) for each; zero(m) and half(m) for the outputs 0 and T/2.
 */
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

/* Calls f(side) with the side as a compile-time constant. A kernel is built for the four classes of tiles, and in each
 * the smaller side must be among few: spectral_plan.c has the same lists. */
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
        switch (side) {
            CV_SIDES_0(CV_CASE)
        }
    } else if constexpr (CLASS == 1) {
        switch (side) {
            CV_SIDES_1(CV_CASE)
        }
    } else if constexpr (CLASS == 2) {
        switch (side) {
            CV_SIDES_2(CV_CASE)
        }
    } else {
        switch (side) {
            CV_SIDES_3(CV_CASE)
        }
    }
#undef CV_CASE
}

#endif
