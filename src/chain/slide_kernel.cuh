/* The exact chain for kernels that move by one column, stride_w = dil_w = 1:
 *
 *     y[n,k,p,q] = bias[k] + sum over c, then r, then s of x[n, c, p*st_h + r*dil_h - pad_t, q + s - pad_l] *
 * w[k,c,r,s]
 *
 * Work item: QT outputs adjacent in q of one row (n, p); items of all rows form one list, so a block may straddle rows
 * and no thread idles at a row's end except in its last item. A block takes NB items and KB = TK * KT output channels;
 * a thread owns one item and KT channels: KT * QT accumulators in registers, and walks the sum in the contract's order.
 * Between two taps s and s + 1 an item's window moves by one, so UN taps need QT + UN - 1 values of x, kept in
 * registers, not UN * QT.
 *
 * Shared memory, per stage (STAGES of them, filled by cp.async): NR rows (c, r) of w as [row][s][KB], and the x rows
 * that the block's items read. Per tap a thread issues KT/4 16-byte loads of w and about one load of x for KT * QT
 * FMAs.
 *
 * Traffic per block and tap: KB floats of w (re-laid by relay.cu so that a stage is one contiguous run) for NB*QT*KB
 * FMAs; x once per (c, r): about NB*QT + S floats for S times as many FMAs.
 *
 * Balance: with `split`, the tiles are dealt out as one line of stages cut into equal lengths (McNaughton's wrap-around
 * rule). A tile cut by a block border is begun by block b - 1, as its first job, and finished by block b, as its last,
 * which picks up the accumulators where they stood: the chain's order is untouched. */
#ifndef CV_SLIDE_KERNEL_CUH
#define CV_SLIDE_KERNEL_CUH

#include "chain_cuda.h"
#include "chain_async.cuh"

struct cv_slide_entry {
    int from, to, h, unused; /* element offset in x; float offset in the slot area; row h at r = 0 */
};

/* UN taps from s on: xv[j + u] is the window. */
template <int KT, int QT, int KB, int UN>
__device__ __forceinline__ void cv_slide_taps(float (&acc)[QT][KT], const float *xp, const float *wp)
{
    float xv[QT + UN - 1];
#pragma unroll
    for (int i = 0; i < QT + UN - 1; ++i)
        xv[i] = xp[i];
#pragma unroll
    for (int u = 0; u < UN; ++u) {
        float wv[KT];
#pragma unroll
        for (int v = 0; v < KT; v += 4) {
            float4 f = *(const float4 *)(wp + u * KB + (v / 4) * (KB / (KT / 4)));
            wv[v] = f.x, wv[v + 1] = f.y, wv[v + 2] = f.z, wv[v + 3] = f.w;
        }
#pragma unroll
        for (int j = 0; j < QT; ++j)
#pragma unroll
            for (int v = 0; v < KT; ++v) {
                int k = (j & 1) ? KT - 1 - v : v; /* there and back: the turn reuses an operand */
                acc[j][k] = __fmaf_rn(xv[u + j], wv[k], acc[j][k]);
            }
    }
}

/* The same where some columns lie outside the image, at [lo, hi) inside; those taps are skipped. */
template <int KT, int QT, int KB>
__device__ __forceinline__ void cv_slide_taps_masked(float (&acc)[QT][KT], const float *xp, const float *wp, int s,
                                                     int n, int lo, int hi)
{
#pragma unroll 1
    for (int u = 0; u < n; ++u, ++xp, wp += KB) {
        float wv[KT];
#pragma unroll
        for (int v = 0; v < KT; v += 4) {
            float4 f = *(const float4 *)(wp + (v / 4) * (KB / (KT / 4)));
            wv[v] = f.x, wv[v + 1] = f.y, wv[v + 2] = f.z, wv[v + 3] = f.w;
        }
        int t = s + u - lo;
#pragma unroll
        for (int j = 0; j < QT; ++j) {
            float xj = xp[j];
            bool in = (unsigned)(t + j) < (unsigned)(hi - lo);
#pragma unroll
            for (int k = 0; k < KT; ++k)
                acc[j][k] = in ? __fmaf_rn(xj, wv[k], acc[j][k]) : acc[j][k];
        }
    }
}

