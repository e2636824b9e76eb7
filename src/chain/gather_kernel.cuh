/* The exact chain for any stride, dilation, padding and groups, as a product of w (K x taps) and gathered x (taps x
 * pixels):
 *
 *     y[n,k,p,q] = bias[k] + sum over t = (c, r, s) ascending of x[n, c, p*st_h + r*dil_h - pad_t, q*st_w + s*dil_w -
 * pad_l] * w[k,t]
 *
 * A block takes KB = TK * KT channels and PB = TP * PT pixels of the list (n, p, q); a thread KT by PT outputs. Shared
 * memory, three stages filled by cp.async: TC taps of w as [t][KB] (re-laid by relay.cu, one contiguous run), of x as
 * [t][PB], each pixel gathered by the thread that owns its column, and one bit a pixel and tap that says whether the
 * tap lies in the image. Stages without a tap outside run without tests; otherwise such taps are skipped, never
 * multiplied by zero.
 *
 * Traffic: each x value is gathered about R*S times, from L1 and L2 mostly; this kernel is for what slide and plane
 * decline. */
#ifndef CV_GATHER_KERNEL_CUH
#define CV_GATHER_KERNEL_CUH

#include "chain_cuda.h"
#include "chain_async.cuh"

template <int N> __device__ __forceinline__ void cv_shared_read(float (&v)[N], const float *from, int half)
{
    if (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            float4 f = *(const float4 *)(from + i / 4 * half);
            v[i] = f.x, v[i + (N > 1)] = f.y, v[i + (N > 2 ? 2 : 0)] = f.z, v[i + (N > 3 ? 3 : 0)] = f.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i)
            v[i] = from[i];
    }
}

