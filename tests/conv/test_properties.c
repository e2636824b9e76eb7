/* Properties that need no oracle, at sizes where one would be slow: linearity, shift, impulse, and projection over K.
 */
#include "harness.h"

/* Errors of transform engines are norm-wise, so each property is held to a multiple of u times sum |x||w|'s scale. */
static double slack_of(const test_case *c, const convoy_plan_info *info)
{
    const double terms = (double)(c->p.c / c->p.groups * c->p.r * c->p.s);
    return (info->error_bound_kind == 1 ? 100 : 2 * sqrt(terms) + 20) * 0x1p-24 * sqrt(terms) * 8;
}

static const char *const problem[] = {"n1c16h96k16r15_pad7", "n2c32h70k24r9", "n1c24h80k24r21_padsame_gc",
                                      "n1c1h300k1r51"};
enum { PROBLEMS = sizeof problem / sizeof *problem };

typedef void (*property)(convoy_context *context, test_case *c, const char *engine);

static void each(property what)
{
    const convoy_engine_info *e;
    convoy_context *context = context_make(2, NULL);
    for (int i = 0; i < PROBLEMS; i++)
        for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
            convoy_plan *plan;
            convoy_problem p;
            assert_int_equal(convoy_problem_parse(problem[i], &p), CONVOY_OK);
            if (strcmp(e->name, "ref") == 0 ||
                convoy_plan_create(context, &p, &(convoy_plan_options){.engine = e->name}, &plan) != CONVOY_OK)
                continue;
            convoy_plan_destroy(plan);
            test_case c = case_make(&p);
            case_fill_normal(&c, (uint64_t)i + 90);
            what(context, &c, e->name);
            case_free(&c);
        }
    convoy_context_destroy(context);
}

static void run(convoy_context *context, test_case *c, const char *engine, convoy_plan_info *info)
{
    if (case_run(context, c, &(convoy_plan_options){.engine = engine}, info) != CONVOY_OK)
        fail_msg("%s: %s", engine, convoy_last_message());
}

/* conv(2a - 3b) = 2 conv(a) - 3 conv(b) */
static void is_linear(convoy_context *context, test_case *a, const char *engine)
{
    convoy_plan_info info;
    test_case b = case_make(&a->p), both = case_make(&a->p);
    case_fill_normal(&b, 1234);
    memcpy(b.w, a->w, sizeof(float) * (size_t)a->floats[1]);
    memcpy(both.w, a->w, sizeof(float) * (size_t)a->floats[1]);
    for (int64_t i = 0; i < a->floats[0]; i++)
        both.x[i] = 2.0f * a->x[i] - 3.0f * b.x[i];
    run(context, a, engine, &info);
    run(context, &b, engine, &info);
    run(context, &both, engine, &info);
    for (int64_t o = 0; o < a->outputs; o++) {
        const double right = 2.0 * (double)a->y[o] - 3.0 * (double)b.y[o];
        if (!(fabs((double)both.y[o] - right) <= 6 * slack_of(a, &info)))
            fail_msg("%s: linearity misses by %.3g at output %lld", engine, (double)both.y[o] - right, (long long)o);
    }
    case_free(&b);
    case_free(&both);
}

static void linearity(void **state)
{
    (void)state;
    each(is_linear);
}

/* x moved by (3, 5): y moves along, where no border is near. */
static void moves_along(convoy_context *context, test_case *c, const char *engine)
{
    convoy_plan_info info;
    test_case moved = case_make(&c->p);
    const convoy_problem *p = &c->p;
    memcpy(moved.w, c->w, sizeof(float) * (size_t)c->floats[1]);
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t channel = 0; channel < p->c; channel++)
            for (int64_t i = 0; i < p->h; i++)
                for (int64_t j = 0; j < p->w; j++)
                    *x_at(&moved, n, channel, i, j) = *x_at(c, n, channel, (i + 3) % p->h, (j + 5) % p->w);
    run(context, c, engine, &info);
    run(context, &moved, engine, &info);
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t k = 0; k < p->k; k++)
            for (int64_t i = p->pad_t; i + 3 + p->pad_b < c->P; i++)
                for (int64_t j = p->pad_l; j + 5 + p->pad_r < c->Q; j++) {
                    const double here = (double)*y_at(&moved, n, k, i, j), there = (double)*y_at(c, n, k, i + 3, j + 5);
                    if (!(fabs(here - there) <= 2 * slack_of(c, &info)))
                        fail_msg("%s: a shift changes output %lld, %lld by %.3g", engine, (long long)i, (long long)j,
                                 here - there);
                }
    case_free(&moved);
}