template <int KT, int QT, int TK, int NB, int STAGES, bool MASKED, int MINB>
__global__ void __launch_bounds__(TK *NB, MINB) cv_slide_kernel(const cv_slide_args a)
{
    constexpr int T = TK * NB, KB = TK * KT, WARPS = T / 32;
    static_assert(TK % 4 == 0 && NB % 8 == 0, "a warp is 4 channel threads by 8 items");
    extern __shared__ float4 cv_smem4[];
    float *smem = (float *)cv_smem4;
    cv_slide_entry *table = (cv_slide_entry *)(smem + STAGES * a.stage_floats);

    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    /* lanes t and t^1 share w, t and t^2 share x: 16-byte shared loads then take half the wavefronts */
    const int tk = (warp % (TK / 4)) * 4 + ((lane >> 1) & 3);
    const int it = (warp / (TK / 4)) * 8 + (lane & 1) + ((lane >> 3) << 1);
    const int rows = a.Cg * a.R;

    /* who copies what of a stage's x rows */
    const int wpr = a.nr >= WARPS ? 1 : WARPS / a.nr; /* warps a row; nr is 1 or a power of two */
    const int rstep = WARPS / wpr, row0 = warp / wpr, e0 = (warp % wpr) * 32 + lane, estep = wpr * 32;
    const int step_c = rstep / a.R, step_r = rstep % a.R;
    const long long r_stride = (long long)a.dil_h * a.xs_h;

    /* this block's share of the line of stages */
    long long lo = 0, hi = 0;
    if (a.split) {
        const long long all = (long long)a.tiles * a.stages;
        lo = all * blockIdx.x / gridDim.x;
        hi = all * (blockIdx.x + 1) / gridDim.x;
    } else {
        lo = (long long)blockIdx.x * a.stages;
        hi = lo + a.stages;
    }
    /* its last tile's beginning comes first, its first tile's end last */
    const int first = (int)(lo / a.stages), last = (int)((hi - 1) / a.stages);
    for (int job = last; job >= first; --job) {
        const int st0 = job == first ? (int)(lo - (long long)job * a.stages) : 0;
        const int st1 = job == last ? (int)(hi - (long long)job * a.stages) : a.stages;

        /* tile -> group, k block, item block: `swizzle` item blocks go by under one k block before the next k block */
        const int per_group = a.nib * a.nkb;
        const int g = job / per_group, in_group = job % per_group;
        const int band = in_group / (a.swizzle * a.nkb), in_band = in_group % (a.swizzle * a.nkb);
        const int width = min(a.swizzle, a.nib - band * a.swizzle);
        const int kb = in_band / width, ib = band * a.swizzle + in_band % width;

        const int i0 = ib * NB, count = min(NB, a.items - i0);
        const int row_first = i0 / a.TQ, group_first = i0 % a.TQ;
        const int lastrow = (i0 + count - 1) / a.TQ;

        /* the copy table: one entry a chunk of x for r = 0, c = 0 */
        __syncthreads();
        int entries = 0;
        for (int slot = 0; slot <= lastrow - row_first; ++slot) {
            const int row = row_first + slot, n = row / a.P, p = row % a.P;
            const int ga = slot ? 0 : group_first;
            const int gb = min(a.TQ, ga + i0 + count - (row * a.TQ + ga));
            int c0 = ga * QT - a.pad_l;
            const int end = min(a.W, gb * QT + a.S - 1 - a.pad_l);
            const int size = a.vec ? 4 : 1;
            if (a.vec)
                c0 &= ~3;
            const int begin = max(c0, 0);
            const int chunks = end > begin ? (end - begin + size - 1) / size : 0;
            for (int i = tid; i < chunks; i += T) {
                const int col = begin + i * size, h = p * a.st_h - a.pad_t;
                cv_slide_entry e;
                e.from = (int)(n * a.xs_n + (long long)h * a.xs_h + (long long)col * a.xs_w);
                e.to = slot * a.xrow + col - c0;
                e.h = h;
                e.unused = 0;
                table[entries + i] = e;
            }
            entries += chunks;
        }
        __syncthreads();

        /* this thread's item */
        const int item = min(i0 + it, a.items - 1);
        const int row = item / a.TQ, q0 = (item % a.TQ) * QT;
        const int n = row / a.P, p = row % a.P;
        int c0 = (row == row_first ? group_first * QT : 0) - a.pad_l;
        if (a.vec)
            c0 &= ~3;
        const int xthread = (row - row_first) * a.xrow + q0 - a.pad_l - c0;
        const int col_lo = a.pad_l - q0, col_hi = a.W + a.pad_l - q0; /* window columns inside the image */
        const int h0 = p * a.st_h - a.pad_t;

        const float *wsrc = a.wr + g * a.wr_group + kb * a.wr_kblock + (long long)st0 * a.nr * a.S * KB;
        const float *xg = a.x + (long long)g * a.Cg * a.xs_c;
        int load_cr = st0 * a.nr, my_cr = load_cr + row0;
        int my_r = my_cr % a.R, my_c = my_cr / a.R;

        auto load = [&](int buffer) {
            float *ws = smem + buffer * a.stage_floats;
            float *xs = ws + a.nr * a.S * KB;
            const int nr = min(a.nr, rows - load_cr), chunks = nr * a.S * (KB / 4);
            for (int i = tid; i < chunks; i += T)
                cv_cp16(ws + i * 4, wsrc + i * 4);
            wsrc += chunks * 4;
            load_cr += nr;
            for (int row = row0; row < a.nr; row += rstep) {
                if (row < nr) {
                    const float *src = xg + my_c * a.xs_c + my_r * r_stride;
                    float *dst = xs + row * a.x_floats;
                    for (int e = e0; e < entries; e += estep) {
                        const cv_slide_entry t = table[e];
                        if (MASKED && (unsigned)(t.h + my_r * a.dil_h) >= (unsigned)a.H)
                            continue;
                        if (a.vec)
                            cv_cp16(dst + t.to, src + t.from);
                        else
                            cv_cp4(dst + t.to, src + t.from);
                    }
                }
                my_c += step_c;
                my_r += step_r;
                if (my_r >= a.R) {
                    my_r -= a.R;
                    ++my_c;
                }
            }
        };

        float acc[QT][KT];
        if (st0 > 0) {
            /* begun by block b - 1, which did it first */
            if (tid == 0) {
                unsigned ready;
                do
                    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(a.flags + blockIdx.x - 1));
                while (!ready);
            }
            __syncthreads();
            const float *from = a.carry + (long long)(blockIdx.x - 1) * (T * KT * QT) + tid;
#pragma unroll
            for (int j = 0; j < QT; ++j)
#pragma unroll
                for (int k = 0; k < KT; ++k)
                    acc[j][k] = __ldcg(from + (j * KT + k) * T);
        } else {
#pragma unroll
            for (int j = 0; j < QT; ++j)
#pragma unroll
                for (int k = 0; k < KT; ++k)
                    acc[j][k] = 0.0f;
        }

#pragma unroll
        for (int i = 0; i < STAGES - 1; ++i) {
            if (st0 + i < st1)
                load(i);
            cv_cp_commit();
        }
        int buffer = 0, fill = STAGES - 1;
        int cr = st0 * a.nr, r = cr % a.R;
        for (int st = st0; st < st1; ++st) {
            cv_cp_wait<STAGES - 2>();
            __syncthreads();
            if (st + STAGES - 1 < st1)
                load(fill);
            cv_cp_commit();
            const float *wp = smem + buffer * a.stage_floats;
            const float *xrow = wp + a.nr * a.S * KB + xthread;
            wp += tk * 4;
            const int nr = min(a.nr, rows - cr);
            cr += nr;
#pragma unroll 1
            for (int i = 0; i < nr; ++i, xrow += a.x_floats) {
                const float *xp = xrow;
                if (MASKED) {
                    const bool inside = (unsigned)(h0 + r * a.dil_h) < (unsigned)a.H;
                    if (++r == a.R)
                        r = 0;
                    /* a warp takes the plain path where none of its lanes meets an edge */
                    if (__any_sync(~0u, !inside || col_lo > 0 || a.S - 1 + QT > col_hi)) {
                        if (inside)
                            cv_slide_taps_masked<KT, QT, KB>(acc, xp, wp, 0, a.S, col_lo, col_hi);
                        wp += a.S * KB;
                        continue;
                    }
                }
                int s = a.S;
#pragma unroll 1
                for (; s >= 8; s -= 8, xp += 8, wp += 8 * KB)
                    cv_slide_taps<KT, QT, KB, 8>(acc, xp, wp);
                if (s & 4) {
                    cv_slide_taps<KT, QT, KB, 4>(acc, xp, wp);
                    xp += 4, wp += 4 * KB;
                }
                if (s & 2) {
                    cv_slide_taps<KT, QT, KB, 2>(acc, xp, wp);
                    xp += 2, wp += 2 * KB;
                }
                if (s & 1) {
                    cv_slide_taps<KT, QT, KB, 1>(acc, xp, wp);
                    wp += KB;
                }
            }
            buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
            fill = fill + 1 == STAGES ? 0 : fill + 1;
        }
        cv_cp_wait<0>();

        if (st1 < a.stages) {
            float *to = a.carry + (long long)blockIdx.x * (T * KT * QT) + tid;
#pragma unroll
            for (int j = 0; j < QT; ++j)
#pragma unroll
                for (int k = 0; k < KT; ++k)
                    __stcg(to + (j * KT + k) * T, acc[j][k]);
            __threadfence();
            __syncthreads();
            if (tid == 0)
                asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(a.flags + blockIdx.x), "r"(1u));
        } else if (i0 + it < a.items) {
            float *yp = a.y + n * a.ys_n + (long long)p * a.ys_p + (long long)q0 * a.ys_q;
#pragma unroll
            for (int v = 0; v < KT; ++v) {
                const int kl = kb * KB + (v / 4) * (KB / (KT / 4)) + tk * 4 + (v & 3);
                if (kl < a.Kg) {
                    const int k = g * a.Kg + kl;
                    const float b = a.bias ? a.bias[k] : 0.0f;
                    float *yk = yp + k * a.ys_k;
#pragma unroll
                    for (int j = 0; j < QT; ++j)
                        if (q0 + j < a.Q)
                            yk[(long long)j * a.ys_q] = a.bias ? __fadd_rn(acc[j][v], b) : acc[j][v];
                }
            }
        }
    }
}

#endif
