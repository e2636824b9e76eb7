/* The exact chain for few channels a group (depthwise, one-channel images, few outputs), stride 1 and dilation 1:
 *
 *     y[n,k,p,q] = bias[k] + sum over c, then r, then s of x[n, g(k)*Cg + c, p + r - pad_t, q + s - pad_l] * w[k,c,r,s]
 *
 * A thread owns PT rows by QT columns of one plane (n, k). It walks the input rows downwards: row h serves output row
 * p0 + i with kernel row r = h - (p0 + i), so each output still meets its taps in the order c, r, s, while one window
 * of x, UN taps wide, is used PT times: QT + UN - 1 loads of x and PT * UN / 4 16-byte loads of w (the same address for
 * all lanes of a plane) for PT * QT * UN FMAs.
 *
 * Shared memory: of each plane of the block the input rows that RC kernel rows need, as [row][pitch], and RC rows of w
 * as [r][SP]. Columns in the padding are skipped by one test per window column (its bit in a mask), rows by the loop's
 * bounds. x is read once per block from memory but for the halo; y written once. */
#ifndef CV_PLANE_KERNEL_CUH
#define CV_PLANE_KERNEL_CUH

#include "chain_cuda.h"
#include "chain_async.cuh"

/* QT = 8: a gap after every eighth column keeps lanes eight columns apart off one another's banks. */
template <int QT> __device__ __forceinline__ constexpr int cv_plane_at(int i) { return QT == 8 ? i + (i >> 3) : i; }

/* UN taps for PT output rows, whose w rows lie at wp, wp - sp, ... Bit e of m: window column e is inside the image. */
template <int PT, int QT, int UN, bool MASKED>
__device__ __forceinline__ void cv_plane_taps(float (*acc)[QT], const float *xp, const float *wp, int sp, unsigned m)
{
    float wv[PT][UN];
#pragma unroll
    for (int i = 0; i < PT; ++i) {
        const float *wi = wp - i * sp;
        if (UN % 4 == 0) {
#pragma unroll
            for (int u = 0; u < UN; u += 4) {
                float4 f = *(const float4 *)(wi + u);
                wv[i][u] = f.x, wv[i][u + (UN > 1)] = f.y, wv[i][u + (UN > 2 ? 2 : 0)] = f.z,
                wv[i][u + (UN > 3 ? 3 : 0)] = f.w;
            }
        } else {
#pragma unroll
            for (int u = 0; u < UN; ++u)
                wv[i][u] = wi[u];
        }
    }
#pragma unroll
    for (int e = 0; e < QT + UN - 1; ++e) {
        const float xe = xp[cv_plane_at<QT>(e)];
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
            xp += cv_plane_at<QT>(8), wp += 8;
    }
#pragma unroll 1
    for (; s + 8 <= S; s += 8, xp += cv_plane_at<QT>(8), wp += 8) {
        if (MASKED && hi <= s)
            return;
        cv_plane_taps<PT, QT, 8, MASKED>(acc, xp, wp, sp, MASKED ? cv_plane_mask(lo - s, hi - s) : 0);
    }
    const int left = S - s;
    if (QT != 8) {
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
    } else {
        /* the gap would move under a shorter step: take the remaining taps one at a time */
#pragma unroll 1
        for (int u = 0; u < left; ++u) {
            const unsigned m = MASKED ? cv_plane_mask(lo - s - u, hi - s - u) : 0;
            float wv[PT];
#pragma unroll
            for (int i = 0; i < PT; ++i)
                wv[i] = wp[u - i * sp];
#pragma unroll
            for (int j = 0; j < QT; ++j) {
                const float xe = xp[u + j + ((u + j) >> 3)];
                if (!MASKED || (m & (1u << j))) {
#pragma unroll
                    for (int i = 0; i < PT; ++i)
                        acc[i][j] = __fmaf_rn(xe, wv[i], acc[i][j]);
                }
            }
        }
    }
}

