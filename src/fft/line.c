#include "line.h"

#include <math.h>

/* Radices that passes.h has, with the vector operations of a butterfly (additions run beside multiply-adds on some
 * cores, so this is a guide) and, for every pass, a charge for moving r complex values through L1. */
static const struct {
    int radix;
    double ops;
} butterflies[] = {{2, 4},  {3, 14},  {4, 16},   {5, 36},   {6, 40},  {8, 56},
                   {9, 90}, {10, 92}, {12, 104}, {15, 230}, {16, 300}};
enum { RADICES = sizeof butterflies / sizeof butterflies[0] };

static double pass_ops(int at, int n, int last)
{
    const int r = butterflies[at].radix;
    return (double)n / r * (butterflies[at].ops + (last ? 0 : 4.0 * (r - 1)) + 5.0 * r);
}

/* The cheapest list of radices whose product is n; 0 passes when there is none. */
static double choose(int n, int total, int depth, int *radix, int *passes)
{
    double best = -1;
    for (int i = 0; i < RADICES && depth < CV_FFT_PASSES; i++) {
        const int r = butterflies[i].radix;
        if (n % r != 0)
            continue;
        int rest[CV_FFT_PASSES], rest_passes = 0;
        double ops = pass_ops(i, total, n == r);
        if (n > r) {
            double more = choose(n / r, total, depth + 1, rest, &rest_passes);
            if (more < 0)
                continue;
            ops += more;
        }
        if (best >= 0 && ops >= best)
            continue;
        best = ops;
        radix[0] = r;
        for (int j = 0; j < rest_passes; j++)
            radix[j + 1] = rest[j];
        *passes = rest_passes + 1;
    }
    return best;
}

int cv_fft_line_has(int n)
{
    if (n < 2 || n > CV_FFT_MAX)
        return 0;
    while (n % 2 == 0)
        n /= 2;
    while (n % 3 == 0)
        n /= 3;
    while (n % 5 == 0)
        n /= 5;
    return n == 1;
}

double cv_fft_line_ops(int n)
{
    int radix[CV_FFT_PASSES], passes;
    return choose(n, n, 0, radix, &passes);
}

size_t cv_fft_line_floats(int n) { return (size_t)n * 2 * CV_FFT_PASSES; }

void cv_fft_line_init(cv_fft_line *line, int n, float *table)
{
    const double turn = 6.283185307179586476925286766559;
    line->n = n;
    choose(n, n, 0, line->radix, &line->passes);
    for (int i = 0, left = n; i < line->passes; i++) {
        const int r = line->radix[i], m = left / r;
        line->twiddle[i] = table;
        for (int p = 0; p < m; p++)
            for (int k = 1; k < r; k++) {
                const double angle = -turn * (double)(p * k) / left; /* p*k < left: the angle is within one turn */
                *table++ = (float)cos(angle);
                *table++ = (float)sin(angle);
            }
        left = m;
    }
}
