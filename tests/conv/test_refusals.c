/* Everything that a caller can get wrong, once each: the status, the message that names the field, and no output left
 * behind. */
#include "harness.h"

static convoy_context *context;

static int set_up(void **state)
{
    (void)state;
    context = context_make(2, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    convoy_context_destroy(context);
    return 0;
}

static void says(const char *what)
{
    if (!strstr(convoy_last_message(), what))
        fail_msg("expected a message with '%s', got '%s'", what, convoy_last_message());
    assert_null(strchr(convoy_last_message(), '\n'));
}

/* A problem is refused by every call that takes one, with one voice. */
static void refused(const convoy_problem *p, convoy_status expected, const char *message)
{
    convoy_plan *plan = (convoy_plan *)&context;
    int64_t P = 7, Q = 7;
    assert_int_equal(convoy_problem_check(p), expected);
    says(message);
    assert_int_equal(convoy_problem_output(p, &P, &Q), expected);
    assert_true(P == 0 && Q == 0);
    assert_true(convoy_problem_flop(p) == 0);
    assert_int_equal(convoy_plan_create(context, p, NULL, &plan), expected);
    says(message);
    assert_null(plan);
}

static void problem_fields(void **state)
{
    (void)state;
    const convoy_problem good = convoy_problem_make(2, 6, 20, 22, 4, 3, 5);
    const int64_t big = INT64_MAX;
    const struct {
        size_t offset;
        int64_t value;
        const char *message;
    } bad[] = {
        {offsetof(convoy_problem, n), -1, "n is -1"},
        {offsetof(convoy_problem, c), -3, "c is -3"},
        {offsetof(convoy_problem, h), -1, "h is -1"},
        {offsetof(convoy_problem, w), -1, "w is -1"},
        {offsetof(convoy_problem, k), -8, "k is -8"},
        {offsetof(convoy_problem, r), 0, "r is 0"},
        {offsetof(convoy_problem, s), -2, "s is -2"},
        {offsetof(convoy_problem, pad_t), -1, "pad_t is -1"},
        {offsetof(convoy_problem, pad_b), -1, "pad_b is -1"},
        {offsetof(convoy_problem, pad_l), -1, "pad_l is -1"},
        {offsetof(convoy_problem, pad_r), -1, "pad_r is -1"},
        {offsetof(convoy_problem, stride_h), 0, "stride_h is 0"},
        {offsetof(convoy_problem, stride_w), -1, "stride_w is -1"},
        {offsetof(convoy_problem, dil_h), 0, "dil_h is 0"},
        {offsetof(convoy_problem, dil_w), 0, "dil_w is 0"},
        {offsetof(convoy_problem, groups), 0, "groups is 0"},
        {offsetof(convoy_problem, groups), 5, "groups is 5: expected a divisor of c = 6"},
        {offsetof(convoy_problem, groups), 3, "groups is 3: expected a divisor of k = 4"},
        {offsetof(convoy_problem, r), 21, "the effective kernel is 21 and the padded image 20"},
        {offsetof(convoy_problem, s), 23, "the effective kernel is 23 and the padded image 22"},
        {offsetof(convoy_problem, dil_h), 10, "the effective kernel is 21 and the padded image 20"},
        {offsetof(convoy_problem, n), big, "n is 9223372036854775807"},
        {offsetof(convoy_problem, h), big / 16, "x has"},
        {offsetof(convoy_problem, pad_t), big / 8, "padding"},
        {offsetof(convoy_problem, dil_w), big / 8, "dilation"},
        {offsetof(convoy_problem, k), big / 64 * 2, "has"},
        {offsetof(convoy_problem, stride_h), big, "stride_h is"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        convoy_problem p = good;
        memcpy((char *)&p + bad[i].offset, &bad[i].value, sizeof bad[i].value);
        refused(&p, CONVOY_INVALID, bad[i].message);
    }
    assert_int_equal(convoy_problem_check(&good), CONVOY_OK);
}

static void problem_kinds(void **state)
{
    (void)state;
    const convoy_problem good = convoy_problem_make(1, 1, 8, 8, 1, 3, 3);
    convoy_problem p = good;
    p.layout = (convoy_layout)3;
    refused(&p, CONVOY_UNSUPPORTED, "layout is 3");
    p = good;
    p.dtype = (convoy_dtype)2;
    refused(&p, CONVOY_UNSUPPORTED, "dtype is 2");
    p = good;
    p.direction = CONVOY_BACKWARD_DATA;
    refused(&p, CONVOY_UNSUPPORTED, "direction is 1");
    p.direction = CONVOY_BACKWARD_WEIGHTS;
    refused(&p, CONVOY_UNSUPPORTED, "direction is 2");
    p.direction = (convoy_direction)9;
    refused(&p, CONVOY_INVALID, "direction is 9");
    refused(NULL, CONVOY_INVALID, "problem is NULL");
}

/* Sizes whose products overflow although a zero among them leaves nothing to compute. */
static void empty_and_huge(void **state)
{
    (void)state;
    const int64_t big = (int64_t)1 << 40;
    convoy_problem p = convoy_problem_make(0, big, big, big, 1, 1, 1);
    refused(&p, CONVOY_INVALID, "x has 0 x");
    p = convoy_problem_make(0, 1, 1, 1, big, 1, 1);
    p.pad_t = p.pad_l = big;
    refused(&p, CONVOY_INVALID, "y has 0 x");
}

static void strides(void **state)
{
    (void)state;
    const int64_t big = INT64_MAX / 4;
    convoy_problem good = convoy_problem_make(2, 3, 8, 8, 4, 3, 3);
    good.strided = 1;
    const int64_t x[4] = {192, 64, 8, 1}, w[4] = {27, 9, 3, 1}, y[4] = {144, 36, 6, 1};
    memcpy(good.x_stride, x, sizeof x);
    memcpy(good.w_stride, w, sizeof w);
    memcpy(good.y_stride, y, sizeof y);
    assert_int_equal(convoy_problem_check(&good), CONVOY_OK);
    convoy_problem p = good;
    p.x_stride[1] = big;
    refused(&p, CONVOY_INVALID, "x_stride[1]");
    p = good;
    p.w_stride[0] = INT64_MIN;
    refused(&p, CONVOY_INVALID, "w_stride[0]");
    p = good;
    p.y_stride[2] = 0;
    refused(&p, CONVOY_INVALID, "y_stride[2] is 0 over a size of 6");
    p = good;
    p.y_stride[1] = 5;
    refused(&p, CONVOY_INVALID, "outputs overlap");
    p = good;
    p.y_stride[3] = -1; /* negative is fine */
    assert_int_equal(convoy_problem_check(&p), CONVOY_OK);
    p = good;
    p.n = 1;
    p.y_stride[0] = 0; /* strides of size-1 dimensions mean nothing */
    p.x_stride[0] = INT64_MIN;
    assert_int_equal(convoy_problem_check(&p), CONVOY_OK);
}

static void *one_half(void *user, size_t bytes)
{
    (void)user, (void)bytes;
    return NULL;
}

static void context_options(void **state)
{
    (void)state;
    const struct {
        convoy_context_options o;
        convoy_status status;
        const char *message;
    } bad[] = {
        {{.device = (convoy_device)7}, CONVOY_INVALID, "device is 7"},
        {{.device_index = 3}, CONVOY_INVALID, "device_index is 3"},
        {{.threads = -1}, CONVOY_INVALID, "threads is -1"},
        {{.threads = 1025}, CONVOY_INVALID, "threads is 1025"},
        {{.isa = "sse9"}, CONVOY_INVALID, "isa is 'sse9'"},
        {{.allocator = {.alloc = one_half}}, CONVOY_INVALID, "allocator has only one"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        convoy_context *made = context;
        assert_int_equal(convoy_context_create(&bad[i].o, &made), bad[i].status);
        says(bad[i].message);
        assert_null(made);
    }
    assert_int_equal(convoy_context_create(NULL, NULL), CONVOY_INVALID);
    convoy_context_destroy(NULL);
    const char *const name[] = {"CONVOY_THREADS", "CONVOY_THREADS", "CONVOY_ISA"}, *const value[] = {"lots", "0",
                                                                                                     "mmx"};
    for (int i = 0; i < 3; i++) {
        convoy_context *made = context;
        setenv(name[i], value[i], 1);
        assert_int_equal(convoy_context_create(NULL, &made), CONVOY_INVALID);
        unsetenv(name[i]);
        says(name[i]);
        assert_null(made);
    }
}

static void plan_options(void **state)
{
    (void)state;
    const convoy_problem p = convoy_problem_make(1, 4, 32, 32, 4, 5, 5);
    const struct {
        convoy_plan_options o;
        convoy_status status;
        const char *message;
    } bad[] = {
        {{.math = (convoy_math)5}, CONVOY_INVALID, "math is 5"},
        {{.math = CONVOY_MATH_MATCH}, CONVOY_INVALID, "rtol and atol are 0"},
        {{.rtol = -1}, CONVOY_INVALID, "rtol is -1"},
        {{.math = CONVOY_MATH_MATCH, .atol = NAN}, CONVOY_INVALID, "atol"},
        {{.effort = (convoy_effort)4}, CONVOY_INVALID, "effort is 4"},
        {{.time_limit_s = -2}, CONVOY_INVALID, "time_limit_s is -2"},
        {{.time_limit_s = NAN}, CONVOY_INVALID, "time_limit_s"},
        {{.engine = "fastest"}, CONVOY_INVALID, "engine is 'fastest': expected one of"},
        {{.engine = "ref:ty4"}, CONVOY_INVALID, "candidate is 'ty4'"},
        {{.engine = ""}, CONVOY_INVALID, "engine is ''"},
        {{.exclude = "ref,slow"}, CONVOY_INVALID, "exclude is 'slow'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        convoy_plan *plan = (convoy_plan *)&context;
        assert_int_equal(convoy_plan_create(context, &p, &bad[i].o, &plan), bad[i].status);
        says(bad[i].message);
        assert_null(plan);
    }
    assert_int_equal(convoy_plan_create(context, &p, NULL, NULL), CONVOY_INVALID);
    convoy_plan *plan;
    assert_int_equal(convoy_plan_create(NULL, &p, NULL, &plan), CONVOY_INVALID);
    says("context is NULL");
    convoy_plan_destroy(NULL);
    convoy_weights_destroy(NULL);
    assert_int_equal(convoy_weights_bytes(NULL), 0);
    assert_int_equal(convoy_plan_workspace_bytes(NULL), 0);
}

/* Every engine excluded: unsupported, and the message says so of the last one. */
static void nobody_left(void **state)
{
    (void)state;
    char all[512] = "";
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)) != NULL; i++) {
        strcat(all, i ? "," : "");
        strcat(all, e->name);
    }
    const convoy_problem p = convoy_problem_make(1, 1, 8, 8, 1, 3, 3);
    convoy_plan *plan = (convoy_plan *)&context;
    assert_int_equal(convoy_plan_create(context, &p, &(convoy_plan_options){.exclude = all}, &plan),
                     CONVOY_UNSUPPORTED);
    says("it was excluded");
    assert_null(plan);
}

static void execute_arguments(void **state)
{
    (void)state;
    test_case c = case_of("n1c2h9k2r3");
    convoy_plan *plan, *with;
    assert_int_equal(convoy_plan_create(context, &c.p, NULL, &plan), CONVOY_OK);
    assert_int_equal(convoy_plan_create(context, &c.p, &(convoy_plan_options){.bias = 1, .prepared = 1}, &with),
                     CONVOY_OK);
    convoy_weights *weights, *none = (convoy_weights *)&context;
    case_fill_normal(&c, 3);
    if (on_gpu()) { /* pointers are checked before anything else happens, so the host's will do below; not here */
        convoy_plan_destroy(plan);
        convoy_plan_destroy(with);
        case_free(&c);
        return;
    }
    assert_int_equal(convoy_weights_create(with, c.w, NULL, &weights), CONVOY_OK);
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    const convoy_args good = {
        .struct_bytes = sizeof good, .x = c.x, .w = c.w, .y = c.y, .workspace = workspace, .workspace_bytes = bytes};
    assert_int_equal(convoy_execute(plan, &good), CONVOY_OK);
    convoy_args a = good;
#define REFUSED(which, field, value, message)                                                                          \
    do {                                                                                                               \
        a = good;                                                                                                      \
        a.field = value;                                                                                               \
        assert_int_equal(convoy_execute(which, &a), CONVOY_INVALID);                                                   \
        says(message);                                                                                                 \
    } while (0)
    REFUSED(plan, struct_bytes, 8, "args.struct_bytes is 8");
    REFUSED(plan, x, NULL, "args.x is NULL");
    REFUSED(plan, w, NULL, "args.w is NULL");
    REFUSED(plan, y, NULL, "args.y is NULL");
    REFUSED(plan, bias, c.w, "args.bias is set");
    REFUSED(plan, weights, weights, "args.weights is set");
    REFUSED(with, bias, NULL, "args.bias is NULL");
    REFUSED(with, bias, c.w, "args.weights is NULL");
    if (bytes) {
        REFUSED(plan, workspace, NULL, "args.workspace is NULL");
        REFUSED(plan, workspace_bytes, bytes - 1, "args.workspace has");
    }
    REFUSED(plan, x, (const float *)(const void *)((const char *)c.x + 1), "args.x is at an address");
    REFUSED(plan, y, (float *)(void *)((char *)c.y + 2), "args.y is at an address");
    REFUSED(plan, y, (float *)c.x, "args.y overlaps args.x");
    REFUSED(plan, y, (float *)c.x + 2 * 9 * 9 - 1, "args.y overlaps args.x");
    REFUSED(plan, y, (float *)c.w, "args.y overlaps args.w");
    if (bytes)
        REFUSED(plan, workspace, c.y, "args.workspace overlaps args.y");
    assert_int_equal(convoy_execute(NULL, &good), CONVOY_INVALID);
    assert_int_equal(convoy_execute(plan, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_weights_create(plan, c.w, NULL, &none), CONVOY_INVALID);
    says("prepared = 0");
    assert_null(none);
    assert_int_equal(convoy_weights_create(with, NULL, NULL, &none), CONVOY_INVALID);
    assert_int_equal(convoy_weights_create(with, c.w, NULL, NULL), CONVOY_INVALID);
    free(workspace);
    convoy_weights_destroy(weights);
    convoy_plan_destroy(plan);
    convoy_plan_destroy(with);
    case_free(&c);
}

static void other_calls(void **state)
{
    (void)state;
    const convoy_problem p = convoy_problem_make(1, 1, 8, 8, 1, 3, 3);
    float f[64] = {0};
    double value = 0;
    const int64_t outside[] = {-1, 36};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(convoy_reference(context, &p, f, f, NULL, 1, &outside[i], &value, NULL), CONVOY_INVALID);
        says("index[0] is");
    }
    assert_int_equal(convoy_reference(context, &p, NULL, f, NULL, 1, &(int64_t){0}, &value, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_reference(context, &p, f, f, NULL, -1, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_reference(NULL, &p, f, f, NULL, 0, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_explain(context, &p, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_explain(NULL, &p, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_plan_describe(NULL, &(convoy_plan_info){0}), CONVOY_INVALID);
    assert_int_equal(convoy_measure(NULL, 0, &(convoy_timing){0}), CONVOY_INVALID);
    assert_int_equal(convoy_memory_alloc(context, 8, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_memory_copy(context, NULL, f, 8, CONVOY_TO_DEVICE), CONVOY_INVALID);
    assert_int_equal(convoy_synchronize(NULL), CONVOY_INVALID);
    convoy_memory_free(context, NULL);
    convoy_memory_free(NULL, NULL);
    assert_null(convoy_engine(-1));
    assert_null(convoy_engine(1000));
    for (int s = -1; s < 9; s++)
        assert_non_null(convoy_status_text((convoy_status)s));
}

int main(void)
{
    const struct CMUnitTest refusals[] = {
        cmocka_unit_test_setup_teardown(problem_fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(problem_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_and_huge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strides, set_up, tear_down),
        cmocka_unit_test_setup_teardown(context_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(plan_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(execute_arguments, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_calls, set_up, tear_down),
    };
    return RUN_TESTS(refusals);
}
