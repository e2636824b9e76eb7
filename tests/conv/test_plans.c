/* What plans promise: workspace limits down to nothing, prepared weights that fit every like plan, one set of bits from
 * every instruction set and thread count in the exact contract, and an explain that says what plan_create does. */
#include "harness.h"

static const char *const problem[] = {"n2c8h33w35k8r7_pad3", "n1c16h48k12r9", "n1c6h40k6r11_padsame_gc",
                                      "n1c1h130k2r31", "n1c12h40w30k8r5_st2_dil2x1_g4"};
enum { PROBLEMS = sizeof problem / sizeof *problem };

static void workspace_limits(void **state)
{
    static const size_t limit[] = {0, 1000, 20000, 300000, 5000000};
    (void)state;
    const convoy_engine_info *e;
    convoy_context *context = context_make(2, NULL);
    for (int i = 0; i < PROBLEMS; i++) {
        test_case c = case_of(problem[i]);
        case_fill_normal(&c, (uint64_t)i + 60);
        for (size_t l = 0; l < sizeof limit / sizeof *limit; l++) {
            convoy_plan_options o = {.workspace_limited = 1, .workspace_limit_bytes = limit[l]};
            convoy_plan_info info;
            if (case_run(context, &c, &o, &info) != CONVOY_OK) /* without a named engine some engine always fits */
                fail_msg("%s within %zu bytes: %s", problem[i], limit[l], convoy_last_message());
            /* the limit counts what the engine uses; the caller adds at most one alignment of slack */
            assert_true(info.workspace_bytes <= limit[l] + 256);
            check_contract(&c, &(convoy_engine_info){.name = info.engine}, &info, NULL);
            for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
                o.engine = e->name;
                convoy_status status = case_run(context, &c, &o, &info);
                o.engine = NULL;
                if (status == CONVOY_UNSUPPORTED)
                    continue;
                assert_int_equal(status, CONVOY_OK);
                assert_true(info.workspace_bytes <= limit[l] + 256);
                check_contract(&c, e, &info, NULL);
            }
        }
        case_free(&c);
    }
    convoy_context_destroy(context);
}

/* The default: about the tensors' own size plus 64 MiB. */
static void default_workspace(void **state)
{
    static const char *const large[] = {
        "A", "B", "C", "D", "n32c128h1w128k128r7_pad3", "n1c1h4222k1r127", "n8c96h56r51_padsame_gc"};
    (void)state;
    convoy_context *context = context_make(2, NULL);
    for (size_t i = 0; i < sizeof large / sizeof *large && !on_gpu(); i++) {
        convoy_problem p;
        convoy_plan *plan;
        int64_t P, Q;
        assert_int_equal(convoy_problem_parse(large[i], &p), CONVOY_OK);
        assert_int_equal(convoy_problem_output(&p, &P, &Q), CONVOY_OK);
        assert_int_equal(convoy_plan_create(context, &p, NULL, &plan), CONVOY_OK);
        const double tensors =
            4.0 * (double)(p.n * p.c * p.h * p.w + p.k * (p.c / p.groups) * p.r * p.s + p.n * p.k * P * Q);
        if ((double)convoy_plan_workspace_bytes(plan) > tensors + 64 * 1048576.0 + 64)
            fail_msg("%s: %zu bytes of workspace", large[i], convoy_plan_workspace_bytes(plan));
        convoy_plan_destroy(plan);
    }
    convoy_context_destroy(context);
}

static void prepared_weights(void **state)
{
    (void)state;
    const convoy_engine_info *e;
    convoy_context *context = context_make(2, NULL);
    for (int i = 0; i < PROBLEMS; i++) {
        test_case c = case_of(problem[i]);
        case_add_bias(&c);
        case_fill_normal(&c, (uint64_t)i + 70);
        for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
            convoy_plan_info info;
            convoy_plan_options o = {.engine = e->name};
            if (case_run(context, &c, &o, &info) != CONVOY_OK)
                continue;
            float *fresh = malloc(sizeof(float) * (size_t)c.outputs);
            memcpy(fresh, c.y, sizeof(float) * (size_t)c.outputs);
            char name[200];
            snprintf(name, sizeof name, "%s%s%s", e->name, info.candidate[0] ? ":" : "", info.candidate);
            o.engine = name;
            o.prepared = 1;
            convoy_status status = case_run(context, &c, &o, &info);
            if (status != CONVOY_OK)
                fail_msg("%s with prepared weights: %s", name, convoy_last_message());
            for (int64_t j = 0; j < c.outputs; j++)
                if (!same_float(fresh[j], c.y[j]))
                    fail_msg("%s on %s: output %lld is %.9g from prepared weights, %.9g from fresh ones", name,
                             problem[i], (long long)j, (double)c.y[j], (double)fresh[j]);
            free(fresh);
        }
        case_free(&c);
    }
    convoy_context_destroy(context);
}

