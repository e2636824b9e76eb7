/*
 * Forward transforms with lines shared by lanes (lanes.cuh): what forward.cu does, for tensors whose columns are
 * contiguous and for the sides that have such lines.
 *
 *     X[bin][tile][c] = 2 sum over i,j of x[n, c, OY ty - pad + i, OX tx - pad + j] e^(-2 pi i (ky i / TY + kx j / TX))
 *     W[bin][k][c]    = the same sum over w[k, c, r, s]
 *
 * One block: CB channels of one tile or kernel. Rows come straight to registers, G lanes on a row, and leave for shared
 * memory as spectra; columns go from there to the spectra's place, 16 bytes of two channels a lane, 8 CB bytes a bin.
 * Of a kernel only its R rows are transformed and kept, and where it fills at most half of the tile's height or width,
 * that half is known to be zero at compile time.
 *
 * Shared memory: CB/2 rows (TX + 1) complex, rows TY or about R; registers: two lines of 8 points, 16 of twiddles, and
 * about 30. Traffic as in forward.cu: problem D at 64 x 64, 0.11 ms at 4.3 TB/s. Instructions there: 24 M warp-wide for
 * x, 36 M for w, 0.065 ms at full issue.
 */
#include <cuda_runtime.h>
#include <string.h>

#include "boxes.cuh"
#include "direct.cuh"
#include "lanes.cuh"
#include "launch.cuh"
#include "stage.cuh"

/* What a block's rows come from: a window of two planes, which may be NULL, or boxes that lie in shared memory already,
 * each row where its spectrum goes. */
struct cv_lane_source {
    cv_window win;
    const float *plane[2];
    unsigned barrier; /* of the boxes, */
    int late;         /* whose first columns lie before the window: the engine begins at a multiple of 16 bytes */
};

/* Rows of a pair of channels to shared memory as the spectrum of a complex row; EMPTY: only the first half of the
 * columns is not zero. */
template <int TX, bool BOXES, bool EMPTY, bool SCAN>
static __device__ __forceinline__ void cv_lane_rows(float2 *tile, int pair_pitch, int log_pairs, int rows,
                                                    const cv_lane_source &source, unsigned *top, unsigned *least)
{
    constexpr int G = CV_LANES, N = TX / G, P = CV_LANE_PITCH(TX), LIVE = EMPTY ? (N + 1) / 2 : N;
    const cv_window &win = source.win;
    const cv_row_lanes my(log_pairs);
    const cv_lane<TX> line(threadIdx.x % G);
    const cv_lane_places places = cv_lane_row_places(line.b);
    float2 *const mine = tile + my.pair * pair_pitch;

    const int64_t corner = (my.row + win.row0) * win.row_stride + win.col0 + line.b, down = my.step * win.row_stride;
    const bool both = source.plane[0] && source.plane[1], any = source.plane[0] || source.plane[1];
    const float *from0 = (source.plane[0] ? source.plane[0] : source.plane[1]) + corner;
    const float *from1 = (source.plane[1] ? source.plane[1] : source.plane[0]) + corner;
    unsigned inside = 0; /* which of this lane's columns lie in the planes */
#pragma unroll
    for (int i = 0; i < LIVE; i++)
        inside |= (unsigned)(win.col0 + G * i + line.b) < (unsigned)win.cols ? 1u << i : 0u;
    float2 next[LIVE];
    auto load = [&](int row) {
        const unsigned live = any && row < rows && (unsigned)(row + win.row0) < (unsigned)win.rows ? inside : 0;
#pragma unroll
        for (int i = 0; i < LIVE; i++) {
            next[i] = cv_c(0.0f, 0.0f);
            if (live >> i & 1)
                next[i] = cv_c(__ldg(from0 + G * i), __ldg(from1 + G * i));
            if (!both)
                next[i] = cv_c(source.plane[0] ? next[i].x : 0.0f, source.plane[1] ? next[i].y : 0.0f);
        }
        from0 += down;
        from1 += down;
    };
    if (!BOXES)
        load(my.row);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    else
        cv_barrier_wait(source.barrier, 0);
#endif
#pragma unroll 1
    for (int row = my.row; __any_sync(0xffffffffu, row < rows); row += my.step) {
        const bool live = row < rows;
        float2 v[G];
        if constexpr (BOXES) {
            const float *at = (const float *)(mine + row * P) + source.late + line.b;
#pragma unroll
            for (int i = 0; i < LIVE; i++)
                v[i] = live ? cv_c(at[G * i], at[P + G * i]) : cv_c(0.0f, 0.0f);
        } else {
#pragma unroll
            for (int i = 0; i < LIVE; i++)
                v[i] = next[i];
            load(row + my.step);
        }
#pragma unroll
        for (int i = LIVE; i < N; i++)
            v[i] = cv_c(0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < LIVE; i++) {
            const unsigned a = __float_as_uint(v[i].x), b = __float_as_uint(v[i].y);
            top[0] = max(top[0], a & 0x7fffffffu);
            top[1] = max(top[1], b & 0x7fffffffu);
            if (SCAN) { /* twice the bits, less 1: zero is the largest */
                least[0] = min(least[0], 2 * a - 1);
                least[1] = min(least[1], 2 * b - 1);
            }
        }
        line.template first<EMPTY>(v);
        float2 *const at = mine + row * P + cv_lane_skew(row, my.pair, log_pairs);
        if (BOXES)
            __syncwarp();
        line.template exchange<G>(v, live, at, at + G * line.HALF, places);
        line.second(v);
        if (live && line.has()) {
#pragma unroll
            for (int k = 0; k < G; k++)
                at[line.b + N * k] = v[k];
        }
    }
}

