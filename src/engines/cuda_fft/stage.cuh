/*
 * Copies between tensors and tiles in shared memory: whole warps along a row, implicit padding, any strides.
 *
 * Reading uses 4-byte asynchronous copies that write zero outside the image, so no register or branch waits for memory,
 * and a tile may start at any address. Rows of 16 or fewer points share a warp.
 */
#ifndef CV_CUDA_FFT_STAGE_CUH
#define CV_CUDA_FFT_STAGE_CUH

#include "tile.cuh"

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

/* Nothing is read from an address outside: with no bytes to read the copy writes a zero. */
__device__ __forceinline__ void cv_copy_word(unsigned to, const float *from, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(inside ? 4u : 0u) : "memory");
}
__device__ __forceinline__ void cv_copies_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* A window of a plane: its corner may lie outside, where the plane counts as zero. */
struct cv_window {
    int row0, col0, rows, cols; /* corner in the plane; size of the plane */
    int64_t row_stride, col_stride;
};

/* tile[chan][i][j] = plane(chan)[row0 + i, col0 + j] for i < tile_rows, j < tile_cols; a channel with no plane (NULL)
 * is zero. */
template <class Plane>
__device__ __forceinline__ void cv_load_tile(float *tile, cv_pitch pitch, int cb, int tile_rows, int tile_cols,
                                             const cv_window &win, Plane plane)
{
    const int wide = tile_cols <= 16 ? 16 : 32;
    const int lane = threadIdx.x & (wide - 1), first = threadIdx.x / wide, step = blockDim.x / wide;
    const int low = max(0, -win.row0), span = min(tile_rows, win.rows - win.row0) - low; /* rows inside the plane */
    const int64_t down = step * win.row_stride;
    const unsigned word_down = step * pitch.row * 4;
    for (int chan = 0; chan < cb; chan++) {
        const float *base = plane(chan);
        for (int j = lane; j < tile_cols; j += wide) {
            const unsigned live = base && (unsigned)(win.col0 + j) < (unsigned)win.cols ? max(span, 0) : 0;
            const float *from = base + (int64_t)(win.row0 + first) * win.row_stride + (win.col0 + j) * win.col_stride;
            unsigned to = (unsigned)__cvta_generic_to_shared(tile + chan * pitch.chan + first * pitch.row + j);
#pragma unroll 4
            for (int i = first - low; i < tile_rows - low; i += step, to += word_down, from += down)
                cv_copy_word(to, from, (unsigned)i < live);
        }
    }
}

/* One plane of outputs: scale * tile + bias for rows [p0, p0 + OY) x [q0, q0 + OX) of the unit-stride result; a stride
 * keeps every so many. */
__device__ __forceinline__ void cv_store_plane(const cv_spectral &g, const float *tile, int pitch, int n, int k, int p0,
                                               int q0)
{
    const float bias = g.bias ? g.bias[k] : 0.0f, scale = g.scale;
    const bool add = g.bias != nullptr;
    float *plane = g.y + n * g.ys[0] + k * g.ys[1];
    const int wide = g.ox <= 16 ? 16 : 32;
    const int lane = threadIdx.x & (wide - 1), first = threadIdx.x / wide, step = blockDim.x / wide;
    const int p_first = (p0 + g.stride_h - 1) / g.stride_h + first, i_first = p_first * g.stride_h - p0;
    const int rows = min(g.oy - i_first, (g.p - p_first) * g.stride_h), jump = step * g.stride_h;
    const int64_t down = step * g.ys[2];
    for (int j = lane; j < g.ox; j += wide) {
        const int q = (q0 + j) / g.stride_w;
        if (q >= g.q || q * g.stride_w != q0 + j)
            continue;
        float *to = plane + p_first * g.ys[2] + q * g.ys[3];
        const float *from = tile + i_first * pitch + j;
#pragma unroll 4
        for (int i = 0; i < rows; i += jump, to += down, from += jump * pitch) {
            const float value = scale * *from;
            *to = add ? value + bias : value;
        }
    }
}

#endif
