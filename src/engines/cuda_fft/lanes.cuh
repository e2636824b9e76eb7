/*
 * Lines shared by lanes: a DFT of T = 8 N points, N <= 8, by 8 neighbouring lanes of a warp.
 *
 *     first:   lane b takes the points 8 i + b, i < N, through a DFT of N points and times e^(-2 pi i b k1 / T), k1 < N
 *     between: values change lanes through shared memory: lane k1 takes those of all b
 *     second:  a DFT of 8 points over b gives the outputs k1 + N k2, k2 < 8
 *
 * A thread holds 8 points instead of 64: no spills, a third of the code, and twice as many warps to wait with.
 *
 * A tile's two channels are real and imaginary part of one complex tile, so that rows need no unpacking. Columns kx and
 * TX - kx come to the same lanes: their sum and difference are the columns of either channel's own spectrum. Columns 0
 * and TX/2 come together and pack two real columns in one.
 *
 * Shared memory: (pair of channels, row, PITCH) complex. A row's room holds the rows of both channels as they come,
 * PITCH reals each, and then their spectrum, which begins a few words later (cv_lane_skew), so that the pairs and lanes
 * of half a warp meet all banks along rows as along a row. Values change lanes in the very row or the two columns that
 * they came from: slot (k1, b) is number 8 k1 + (b xor k1), so that writing (lanes b) and reading (lanes k1) meet all
 * banks as well.
 */
#ifndef CV_CUDA_FFT_LANES_CUH
#define CV_CUDA_FFT_LANES_CUH

#include "codelets.cuh"
#include "lanes.h"
#include "spectral.h"

/* e^(-2 pi i b k1 / T), a lane's ones together. */
template <int T> struct alignas(16) cv_lane_turns {
    float2 v[CV_LANES][(T / CV_LANES + 1) / 2 * 2];
};
template <int T> constexpr cv_lane_turns<T> cv_make_lane_turns()
{
    cv_lane_turns<T> t = {};
    const cv_twiddles<T> w = cv_make_twiddles<T>();
    for (int b = 0; b < CV_LANES; b++)
        for (int k = 0; k < T / CV_LANES; k++)
            t.v[b][k].x = w.re[b * k], t.v[b][k].y = w.im[b * k];
    return t;
}
template <int T> __device__ const cv_lane_turns<T> cv_lane_table = cv_make_lane_turns<T>();

/* Makes a value one that the compiler knows nothing of, so that what follows from it is computed where it is used, not
 * once before a loop and then held in registers that there are not. */
__device__ __forceinline__ void cv_forget(int &a)
{
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(a));
#else
    (void)a;
#endif
}
__device__ __forceinline__ void cv_forget(int64_t &a)
{
#ifdef __CUDA_ARCH__
    asm volatile("" : "+l"(a));
#else
    (void)a;
#endif
}

/* Words by which a row's spectrum begins late. */
__device__ __forceinline__ int cv_lane_skew(int row, int pair, int log_pairs)
{
    return pair + ((row & 7) >> 1 << log_pairs & 7);
}

/* Places of lane b's partners, b xor t, in words: the sum of what each bit of t adds, since eight places are too many
 * to hold in registers. */
struct cv_lane_places {
    int own, one, two, four;
    __device__ __forceinline__ int operator()(int t) const
    {
        return own + (t & 1 ? one : 0) + (t & 2 ? two : 0) + (t & 4 ? four : 0);
    }
    __device__ __forceinline__ void forget() { cv_forget(own), cv_forget(one), cv_forget(two), cv_forget(four); }
};
__device__ __forceinline__ cv_lane_places cv_lane_row_places(int b)
{
    return {b, (b ^ 1) - b, (b ^ 2) - b, (b ^ 4) - b};
}
/* ... of rows 8 i + b of a column. */
template <int TX> __device__ __forceinline__ cv_lane_places cv_lane_column_places(int b, int pair, int log_pairs)
{
    auto place = [&](int row) { return row * CV_LANE_PITCH(TX) + cv_lane_skew(row, pair, log_pairs); };
    const int own = place(b);
    return {own, place(b ^ 1) - own, place(b ^ 2) - own, place(b ^ 4) - own};
}

/* What a lane needs for lines of T points. */
template <int T> struct cv_lane {
    static constexpr int N = T / CV_LANES, HALF = (N + 1) / 2;
    int b;
    float2 turn[N + 1];
    __device__ explicit cv_lane(int lane) : b(lane)
    {
        const float4 *from = (const float4 *)cv_lane_table<T>.v[lane];
#pragma unroll
        for (int k = 0; k < N; k += 2) {
            const float4 two = __ldg(from + k / 2);
            turn[k] = cv_c(two.x, two.y);
            turn[k + 1] = cv_c(two.z, two.w);
        }
    }
    /* EMPTY: only the first half of the points is not zero. */
    template <bool EMPTY> __device__ __forceinline__ void first(float2 *v) const
    {
        if constexpr (EMPTY && N % 2 == 0)
            cv_dft_half<N>::run(v);
        else
            cv_dft<N>::run(v);
#pragma unroll
        for (int k = 1; k < N; k++)
            v[k] = cv_cmul(v[k], turn[k].x, turn[k].y);
    }
    __device__ __forceinline__ void second(float2 *v) const { cv_dft<CV_LANES>::run(v); }
    /* Whether this lane has outputs: b + N k2. */
    __device__ __forceinline__ bool has() const { return N == CV_LANES || b < N; }

    /* v changes lanes: slot (k1, t) lies at k1 JUMP + at(b ^ t), for the first HALF of k1 from slots_a, for the others
     * from slots_b. Every lane of the warp calls this together; those of a line that is not live only wait. All lanes
     * must be done with what lies there before. */
    template <int JUMP>
    __device__ __forceinline__ void exchange(float2 *v, bool live, float2 *slots_a, float2 *slots_b,
                                             cv_lane_places at) const
    {
        at.forget();
        if (live) {
#pragma unroll
            for (int k = 0; k < N; k++)
                (k < HALF ? slots_a + k * JUMP : slots_b + (k - HALF) * JUMP)[at(k)] = v[k];
        }
        __syncwarp();
        if (live && has()) {
            const float2 *from = b < HALF ? slots_a + b * JUMP : slots_b + (b - HALF) * JUMP;
#pragma unroll
            for (int i = 0; i < CV_LANES; i++)
                v[i] = from[at(i)];
        }
        __syncwarp();
    }
};

/* Lanes of a row pass: groups of 8 neighbouring lanes, each on one row of one pair, two neighbouring rows in half a
 * warp. What is left of the groups has no row. */
struct cv_row_lanes {
    int pair, row, step;
    __device__ explicit cv_row_lanes(int log_pairs)
    {
        const int group = threadIdx.x / CV_LANES, twos = (int)(blockDim.x / CV_LANES) >> (log_pairs + 1);
        pair = group >> 1 & ((1 << log_pairs) - 1);
        row = group >> (log_pairs + 1) < twos ? group >> (log_pairs + 1) << 1 | (group & 1) : 1 << 20;
        step = 2 * twos;
    }
};

/* Lanes of a column pass: pairs next to each other, as the spectra's channels lie, then the lanes of a line. */
struct cv_column_lanes {
    int pair, lane, kx, step;
    __device__ explicit cv_column_lanes(int log_pairs)
    {
        const int line = threadIdx.x >> log_pairs;
        pair = threadIdx.x & ((1 << log_pairs) - 1);
        lane = line % CV_LANES;
        kx = line / CV_LANES;
        step = (int)(blockDim.x >> log_pairs) / CV_LANES;
    }
};

#endif