/* Columns of two real tiles' complex rows to spectra: out[bin * bin_stride + channel]. EMPTY: of
 * the rows only the first `rows`, a multiple of 8 and at most half, hold something. */
template <int TY, int TX, bool EMPTY>
static __device__ __forceinline__ void cv_lane_columns(float2 *tile, int pair_pitch, int log_pairs, int rows,
                                                       int live_pairs, float2 *out, int64_t bin_stride)
{
    constexpr int G = CV_LANES, N = TY / G, P = CV_LANE_PITCH(TX), HX = TX / 2, LIVE = EMPTY ? (N + 1) / 2 : N;
    const cv_column_lanes my(log_pairs);
    const cv_lane<TY> line(my.lane);
    const cv_lane_places places = cv_lane_column_places<TX>(my.lane, my.pair, log_pairs);
#pragma unroll 1
    for (int base = 0; base < HX; base += my.step) {
        const int kx = base + my.kx;
        const bool live = kx < HX && my.pair < live_pairs;
        float2 *const a = tile + my.pair * pair_pitch + kx, *const b = kx == 0 ? a + HX : a + (TX - 2 * kx);
        float2 s[G], d[G]; /* the two channels' lines */
        if (live) {
#pragma unroll
            for (int i = 0; i < LIVE; i++)
                if (!EMPTY || G * i < rows) {
                    s[i] = a[G * i * P + places.own];
                    d[i] = b[G * i * P + places.own];
                } else {
                    s[i] = d[i] = cv_c(0.0f, 0.0f);
                }
#pragma unroll
            for (int i = 0; i < LIVE; i++) {
                const float2 z = s[i], m = d[i];
                s[i] = kx == 0 ? cv_c(z.x, m.x) : cv_c(z.x + m.x, z.y - m.y);
                d[i] = kx == 0 ? cv_c(z.y, m.y) : cv_c(z.y + m.y, m.x - z.x);
            }
        }
#pragma unroll
        for (int i = LIVE; i < N; i++)
            s[i] = d[i] = cv_c(0.0f, 0.0f);
        __syncwarp();
        line.template first<EMPTY>(s);
        line.template exchange<G * P>(s, live, a, b, places);
        line.second(s);
        line.template first<EMPTY>(d);
        line.template exchange<G * P>(d, live, a, b, places);
        line.second(d);

        int64_t stride = bin_stride; /* or the compiler holds all of its multiples in registers for the loop */
        cv_forget(stride);
        float2 *to = out + kx * stride + 2 * my.pair;
        if (base == 0 && threadIdx.x < 32) {
            /* F[0] + i F[TX/2] of either channel: the mirror tells them apart. Slot k up to TY/2 is F[0]'s, TY/2 + k
             * is F[TX/2]'s k, and its 0 and TY/2 come last. */
            const bool packed = live && kx == 0;
            int lane = line.b;
            cv_forget(lane); /* what follows is rare: none of it should be held in registers for the loop */
            if (packed && lane == 0) {
                float2 *last = to + HX * TY * stride;
                *(float4 *)last = make_float4(2.0f * s[0].y, 0.0f, 2.0f * d[0].y, 0.0f);
                *(float4 *)(last + stride) = make_float4(2.0f * s[G / 2].y, 0.0f, 2.0f * d[G / 2].y, 0.0f);
            }
            auto slot = [&](int k) {
                const int row = k < TY / 2 ? k : k - TY / 2;
                return (k < TY / 2 ? a : b) + row * P + cv_lane_skew(row, my.pair, log_pairs);
            };
            auto unpack = [&](float2 *v) {
                if (packed && lane < N) {
#pragma unroll
                    for (int k = 0; k < G; k++)
                        *slot(lane + N * k) = v[k];
                }
                __syncwarp();
                if (packed && lane < N) {
#pragma unroll
                    for (int k = 0; k < G; k++) {
                        const int ky = lane + N * k, m = ky <= TY / 2 ? ky : ky - TY / 2;
                        const float2 p = *slot(m), q = *slot(m == 0 ? 0 : TY - m);
                        v[k] = ky <= TY / 2 ? cv_c(p.x + q.x, p.y - q.y) : cv_c(p.y + q.y, q.x - p.x);
                    }
                }
                __syncwarp();
            };
            unpack(s);
            unpack(d);
        }
        if (!live || !line.has())
            continue;
        to += line.b * HX * stride;
#pragma unroll
        for (int k = 0; k < G; k++, to += N * HX * stride)
            *(float4 *)to = make_float4(s[k].x, s[k].y, d[k].x, d[k].y);
    }
}

