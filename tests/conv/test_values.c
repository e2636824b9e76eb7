/* Small inputs whose right answers are known, on every engine that accepts them: precision, range, special values. */
#include "harness.h"

static void fill_x(test_case *c, float value)
{
    for (int64_t i = 0; i < c->floats[0]; i++)
        c->x[i] = value;
}

static void fill_w(test_case *c, float value)
{
    for (int64_t i = 0; i < c->floats[1]; i++)
        c->w[i] = value;
}

/* Runs a filled case on every engine under both contracts; at least one must accept each. */
static void everywhere(test_case *c, engine_check check, void *user)
{
    convoy_context *context = context_make(2, NULL);
    assert_true(each_engine(context, c, CONVOY_MATH_FP32, check, user) > 0);
    each_engine(context, c, CONVOY_MATH_EXACT, check, user);
    convoy_context_destroy(context);
}

static void equals_x(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    const double rtol = info->error_bound_kind == 1 ? *(const double *)user : 0;
    for (int64_t o = 0; o < c->outputs; o++)
        if (!(fabs((double)*y_flat(c, o) - (double)c->x[0]) <= rtol * (double)c->x[0]))
            fail_msg("%s: output %lld is %.9g, expected %.9g", engine->name, (long long)o, (double)*y_flat(c, o),
                     (double)c->x[0]);
}

/* A product by 1: TF32 would round 1 + 2^-12 to 1. */
static void tf32_canary_identity(void **state)
{
    static const char *const problem[] = {"n1c1h8k1r1",  "n1c16h8k16r1",  "n1c64h8k64r1",  "n1c256h8k256r1",
                                          "n1c1h64k1r1", "n1c16h64k16r1", "n1c64h64k64r1", "n1c256h64k256r1"};
    (void)state;
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        test_case c = case_of(problem[i]);
        double none = 1e-6;
        fill_x(&c, 1.0f + 0x1p-12f);
        fill_w(&c, 0.0f);
        for (int64_t k = 0; k < c.p.k; k++)
            *w_at(&c, k, k, 0, 0) = 1.0f;
        everywhere(&c, equals_x, &none);
        case_free(&c);
    }
}

static void near_difference(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    (void)user;
    /* a transform owes its norm-wise bound only; TF32 would miss by 2^-12 */
    const double slack = info->error_bound_kind ? 0x1p-20 : 0.0;
    for (int64_t o = 0; o < c->outputs; o++) {
        const double y = (double)*y_flat(c, o);
        if (y != 0x1p-12 + 0x1p-24 && !(fabs(y - 0x1p-12) <= slack))
            fail_msg("%s: output %lld is %.9g, expected 2^-12 (+ 2^-24)", engine->name, (long long)o, y);
    }
}

static void tf32_canary_difference(void **state)
{
    (void)state;
    test_case c = case_of("n1c2h8k1r1");
    fill_x(&c, 1.0f + 0x1p-12f);
    *w_at(&c, 0, 0, 0, 0) = 1.0f + 0x1p-12f;
    *w_at(&c, 0, 1, 0, 0) = -1.0f;
    everywhere(&c, near_difference, NULL);
    case_free(&c);
}

/* Integers of 12 bits whose every partial sum is exact in FP32: direct sums must be right to the bit, in any order. */
static void exact_integers(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    if (info->error_bound_kind == 1) {
        check_contract(c, engine, info, user);
        return;
    }
    const double *values = user;
    for (int64_t o = 0; o < c->outputs; o++)
        if ((double)*y_flat(c, o) != values[o])
            fail_msg("%s: output %lld is %.9g, expected %.9g", engine->name, (long long)o, (double)*y_flat(c, o),
                     values[o]);
}

static void integers(void **state)
{
    static const char *const problem[] = {"n2c8h20w23k8r5_pad2", "n1c16h24k4r8", "n1c3h31w17k5r4s7_st2x1_pad1",
                                          "n1c8h16k8r7_pad3_gc", "n1c12h15k6r3_dil2_g3"};
    (void)state;
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        test_case c = case_of(problem[i]);
        if (i % 2)
            case_add_bias(&c);
        case_fill_integers(&c, i + 1);
        double *values = malloc(sizeof *values * (size_t)c.outputs);
        truth_of(&c, values, NULL);
        everywhere(&c, exact_integers, values);
        free(values);
        case_free(&c);
    }
}

