/* The cut of a binary32 into two TF32 parts, big + small: 3xTF32 multiplies big by big, big by small and small by big.
 */
#ifndef CV_CUDA_FFT_TF32_CUH
#define CV_CUDA_FFT_TF32_CUH

struct cv_cut {
    unsigned big, small;
};
__device__ __forceinline__ cv_cut cv_split_tf32(float a)
{
    cv_cut r;
    r.big = (__float_as_uint(a) + 0x1000u) & 0xffffe000u;
    r.small = __float_as_uint(a - __uint_as_float(r.big)); /* the tensor core drops its last bits */
    return r;
}

#endif
