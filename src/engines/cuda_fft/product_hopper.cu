/*
 * The complex product of every bin by Hopper's warpgroup products (wgmma), in FP32 accuracy from TF32 operands.
 *
 *     Y[bin][tile][k] = sum over c of X[bin][tile][c] conj W[bin][k][c]
 *
 * The arithmetic is product.cu's: operands cut in two TF32 parts, three products of them, three real products for a
 * complex one. What differs is where operands live. W's rows (64 outputs a block) are wgmma's A operand: read from the
 * ring of raw stages, cut, and kept in registers. X's rows (8 NT tiles) are its B operand: every thread cuts some of
 * them once and writes six planes (xr, xi - xr, xr + xi, big and small parts) in the layout that wgmma reads, where
 * all four warps use them. Cutting the next 16 channels of X overlaps the products of these.
 *
 * A plane: core matrices of 8 tiles x 4 channels (128 bytes). Step h of 8 channels takes the 16-byte words 2t + h of
 * the raw rows, t = 0 .. 3: their first channels in one core matrix, their second ones in the next, as a fragment's
 * columns t and t + 4. Raw rows are 144 bytes apart, so that 8 rows at one word, and 2 rows at the words of a step,
 * meet all banks.
 *
 * Tensor cores truncate when they add: every CHAIN channels the sums move into others, rounded, in registers.
 * Registers: 12 NT sums in the tensor core, 8 NT kept, 48 of W. Shared memory: STAGES (64 + 8 NT) 144 + 2 x 3072 NT.
 * Problem D at 64 x 64 (NT 7): a step of 16 channels is 18 wgmma of 28 cycles; 0.07 ms at the tensor cores' rate,
 * 0.11 ms for 475 MB at 4.3 TB/s.
 * Sources: the PTX manual's wgmma layouts; Ootomo and Yokota (2022) for the cut, Gauss for three products.
 */
#include <cuda_runtime.h>

#include "spectral.h"

constexpr int CV_STEP = 16;  /* channels a stage */
constexpr int CV_CHAIN = 32; /* channels that a tensor-core sum runs over */

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

struct cv_cut {
    unsigned big, small;
};
__device__ __forceinline__ cv_cut cv_split_tf32(float a)
{
    cv_cut r;
    r.big = (__float_as_uint(a) + 0x1000u) & 0xffffe000u;
    r.small = __float_as_uint(a - __uint_as_float(r.big)); /* the tensor core drops its last bits */
    return r;
}

/* d (+)= a b for 64 x 8 NT; add 0 begins a new sum. b: descriptor of the plane's core matrices. */
#define CV_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CV_OPERANDS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add)
#define CV_WGMMA(N, LIST, A0, A1, A2, A3, B, P)                                                                        \
    "{ .reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" N "k8.f32.tf32.tf32 {" LIST "}, {" A0 \
    "," A1 "," A2 "," A3 "}, " B ", p, 1, 1; }"
#define CV_L4(a, b, c, e) "%" #a ",%" #b ",%" #c ",%" #e
template <int NT> __device__ __forceinline__ void cv_wgmma(float *d, const unsigned *a, unsigned long long b, int add)
{
#define CV_LIST3 CV_L4(0, 1, 2, 3) "," CV_L4(4, 5, 6, 7) "," CV_L4(8, 9, 10, 11)
#define CV_LIST5 CV_LIST3 "," CV_L4(12, 13, 14, 15) "," CV_L4(16, 17, 18, 19)
#define CV_LIST7 CV_LIST5 "," CV_L4(20, 21, 22, 23) "," CV_L4(24, 25, 26, 27)
#define CV_LIST9 CV_LIST7 "," CV_L4(28, 29, 30, 31) "," CV_L4(32, 33, 34, 35)
    if constexpr (NT == 3)
        asm volatile(CV_WGMMA("24", CV_LIST3, "%12", "%13", "%14", "%15", "%16", "%17")
                     : CV_D4(0), CV_D4(4), CV_D4(8)
                     : CV_OPERANDS);
    else if constexpr (NT == 5)
        asm volatile(CV_WGMMA("40", CV_LIST5, "%20", "%21", "%22", "%23", "%24", "%25")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12), CV_D4(16)
                     : CV_OPERANDS);
    else if constexpr (NT == 7)
        asm volatile(CV_WGMMA("56", CV_LIST7, "%28", "%29", "%30", "%31", "%32", "%33")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12), CV_D4(16), CV_D4(20), CV_D4(24)
                     : CV_OPERANDS);
    else
        asm volatile(CV_WGMMA("72", CV_LIST9, "%36", "%37", "%38", "%39", "%40", "%41")
                     : CV_D4(0), CV_D4(4), CV_D4(8), CV_D4(12), CV_D4(16), CV_D4(20), CV_D4(24), CV_D4(28), CV_D4(32)
                     : CV_OPERANDS);
}