template <int KT, int PT, int TK, int TP, int TC>
__global__ void __launch_bounds__(TK *TP) cv_gather_kernel(const cv_gather_args a)
{
    constexpr int T = TK * TP, KB = TK * KT, PB = TP * PT, STAGES = 3;
    constexpr int KHALF = KT >= 4 ? KB / (KT / 4) : 0,
                  PHALF = PT >= 4 ? PB / (PT / 4) : 0; /* where the next four are */
    constexpr int KSTEP = KT >= 4 ? 4 : KT, PSTEP = PT >= 4 ? 4 : PT;
    constexpr int PPT = PB > T ? PB / T : 1,
                  TAPS_AT_ONCE = PB > T ? 1 : T / PB; /* of one copying thread: pixels; taps beside it */
    static_assert(PB % 32 == 0 && (PB % T == 0 || T % PB == 0) && TC % TAPS_AT_ONCE == 0, "copying threads");
    __shared__ __align__(16) float ws[STAGES][TC][KB];
    __shared__ __align__(16) float xs[STAGES][TC][PB];
    __shared__ unsigned inside[STAGES][TC][PB / 32];

    const int tid = threadIdx.x, tp = tid % TP, tk = tid / TP;
    const long long bid = blockIdx.x;
    const int kb = (int)(bid / a.pixel_blocks % a.nkb), g = (int)(bid / a.pixel_blocks / a.nkb);
    const long long pix0 = bid % a.pixel_blocks * PB;
    const int taps = a.Cg * a.R * a.S;

    /* copying: this thread's pixels and its first tap */
    const float *xbase[PPT];
    int h0[PPT], w0[PPT];
#pragma unroll
    for (int i = 0; i < PPT; ++i) {
        const long long pix = pix0 + tid % PB + i * T;
        if (pix < a.pixels) {
            const int q = (int)(pix % a.Q), p = (int)(pix / a.Q % a.P);
            const long long n = pix / a.Q / a.P;
            h0[i] = p * a.st_h - a.pad_t;
            w0[i] = q * a.st_w - a.pad_l;
            xbase[i] = a.x + n * a.xs_n + (long long)g * a.Cg * a.xs_c + h0[i] * a.xs_h + w0[i] * a.xs_w;
        } else {
            h0[i] = w0[i] = 0; /* any pixel will do: its outputs are not stored */
            xbase[i] = NULL;
        }
    }
    const int tap_first = tid / PB;
    int lt = tap_first, ls = lt % a.S, lr = lt / a.S % a.R, lc = lt / a.S / a.R;
    const float *wsrc = a.wr + g * a.wr_group + kb * a.wr_kblock; /* KT < 4: the first channel's first tap */
    int wt = 0;

    auto load = [&](int b) -> int {
        int all = 1;
        if constexpr (KT >= 4) {
            for (int i = tid * 4; i < min(TC, taps - wt) * KB; i += T * 4)
                cv_cp16(&ws[b][0][0] + i, wsrc + i);
        } else {
            /* w as it is: each channel's taps, in a row where they are packed */
            for (int i = tid; i < TC * KB; i += T) {
                const int t = i % TC, k = i / TC, tap = wt + t;
                if (tap < taps && kb * KB + k < a.Kg) {
                    long long off = tap;
                    if (!a.w_packed) {
                        const int s = tap % a.S, cr = tap / a.S;
                        off = cr / a.R * a.ws_c + cr % a.R * a.ws_r + s * a.ws_s;
                    }
                    cv_cp4(&ws[b][t][k], wsrc + k * a.ws_k + off);
                }
            }
        }
        wsrc += KT >= 4 ? TC * KB : 0;
        wt += TC;
#pragma unroll 2
        for (int t = 0; t < TC; t += TAPS_AT_ONCE) {
            const int dh = lr * a.dil_h, dw = ls * a.dil_w;
            const long long off = lc * a.xs_c + dh * a.xs_h + dw * a.xs_w;
#pragma unroll
            for (int i = 0; i < PPT; ++i) {
                const bool in =
                    (unsigned)(h0[i] + dh) < (unsigned)a.H && (unsigned)(w0[i] + dw) < (unsigned)a.W && lt < taps;
                if (in && xbase[i])
                    cv_cp4(&xs[b][t + tap_first][tid % PB + i * T], xbase[i] + off);
                const unsigned word = __ballot_sync(~0u, in || !xbase[i]);
                if ((tid & 31) == 0)
                    inside[b][t + tap_first][(tid % PB + i * T) / 32] = word;
                all &= in || (!xbase[i] && lt < taps);
            }
            lt += TAPS_AT_ONCE;
            ls += TAPS_AT_ONCE;
            while (ls >= a.S) {
                ls -= a.S;
                if (++lr == a.R) {
                    lr = 0;
                    ++lc;
                }
            }
        }
        return all;
    };

    float acc[KT][PT];
#pragma unroll
    for (int k = 0; k < KT; ++k)
#pragma unroll
        for (int i = 0; i < PT; ++i)
            acc[k][i] = 0.0f;

    const int stages = (taps + TC - 1) / TC;
    int plain[STAGES];
    plain[0] = load(0);
    cv_cp_commit();
    plain[1] = stages > 1 ? load(1) : 1;
    cv_cp_commit();
    plain[2] = 1;
    for (int st = 0; st < stages; ++st) {
        const int b = st % STAGES;
        cv_cp_wait<1>();
        const int free_of_tests = __syncthreads_and(plain[0]);
        plain[0] = plain[1];
        plain[1] = st + 2 < stages ? load((st + 2) % STAGES) : 1;
        cv_cp_commit();
        const float *wp = &ws[b][0][tk * KSTEP], *xp = &xs[b][0][tp * PSTEP];
        if (free_of_tests) {
#pragma unroll(KT *PT >= 16 ? 4 : 8)
            for (int t = 0; t < TC; ++t) {
                float wv[KT], xv[PT];
                cv_shared_read<KT>(wv, wp + t * KB, KHALF);
                cv_shared_read<PT>(xv, xp + t * PB, PHALF);
#pragma unroll
                for (int k = 0; k < KT; ++k)
#pragma unroll
                    for (int i = 0; i < PT; ++i)
                        acc[k][i] = __fmaf_rn(xv[i], wv[k], acc[k][i]);
            }
        } else {
            /* taps past the end count as outside */
#pragma unroll(KT *PT >= 16 ? 2 : 8)
            for (int t = 0; t < TC; ++t) {
                float wv[KT], xv[PT];
                cv_shared_read<KT>(wv, wp + t * KB, KHALF);
                cv_shared_read<PT>(xv, xp + t * PB, PHALF);
#pragma unroll
                for (int i = 0; i < PT; ++i) {
                    const int pix = PT >= 4 ? tp * 4 + i / 4 * PHALF + (i & 3) : tp * PT + i;
                    const bool in = inside[b][t][pix / 32] >> (pix & 31) & 1;
#pragma unroll
                    for (int k = 0; k < KT; ++k)
                        acc[k][i] = in ? __fmaf_rn(xv[i], wv[k], acc[k][i]) : acc[k][i];
                }
            }
        }
    }
    cv_cp_wait<0>();
#pragma unroll
    for (int i = 0; i < PT; ++i) {
        const long long pix = pix0 + (PT >= 4 ? tp * 4 + i / 4 * PHALF + (i & 3) : tp * PT + i);
        if (pix >= a.pixels)
            continue;
        const long long q = pix % a.Q, p = pix / a.Q % a.P, n = pix / a.Q / a.P;
        float *yp = a.y + n * a.ys_n + p * a.ys_p + q * a.ys_q;
#pragma unroll
        for (int k = 0; k < KT; ++k) {
            const int kl = kb * KB + (KT >= 4 ? tk * 4 + k / 4 * KHALF + (k & 3) : tk * KT + k);
            if (kl < a.Kg) {
                const int kk = g * a.Kg + kl;
                yp[kk * a.ys_k] = a.bias ? __fadd_rn(acc[k][i], a.bias[kk]) : acc[k][i];
            }
        }
    }
}

#endif
