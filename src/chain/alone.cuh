/* One output of the chain by itself, straight from memory: for the few whose sum by zeros in the padding may differ.
 *
 * Kernels that put zeros in shared memory where taps lie outside the image run without tests. A product with such a
 * zero changes nothing, with two exceptions: an accumulator of -0 becomes +0, which can only be seen in a final zero,
 * and an Inf or NaN in w makes a NaN, which stays one. So outputs that touch the padding and end as zero or NaN are
 * summed again here. */
#ifndef CV_CHAIN_ALONE_CUH
#define CV_CHAIN_ALONE_CUH

__device__ __forceinline__ bool cv_alone_may_differ(float sum) { return !(fabsf(sum) > 0.0f); }

/* h0, w0: the window's first row and column. */
template <class Args> __device__ __forceinline__ bool cv_alone_touches(const Args &a, int h0, int w0)
{
    return h0 < 0 || w0 < 0 || h0 + (a.R - 1) * a.dil_h >= a.H || w0 + (a.S - 1) * a.dil_w >= a.W;
}

/* x, w: the image's first channel of the group, the output channel's first weight. KB > 0: the weights lie one behind
 * another in the chain's order, KB apart, as relay.cu lays them; else by a's strides. */
template <int KB, class Args>
__device__ __noinline__ float cv_alone_sum(const Args &a, const float *x, const float *w, int h0, int w0)
{
    float acc = 0.0f;
#pragma unroll 1
    for (int c = 0; c < a.Cg; ++c, x += a.xs_c)
#pragma unroll 1
        for (int r = 0; r < a.R; ++r)
#pragma unroll 1
            for (int s = 0; s < a.S; ++s) {
                float weight;
                if constexpr (KB > 0)
                    weight = *w, w += KB;
                else
                    weight = w[c * a.ws_c + r * a.ws_r + s * a.ws_s];
                const int h = h0 + r * a.dil_h, col = w0 + s * a.dil_w;
                if ((unsigned)h < (unsigned)a.H && (unsigned)col < (unsigned)a.W)
                    acc = __fmaf_rn(x[(long long)h * a.xs_h + (long long)col * a.xs_w], weight, acc);
            }
    return acc;
}

#endif
