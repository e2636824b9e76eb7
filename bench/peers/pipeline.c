/* Peer: overlap-save FFT convolution as one puts it together from FFTW and OpenBLAS.
 *
 *   X[b][c][t] = FFT of tile t of channel c            Y[b] = conj(W[b]) X[b], one cgemm a bin b
 *   W[b][k][c] = FFT of w[k][c] / T^2                  y = inverse FFT of Y, cropped to the T-R+1 by T-S+1 outputs
 * without wrap
 *
 * Eight transforms at a time, whose spectra FFTW interleaves, so that bin-major stores are whole cache lines. Depthwise
 * and one-channel problems have no sum over channels: each tile goes forward, is multiplied and goes back at once.
 * Several tile sides are tried; the best one with fresh and the best one with prepared weights are reported. */
#include "peer.h"

#include <complex.h> /* before fftw3.h, which then uses C's complex type */

#include <cblas.h>
#include <fftw3.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUP = 8 }; /* transforms at a time: a cache line of complex values */

struct pipeline {
    struct peer *e;
    long T, out_h, out_w, across, per_image, tiles, columns, bins;
    bool plain;               /* no sum over channels */
    float complex *W, *X, *Y; /* see above; plain: W[channel][b] only */
    float *real;              /* a thread's GROUP tiles */
    float complex *freq;      /* their spectra: [b][GROUP], plain: [b] */
    size_t real_room, freq_room;
    fftwf_plan forward, inverse;
};

static bool shape(struct pipeline *f, struct peer *e, long T)
{
    const struct peer_problem *p = &e->p;
    *f = (struct pipeline){.e = e, .T = T, .out_h = T - p->r + 1, .out_w = T - p->s + 1, .bins = T * (T / 2 + 1)};
    if (f->out_h < 1 || f->out_w < 1)
        return false;
    f->across = (p->Q + f->out_w - 1) / f->out_w;
    f->per_image = f->across * ((p->P + f->out_h - 1) / f->out_h);
    f->tiles = p->n * f->per_image;
    f->columns = (f->tiles + GROUP - 1) / GROUP * GROUP;
    f->plain = p->groups == p->c && p->k == p->c;
    const double spectra =
        f->plain ? (double)p->k : (double)p->k * (double)p->c + (double)f->columns * (double)(p->c + p->k);
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return 8.0 * (double)f->bins * spectra < memory / 3;
}

static void set_up(struct pipeline *f)
{
    const struct peer_problem *p = &f->e->p;
    const int side[2] = {(int)f->T, (int)f->T}, area = (int)(f->T * f->T), many = f->plain ? 1 : GROUP;
    f->real_room = (size_t)many * (size_t)area + 64;
    f->freq_room = (size_t)many * (size_t)f->bins + 64;
    f->W = peer_alloc(sizeof *f->W * (size_t)f->bins * (size_t)p->k * (size_t)(f->plain ? 1 : p->c));
    f->X = peer_alloc(f->plain ? 1 : sizeof *f->X * (size_t)f->bins * (size_t)(p->c * f->columns));
    f->Y = peer_alloc(f->plain ? 1 : sizeof *f->Y * (size_t)f->bins * (size_t)(p->k * f->columns));
    f->real = peer_alloc(sizeof *f->real * f->real_room * (size_t)f->e->threads);
    f->freq = peer_alloc(sizeof *f->freq * f->freq_room * (size_t)f->e->threads);
    fftwf_set_timelimit(2); /* a plan; sides that are measured again find their plans in wisdom */
    f->forward = fftwf_plan_many_dft_r2c(2, side, many, f->real, NULL, 1, area, f->freq, NULL, many, 1, FFTW_PATIENT);
    f->inverse = fftwf_plan_many_dft_c2r(2, side, many, f->freq, NULL, many, 1, f->real, NULL, 1, area, FFTW_PATIENT);
}

static void tear_down(struct pipeline *f)
{
    fftwf_destroy_plan(f->forward);
    fftwf_destroy_plan(f->inverse);
    free(f->W);
    free(f->X);
    free(f->Y);
    free(f->real);
    free(f->freq);
}

static void load(const struct pipeline *f, const float *x, long tile, long c, float *to)
{
    const struct peer_problem *p = &f->e->p;
    const long T = f->T, place = tile % f->per_image;
    const long top = place / f->across * f->out_h - p->pad_t, left = place % f->across * f->out_w - p->pad_l;
    const long from = left < 0 ? -left : 0, to_column = p->w - left < T ? p->w - left : T;
    const float *image = x + (tile / f->per_image * p->c + c) * p->h * p->w;
    for (long i = 0; i < T; i++, to += T) {
        const bool inside = tile < f->tiles && top + i >= 0 && top + i < p->h && from < to_column;
        if (!inside || from > 0 || to_column < T)
            memset(to, 0, sizeof *to * (size_t)T);
        if (inside)
            memcpy(to + from, image + (top + i) * p->w + left + from, sizeof *to * (size_t)(to_column - from));
    }
}