template <int PT, int QT, bool MASKED> __global__ void __launch_bounds__(128) cv_plane_kernel(const cv_plane_args a)
{
    extern __shared__ float4 cv_smem4[];
    float *smem = (float *)cv_smem4;
    const int threads = blockDim.x, tid = threadIdx.x;
    const int tile_q = blockIdx.x % a.tiles_q, rest = blockIdx.x / a.tiles_q;
    const int tile_p = rest % a.tiles_p;
    const long long plane0 = (long long)(rest / a.tiles_p) * a.tn;
    const int tq = tid % a.tq, tp = tid / a.tq % a.tp, tn = tid / (a.tq * a.tp);
    const int p_tile = tile_p * a.tp * PT, q_tile = tile_q * a.tq * QT;
    const int p0 = p_tile + tp * PT, q0 = q_tile + tq * QT;
    const int planes = (int)min((long long)a.tn, a.planes - plane0);
    const bool active = tn < planes && p0 < a.P && q0 < a.Q;
    const int warps = threads / 32, warp = tid / 32, lane = tid % 32;

    /* columns that the block reads, within the image */
    const int col0 = q_tile - a.pad_l;
    const int col_begin = max(col0, 0), col_end = min(a.W, col0 + a.tq * QT + a.S - 1);

    float acc[PT][QT];
#pragma unroll
    for (int i = 0; i < PT; ++i)
#pragma unroll
        for (int j = 0; j < QT; ++j)
            acc[i][j] = 0.0f;

    float *ws_all = smem, *xs_all = smem + a.tn * a.w_floats;
    for (int c = 0; c < a.Cg; ++c) {
        for (int r0 = 0; r0 < a.R; r0 += a.rc) {
            const int rc = min(a.rc, a.R - r0);
            const int rows = a.tp * PT + rc - 1, h_tile = p_tile + r0 - a.pad_t;
            __syncthreads();
            for (int j = 0; j < planes; ++j) {
                const long long plane = plane0 + j;
                const long long n = plane / a.K;
                const int k = (int)(plane % a.K);
                const float *xg = a.x + n * a.xs_n + ((long long)(k / a.Kg) * a.Cg + c) * a.xs_c;
                const float *wg = a.w + k * a.ws_k + c * a.ws_c + r0 * a.ws_r;
                float *xs = xs_all + j * a.x_floats, *ws = ws_all + j * a.w_floats;
                for (int row = warp; row < rows; row += warps) {
                    const int h = h_tile + row;
                    if ((unsigned)h < (unsigned)a.H)
                        for (int col = col_begin + lane; col < col_end; col += 32)
                            cv_cp4(xs + row * a.pitch + cv_plane_at<QT>(col - col0), xg + h * a.xs_h + col * a.xs_w);
                }
                for (int row = warp; row < rc; row += warps)
                    for (int s = lane; s < a.S; s += 32)
                        cv_cp4(ws + row * a.sp + s, wg + row * a.ws_r + s * a.ws_s);
            }
            cv_cp_commit();
            cv_cp_wait<0>();
            __syncthreads();
            if (!active)
                continue;
            const float *xp = xs_all + tn * a.x_floats + tp * PT * a.pitch + cv_plane_at<QT>(tq * QT);
            const float *wp = ws_all + tn * a.w_floats;
            const int h0 = p0 + r0 - a.pad_t, lo = a.pad_l - q0, hi = a.W + a.pad_l - q0;
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
    const long long plane = plane0 + tn, n = plane / a.K;
    const int k = (int)(plane % a.K);
    float *yp = a.y + n * a.ys_n + k * a.ys_k;
    const float b = a.bias ? a.bias[k] : 0.0f;
#pragma unroll
    for (int i = 0; i < PT; ++i)
#pragma unroll
        for (int j = 0; j < QT; ++j)
            if (p0 + i < a.P && q0 + j < a.Q)
                yp[(p0 + i) * a.ys_p + (q0 + j) * a.ys_q] = a.bias ? __fadd_rn(acc[i][j], b) : acc[i][j];
}

#endif
