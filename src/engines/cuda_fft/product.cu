/*
 * The complex product of every bin on tensor cores, in FP32 accuracy from TF32 operands.
 *
 *     Y[bin][tile][k] = sum over c of X[bin][tile][c] conj W[bin][k][c]
 *
 * Each real operand is cut into a TF32 part and the TF32 part of what is left (a = a1 + a2, 22 bits), and a b is taken
 * as a2 b1 + a1 b2 + a1 b1 with FP32 accumulation. A complex product takes three real ones (Gauss): P1 = xr (wr - wi),
 * P2 = wr (xi - xr),  P3 = wi (xr + xi),  re = P1 + P3,  im = P1 + P2. So 9 mma.sync.m16n8k8 for 16 outputs, 8 tiles
 * and 8 channels; sums and cuts are made in registers on the way from shared memory.
 *
 * A block takes BK outputs by BT tiles of one bin and walks the channels 16 at a time through a ring of STAGES stages
 * of shared memory filled by 16-byte asynchronous copies. A stage holds rows of 16 complex channels (128 bytes); odd
 * rows have their 64-byte halves exchanged, which makes both the copies and the 16-byte fragment loads free of bank
 * conflicts. A fragment's columns t and t + 4 are the channels 2t and 2t + 1, so that one 16-byte load brings both.
 * Tensor cores truncate when they add: after CHAIN channels the sums are added, rounded, to sums kept in shared memory.
 *
 * Registers: 3 (MT 16) (8 NT) / 32 sums. Traffic: X and W once if one block covers all outputs and tiles of a bin, Y
 * once. Problem D at 64 x 64: 103 + 269 + 103 MB, 0.11 ms at 4.3 TB/s; 18.9 M mma, 0.12 ms at the 6 cycles that one
 * takes an H200's tensor core. Measured 0.25 ms: instructions, 4.5 an mma, not the tensor cores, set the pace. Sources:
 * Ootomo and Yokota (2022) for the split, Gauss for three products.
 */
#include <cuda_runtime.h>

#include "launch.cuh"
#include "mma.cuh"

constexpr int CV_STEP = 16;  /* channels a stage */
constexpr int CV_CHAIN = 32; /* channels that a tensor-core sum may run over */

/* MT fragments of 16 outputs and NT of 8 tiles a warp; WK x WT warps a block; FIT blocks should fit a multiprocessor.
 */
template <int MT, int NT, int WK, int WT, int STAGES> struct cv_shape {
    static constexpr int BK = 16 * MT * WK, BT = 8 * NT * WT, THREADS = 32 * WK * WT;
    static constexpr int STAGE_BYTES = (BK + BT) * CV_STEP * 8, BYTES = STAGES * STAGE_BYTES + MT * NT * 32 * THREADS;
};

