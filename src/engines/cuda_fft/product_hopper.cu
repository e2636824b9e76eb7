/*
 * The complex product of every bin by Hopper's warpgroup products (wgmma), in FP32 accuracy from TF32 operands.
 *
 *     Y[bin][tile][k] = sum over c of X[bin][tile][c] conj W[bin][k][c]
 *
 * Operands are cut in two TF32 parts and three products of them taken, as in product.cu, but a complex product takes
 * four real ones here, re += wr xr + wi xi, im += wr xi - wi xr, where that takes three (Gauss). The tensor cores have
 * time for a third more; what was short was everything else: four planes of X to cut and write instead of six, two
 * thirds of W's fragments, two sums to move instead of three, so that three blocks fit a multiprocessor. The sign is
 * the instruction's own.
 *
 * W's rows (64 outputs a block) are wgmma's A operand: read from the ring of raw stages, cut, and kept in registers.
 * X's rows (8 NT tiles) are its B operand: every thread cuts some of them once and writes four planes (xr and xi, big
 * and small parts) in the layout that wgmma reads, where all four warps use them. Cutting the next 16 channels of X
 * overlaps the products of these.
 *
 * A plane: core matrices of 8 tiles x 4 channels (128 bytes). Step h of 8 channels takes the 16-byte words 2t + h of
 * the raw rows, t = 0 .. 3: their first channels in one core matrix, their second ones in the next, as a fragment's
 * columns t and t + 4. Raw rows come by the tensor copy engine, which exchanges a row's words by the row's number
 * modulo 8, so that 8 rows at one word, and 2 rows at the words of a step, meet all banks; it also spares the addresses
 * and copies that were a quarter of all instructions.
 *
 * Tensor cores truncate when they add: every CHAIN channels the sums move into others, rounded, in registers.
 * Registers: 8 NT sums in the tensor core, 8 NT kept, 32 of W. Shared memory: STAGES (64 + 8 NT) 128 + 2 x 2048 NT.
 * Problem D at 64 x 64 (NT 7): a step of 16 channels is 24 wgmma of 28 cycles; 0.09 ms at the tensor cores' rate,
 * 0.11 ms for 475 MB at 4.3 TB/s.
 * Sources: the PTX manual's wgmma layouts; Ootomo and Yokota (2022) for the cut.
 */
#include <cuda_runtime.h>

#include "boxes.cuh"
#include "launch.cuh"
#include "warpgroup.cuh"

constexpr int CV_STEP = 16;  /* channels a stage */
constexpr int CV_CHAIN = 16; /* channels that a tensor-core sum runs over */

template <int NT> struct cv_hopper {
    static constexpr int BK = 64, BT = 8 * NT, ROWS = BK + BT, THREADS = 128, PITCH = CV_STEP * 8;
    static constexpr int STAGE = ROWS * PITCH, PLANE = NT * 512, PLANES = 4 * PLANE;
    static constexpr int FIT = NT == 3 ? 4 : NT == 9 ? 2 : 3; /* blocks a multiprocessor */
    static constexpr int STAGES = NT == 7 || NT == 3 ? 3 : 4;
    static constexpr int TURNS = NT == 7 ? 2 : 1; /* in which W's fragments of a step are cut and used: registers */
    static constexpr int AHEAD = TURNS == 1 ? STAGES : STAGES - 1; /* steps that copies run ahead */
    static constexpr int BARRIERS = STAGES * STAGE + 2 * PLANES, BYTES = BARRIERS + STAGES * 8;
    static_assert(FIT * (BYTES + 1024) <= 228 * 1024, "shared memory");
};

