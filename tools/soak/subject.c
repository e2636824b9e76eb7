#include "subject.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t soak_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t soak_in(uint64_t *state, int64_t least, int64_t most)
{
    return least + (int64_t)(soak_bits(state) % (uint64_t)(most - least + 1));
}

/* Small ones often. */
static int64_t skewed(uint64_t *r, int64_t most)
{
    const double u = (double)(soak_bits(r) >> 11) * 0x1p-53;
    return 1 + (int64_t)(u * u * (double)most * 0.999999);
}

void soak_fatal(const char *what)
{
    fprintf(stderr, "soak: %s: %s\n", what, convoy_last_message());
    exit(2);
}

void soak_must(convoy_status status, const char *what)
{
    if (status != CONVOY_OK)
        soak_fatal(what);
}

static void draw_problem(subject *c, uint64_t *r, double most)
{
    do {
        const int kind = (int)soak_in(r, 0, 9);
        const int64_t g = kind < 7 ? 1 : kind == 7 ? skewed(r, 8) : skewed(r, 200);
        const int64_t cg = kind > 7 ? 1 : skewed(r, 96), kg = kind > 7 ? skewed(r, 2) : skewed(r, 96),
                      side = kind ? 160 : 600;
        c->p = convoy_problem_make(skewed(r, 6), g * cg, skewed(r, side), skewed(r, side), g * kg,
                                   skewed(r, kind ? 40 : 300), skewed(r, kind ? 40 : 300));
        c->p.groups = g;
        for (int64_t *pad = &c->p.pad_t; pad <= &c->p.pad_r && soak_in(r, 0, 1); pad++)
            *pad = soak_in(r, 0, 20);
        for (int64_t *step = &c->p.stride_h; step <= &c->p.dil_w; step++)
            *step = soak_in(r, 0, 5) ? 1 : skewed(r, 5);
    } while (convoy_problem_output(&c->p, &c->P, &c->Q) != CONVOY_OK || convoy_problem_flop(&c->p) > most);
    c->count[0] = c->p.n * c->p.c * c->p.h * c->p.w;
    c->count[1] = c->p.k * (c->p.c / c->p.groups) * c->p.r * c->p.s;
    c->count[2] = c->p.n * c->p.k * c->P * c->Q;
    c->bias = (int)soak_in(r, 0, 1);
    convoy_problem_print(&c->p, c->text, sizeof c->text);
}

/* Uniform values at a scale; sometimes a few NaN, infinities, zeros and powers of two far off among them. */
static float *draw(uint64_t *r, int64_t count, int odd)
{
    static const float values[] = {0, -0.0f, 1e12f, 1e-20f, 1e-41f, NAN, INFINITY, -INFINITY};
    const float scale = soak_in(r, 0, 4) ? 1.0f : ldexpf(1.0f, (int)soak_in(r, -40, 20));
    float *t = malloc(sizeof *t * (size_t)(count + 1));
    if (!t)
        soak_fatal("memory");
    for (int64_t i = 0; i < count; i++) {
        const uint64_t v = soak_bits(r);
        t[i] = odd && v % 4093 == 0 ? values[v >> 20 & 7] : (float)(int32_t)(v >> 32) * 0x1p-31f * scale;
    }
    return t;
}

static double square(float a) { return isfinite(a) ? (double)a * (double)a : 0; }

/* sum over c of ||x channel|| ||w channel||, no smaller than what a tile's bound is made of. */
static double channels(const subject *c, int64_t n, int64_t k)
{
    const int64_t cg = c->p.c / c->p.groups, area = c->p.h * c->p.w, taps = c->p.r * c->p.s;
    double total = c->b ? fabs((double)c->b[k]) : 0;
    for (int64_t i = 0; i < cg; i++) {
        const float *x = c->x + (n * c->p.c + k / (c->p.k / c->p.groups) * cg + i) * area,
                    *w = c->w + (k * cg + i) * taps;
        double x2 = 0, w2 = 0;
        for (int64_t j = 0; j < area; j++)
            x2 += square(x[j]);
        for (int64_t j = 0; j < taps; j++)
            w2 += square(w[j]);
        total += sqrt(x2) * sqrt(w2);
    }
    return total;
}

/* The truth of the samples: FP64, bounds, and the exact chain as the CPU's scalar code has it. */
static void know(subject *c, uint64_t *r, convoy_context *truth)
{
    c->samples = (int)(c->count[2] < SAMPLES ? c->count[2] : SAMPLES);
    for (int i = 0; i < c->samples; i++)
        c->index[i] = c->count[2] <= SAMPLES ? i : soak_in(r, 0, c->count[2] - 1);
    soak_must(convoy_reference(truth, &c->p, c->x, c->w, c->b, c->samples, c->index, c->value, c->bound[0]),
              "reference");
    for (int i = 0; i < c->samples; i++) {
        const int64_t k = c->index[i] / (c->P * c->Q) % c->p.k, n = c->index[i] / (c->P * c->Q) / c->p.k;
        const int again = i && c->index[i - 1] / (c->P * c->Q) == c->index[i] / (c->P * c->Q);
        c->bound[1][i] = again ? c->bound[1][i - 1] : channels(c, n, k);
    }
    convoy_plan *plan;
    const convoy_plan_options o = {.math = CONVOY_MATH_EXACT, .engine = "direct", .bias = c->bias};
    soak_must(convoy_plan_create(truth, &c->p, &o, &plan), "the exact chain");
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    const convoy_args args = {.struct_bytes = sizeof args,
                              .x = c->x,
                              .w = c->w,
                              .bias = c->b,
                              .y = c->y,
                              .workspace = workspace,
                              .workspace_bytes = bytes};
    soak_must(convoy_execute(plan, &args), "the exact chain");
    for (int i = 0; i < c->samples; i++)
        c->chain[i] = c->y[c->index[i]];
    free(workspace);
    convoy_plan_destroy(plan);
}

void subject_make(subject *c, uint64_t *r, double most_flop, convoy_context *truth)
{
    memset(c, 0, sizeof *c);
    draw_problem(c, r, most_flop / (double)((int64_t)1 << soak_in(r, 0, 6)));
    c->odd = soak_in(r, 0, 7) == 0;
    c->x = draw(r, c->count[0], c->odd);
    c->w = draw(r, c->count[1], 0);
    c->b = c->bias ? draw(r, c->p.k, 0) : NULL;
    c->y = malloc(sizeof(float) * ((size_t)c->count[2] + 2 * CANARY));
    if (!c->y)
        soak_fatal("memory");
    know(c, r, truth);
}

void subject_free(subject *c)
{
    free(c->x);
    free(c->w);
    free(c->b);
    free(c->y);
}
