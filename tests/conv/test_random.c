/* Random problems over all parameters, on every engine that accepts each, under both contracts, from every instruction
 * set.
 *
 *   test_random [COUNT [SEED]]      1,000 problems by default; a failure prints the seed of its own problem, to run
 * alone */
#include "harness.h"

static int64_t count = 1000;
static uint64_t first_seed = 1;

static int64_t small(uint64_t *s, int64_t most)
{
    const int64_t a = random_in(s, 1, most), b = random_in(s, 1, most);
    return a < b ? a : b;
}

static void random_strides(uint64_t *s, const int64_t size[4], int64_t stride[4], int written)
{
    int order[4] = {0, 1, 2, 3};
    int64_t step = random_in(s, 1, 3);
    for (int i = 3; i > 0; i--) {
        const int j = (int)random_in(s, 0, i), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    for (int i = 0; i < 4; i++) {
        const int d = order[i];
        stride[d] = random_in(s, 0, 3) ? step : -step;
        if (!written && random_in(s, 0, 9) == 0)
            stride[d] = 0;
        step = step * size[d] + random_in(s, 0, 2);
    }
}

/* Sizes are drawn so that the direct sum stays below some 20 MFLOP. */
static convoy_problem random_problem(uint64_t *s)
{
    convoy_problem p;
    do {
        const int64_t g = random_in(s, 0, 3) ? 1 : small(s, 6), depthwise = random_in(s, 0, 4) == 0;
        const int64_t cg = depthwise ? 1 : small(s, 20), kg = depthwise ? random_in(s, 1, 2) : small(s, 24);
        p = convoy_problem_make(small(s, 4), g * cg, small(s, 48), small(s, 56), g * kg, small(s, 16), small(s, 16));
        p.groups = g;
        if (random_in(s, 0, 1)) {
            p.pad_t = small(s, 9) - 1, p.pad_b = small(s, 9) - 1;
            p.pad_l = small(s, 9) - 1, p.pad_r = small(s, 9) - 1;
        }
        if (random_in(s, 0, 2) == 0)
            p.stride_h = small(s, 4), p.stride_w = small(s, 4);
        if (random_in(s, 0, 2) == 0)
            p.dil_h = small(s, 4), p.dil_w = small(s, 4);
    } while (convoy_problem_check(&p) != CONVOY_OK || convoy_problem_flop(&p) > 2e7);
    if (random_in(s, 0, 3) == 0) {
        int64_t P, Q;
        convoy_problem_output(&p, &P, &Q);
        p.strided = 1;
        random_strides(s, (const int64_t[4]){p.n, p.c, p.h, p.w}, p.x_stride, 0);
        random_strides(s, (const int64_t[4]){p.k, p.c / p.groups, p.r, p.s}, p.w_stride, 0);
        random_strides(s, (const int64_t[4]){p.n, p.k, P, Q}, p.y_stride, 1);
    }
    return p;
}

/* Zero and crossing strides make elements share memory; the last value written is what everyone reads. */
static void check_prepared(convoy_context *context, test_case *c)
{
    convoy_plan_options o = {.prepared = 1};
    convoy_plan_info info;
    convoy_status status = case_run(context, c, &o, &info);
    if (status == CONVOY_UNSUPPORTED && c->p.strided)
        return;
    if (status != CONVOY_OK)
        fail_msg("prepared: %s", convoy_last_message());
    check_contract(c, &(convoy_engine_info){.name = info.engine}, &info, NULL);
}

static void random_problems(void **state)
{
    static const char *const isa[] = {NULL, "avx512", "avx2", "scalar"};
    convoy_context *context[4];
    int64_t ran = 0;
    (void)state;
    for (int i = 0; i < 4; i++) {
        convoy_context_options o = {
            .device = on_gpu() ? CONVOY_CUDA : CONVOY_CPU, .threads = i + 1, .isa = isa[i], .wisdom = "off"};
        if (convoy_context_create(&o, &context[i]) != CONVOY_OK)
            context[i] = NULL; /* an instruction set that this machine lacks */
    }
    assert_non_null(context[0]);
    for (int64_t i = 0; i < count; i++) {
        uint64_t s = first_seed + (uint64_t)i;
        convoy_problem p = random_problem(&s);
        test_case c = case_make(&p);
        convoy_context *on = context[i % 4] ? context[i % 4] : context[0];
        char text[160];
        if (random_in(&s, 0, 1))
            case_add_bias(&c);
        case_fill_normal(&c, s);
        show_case(&c, text);
        if (i % 200 == 0)
            print_message("seed %llu: %s\n", (unsigned long long)(first_seed + (uint64_t)i), text);
        const int accepted = each_engine(on, &c, CONVOY_MATH_FP32, check_contract, NULL);
        if (!accepted)
            fail_msg("no engine accepts %s (seed %llu)", text, (unsigned long long)(first_seed + (uint64_t)i));
        ran += accepted;
        if (i % 3 == 0)
            check_prepared(on, &c);
        case_free(&c);
    }
    print_message("%lld problems, %lld runs\n", (long long)count, (long long)ran);
    for (int i = 0; i < 4; i++)
        convoy_context_destroy(context[i]);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        count = atoll(argv[1]);
    if (argc > 2)
        first_seed = (uint64_t)atoll(argv[2]);
    const struct CMUnitTest random[] = {cmocka_unit_test(random_problems)};
    return RUN_TESTS(random);
}
