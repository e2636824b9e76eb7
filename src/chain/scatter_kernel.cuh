/*
 * Chosen outputs, each by its own chain:
 *
 *   y[n,k,p,q] = acc [+ bias[k]],  acc = fmaf(x[n,c,p*sh+r-pt,q*sw+s-pl], w[k,c,r,s], acc) from +0 over c, r, s
 *
 * Each multiply-add of a warp costs one shared-memory load of x, whatever is done, so what counts is that its 32
 * addresses fall into 32 banks. Lane l therefore only gets outputs whose windows begin in bank l: tap by tap all lanes
 * move on together, so they stay apart. A thread has two chains where the pool has two outputs of one channel and bank,
 * which then share w, and lanes are filled channel by channel, so that most of a warp reads the same w, four taps at a
 * time. What is lost is lanes that stay idle because other banks have more outputs: a quarter on D, where a bank has 28
 * outputs  of a pool on average. Each pool takes the row pitch, of up to eight, whose fullest bank is least full.
 *
 * Shared memory: two stages of cc channels: x of the pool's rows, and w of its kb channels; the list of outputs.
 * Instructions a multiply-add of a warp: 1 load of x, 1/8 or 1/4 of w, itself. Registers: two groups of eight taps'
 * operands, one under way while the other is summed. Traffic: per pool cg * (rows * cols + kb * R * S) floats from L2.
 */
#ifndef CV_CHAIN_SCATTER_KERNEL_CUH
#define CV_CHAIN_SCATTER_KERNEL_CUH

#include "chain_async.cuh"
#include "gpu/overlap.cuh"
#include "scatter.h"
#include "scatter_taps.cuh"

struct cv_scatter_unit {
    int n, g, k0, p0, q0, kn, pn, qn, round; /* what is left of the pool at the problem's edges; which CAP outputs */
    int pitch;
};

__device__ __forceinline__ cv_scatter_unit cv_scatter_unit_of(const cv_scatter &a, int pool, int round)
{
    cv_scatter_unit u;
    int at = pool;
    u.k0 = at % a.nk * a.kb, at /= a.nk;
    u.q0 = at % a.nq * a.tq, at /= a.nq;
    u.p0 = at % a.np * a.tp, at /= a.np;
    u.g = at % a.groups, u.n = at / a.groups;
    u.kn = min(a.kb, a.kg - u.k0), u.pn = min(a.tp, a.p - u.p0), u.qn = min(a.tq, a.q - u.q0);
    u.k0 += u.g * a.kg;
    u.round = round;
    u.pitch = a.pitch;
    return u;
}

/* Exclusive prefix sum over the block; total gets the sum. scratch: 33 words. */
template <class T> __device__ __forceinline__ T cv_scatter_scan(T value, T *scratch, T &total)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    T sum = value;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const T other = __shfl_up_sync(~0u, sum, d);
        sum += lane >= d ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        scratch[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        const T w = lane < (int)(blockDim.x >> 5) ? scratch[lane] : 0;
        T s = w;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const T other = __shfl_up_sync(~0u, s, d);
            s += lane >= d ? other : 0;
        }
        scratch[lane] = s - w;
        if (lane == 31)
            scratch[32] = s;
    }
    __syncthreads();
    total = scratch[32];
    return scratch[warp] + sum - value;
}

/* One output straight from memory: for channels whose weights are not finite, which must not meet padding's zeros. */
static __device__ __noinline__ void cv_scatter_alone(const cv_scatter &a, int n, int k, int p, int q)
{
    const int g = k / a.kg;
    float acc = 0.0f;
    for (int c = 0; c < a.cg; ++c)
        for (int r = 0; r < a.r; ++r)
            for (int s = 0; s < a.s; ++s) {
                const int h = p * a.st_h + r - a.pad_t, col = q * a.st_w + s - a.pad_l;
                if ((unsigned)h < (unsigned)a.h && (unsigned)col < (unsigned)a.w)
                    acc = __fmaf_rn(a.x[n * a.xs[0] + (int64_t)(g * a.cg + c) * a.xs[1] + h * a.xs[2] + col * a.xs[3]],
                                    a.weight[k * a.ws[0] + c * a.ws[1] + r * a.ws[2] + s * a.ws[3]], acc);
            }
    a.y[n * a.ys[0] + k * a.ys[1] + p * a.ys[2] + q * a.ys[3]] = a.bias ? __fadd_rn(acc, a.bias[k]) : acc;
}

