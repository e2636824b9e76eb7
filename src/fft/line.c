#include "line.h"

#include <math.h>
#include <stdatomic.h>

/* Radices that passes.h has: operations of a butterfly (a multiply-add is two), and cycles of its 16-lane form on a Zen
 * 4 core with loads and stores in L1, measured; a twiddle factor is 6 operations. */
static const struct {
    int radix;
    double flop, cycles;
} butterflies[] = {{2, 4, 12},   {3, 18, 20},   {4, 16, 26},    {5, 48, 40},    {6, 48, 42},   {8, 60, 58},
                   {9, 132, 78}, {10, 116, 80}, {12, 120, 105}, {15, 234, 140}, {16, 182, 190}};
enum { RADICES = sizeof butterflies / sizeof butterflies[0] };

/* A pass costs the same a point whatever the others are, so the best list of radices for n follows from those for its
 * divisors. */
typedef struct choice {
    double cycles[CV_FFT_MAX + 1]; /* a point; 0: not looked at */
    unsigned char radix[CV_FFT_MAX + 1];
} choice;

static double choose(choice *memo, int n)
{
    if (memo->cycles[n] > 0)
        return memo->cycles[n];
    double best = 1e9; /* no list: n has another prime */
    for (int i = 0; i < RADICES; i++) {
        const int r = butterflies[i].radix;
        if (n % r != 0)
            continue;
        const double last = butterflies[i].cycles / r;
        const double cycles = n == r ? last : last + 2.4 * (r - 1) / r + choose(memo, n / r);
        if (cycles < best) {
            best = cycles;
            memo->radix[n] = (unsigned char)r;
        }
    }
    return memo->cycles[n] = best;
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

/* Worked out once a length: ranking tiles asks thousands of times. Threads that meet here find the same number. */
double cv_fft_line_cycles(int n)
{
    static _Atomic double known[CV_FFT_MAX + 1];
    double cycles = atomic_load_explicit(&known[n], memory_order_relaxed);
    if (cycles == 0) {
        choice memo = {{0}, {0}};
        cycles = n * choose(&memo, n);
        atomic_store_explicit(&known[n], cycles, memory_order_relaxed);
    }
    return cycles;
}

double cv_fft_line_flop(const cv_fft_line *line)
{
    double flop = 0;
    for (int i = 0; i < line->passes; i++)
        for (int j = 0; j < RADICES; j++)
            if (butterflies[j].radix == line->radix[i])
                flop += (double)line->n / line->radix[i] *
                        (butterflies[j].flop + (i < line->passes - 1) * 6.0 * (line->radix[i] - 1));
    return flop;
}

size_t cv_fft_line_floats(int n) { return (size_t)n * 2 * CV_FFT_PASSES; }

void cv_fft_line_init(cv_fft_line *line, int n, float *table)
{
    const double turn = 6.283185307179586476925286766559;
    line->n = n;
    line->passes = 0;
    choice memo = {{0}, {0}};
    choose(&memo, n);
    for (int left = n; left > 1; left /= line->radix[line->passes++])
        line->radix[line->passes] = memo.radix[left];
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