/* Every product is >= 0, so no output may be negative; w spans 16 decades, which a transform engine must notice.
 * Engines that are named have the caller's agreement, so the automatic choice is what is held to it. */
static void signs(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h16k1r5_pad2");
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            *x_at(&c, 0, 0, i, j) = (5 * i + 3 * j) % 7 == 0 ? 0.01f : 0.0f;
    fill_w(&c, 1e-8f);
    *w_at(&c, 0, 0, 2, 2) = 1e8f;
    convoy_context *context = context_make(2, NULL);
    for (convoy_math math = CONVOY_MATH_FP32; math <= CONVOY_MATH_EXACT; math++) {
        convoy_plan_options o = {.math = math};
        convoy_status status = case_run(context, &c, &o, NULL);
        if (math == CONVOY_MATH_EXACT && status == CONVOY_UNSUPPORTED)
            continue;
        assert_int_equal(status, CONVOY_OK);
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 16; j++) {
                int live = 0;
                for (int r = -2; r <= 2; r++)
                    for (int s = -2; s <= 2; s++)
                        live +=
                            i + r >= 0 && i + r < 16 && j + s >= 0 && j + s < 16 && *x_at(&c, 0, 0, i + r, j + s) > 0;
                const double y = (double)*y_at(&c, 0, 0, i, j);
                assert_true(y >= 0);
                if (*x_at(&c, 0, 0, i, j) == 0.0f && fabs(y - 1e-10 * live) > 1e-15 * live)
                    fail_msg("output %d, %d is %.9g, expected %.9g", i, j, y, 1e-10 * live);
            }
    }
    convoy_context_destroy(context);
    case_free(&c);
}

/* x near the largest float through a delta: sums of spectra would overflow unless scaled. */
static void overflow_inside(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h16k1r7_pad3");
    double rtol = 1e-5;
    fill_x(&c, 1e38f);
    fill_w(&c, 0.0f);
    *w_at(&c, 0, 0, 3, 3) = 1.0f;
    everywhere(&c, equals_x, &rtol);
    case_free(&c);
}

/* A transform engine answers for what lies in the output's own tile; tiles begin at multiples of T - R + 1. */
static void bright_and_faint(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    (void)user;
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            const int bright = i <= 4 && j <= 4, faint = abs(i - 40) <= 4 && abs(j - 40) <= 4;
            const double y = (double)*y_at(c, 0, 0, i, j), right = bright ? 1e10 : faint ? 1 : 0;
            double owed = 0;
            if (info->error_bound_kind == 1) {
                const int row = i - i % (info->tile_h - 8) - 4, col = j - j % (info->tile_w - 8) - 4;
                owed = info->error_bound_factor * 0x1p-24 * 9 * (row <= 0 && col <= 0 ? 1e10 : 1);
            }
            if (!(fabs(y - right) <= owed))
                fail_msg("%s: output %d, %d is %.9g, expected %.9g", engine->name, i, j, y, right);
        }
}

static void range(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h64k1r9_pad4");
    fill_x(&c, 0.0f);
    fill_w(&c, 1.0f);
    *x_at(&c, 0, 0, 0, 0) = 1e10f;
    *x_at(&c, 0, 0, 40, 40) = 1.0f;
    everywhere(&c, bright_and_faint, NULL);
    case_free(&c);
}

static void only_its_windows(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    const float bad = *(const float *)user;
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < 64; j++) {
            const int hit = abs(i - 32) <= 3 && abs(j - 32) <= 3;
            const int rows = 1 + (i < 3 ? i : 3) + (63 - i < 3 ? 63 - i : 3),
                      cols = 1 + (j < 3 ? j : 3) + (63 - j < 3 ? 63 - j : 3);
            const float y = *y_at(c, 0, 0, i, j);
            const double slack = info->error_bound_kind == 1 ? 1e-3 : 0;
            if (hit ? !(isnan(bad) ? isnan(y) : y == bad) : !(fabs((double)y - rows * cols) <= slack))
                fail_msg("%s: %g in x[32,32]: output %d, %d is %.9g, expected %g", engine->name, (double)bad, i, j,
                         (double)y, hit ? (double)bad : (double)(rows * cols));
        }
}