template <int TY, int TX, bool BOXES>
__global__ void __launch_bounds__(CV_LANE_THREADS(TY, TX), CV_LANE_FIT(TY, TX))
    cv_forward_lanes_kernel(const __grid_constant__ cv_spectral g, int x_blocks,
                            const __grid_constant__ CUtensorMap map_x, const __grid_constant__ CUtensorMap map_w)
{
    extern __shared__ __align__(128) float tile[];
    __shared__ unsigned largest[8], smallest[8];
    const bool is_x = (int)blockIdx.x < x_blocks;
    const int channels = is_x ? g.ng * g.cgp : g.cgp, cb = is_x ? g.cb : g.wcb, log_pairs = 30 - __clz(cb);
    const int blocks = (channels + cb - 1) >> (log_pairs + 1), index = is_x ? blockIdx.x : blockIdx.x - x_blocks;
    const int item = index / blocks, block = index - item * blocks, first = block * cb;
    const int live_pairs = (min(cb, channels - first) + 1) / 2;
    const bool half_y = !is_x && 2 * g.r <= TY, half_x = !is_x && 2 * g.s <= TX;
    const int rows = is_x ? TY : cv_lane_rows_of(TY, g.r);
    const int pitch = cv_lane_pitch(is_x ? TY : cv_lane_rows_kept(TY, rows), TX);
    const cv_place at = cv_tile_place(g, is_x ? g.tile0 + item : 0);
    float2 *const lines = (float2 *)tile;
    cv_lane_source source = {{0, 0, g.r, g.s, g.ws[2], 1}, {nullptr, nullptr}, 0, 0};
    if (is_x)
        source.win = {at.ty * g.oy - g.pad_t, at.tx * g.ox - g.pad_l, g.h, g.w, g.xs[2], 1};

    cv_overlap_next();
    if (threadIdx.x < 8) {
        largest[threadIdx.x] = 0;
        smallest[threadIdx.x] = 0xffffffffu;
    }
    const int pair = cv_row_lanes(log_pairs).pair;
    /* the group of a pair's channels, and the first one's number there; a pair beyond the last counts as outside */
    auto group_of = [&](int p) { return is_x && g.ng > 1 ? (first + 2 * p) / g.cgp : 0; };
    if constexpr (BOXES) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
        __shared__ __align__(8) unsigned long long arrived;
        source.barrier = (unsigned)__cvta_generic_to_shared(&arrived);
        source.late = source.win.col0 & 3;
        if (threadIdx.x == 0) {
            cv_barrier_init(source.barrier);
            cv_barrier_fence();
            cv_barrier_expect(source.barrier, rows * CV_LANE_PITCH(TX) * 8 << log_pairs);
#pragma unroll 1
            for (int p = 0; p < 1 << log_pairs; p++) {
                const unsigned to = (unsigned)__cvta_generic_to_shared(lines + p * pitch);
                const int group = group_of(p), c = p < live_pairs ? first + 2 * p - group * g.cgp : g.cg;
                if (is_x)
                    cv_copy_box(to, &map_x, source.win.col0 - source.late, c, source.win.row0, g.g0 + group, at.n,
                                source.barrier);
                else
                    cv_copy_box(to, &map_w, 0, c, 0, 0, g.k0 + item, source.barrier);
            }
        }
#endif
    } else {
        const int group = group_of(pair), c = first + 2 * pair - group * g.cgp;
        const int64_t *strides = is_x ? g.xs : g.ws;
        const float *from =
            is_x ? g.x + at.n * g.xs[0] + (int64_t)(g.g0 + group) * g.cg * g.xs[1] : g.weight + (g.k0 + item) * g.ws[0];
#pragma unroll
        for (int e = 0; e < 2; e++)
            if (pair < live_pairs && c + e < g.cg)
                source.plane[e] = from + (c + e) * strides[1];
    }
    __syncthreads();
    unsigned top[2] = {0, 0}, least[2] = {0xffffffffu, 0xffffffffu};
    if (is_x)
        cv_lane_rows<TX, BOXES, false, false>(lines, pitch, log_pairs, rows, source, top, least);
    else if (half_x)
        cv_lane_rows<TX, BOXES, true, true>(lines, pitch, log_pairs, rows, source, top, least);
    else
        cv_lane_rows<TX, BOXES, false, true>(lines, pitch, log_pairs, rows, source, top, least);
