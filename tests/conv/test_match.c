/* The match contract: every output within atol + rtol |exact| of the exact contract's value, whatever the data.
 *
 * Tolerances here are tight against the chain's own error, so that a bound that is too small shows: at rtol = atol =
 * 1e-5 a transform alone misses on each of these cases (the first test makes sure of that). */
#include "harness.h"

static int64_t misses(const test_case *c, const float *exact, double rtol, double atol)
{
    int64_t count = 0;
    for (int64_t i = 0; i < c->outputs; i++) {
        const double gap = fabs((double)*y_flat(c, i) - (double)exact[i]);
        count += !(gap <= atol + rtol * fabs((double)exact[i])) && !same_float(*y_flat(c, i), exact[i]);
    }
    return count;
}

static float *exact_of(convoy_context *context, test_case *c)
{
    const convoy_plan_options exact = {.math = CONVOY_MATH_EXACT, .bias = c->bias != NULL};
    float *values = malloc(sizeof(float) * (size_t)c->outputs);
    assert_non_null(values);
    assert_int_equal(case_run(context, c, &exact, NULL), CONVOY_OK);
    for (int64_t i = 0; i < c->outputs; i++)
        values[i] = *y_flat(c, i);
    return values;
}

/* The transform engine that this device composes from, or NULL where it composes none. */
static const char *transform(convoy_context *context, const test_case *c)
{
    for (int i = 0; convoy_engine(i); i++) {
        const convoy_engine_info *e = convoy_engine(i);
        const convoy_plan_options o = {.math = CONVOY_MATH_MATCH, .rtol = 1e-3, .engine = e->name};
        convoy_plan *plan;
        if (e->transform && !e->vendor && convoy_plan_create(context, &c->p, &o, &plan) == CONVOY_OK) {
            convoy_plan_destroy(plan);
            return e->name;
        }
    }
    return NULL;
}

/* What real data look like, one a kind. */
enum kind { NORMAL, MEAN_ONE, POSITIVE, BRIGHT_PATCH, UNEQUAL_CHANNELS, ZERO_SUM_KERNELS, SPECIAL, KINDS };

static void fill(test_case *c, enum kind kind, uint64_t seed)
{
    const convoy_problem *p = &c->p;
    case_fill_normal(c, seed);
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t ch = 0; ch < p->c; ch++)
            for (int64_t i = 0; i < p->h; i++)
                for (int64_t j = 0; j < p->w; j++) {
                    float *x = x_at(c, n, ch, i, j);
                    if (kind == MEAN_ONE || kind == ZERO_SUM_KERNELS)
                        *x += kind == MEAN_ONE ? 1.0f : 30.0f;
                    if (kind == POSITIVE)
                        *x = fabsf(*x);
                    if (kind == BRIGHT_PATCH && i < 6 && j < 6)
                        *x *= 1e4f;
                }
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t ch = 0; ch < p->c / p->groups; ch++) {
            double sum = 0;
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++) {
                    float *w = w_at(c, k, ch, r, s);
                    if (kind == POSITIVE)
                        *w = fabsf(*w);
                    if (kind == UNEQUAL_CHANNELS)
                        *w *= powf(10.0f, (float)((k + ch) % 5 - 2));
                    sum += (double)*w;
                }
            for (int64_t r = 0; kind == ZERO_SUM_KERNELS && r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++)
                    *w_at(c, k, ch, r, s) -= (float)(sum / (double)(p->r * p->s));
        }
    if (kind == SPECIAL) {
        *x_at(c, 0, 0, p->h / 2, p->w / 2) = NAN;
        *x_at(c, 0, 0, 0, 0) = INFINITY;
    }
}

static const char *const problems[] = {
    "n1c16h60k8r9",          "n1c64h70k4r16",         "n2c4h50w61k6r7_pad3_g2",   "n1c8h96k8r31_padsame_gc",
    "n1c1h120k2r25_padsame", "n1c12h40k6r5_st2_pad2", "n2c4h60w90k4r7_pad4_dil2", "n1c1h150w170k1r31"};

/* Tight, so that a bound that is too small shows; and as users ask, where most outputs are kept by the first look. */
static const double tolerances[] = {1e-5, 1e-3};

static void every_output_is_within_the_tolerance(void **state)
{
    (void)state;
    convoy_context *context = context_make(0, NULL);
    int64_t alone = 0, tried = 0;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            test_case c = case_of(problems[i]);
            const char *engine = transform(context, &c);
            fill(&c, (enum kind)kind, 100 * i + (uint64_t)kind);
            if (i % 2)
                case_add_bias(&c);
            float *exact = exact_of(context, &c);
            /* the transform alone; fresh; prepared; fresh with the other tolerance */
            for (int pass = 0; engine && pass < 4; pass++) {
                const double tolerance = tolerances[pass == 3];
                convoy_plan_options o = {.math = pass ? CONVOY_MATH_MATCH : CONVOY_MATH_FP32,
                                         .bias = c.bias != NULL,
                                         .engine = engine,
                                         .prepared = pass == 2};
                o.rtol = o.atol = pass ? tolerance : 0;
                convoy_plan_info info;
                assert_int_equal(case_run(context, &c, &o, &info), CONVOY_OK);
                const int64_t bad = misses(&c, exact, tolerance, tolerance);
                if (pass == 0) {
                    alone += bad;
                } else {
                    tried++;
                    assert_int_equal(info.math, CONVOY_MATH_MATCH);
                    assert_string_equal(strchr(info.engine, '+'), "+chain");
                    if (bad)
                        fail_msg("%s, data %d, pass %d: %lld of %lld outputs miss", problems[i], kind, pass,
                                 (long long)bad, (long long)c.outputs);
                }
            }
            free(exact);
            case_free(&c);
        }
    assert_true(tried == 0 || alone > 0); /* else the tolerance tests nothing */
    convoy_context_destroy(context);
    if (!tried)
        skip();
}