/* Boxes of 16 channels: of W (channels, 1, all rows of all bins), of X (channels of a group, groups, the same). */
template <int NT>
__global__ void __launch_bounds__(128, cv_hopper<NT>::FIT)
    cv_product_hopper_kernel(const __grid_constant__ cv_spectral g, int k_blocks, int t_blocks,
                             const __grid_constant__ CUtensorMap map_w, const __grid_constant__ CUtensorMap map_x)
{
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
    typedef cv_hopper<NT> S;
    extern __shared__ __align__(1024) char ring[];
    const int per_bin = k_blocks * t_blocks, unit = blockIdx.x / per_bin, within = blockIdx.x - unit * per_bin;
    const int group = unit / g.bins, bin = unit - group * g.bins;
    const int kb = within % k_blocks * S::BK, tb = within / k_blocks * S::BT;
    const int outputs = g.ng == 1 ? g.nk : g.kg;
    const int live_k = min(S::BK, outputs - kb), live_t = min(S::BT, g.tiles - tb);
    const unsigned shared = (unsigned)__cvta_generic_to_shared(ring), planes = shared + S::STAGES * S::STAGE;
    const unsigned barriers = shared + S::BARRIERS;
    const int steps = (g.cgp + CV_STEP - 1) / CV_STEP;

    /* Rows beyond the block's last come along, the next bin's or zeros: what they give is not stored. Channels beyond
     * the last come as zeros. */
    auto fill = [&](int step) {
        const int slot = step % S::STAGES;
        const unsigned to = shared + slot * S::STAGE, barrier = barriers + slot * 8;
        cv_barrier_expect(barrier, S::STAGE);
        cv_copy_box(to, &map_w, step * CV_STEP * 2, 0, bin * g.wrows + g.wk0 + group * g.kg + kb, barrier);
        cv_copy_box(to + S::BK * S::PITCH, &map_x, step * CV_STEP * 2, group, bin * g.tiles + tb, barrier);
    };

    /* X's planes of a step: a task is a tile's 8 channels. */
    auto cut_x = [&](int step, int turn) {
        const unsigned stage = shared + step % S::STAGES * S::STAGE + S::BK * S::PITCH,
                       to = planes + step % 2 * S::PLANES;
        for (int task = threadIdx.x + turn * S::BT; task < (turn + 1) * (2 / S::TURNS) * S::BT; task += S::THREADS) {
            const int h = task >= S::BT, t = task - h * S::BT;
            const unsigned at = to + (t / 8) * 512 + h * 256 + (t % 8) * 16;
            cv_cut r[2][4], m[2][4]; /* real, imaginary: [even, odd channel][pair] */
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float4 v = cv_shared_16(stage + t * S::PITCH + ((2 * i + h) ^ t % 8) * 16);
                r[0][i] = cv_split_tf32(v.x), m[0][i] = cv_split_tf32(v.y);
                r[1][i] = cv_split_tf32(v.z), m[1][i] = cv_split_tf32(v.w);
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const unsigned q = at + e * 128;
                cv_store_16(q, r[e][0].big, r[e][1].big, r[e][2].big, r[e][3].big);
                cv_store_16(q + S::PLANE, r[e][0].small, r[e][1].small, r[e][2].small, r[e][3].small);
                cv_store_16(q + 2 * S::PLANE, m[e][0].big, m[e][1].big, m[e][2].big, m[e][3].big);
                cv_store_16(q + 3 * S::PLANE, m[e][0].small, m[e][1].small, m[e][2].small, m[e][3].small);
            }
        }
    };

    const int lane = threadIdx.x & 31, wk = (threadIdx.x >> 5) * 16, quad = lane & 3, octet = lane >> 2;
    constexpr int EIGHTS = 2 / S::TURNS;         /* of 8 channels that are cut and multiplied at once */
    unsigned a1[EIGHTS][2][4], a2[EIGHTS][2][4]; /* big, small: [eight][real, imaginary] */
    auto cut_w = [&](int step, int turn) {
        const unsigned stage = shared + step % S::STAGES * S::STAGE;
#pragma unroll
        for (int h = 0; h < EIGHTS; h++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const unsigned row = wk + octet + half * 8;
                const float4 v = cv_shared_16(stage + row * S::PITCH + ((2 * quad + turn + h) ^ row % 8) * 16);
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const cv_cut r = cv_split_tf32(e ? v.z : v.x), m = cv_split_tf32(e ? v.w : v.y);
                    a1[h][0][half + 2 * e] = r.big, a2[h][0][half + 2 * e] = r.small;
                    a1[h][1][half + 2 * e] = m.big, a2[h][1][half + 2 * e] = m.small;
                }
            }
    };

    float sum[2][NT * 4], kept[2][NT * 4]; /* real, imaginary */
#pragma unroll
    for (int i = 0; i < NT * 4; i++)
        kept[0][i] = kept[1][i] = 0.0f;
    /* no swizzle; 128 bytes between core matrices along channels, 512 along tiles */
    const unsigned long long layout = (128ull >> 4) << 16 | (512ull >> 4) << 32;

    cv_overlap_next();
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++)
            cv_barrier_init(barriers + i * 8);
        cv_barrier_fence();
        cv_overlap_wait();
        for (int s = 0; s < S::AHEAD && s < steps; s++)
            fill(s);
    }
    __syncthreads();
    cv_barrier_wait(barriers, 0);
    for (int turn = 0; turn < S::TURNS; turn++)
        cut_x(0, turn);
    for (int step = 0; step < steps; step++) {
#pragma unroll
        for (int turn = 0; turn < S::TURNS; turn++) {
            cut_w(step, turn);
            if (turn == 0) {
                cv_proxy_fence();
                __syncthreads();
            }
            /* Everybody has cut this step's rows (before the last turn: the step's before), whose place in the ring may
             * be overwritten. */
            const int add = turn > 0 || step % (CV_CHAIN / CV_STEP) != 0;
            const unsigned long long b = layout | ((planes + step % 2 * S::PLANES) & 0x3ffff) >> 4;
            cv_wgmma_begin();
            /* the small products first: while the sum is small, adding to it loses nothing */
#pragma unroll
            for (int part = 0; part < 3; part++)
#pragma unroll
                for (int h = 0; h < EIGHTS; h++)
#pragma unroll
                    for (int m = 0; m < 2; m++) { /* W's real part, then its imaginary part */
                        const unsigned *const a = part == 0 ? a2[h][m] : a1[h][m];
                        const int more = h + part + m > 0 ? 1 : add;
                        const unsigned long long at = b + (((part == 1) * S::PLANE + (turn + h) * 256) >> 4);
                        cv_wgmma<NT, 1>(sum[0], a, at + (m * 2 * S::PLANE >> 4), more);
                        if (m == 0)
                            cv_wgmma<NT, 1>(sum[1], a, at + (2 * S::PLANE >> 4), more);
                        else
                            cv_wgmma<NT, -1>(sum[1], a, at, more);
                    }
            cv_wgmma_commit();

            if (turn == 0 && threadIdx.x == 0) {
                const int next = step + S::AHEAD;
                if (next < steps)
                    fill(next);
            }
            if (step + 1 < steps) {
                if (turn == 0)
                    cv_barrier_wait(barriers + (step + 1) % S::STAGES * 8, (step + 1) / S::STAGES % 2);
                cut_x(step + 1, turn);
            }
            cv_wgmma_wait();
        }
        if ((step + 1) % (CV_CHAIN / CV_STEP) == 0 || step + 1 == steps)
#pragma unroll
            for (int i = 0; i < NT * 4; i++) {
                kept[0][i] += sum[0][i];
                kept[1][i] += sum[1][i];
            }
    }

    const int wide_y = cv_spectral_wide(g.yq), row_y = g.nk * wide_y;
    float2 *y = (float2 *)g.yf + cv_spectral_y(&g, bin) + (int64_t)tb * row_y + (group * g.kg + kb) * wide_y;
    float2 *to = y + (int64_t)(quad * 2) * row_y + wk * wide_y + octet;
    const bool has0 = wk + octet < live_k, has1 = wk + octet + 8 < live_k;