template <int MT, int NT, int WK, int WT, int STAGES, int FIT>
__global__ void __launch_bounds__(32 * WK * WT, FIT)
    cv_product_kernel(const __grid_constant__ cv_spectral g, int k_blocks, int t_blocks)
{
    typedef cv_shape<MT, NT, WK, WT, STAGES> S;
    extern __shared__ __align__(128) char ring[];
    const int per_bin = k_blocks * t_blocks, unit = blockIdx.x / per_bin, within = blockIdx.x - unit * per_bin;
    const int group = unit / g.bins, bin = unit - group * g.bins;
    const int kb = within % k_blocks * S::BK, tb = within / k_blocks * S::BT;
    const int outputs = g.ng == 1 ? g.nk : g.kg, row_x = g.ng * g.cgp;
    const float2 *x = (const float2 *)g.xf + ((int64_t)bin * g.tiles + tb) * row_x + group * g.cgp;
    const float2 *w = (const float2 *)g.wf + ((int64_t)bin * g.wrows + g.wk0 + group * g.kg + kb) * g.cgp;
    const int wide_y = cv_spectral_wide(g.yq), row_y = g.nk * wide_y;
    float2 *y = (float2 *)g.yf + cv_spectral_y(&g, bin) + (int64_t)tb * row_y + (group * g.kg + kb) * wide_y;
    const int live_k = min(S::BK, outputs - kb), live_t = min(S::BT, g.tiles - tb);
    const unsigned shared = (unsigned)__cvta_generic_to_shared(ring);
    const int steps = (g.cgp + CV_STEP - 1) / CV_STEP;

    /* Copies: a thread keeps its 16-byte column of the stage's rows and moves down by ROWS. Bit i: its i-th row exists.
     */
    constexpr int ROWS = S::THREADS / 8, COPIES_W = (S::BK + ROWS - 1) / ROWS, COPIES_X = (S::BT + ROWS - 1) / ROWS;
    const int chunk = threadIdx.x % 8, row0 = threadIdx.x / 8;
    const unsigned to0 = shared + row0 * 128 + ((chunk ^ (row0 & 1) * 4) * 16);
    unsigned has_w = 0, has_x = 0;
#pragma unroll
    for (int i = 0; i < COPIES_W; i++)
        has_w |= (row0 + i * ROWS < live_k ? 1u : 0u) << i;
#pragma unroll
    for (int i = 0; i < COPIES_X; i++)
        has_x |= (row0 + i * ROWS < live_t ? 1u : 0u) << i;
    const float2 *from_w = w + (int64_t)row0 * g.cgp + chunk * 2, *from_x = x + (int64_t)row0 * row_x + chunk * 2;
    const int64_t down_w = (int64_t)ROWS * g.cgp, down_x = (int64_t)ROWS * row_x;

    auto fill = [&](int step) {
        const unsigned to = to0 + step % STAGES * S::STAGE_BYTES;
        const bool inside = step * CV_STEP + chunk * 2 < g.cgp;
        const float2 *pw = from_w + step * CV_STEP, *px = from_x + step * CV_STEP;
#pragma unroll
        for (int i = 0; i < COPIES_W; i++) {
            const bool ok = inside && (has_w >> i & 1);
            if (S::BK % ROWS == 0 || row0 + i * ROWS < S::BK)
                cv_copy_16(to + i * ROWS * 128, ok ? pw + i * down_w : w, ok);
        }
#pragma unroll
        for (int i = 0; i < COPIES_X; i++) {
            const bool ok = inside && (has_x >> i & 1);
            if (S::BT % ROWS == 0 || row0 + i * ROWS < S::BT)
                cv_copy_16(to + (S::BK + i * ROWS) * 128, ok ? px + i * down_x : x, ok);
        }
    };

    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, quad = lane & 3, octet = lane >> 2;
    const int wk = warp % WK * (16 * MT), wt = warp / WK * (8 * NT);
    /* rows wk + octet (+ 8) and wt + octet have the same parity as octet */
    const unsigned at = ((quad ^ (octet & 1) * 4) * 16) + octet * 128;

    float sum[3][MT][NT][4];
    auto clear = [&]() {
#pragma unroll
        for (int i = 0; i < 3 * MT * NT * 4; i++)
            (&sum[0][0][0][0])[i] = 0.0f;
    };
    /* Sums of earlier chains: this thread's own words, 16 bytes apart by thread so that a warp's accesses are
     * contiguous. */
    float4 *const kept = (float4 *)(ring + STAGES * S::STAGE_BYTES) + threadIdx.x;
    auto keep = [&](bool first) {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    float4 *to = kept + ((m * NT + n) * 2 + i / 2) * S::THREADS;
                    float(*const p)[MT][NT][4] = sum;
                    float4 v = {p[0][m][n][i] + p[2][m][n][i], p[0][m][n][i] + p[1][m][n][i],
                                p[0][m][n][i + 1] + p[2][m][n][i + 1], p[0][m][n][i + 1] + p[1][m][n][i + 1]};
                    if (!first) {
                        const float4 old = *to;
                        v.x += old.x, v.y += old.y, v.z += old.z, v.w += old.w;
                    }
                    *to = v;
                }
    };
    auto store = [&](bool only) {
        bool has_k[MT][2];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                has_k[m][half] = wk + m * 16 + octet + half * 8 < live_k;
        float2 *to = y + (int64_t)(wt + quad * 2) * row_y + wk * wide_y + octet;
        const int64_t jump = (int64_t)7 * row_y;
#pragma unroll
        for (int n = 0; n < NT; n++, to += jump)
#pragma unroll
            for (int e = 0; e < 2; e++, to += e == 1 ? row_y : 0) {
                const bool has_t = wt + n * 8 + quad * 2 + e < live_t;
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        const int i = half * 2 + e;
                        float2 v = {sum[0][m][n][i] + sum[2][m][n][i], sum[0][m][n][i] + sum[1][m][n][i]};
                        if (!only) {
                            const float2 old = ((const float2 *)(kept + ((m * NT + n) * 2 + half) * S::THREADS))[e];
                            v.x += old.x;
                            v.y += old.y;
                        }
                        if (has_t && has_k[m][half])
                            to[(m * 16 + half * 8) * wide_y] = v;
                    }
            }
    };

    cv_overlap_next();
    cv_overlap_wait();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            fill(s);
        cv_copy_commit();
    }
    clear();
    for (int step = 0; step < steps; step++) {
        cv_copy_wait<STAGES - 2>();
        __syncthreads();
        if (step + STAGES - 1 < steps)
            fill(step + STAGES - 1);
        cv_copy_commit();

        const unsigned stage = shared + step % STAGES * S::STAGE_BYTES;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const unsigned from = stage + (at ^ h * 64);
            unsigned a1[3][MT][4], a2[3][MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const float4 v = cv_shared_16(from + (wk + m * 16 + half * 8) * 128);
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const float re = e ? v.z : v.x, im = e ? v.w : v.y;
                        const cv_cut s = cv_split_tf32(re - im), r = cv_split_tf32(re), i = cv_split_tf32(im);
                        a1[0][m][half + 2 * e] = s.big, a2[0][m][half + 2 * e] = s.small;
                        a1[1][m][half + 2 * e] = r.big, a2[1][m][half + 2 * e] = r.small;
                        a1[2][m][half + 2 * e] = i.big, a2[2][m][half + 2 * e] = i.small;
                    }
                }