/* Weights made at one batch size serve a plan of another, which is asked for by the weights; w may be gone by then. */
static void weights_outlive(void **state)
{
    (void)state;
    if (on_gpu())
        skip();
    const convoy_engine_info *e;
    for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
        convoy_context *context = context_make(2, NULL);
        test_case four = case_of("n4c8h30k8r9"), one = case_of("n1c8h30k8r9");
        convoy_plan *plan, *like;
        convoy_weights *weights;
        case_fill_normal(&four, 11);
        memcpy(one.x, four.x, sizeof(float) * (size_t)one.floats[0]);
        memcpy(one.w, four.w, sizeof(float) * (size_t)one.floats[1]);
        convoy_plan_options o = {.engine = e->name, .prepared = 1};
        if (convoy_plan_create(context, &four.p, &o, &plan) == CONVOY_OK) {
            float *w = malloc(sizeof(float) * (size_t)four.floats[1]);
            memcpy(w, four.w, sizeof(float) * (size_t)four.floats[1]);
            assert_int_equal(convoy_weights_create(plan, w, NULL, &weights), CONVOY_OK);
            memset(w, 0xff, sizeof(float) * (size_t)four.floats[1]);
            free(w);
            o = (convoy_plan_options){.weights = weights};
            if (convoy_plan_create(context, &one.p, &o, &like) != CONVOY_OK)
                fail_msg("%s: no plan for its own weights: %s", e->name, convoy_last_message());
            convoy_plan_destroy(plan);
            convoy_context_destroy(context);
            context = NULL;
            convoy_plan_info info;
            assert_int_equal(convoy_plan_describe(like, &info), CONVOY_OK);
            assert_string_equal(info.engine, e->name);
            const size_t bytes = convoy_plan_workspace_bytes(like);
            void *workspace = malloc(bytes + 1);
            convoy_args args = {.struct_bytes = sizeof args, .x = one.x, .weights = weights, .y = one.y};
            args.workspace = workspace;
            args.workspace_bytes = bytes;
            assert_int_equal(convoy_execute(like, &args), CONVOY_OK);
            check_contract(&one, e, &info, NULL);
            free(workspace);
            convoy_plan_destroy(like);
            convoy_weights_destroy(weights);
        }
        convoy_context_destroy(context);
        case_free(&four);
        case_free(&one);
    }
}

/* Thread counts agree to the bit within one engine and candidate; instruction sets too in the exact contract, where
 * every candidate gives one set of bits. */
static void one_answer(void **state)
{
    static const char *const isa[] = {"avx512", "avx2", "scalar"};
    (void)state;
    const convoy_engine_info *e;
    for (int i = 0; i < PROBLEMS && !on_gpu(); i++) {
        test_case c = case_of(problem[i]);
        case_fill_normal(&c, (uint64_t)i + 80);
        float *first = malloc(sizeof(float) * (size_t)c.outputs);
        for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
            int have = 0;
            char name[200];
            for (int which = 0; which < 6 && !e->vendor; which++) {
                convoy_context *context;
                convoy_context_options co = {.threads = which % 2 ? 1 : 5, .isa = isa[which / 2], .wisdom = "off"};
                if (convoy_context_create(&co, &context) != CONVOY_OK)
                    continue; /* this machine lacks it */
                convoy_plan_options o = {.engine = have && !e->keeps_exact ? name : e->name};
                convoy_plan_info info;
                convoy_status status = case_run(context, &c, &o, &info);
                convoy_context_destroy(context);
                if (status == CONVOY_UNSUPPORTED)
                    continue; /* candidates of a transform may depend on the vector's length */
                if (status != CONVOY_OK)
                    fail_msg("%s: %s", e->name, convoy_last_message());
                check_contract(&c, e, &info, NULL);
                if (!have || (!e->keeps_exact && which % 2 == 0)) {
                    snprintf(name, sizeof name, "%s%s%s", e->name, info.candidate[0] ? ":" : "", info.candidate);
                    memcpy(first, c.y, sizeof(float) * (size_t)c.outputs);
                    have = 1;
                }
                for (int64_t j = 0; j < c.outputs; j++)
                    if (!same_float(first[j], c.y[j]))
                        fail_msg("%s on %s: %s and %d threads give other bits at output %lld", name, problem[i],
                                 isa[which / 2], co.threads, (long long)j);
            }
        }
        free(first);
        case_free(&c);
    }
}

