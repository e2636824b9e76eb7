/* Comparing a run's outputs with the truth. NaN fails: every test is written so that only a good number passes it. */
#include "truth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEAMS = 512 };
static const double chain_terms = 3e7;

/* Keeps the error that comes closest to its bound, or exceeds it most; a NaN is worse than all. */
static void judge(struct cli_verdict *v, const char *what, double error, double bound, int64_t where)
{
    const bool good = error <= bound;
    const double ratio = error == 0 ? 0 : error / bound, worst = v->worst == 0 ? 0 : v->worst / v->bound;
    if (!v->what || (v->ok && !good) || (v->ok == good && !(ratio <= worst))) {
        if (v->what && isnan(worst))
            return;
        v->worst = error;
        v->bound = bound;
        v->where = where;
        v->what = what;
    }
    v->ok = v->ok && good;
}

struct sums {
    double error2, truth2, most;
};

static void compare_samples(const struct cli_case *c, const struct cli_bound *b, const struct cli_samples *s,
                            struct sums *sums, struct cli_verdict *v)
{
    for (int64_t i = 0; i < s->count; i++) {
        const double error = fabs((double)c->y_host[s->index[i]] - s->value[i]);
        judge(v, "output", error, bound_at(b, c, s->index[i], s->norm[i]) + 0x1p-149, s->index[i]);
        sums->error2 += error * error;
        sums->truth2 += s->value[i] * s->value[i];
        if (!isnan(sums->most) && !(error <= sums->most)) /* a NaN stays */
            sums->most = error;
    }
    v->checked += s->count;
}

/* Errors of different k have nothing to do with one another, so with random signs their sum's spread is the root of the
 * sum of squares; six of these are never exceeded by chance, and a wrong channel exceeds them by far. */
static void compare_points(const struct cli_case *c, const struct cli_bound *b, const struct cli_truth *truth,
                           struct cli_verdict *v)
{
    const struct cli_samples *s = &truth->points;
    const int64_t image = c->P * c->Q, K = c->problem.k;
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t n = s->index[i] / image, first = n * K * image + s->index[i] % image;
        double sum = 0, squares = 0;
        for (int64_t k = 0; k < K; k++) {
            const double sign = cli_random(truth->seed + 1, (uint64_t)k) & 1 ? 1 : -1;
            const double bound = bound_at(b, c, first + k * image, s->norm[i] / (double)K);
            sum += sign * (double)c->y_host[first + k * image];
            squares += bound * bound;
        }
        judge(v, "projection over k", fabs(sum - s->value[i]), 6 * sqrt(squares) + 0x1p-149, first);
    }
}

static int64_t seam_place(uint64_t random, int64_t size, int64_t step, int64_t stride)
{
    const int64_t seams = ((size - 1) * stride) / step;
    if (seams == 0 || (random & 1))
        return (int64_t)((random >> 1) % (uint64_t)size);
    const int64_t at = ((int64_t)((random >> 2) % (uint64_t)seams) + 1) * step / stride - (int64_t)((random >> 1) & 1);
    return at < size ? at : size - 1;
}

/* Outputs on both sides of the plan's own tile edges. */
static int compare_seams(const struct cli_case *c, const struct cli_bound *b, uint64_t seed, struct sums *sums,
                         struct cli_verdict *v)
{
    static int64_t index[SEAMS];
    static double value[SEAMS], norm[SEAMS];
    const convoy_problem *p = &c->problem;
    for (int i = 0; i < SEAMS; i++) {
        const uint64_t r = 4 * (uint64_t)i;
        const struct cli_place at = {(int64_t)(cli_random(seed + 3, r) % (uint64_t)p->n),
                                     (int64_t)(cli_random(seed + 3, r + 1) % (uint64_t)p->k),
                                     seam_place(cli_random(seed + 3, r + 2), c->P, b->step_h, p->stride_h),
                                     seam_place(cli_random(seed + 3, r + 3), c->Q, b->step_w, p->stride_w)};
        index[i] = case_index(c, at);
    }
    const convoy_status status = convoy_reference(c->context, p, c->x, c->w, c->bias, SEAMS, index, value, norm);
    if (status != CONVOY_OK)
        return cli_failed(c->text, status);
    const struct cli_samples samples = {SEAMS, index, value, norm};
    compare_samples(c, b, &samples, sums, v);
    return CLI_OK;
}