static void store(const struct pipeline *f, const float *from, long tile, long k, float *y)
{
    const struct peer_problem *p = &f->e->p;
    const long place = tile % f->per_image, top = place / f->across * f->out_h, left = place % f->across * f->out_w;
    const long rows = p->P - top < f->out_h ? p->P - top : f->out_h,
               columns = p->Q - left < f->out_w ? p->Q - left : f->out_w;
    float *image = y + (tile / f->per_image * p->k + k) * p->P * p->Q;
    for (long i = 0; i < rows; i++)
        memcpy(image + (top + i) * p->Q + left, from + i * f->T, sizeof *y * (size_t)columns);
}

static void pad_kernel(const struct pipeline *f, const float *w, float *to)
{
    const struct peer_problem *p = &f->e->p;
    const float scale = 1.0f / (float)(f->T * f->T);
    for (long r = 0; r < p->r; r++)
        for (long s = 0; s < p->s; s++)
            to[r * f->T + s] = w[r * p->s + s] * scale;
}

static void transform_w(void *self, int set)
{
    const struct pipeline *f = self;
    const struct peer_problem *p = &f->e->p;
    const long kernels = p->k * (f->plain ? 1 : p->c), many = f->plain ? 1 : GROUP;
#pragma omp parallel for schedule(dynamic, 1)
    for (long first = 0; first < kernels; first += many) {
        float *real = f->real + f->real_room * (size_t)omp_get_thread_num();
        float complex *freq = f->freq + f->freq_room * (size_t)omp_get_thread_num();
        const long count = kernels - first < many ? kernels - first : many;
        memset(real, 0, sizeof *real * (size_t)(many * f->T * f->T));
        for (long i = 0; i < count; i++)
            pad_kernel(f, f->e->w[set] + (first + i) * p->r * p->s, real + i * f->T * f->T);
        fftwf_execute_dft_r2c(f->forward, real, freq);
        for (long b = 0; b < f->bins; b++)
            for (long i = 0; i < count; i++)
                f->W[f->plain ? first * f->bins + b : b * kernels + first + i] = conjf(freq[b * many + i]);
    }
}

static void forward_x(const struct pipeline *f, const float *x)
{
    const long C = f->e->p.c;
#pragma omp parallel for collapse(2) schedule(dynamic, 2)
    for (long c = 0; c < C; c++)
        for (long t = 0; t < f->columns; t += GROUP) {
            float *real = f->real + f->real_room * (size_t)omp_get_thread_num();
            float complex *freq = f->freq + f->freq_room * (size_t)omp_get_thread_num();
            for (long i = 0; i < GROUP; i++)
                load(f, x, t + i, c, real + i * f->T * f->T);
            fftwf_execute_dft_r2c(f->forward, real, freq);
            for (long b = 0; b < f->bins; b++)
                memcpy(f->X + (b * C + c) * f->columns + t, freq + b * GROUP, sizeof *freq * GROUP);
        }
}

static void multiply(const struct pipeline *f)
{
    const long C = f->e->p.c, K = f->e->p.k;
    const float one[2] = {1, 0}, zero[2] = {0, 0};
#pragma omp parallel for schedule(dynamic, 1)
    for (long b = 0; b < f->bins; b++)
        cblas_cgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)K, (int)f->columns, (int)C, one, f->W + b * K * C,
                    (int)C, f->X + b * C * f->columns, (int)f->columns, zero, f->Y + b * K * f->columns,
                    (int)f->columns);
}

static void inverse_y(const struct pipeline *f, float *y)
{
    const long K = f->e->p.k;
#pragma omp parallel for collapse(2) schedule(dynamic, 2)
    for (long k = 0; k < K; k++)
        for (long t = 0; t < f->columns; t += GROUP) {
            float *real = f->real + f->real_room * (size_t)omp_get_thread_num();
            float complex *freq = f->freq + f->freq_room * (size_t)omp_get_thread_num();
            for (long b = 0; b < f->bins; b++)
                memcpy(freq + b * GROUP, f->Y + (b * K + k) * f->columns + t, sizeof *freq * GROUP);
            fftwf_execute_dft_c2r(f->inverse, freq, real);
            for (long i = 0; i < GROUP && t + i < f->tiles; i++)
                store(f, real + i * f->T * f->T, t + i, k, y);
        }
}

