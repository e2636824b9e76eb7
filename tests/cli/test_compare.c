/* What verify rests on: a right output passes, and one wrong value, NaN, bit or channel is found at its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "truth.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What main.c does in the command. */
int cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_BAD;
}

int cli_warning(const char *format, ...)
{
    (void)format;
    return CLI_OK;
}

int cli_failed(const char *where, convoy_status status)
{
    return cli_error("%s: %d: %s", where, (int)status, convoy_last_message());
}

struct fixture {
    convoy_context *context;
    convoy_plan *plan;
    convoy_plan_info info;
    struct cli_options options;
    struct cli_case c;
    struct cli_truth truth;
};

static void open_fixture(struct fixture *f, const char *problem, bool sample, int bias)
{
    memset(f, 0, sizeof *f);
    f->options.seed = 3;
    f->options.wisdom = "off";
    f->options.plan.engine = "ref";
    f->options.plan.bias = bias;
    f->options.device = CONVOY_CPU;
    convoy_problem p;
    assert_int_equal(convoy_problem_parse(problem, &p), CONVOY_OK);
    assert_int_equal(cli_context(&f->options, &f->context), CLI_OK);
    assert_int_equal(convoy_plan_create(f->context, &p, &f->options.plan, &f->plan), CONVOY_OK);
    assert_int_equal(convoy_plan_describe(f->plan, &f->info), CONVOY_OK);
    assert_int_equal(case_open(f->context, &p, problem, &f->options, &f->c), CLI_OK);
    assert_int_equal(truth_make(&f->c, 3, sample, true, &f->truth), CLI_OK);
    assert_int_equal(case_execute(&f->c, f->plan, NULL, NULL), CONVOY_OK);
}

static void close_fixture(struct fixture *f)
{
    truth_free(&f->truth);
    case_close(&f->c);
    convoy_plan_destroy(f->plan);
    convoy_context_destroy(f->context);
}

static struct cli_verdict compare(struct fixture *f)
{
    struct cli_verdict v;
    assert_int_equal(truth_compare(&f->c, &f->truth, &f->info, &f->options.plan, true, &v), CLI_OK);
    return v;
}

static void finds_one_wrong_output(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "n2c3h17w15k4r3_st2x1_pad1,0,2,1_dil1x2", false, 1);
    assert_true(f.truth.all);
    struct cli_verdict v = compare(&f);
    assert_true(v.ok);
    assert_int_equal(v.checked, f.c.ys);
    for (int64_t i = 0; i < f.c.ys; i += 7) {
        const float right = f.c.y_host[i];
        f.c.y_host[i] = right + 1e-4f;
        v = compare(&f);
        assert_false(v.ok);
        assert_int_equal(v.where, i);
        f.c.y_host[i] = NAN;
        v = compare(&f);
        assert_false(v.ok);
        assert_int_equal(v.where, i);
        assert_true(isnan(v.worst) && isnan(v.max_abs_err) && isnan(v.rel_rms_err));
        f.c.y_host[i] = INFINITY;
        assert_false(compare(&f).ok);
        f.c.y_host[i] = right;
    }
    assert_true(compare(&f).ok);
    close_fixture(&f);
}

/* Samples alone would miss a channel that is wrong in few places; the projection over k sees all channels where it
 * looks. */
static void projection_sees_every_channel(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "n1c4h64k12r3_g2", true, 1);
    assert_false(f.truth.all);
    assert_true(f.truth.points.count > 1000);
    struct cli_verdict v = compare(&f);
    assert_true(v.ok);
    const int64_t image = f.c.P * f.c.Q;
    for (int64_t k = 0; k < 12; k++) {
        const int64_t at = k * image + f.truth.points.index[k];
        const float right = f.c.y_host[at];
        f.c.y_host[at] = right + 1;
        v = compare(&f);
        assert_false(v.ok);
        assert_int_equal(v.where % image, f.truth.points.index[k]);
        f.c.y_host[at] = right;
    }
    close_fixture(&f);
}