static void shift(void **state)
{
    (void)state;
    each(moves_along);
}

/* A single 1 in x: y is w turned round, once. */
static void shows_w(convoy_context *context, test_case *c, const char *engine)
{
    convoy_plan_info info;
    const convoy_problem *p = &c->p;
    const int64_t channel = p->c / 2, at = p->h / 2, to = p->w / 2, cg = p->c / p->groups;
    memset(c->x, 0, sizeof(float) * (size_t)c->floats[0]);
    *x_at(c, 0, channel, at, to) = 1.0f;
    run(context, c, engine, &info);
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t i = 0; i < c->P; i++)
            for (int64_t j = 0; j < c->Q; j++) {
                const int64_t r = at + p->pad_t - i, s = to + p->pad_l - j;
                const int hit = r >= 0 && r < p->r && s >= 0 && s < p->s && k / (p->k / p->groups) == channel / cg;
                const double right = hit ? (double)*w_at(c, k, channel % cg, r, s) : 0;
                if (!(fabs((double)*y_at(c, 0, k, i, j) - right) <=
                      (info.error_bound_kind == 1 ? slack_of(c, &info) : 0)))
                    fail_msg("%s: output %lld, %lld, %lld is %.9g, expected %.9g", engine, (long long)k, (long long)i,
                             (long long)j, (double)*y_at(c, 0, k, i, j), right);
            }
}

static void impulse(void **state)
{
    (void)state;
    each(shows_w);
}

/* sum over k of v[k] y[k] equals the convolution of x with sum over k of v[k] w[k], in FP64: all K at the cost of one.
 */
static void projects(convoy_context *context, test_case *c, const char *engine)
{
    convoy_plan_info info;
    const convoy_problem *p = &c->p;
    if (p->groups != 1)
        return;
    run(context, c, engine, &info);
    convoy_problem single = *p;
    single.k = 1;
    test_case one = case_make(&single);
    memcpy(one.x, c->x, sizeof(float) * (size_t)c->floats[0]);
    for (int64_t channel = 0; channel < p->c;
         channel++) /* signs are exact, so the sum below errs by its roundings only */
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++) {
                double sum = 0;
                for (int64_t k = 0; k < p->k; k++)
                    sum += (k * 7 % 3 ? 1 : -1) * (double)*w_at(c, k, channel, r, s);
                *w_at(&one, 0, channel, r, s) = (float)sum;
            }
    double *values = malloc(sizeof *values * (size_t)one.outputs);
    truth_of(&one, values, NULL);
    for (int64_t o = 0; o < one.outputs; o++) {
        double sum = 0;
        const int64_t n = o / c->P / c->Q;
        for (int64_t k = 0; k < p->k; k++)
            sum += (k * 7 % 3 ? 1 : -1) * (double)*y_at(c, n, k, o / c->Q % c->P, o % c->Q);
        if (!(fabs(sum - values[o]) <= (double)p->k * slack_of(c, &info)))
            fail_msg("%s: the projection of output %lld misses by %.3g", engine, (long long)o, sum - values[o]);
    }
    free(values);
    case_free(&one);
}

static void projection(void **state)
{
    (void)state;
    each(projects);
}

int main(void)
{
    const struct CMUnitTest properties[] = {cmocka_unit_test(linearity), cmocka_unit_test(shift),
                                            cmocka_unit_test(impulse), cmocka_unit_test(projection)};
    return RUN_TESTS(properties);
}