#pragma unroll
            for (int n = 0; n < NT; n++) {
                const float4 v = cv_shared_16(from + (S::BK + wt + n * 8) * 128);
                unsigned b1[3][2], b2[3][2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float re = e ? v.z : v.x, im = e ? v.w : v.y;
                    const cv_cut r = cv_split_tf32(re), d = cv_split_tf32(im - re), s = cv_split_tf32(re + im);
                    b1[0][e] = r.big, b2[0][e] = r.small;
                    b1[1][e] = d.big, b2[1][e] = d.small;
                    b1[2][e] = s.big, b2[2][e] = s.small;
                }
#pragma unroll
                for (int part = 0; part < 3; part++)
#pragma unroll
                    for (int m = 0; m < MT; m++)
#pragma unroll
                        for (int p = 0; p < 3; p++)
                            cv_mma(sum[p][m][n], part == 0 ? a2[p][m] : a1[p][m], part == 1 ? b2[p] : b1[p]);
            }
        }
        if ((step + 1) % (CV_CHAIN / CV_STEP) == 0 && step + 1 < steps) {
            keep(step + 1 == CV_CHAIN / CV_STEP);
            clear();
        }
    }
    store(steps <= CV_CHAIN / CV_STEP);
}

/* Shapes: MT, NT, WK, WT, STAGES, FIT, and the cycles of a multiprocessor's quarter for one of its mma (on an H200, for
 * 8 steps of channels, 1 more step counted for the block's beginning and end). */
#define CV_SHAPES(X)                                                                                                   \
    X(2, 4, 4, 1, 4, 2, 11.9f)                                                                                         \
    X(2, 3, 4, 1, 4, 3, 14.0f)                                                                                         \
    X(2, 4, 2, 2, 4, 2, 12.1f)                                                                                         \
    X(1, 5, 4, 1, 4, 4, 14.2f)                                                                                         \
    X(2, 3, 2, 1, 4, 6, 14.2f)                                                                                         \
    X(1, 4, 2, 2, 4, 4, 15.0f)                                                                                         \
    X(1, 4, 2, 1, 4, 8, 19.0f)

struct cv_shape_entry {
    int outputs, tiles, threads, bytes;
    float cycles;
    void (*kernel)(const cv_spectral, int, int);
};
#define CV_ENTRY(MT, NT, WK, WT, ST, FIT, CYCLES)                                                                      \
    {cv_shape<MT, NT, WK, WT, ST>::BK,                                                                                 \
     cv_shape<MT, NT, WK, WT, ST>::BT,                                                                                 \
     cv_shape<MT, NT, WK, WT, ST>::THREADS,                                                                            \
     cv_shape<MT, NT, WK, WT, ST>::BYTES,                                                                              \
     CYCLES,                                                                                                           \
     cv_product_kernel<MT, NT, WK, WT, ST, FIT>},
static const cv_shape_entry shapes[] = {CV_SHAPES(CV_ENTRY)};

static const int shape_count = sizeof shapes / sizeof shapes[0];

extern "C" {
int cv_hopper_shapes(void);
float cv_hopper_shape(int shape, int *outputs, int *tiles, int *bytes);
int cv_hopper_setup(void);
int cv_hopper_product(const cv_spectral *g, int shape, void *stream);
}

extern "C" int cv_spectral_product_shapes(int hopper) { return shape_count + (hopper ? cv_hopper_shapes() : 0); }

extern "C" float cv_spectral_product_shape(int shape, int *outputs, int *tiles, int *begin, int *bytes)
{
    *begin = shape >= shape_count ? 3 : 1;
    if (shape >= shape_count)
        return cv_hopper_shape(shape - shape_count, outputs, tiles, bytes);
    *outputs = shapes[shape].outputs;
    *tiles = shapes[shape].tiles;
    *bytes = shapes[shape].bytes;
    return shapes[shape].cycles;
}

extern "C" int cv_product_setup(void)
{
    int device = 0, major = 0;
    cudaError_t e = cudaGetDevice(&device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    for (const cv_shape_entry &s : shapes)
        if (e == cudaSuccess)
            e = (cudaError_t)cv_allow_shared((const void *)s.kernel, s.bytes);
    return e == cudaSuccess && major == 9 ? cv_hopper_setup() : e;
}

extern "C" int cv_spectral_product(const cv_spectral *g, int shape, void *stream)
{
    if (shape >= shape_count)
        return cv_hopper_product(g, shape - shape_count, stream);
    const cv_shape_entry &s = shapes[shape];
    const int outputs = g->ng == 1 ? g->nk : g->kg;
    const int k_blocks = (outputs + s.outputs - 1) / s.outputs, t_blocks = (g->tiles + s.tiles - 1) / s.tiles;
    const int64_t blocks = (int64_t)g->ng * g->bins * k_blocks * t_blocks;
    return cv_launch(s.kernel, blocks, s.threads, s.bytes, stream, g->overlap, *g, k_blocks, t_blocks);
}
