/* Choosing samples and their FP64 values. */
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CORNERS = 16, SAMPLES = 4096 + CORNERS };
static const double all_up_to_flop = 2e9, all_up_to_outputs = 1 << 26, projection_terms = 2e8;

static void samples_free(struct cli_samples *s)
{
    free(s->index);
    free(s->value);
    free(s->norm);
    *s = (struct cli_samples){0};
}

static int samples_alloc(struct cli_samples *s, int64_t count)
{
    *s = (struct cli_samples){count, cli_alloc(8.0 * (double)count, "samples"),
                              cli_alloc(8.0 * (double)count, "samples"), cli_alloc(8.0 * (double)count, "samples")};
    if (s->index && s->value && s->norm)
        return CLI_OK;
    samples_free(s);
    return CLI_BAD;
}

/* A place along an axis: at random, or next to a multiple of a block size, where vectors, register tiles and blocks
 * end. */
static int64_t place(uint64_t random, int64_t size, bool seam)
{
    const int64_t block = (int64_t)8 << (random & 3);
    random >>= 2;
    if (!seam || size <= block)
        return (int64_t)(random % (uint64_t)size);
    const int64_t at = ((int64_t)((random >> 1) % (uint64_t)(size / block)) + 1) * block - (int64_t)(random & 1);
    return at < size ? at : size - 1;
}

static int64_t sample(const struct cli_case *c, uint64_t seed, int64_t i)
{
    const convoy_problem *p = &c->problem;
    if (i < CORNERS) {
        const struct cli_place at = {i & 8 ? p->n - 1 : 0, i & 4 ? p->k - 1 : 0, i & 2 ? c->P - 1 : 0,
                                     i & 1 ? c->Q - 1 : 0};
        return case_index(c, at);
    }
    const uint64_t r = (uint64_t)i * 4;
    const struct cli_place at = {place(cli_random(seed, r), p->n, false), place(cli_random(seed, r + 1), p->k, false),
                                 place(cli_random(seed, r + 2), c->P, i % 4 == 0),
                                 place(cli_random(seed, r + 3), c->Q, i % 4 == 1)};
    return case_index(c, at);
}

static int64_t sign(uint64_t seed, int64_t k) { return cli_random(seed + 1, (uint64_t)k) & 1 ? 1 : -1; }

/* Kernels (3, C, R, S): the sum over k of sign(k) * w in two floats, high and low, and the sum of |w|. With these as
 * the weights of one dense problem, FP64 gives the projection of y without computing y. */
static float *project_kernels(const struct cli_case *c, uint64_t seed)
{
    const convoy_problem *p = &c->problem;
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups, area = p->r * p->s, size = p->c * area;
    float *w = cli_alloc(12.0 * (double)size, "the projection");
    for (int64_t i = 0; w && i < size; i++) {
        const int64_t channel = i / area, group = channel / cg;
        double sum = 0, magnitude = 0;
        for (int64_t k = group * kg; k < (group + 1) * kg; k++) {
            const double v = (double)c->w_host[(k * cg + channel % cg) * area + i % area];
            sum += (double)sign(seed, k) * v;
            magnitude += v < 0 ? -v : v;
        }
        w[i] = (float)sum;
        w[size + i] = (float)(sum - (double)w[i]);
        w[2 * size + i] = (float)magnitude;
    }
    return w;
}

static convoy_status project(const struct cli_case *c, const float *w_host, struct cli_samples *points,
                             const int64_t *index, double *value, double *norm)
{
    const int64_t size = 3 * c->problem.c * c->problem.r * c->problem.s, count = points->count;
    convoy_problem p = c->problem;
    void *w = NULL;
    p.k = 3;
    p.groups = 1;
    convoy_status status = convoy_memory_alloc(c->context, (size_t)size * sizeof(float), &w);
    if (status == CONVOY_OK)
        status = convoy_memory_copy(c->context, w, w_host, (size_t)size * sizeof(float), CONVOY_TO_DEVICE);
    if (status == CONVOY_OK)
        status = convoy_reference(c->context, &p, c->x, w, NULL, 3 * count, index, value, norm);
    if (w)
        convoy_memory_free(c->context, w);
    for (int64_t i = 0; i < count && status == CONVOY_OK; i++) {
        points->value[i] = value[3 * i] + value[3 * i + 1];
        points->norm[i] = norm[3 * i + 2];
    }
    return status;
}

