/* The exact chain for any stride, dilation, padding and groups, as a product of w (K x taps) and gathered x (taps x
 * pixels):
 *
 *     y[n,k,p,q] = bias[k] + sum over t = (c, r, s) ascending of
 *                  x[n, c, p*st_h + r*dil_h - pad_t, q*st_w + s*dil_w - pad_l] * w[k,t]
 *
 * A block takes KB = TK * KT channels and PB = TP * PT pixels of the list (n, p, q); a thread owns KT by PT outputs in
 * registers and walks the taps in order. Shared memory, STAGES stages of TC taps filled by cp.async: w as [k][TC + 4],
 * copied from the caller's w as it is (no second launch: that counts where a call takes ten microseconds) and read four
 * taps at a time, and x as [t][PB], each pixel gathered by the thread that owns its column. Where taps lie follows from
 * a table of 128 taps that all threads fill together, so a copy costs one addition, not the divisions of a tap's
 * number. Taps in the padding are zeros in shared memory (alone.cuh says why that is exact).
 *
 * Traffic: each x value is gathered about R*S times, from L1 and L2. Small tensors are asked for as a whole when the
 * block starts (cv_gather_args.x_lines): else every stage would wait for memory anew. The code is kept short, since
 * with cold caches each kilobyte of it costs about a microsecond.
 *
 * This kernel is for what slide and plane decline, and for small problems. */
#ifndef CV_GATHER_KERNEL_CUH
#define CV_GATHER_KERNEL_CUH

#include "alone.cuh"
#include "chain_async.cuh"
#include "chain_cuda.h"
#include "divide.cuh"

template <int N> __device__ __forceinline__ void cv_shared_read(float (&v)[N], const float *from)
{
    static_assert(N == 1 || N == 2 || N == 4, "one load");
    if constexpr (N == 4) {
        const float4 f = *(const float4 *)from;
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
    } else if constexpr (N == 2) {
        const float2 f = *(const float2 *)from;
        v[0] = f.x, v[1] = f.y;
    } else {
        v[0] = *from;
    }
}

/* Where taps lie, from the window's first value and from the channel's first weight. */
enum { CV_GATHER_TABLE = 128 };
struct cv_gather_taps {
    long long x[CV_GATHER_TABLE], w[CV_GATHER_TABLE];
    int2 at[CV_GATHER_TABLE]; /* rows and columns down from the window's first */
};

__device__ __forceinline__ void cv_gather_table(const cv_gather_args &a, int first, cv_gather_taps *to)
{
    const int t = first + (int)threadIdx.x, cr = cv_divide(t, a.by_s), s = t - cr * a.S;
    const int c = cv_divide(cr, a.by_r), r = cr - c * a.R;
    const int dh = r * a.dil_h, dw = s * a.dil_w;
    to->x[threadIdx.x] = c * a.xs_c + dh * a.xs_h + dw * a.xs_w;
    to->w[threadIdx.x] = c * a.ws_c + r * a.ws_r + s * a.ws_s;
    to->at[threadIdx.x] = make_int2(dh, dw);
}

struct cv_gather_place {
    int n, p, q;
};

__device__ __forceinline__ cv_gather_place cv_gather_place_of(const cv_gather_args &a, int pixel)
{
    const int row = cv_divide(pixel, a.by_q), n = cv_divide(row, a.by_p);
    return {n, row - n * a.P, pixel - row * a.Q};
}

