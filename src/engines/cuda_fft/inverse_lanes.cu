/*
 * Inverse transforms with lines shared by lanes (lanes.cuh): what inverse.cu does, for results whose columns are
 * contiguous, unit strides, and the sides that have such lines.
 *
 *     y[n, k, OY ty + p, OX tx + q] = bias[k] + sum over ky, kx of Y[bin][tile][k] e^(2 pi i (ky p / TY + kx q / TX)),
 * p < OY, q < OX
 *
 * One block: CB outputs k of one tile. Spectra come straight to registers, 16 bytes of two outputs a lane and 8 CB
 * bytes a bin; columns are transformed for both, and y[k] + i y[k + 1] is made of them where they leave for shared
 * memory: only the OY rows that are kept. Rows go from there to y.
 *
 * Shared memory: CB/2 OY PITCH complex (the columns' exchange asks for TY/2 rows at least); registers as in
 * forward_lanes.cu. Traffic as in inverse.cu: problem D at 64 x 64, 0.03 ms at 4.3 TB/s. Instructions there: 19 M
 * warp-wide, 0.02 ms at full issue.
 */
#include <cuda_runtime.h>

#include "direct.cuh"
#include "lanes.cuh"
#include "launch.cuh"
#include "stage.cuh"

/* Two outputs' values at a bin; one alone if they do not lie at a multiple of 16 bytes. */
static __device__ __forceinline__ float4 cv_spectrum_pair(const float2 *from, bool pairs, bool second)
{
    if (pairs)
        return __ldcg((const float4 *)from);
    const float2 a = __ldcg(from), b = second ? __ldcg(from + 1) : cv_c(0.0f, 0.0f);
    return make_float4(a.x, a.y, b.x, b.y);
}

/* Columns to the rows that are kept, real and imaginary part exchanged as everywhere until the end. Bins are one_bin
 * apart, or two beside each other in the room of two (granule). */
template <int TY, int TX>
static __device__ __forceinline__ void cv_lane_columns_in(float2 *tile, int pair_pitch, int log_pairs, int rows,
                                                          int live_cb, const float2 *in, int64_t one_bin, int granule,
                                                          bool pairs)
{
    constexpr int N = TY / CV_LANES, P = CV_LANE_PITCH(TX), HX = TX / 2;
    const cv_column_lanes my(log_pairs);
    const cv_lane<TY> line(my.lane);
    const cv_lane_places places = cv_lane_column_places<TX>(my.lane, my.pair, log_pairs);
    const bool second = 2 * my.pair + 1 < live_cb;
#pragma unroll 1
    for (int base = 0; base < HX; base += my.step) {
        const int kx = base + my.kx;
        const bool live = kx < HX && 2 * my.pair < live_cb;
        float2 *const a = tile + my.pair * pair_pitch + kx, *const b = kx == 0 ? a + HX : a + (TX - 2 * kx);
        const float2 *from = in + kx * (granule ? 2 * one_bin : one_bin) + 2 * my.pair;
        const int64_t odd = granule ? granule : HX * one_bin;
        auto bin = [&](int ky) { return from + (ky >> 1) * (2 * HX) * one_bin + (ky & 1) * odd; };
        float2 s[CV_LANES], d[CV_LANES];
        if (live && kx == 0) {
            /* F[0] + i F[TX/2] of either output, see forward_lanes.cu */
#pragma unroll
            for (int i = 0; i < N; i++) {
                const int ky = CV_LANES * i + line.b, m = ky <= TY / 2 ? ky : TY - ky;
                const float2 *other = m == 0        ? from + TY * HX * one_bin
                                      : m == TY / 2 ? from + TY * HX * one_bin + (granule ? granule : one_bin)
                                                    : bin(TY / 2 + m);
                const float4 f = cv_spectrum_pair(bin(m), pairs, second);
                const float4 h = cv_spectrum_pair(other, pairs, second);
                const float sign = ky <= TY / 2 ? 1.0f : -1.0f;
                s[i] = cv_c(__builtin_fmaf(sign, f.y, h.x), __builtin_fmaf(-sign, h.y, f.x));
                d[i] = cv_c(__builtin_fmaf(sign, f.w, h.z), __builtin_fmaf(-sign, h.w, f.z));
            }
        } else if (live) {
            const float2 *at = bin(line.b);
            const int64_t down = CV_LANES * HX * one_bin;
            auto load = [&](bool aligned) {
#pragma unroll
                for (int i = 0; i < N; i++, at += down) {
                    const float4 f = cv_spectrum_pair(at, aligned, second);
                    s[i] = cv_c(f.y, f.x);
                    d[i] = cv_c(f.w, f.z);
                }
            };
            if (pairs)
                load(true);
            else
                load(false);
        }
        line.template first<false>(s);
        line.template exchange<8 * P>(s, live, a, b, places);
        line.second(s);
        line.template first<false>(d);
        line.template exchange<8 * P>(d, live, a, b, places);
        line.second(d);
        if (!live)
            continue;
        if (line.has()) {
#pragma unroll
            for (int k = 0; k < CV_LANES; k++) {
                const int p = line.b + N * k;
                const int at = N == 8 ? places.own + 8 * P * k : p * P + cv_lane_skew(p, my.pair, log_pairs);
                const float2 u = s[k], v = d[k];
                if (p < rows) {
                    a[at] = kx == 0 ? cv_c(v.y, u.y) : cv_c(u.x + v.y, u.y - v.x);
                    b[at] = kx == 0 ? cv_c(v.x, u.x) : cv_c(v.y - u.x, u.y + v.x);
                }
            }
        }
    }
}

