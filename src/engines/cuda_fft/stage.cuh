/*
 * Copies between tensors and tiles in shared memory: whole warps along a row, implicit padding, any strides.
 *
 * Reading uses 4-byte asynchronous copies that write zero outside the image, so no register or branch waits for memory, and
 * a tile may start at any address. Rows of 16 or fewer points share a warp.
 */
#ifndef CV_CUDA_FFT_STAGE_CUH
#define CV_CUDA_FFT_STAGE_CUH

#include "tile.cuh"

struct cv_place {
    int n, ty, tx;    /* image, tile row, tile column */
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
__device__ __forceinline__ void cv_copies_done()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* One channel plane: tile[i][j] = plane[(i0 + i), (j0 + j)] inside rows x cols of the plane, else 0; channel absent: zeros. */
__device__ __forceinline__ void cv_load_plane(float *tile, int pitch, int tile_rows, int tile_cols, const float *plane,
                                              int64_t row_stride, int64_t col_stride, int i0, int j0, int rows, int cols,
                                              bool present)
{
    const int wide = tile_cols <= 16 ? 16 : 32;
    const int lane = threadIdx.x & (wide - 1), first = threadIdx.x / wide, step = blockDim.x / wide;
    const int low = max(0, -i0), span = min(tile_rows, rows - i0) - low;    /* rows of the tile inside the plane */
    const int64_t down = step * row_stride;
    const unsigned word_down = step * pitch * 4;
    for (int j = lane; j < tile_cols; j += wide) {
        const bool col_inside = present && (unsigned)(j0 + j) < (unsigned)cols;
        const float *from = plane + (int64_t)(i0 + first) * row_stride + (j0 + j) * col_stride;
        unsigned to = (unsigned)__cvta_generic_to_shared(tile + first * pitch + j);
        const int live = col_inside ? span : 0;
#pragma unroll 4
        for (int i = first; i < tile_rows; i += step, to += word_down, from += down)
            cv_copy_word(to, from, i - low >= 0 && i - low < live);
    }
}

/* One plane of outputs: rows [p0, p0 + OY) x [q0, q0 + OX) of the unit-stride result; a stride keeps every so many. */
__device__ __forceinline__ void cv_store_plane(const cv_spectral &g, const float *tile, int pitch, int n, int k, int p0, int q0)
{
    const float bias = g.bias ? g.bias[k] : 0.0f;
    const bool add = g.bias != nullptr;
    float *plane = g.y + n * g.ys[0] + k * g.ys[1];
    const int wide = g.ox <= 16 ? 16 : 32;
    const int lane = threadIdx.x & (wide - 1), first = threadIdx.x / wide, step = blockDim.x / wide;
    for (int j = lane; j < g.ox; j += wide) {
        const int q = (q0 + j) / g.stride_w;
        if (q >= g.q || q * g.stride_w != q0 + j)
            continue;
        for (int i = first; i < g.oy; i += step) {
            const int p = g.stride_h == 1 ? p0 + i : (p0 + i) / g.stride_h;
            if (p >= g.p || p * g.stride_h != p0 + i)
                continue;
            const float value = tile[i * pitch + j];
            plane[p * g.ys[2] + q * g.ys[3]] = add ? value + bias : value;
        }
    }
}

#endif
