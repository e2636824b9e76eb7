/* Shapes that trip implementations: views, empty tensors, kernels as large as the image, even kernels, very many
 * images. */
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

static void all(float *buffer, int64_t floats, float value)
{
    for (int64_t i = 0; i < floats; i++)
        buffer[i] = value;
}

/* Every engine under both contracts. */
static void everywhere(test_case *c, engine_check check, void *user)
{
    if (each_engine(context, c, CONVOY_MATH_FP32, check, user) == 0) {
        char text[160];
        show_case(c, text);
        fail_msg("no engine accepts %s: %s", text, convoy_last_message());
    }
    each_engine(context, c, CONVOY_MATH_EXACT, check, user);
}

static void equals(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    const float *right = user;
    for (int64_t o = 0; o < c->outputs; o++) {
        const double slack = info->error_bound_kind == 1 ? info->error_bound_factor * 0x1p-24 * norm_bound_of(c, o) : 0;
        if (!(fabs((double)*y_flat(c, o) - (double)right[o]) <= slack))
            fail_msg("%s: output %lld is %.9g, expected %.9g", engine->name, (long long)o, (double)*y_flat(c, o),
                     (double)right[o]);
    }
}

static void kernel_and_image(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h2k1r3_pad1");
    all(c.x, 4, 1.0f);
    all(c.w, 9, 1.0f);
    everywhere(&c, equals, (float[]){4, 4, 4, 4});
    case_free(&c);

    c = case_of("n1c1h8k1r31_pad15");
    float right[64];
    all(c.x, c.floats[0], 1.0f);
    all(c.w, c.floats[1], 1.0f);
    all(right, 64, 64.0f);
    everywhere(&c, equals, right);
    case_free(&c);
}

/* x of one row, read backwards: (3, 2, 1, 0). */
static void flipped(void **state)
{
    (void)state;
    convoy_problem p = convoy_problem_make(1, 1, 1, 4, 1, 1, 2);
    p.strided = 1;
    p.x_stride[3] = -1;
    p.w_stride[3] = p.y_stride[3] = 1;
    p.x_stride[0] = p.x_stride[1] = p.x_stride[2] = -7777777; /* strides of size-1 dimensions mean nothing */
    p.w_stride[0] = p.w_stride[1] = p.w_stride[2] = 0;
    p.y_stride[0] = p.y_stride[1] = p.y_stride[2] = INT64_MAX;
    test_case c = case_make(&p);
    for (int i = 0; i < 4; i++)
        c.x[i] = (float)i;
    c.w[0] = 1.0f, c.w[1] = 10.0f;
    everywhere(&c, equals, (float[]){23, 12, 1});
    case_free(&c);
}

static void broadcast(void **state)
{
    (void)state;
    convoy_problem p = convoy_problem_make(1, 1, 16, 16, 1, 3, 3);
    p.pad_t = p.pad_b = p.pad_l = p.pad_r = 1;
    p.strided = 1;
    p.w_stride[2] = 3, p.w_stride[3] = 1;
    p.y_stride[2] = 16, p.y_stride[3] = 1; /* all of x is one float */
    test_case c = case_make(&p);
    float right[256];
    assert_int_equal(c.floats[0], 1);
    c.x[0] = 1.0f;
    all(c.w, 9, 1.0f);
    for (int i = 0; i < 256; i++)
        right[i] = (float)((i / 16 % 15 ? 3 : 2) * (i % 16 % 15 ? 3 : 2));
    everywhere(&c, equals, right);
    case_free(&c);
}

static void canaries_stand(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    char *mine = user; /* 1 where y has an element */
    check_contract(c, engine, info, NULL);
    for (int64_t i = 0; i < c->floats[2]; i++)
        if (!mine[i] && c->y[i] != 12345.0f)
            fail_msg("%s wrote between y's elements, at %lld", engine->name, (long long)i);
}

/* Views in larger buffers: what surrounds x is NaN and must not be read into y, what surrounds y must not be written.
 */
static void views_in_padding(void **state)
{
    static const int64_t kernel[][2] = {{1, 5}, {3, 3}, {11, 11}};
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int64_t width = 1; width <= 33; width += which == 2 ? 4 : 1) {
            convoy_problem p = convoy_problem_make(1, 2, 10, width, 2, kernel[which][0], kernel[which][1]);
            p.pad_t = p.pad_b = p.r / 2, p.pad_l = p.pad_r = p.s / 2;
            p.strided = 1;
            const int64_t x[4] = {0, 16 * 128, 128, 1}, w[4] = {2 * p.r * p.s, p.r * p.s, p.s, 1};
            const int64_t y[4] = {0, 16 * 64, 64, 1};
            memcpy(p.x_stride, x, sizeof x);
            memcpy(p.w_stride, w, sizeof w);
            memcpy(p.y_stride, y, sizeof y);
            test_case c = case_make(&p);
            char *mine = calloc((size_t)c.floats[2], 1);
            case_fill_normal(&c, (uint64_t)width);
            all(c.y, c.floats[2], 12345.0f);
            for (int64_t o = 0; o < c.outputs; o++)
                mine[y_flat(&c, o) - c.y] = 1;
            everywhere(&c, canaries_stand, mine);
            free(mine);
            case_free(&c);
        }
}