template <int KT, int PT, int TK, int TP, int STAGES, bool PAD>
__global__ void __launch_bounds__(TK *TP) cv_gather_kernel(const __grid_constant__ cv_gather_args a)
{
    constexpr int T = TK * TP, KB = TK * KT, PB = TP * PT, TC = 32, PITCH = TC + 4;
    constexpr int AT_ONCE = T / PB; /* taps of x that the block's threads copy side by side */
    static_assert(T == CV_GATHER_TABLE && PB % 32 == 0 && T % PB == 0 && TK % 4 == 0 && TP % 8 == 0, "threads");
    __shared__ __align__(16) float ws[STAGES][KB][PITCH];
    __shared__ __align__(16) float xs[STAGES][TC][PB];
    __shared__ cv_gather_taps table[2];

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    for (unsigned i = blockIdx.x * T + tid; i < a.x_lines + a.w_lines; i += gridDim.x * T)
        cv_fetch_line(i < a.x_lines ? (const char *)a.x + 128ull * i : (const char *)a.w + 128ull * (i - a.x_lines));

    const int bk = cv_divide(blockIdx.x, a.by_blocks), pix0 = (blockIdx.x - bk * a.by_blocks.d) * PB;
    const int g = cv_divide(bk, a.by_kblocks), k0 = (bk - g * a.by_kblocks.d) * KB;
    const int taps = a.Cg * a.R * a.S, stages = (taps + TC - 1) / TC;
    cv_gather_table(a, 0, &table[0]);

    /* copying: a column of x, and rows of w; pixels past the end are copies of the last */
    const int col = tid % PB, tap_first = tid / PB;
    const float *from_x, *const from_w = a.w + (long long)(g * a.Kg + k0) * a.ws_k;
    int h0, w0;
    {
        const cv_gather_place at = cv_gather_place_of(a, min(pix0 + col, a.pixels - 1));
        h0 = at.p * a.st_h - a.pad_t;
        w0 = at.q * a.st_w - a.pad_l;
        from_x = a.x + at.n * a.xs_n + (long long)g * a.Cg * a.xs_c + h0 * a.xs_h + w0 * a.xs_w;
    }

    auto load = [&](int st) {
        const int b = st % STAGES, left = taps - st * TC, channels = min(KB, a.Kg - k0);
        const cv_gather_taps &at = table[st >> 2 & 1];
        const int in_table = (st & 3) * TC;
        if (a.w_vec) {
            /* four taps a copy, four channels a warp */
            const int t = (lane & 7) * 4, k = warp * 4 + (lane >> 3);
            const float *from = from_w + k * a.ws_k + st * TC + t;
#pragma unroll
            for (int i = 0; i < KB; i += 16, from += 16 * a.ws_k)
                cv_cp16_if(&ws[b][0][0] + (k + i) * PITCH + t, from, t < left && k + i < channels);
        } else {
            const float *from = from_w + warp * a.ws_k + at.w[in_table + lane];
#pragma unroll
            for (int i = 0; i < KB; i += 4, from += 4 * a.ws_k)
                cv_cp4_if(&ws[b][warp + i][lane], from, lane < left && warp + i < channels);
        }
        /* the places of some taps first, then their copies: one by one, each would wait for the table */
        constexpr int BATCH = PAD ? 4 : 8;
#pragma unroll
        for (int i = 0; i < TC; i += BATCH * AT_ONCE) {
            long long from[BATCH];
            int2 d[PAD ? BATCH : 1];
#pragma unroll
            for (int j = 0; j < BATCH; ++j) {
                from[j] = at.x[in_table + tap_first + i + j * AT_ONCE];
                if (PAD)
                    d[j] = at.at[in_table + tap_first + i + j * AT_ONCE];
            }
#pragma unroll
            for (int j = 0; j < BATCH; ++j) {
                const int t = tap_first + i + j * AT_ONCE;
                if (PAD) {
                    const bool in =
                        (unsigned)(h0 + d[j].x) < (unsigned)a.H && (unsigned)(w0 + d[j].y) < (unsigned)a.W && t < left;
                    cv_cp4_or_zero(&xs[b][t][col], in ? from_x + from[j] : a.x, in);
                } else {
                    cv_cp4_if(&xs[b][t][col], from_x + from[j], t < left);
                }
            }
        }
    };

    float acc[KT][PT];
#pragma unroll
    for (int k = 0; k < KT; ++k)
#pragma unroll
        for (int i = 0; i < PT; ++i)
            acc[k][i] = 0.0f;

    /* Lanes t and t^1 share w, t and t^2 share x: 16-byte shared loads then take half the wavefronts. */
    const int tk = warp % (TK / 4) * 4 + ((lane >> 1) & 3), tp = warp / (TK / 4) * 8 + (lane & 1) + (lane >> 3 << 1);
    /* One loop for filling the pipeline and for running it: turns below 0 only load. */
#pragma unroll 1
    for (int st = 1 - STAGES; st < stages; ++st) {
        cv_cp_wait<STAGES - 2>();
        __syncthreads();
        const int next = st + STAGES - 1;
        if ((next & 3) == 3 && next + 1 < stages)
            cv_gather_table(a, (next + 1) * TC, &table[(next + 1) >> 2 & 1]);
        if (next < stages)
            load(next);
        cv_cp_commit();
        if (st < 0)
            continue;
        const int b = st % STAGES, count = min(TC, taps - st * TC);
        const float *wp = &ws[b][tk][0], *xp = &xs[b][0][tp * PT];
        int t = 0;
#pragma unroll(KT *PT >= 16 ? 1 : 2)
        for (; t + 4 <= count; t += 4, wp += 4, xp += 4 * PB) {
            float wv[KT][4];
#pragma unroll
            for (int k = 0; k < KT; ++k)
                cv_shared_read<4>(wv[k], wp + k * TK * PITCH);
#pragma unroll
            for (int u = 0; u < 4; ++u) {
                float xv[PT];
                cv_shared_read<PT>(xv, xp + u * PB);
#pragma unroll
                for (int k = 0; k < KT; ++k)
#pragma unroll
                    for (int i = 0; i < PT; ++i)
                        acc[k][i] = __fmaf_rn(xv[i], wv[k][u], acc[k][i]);
            }
        }
#pragma unroll 1
        for (; t < count; ++t, ++wp, xp += PB) {
            float xv[PT];
            cv_shared_read<PT>(xv, xp);
#pragma unroll
            for (int k = 0; k < KT; ++k)
#pragma unroll
                for (int i = 0; i < PT; ++i)
                    acc[k][i] = __fmaf_rn(xv[i], wp[k * TK * PITCH], acc[k][i]);
        }
    }
    cv_cp_wait<0>();

    const int first = pix0 + tp * PT;
    if (PAD) {
        unsigned odd = 0;
#pragma unroll
        for (int k = 0; k < KT; ++k)
#pragma unroll
            for (int i = 0; i < PT; ++i)
                odd |= (cv_alone_may_differ(acc[k][i]) ? 1u : 0u) << (k * PT + i);
#pragma unroll 1
        while (odd) {
            const int bit = __ffs(odd) - 1, kl = k0 + bit / PT * TK + tk, pixel = first + bit % PT;
            odd &= odd - 1;
            if (kl >= a.Kg || pixel >= a.pixels)
                continue;
            const cv_gather_place at = cv_gather_place_of(a, pixel);
            const int h = at.p * a.st_h - a.pad_t, w = at.q * a.st_w - a.pad_l;
            if (!cv_alone_touches(a, h, w))
                continue;
            const float *xg = a.x + at.n * a.xs_n + (long long)g * a.Cg * a.xs_c;
            const float sum = cv_alone_sum<0>(a, xg, a.w + (long long)(g * a.Kg + kl) * a.ws_k, h, w);
#pragma unroll
            for (int k = 0; k < KT; ++k)
#pragma unroll
                for (int i = 0; i < PT; ++i)
                    acc[k][i] = bit == k * PT + i ? sum : acc[k][i];
        }
    }
#pragma unroll
    for (int i = 0; i < PT; ++i) {
        if (first + i >= a.pixels)
            break;
        const cv_gather_place at = cv_gather_place_of(a, first + i);
        float *const to = a.y + at.n * a.ys_n + at.p * a.ys_p + at.q * a.ys_q;
#pragma unroll
        for (int k = 0; k < KT; ++k) {
            const int kl = k0 + k * TK + tk, channel = g * a.Kg + kl;
            if (kl >= a.Kg)
                break;
            const float b = a.bias ? a.bias[channel] : 0.0f;
            if constexpr (PT == 4) {
                if (a.y_vec) {
                    float v[4];
#pragma unroll
                    for (int j = 0; j < 4; ++j)
                        v[j] = a.bias ? __fadd_rn(acc[k][j], b) : acc[k][j];
                    *(float4 *)(to + channel * a.ys_k) = make_float4(v[0], v[1], v[2], v[3]);
                    continue;
                }
            }
            to[channel * a.ys_k] = a.bias ? __fadd_rn(acc[k][i], b) : acc[k][i];
        }
        if (PT == 4 && a.y_vec)
            break;
    }
}

#endif