/* A long chain, divided into runs of channels, where a few outputs in ten thousand would miss. */
static void long_chains_are_followed_along_their_path(void **state)
{
    (void)state;
    convoy_context *context = context_make(0, NULL);
    test_case c = case_of("n1c128h48k16r16");
    const char *engine = transform(context, &c);
    for (uint64_t seed = 1; engine && seed <= 3; seed++) {
        case_fill_normal(&c, seed);
        float *exact = exact_of(context, &c);
        const convoy_plan_options o = {.math = CONVOY_MATH_MATCH, .rtol = 1e-3, .atol = 1e-4, .engine = engine};
        assert_int_equal(case_run(context, &c, &o, NULL), CONVOY_OK);
        assert_int_equal(misses(&c, exact, 1e-3, 1e-4), 0);
        free(exact);
    }
    case_free(&c);
    convoy_context_destroy(context);
    if (!engine)
        skip();
}

/* Powers of x and of sums must neither overflow nor vanish: data far from 1, with a tolerance as far. */
static void the_promise_holds_at_any_scale(void **state)
{
    (void)state;
    static const int powers[] = {-100, -60, -40, 40, 58};
    convoy_context *context = context_make(0, NULL);
    test_case c = case_of("n1c4h70k4r13_pad5");
    const convoy_problem *p = &c.p;
    const char *engine = transform(context, &c);
    for (size_t i = 0; engine && i < sizeof powers / sizeof *powers; i++) {
        case_fill_normal(&c, 40 + i);
        for (int64_t ch = 0; ch < p->c; ch++)
            for (int64_t row = 0; row < p->h; row++)
                for (int64_t col = 0; col < p->w; col++) /* its left half fainter by far */
                    *x_at(&c, 0, ch, row, col) = ldexpf(*x_at(&c, 0, ch, row, col), powers[i] - (col < 35 ? 20 : 0));
        float *exact = exact_of(context, &c);
        for (int far = 0; far < 2; far++) {
            const double atol = ldexp(1e-5, powers[i] - (far ? 20 : 0));
            const convoy_plan_options o = {.math = CONVOY_MATH_MATCH, .rtol = 1e-5, .atol = atol, .engine = engine};
            assert_int_equal(case_run(context, &c, &o, NULL), CONVOY_OK);
            assert_int_equal(misses(&c, exact, 1e-5, atol), 0);
        }
        free(exact);
    }
    case_free(&c);
    convoy_context_destroy(context);
    if (!engine)
        skip();
}

static void a_tight_tolerance_gives_the_exact_bits(void **state)
{
    (void)state;
    convoy_context *context = context_make(0, NULL);
    test_case c = case_of("n1c6h40k6r7_pad3");
    case_fill_normal(&c, 5);
    float *exact = exact_of(context, &c);
    const convoy_plan_options o = {
        .math = CONVOY_MATH_MATCH, .rtol = 1e-12, .atol = 0, .engine = transform(context, &c)};
    if (o.engine) {
        assert_int_equal(case_run(context, &c, &o, NULL), CONVOY_OK);
        for (int64_t i = 0; i < c.outputs; i++)
            assert_true(same_float(*y_flat(&c, i), exact[i]));
    }
    free(exact);
    case_free(&c);
    convoy_context_destroy(context);
    if (!o.engine)
        skip();
}

static void without_a_named_engine_some_plan_keeps_the_promise(void **state)
{
    (void)state;
    convoy_context *context = context_make(0, NULL);
    test_case c = case_of("n1c16h64k8r11");
    case_fill_normal(&c, 9);
    float *exact = exact_of(context, &c);
    const convoy_plan_options o = {.math = CONVOY_MATH_MATCH, .rtol = 1e-4, .atol = 1e-5};
    convoy_plan_info info;
    assert_int_equal(case_run(context, &c, &o, &info), CONVOY_OK);
    assert_int_equal(misses(&c, exact, 1e-4, 1e-5), 0);
    free(exact);
    case_free(&c);
    convoy_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_output_is_within_the_tolerance),
        cmocka_unit_test(long_chains_are_followed_along_their_path),
        cmocka_unit_test(the_promise_holds_at_any_scale),
        cmocka_unit_test(a_tight_tolerance_gives_the_exact_bits),
        cmocka_unit_test(without_a_named_engine_some_plan_keeps_the_promise),
    };
    return RUN_TESTS(tests);
}
