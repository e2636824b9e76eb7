/* What a transform cannot do as it is: magnitudes near the ends of the range, non-finite values, kernels of enormous
 * range. */
#include "fft.h"

#include <math.h>

int32_t cv_fft_exponent(const cv_fft_state *st, float max)
{
    if (!(max <= 3.402823466e38f)) /* NaN too */
        return CV_FFT_DIRECT;
    if (max == 0 || (max <= st->high && max >= st->low))
        return 0;
    int e;
    frexpf(max, &e);
    return e < -126 ? -126 : e > 126 ? 126 : e; /* 2^-e must be a float */
}

int32_t cv_fft_kernel_exponent(const cv_fft_state *st, float max, float min)
{
    const float range = 1099511627776.0f; /* 2^40 */
    const int32_t e = cv_fft_exponent(st, max);
    if (e != CV_FFT_DIRECT && max > 0 && (double)max > (double)min * range)
        return CV_FFT_DIRECT;
    return e;
}

/* value * 2^(x + w) / (4 tx ty), as two factors, since the power of two alone may be out of range. */
void cv_fft_sink_scale(const cv_fft_state *st, int32_t x_exponent, int32_t w_exponent, cv_fft_sink *sink)
{
    const double norm = 0.25 / ((double)st->s.tile.tx * st->s.tile.ty);
    int e = 0;
    if (x_exponent != CV_FFT_DIRECT && w_exponent != CV_FFT_DIRECT)
        e = x_exponent + w_exponent;
    const int first = e < -60 ? -60 : e > 120 ? 120 : e;
    sink->scale = (float)ldexp(norm, first);
    sink->power = ldexpf(1.0f, e - first);
}