/* Calls f(k, p, q) (counted within the pool) for the marked outputs whose rank lies in the unit's round. */
template <class F>
__device__ __forceinline__ void cv_scatter_marked(const cv_scatter &a, const cv_scatter_unit &u, int *scratch, F f)
{
    const int across = (u.qn + 31) >> 5, words = u.kn * u.pn * across;
    const int each = (words + blockDim.x - 1) / blockDim.x, first = min((int)threadIdx.x * each, words),
              last = min(first + each, words);
    const int low = u.round * CV_SCATTER_CAP;
    int found = 0, total;
    for (int i = first; i < last; ++i) {
        const int c = i % across, row = i / across, p = row % u.pn, k = row / u.pn;
        const int64_t line = ((int64_t)u.n * a.k + u.k0 + k) * a.p + u.p0 + p;
        found += __popc(a.mask[line * a.words + (u.q0 >> 5) + c]);
    }
    int rank = cv_scatter_scan(found, scratch, total) - low;
    if (rank >= CV_SCATTER_CAP || rank + found <= 0)
        return;
    for (int i = first; i < last; ++i) {
        const int c = i % across, row = i / across, p = row % u.pn, k = row / u.pn;
        const int64_t line = ((int64_t)u.n * a.k + u.k0 + k) * a.p + u.p0 + p;
        for (unsigned bits = a.mask[line * a.words + (u.q0 >> 5) + c]; bits; bits &= bits - 1, ++rank)
            if ((unsigned)rank < (unsigned)CV_SCATTER_CAP)
                f(k, p, c * 32 + __ffs((int)bits) - 1);
    }
}

/* Enqueues the copies of channels c0 .. of one stage. */
__device__ __forceinline__ void cv_scatter_load(const cv_scatter &a, const cv_scatter_unit &u, int c0, float *to)
{
    const int channels = min(a.cc, a.cg - c0), lane = threadIdx.x & 31, warp = threadIdx.x >> 5,
              warps = blockDim.x >> 5;
    const int rows = (u.pn - 1) * a.st_h + a.r, cols = (u.qn - 1) * a.st_w + a.s + a.shift;
    const int h0 = u.p0 * a.st_h - a.pad_t, w0 = u.q0 * a.st_w - a.pad_l - a.shift;
    const float *x = a.x + u.n * a.xs[0] + (int64_t)(u.g * a.cg + c0) * a.xs[1];
    for (int c = 0; c < channels; ++c)
        for (int i = warp; i < rows; i += warps) {
            const int h = h0 + i;
            const bool in = (unsigned)h < (unsigned)a.h;
            const float *from = x + c * a.xs[1] + (in ? h : 0) * a.xs[2];
            float *line = to + c * a.plane + i * u.pitch;
            if (a.vec_x)
                for (int j = lane * 4; j < cols; j += 128) {
                    const int col = w0 + j;
                    const bool ok = in && (unsigned)col < (unsigned)a.w;
                    cv_cp16_or_zero(line + j, from + (ok ? col : 0), ok);
                }
            else
                for (int j = lane; j < cols; j += 32) {
                    const int col = w0 + j;
                    const bool ok = in && (unsigned)col < (unsigned)a.w;
                    cv_cp4_or_zero(line + j, from + (ok ? col * a.xs[3] : 0), ok);
                }
        }
    const int taps = channels * a.r * a.s, area = a.r * a.s;
    to += a.cc * a.plane;
    /* k by k, its taps dealt out in pieces of 32 lanes */
    const int piece = a.vec_w ? 128 : 32, pieces = (taps + piece - 1) / piece;
    for (int i = warp; i < u.kn * pieces; i += warps) {
        const int k = i / pieces, j = (i - k * pieces) * piece + lane * (piece / 32);
        const float *from = a.weight + (u.k0 + k) * a.ws[0] + c0 * a.ws[1];
        if (j >= taps)
            continue;
        if (a.vec_w)
            cv_cp16(to + k * a.wp + j, from + j);
        else if (a.packed_w)
            cv_cp4(to + k * a.wp + j, from + j);
        else {
            const int c = j / area, r = j % area / a.s, s = j % a.s;
            cv_cp4(to + k * a.wp + j, from + c * a.ws[1] + r * a.ws[2] + s * a.ws[3]);
        }
    }
}