/* Written out on the parts: C's complex product looks for infinities. The clones let the compiler use the machine's
 * vectors. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
static void
multiply_bins(float *restrict a, const float *restrict w, long bins)
{
    for (long b = 0; b < bins; b++) {
        const float u = a[2 * b], v = a[2 * b + 1];
        a[2 * b] = u * w[2 * b] - v * w[2 * b + 1];
        a[2 * b + 1] = u * w[2 * b + 1] + v * w[2 * b];
    }
}

static void run_plain(const struct pipeline *f, int set)
{
    const long C = f->e->p.c;
#pragma omp parallel for collapse(2) schedule(dynamic, 4)
    for (long c = 0; c < C; c++)
        for (long t = 0; t < f->tiles; t++) {
            float *real = f->real + f->real_room * (size_t)omp_get_thread_num();
            float complex *freq = f->freq + f->freq_room * (size_t)omp_get_thread_num();
            load(f, f->e->x[set], t, c, real);
            fftwf_execute_dft_r2c(f->forward, real, freq);
            multiply_bins((float *)freq, (const float *)(f->W + c * f->bins), f->bins);
            fftwf_execute_dft_c2r(f->inverse, freq, real);
            store(f, real, t, c, f->e->y[set]);
        }
}

static void run_prepared(void *self, int set)
{
    const struct pipeline *f = self;
    if (f->plain) {
        run_plain(f, set);
        return;
    }
    forward_x(f, f->e->x[set]);
    multiply(f);
    inverse_y(f, f->e->y[set]);
}

static void run_fresh(void *self, int set)
{
    transform_w(self, set);
    run_prepared(self, set);
}

/* The next multiple of 4 without a prime factor above 5. */
static long fast_side(double least)
{
    for (long T = ((long)ceil(least) + 3) / 4 * 4;; T += 4) {
        long rest = T;
        for (long factor = 2; factor <= 5; factor++)
            while (rest % factor == 0)
                rest /= factor;
        if (rest == 1)
            return T;
    }
}

/* OpenBLAS chooses its kernels while it is loaded, and takes a CPU newer than itself for its oldest, at a quarter of
 * the speed. Then the program starts again with the right ones named. */
static void name_kernels(char **argv)
{
#if defined(__x86_64__)
    const char *core = __builtin_cpu_supports("avx512f") ? "SkylakeX"
                       : __builtin_cpu_supports("avx2")  ? "Haswell"
                                                         : NULL;
    if (core && !getenv("OPENBLAS_CORETYPE") && strcmp(openblas_get_corename(), "Prescott") == 0 &&
        setenv("OPENBLAS_CORETYPE", core, 1) == 0)
        execv("/proc/self/exe", argv);
#endif
    (void)argv;
}

struct best {
    long T;
    double ms;
};

static bool report(struct peer *e, struct best best, bool prepared)
{
    struct pipeline f;
    char name[32];
    peer_run run = prepared ? run_prepared : run_fresh;
    if (!best.T || !shape(&f, e, best.T))
        return true;
    set_up(&f);
    transform_w(&f, 0);
    const struct peer_timing t = peer_time(e, e->seconds, run, &f);
    transform_w(&f, 0);
    snprintf(name, sizeof name, "t%ld", best.T);
    const bool good = peer_report(e, "fftw_openblas", name, prepared, t, run, &f);
    tear_down(&f);
    return good;
}

int main(int argc, char **argv)
{
    static struct peer e;
    static const double multiple[] = {2, 3, 4, 4.5, 5};
    name_kernels(argv);
    openblas_set_num_threads(1); /* threads share out the bins */
    peer_open(&e, argc, argv);
    const struct peer_problem *p = &e.p;
    const bool depthwise = p->groups == p->c && p->k == p->c;
    if (p->stride_h != 1 || p->stride_w != 1 || p->dil_h != 1 || p->dil_w != 1 || (p->groups > 1 && !depthwise))
        return 0;
    const double kernel = (double)(p->r > p->s ? p->r : p->s);
    const long height = p->h + p->pad_t + p->pad_b, width = p->w + p->pad_l + p->pad_r,
               whole = fast_side((double)(height > width ? height : width));
    struct best fresh = {0, INFINITY}, prepared = {0, INFINITY};
    long last = 0;
    for (size_t i = 0; i < sizeof multiple / sizeof *multiple; i++) {
        struct pipeline f;
        const long side = fast_side(multiple[i] * kernel < 8 ? 8 : multiple[i] * kernel),
                   T = side < whole ? side : whole;
        if (T == last || !shape(&f, &e, T))
            continue;
        last = T;
        set_up(&f);
        const double w_too = peer_time(&e, e.seconds / 4, run_fresh, &f).p10_ms,
                     x_only = peer_time(&e, e.seconds / 4, run_prepared, &f).p10_ms;
        tear_down(&f);
        fresh = w_too < fresh.ms ? (struct best){T, w_too} : fresh;
        prepared = x_only < prepared.ms ? (struct best){T, x_only} : prepared;
    }
    const bool good = report(&e, fresh, false);
    return report(&e, prepared, true) && good ? 0 : 1;
}
