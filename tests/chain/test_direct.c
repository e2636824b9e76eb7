/* The direct engine's candidates, one by one: whatever lanes, panels, blocks, instruction set, threads or prepared
 * weights, each output must have the bits of a scalar fmaf loop.
 *
 *   test_direct [COUNT [SEED]]      a failure prints the seed of its own problem, to run alone
 */
#include "conv/harness.h"

static int64_t count = 120;
static uint64_t first_seed = 1;

static const char *const candidates[] = {"k0c0", "k1c0", "k2c0", "k8c0", "k16c0", "k32c0", "k0c1", "k0c8", "k0c16"};
enum { CANDIDATES = sizeof candidates / sizeof *candidates, CONTEXTS = 6 };

static convoy_context *contexts[CONTEXTS];

static int open_contexts(void **state)
{
    (void)state;
    static const char *const isa[] = {"avx512", "avx2", "scalar"};
    for (int i = 0; i < CONTEXTS; i++) {
        const convoy_context_options o = {.isa = isa[i % 3], .threads = i < 3 ? 1 : 3};
        if (convoy_context_create(&o, &contexts[i]) != CONVOY_OK)
            contexts[i] = NULL; /* this processor lacks it */
    }
    return 0;
}

static int close_contexts(void **state)
{
    (void)state;
    for (int i = 0; i < CONTEXTS; i++)
        convoy_context_destroy(contexts[i]);
    return 0;
}

/* One context, candidate and kind of weights; 0 when the candidate is not offered. */
static int check_one(test_case *c, convoy_context *context, const char *candidate, int prepared, int limit,
                     const float *right, const char *label)
{
    char engine[32], text[160];
    snprintf(engine, sizeof engine, "direct:%s", candidate);
    const convoy_plan_options o = {.math = CONVOY_MATH_EXACT,
                                   .engine = engine,
                                   .prepared = prepared,
                                   .bias = c->bias != NULL,
                                   .workspace_limited = limit};
    convoy_plan *plan;
    if (convoy_plan_create(context, &c->p, &o, &plan) != CONVOY_OK)
        return 0;
    convoy_plan_info info;
    convoy_plan_describe(plan, &info);
    if (limit)
        assert_int_equal(convoy_plan_workspace_bytes(plan), 0);
    assert_int_equal(case_run_plan(context, c, plan, prepared), CONVOY_OK);
    for (int64_t i = 0; i < c->outputs; i++)
        if (!same_float(*y_flat(c, i), right[i])) {
            show_case(c, text);
            fail_msg("%s, %s, %d threads, %s%s: output %lld is %a, expected %a (%s)", text, engine, info.threads,
                     prepared ? "prepared" : "fresh", limit ? ", no workspace" : "", (long long)i,
                     (double)*y_flat(c, i), (double)right[i], label);
        }
    convoy_plan_destroy(plan);
    return 1;
}

static void check_all(test_case *c, const char *label)
{
    float *right = malloc(sizeof *right * (size_t)(c->outputs + 1));
    assert_non_null(right);
    chain_of(c, right);
    for (int i = 0; i < CONTEXTS; i++) {
        int offered = 0;
        for (int k = 0; contexts[i] && k < CANDIDATES; k++) {
            offered += check_one(c, contexts[i], candidates[k], 0, 0, right, label);
            check_one(c, contexts[i], candidates[k], 1, 0, right, label);
        }
        if (contexts[i]) {
            assert_true(offered >= 2); /* lanes along columns, and along channels */
            assert_true(check_one(c, contexts[i], "k0c0", 0, 1, right, label));
        }
    }
    free(right);
}

/* Values whose sums differ in bits as soon as a tap is added as 0*w, skipped, or reordered: infinities and NaN, and
 * products that underflow to -0. */
static void make_wild(test_case *c, uint64_t *s)
{
    for (int t = 0; t < 2; t++) {
        float *value = t ? c->w : c->x;
        for (int64_t i = 0; i < c->floats[t]; i++) {
            const int64_t die = random_in(s, 0, 99);
            value[i] = die == 0   ? INFINITY
                       : die == 1 ? NAN
                       : die < 50 ? (t ? 1e-30f : -1e-30f)
                       : die < 60 ? -0.0f
                                  : value[i];
        }
    }
}