/* The list of a unit: outputs, (k * tp + p) * tq + q in the pool, by bank; a bank's pairs of one channel first. Threads
 * of lane l take bank l's: pair j or, past the pairs, one output. */
struct cv_scatter_banks {
    int begin[32], pairs[32], singles[32];
};

/* Chooses the unit's pitch by its fullest bank; counts: 8 * 32 words. */
__device__ __forceinline__ void cv_scatter_choose(const cv_scatter &a, cv_scatter_unit &u, int *scratch, int *counts)
{
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int, int p, int q) {
        for (int i = 0; i < a.pitches; ++i)
            atomicAdd(&counts[32 * i + ((p * a.st_h * (a.pitch + 4 * i) + q * a.st_w + a.shift) & 31)], 1);
    });
    __syncthreads();
    const int warp = threadIdx.x >> 5;
    if (warp < a.pitches) {
        const int fullest = __reduce_max_sync(~0u, counts[threadIdx.x]);
        if ((threadIdx.x & 31) == 0)
            scratch[warp] = fullest;
    }
    __syncthreads();
    int best = 0;
    for (int i = 1; i < a.pitches; ++i)
        best = scratch[i] < scratch[best] ? i : best;
    u.pitch = a.pitch + 4 * best;
    __syncthreads();
}

/* Fills the list; returns the rows of 32 threads that it needs. */
__device__ __forceinline__ int cv_scatter_list(const cv_scatter &a, const cv_scatter_unit &u, int *scratch, int *keys,
                                               int *list, cv_scatter_banks &banks)
{
    const int count = a.kb * 32; /* keys: channel and bank; two words each */
    auto key_of = [&](int k, int p, int q) { return k * 32 + ((p * a.st_h * u.pitch + q * a.st_w + a.shift) & 31); };
    auto alone = [&](int k) { return a.padded && a.odd[(int64_t)(u.k0 + k) * a.odd_step] != 0.0f; };
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        keys[2 * i] = 0;
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int k, int p, int q) {
        if (alone(k))
            cv_scatter_alone(a, u.n, u.k0 + k, u.p0 + p, u.q0 + q);
        else
            atomicAdd(&keys[2 * key_of(k, p, q)], 1);
    });
    __syncthreads();
    if (threadIdx.x < 32) { /* a lane a bank */
        int pairs = 0, singles = 0;
        for (int k = 0; k < a.kb; ++k) {
            const int n = keys[2 * (k * 32 + threadIdx.x)];
            pairs += n >> 1, singles += n & 1;
        }
        int begin = 2 * pairs + singles, rows = pairs + singles;
        const int own = begin;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(~0u, begin, d);
            begin += (int)threadIdx.x >= d ? other : 0;
        }
        begin -= own;
        banks.begin[threadIdx.x] = begin;
        banks.pairs[threadIdx.x] = pairs;
        banks.singles[threadIdx.x] = singles;
        rows = __reduce_max_sync(~0u, rows);
        if (threadIdx.x == 0)
            scratch[0] = rows;
        int pair_at = begin, single_at = begin + 2 * pairs;
        for (int k = 0; k < a.kb;
             ++k) { /* from now on: place of the next output of a pair and how many; of the single */
            int *key = &keys[2 * (k * 32 + threadIdx.x)];
            const int n = key[0];
            key[0] = pair_at | (n & ~1) << 16;
            key[1] = single_at;
            pair_at += n & ~1, single_at += n & 1;
        }
    }
    __syncthreads();
    const int rows = scratch[0];
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int k, int p, int q) {
        if (alone(k))
            return;
        int *key = &keys[2 * key_of(k, p, q)];
        const int old = atomicAdd(key, 1 - (1 << 16)); /* the next place; one less to come */
        list[old >> 16 > 0 ? old & 0xffff : key[1]] = (k * a.tp + p) * a.tq + q;
    });
    __syncthreads();
    return rows;
}

