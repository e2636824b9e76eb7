/*
 * Chosen outputs, each by its own chain:
 *
 *   y[n,k,p,q] = acc [+ bias[k]],  acc = fmaf(x[n,c,p*sh+r-pt,q*sw+s-pl], w[k,c,r,s], acc) from +0 over c, r, s
 *
 * A thread runs two chains of one output channel; lanes of a warp have any outputs. Each multiply-add of a warp costs
 * one shared-memory load of x, whatever is done, so what counts is that its 32 addresses fall into 32 banks. They are
 * made to: x's row pitch is S modulo 32 and its channels lie R*S apart modulo 32, so the bank of tap t is that of tap 0
 * plus t, and a lane whose window begins in bank b starts its chain (b - lane) mod 32 steps late. At every step lane l
 * then reads bank l + step. w is read with the same delay, from consecutive banks, once for the thread's two chains,
 * which begin in the same bank. Delays cost 31 steps a stage.
 *
 * Shared memory: two stages of cc channels: x of the pool's rows, and w of its kb channels; the list of slots.
 * Loads a multiply-add of a warp: 1 of x, 1/2 of w where chains pair up. Traffic: per pool cg * (rows * cols + kb * R *
 * S) floats from L2.
 * The idea of delaying lanes to part their banks comes from skewed storage; here time is skewed instead of storage.
 */
#ifndef CV_CHAIN_SCATTER_KERNEL_CUH
#define CV_CHAIN_SCATTER_KERNEL_CUH

#include "chain_async.cuh"
#include "scatter.h"

struct cv_scatter_unit {
    int n, g, k0, p0, q0, kn, pn, qn, round; /* what is left of the pool at the problem's edges; which CAP outputs */
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
    return u;
}

/* Exclusive prefix sum over the block; total gets the sum. scratch: 33 words. */
__device__ __forceinline__ int cv_scatter_scan(int value, int *scratch, int &total)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int sum = value;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(~0u, sum, d);
        sum += lane >= d ? other : 0;
    }
    __syncthreads();
    if (lane == 31)
        scratch[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int w = lane < (int)(blockDim.x >> 5) ? scratch[lane] : 0, s = w;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(~0u, s, d);
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
            float *line = to + c * a.plane + i * a.pitch;
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

/* Where a thread's two chains stand. Offsets are in floats from the stage's beginning. */
struct cv_scatter_chains {
    int x0, x1, w, delay;
    float acc0, acc1;
};

/* One stage's taps for one warp; U steps at a time, U <= S, so that a row ends at most once among them. */
template <int U>
__device__ __forceinline__ void cv_scatter_taps(const cv_scatter &a, const float *stage, int taps, cv_scatter_chains &t)
{
    const int jump = a.pitch - a.s, leap = a.plane - a.r * a.pitch;
    int tap = -t.delay, s = -t.delay, r = 0;
    const float *px = stage + t.x0 - t.delay, *pw = stage + t.w - t.delay;
    const int apart = t.x1 - t.x0;
    for (int step = 0; step < taps + 31; step += U) {
        /* steps from `ends` on lie in the next row */
        const int ends = a.s - s, hop = jump + (r + 1 == a.r ? leap : 0);
        const float *next = px + hop;
        if (step >= 32 && step + U <= taps) {
            float w[U], x0[U], x1[U];
#pragma unroll
            for (int u = 0; u < U; ++u) {
                const float *at = (u < ends ? px : next) + u;
                x0[u] = at[0];
                x1[u] = at[apart];
                w[u] = pw[u];
            }
#pragma unroll
            for (int u = 0; u < U; ++u) {
                t.acc0 = __fmaf_rn(x0[u], w[u], t.acc0);
                t.acc1 = __fmaf_rn(x1[u], w[u], t.acc1);
            }
        } else {
#pragma unroll
            for (int u = 0; u < U; ++u)
                if ((unsigned)(tap + u) < (unsigned)taps) {
                    const float *at = (u < ends ? px : next) + u;
                    t.acc0 = __fmaf_rn(at[0], pw[u], t.acc0);
                    t.acc1 = __fmaf_rn(at[apart], pw[u], t.acc1);
                }
        }
        tap += U, pw += U, px += U, s += U;
        if (s >= a.s) {
            s -= a.s;
            px += hop;
            r = r + 1 == a.r ? 0 : r + 1;
        }
    }
}

/* The slots of a unit: pairs of outputs, (k * tp + p) * tq + q in the pool, or -1. Returns how many. */
__device__ __forceinline__ int cv_scatter_list(const cv_scatter &a, const cv_scatter_unit &u, int *scratch, int *keys,
                                               int *slots)
{
    const int count = a.kb * 32;
    auto key_of = [&](int k, int p, int q) { return k * 32 + ((p * a.st_h * a.pitch + q * a.st_w + a.shift) & 31); };
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        keys[i] = 0;
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int k, int p, int q) {
        if (a.padded && a.odd[(int64_t)(u.k0 + k) * a.odd_step] != 0.0f)
            cv_scatter_alone(a, u.n, u.k0 + k, u.p0 + p, u.q0 + q);
        else
            atomicAdd(&keys[key_of(k, p, q)], 1);
    });
    __syncthreads();
    const int each = (count + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
    int pairs = 0, all;
    for (int i = first; i < min(first + each, count); ++i)
        pairs += (keys[i] + 1) / 2;
    int at = cv_scatter_scan(pairs, scratch, all);
    for (int i = first; i < min(first + each, count); ++i) {
        const int n = (keys[i] + 1) / 2;
        if (keys[i] & 1)
            slots[2 * (at + n) - 1] = -1;
        keys[i] = 2 * at; /* from now on the place of the next output */
        at += n;
    }
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int k, int p, int q) {
        if (!(a.padded && a.odd[(int64_t)(u.k0 + k) * a.odd_step] != 0.0f))
            slots[atomicAdd(&keys[key_of(k, p, q)], 1)] = (k * a.tp + p) * a.tq + q;
    });
    __syncthreads();
    return all;
}

