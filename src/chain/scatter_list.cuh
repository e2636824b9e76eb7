/* The chosen outputs of a pool, dealt to lanes and threads (scatter_kernel.cuh). */
#ifndef CV_CHAIN_SCATTER_LIST_CUH
#define CV_CHAIN_SCATTER_LIST_CUH

#include "scatter.h"

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

/* A unit's outputs, (k * tp + p) * tq + q in the pool, in a list, and the groups that they are parted into: outputs of
 * one channel and bank, CV_SCATTER_CHAINS or what is left over, for one thread. A table has a group for each row of
 * threads and lane, as its place in the list and its size. The lanes that may take a bank's outputs, without or with
 * running late, form a class, `classes` apart from each other. Larger groups come first, so that the lanes of a warp
 * have groups of like size, and a group goes to its own bank's lane unless that has more to do than others: lanes that
 * are not late read w at the same places. */
__device__ __forceinline__ int cv_scatter_classes(const cv_scatter &a)
{
    return a.late ? 32 / (CV_SCATTER_LATE + 1) : 32;
}

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

/* Deals a class's groups to its lanes, one thread; a key then has, by halves: outputs seen, and to
 * come; the places of its full
 * groups' outputs and of the others. Returns the rows. */
__device__ __forceinline__ int cv_scatter_deal(const cv_scatter &a, int own, int place, int groups, int *keys,
                                               unsigned short *table)
{
    enum { FULL = CV_SCATTER_CHAINS };
    const int classes = cv_scatter_classes(a), lanes = 32 / classes, most = (groups + lanes - 1) / lanes;
    unsigned long long heights = 0; /* of up to four lanes, 16 bits each */
    for (int size = FULL; size > 0; --size)
        for (int i = own; i < a.kb * 32; i += classes) {
            const int n = size == FULL ? keys[2 * i] : (keys[2 * i] >> 16) % FULL;
            int here = size == FULL ? n / FULL : n == size;
            if (size == FULL) { /* from now on in the upper half */
                keys[2 * i] = n << 16;
                keys[2 * i + 1] = place;
            } else if (here) {
                keys[2 * i + 1] |= place << 16;
            }
            for (; here > 0; --here, place += size) {
                int best = (i % 32 - own) / classes, low = 1 << 16, lowest = 0;
                const int natural = (int)(heights >> 16 * best) & 0xffff;
                for (int l = 0; l < lanes; ++l) {
                    const int height = (int)(heights >> 16 * l) & 0xffff;
                    lowest = height < low ? l : lowest, low = min(low, height);
                }
                best = natural > low + 1 || natural >= most ? lowest : best;
                const int height = (int)(heights >> 16 * best) & 0xffff;
                heights += 1ull << 16 * best;
                table[height * 32 + own + classes * best] = (unsigned short)(place | size << 12);
            }
        }
    return most;
}

/* Fills the list and the table; returns the table's rows. */
__device__ __forceinline__ int cv_scatter_list(const cv_scatter &a, const cv_scatter_unit &u, int *scratch, int *keys,
                                               int *list, unsigned short *table)
{
    enum { FULL = CV_SCATTER_CHAINS };
    const int count = a.kb * 32, classes = cv_scatter_classes(a); /* keys: channel and bank; two words each */
    auto bank_of = [&](int p, int q) { return (p * a.st_h * u.pitch + q * a.st_w + a.shift) & 31; };
    auto alone = [&](int k) { return a.padded && a.odd[(int64_t)(u.k0 + k) * a.odd_step] != 0.0f; };
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        keys[2 * i] = 0;
    for (int i = threadIdx.x; i < a.deal * 16; i += blockDim.x)
        ((int *)table)[i] = 0;
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int k, int p, int q) {
        if (alone(k))
            cv_scatter_alone(a, u.n, u.k0 + k, u.p0 + p, u.q0 + q);
        else
            atomicAdd(&keys[2 * (k * 32 + bank_of(p, q))], 1);
    });
    __syncthreads();
    if (threadIdx.x < 32) { /* a lane a class */
        const int own = threadIdx.x;
        int outputs = 0, groups = 0, rows = 0;
        for (int i = own; i < count && own < classes; i += classes) {
            outputs += keys[2 * i];
            groups += (keys[2 * i] + FULL - 1) / FULL;
        }
        int place = outputs;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const int other = __shfl_up_sync(~0u, place, d);
            place += own >= d ? other : 0;
        }
        if (own < classes)
            rows = cv_scatter_deal(a, own, place - outputs, groups, keys, table);
        __syncwarp();
        rows = __reduce_max_sync(~0u, rows);
        if (own == 0)
            scratch[0] = rows;
    }
    __syncthreads();
    const int rows = scratch[0];
    __syncthreads();
    cv_scatter_marked(a, u, scratch, [&](int k, int p, int q) {
        if (alone(k))
            return;
        int *key = &keys[2 * (k * 32 + bank_of(p, q))];
        const int old = atomicAdd(key, 1), rank = old & 0xffff, in_full = (old >> 16) / FULL * FULL;
        list[rank < in_full ? (key[1] & 0xffff) + rank : (key[1] >> 16) + rank - in_full] = (k * a.tp + p) * a.tq + q;
    });
    __syncthreads();
    return rows;
}

#endif