#pragma unroll
    for (int n = 0; n < NT; n++, to += (int64_t)6 * row_y)
#pragma unroll
        for (int e = 0; e < 2; e++, to += row_y) {
            const bool has_t = n * 8 + quad * 2 + e < live_t;
            if (has_t && has0)
                to[0] = make_float2(kept[0][n * 4 + e], kept[1][n * 4 + e]);
            if (has_t && has1)
                to[8 * wide_y] = make_float2(kept[0][n * 4 + 2 + e], kept[1][n * 4 + 2 + e]);
        }
#endif
}

struct cv_hopper_entry {
    int tiles, bytes;
    float cycles;
    void (*kernel)(const cv_spectral, int, int, const CUtensorMap, const CUtensorMap);
};
#define CV_ENTRY(NT, CYCLES) {8 * NT, cv_hopper<NT>::BYTES, CYCLES, cv_product_hopper_kernel<NT>},
static const cv_hopper_entry shapes[] = {CV_ENTRY(3, 8.6f) CV_ENTRY(4, 7.8f) CV_ENTRY(5, 7.3f) CV_ENTRY(7, 7.6f)
                                             CV_ENTRY(9, 7.4f)};

extern "C" int cv_hopper_shapes(void) { return sizeof shapes / sizeof shapes[0]; }

extern "C" float cv_hopper_shape(int shape, int *outputs, int *tiles, int *bytes)
{
    *outputs = 64;
    *tiles = shapes[shape].tiles;
    *bytes = shapes[shape].bytes;
    return shapes[shape].cycles;
}

/* The driver's function that describes boxes to the tensor copy engine. */
static decltype(&cuTensorMapEncodeTiled) encode;

extern "C" int cv_hopper_setup(void)
{
    encode = cv_boxes_encoder();
    if (!encode)
        return cudaErrorNotSupported;
    for (const cv_hopper_entry &s : shapes)
        if (int e = cv_allow_shared((const void *)s.kernel, s.bytes))
            return e;
    return cudaSuccess;
}

/* Boxes of 16 channels of one group by so many rows of a spectrum (rows, groups, channels of a group). */
static int boxes(CUtensorMap *map, float *spectrum, int64_t rows, int groups, int channels, int box_rows)
{
    const cuuint64_t sizes[3] = {(cuuint64_t)channels * 2, (cuuint64_t)groups, (cuuint64_t)rows};
    const cuuint64_t strides[2] = {(cuuint64_t)channels * 8, (cuuint64_t)channels * 8 * groups};
    const cuuint32_t box[3] = {2 * CV_STEP, 1, (cuuint32_t)box_rows}, steps[3] = {1, 1, 1};
    return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, spectrum, sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

extern "C" int cv_hopper_product(const cv_spectral *g, int shape, void *stream)
{
    const cv_hopper_entry &s = shapes[shape];
    const int outputs = g->ng == 1 ? g->nk : g->kg;
    const int k_blocks = (outputs + 63) / 64, t_blocks = (g->tiles + s.tiles - 1) / s.tiles;
    const int64_t blocks = (int64_t)g->ng * g->bins * k_blocks * t_blocks;
    CUtensorMap map_w, map_x;
    int e = boxes(&map_w, g->wf, (int64_t)g->bins * g->wrows, 1, g->cgp, 64);
    if (!e)
        e = boxes(&map_x, g->xf, (int64_t)g->bins * g->tiles, g->ng, g->cgp, s.tiles);
    return e ? e : cv_launch(s.kernel, blocks, 128, s.bytes, stream, g->overlap, *g, k_blocks, t_blocks, map_w, map_x);
}