static void one_bad_value(void **state)
{
    static float bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (int i = 0; i < 3; i++) {
        test_case c = case_of("n1c1h64k1r7_pad3");
        fill_x(&c, 1.0f);
        fill_w(&c, 1.0f);
        *x_at(&c, 0, 0, 32, 32) = bad[i];
        everywhere(&c, only_its_windows, &bad[i]);
        case_free(&c);
    }
}

static void nan_in_other_places(void **state)
{
    (void)state;
    convoy_context *context = context_make(2, NULL);
    for (int place = 0; place < 3; place++) { /* w, bias, and one channel of x among many */
        test_case c = case_of("n2c6h19w21k8r5_pad2_g2");
        case_add_bias(&c);
        case_fill_normal(&c, 17);
        if (place == 0)
            *w_at(&c, 3, 1, 2, 2) = INFINITY;
        else if (place == 1)
            c.bias[5] = NAN;
        else
            *x_at(&c, 1, 4, 9, 20) = NAN;
        assert_true(each_engine(context, &c, CONVOY_MATH_FP32, check_contract, NULL) > 0);
        case_free(&c);
    }
    convoy_context_destroy(context);
}

static void laplacian(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h64k1r3");
    for (int64_t f = 0; f < 64 * 64; f++)
        c.x[f] = 0x1p20f + (float)((7 * f * f + f / 64) % 5);
    fill_w(&c, 0.0f);
    *w_at(&c, 0, 0, 1, 1) = -4.0f;
    *w_at(&c, 0, 0, 0, 1) = *w_at(&c, 0, 0, 1, 0) = *w_at(&c, 0, 0, 1, 2) = *w_at(&c, 0, 0, 2, 1) = 1.0f;
    double *values = malloc(sizeof *values * (size_t)c.outputs);
    truth_of(&c, values, NULL);
    everywhere(&c, exact_integers, values);
    assert_true(values[0] == 8);
    free(values);
    case_free(&c);
}

static void near_big_sum(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    (void)user;
    /* Who sums one product after another, as the exact contract does and a vendor may, is that far off. */
    const double slack = info->error_bound_kind == 0 && (engine->keeps_exact || engine->vendor) ? 365 : 40;
    for (int64_t o = 0; o < c->outputs; o++)
        if (!(fabs((double)*y_flat(c, o) - 40640625.0) <= slack))
            fail_msg("%s: output %lld is %.9g, expected 40640625 within %g", engine->name, (long long)o,
                     (double)*y_flat(c, o), slack);
}

static void big_equal_sum(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h40k1r25");
    fill_x(&c, 255.0f);
    fill_w(&c, 255.0f);
    everywhere(&c, near_big_sum, NULL);
    case_free(&c);
}

static void keeps_subnormals(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    (void)user;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            const int taps = (i % 7 ? 3 : 2) * (j % 7 ? 3 : 2);
            const double y = (double)*y_at(c, 0, 0, i, j), right = taps * (double)1e-40f;
            if (!(fabs(y - right) <= (info->error_bound_kind == 1 ? 1e-43 : 0)))
                fail_msg("%s: output %d, %d is %.9g, expected %.9g", engine->name, i, j, y, right);
        }
}

static void subnormals(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h8k1r3_pad1");
    fill_x(&c, 1.0f);
    fill_w(&c, 1e-40f);
    everywhere(&c, keeps_subnormals, NULL);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest values[] = {
        cmocka_unit_test(tf32_canary_identity),
        cmocka_unit_test(tf32_canary_difference),
        cmocka_unit_test(integers),
        cmocka_unit_test(signs),
        cmocka_unit_test(overflow_inside),
        cmocka_unit_test(range),
        cmocka_unit_test(one_bad_value),
        cmocka_unit_test(nan_in_other_places),
        cmocka_unit_test(laplacian),
        cmocka_unit_test(big_equal_sum),
        cmocka_unit_test(subnormals),
    };
    return RUN_TESTS(values);
}