/* Worst-case bounds leave room for products of fewer bits. The errors of FP32 sums of normal draws do not need it:
 * their rms stays below this, while TF32's, 3e-4 of y's rms, does not. */
static void judge_rms(const struct cli_case *c, struct cli_verdict *v)
{
    const double terms = (double)(c->problem.c / c->problem.groups) * (double)c->problem.r * (double)c->problem.s;
    const double limit = 0x1p-24 * (16 + 4 * sqrt(terms));
    if (v->checked < 64 || v->rel_rms_err <= limit || !v->ok)
        return;
    v->ok = false;
    v->what = "rms error over y's rms, worst at";
    v->worst = v->rel_rms_err;
    v->bound = limit;
}

int truth_compare(const struct cli_case *c, const struct cli_truth *truth, const convoy_plan_info *info,
                  const convoy_plan_options *options, bool seams, struct cli_verdict *v)
{
    struct cli_bound b;
    struct sums sums = {0, 0, 0};
    *v = (struct cli_verdict){.ok = true};
    if (bound_make(c, info, options, &b) != CLI_OK)
        return CLI_BAD;
    compare_samples(c, &b, &truth->samples, &sums, v);
    compare_points(c, &b, truth, v);
    const int code = seams && !truth->all && b.norms ? compare_seams(c, &b, truth->seed, &sums, v) : CLI_OK;
    v->max_abs_err = sums.most;
    v->rel_rms_err = sums.error2 == 0 ? 0 : sqrt(sums.error2 / sums.truth2);
    bound_free(&b);
    judge_rms(c, v);
    return code;
}

/* The exact contract, as it is written: one fused multiply-add a tap, over c, r, s ascending, from +0; taps outside are
 * skipped. */
static float chain(const struct cli_case *c, int64_t index)
{
    const convoy_problem *p = &c->problem;
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups;
    const struct cli_place at = case_place(c, index);
    float sum = 0;
    for (int64_t i = 0; i < cg; i++)
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++) {
                const int64_t row = at.p * p->stride_h + r * p->dil_h - p->pad_t,
                              column = at.q * p->stride_w + s * p->dil_w - p->pad_l;
                if (row >= 0 && row < p->h && column >= 0 && column < p->w)
                    sum = fmaf(c->x_host[((at.n * p->c + at.k / kg * cg + i) * p->h + row) * p->w + column],
                               c->w_host[((at.k * cg + i) * p->r + r) * p->s + s], sum);
            }
    return c->bias_host ? sum + c->bias_host[at.k] : sum;
}

/* Samples spread over the list, as many as a second or less allows. */
static int64_t chain_count(const struct cli_case *c, const struct cli_truth *truth)
{
    const double terms = (double)(c->problem.c / c->problem.groups) * (double)c->problem.r * (double)c->problem.s;
    const double count = fmax(64, chain_terms / terms);
    return count < (double)truth->samples.count ? (int64_t)count : truth->samples.count;
}

void truth_bits(const struct cli_case *c, const struct cli_truth *truth, const float *exact, struct cli_verdict *v)
{
    v->bits = BITS_EQUAL;
    v->chained = chain_count(c, truth);
    int64_t wrong = -1;
    float expected = 0;
    for (int64_t i = 0; i < v->chained && wrong < 0; i++) {
        const int64_t at = truth->samples.index[i * truth->samples.count / v->chained];
        expected = chain(c, at);
        if (memcmp(&expected, &c->y_host[at], sizeof expected) != 0)
            wrong = at;
    }
    for (int64_t i = 0; exact && i < c->ys && wrong < 0; i++)
        if (memcmp(&exact[i], &c->y_host[i], sizeof *exact) != 0)
            wrong = i, expected = exact[i];
    if (wrong < 0)
        return;
    v->bits = BITS_DIFFER;
    if (v->ok) {
        v->worst = fabs((double)c->y_host[wrong] - (double)expected);
        v->bound = 0;
        v->where = wrong;
        v->what = "bits";
    }
    v->ok = false;
}

void truth_match(const struct cli_case *c, const struct cli_truth *truth, const float *exact, double rtol, double atol,
                 struct cli_verdict *v)
{
    const int64_t count = exact ? c->ys : chain_count(c, truth);
    v->chained = count;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = exact ? i : truth->samples.index[i * truth->samples.count / count];
        const double expected = exact ? (double)exact[i] : (double)chain(c, at);
        judge(v, "match", fabs((double)c->y_host[at] - expected), atol + rtol * fabs(expected), at);
    }
}