__device__ __forceinline__ void cv_scatter_store(const cv_scatter &a, const cv_scatter_unit &u, int slot, float acc)
{
    if (slot < 0)
        return;
    const int q = u.q0 + slot % a.tq, p = u.p0 + slot / a.tq % a.tp, k = u.k0 + slot / a.tq / a.tp;
    a.y[u.n * a.ys[0] + k * a.ys[1] + p * a.ys[2] + q * a.ys[3]] = a.bias ? __fadd_rn(acc, a.bias[k]) : acc;
}

/* Slots from .. of a unit, a pair a thread, through all channels. */
template <int U>
__device__ __forceinline__ void cv_scatter_round(const cv_scatter &a, const cv_scatter_unit &u, float *stages,
                                                 const int *slots, int from, int count)
{
    const int lane = threadIdx.x & 31, i = from + threadIdx.x;
    const bool live = from + (int)(threadIdx.x & ~31u) < count; /* of the warp */
    const int one = i < count ? slots[2 * i] : -1, two = i < count ? slots[2 * i + 1] : -1;
    auto place = [&](int slot) {
        const int q = slot % a.tq, p = slot / a.tq % a.tp;
        return p * a.st_h * a.pitch + q * a.st_w + a.shift;
    };
    cv_scatter_chains t = {lane, lane, a.cc * a.plane, 0, 0.0f, 0.0f}; /* an idle lane keeps to its own bank */
    if (one >= 0) {
        t.x0 = place(one);
        t.x1 = two >= 0 ? place(two) : t.x0;
        t.w += one / a.tq / a.tp * a.wp;
        t.delay = (t.x0 - lane) & 31;
    }
    const int steps = (a.cg + a.cc - 1) / a.cc;
    cv_scatter_load(a, u, 0, stages);
    cv_cp_commit();
    for (int i = 0; i < steps; ++i) {
        cv_cp_wait<0>();
        __syncthreads();
        if (i + 1 < steps)
            cv_scatter_load(a, u, (i + 1) * a.cc, stages + ((i + 1) & 1) * a.stage);
        cv_cp_commit();
        if (live)
            cv_scatter_taps<U>(a, stages + (i & 1) * a.stage, min(a.cc, a.cg - i * a.cc) * a.r * a.s, t);
    }
    cv_cp_wait<0>();
    __syncthreads();
    cv_scatter_store(a, u, one, t.acc0);
    cv_scatter_store(a, u, two, t.acc1);
}

template <int U>
__global__ void __launch_bounds__(CV_SCATTER_THREADS, 1) cv_scatter_kernel(const __grid_constant__ cv_scatter a)
{
    extern __shared__ __align__(16) float cv_scatter_shared[];
    __shared__ int scratch[33], ends[CV_SCATTER_THREADS];
    if (a.counts[a.pools] == 0)
        return;
    float *stages = cv_scatter_shared + CV_SCATTER_LEAD;
    int *keys = (int *)(stages + 2 * a.stage), *slots = keys + a.kb * 32;
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
            const cv_scatter_unit u = cv_scatter_unit_of(a, first + low, round);
            const int count = cv_scatter_list(a, u, scratch, keys, slots);
            for (int from = 0; from < count; from += CV_SCATTER_THREADS)
                cv_scatter_round<U>(a, u, stages, slots, from, count);
            __syncthreads();
        }
        before += all;
    }
}

#endif
