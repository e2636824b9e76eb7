/* The exact chain for few channels a group (depthwise, one-channel images, few outputs), stride 1 and dilation 1:
 *
 *     y[n,k,p,q] = bias[k] + sum over c, then r, then s of x[n, g(k)*Cg + c, p + r - pad_t, q + s - pad_l] * w[k,c,r,s]
 *
 * A thread owns PT rows by QT columns of one plane (n, k). It walks the input rows downwards: row h serves output row
 * p0 + i with kernel row r = h - (p0 + i), so each output still meets its taps in the order c, r, s, while one window
 * of x, UN taps wide, is used PT times: QT + UN - 1 loads of x and PT * UN / 4 16-byte loads of w (one address for all
 * lanes of a plane) for PT * QT * UN FMAs. QT is odd, so lanes QT columns apart never meet in a bank.
 *
 * A block is a rectangle of one plane, or tnn images by tnk channels of small planes; images share their channel's w.
 * Shared memory: of each plane the rows inside the image that RC kernel rows need, as [row][pitch], and of each channel
 * RC rows of w as [r][sp]. Columns in the padding are skipped by one test a window column (its bit in a mask), rows by
 * the loop's bounds. x is read once per block but for the halo; y written once. */
#ifndef CV_PLANE_KERNEL_CUH
#define CV_PLANE_KERNEL_CUH

#include "chain_async.cuh"
#include "chain_cuda.h"

/* UN taps for PT output rows, whose w rows lie at wp, wp - sp, ... Bit e of m: window column e is inside the image. */
template <int PT, int QT, int UN, bool MASKED>
__device__ __forceinline__ void cv_plane_taps(float (*acc)[QT], const float *xp, const float *wp, int sp, unsigned m)
{
    float wv[PT][UN];
#pragma unroll
    for (int i = 0; i < PT; ++i) {
        const float *wi = wp - i * sp;
        if constexpr (UN % 4 == 0) {
#pragma unroll
            for (int u = 0; u < UN; u += 4) {
                float4 f = *(const float4 *)(wi + u);
                wv[i][u] = f.x, wv[i][u + 1] = f.y, wv[i][u + 2] = f.z, wv[i][u + 3] = f.w;
            }
        } else {
#pragma unroll
            for (int u = 0; u < UN; ++u)
                wv[i][u] = wi[u];
        }
    }
#pragma unroll
    for (int e = 0; e < QT + UN - 1; ++e) {
        const float xe = xp[e];
        const bool in = !MASKED || (m & (1u << e));
#pragma unroll
        for (int i = 0; i < PT; ++i)
#pragma unroll
            for (int j = 0; j < QT; ++j)
                if (e - j >= 0 && e - j < UN)
                    acc[i][j] = in ? __fmaf_rn(xe, wv[i][e - j], acc[i][j]) : acc[i][j];
    }
}

__device__ __forceinline__ unsigned cv_plane_mask(int lo, int hi)
{
    unsigned below = hi >= 32 ? ~0u : hi <= 0 ? 0u : (1u << hi) - 1;
    return lo >= 32 ? 0u : lo <= 0 ? below : below & (~0u << lo);
}

/* All S taps of one input row for PT output rows. lo, hi: the columns of the window that are inside. */
template <int PT, int QT, bool MASKED>
__device__ __forceinline__ void cv_plane_row(float (*acc)[QT], const float *xp, const float *wp, int S, int sp, int lo,
                                             int hi)
{
    int s = 0;
    if (MASKED) {
        /* whole steps of eight that lie in the padding */
        for (; s + 8 <= S && lo - s >= QT + 7; s += 8)
            xp += 8, wp += 8;
    }
#pragma unroll 1
    for (; s + 8 <= S; s += 8, xp += 8, wp += 8) {
        if (MASKED && hi <= s)
            return;
        cv_plane_taps<PT, QT, 8, MASKED>(acc, xp, wp, sp, MASKED ? cv_plane_mask(lo - s, hi - s) : 0);
    }
    const int left = S - s;
    if (left & 4) {
        cv_plane_taps<PT, QT, 4, MASKED>(acc, xp, wp, sp, MASKED ? cv_plane_mask(lo - s, hi - s) : 0);
        s += 4, xp += 4, wp += 4;
    }
    if (left & 2) {
        cv_plane_taps<PT, QT, 2, MASKED>(acc, xp, wp, sp, MASKED ? cv_plane_mask(lo - s, hi - s) : 0);
        s += 2, xp += 2, wp += 2;
    }
    if (left & 1)
        cv_plane_taps<PT, QT, 1, MASKED>(acc, xp, wp, sp, MASKED ? cv_plane_mask(lo - s, hi - s) : 0);
}

