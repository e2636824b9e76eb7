/*
 * Chosen outputs, each by its own chain:
 *
 *   y[n,k,p,q] = acc [+ bias[k]],  acc = fmaf(x[n,c,p*sh+r-pt,q*sw+s-pl], w[k,c,r,s], acc) from +0 over c, r, s
 *
 * A multiply-add of a warp wants a word of x and one of w a lane, and shared memory gives a multiprocessor 32 words a
 * cycle: a broadcast of w costs as much as a load of x, however wide. So a thread has up to four chains of one channel,
 * which share w: 5/4 cycles instead of 2 a multiply-add.
 *
 * Banks: tap by tap all lanes move on together, so lane l has outputs whose windows begin in bank l; and others by
 * running 8, 16 or 24 taps late, where the pitch of x's rows is S modulo 32, so that a lane goes on through the banks
 * from one row to the next. Four lanes can then take an output, and hardly any has more to do than others. Lateness is
 * kept from one stage to the next: a stage's place is given to the next but one when the last lane has left it. Kernels
 * whose rows are no 8, 16 or 32 taps do without; there each pool takes the row pitch, of up to eight, whose fullest
 * bank is least full.
 *
 * Shared memory: two stages of cc channels: x of the pool's rows, and w of its kb channels; the list of outputs. Warps
 * fill a stage by bulk copies of whole rows, or all threads do by 16 bytes where the GPU or the problem's edges
 * want that. Registers: two groups of eight taps' operands, one under way while the other is summed. Traffic: per pool
 * cg * (rows * cols + kb * R * S) floats from L2.
 */
#ifndef CV_CHAIN_SCATTER_KERNEL_CUH
#define CV_CHAIN_SCATTER_KERNEL_CUH

#include "chain_async.cuh"
#include "gpu/overlap.cuh"
#include "scatter_list.cuh"
#include "scatter_taps.cuh"

/* Enqueues the copies of channels c0 .. of one stage, by all threads. Not inlined: five places want it. */
static __device__ __noinline__ void cv_scatter_load(const cv_scatter &a, const cv_scatter_unit &u, int c0, float *to)
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

/* The same by bulk copies, which the barrier counts. The upper half of the warps share them: rarely have those chains,
 * and a copy is some tens of cycles of its warp. */
__device__ __forceinline__ void cv_scatter_load_rows(const cv_scatter &a, const cv_scatter_unit &u, int c0, float *to,
                                                     unsigned barrier)
{
    enum { FIRST = CV_SCATTER_THREADS / 2, SHARERS = CV_SCATTER_THREADS / 64 };
    const int channels = min(a.cc, a.cg - c0), taps = channels * a.r * a.s, warp = (int)(threadIdx.x - FIRST) / 32;
    const int rows = (u.pn - 1) * a.st_h + a.r, cols = ((u.qn - 1) * a.st_w + a.s + 3) & ~3;
    if (threadIdx.x < FIRST)
        return;
    cv_bulk_fence();
    if (threadIdx.x == FIRST)
        cv_bulk_expect(barrier, 4 * (channels * rows * cols + u.kn * taps));
    const int first = warp + SHARERS * (threadIdx.x & 31); /* warps in turn */
    const float *x =
        a.x + u.n * a.xs[0] + (int64_t)(u.g * a.cg + c0) * a.xs[1] + (int64_t)u.p0 * a.st_h * a.xs[2] + u.q0 * a.st_w;
    for (int c = 0; c < channels; ++c)
        for (int i = first; i < rows; i += 32 * SHARERS)
            cv_bulk_copy(to + c * a.plane + i * u.pitch, x + c * a.xs[1] + i * a.xs[2], 4 * cols, barrier);
    for (int k = first; k < u.kn; k += 32 * SHARERS)
        cv_bulk_copy(to + a.cc * a.plane + k * a.wp, a.weight + (u.k0 + k) * a.ws[0] + c0 * a.ws[1], 4 * taps, barrier);
}