#pragma unroll
    for (int e = 0; e < 2; e++) {
#pragma unroll
        for (int far = 1; far < CV_LANES; far *= 2) {
            top[e] = max(top[e], __shfl_xor_sync(0xffffffffu, top[e], far));
            least[e] = min(least[e], __shfl_xor_sync(0xffffffffu, least[e], far));
        }
        if (threadIdx.x % CV_LANES == 0) {
            atomicMax(largest + 2 * pair + e, top[e]);
            if (!is_x)
                atomicMin(smallest + 2 * pair + e, least[e]);
        }
    }
    __syncthreads();

    cv_overlap_wait(); /* it may still read the spectra that these replace */
    if (threadIdx.x < 32) {
        const unsigned high = threadIdx.x < cb ? largest[threadIdx.x] : 0;
        const unsigned low = smallest[threadIdx.x % 8] / 2 + 1;
        const bool wide = !is_x && high != 0 && high - min(high, low) >= CV_RANGE_RATIO;
        const unsigned flagged = __ballot_sync(0xffffffffu, cv_out_of_range(high) || wide);
        if (threadIdx.x == 0)
            (is_x ? g.xflag : g.wflag + (int64_t)g.wk0 * blocks)[(int64_t)item * blocks + block] = flagged != 0;
    }

    const int64_t row = is_x ? item : g.wk0 + item, bin_stride = (int64_t)(is_x ? g.tiles : g.wrows) * channels;
    float2 *out = (float2 *)(is_x ? g.xf : g.wf) + row * channels + first;
    if (half_y)
        cv_lane_columns<TY, TX, true>(lines, pitch, log_pairs, rows, live_pairs, out, bin_stride);
    else
        cv_lane_columns<TY, TX, false>(lines, pitch, log_pairs, rows, live_pairs, out, bin_stride);
}

