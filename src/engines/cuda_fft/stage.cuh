/*
 * Copies between tensors and tiles in shared memory: whole warps along a row, implicit padding, any strides.
 *
 * Words go through registers, many under way at once. A tile may start at any address, so wider copies do not apply;
 * and a 4-byte asynchronous copy that can write zeros costs a Hopper six issue slots and no less address arithmetic.
 */
#ifndef CV_CUDA_FFT_STAGE_CUH
#define CV_CUDA_FFT_STAGE_CUH

#include "lines.cuh"

struct cv_place {
    int n, ty, tx; /* image, tile row, tile column */
};
__device__ __forceinline__ cv_place cv_tile_place(const cv_spectral &g, int tile)
{
    cv_place t;
    const int per_image = g.ny * g.nx;
    t.n = tile / per_image;
    t.ty = (tile - t.n * per_image) / g.nx;
    t.tx = tile - t.n * per_image - t.ty * g.nx;
    return t;
}

/* A window of a plane: its corner may lie outside, where the plane counts as zero. */
struct cv_window {
    int row0, col0, rows, cols; /* corner in the plane; size of the plane */
    int64_t row_stride, col_stride;
};

/* What an absent channel reads. */
static __device__ const float cv_zero = 0.0f;

/* tile[chan][i][j] = plane(chan)[row0 + i, col0 + j] for i < tile_rows, j < tile_cols; a channel with no plane (NULL)
 * is zero. A thread has 8 rows of CHANS channels under way at once; CHANS divides CB. SCAN: lowers smallest[chan] to
 * the bits of the channel's smallest magnitude above zero. */
template <int CHANS, bool SCAN, class Plane>
__device__ __forceinline__ void cv_load_tile(float *tile, cv_pitch pitch, int cb, int tile_rows, int tile_cols,
                                             const cv_window &win, unsigned *smallest, Plane plane)
{
    constexpr int ROWS = 8;
    const int wide = tile_cols <= 16 ? 16 : 32;
    const int lane = threadIdx.x & (wide - 1), first = threadIdx.x / wide, step = blockDim.x / wide;
    const int low = max(0, -win.row0), span = min(tile_rows, win.rows - win.row0) - low; /* rows inside the plane */
    for (int chan = 0; chan < cb; chan += CHANS) {
        const float *base[CHANS];
        unsigned least[CHANS]; /* twice the bits, less 1: zero is the largest */
#pragma unroll
        for (int c = 0; c < CHANS; c++) {
            base[c] = plane(chan + c);
            least[c] = 0xffffffffu;
        }
        for (int j = lane; j < tile_cols; j += wide) {
            const unsigned live = (unsigned)(win.col0 + j) < (unsigned)win.cols ? max(span, 0) : 0;
            const int64_t offset = (win.row0 + first) * win.row_stride + (win.col0 + j) * win.col_stride;
            const float *from[CHANS];
            int64_t down[CHANS];
#pragma unroll
            for (int c = 0; c < CHANS; c++) {
                from[c] = base[c] ? base[c] + offset : &cv_zero;
                down[c] = base[c] ? step * win.row_stride : 0;
            }
            float *to = tile + chan * pitch.chan + first * pitch.row + j;
            for (int i = first; i < tile_rows; i += ROWS * step) {
                float v[ROWS][CHANS];
#pragma unroll
                for (int u = 0; u < ROWS; u++) {
                    const bool inside = (unsigned)(i + u * step - low) < live;
#pragma unroll
                    for (int c = 0; c < CHANS; c++) {
                        v[u][c] = 0.0f;
                        if (inside)
                            v[u][c] = __ldg(from[c]);
                        from[c] += down[c];
                    }
                }
#pragma unroll
                for (int u = 0; u < ROWS; u++, to += step * pitch.row)
                    if (i + u * step < tile_rows) {
#pragma unroll
                        for (int c = 0; c < CHANS; c++) {
                            to[c * pitch.chan] = v[u][c];
                            if (SCAN)
                                least[c] = min(least[c], 2 * __float_as_uint(v[u][c]) - 1);
                        }
                    }
            }
        }
        if (SCAN) {
#pragma unroll
            for (int c = 0; c < CHANS; c++) {
                const unsigned all = __reduce_min_sync(0xffffffffu, least[c]);
                if ((threadIdx.x & 31) == 0)
                    atomicMin(smallest + chan + c, all / 2 + 1);
            }
        }
    }
}

/* Outputs: scale * tile + bias for rows [p0, p0 + OY) x [q0, q0 + OX) of the unit-stride result of image n and outputs
 * k .. k + planes - 1, but those that skip(i) says; a stride keeps every so many rows and columns. */
template <class Skip>
__device__ __forceinline__ void cv_store_tile(const cv_spectral &g, const float *tile, cv_pitch pitch, int n, int k,
                                              int planes, int p0, int q0, Skip skip)
{
    const float scale = g.scale;
    const int wide = g.ox <= 16 ? 16 : 32;
    const int lane = threadIdx.x & (wide - 1), first = threadIdx.x / wide, step = blockDim.x / wide;
    const int p_first = (p0 + g.stride_h - 1) / g.stride_h + first, i_first = p_first * g.stride_h - p0;
    const int rows = min(g.oy - i_first, (g.p - p_first) * g.stride_h), jump = step * g.stride_h;
    const int64_t down = step * g.ys[2];
    const int tile_down = jump * pitch.row;
    for (int j = lane; j < g.ox; j += wide) {
        const int q = g.stride_w == 1 ? q0 + j : (q0 + j) / g.stride_w;
        if (q >= g.q || q * g.stride_w != q0 + j)
            continue;
        float *corner = g.y + n * g.ys[0] + k * g.ys[1] + p_first * g.ys[2] + q * g.ys[3];
        const float *tile_corner = tile + i_first * pitch.row + j;
        for (int c = 0; c < planes; c++, corner += g.ys[1], tile_corner += pitch.chan) {
            if (skip(c))
                continue;
            const float bias = g.bias ? g.bias[k + c] : -0.0f; /* x + -0 is x */
            float *to = corner;
            const float *from = tile_corner;
#pragma unroll 4
            for (int i = 0; i < rows; i += jump, to += down, from += tile_down)
                *to = __fmaf_rn(scale, *from, bias);
        }
    }
}

#endif