/* What a round works with: the stages' memory and barriers, and how many stages came before in all rounds. */
struct cv_scatter_pipe {
    float *stages;
    unsigned barrier; /* of the first stage; the second one's is 8 bytes on */
    int turn;
    bool bulk;
};

/* Begins to fill stage i of a round. */
__device__ __forceinline__ void cv_scatter_fill(const cv_scatter &a, const cv_scatter_unit &u,
                                                const cv_scatter_pipe &pipe, int i)
{
    const int slot = (pipe.turn + i) & 1;
    float *to = pipe.stages + slot * a.stage;
    if (!pipe.bulk) {
        cv_scatter_load(a, u, i * a.cc, to);
        cv_cp_commit();
    } else {
        cv_scatter_load_rows(a, u, i * a.cc, to, pipe.barrier + 8 * slot);
    }
}

/* All threads: among warps that are at different places of the code. */
__device__ __forceinline__ void cv_scatter_meet() { asm volatile("barrier.sync 0;" ::: "memory"); }

/* Until stage i is there. */
__device__ __forceinline__ void cv_scatter_await(const cv_scatter_pipe &pipe, int i)
{
    const int turn = pipe.turn + i;
    if (pipe.bulk) {
        cv_bulk_wait(pipe.barrier + 8 * (turn & 1), turn >> 1 & 1);
    } else {
        cv_cp_wait<0>();
        cv_scatter_meet();
    }
}

/* A warp's chains, M a thread, through all channels. Stage i's last `tail` groups are worked off when stage i + 1 is
 * there, since operands are read a group ahead; and its place is filled again when stage i + 1's first `head` are,
 * since lanes may be late. */
template <int U, int G, int M>
__device__ __forceinline__ void cv_scatter_through(const cv_scatter &a, const cv_scatter_unit &u,
                                                   const cv_scatter_pipe &pipe, cv_scatter_lane t, float *acc)
{
    const int steps = (a.cg + a.cc - 1) / a.cc, each = a.r * a.s / U, groups = a.cg * each;
    const int head = a.late ? CV_SCATTER_LATE + 1 : 0, tail = a.late ? 2 : 1;
    cv_scatter_taps<U, M ? M : 1> one, two;
    int g = 0;
    cv_scatter_await(pipe, 0);
    if constexpr (M > 0) {
        cv_scatter_take<U, M>(one, t);
        if (t.late == 0)
            cv_scatter_advance<U, G>(a, u.pitch, t);
    }
    for (int i = 0; i < steps; ++i) {
        const int n = min(a.cc, a.cg - i * a.cc) * each;
#pragma unroll 1
        for (int part = 0; part < 3; ++part) {
            const int count = part == 0 ? head : part == 1 ? n - head - tail : tail;
            if (i + 1 < steps) {
                if (part == 1) {
                    cv_scatter_meet();
                    cv_scatter_fill(a, u, pipe, i + 1);
                } else if (part == 2) {
                    cv_scatter_await(pipe, i + 1);
                }
            }
            if constexpr (M > 0) {
                if (i == 0 && part == 0)
                    cv_scatter_steps<U, G, M, true>(a, u.pitch, count, g, groups, one, two, t, acc);
                else
                    cv_scatter_steps<U, G, M, false>(a, u.pitch, count, g, groups, one, two, t, acc);
            }
            g += count;
        }
    }
    if constexpr (M > 0)
        cv_scatter_steps<U, G, M, true>(a, u.pitch, head, g, groups, one, two, t, acc);
}