__device__ __forceinline__ void cv_copy_16(unsigned to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ float4 cv_shared_16(unsigned from)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}
__device__ __forceinline__ void cv_store_16(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d)
{
    asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

#endif

template <int NT> struct cv_hopper {
    static constexpr int BK = 64, BT = 8 * NT, ROWS = BK + BT, THREADS = 128, PITCH = CV_STEP * 8 + 16;
    static constexpr int STAGE = ROWS * PITCH, PLANE = NT * 512, PLANES = 6 * PLANE;
    static constexpr int STAGES = NT < 9 ? 4 : 3; /* two blocks fit a multiprocessor */
    static constexpr int BYTES = STAGES * STAGE + 2 * PLANES;
};

template <int NT>
__global__ void __launch_bounds__(128, 2)
    cv_product_hopper_kernel(const __grid_constant__ cv_spectral g, int k_blocks, int t_blocks)
{
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef cv_hopper<NT> S;
    extern __shared__ __align__(128) char ring[];
    const int per_bin = k_blocks * t_blocks, unit = blockIdx.x / per_bin, within = blockIdx.x - unit * per_bin;
    const int group = unit / g.bins, bin = unit - group * g.bins;
    const int kb = within % k_blocks * S::BK, tb = within / k_blocks * S::BT;
    const int outputs = g.ng == 1 ? g.nk : g.kg, row_x = g.ng * g.cgp;
    const float2 *x = (const float2 *)g.xf + ((int64_t)bin * g.tiles + tb) * row_x + group * g.cgp;
    const float2 *w = (const float2 *)g.wf + ((int64_t)bin * g.wrows + g.wk0 + group * g.kg + kb) * g.cgp;
    float2 *y = (float2 *)g.yf + ((int64_t)bin * g.tiles + tb) * g.nk + group * g.kg + kb;
    const int live_k = min(S::BK, outputs - kb), live_t = min(S::BT, g.tiles - tb);
    const unsigned shared = (unsigned)__cvta_generic_to_shared(ring), planes = shared + S::STAGES * S::STAGE;
    const int steps = (g.cgp + CV_STEP - 1) / CV_STEP;

    /* Copies: a thread keeps its 16-byte word and moves down by 16 rows. Rows that do not exist repeat the last one:
     * what they give is not stored, and copies without conditions cost half the instructions. */
    const int word = threadIdx.x % 8, row0 = threadIdx.x / 8;
    const char *const start_w = (const char *)(w + word * 2), *const start_x = (const char *)(x + word * 2);
    const unsigned bytes_w = g.cgp * 8, bytes_x = row_x * 8, to0 = shared + row0 * S::PITCH + word * 16;
    auto fill = [&](int step) {
        const unsigned to = to0 + step % S::STAGES * S::STAGE;
        if (step * CV_STEP + word * 2 < g.cgp) {
#pragma unroll
            for (int i = 0; i < S::BK; i += 16)
                cv_copy_16(to + i * S::PITCH,
                           start_w + step * (CV_STEP * 8) + (uint64_t)min(row0 + i, live_k - 1) * bytes_w);
#pragma unroll
            for (int i = 0; i < S::BT; i += 16)
                if (i + 16 <= S::BT || row0 + i < S::BT)
                    cv_copy_16(to + (S::BK + i) * S::PITCH,
                               start_x + step * (CV_STEP * 8) + (uint64_t)min(row0 + i, live_t - 1) * bytes_x);
        } else { /* beyond the last channel: zero */
#pragma unroll 1
            for (int i = row0; i < S::ROWS; i += 16)
                cv_store_16(to + (i - row0) * S::PITCH, 0, 0, 0, 0);
        }
    };

    /* X's planes of a step: a task is a tile's 8 channels. */
    auto cut_x = [&](int step) {
        const unsigned stage = shared + step % S::STAGES * S::STAGE + S::BK * S::PITCH,
                       to = planes + step % 2 * S::PLANES;
        for (int task = threadIdx.x; task < 2 * S::BT; task += S::THREADS) {
            const int h = task >= S::BT, t = task - h * S::BT;
            const unsigned at = to + (t / 8) * 512 + h * 256 + (t % 8) * 16;
            cv_cut r[2][4], d[2][4], s[2][4]; /* [even, odd channel][pair] */
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float4 v = cv_shared_16(stage + t * S::PITCH + (2 * i + h) * 16);
                r[0][i] = cv_split_tf32(v.x), d[0][i] = cv_split_tf32(v.y - v.x), s[0][i] = cv_split_tf32(v.x + v.y);
                r[1][i] = cv_split_tf32(v.z), d[1][i] = cv_split_tf32(v.w - v.z), s[1][i] = cv_split_tf32(v.z + v.w);
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const unsigned q = at + e * 128;
                cv_store_16(q, r[e][0].big, r[e][1].big, r[e][2].big, r[e][3].big);
                cv_store_16(q + S::PLANE, r[e][0].small, r[e][1].small, r[e][2].small, r[e][3].small);
                cv_store_16(q + 2 * S::PLANE, d[e][0].big, d[e][1].big, d[e][2].big, d[e][3].big);
                cv_store_16(q + 3 * S::PLANE, d[e][0].small, d[e][1].small, d[e][2].small, d[e][3].small);
                cv_store_16(q + 4 * S::PLANE, s[e][0].big, s[e][1].big, s[e][2].big, s[e][3].big);
                cv_store_16(q + 5 * S::PLANE, s[e][0].small, s[e][1].small, s[e][2].small, s[e][3].small);
            }
        }
    };

    const int lane = threadIdx.x & 31, wk = (threadIdx.x >> 5) * 16, quad = lane & 3, octet = lane >> 2;
    unsigned a1[2][3][4], a2[2][3][4]; /* [step of 8 channels][product] */
    auto cut_w = [&](int step) {
        const unsigned stage = shared + step % S::STAGES * S::STAGE;
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned row = wk + octet + half * 8;
                const float4 v = cv_shared_16(stage + row * S::PITCH + (2 * quad + h) * 16);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float re = e ? v.z : v.x, im = e ? v.w : v.y;
                    const cv_cut s = cv_split_tf32(re - im), r = cv_split_tf32(re), i = cv_split_tf32(im);
                    a1[h][0][half + 2 * e] = s.big, a2[h][0][half + 2 * e] = s.small;
                    a1[h][1][half + 2 * e] = r.big, a2[h][1][half + 2 * e] = r.small;
                    a1[h][2][half + 2 * e] = i.big, a2[h][2][half + 2 * e] = i.small;
                }
            }
    };

    float sum[3][NT * 4], kept[2][NT * 4];
