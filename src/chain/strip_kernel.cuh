/* The exact chain for groups of one channel (depthwise, one-channel images), stride 1 and dilation 1, a strip of a row
 * a thread:
 *
 *     y[n,k,p,q] = bias[k] + sum over r, then s of x[n, k/Kg, p + r - pad_t, q + s - pad_l] * w[k,r,s]
 *
 * A thread owns the outputs q0 .. q0 + QT - 1 of one row and walks the rows of x that meet the image, from the top: its
 * loop begins and ends with its own row, so padding above and below costs nothing. Of a row it takes one operand UN
 * values at a time and of the other the QT + UN - 1 values that these meet: UN QT FMAs for (QT + 2 UN) / 4 loads of 16
 * bytes. There are two ways round:
 *
 *   by image  UN columns of x, a window of w: columns in the padding cost nothing either, so 27 x 27 taps on a 14 x 14
 *             image are 14 x 14 products an output, and the whole row of x is one step
 *   by taps   UN taps of w, a window of x: no waste where S is short beside the image
 *
 * Either way an output meets its taps in the order r, s. What sticks out of the image or the kernel is zero in shared
 * memory; outputs that end as zero or NaN are looked at again, see alone.cuh.
 *
 * Lanes lie along the rows: they read one row of w (or of x, if the image's height sets the pace) together and rows of
 * the other that are an odd multiple of 16 bytes apart, which meet no bank twice.
 *
 * A block is tp rows by tq strips of tnn images by tnk channels; images share w. Shared memory: the rows of x that the
 * tile meets, w once a channel; y on its way out, so that whole rows are stored. x is read once but for the halo.
 *
 * Registers: QT sums, 2 UN + QT operands. n8c512h14r27: 157 M FMAs, 5 us at 66.9 TFLOP/s; 7 MB, 2 us. */
#ifndef CV_STRIP_KERNEL_CUH
#define CV_STRIP_KERNEL_CUH

#include "strip_parts.cuh"

