/* The exact chain by register tiles along q:
 *
 *     y[n,k,p,q] = bias[k] + sum over c, then r, then s of
 *                  x[n, c, p*st_h + r*dil_h - pad_t, q*st_w + s*dil_w - pad_l] * w[k,c,r,s]
 *
 * Work item: QT outputs adjacent in q of one row (n, p); items of all rows form one list, so a block may straddle rows
 * and no thread idles at a row's end except in its last item. A block takes NB items and KB = TK * KT output channels;
 * a thread owns one item and KT channels: KT * QT accumulators in registers, and walks the sum in the contract's order.
 * Between two taps s and s + 1 an item's window moves by one, so UN taps need QT + UN - 1 values of x, kept in
 * registers, not UN * QT.
 *
 * Shared memory, per stage (STAGES of them, filled by cp.async): nr rows (c, r) of w as [row][s][KB], and the x rows
 * that the block's items read. Per tap a thread issues KT/4 16-byte loads of w and about one load of x for KT * QT
 * FMAs. Two stages of about a hundred taps each: between barriers a warp then runs ten thousand FMAs.
 *
 * Traffic per block and tap: KB floats of w (re-laid by relay.cu so that a stage is one contiguous run) for NB*QT*KB
 * FMAs; x once per (c, r): about NB*QT + S floats for S times as many FMAs.
 *
 * Balance: with `split`, the tiles are dealt out as one line of stages cut into equal lengths (McNaughton's wrap-around
 * rule). A tile cut by a block border is begun by block b - 1, as its first job, and finished by block b, as its last,
 * which picks up the accumulators where they stood: the chain's order is untouched. */
#ifndef CV_SLIDE_KERNEL_CUH
#define CV_SLIDE_KERNEL_CUH

#include "slide_parts.cuh"

/* ANY: padding, stride_w or dil_w. The padding is zeros in shared memory (alone.cuh says why that is exact), so that no
 * loop tests columns; with stride and dilation 1 the plain loop serves. */
