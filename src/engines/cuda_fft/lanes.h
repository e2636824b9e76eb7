/*
 * Which tiles have transforms whose lines are shared by lanes (lanes.cuh), and the sizes of their blocks: for the
 * kernels, their launchers and the planner.
 */
#ifndef CV_CUDA_FFT_LANES_H
#define CV_CUDA_FFT_LANES_H

#include "spectral.h"

#ifndef CV_LANE_TILES
#define CV_LANE_TILES(X) X(48, 48) X(48, 56) X(48, 64) X(56, 56) X(56, 64) X(64, 56) X(64, 64)
#endif

/* Lanes that share a line; threads of a block, and how many blocks registers let a multiprocessor hold; the first half
 * of a line's places for its exchange between lanes. */
#define CV_LANES 8
#define CV_LANE_THREADS(TY, TX) (4 * ((TY) > (TX) ? (TY) : (TX)))
#define CV_LANE_FIT(TY, TX) (65536 / (80 * CV_LANE_THREADS(TY, TX)))
#define CV_LANE_HALF(T) (((T) / CV_LANES + 1) / 2 * CV_LANES)

/* Bytes of shared memory that a block may ask for: a third of a multiprocessor's. */
enum { CV_LANE_SHARED = 76288 };

/* Rows of a kernel that are transformed: of more than half of a tile all, those beyond its R as zeros. */
CV_ANYWHERE static inline int cv_lane_rows_of(int ty, int r)
{
    return 2 * r <= ty ? (r + CV_LANES - 1) / CV_LANES * CV_LANES : ty;
}

/* Rows of shared memory for `rows` of a tile: enough for the columns' exchange. */
CV_ANYWHERE static inline int cv_lane_rows_kept(int ty, int rows)
{
    return rows > CV_LANE_HALF(ty) ? rows : CV_LANE_HALF(ty);
}

/* Complex words between rows: 8 more than a multiple of 16; and between pairs of channels, for so many rows: the tensor
 * copy engine asks for multiples of 128 bytes. */
#define CV_LANE_PITCH(TX) ((TX) % 16 ? (TX) + 16 : (TX) + 8)
CV_ANYWHERE static inline int cv_lane_pitch(int rows, int tx) { return (rows * CV_LANE_PITCH(tx) + 15) / 16 * 16; }

/* Bytes of a block with so many channels. */
CV_ANYWHERE static inline int cv_lane_bytes(int rows, int tx, int channels)
{
    return cv_lane_pitch(rows, tx) * channels * 4;
}

/* Whether there are such kernels for this tile. */
static inline int cv_lane_tile(int ty, int tx)
{
#define CV_LANE_IS(TY, TX) || (ty == (TY) && tx == (TX))
    return 0 CV_LANE_TILES(CV_LANE_IS);
#undef CV_LANE_IS
}

/* Channels, of so many, for a block with so many rows in shared memory: 8, fewer if they do not fit or do not exist. */
static inline int cv_lane_channels(int tx, int rows, int channels)
{
    int cb = 8;
    while (cb > 2 && (cv_lane_bytes(rows, tx, cb) > CV_LANE_SHARED || cb / 2 >= channels))
        cb /= 2;
    return cb;
}

#ifdef __cplusplus
extern "C" {
#endif
int cv_forward_lanes(const cv_spectral *g, int what, void *stream);
int cv_inverse_lanes(const cv_spectral *g, void *stream);
#ifdef __cplusplus
}
#endif
#endif