/* Rows from .. of a unit's table. */
template <int U, int G>
__device__ __forceinline__ void cv_scatter_round(const cv_scatter &a, const cv_scatter_unit &u, cv_scatter_pipe &pipe,
                                                 const int *list, const unsigned short *table, int from, int rows)
{
    cv_scatter_fill(a, u, pipe, 0);
    const int lane = threadIdx.x & 31, row = from + (threadIdx.x >> 5);
    const int group = row < rows ? table[row * 32 + lane] : 0, size = group >> 12;
    const int *mine = list + (group & 0xfff);
    const int first = size > 0 ? mine[0] : 0;
    auto place = [&](int output) {
        const int q = output % a.tq, p = output / a.tq % a.tp;
        return p * a.st_h * u.pitch + q * a.st_w + a.shift;
    };
    cv_scatter_lane t;
    const int x = size > 0 ? place(first) : lane; /* an idle lane keeps to its own bank */
    const int w = a.cc * a.plane + first / a.tq / a.tp * a.wp, slot = pipe.turn & 1;
    const unsigned stages = (unsigned)__cvta_generic_to_shared(pipe.stages);
    t.begin = t.x = stages + 4 * (slot * a.stage + x);
    t.both = 2 * (stages + 4 * x) + 4 * a.stage;
    t.across = 4 * (w - x);
    t.w = t.x + t.across;
    t.columns = G ? G : a.s / U, t.rows = a.r, t.channels = a.cc;
    t.late = a.late && size > 0 ? ((x - lane) & 31) / 8 : 0;
#pragma unroll
    for (int m = 1; m < CV_SCATTER_CHAINS; ++m)
        t.apart[m - 1] = m < size ? 4 * (place(mine[m]) - x) : 0;
    float acc[CV_SCATTER_CHAINS] = {0.0f, 0.0f, 0.0f, 0.0f};
    switch (__reduce_max_sync(~0u, size)) {
    case 0:
        cv_scatter_through<U, G, 0>(a, u, pipe, t, acc);
        break;
    case 1:
        cv_scatter_through<U, G, 1>(a, u, pipe, t, acc);
        break;
    case 2:
        cv_scatter_through<U, G, 2>(a, u, pipe, t, acc);
        break;
    case 3:
        cv_scatter_through<U, G, 3>(a, u, pipe, t, acc);
        break;
    default:
        cv_scatter_through<U, G, 4>(a, u, pipe, t, acc);
    }
    pipe.turn += (a.cg + a.cc - 1) / a.cc;
#pragma unroll
    for (int m = 0; m < CV_SCATTER_CHAINS; ++m) {
        if (m >= size)
            break;
        const int output = mine[m], q = u.q0 + output % a.tq, p = u.p0 + output / a.tq % a.tp,
                  k = u.k0 + output / a.tq / a.tp;
        a.y[u.n * a.ys[0] + k * a.ys[1] + p * a.ys[2] + q * a.ys[3]] = a.bias ? __fadd_rn(acc[m], a.bias[k]) : acc[m];
    }
    __syncthreads();
}

template <int U, int G>
__global__ void __launch_bounds__(CV_SCATTER_THREADS, 1) cv_scatter_kernel(const __grid_constant__ cv_scatter a)
{
    extern __shared__ __align__(128) float cv_scatter_shared[];
    __shared__ int scratch[33], ends[CV_SCATTER_THREADS];
    __shared__ __align__(8) unsigned long long barriers[2];
    cv_scatter_pipe pipe = {cv_scatter_shared, (unsigned)__cvta_generic_to_shared(barriers), 0, CV_HAS_BULK && a.bulk};
    if (threadIdx.x < 2)
        cv_bulk_barrier(pipe.barrier + 8 * threadIdx.x);
    cv_overlap_wait();
    if (a.counts[a.pools] == 0)
        return;
    int *keys = (int *)(cv_scatter_shared + 2 * a.stage), *list = keys + a.kb * 64;
    unsigned short *table = (unsigned short *)(list + CV_SCATTER_CAP);
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
            if (a.pitches > 1)
                cv_scatter_choose(a, u, scratch, list);
            const int rows = cv_scatter_list(a, u, scratch, keys, list, table);
            for (int from = 0; from < rows; from += CV_SCATTER_THREADS / 32)
                cv_scatter_round<U, G>(a, u, pipe, list, table, from, rows);
            __syncthreads();
        }
        before += all;
    }
}

#endif