#pragma unroll
    for (int i = 0; i < NT * 4; i++)
        kept[0][i] = kept[1][i] = 0.0f;
    /* no swizzle; 128 bytes between core matrices along channels, 512 along tiles */
    const unsigned long long layout = (128ull >> 4) << 16 | (512ull >> 4) << 32;

    for (int s = 0; s < S::STAGES - 1; s++) {
        if (s < steps)
            fill(s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(S::STAGES - 2) : "memory");
    __syncthreads();
    cut_x(0);
    for (int step = 0; step < steps; step++) {
        cut_w(step);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        /* everybody has cut this step's rows: its stage's successor in the ring may be overwritten */
        const int add = step % (CV_CHAIN / CV_STEP) != 0;
        const unsigned long long b = layout | ((planes + step % 2 * S::PLANES) & 0x3ffff) >> 4;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int part = 0; part < 3; part++)
#pragma unroll
                for (int p = 0; p < 3; p++) {
                    const int plane = 2 * p + (part == 1);
                    cv_wgmma<NT>(sum[p], part == 0 ? a2[h][p] : a1[h][p], b + ((plane * S::PLANE + h * 256) >> 4),
                                 h + part > 0 ? 1 : add);
                }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");

        if (step + S::STAGES - 1 < steps)
            fill(step + S::STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (step + 1 < steps) {
            asm volatile("cp.async.wait_group %0;" ::"n"(S::STAGES - 2) : "memory");
            __syncthreads();
            cut_x(step + 1);
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if ((step + 1) % (CV_CHAIN / CV_STEP) == 0 || step + 1 == steps)
#pragma unroll
            for (int i = 0; i < NT * 4; i++) {
                kept[0][i] += sum[0][i] + sum[2][i];
                kept[1][i] += sum[0][i] + sum[1][i];
            }
    }

    float2 *to = y + (int64_t)(quad * 2) * g.nk + wk + octet;
    const bool has0 = wk + octet < live_k, has1 = wk + octet + 8 < live_k;
#pragma unroll
    for (int n = 0; n < NT; n++, to += (int64_t)6 * g.nk)
#pragma unroll
        for (int e = 0; e < 2; e++, to += g.nk) {
            const bool has_t = n * 8 + quad * 2 + e < live_t;
            if (has_t && has0)
                to[0] = make_float2(kept[0][n * 4 + e], kept[1][n * 4 + e]);
            if (has_t && has1)
                to[8] = make_float2(kept[0][n * 4 + 2 + e], kept[1][n * 4 + 2 + e]);
        }
#endif
}

struct cv_hopper_entry {
    int tiles, bytes;
    float cycles;
    void (*kernel)(const cv_spectral, int, int);
};
#define CV_ENTRY(NT, CYCLES) {8 * NT, cv_hopper<NT>::BYTES, CYCLES, cv_product_hopper_kernel<NT>},
static const cv_hopper_entry shapes[] = {CV_ENTRY(3, 11.0f) CV_ENTRY(5, 9.1f) CV_ENTRY(7, 7.6f) CV_ENTRY(9, 8.4f)};

extern "C" int cv_hopper_shapes(void) { return sizeof shapes / sizeof shapes[0]; }

extern "C" float cv_hopper_shape(int shape, int *outputs, int *tiles)
{
    *outputs = 64;
    *tiles = shapes[shape].tiles;
    return shapes[shape].cycles;
}

extern "C" int cv_hopper_setup(void)
{
    for (const cv_hopper_entry &s : shapes)
        if (int e = cv_allow_shared((const void *)s.kernel, s.bytes))
            return e;
    return cudaSuccess;
}

extern "C" int cv_hopper_product(const cv_spectral *g, int shape, void *stream)
{
    const cv_hopper_entry &s = shapes[shape];
    const int outputs = g->ng == 1 ? g->nk : g->kg;
    const int k_blocks = (outputs + 63) / 64, t_blocks = (g->tiles + s.tiles - 1) / s.tiles;
    const int64_t blocks = (int64_t)g->ng * g->bins * k_blocks * t_blocks;
    s.kernel<<<(unsigned)blocks, 128, s.bytes, (cudaStream_t)stream>>>(*g, k_blocks, t_blocks);
    return cudaGetLastError();
}