/* An image alone and in a batch: the same bits within one engine and candidate. */
static void batch_slices(void **state)
{
    (void)state;
    const convoy_engine_info *e;
    convoy_context *context = context_make(2, NULL);
    test_case four = case_of("n4c8h33w35k8r7_pad3"), one = case_of("n1c8h33w35k8r7_pad3");
    case_fill_normal(&four, 12);
    memcpy(one.w, four.w, sizeof(float) * (size_t)one.floats[1]);
    for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
        convoy_plan_info info;
        char name[200];
        if (e->vendor || case_run(context, &four, &(convoy_plan_options){.engine = e->name}, &info) != CONVOY_OK)
            continue;
        snprintf(name, sizeof name, "%s%s%s", e->name, info.candidate[0] ? ":" : "", info.candidate);
        for (int64_t n = 0; n < 4; n++) {
            memcpy(one.x, four.x + n * one.floats[0], sizeof(float) * (size_t)one.floats[0]);
            convoy_status status = case_run(context, &one, &(convoy_plan_options){.engine = name}, NULL);
            if (status == CONVOY_UNSUPPORTED && n == 0)
                break; /* the candidate is not offered for one image */
            assert_int_equal(status, CONVOY_OK);
            for (int64_t o = 0; o < one.outputs; o++)
                if (!same_float(one.y[o], four.y[n * one.outputs + o]))
                    fail_msg("%s: image %lld alone differs from the batch at output %lld", name, (long long)n,
                             (long long)o);
        }
    }
    case_free(&four);
    case_free(&one);
    convoy_context_destroy(context);
}

typedef struct told {
    int lines, chosen;
    char engine[64], candidate[128];
} told;

static void listen(void *user, const convoy_explanation *line)
{
    told *t = user;
    t->lines++;
    assert_true(line->engine && line->candidate);
    assert_true(line->accepted ? !line->reason : line->reason && line->reason[0] && !line->chosen);
    if (line->chosen) {
        t->chosen++;
        snprintf(t->engine, sizeof t->engine, "%s", line->engine);
        snprintf(t->candidate, sizeof t->candidate, "%s", line->candidate);
    }
}

static void explain_is_true(void **state)
{
    (void)state;
    convoy_context *context = context_make(2, NULL);
    for (int i = 0; i < PROBLEMS; i++)
        for (int kind = 0; kind < 5; kind++) {
            convoy_problem p;
            convoy_plan_options o = {.math = kind == 1 ? CONVOY_MATH_EXACT : CONVOY_MATH_FP32};
            o.workspace_limited = kind == 2;
            o.prepared = kind == 3;
            o.exclude = kind == 4 ? "ref" : NULL;
            told t = {0};
            convoy_plan *plan;
            assert_int_equal(convoy_problem_parse(problem[i], &p), CONVOY_OK);
            convoy_status said = convoy_explain(context, &p, &o, listen, &t);
            convoy_status status = convoy_plan_create(context, &p, &o, &plan);
            assert_int_equal(said, status);
            assert_true(t.lines > 0);
            assert_int_equal(t.chosen, status == CONVOY_OK);
            if (status != CONVOY_OK)
                continue;
            convoy_plan_info info;
            assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
            assert_string_equal(info.engine, t.engine);
            assert_string_equal(info.candidate, t.candidate);
            convoy_plan_destroy(plan);
        }
    convoy_context_destroy(context);
}

static void phases_and_timing(void **state)
{
    (void)state;
    convoy_context *context = context_make(2, NULL);
    convoy_plan *plan;
    convoy_timing timing;
    test_case c = case_of("n1c4h24k4r5");
    case_fill_normal(&c, 4);
    assert_int_equal(convoy_plan_create(context, &c.p, NULL, &plan), CONVOY_OK);
    assert_int_equal(convoy_measure(plan, 0.01, &timing), CONVOY_OK);
    assert_true(timing.runs > 0 && timing.p10_s <= timing.median_s && timing.median_s <= timing.p90_s &&
                timing.p10_s > 0);
    if (!on_gpu()) {
        convoy_phase phase[16];
        int count = -1;
        const size_t bytes = convoy_plan_workspace_bytes(plan);
        void *workspace = malloc(bytes + 1);
        convoy_args args = {.struct_bytes = sizeof args, .x = c.x, .w = c.w, .y = c.y, .workspace = workspace};
        args.workspace_bytes = bytes;
        assert_int_equal(convoy_execute_phases(plan, &args, phase, 16, &count), CONVOY_OK);
        assert_true(count >= 1 && count <= 16);
        for (int i = 0; i < count; i++)
            assert_true(phase[i].name[0] && phase[i].seconds >= 0);
        assert_int_equal(convoy_execute_phases(plan, &args, phase, 0, &count), CONVOY_INVALID);
        assert_int_equal(count, 0);
        free(workspace);
    }
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest plans[] = {
        cmocka_unit_test(workspace_limits),  cmocka_unit_test(default_workspace), cmocka_unit_test(prepared_weights),
        cmocka_unit_test(weights_outlive),   cmocka_unit_test(one_answer),        cmocka_unit_test(explain_is_true),
        cmocka_unit_test(phases_and_timing), cmocka_unit_test(batch_slices),
    };
    return RUN_TESTS(plans);
}