template <int QT, int UN, bool BY_TAPS, int WIDE>
__global__ void __launch_bounds__(CV_STRIP_THREADS) cv_strip_kernel(const __grid_constant__ cv_strip_args a)
{
    constexpr int STEP = (UN + 3) / 4 * 4; /* words from step to step of the walked row */
    extern __shared__ float4 cv_smem4[];
    __shared__ long long x_at[CV_STRIP_THREADS], y_at[CV_STRIP_THREADS]; /* where planes lie in x and y */
    __shared__ int k_of[CV_STRIP_THREADS];                               /* their output, -1: none */
    float *ws = (float *)cv_smem4, *xs = ws + a.tnk * a.w_floats;
    const int tid = threadIdx.x;

    const int by_n = cv_divide(blockIdx.x, a.by_tiles_q), tile_q = blockIdx.x - by_n * a.by_tiles_q.d;
    const int by_k = cv_divide(by_n, a.by_tiles_p), tile_p = by_n - by_k * a.by_tiles_p.d;
    const int tile_k = cv_divide(by_k, a.by_tiles_n), tile_n = by_k - tile_k * a.by_tiles_n.d;
    const int n0 = tile_n * a.by_tnn.d, k0 = tile_k * a.tnk;
    const int images = min(a.by_tnn.d, a.N - n0), channels = min(a.tnk, a.K - k0);
    const int p_tile = tile_p * a.by_tp.d, q_tile = tile_q * a.tq * QT;

    /* what the tile meets of x */
    const int h_begin = max(0, p_tile - a.pad_t), h_end = min(a.H, p_tile + a.by_tp.d - 1 - a.pad_t + a.R);
    const int col0 = BY_TAPS ? q_tile - a.pad_l : max(0, q_tile - a.pad_l) & ~3;

    const int planes = a.tnk * a.by_tnn.d;
    if (tid < planes) {
        const int sk = cv_divide(tid, a.by_tnn), sn = tid - sk * a.by_tnn.d;
        const int k = min(k0 + sk, a.K - 1), n = min(n0 + sn, a.N - 1);
        x_at[tid] = n * a.xs_n + cv_divide(k, a.by_kg) * a.xs_c;
        y_at[tid] = n * a.ys_n + k * a.ys_k;
        k_of[tid] = sn < images && sk < channels ? k : -1;
    }
    /* what is not copied counts as zero */
#pragma unroll 2
    for (int i = tid; i < (a.tnk * a.w_floats + planes * a.x_floats) / 4; i += blockDim.x)
        cv_smem4[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    __syncthreads();
    if (a.x_words) {
        const auto copy = [&](auto number) {
            constexpr int WORDS = decltype(number)::value;
            cv_strip_pieces(planes, a.by_x_plane, [&](int at) {
                const int row = cv_divide(at, a.by_x_row), col = (at - row * a.by_x_row.d) * WORDS - col0;
                float *to = xs + row * a.x_pitch + cv_strip_place < BY_TAPS ? 4 : UN > (col);
                const float *from = a.x + (h_begin * a.W + at * WORDS);
                const bool met = row < h_end - h_begin && (unsigned)col < (unsigned)a.x_cols;
                return [=, &a](int plane) {
                    if (met)
                        cv_strip_copy_words<WORDS>(to + plane * a.x_floats, from + x_at[plane]);
                };
            });
        };
        if (a.x_words == 4)
            copy(cv_strip_number<4>());
        else if (a.x_words == 2)
            copy(cv_strip_number<2>());
        else
            copy(cv_strip_number<1>());
    } else {
        const int lane = tid & (a.x_lanes - 1), step = blockDim.x / a.x_lanes;
#pragma unroll 1
        for (int i = tid / a.x_lanes; i < planes * a.by_rows.d; i += step) {
            const int plane = cv_divide(i, a.by_rows), h = h_begin + i - plane * a.by_rows.d;
            if (h < h_end)
                cv_strip_copy_row<BY_TAPS ? 4 : UN>(xs + plane * a.x_floats + (h - h_begin) * a.x_pitch, a.x_cols, lane,
                                                    a.x_lanes, a.x + x_at[plane] + h * a.xs_h, a.xs_w, col0, a.W);
        }
    }
    if (a.w_flat) {
        cv_strip_pieces(channels, a.by_w_plane, [&](int at) {
            const int row = cv_divide(at, a.by_s), col = at - row * a.S + a.w_first;
            float *to = ws + row * a.w_pitch + cv_strip_place < BY_TAPS ? UN : 4 > (col);
            const float *from = a.w + k0 * a.ws_k + at;
            return [=, &a](int sk) { cv_strip_copy_words<1>(to + sk * a.w_floats, from + sk * a.ws_k); };
        });
    } else {
        const int lane = tid & (a.w_lanes - 1), step = blockDim.x / a.w_lanes;
#pragma unroll 1
        for (int i = tid / a.w_lanes; i < channels * a.R; i += step) {
            const int sk = cv_divide(i, a.by_r), row = i - sk * a.R;
            cv_strip_copy_row<BY_TAPS ? UN : 4>(ws + sk * a.w_floats + row * a.w_pitch, a.w_cols, lane, a.w_lanes,
                                                a.w + (k0 + sk) * a.ws_k + row * a.ws_r, a.ws_s, -a.w_first, a.S);
        }
    }
    cv_cp_commit();

    /* this thread's outputs, and the steps of a row that meet the image */
    const int strips = cv_divide(tid, a.by_tp), row = tid - strips * a.by_tp.d;
    const int strip = cv_divide(strips, a.by_planes), plane = strips - strip * a.by_planes.d;
    const int kk = cv_divide(plane, a.by_tnn), nn = plane - kk * a.by_tnn.d;
    const int p = p_tile + row, q0 = q_tile + strip * QT;
    const bool active = strip < a.tq && nn < images && kk < channels && p < a.P && q0 < a.Q;
    const int left = q0 - a.pad_l; /* the column that tap 0 of output q0 meets */
    const int h_first = max(0, p - a.pad_t), h_last = min(a.H, p - a.pad_t + a.R);
    int first, last;
    if (BY_TAPS) {
        first = max(0, -(left + QT - 1)) / UN;
        last = min(a.steps, (a.W - left + UN - 1) / UN);
    } else {
        first = (max(0, left) - col0) / UN;
        last = (min(a.W, left + QT - 1 + a.S) - col0 + UN - 1) / UN;
    }
    const float *xr = xs + plane * a.x_floats + (h_first - h_begin) * a.x_pitch;
    const float *wr = ws + kk * a.w_floats + (h_first - p + a.pad_t) * a.w_pitch;
    const float *walk = (BY_TAPS ? wr : xr) + first * STEP;
    const float *window =
        BY_TAPS ? xr + (q0 - q_tile) + first * UN : wr + (col0 + first * UN - left - (QT - 1) + a.w_first);
    const int walk_down = BY_TAPS ? a.w_pitch : a.x_pitch, window_down = BY_TAPS ? a.x_pitch : a.w_pitch;

    float acc[QT];
#pragma unroll
    for (int q = 0; q < QT; ++q)
        acc[q] = 0.0f;
    cv_cp_wait<0>();
    __syncthreads();
    if (active) {
#pragma unroll 1
        for (int h = h_first; h < h_last; ++h, walk += walk_down, window += window_down)
#pragma unroll 1
            for (int i = 0; i < last - first; ++i)
                cv_strip_step<QT, UN, BY_TAPS, WIDE>(acc, walk + i * STEP, window + i * UN);

        bool again = false;
#pragma unroll
        for (int q = 0; q < QT; ++q)
            again |= cv_alone_may_differ(acc[q]);
        if (again) {
            /* all zeros make a sum of +0, which is right */
            const bool dead =
                !cv_strip_any(xr, h_last - h_first, a.x_pitch, cv_strip_place < BY_TAPS ? 4 : UN > (a.x_cols - 1)) ||
                !cv_strip_any(ws + kk * a.w_floats, a.R, a.w_pitch, a.w_cols);
            const float *image = a.x + (n0 + nn) * a.xs_n + cv_divide(k0 + kk, a.by_kg) * a.xs_c;
#pragma unroll
            for (int q = 0; q < QT; ++q)
                if (cv_alone_may_differ(acc[q]) && !(dead && acc[q] == 0.0f) && q0 + q < a.Q)
                    acc[q] = cv_alone_sum<0>(a, image, a.w + (k0 + kk) * a.ws_k, p - a.pad_t, left + q);
        }
    }

    /* by rows through shared memory, over x */
    __syncthreads();
    if (active) {
        float *to = xs + (plane * a.by_tp.d + row) * a.y_pitch + strip * QT;
        if constexpr (QT % 4 == 0) {
#pragma unroll
            for (int q = 0; q < QT; q += 4)
                *(float4 *)(to + q) = make_float4(acc[q], acc[q + 1], acc[q + 2], acc[q + 3]);
        } else {
#pragma unroll
            for (int q = 0; q < QT; ++q)
                to[q] = acc[q];
        }
    }
    __syncthreads();
    if (a.y_words) {
        const auto store = [&](auto number) {
            constexpr int WORDS = decltype(number)::value;
            cv_strip_pieces(planes, a.by_y_plane, [&](int at) {
                const int r = cv_divide(at, a.by_y_row), col = (at - r * a.by_y_row.d) * WORDS;
                const float *from = xs + r * a.y_pitch + col;
                float *to = a.y + (p_tile * a.Q + at * WORDS);
                const bool met = p_tile + r < a.P;
                return [=, &a](int plane) {
                    float v[WORDS];
                    const int k = k_of[plane];
                    if (k < 0 || !met)
                        return;
#pragma unroll
                    for (int e = 0; e < WORDS; ++e) {
                        v[e] = from[plane * a.by_tp.d * a.y_pitch + e];
                        v[e] = a.bias ? __fadd_rn(v[e], a.bias[k]) : v[e];
                    }
                    if constexpr (WORDS == 4)
                        *(float4 *)(to + y_at[plane]) = make_float4(v[0], v[1], v[2], v[3]);
                    else if constexpr (WORDS == 2)
                        *(float2 *)(to + y_at[plane]) = make_float2(v[0], v[1]);
                    else
                        to[y_at[plane]] = v[0];
                };
            });
        };
        if (a.y_words == 4)
            store(cv_strip_number<4>());
        else if (a.y_words == 2)
            store(cv_strip_number<2>());
        else
            store(cv_strip_number<1>());
        return;
    }
    const int lane = tid & (a.y_lanes - 1), step = blockDim.x / a.y_lanes;
    const int rows = min(a.by_tp.d, a.P - p_tile), cols = min(a.tq * QT, a.Q - q_tile);
#pragma unroll 1
    for (int i = tid / a.y_lanes; i < planes * a.by_tp.d; i += step) {
        const int slot = cv_divide(i, a.by_tp), r = i - slot * a.by_tp.d;
        if (r >= rows || k_of[slot] < 0)
            continue;
        float *to = a.y + y_at[slot] + (p_tile + r) * a.ys_p + q_tile * a.ys_q;
        const float bias = a.bias ? a.bias[k_of[slot]] : 0.0f;
#pragma unroll 1
        for (int col = lane; col < cols; col += a.y_lanes) {
            const float v = xs[i * a.y_pitch + col];
            to[col * a.ys_q] = a.bias ? __fadd_rn(v, bias) : v;
        }
    }
}

#endif