static int make_points(const struct cli_case *c, uint64_t seed, struct cli_samples *points)
{
    const convoy_problem *p = &c->problem;
    const int64_t places = p->n * c->P * c->Q;
    const double terms = (double)p->c * (double)p->r * (double)p->s;
    int64_t count = (int64_t)(projection_terms / terms);
    count = count < 64 ? 64 : count > 4096 ? 4096 : count;
    if (count > places)
        count = places;
    if (samples_alloc(points, count) != CLI_OK)
        return CLI_BAD;
    float *w = project_kernels(c, seed);
    int64_t *index = cli_alloc(24.0 * (double)count, "samples");
    double *value = cli_alloc(24.0 * (double)count, "samples"), *norm = cli_alloc(24.0 * (double)count, "samples");
    int code = w && index && value && norm ? CLI_OK : CLI_BAD;
    for (int64_t i = 0; i < count && code == CLI_OK; i++) {
        const int64_t at = (int64_t)(cli_random(seed + 2, (uint64_t)i) % (uint64_t)places), image = c->P * c->Q;
        points->index[i] = at;
        for (int64_t k = 0; k < 3; k++)
            index[3 * i + k] = (at / image * 3 + k) * image + at % image;
    }
    if (code == CLI_OK) {
        const convoy_status status = project(c, w, points, index, value, norm);
        code = status == CONVOY_OK ? CLI_OK : cli_failed(c->text, status);
    }
    for (int64_t k = 0; c->bias_host && k < p->k && code == CLI_OK; k++)
        for (int64_t i = 0; i < count; i++) {
            points->value[i] += (double)sign(seed, k) * (double)c->bias_host[k];
            points->norm[i] += c->bias_host[k] < 0 ? -(double)c->bias_host[k] : (double)c->bias_host[k];
        }
    free(w);
    free(index);
    free(value);
    free(norm);
    return code;
}

int truth_make(const struct cli_case *c, uint64_t seed, bool always_sample, bool project_too, struct cli_truth *truth)
{
    const bool small = convoy_problem_flop(&c->problem) <= all_up_to_flop && (double)c->ys <= all_up_to_outputs;
    *truth = (struct cli_truth){.all = c->ys <= SAMPLES || (small && !always_sample), .seed = seed};
    struct cli_samples *s = &truth->samples;
    if (samples_alloc(s, truth->all ? c->ys : SAMPLES) != CLI_OK)
        return CLI_BAD;
    for (int64_t i = 0; i < s->count; i++)
        s->index[i] = truth->all ? i : sample(c, seed, i);
    const convoy_status status =
        convoy_reference(c->context, &c->problem, c->x, c->w, c->bias, s->count, s->index, s->value, s->norm);
    int code = status == CONVOY_OK ? CLI_OK : cli_failed(c->text, status);
    if (code == CLI_OK && project_too && !truth->all && c->problem.k > 1)
        code = make_points(c, seed, &truth->points);
    if (code != CLI_OK)
        truth_free(truth);
    return code;
}

void truth_free(struct cli_truth *truth)
{
    samples_free(&truth->samples);
    samples_free(&truth->points);
}

void truth_text(const struct cli_case *c, const struct cli_truth *truth, char *text, size_t bytes)
{
    if (truth->all)
        snprintf(text, bytes, "all %lld outputs against FP64", (long long)c->ys);
    else if (truth->points.count)
        snprintf(
            text, bytes,
            "%lld of %s outputs (corners and seams among them) and a projection over k at %lld places against FP64",
            (long long)truth->samples.count, cli_count((double)c->ys).s, (long long)truth->points.count);
    else
        snprintf(text, bytes, "%lld of %s outputs (corners and seams among them) against FP64",
                 (long long)truth->samples.count, cli_count((double)c->ys).s);
}
