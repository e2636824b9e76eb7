/* The search: its time limit, its reports, and being stopped. */
#include "files.h"

#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct watch {
    int reports, stop_at;
    double done, limit_s;
};

static int watch_it(void *user, double done, double seconds_left, const char *what)
{
    struct watch *w = user;
    assert_true(done >= w->done - 1e-12 && done <= 1);
    assert_true(seconds_left >= 0 && seconds_left <= w->limit_s);
    assert_true(*what);
    w->done = done;
    return ++w->reports == w->stop_at;
}

static convoy_plan_info search(convoy_context *context, const char *problem, double limit_s, struct watch *w)
{
    w->limit_s = limit_s;
    w->done = 0;
    const convoy_plan_options o = {
        .effort = CONVOY_MEASURE, .time_limit_s = limit_s, .progress = watch_it, .progress_user = w};
    return plan_once(context, problem, &o);
}

static void limit_is_honoured(void **state)
{
    (void)state;
    convoy_context *context = context_with("off", NULL);
    for (double limit_s = 0.05; limit_s < 1; limit_s *= 4) {
        struct watch w = {0};
        const double from = now_s();
        const convoy_plan_info info = search(context, "n1c8h40k8r5", limit_s, &w);
        const double took = now_s() - from;
        assert_int_equal(info.source, CONVOY_FROM_MEASURE);
        assert_true(w.reports > 0);
        /* Runs cannot be cut short, and the machine may be busy: the two looks at the first candidate are always made.
         */
        assert_true(took < 1.5 * limit_s + 8 * info.measured_s + 0.2);
    }
    convoy_context_destroy(context);
}

static void can_be_stopped(void **state)
{
    (void)state;
    const char *path = fresh_path();
    convoy_context *context = context_with(path, NULL);
    struct watch at_once = {.stop_at = 1}, later = {.stop_at = 2}, never = {0};
    assert_int_equal(search(context, "n1c1h8k1r3", 0.1, &at_once).source, CONVOY_FROM_ESTIMATE);
    assert_int_equal(at_once.reports, 1);
    assert_int_equal(search(context, "n1c1h8k1r3", 0.1, &later).source, CONVOY_FROM_MEASURE);
    assert_int_equal(later.reports, 2);
    assert_int_equal(count_entries(path, NULL), -1); /* half a search is not worth remembering */
    assert_int_equal(search(context, "n1c1h8k1r3", 0.1, &never).source, CONVOY_FROM_MEASURE);
    assert_int_equal(count_entries(path, NULL), 1);
    convoy_context_destroy(context);
    unlink(path);
}

static void leave_no_choice(void *user, const convoy_explanation *line)
{
    convoy_plan_info *chosen = user;
    if (line->chosen) {
        assert_string_equal(line->engine, chosen->engine);
        assert_true(line->measured_s > 0.99 * chosen->measured_s && line->measured_s < 1.01 * chosen->measured_s);
        chosen->workspace_bytes = 1;
    }
}

static void explain_tells_what_was_measured(void **state)
{
    (void)state;
    const char *path = fresh_path();
    convoy_context *context = context_with(path, NULL);
    convoy_problem p;
    convoy_plan_info info = tune_once(context, "n2c4h12k4r5");
    info.workspace_bytes = 0;
    assert_int_equal(convoy_problem_parse("n2c4h12k4r5", &p), CONVOY_OK);
    assert_int_equal(convoy_explain(context, &p, NULL, leave_no_choice, &info), CONVOY_OK);
    assert_int_equal(info.workspace_bytes, 1);
    convoy_context_destroy(context);
    unlink(path);
}

static void prepared_and_bias_are_timed(void **state)
{
    (void)state;
    convoy_context *context = context_with("off", NULL);
    for (int bias = 0; bias < 2; bias++)
        for (int prepared = 0; prepared < 2; prepared++) {
            const convoy_plan_options o = {
                .effort = CONVOY_MEASURE, .time_limit_s = 0.05, .bias = bias, .prepared = prepared};
            const convoy_plan_info info = plan_once(context, "n1c4h16k4r5_pad2", &o);
            assert_int_equal(info.source, CONVOY_FROM_MEASURE);
            assert_true(info.measured_s > 0);
        }
    convoy_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_is_honoured),
        cmocka_unit_test(can_be_stopped),
        cmocka_unit_test(explain_tells_what_was_measured),
        cmocka_unit_test(prepared_and_bias_are_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