/* Sizes that fill several vectors, panels and tiles now and then. */
static convoy_problem random_problem(uint64_t *s)
{
    convoy_problem p;
    do {
        const int kind = (int)random_in(s, 0, 3); /* dense, dense, grouped, depthwise */
        const int64_t g = kind < 2 ? 1 : random_in(s, 2, 40), cg = kind == 3 ? 1 : random_in(s, 1, kind == 2 ? 4 : 12);
        const int64_t kg = kind == 3 ? 1 : random_in(s, 1, kind == 2 ? 4 : 80);
        p = convoy_problem_make(random_in(s, 1, 3), g * cg, random_in(s, 1, 20), random_in(s, 1, 100), g * kg,
                                random_in(s, 1, 7), random_in(s, 1, random_in(s, 0, 3) ? 5 : 40));
        p.groups = g;
        if (random_in(s, 0, 5) == 0)
            p.r = p.s = 1;
        if (random_in(s, 0, 1)) {
            p.pad_t = random_in(s, 0, 4), p.pad_b = random_in(s, 0, 4);
            p.pad_l = random_in(s, 0, 20), p.pad_r = random_in(s, 0, 20);
        }
        if (random_in(s, 0, 3) == 0)
            p.stride_h = random_in(s, 1, 3), p.stride_w = random_in(s, 1, 3);
        if (random_in(s, 0, 3) == 0)
            p.dil_h = random_in(s, 1, 3), p.dil_w = random_in(s, 1, 3);
    } while (convoy_problem_check(&p) != CONVOY_OK || convoy_problem_flop(&p) > 1.5e6);
    return p;
}

/* Channels last for x, channels first for w, y upside down: nothing has a unit stride where it is used to it. */
static void make_strided(convoy_problem *p)
{
    int64_t P, Q;
    convoy_problem_output(p, &P, &Q);
    const int64_t cg = p->c / p->groups;
    p->strided = 1;
    memcpy(p->x_stride, (int64_t[4]){p->c * p->h * p->w, 1, p->w * p->c, p->c}, sizeof p->x_stride);
    memcpy(p->w_stride, (int64_t[4]){1, p->k, p->k * cg * p->s, p->k * cg}, sizeof p->w_stride);
    memcpy(p->y_stride, (int64_t[4]){p->k * P * Q, P * Q, -Q, 1}, sizeof p->y_stride);
}

static void random_problems(void **state)
{
    (void)state;
    for (int64_t i = 0; i < count; i++) {
        uint64_t s = first_seed + (uint64_t)i;
        char label[48];
        snprintf(label, sizeof label, "test_direct 1 %llu", (unsigned long long)s);
        convoy_problem p = random_problem(&s);
        if (random_in(&s, 0, 3) == 0)
            make_strided(&p);
        test_case c = case_make(&p);
        case_fill_normal(&c, s);
        if (random_in(&s, 0, 1))
            case_add_bias(&c);
        if (random_in(&s, 0, 2) == 0)
            make_wild(&c, &s);
        check_all(&c, label);
        case_free(&c);
    }
}

/* Enough weights that the sums are cut into blocks of channels and wait in y between them. */
static void blocked_sums(void **state)
{
    (void)state;
    static const char *const problem[] = {"n1c40h9w9k40r8s8_pad1", "n1c700h3w3k600r1", "n1c24h5w5k24r5_pad2_g2"};
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        test_case c = case_of(problem[i]);
        case_fill_normal(&c, i + 1);
        case_add_bias(&c);
        check_all(&c, "blocked_sums");
        case_free(&c);
    }
}

int main(int argc, char **argv)
{
    count = argc > 1 ? atoll(argv[1]) : count;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_problems), cmocka_unit_test(blocked_sums)};
    return cmocka_run_group_tests_name("direct", tests, open_contexts, close_contexts);
}