/* Rows: to y[output][p][q], p < rows, q < cols; `to` and scale and bias are of this lane's pair. */
template <int TX>
static __device__ __forceinline__ void cv_lane_rows_out(float2 *tile, int pair_pitch, int log_pairs, int rows, int cols,
                                                        bool has0, bool has1, float scale, float bias0, float bias1,
                                                        float *to, int64_t plane_stride, int64_t row_stride)
{
    constexpr int N = TX / CV_LANES;
    const cv_row_lanes my(log_pairs);
    const cv_lane<TX> line(threadIdx.x % CV_LANES);
    const cv_lane_places places = cv_lane_row_places(line.b);
    to += my.row * row_stride + line.b;
    const int64_t down = my.step * row_stride;
#pragma unroll 1
    for (int row = my.row; __any_sync(0xffffffffu, row < rows); row += my.step, to += down) {
        const bool live = row < rows && has0;
        float2 *const at =
            tile + my.pair * pair_pitch + row * CV_LANE_PITCH(TX) + cv_lane_skew(row, my.pair, log_pairs);
        float2 v[CV_LANES];
        if (live) {
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] = at[CV_LANES * i + line.b];
        }
        line.template first<false>(v);
        __syncwarp();
        line.template exchange<CV_LANES>(v, live, at, at + CV_LANES * line.HALF, places);
        line.second(v);
        if (!live || !line.has())
            continue;
#pragma unroll
        for (int k = 0; k < CV_LANES; k++)
            if (line.b + N * k < cols) {
                to[N * k] = __fmaf_rn(scale, v[k].y, bias0);
                if (has1)
                    to[plane_stride + N * k] = __fmaf_rn(scale, v[k].x, bias1);
            }
    }
}

template <int TY, int TX>
__global__ void __launch_bounds__(CV_LANE_THREADS(TY, TX), CV_LANE_FIT(TY, TX))
    cv_inverse_lanes_kernel(const __grid_constant__ cv_spectral g)
{
    extern __shared__ __align__(16) float tile[];
    const int blocks = (g.nk + g.ycb - 1) / g.ycb, item = blockIdx.x / blocks, block = blockIdx.x - item * blocks;
    const int first = block * g.ycb, live_cb = min(g.ycb, g.nk - first), log_pairs = 30 - __clz(g.ycb);
    const int pitch = cv_lane_pitch(cv_lane_rows_kept(TY, g.oy), TX);
    const cv_place at = cv_tile_place(g, g.tile0 + item);
    const int p0 = at.ty * g.oy, q0 = at.tx * g.ox;

    cv_overlap_next();
    cv_overlap_wait();
    const int flagged = cv_flags_of(g, item, first, live_cb);
    const int wide = cv_spectral_wide(g.yq); /* see spectral.h for how bins lie */
    const int64_t one_bin = (int64_t)g.tiles * g.nk;
    const float2 *in = (const float2 *)g.yf + ((int64_t)item * g.nk + first) * wide;
    const int rows = min(g.oy, g.p - p0), cols = min(g.ox, g.q - q0);
    cv_lane_columns_in<TY, TX>((float2 *)tile, pitch, log_pairs, rows, live_cb, in, one_bin, g.yq, g.nk % 2 == 0);
    if (__syncthreads_or(flagged)) {
        for (int i = 0; i < live_cb; i++)
            cv_direct_tile(g, at.n, g.k0 + first + i, p0, q0);
        return;
    }
    const int k = 2 * cv_row_lanes(log_pairs).pair;
    const bool has0 = k < live_cb, has1 = k + 1 < live_cb;
    const float bias0 = g.bias && has0 ? g.bias[g.k0 + first + k] : -0.0f; /* x + -0 is x */
    const float bias1 = g.bias && has1 ? g.bias[g.k0 + first + k + 1] : -0.0f;
    float *to = g.y + at.n * g.ys[0] + (int64_t)(g.k0 + first + k) * g.ys[1] + p0 * g.ys[2] + q0;
    cv_lane_rows_out<TX>((float2 *)tile, pitch, log_pairs, rows, cols, has0, has1, g.scale, bias0, bias1, to, g.ys[1],
                         g.ys[2]);
}

struct cv_inverse_entry {
    int ty, tx;
    void (*kernel)(const cv_spectral);
};
#define CV_ENTRY(TY, TX) {TY, TX, cv_inverse_lanes_kernel<TY, TX>},
static const cv_inverse_entry entries[] = {CV_LANE_TILES(CV_ENTRY)};
#undef CV_ENTRY

extern "C" int cv_inverse_lanes_setup(void)
{
    for (const cv_inverse_entry &e : entries)
        if (int error = cv_allow_shared((const void *)e.kernel, CV_LANE_SHARED))
            return error;
    return cudaSuccess;
}

extern "C" int cv_inverse_lanes(const cv_spectral *g, void *stream)
{
    const int64_t blocks = (int64_t)g->tiles * ((g->nk + g->ycb - 1) / g->ycb);
    const int bytes = cv_lane_bytes(cv_lane_rows_kept(g->ty, g->oy), g->tx, g->ycb);
    for (const cv_inverse_entry &e : entries)
        if (e.ty == g->ty && e.tx == g->tx)
            return cv_launch(e.kernel, blocks, CV_LANE_THREADS(g->ty, g->tx), (size_t)bytes, stream, g->overlap, *g);
    return cudaErrorInvalidValue;
}