template <int KT, int QT, int TK, int NB, int STAGES, bool ANY, int MINB>
__global__ void __launch_bounds__(TK *NB, MINB) cv_slide_kernel(const __grid_constant__ cv_slide_args a)
{
    constexpr int T = TK * NB, KB = TK * KT;
    static_assert(TK % 4 == 0 && NB % 8 == 0 && (T & (T - 1)) == 0, "a warp is 4 channel threads by 8 items");
    extern __shared__ float4 cv_smem4[];
    float *smem = (float *)cv_smem4;
    cv_slide_entry *table = (cv_slide_entry *)(smem + STAGES * a.stage_floats);

    /* this block's share of the line of stages: its last tile's beginning comes first, its first tile's end last */
    int first = blockIdx.x, last = first, first_stage = 0, last_stage = a.stages;
    if (a.split) {
        const int lo = blockIdx.x * a.share + min((int)blockIdx.x, a.extra);
        const int hi = lo + a.share + ((int)blockIdx.x < a.extra);
        first = cv_divide(lo, a.by_stages);
        last = cv_divide(hi - 1, a.by_stages);
        first_stage = lo - first * a.stages;
        last_stage = hi - last * a.stages;
    }
#pragma unroll 1
    for (int job = last; job >= first; --job) {
        const int st0 = job == first ? first_stage : 0, st1 = job == last ? last_stage : a.stages;
        int entries, xthread, h0 = 0, phase = 0;
        const float *wg, *xg;
        {
            const cv_slide_tile t = cv_slide_tile_of<NB>(a, job);
            __syncthreads(); /* the last tile's stages are done with */
            entries = cv_slide_copy_table<QT, T, ANY>(a, t, table);
            __syncthreads();
            wg = a.wr + t.g * a.wr_group + t.kb * a.wr_kblock;
            xg = a.x + (long long)t.g * a.Cg * a.xs_c;
            const int item = min(t.i0 + cv_slide_item<TK>(threadIdx.x), a.items - 1);
            const int row = cv_divide(item, a.by_tq);
            /* image columns: of the window's first, and of the slot's first */
            const int start = (item - row * a.TQ) * QT * a.st_w - a.pad_l;
            int c0 = (row == t.row_first ? t.group_first * QT * a.st_w : 0) - a.pad_l;
            if (a.vec)
                c0 &= ~3;
            /* slots lie one behind the other; each begins at a multiple of the stride, so the window begins in phase 0
             */
            const int before = row - t.row_first;
            const int slot =
                before == 0
                    ? 0
                    : (cv_slide_phase<QT>(a, a.TQ - t.group_first) + (before - 1) * cv_slide_phase<QT>(a, a.TQ)) *
                          a.st_w;
            xthread = slot + (ANY && a.st_w > 1 ? (start - c0) / a.st_w : start - c0) + a.nr * a.S * KB;
            if (ANY)
                phase = cv_slide_phase<QT>(a, min(a.TQ, t.i0 + t.count - row * a.TQ) - (before ? 0 : t.group_first));
            if (ANY)
                h0 = (row - cv_divide(row, a.by_p) * a.P) * a.st_h - a.pad_t;
        }

        float acc[QT][KT];
        if (st0 > 0) {
            /* begun by block b - 1, which did it first */
            if (threadIdx.x == 0) {
                unsigned ready;
                do
                    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(a.flags + blockIdx.x - 1));
                while (!ready);
            }
            __syncthreads();
            const float *from = a.carry + (long long)(blockIdx.x - 1) * (T * KT * QT) + threadIdx.x;
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

        /* One loop for filling the pipeline and for running it: turns before st0 only load. */
        int fill = 0, buffer = 0, r = ANY ? st0 * a.nr - cv_divide(st0 * a.nr, a.by_r) * a.R : 0;
#pragma unroll 1
        for (int st = st0 - (STAGES - 1); st < st1; ++st) {
            if (st >= st0) {
                cv_cp_wait<STAGES - 2>();
                __syncthreads();
            }
            if (st + STAGES - 1 < st1)
                cv_slide_load<KB, T, ANY>(a, wg, xg, (st + STAGES - 1) * a.nr, smem + fill * a.stage_floats, table,
                                          entries);
            cv_cp_commit();
            fill = fill + 1 == STAGES ? 0 : fill + 1;
            if (st < st0)
                continue;
            const float *wp = smem + buffer * a.stage_floats, *xrow = wp + xthread;
            wp += cv_slide_tk<TK>(threadIdx.x) * 4;
            buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
            const int nr = min(a.nr, a.Cg * a.R - st * a.nr);
#pragma unroll 1
            for (int i = 0; i < nr; ++i, xrow += a.x_floats) {
                const float *xp = xrow;
                if (ANY && (a.st_w > 1 || a.dil_w > 1)) {
                    if ((unsigned)(h0 + r * a.dil_h) < (unsigned)a.H)
                        cv_slide_row_apart<KT, QT, KB>(acc, xp, wp, phase, a);
                    if (++r == a.R)
                        r = 0;
                    wp += a.S * KB;
                    continue;
                }
                int s = a.S;
#pragma unroll 1
                for (; s >= 8; s -= 8, xp += 8, wp += 8 * KB)
                    cv_slide_taps<KT, QT, KB, 8>(acc, xp, wp);
                if (s == 0)
                    continue;
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
        }
        cv_cp_wait<0>();

        if (st1 < a.stages) {
            float *to = a.carry + (long long)blockIdx.x * (T * KT * QT) + threadIdx.x;
#pragma unroll
            for (int j = 0; j < QT; ++j)
#pragma unroll
                for (int k = 0; k < KT; ++k)
                    __stcg(to + (j * KT + k) * T, acc[j][k]);
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0)
                asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(a.flags + blockIdx.x), "r"(1u));
            continue;
        }
        int tid = threadIdx.x, job_again = job;
        asm volatile(""
                     : "+r"(tid), "+r"(job_again)); /* keeps the compiler from holding the first results until here */
        const cv_slide_tile t = cv_slide_tile_of<NB>(a, job_again);
        const int item = t.i0 + cv_slide_item<TK>(tid);
        if (item >= a.items)
            continue;
        const int row = cv_divide(item, a.by_tq), q0 = (item - row * a.TQ) * QT;
        const int n = cv_divide(row, a.by_p), p = row - n * a.P;
        float *yp = a.y + n * a.ys_n + (long long)p * a.ys_p + (long long)q0 * a.ys_q;
#pragma unroll
        for (int v = 0; v < KT; ++v) {
            const int in_block = (v / 4) * (KB / (KT / 4)) + cv_slide_tk<TK>(tid) * 4 + (v & 3),
                      kl = t.kb * KB + in_block;
            if (kl < a.Kg) {
                const int k = t.g * a.Kg + kl;
                const float b = a.bias ? a.bias[k] : 0.0f;
                float *yk = yp + k * a.ys_k;
                if (ANY) {
                    /* few outputs are odd: this loop over them stays small by not being unrolled over j */
                    unsigned odd = 0;
#pragma unroll
                    for (int j = 0; j < QT; ++j)
                        odd |= (cv_alone_may_differ(acc[j][v]) ? 1u : 0u) << j;
                    const int top = p * a.st_h - a.pad_t;
                    while (odd) {
                        const int j = __ffs(odd) - 1, w0 = (q0 + j) * a.st_w - a.pad_l;
                        odd &= odd - 1;
                        if (q0 + j >= a.Q || !cv_alone_touches(a, top, w0))
                            continue;
                        const float alone =
                            cv_alone_sum<KB>(a, a.x + n * a.xs_n + (long long)t.g * a.Cg * a.xs_c,
                                             a.wr + t.g * a.wr_group + t.kb * a.wr_kblock + in_block, top, w0);
#pragma unroll
                        for (int i = 0; i < QT; ++i)
                            acc[i][v] = i == j ? alone : acc[i][v];
                    }
                }
#pragma unroll
                for (int j = 0; j < QT; ++j)
                    if (q0 + j < a.Q)
                        yk[(long long)j * a.ys_q] = a.bias ? __fadd_rn(acc[j][v], b) : acc[j][v];
            }
        }
    }
}

#endif