/* Rows from .. of a unit's list, through all channels. */
template <int U, int G>
__device__ __forceinline__ void cv_scatter_round(const cv_scatter &a, const cv_scatter_unit &u, float *stages,
                                                 const int *list, const cv_scatter_banks &banks, int from)
{
    const int lane = threadIdx.x & 31, row = from + (threadIdx.x >> 5);
    const int pairs = banks.pairs[lane], all = pairs + banks.singles[lane], begin = banks.begin[lane];
    const int one = row < pairs ? list[begin + 2 * row] : row < all ? list[begin + pairs + row] : -1;
    const int two = row < pairs ? list[begin + 2 * row + 1] : -1;
    auto place = [&](int output) {
        const int q = output % a.tq, p = output / a.tq % a.tp;
        return p * a.st_h * u.pitch + q * a.st_w + a.shift;
    };
    cv_scatter_chains t;
    const int x = one >= 0 ? place(one) : lane; /* an idle lane keeps to its own bank */
    const int w = a.cc * a.plane + (one >= 0 ? one / a.tq / a.tp * a.wp : 0);
    t.apart = two >= 0 ? 4 * (place(two) - x) : 0;
    t.acc[0] = t.acc[1] = 0.0f;
    const int most = __any_sync(~0u, two >= 0) ? 2 : __any_sync(~0u, one >= 0);
    const int steps = (a.cg + a.cc - 1) / a.cc;
    cv_scatter_load(a, u, 0, stages);
    cv_cp_commit();
    for (int i = 0; i < steps; ++i) {
        cv_cp_wait<0>();
        __syncthreads();
        if (i + 1 < steps)
            cv_scatter_load(a, u, (i + 1) * a.cc, stages + ((i + 1) & 1) * a.stage);
        cv_cp_commit();
        const int rows = min(a.cc, a.cg - i * a.cc) * a.r;
        const unsigned stage = (unsigned)__cvta_generic_to_shared(stages + (i & 1) * a.stage);
        t.x = stage + 4 * x;
        t.w = stage + 4 * w;
        if (most == 2)
            cv_scatter_rows<U, G, 2>(a, u.pitch, rows, t);
        else if (most == 1)
            cv_scatter_rows<U, G, 1>(a, u.pitch, rows, t);
    }
#pragma unroll
    for (int m = 0; m < 2; ++m) {
        const int output = m ? two : one;
        if (output < 0)
            continue;
        const int q = u.q0 + output % a.tq, p = u.p0 + output / a.tq % a.tp, k = u.k0 + output / a.tq / a.tp;
        a.y[u.n * a.ys[0] + k * a.ys[1] + p * a.ys[2] + q * a.ys[3]] =
            a.bias ? __fadd_rn(t.acc[m], a.bias[k]) : t.acc[m];
    }
    __syncthreads();
}

template <int U, int G>
__global__ void __launch_bounds__(CV_SCATTER_THREADS, 1) cv_scatter_kernel(const __grid_constant__ cv_scatter a)
{
    extern __shared__ __align__(16) float cv_scatter_shared[];
    __shared__ int scratch[33], ends[CV_SCATTER_THREADS];
    __shared__ cv_scatter_banks banks;
    cv_overlap_wait();
    if (a.counts[a.pools] == 0)
        return;
    float *stages = cv_scatter_shared;
    int *keys = (int *)(stages + 2 * a.stage), *list = keys + a.kb * 64;
    int before = 0, mine = blockIdx.x; /* units of the pools before, and my next one */
    for (int first = 0; first < a.pools; first += CV_SCATTER_THREADS) {
        const int pool = first + threadIdx.x;
        const int rounds = pool < a.pools ? (int)((a.counts[pool] + CV_SCATTER_CAP - 1) / CV_SCATTER_CAP) : 0;
        int all;
        const int start = cv_scatter_scan(rounds, scratch, all);
        ends[threadIdx.x] = start + rounds;
        __syncthreads();
        for (; mine < before + all; mine += gridDim.x) {
            int low = 0, high = CV_SCATTER_THREADS - 1; /* the first pool that ends after my unit */
            while (low < high) {
                const int middle = (low + high) / 2;
                if (ends[middle] > mine - before)
                    high = middle;
                else
                    low = middle + 1;
            }
            const int round = mine - before - (low ? ends[low - 1] : 0);
            cv_scatter_unit u = cv_scatter_unit_of(a, first + low, round);
            cv_scatter_choose(a, u, scratch, list);
            const int rows = cv_scatter_list(a, u, scratch, keys, list, banks);
            for (int from = 0; from < rows; from += CV_SCATTER_THREADS / 32)
                cv_scatter_round<U, G>(a, u, stages, list, banks, from);
            __syncthreads();
        }
        before += all;
    }
}

#endif
