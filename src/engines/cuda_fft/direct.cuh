/*
 * The direct sum for tiles that a transform cannot hold: non-finite values, or magnitudes beyond the range of the
 * spectra.
 *
 *     y[n,k,p,q] = acc + bias[k],  acc = fmaf(x, w, acc) from +0 over c, r, s ascending; taps outside the image are
 * skipped
 *
 * One thread an output; x and w come from the caches. It is slow and rare, and it is the `exact` chain.
 */
#ifndef CV_CUDA_FFT_DIRECT_CUH
#define CV_CUDA_FFT_DIRECT_CUH

#include "spectral.h"

/* Magnitudes of a tile's channel that the transforms hold: zero, or the largest within these, 2^-50 and 2^40. Beyond
 * them a product of two spectra, summed over points and channels before it is scaled, could overflow or lose digits to
 * subnormals. */
constexpr unsigned CV_RANGE_LOW = (127u - 50u) << 23, CV_RANGE_HIGH = (127u + 40u) << 23;
/* Ratio of largest to smallest non-zero magnitude of a kernel from which on the norm-wise error bound says nothing:
 * 2^48. */
constexpr unsigned CV_RANGE_RATIO = 48u << 23;

__device__ __forceinline__ bool cv_out_of_range(unsigned largest)
{
    return largest != 0 && (largest < CV_RANGE_LOW || largest > CV_RANGE_HIGH);
}

/* Whether this thread saw a flag of tile ITEM of this launch or of output channels from FIRST on. Called by a whole
 * block, whose threads share the flags out: __syncthreads_or brings them together. */
__device__ __forceinline__ int cv_flags_of(const cv_spectral &g, int item, int first, int channels)
{
    const int xblocks = cv_spectral_xblocks(&g), wblocks = cv_spectral_wblocks(&g);
    int flagged = 0;
    for (int i = threadIdx.x; i < xblocks; i += blockDim.x)
        flagged |= g.xflag[(int64_t)item * xblocks + i];
    for (int i = threadIdx.x; i < channels * wblocks; i += blockDim.x)
        flagged |= g.wflag[(int64_t)(g.wk0 + first) * wblocks + i];
    return flagged;
}

/* Outputs of image n, kernel k, with unit-stride coordinates [p0, p0 + OY) x [q0, q0 + OX). Called by a whole block. */
static __device__ __noinline__ void cv_direct_tile(const cv_spectral &g, int n, int k, int p0, int q0)
{
    const int c0 = k / g.kg * g.cg;
    const float *x = g.x + n * g.xs[0] + c0 * g.xs[1], *w = g.weight + k * g.ws[0];
    for (int i = threadIdx.x; i < g.oy * g.ox; i += blockDim.x) {
        const int pu = p0 + i / g.ox, qu = q0 + i % g.ox;
        if (pu % g.stride_h || qu % g.stride_w || pu / g.stride_h >= g.p || qu / g.stride_w >= g.q)
            continue;
        float acc = 0.0f;
        for (int c = 0; c < g.cg; c++)
            for (int r = 0; r < g.r; r++)
                for (int s = 0; s < g.s; s++) {
                    const int ih = pu - g.pad_t + r, iw = qu - g.pad_l + s;
                    if (ih >= 0 && ih < g.h && iw >= 0 && iw < g.w)
                        acc = __fmaf_rn(x[c * g.xs[1] + ih * g.xs[2] + iw * g.xs[3]],
                                        w[c * g.ws[1] + r * g.ws[2] + s * g.ws[3]], acc);
                }
        if (g.bias)
            acc += g.bias[k];
        g.y[n * g.ys[0] + k * g.ys[1] + pu / g.stride_h * g.ys[2] + qu / g.stride_w * g.ys[3]] = acc;
    }
}

#endif