template <int PT, int QT, bool MASKED> __global__ void __launch_bounds__(128) cv_plane_kernel(const cv_plane_args a)
{
    extern __shared__ float4 cv_smem4[];
    float *ws_all = (float *)cv_smem4, *xs_all = ws_all + a.tnk * a.w_floats;
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int tile_q = blockIdx.x % a.tiles_q, tile_p = blockIdx.x / a.tiles_q % a.tiles_p;
    const int block = blockIdx.x / a.tiles_q / a.tiles_p;
    const int n0 = block % a.tiles_n * a.tnn, k0 = block / a.tiles_n * a.tnk;
    const int images = min(a.tnn, a.N - n0), channels = min(a.tnk, a.K - k0);

    /* this thread's outputs */
    const int tq = tid % a.tq, tp = tid / a.tq % a.tp, plane = tid / (a.tq * a.tp);
    const int nn = plane % a.tnn, kk = plane / a.tnn;
    const int p_tile = tile_p * a.tp * PT, q_tile = tile_q * a.tq * QT;
    const int p0 = p_tile + tp * PT, q0 = q_tile + tq * QT;
    const bool active = nn < images && kk < channels && p0 < a.P && q0 < a.Q;

    /* columns that the block reads, within the image */
    const int col0 = q_tile - a.pad_l;
    const int col_begin = max(col0, 0), col_end = min(a.W, col0 + a.tq * QT + a.S - 1);
    const int x_lane = lane & (a.x_lanes - 1), x_row = (warp * 32 + lane) / a.x_lanes, x_step = blockDim.x / a.x_lanes;
    const int w_lane = lane & (a.w_lanes - 1), w_row = (warp * 32 + lane) / a.w_lanes, w_step = blockDim.x / a.w_lanes;

    float acc[PT][QT];
#pragma unroll
    for (int i = 0; i < PT; ++i)
#pragma unroll
        for (int j = 0; j < QT; ++j)
            acc[i][j] = 0.0f;

    for (int c = 0; c < a.Cg; ++c) {
        for (int r0 = 0; r0 < a.R; r0 += a.rc) {
            const int rc = min(a.rc, a.R - r0);
            const int h_tile = p_tile + r0 - a.pad_t;
            const int h_begin = max(h_tile, 0), h_end = min(a.H, h_tile + a.tp * PT + rc - 1);
            const int rows = max(h_end - h_begin, 0);
            __syncthreads();
            for (int i = x_row; i < channels * a.tnn * rows; i += x_step) {
                const int slot = i / rows, row = i - slot * rows;
                const int sn = slot % a.tnn, sk = slot / a.tnn;
                if (sn >= images)
                    continue;
                const float *from = a.x + (n0 + sn) * a.xs_n + ((long long)((k0 + sk) / a.Kg) * a.Cg + c) * a.xs_c +
                                    (h_begin + row) * a.xs_h;
                float *to = xs_all + slot * a.x_floats + row * a.pitch - col0;
                for (int col = col_begin + x_lane; col < col_end; col += a.x_lanes)
                    cv_cp4(to + col, from + col * a.xs_w);
            }
            for (int i = w_row; i < channels * rc; i += w_step) {
                const int sk = i / rc, row = i - sk * rc;
                const float *from = a.w + (k0 + sk) * a.ws_k + c * a.ws_c + (r0 + row) * a.ws_r;
                float *to = ws_all + sk * a.w_floats + row * a.sp;
                for (int s = w_lane; s < a.S; s += a.w_lanes)
                    cv_cp4(to + s, from + s * a.ws_s);
            }
            cv_cp_commit();
            cv_cp_wait<0>();
            __syncthreads();
            if (!active)
                continue;
            const int h0 = p0 + r0 - a.pad_t, lo = a.pad_l - q0, hi = a.W + a.pad_l - q0;
            const float *xp = xs_all + plane * a.x_floats + (h0 - h_begin) * a.pitch + tq * QT;
            const float *wp = ws_all + kk * a.w_floats;
            const int hh_end = min(PT + rc - 1, a.H - h0);
#pragma unroll 1
            for (int hh = max(0, -h0); hh < hh_end; ++hh) {
                const float *xr = xp + hh * a.pitch, *wr = wp + hh * a.sp;
                if (hh >= PT - 1 && hh < rc) {
                    cv_plane_row<PT, QT, MASKED>(acc, xr, wr, a.S, a.sp, lo, hi);
                } else {
#pragma unroll
                    for (int i = 0; i < PT; ++i)
                        if (hh - i >= 0 && hh - i < rc)
                            cv_plane_row<1, QT, MASKED>(acc + i, xr, wr - i * a.sp, a.S, a.sp, lo, hi);
                }
            }
        }
    }
    if (!active)
        return;
    float *yp = a.y + (n0 + nn) * a.ys_n + (k0 + kk) * a.ys_k;
    const float b = a.bias ? a.bias[k0 + kk] : 0.0f;
#pragma unroll
    for (int i = 0; i < PT; ++i)
#pragma unroll
        for (int j = 0; j < QT; ++j)
            if (p0 + i < a.P && q0 + j < a.Q)
                yp[(p0 + i) * a.ys_p + (q0 + j) * a.ys_q] = a.bias ? __fadd_rn(acc[i][j], b) : acc[i][j];
}

#endif