/* Products of TF32's 11 bits keep within a long sum's worst-case bound; their rms gives them away. */
static void tf32_is_found(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "n1c64h20k8r9", false, 0);
    struct cli_verdict v = compare(&f);
    assert_true(v.ok);
    f.info.error_bound_factor = 64 * 81 + 1; /* as a serial sum promises */
    for (int64_t i = 0; i < f.c.xs; i++) {
        uint32_t bits;
        memcpy(&bits, &f.c.x_host[i], sizeof bits);
        bits = (bits + 0x1000) & ~(uint32_t)0x1fff;
        memcpy(&f.c.x_host[i], &bits, sizeof bits);
    }
    assert_int_equal(case_execute(&f.c, f.plan, NULL, NULL), CONVOY_OK);
    v = compare(&f);
    assert_false(v.ok);
    assert_non_null(strstr(v.what, "rms"));
    close_fixture(&f);
}

static void bits_are_the_chain(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "n1c5h9k3r3_pad1", false, 1);
    struct cli_verdict v = compare(&f);
    truth_bits(&f.c, &f.truth, NULL, &v); /* ref rounds once: some bits must differ from a chain of 45 roundings */
    assert_int_equal(v.bits, BITS_DIFFER);
    assert_false(v.ok);
    assert_string_equal(v.what, "bits");
    close_fixture(&f);

    open_fixture(&f, "n1c1h9k3r1", false,
                 1); /* one product and one add: the chain is what ref rounds, up to a double rounding */
    v = compare(&f);
    for (int64_t i = 0; i < f.c.ys; i++) {
        const struct cli_place at = case_place(&f.c, i);
        f.c.y_host[i] = fmaf(f.c.x_host[at.p * 9 + at.q], f.c.w_host[at.k], 0.0f) + f.c.bias_host[at.k];
    }
    truth_bits(&f.c, &f.truth, NULL, &v);
    assert_int_equal(v.bits, BITS_EQUAL);
    const float exact = f.c.y_host[100];
    float whole[243];
    assert_int_equal(f.c.ys, 243);
    memcpy(whole, f.c.y_host, sizeof whole);
    whole[100] = nextafterf(exact, 1e30f);
    truth_bits(&f.c, &f.truth, whole, &v);
    assert_int_equal(v.bits, BITS_DIFFER);
    assert_int_equal(v.where, 100);
    close_fixture(&f);
}

static void match_is_rtol_and_atol(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, "n1c1h9k3r1", false, 0);
    float exact[243];
    assert_int_equal(f.c.ys, 243);
    memcpy(exact, f.c.y_host, sizeof exact);
    struct cli_verdict v = compare(&f);
    f.c.y_host[7] = exact[7] * 1.0005f + 0.0005f;
    truth_match(&f.c, &f.truth, exact, 1e-3, 1e-3, &v);
    assert_true(v.ok);
    f.c.y_host[7] = exact[7] + (exact[7] < 0 ? -1.1f : 1.1f) * (1e-3f + 1e-3f * fabsf(exact[7]));
    truth_match(&f.c, &f.truth, exact, 1e-3, 1e-3, &v);
    assert_false(v.ok);
    assert_int_equal(v.where, 7);
    close_fixture(&f);
}

static void draws_are_normal(void **state)
{
    (void)state;
    enum { COUNT = 200001 };
    static float a[COUNT], b[COUNT];
    double sum = 0, square = 0, fourth = 0;
    cli_normal(a, COUNT, 5);
    cli_normal(b, 1001, 5);
    assert_memory_equal(a, b, 1000 * sizeof(float)); /* a place's value does not depend on the count */
    for (int i = 0; i < COUNT; i++) {
        sum += (double)a[i];
        square += (double)a[i] * (double)a[i];
        fourth += pow((double)a[i], 4);
    }
    assert_true(fabs(sum / COUNT) < 0.01);
    assert_true(fabs(square / COUNT - 1) < 0.02);
    assert_true(fabs(fourth / COUNT - 3) < 0.15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_one_wrong_output), cmocka_unit_test(projection_sees_every_channel),
        cmocka_unit_test(bits_are_the_chain),     cmocka_unit_test(tf32_is_found),
        cmocka_unit_test(match_is_rtol_and_atol), cmocka_unit_test(draws_are_normal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