static void bias_everywhere(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    (void)info, (void)user;
    for (int64_t o = 0; o < c->outputs; o++) {
        const float right = c->bias ? c->bias[o / c->Q / c->P % c->p.k] : 0.0f;
        if (*y_flat(c, o) != right)
            fail_msg("%s: output %lld is %.9g, expected %.9g", engine->name, (long long)o, (double)*y_flat(c, o),
                     (double)right);
    }
}

static void empty(void **state)
{
    static const char *const none[] = {"n0c3h8k2r3", "n2c3h8k0r3", "n0c0h0k0r1_pad1", "n4c0h5k0r3"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        test_case c = case_of(none[i]);
        assert_int_equal(c.outputs, 0);
        everywhere(&c, bias_everywhere, NULL);
        case_free(&c);
    }
    convoy_problem p = convoy_problem_make(2, 0, 6, 5, 3, 3, 3); /* no channels: sums without terms */
    for (int bias = 0; bias < 2; bias++) {
        test_case c = case_make(&p);
        if (bias)
            case_add_bias(&c);
        everywhere(&c, bias_everywhere, NULL);
        case_free(&c);
    }
    p = convoy_problem_make(2, 2, 0, 5, 3, 2, 2); /* no rows but padding */
    p.pad_t = p.pad_b = 2;
    test_case c = case_make(&p);
    case_add_bias(&c);
    everywhere(&c, bias_everywhere, NULL);
    case_free(&c);
    convoy_problem no_kernel = convoy_problem_make(1, 1, 8, 8, 1, 0, 3);
    assert_int_equal(convoy_problem_check(&no_kernel), CONVOY_INVALID);
}

/* With padding all round, border outputs may have no tap inside the image at all: bias, or +0. */
static void all_padding(void **state)
{
    (void)state;
    test_case c = case_of("n1c2h3k2r2_pad4");
    case_add_bias(&c);
    case_fill_normal(&c, 8);
    everywhere(&c, check_contract, NULL);
    case_free(&c);
}

static void even_kernels(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h4k1r2");
    for (int i = 0; i < 16; i++)
        c.x[i] = (float)i;
    all(c.w, 4, 1.0f);
    everywhere(&c, equals, (float[]){10, 14, 18, 26, 30, 34, 42, 46, 50});
    case_free(&c);

    c = case_of("n1c1h4k1r2_padsame");
    assert_true(c.p.pad_t == 0 && c.p.pad_b == 1 && c.p.pad_l == 0 && c.p.pad_r == 1 && c.P == 4 && c.Q == 4);
    for (int i = 0; i < 16; i++)
        c.x[i] = (float)i;
    all(c.w, 4, 1.0f);
    everywhere(&c, equals, (float[]){10, 14, 18, 10, 26, 30, 34, 18, 42, 46, 50, 26, 25, 27, 29, 15});
    case_free(&c);

    c = case_of("n1c1h5w12k1r2s3_st1x2_dil1x4");
    assert_true(c.P == 4 && c.Q == 2);
    case_fill_normal(&c, 2);
    everywhere(&c, check_contract, NULL);
    case_free(&c);
}

static void many_are_right(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    const int scale = *(const int *)user;
    (void)info;
    for (int64_t o = 0; o < c->outputs; o++)
        if (fabs((double)*y_flat(c, o) - (double)(o % 1000 * scale)) > 1e-3)
            fail_msg("%s: output %lld is %.9g, expected %lld", engine->name, (long long)o, (double)*y_flat(c, o),
                     (long long)(o % 1000 * scale));
}

/* More of everything than 16 bits count. */
static void many(void **state)
{
    static const char *const problem[] = {"n65537c1h1k1r1", "n1c65537h1k65537r1_g65537", "n1c1h70000w1k1r1",
                                          "n1c1h1w70000k1r1"};
    (void)state;
    int scale = 3;
    for (int i = 0; i < 4; i++) {
        test_case c = case_of(problem[i]);
        for (int64_t o = 0; o < c.floats[0]; o++)
            c.x[o] = (float)(o % 1000);
        all(c.w, c.floats[1], 3.0f);
        everywhere(&c, many_are_right, &scale);
        case_free(&c);
    }
}

/* Each size one more and one less than a round number, with and without padding. */
static void neighbours(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        const int64_t d = i % 3 - 1;
        convoy_problem p = convoy_problem_make(2, 8, 32, 32, 16, 8, 8);
        int64_t *const field[] = {&p.c, &p.k, &p.w, &p.r};
        *field[i / 3] += d;
        p.pad_t = p.pad_r = i % 2;
        test_case c = case_make(&p);
        case_fill_normal(&c, (uint64_t)i);
        everywhere(&c, check_contract, NULL);
        case_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest shapes[] = {
        cmocka_unit_test_setup_teardown(kernel_and_image, set_up, tear_down),
        cmocka_unit_test_setup_teardown(flipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(broadcast, set_up, tear_down),
        cmocka_unit_test_setup_teardown(views_in_padding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_padding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(even_kernels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(neighbours, set_up, tear_down),
    };
    return RUN_TESTS(shapes);
}