struct cv_forward_entry {
    int ty, tx;
    void (*kernels[2])(const cv_spectral, int, const CUtensorMap, const CUtensorMap); /* by words, by boxes */
};
#define CV_ENTRY(TY, TX) {TY, TX, {cv_forward_lanes_kernel<TY, TX, false>, cv_forward_lanes_kernel<TY, TX, true>}},
static const cv_forward_entry entries[] = {CV_LANE_TILES(CV_ENTRY)};
#undef CV_ENTRY
static decltype(&cuTensorMapEncodeTiled) encode; /* NULL where the device has no tensor copy engine */

extern "C" int cv_forward_lanes_setup(void)
{
    int device = 0, major = 0;
    int e = cudaGetDevice(&device);
    if (!e)
        e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (e)
        return e;
    encode = major >= 9 ? cv_boxes_encoder() : nullptr;
    for (const cv_forward_entry &entry : entries)
        for (auto kernel : entry.kernels)
            if ((e = cv_allow_shared((const void *)kernel, CV_LANE_SHARED)))
                return e;
    return cudaSuccess;
}

/* Boxes of two channels of one group by so many rows of a tensor's (image, group, row, channel, column), if its address
 * and strides suit the engine: multiples of 16 bytes. */
static bool boxes(CUtensorMap *map, const float *from, const int64_t *strides, int images, int groups, int channels,
                  int high, int wide, int rows, int cols)
{
    const cuuint64_t sizes[5] = {(cuuint64_t)wide, (cuuint64_t)channels, (cuuint64_t)high, (cuuint64_t)groups,
                                 (cuuint64_t)images};
    const int64_t words[4] = {strides[1], strides[2], strides[1] * channels, strides[0]};
    const int counts[4] = {channels, high, groups, images};
    const cuuint32_t box[5] = {(cuuint32_t)cols, 2, (cuuint32_t)rows, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
    cuuint64_t bytes[4];
    bool suits = encode && (uintptr_t)from % 16 == 0;
    for (int i = 0; i < 4; i++) {
        bytes[i] = counts[i] > 1 ? (cuuint64_t)words[i] * 4 : 16;
        suits = suits && (counts[i] == 1 || (words[i] > 0 && words[i] % 4 == 0 && words[i] < (int64_t)1 << 37));
    }
    return suits && encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 5, (void *)from, sizes, bytes, box, steps,
                           CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

extern "C" int cv_forward_lanes(const cv_spectral *g, int what, void *stream)
{
    const int64_t x_blocks = what & CV_FORWARD_X ? (int64_t)g->tiles * cv_spectral_xblocks(g) : 0;
    const int64_t w_blocks = what & CV_FORWARD_W ? (int64_t)g->nk * cv_spectral_wblocks(g) : 0;
    const int w_rows = cv_lane_rows_of(g->ty, g->r), cols = CV_LANE_PITCH(g->tx);
    const int x = x_blocks ? cv_lane_bytes(g->ty, g->tx, g->cb) : 0;
    const int w = w_blocks ? cv_lane_bytes(cv_lane_rows_kept(g->ty, w_rows), g->tx, g->wcb) : 0;
    CUtensorMap map_x, map_w;
    memset(&map_x, 0, sizeof map_x);
    memset(&map_w, 0, sizeof map_w);
    const bool by_boxes = (!x || boxes(&map_x, g->x, g->xs, g->n, g->c / g->cg, g->cg, g->h, g->w, g->ty, cols)) &&
                          (!w || boxes(&map_w, g->weight, g->ws, g->k, 1, g->cg, g->r, g->s, w_rows, cols));
    for (const cv_forward_entry &e : entries)
        if (e.ty == g->ty && e.tx == g->tx)
            return cv_launch(e.kernels[by_boxes], x_blocks + w_blocks, CV_LANE_THREADS(g->ty, g->tx),
                             (size_t)(x > w ? x : w), stream, g->overlap, *g, (int)x_blocks, map_x, map_w);
    return cudaErrorInvalidValue;
}
