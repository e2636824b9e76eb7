/* Wisdom files that are well: what is remembered, what is told apart, who shares them. */
#include "files.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char problem[] = "n1c2h9k2r3";

static int count_report(void *user, double done, double seconds_left, const char *what)
{
    assert_true(done >= 0 && done <= 1 && seconds_left >= 0 && *what);
    ++*(int *)user;
    return 0;
}

static void second_visit_times_nothing(void **state)
{
    (void)state;
    const char *path = fresh_path();
    int warnings, reports = 0, damaged;
    const convoy_plan_options measure = {
        .effort = CONVOY_MEASURE, .time_limit_s = 0.02, .progress = count_report, .progress_user = &reports};
    convoy_context *context = context_with(path, &warnings);
    assert_int_equal(plan_once(context, problem, NULL).source, CONVOY_FROM_ESTIMATE);
    const convoy_plan_info first = plan_once(context, problem, &measure);
    assert_int_equal(first.source, CONVOY_FROM_MEASURE);
    assert_true(first.measured_s > 0 && first.spread_s >= 0 && reports > 0);
    const int before = reports;
    assert_int_equal(plan_once(context, problem, &measure).source, CONVOY_FROM_WISDOM);
    convoy_context_destroy(context);

    context = context_with(path, &warnings);
    for (int effort = CONVOY_ESTIMATE; effort <= CONVOY_MEASURE; effort++) {
        convoy_plan_options o = measure;
        o.effort = effort;
        const convoy_plan_info again = plan_once(context, problem, &o);
        assert_int_equal(again.source, CONVOY_FROM_WISDOM);
        assert_string_equal(again.engine, first.engine);
        assert_true(again.measured_s > 0.99 * first.measured_s && again.measured_s < 1.01 * first.measured_s);
    }
    convoy_context_destroy(context);
    assert_int_equal(reports, before);
    assert_int_equal(warnings, 0);
    assert_int_equal(count_entries(path, &damaged), 1);
    assert_int_equal(damaged, 0);
    unlink(path);
}

static void options_are_told_apart(void **state)
{
    (void)state;
    const char *path = fresh_path();
    int warnings;
    const convoy_plan_options base = {.effort = CONVOY_MEASURE, .time_limit_s = 0.02};
    convoy_plan_options variant[8];
    for (int i = 0; i < 8; i++)
        variant[i] = base;
    variant[1].bias = 1;
    variant[2].prepared = 1;
    variant[3].deterministic = 1;
    variant[4].workspace_limited = 1, variant[4].workspace_limit_bytes = 4096;
    variant[5].workspace_limited = 1, variant[5].workspace_limit_bytes = 8192;
    variant[6].bias = 1, variant[6].prepared = 1;
    variant[7].exclude = "fft,fft";
    const int count = convoy_engine(2) ? 8 : 7; /* the last one needs the engine */
    convoy_context *context = context_with(path, &warnings);
    for (int i = 0; i < count; i++) {
        assert_int_equal(plan_once(context, problem, &variant[i]).source, CONVOY_FROM_MEASURE);
        assert_int_equal(count_entries(path, NULL), i + 1);
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(plan_once(context, problem, &variant[i]).source, CONVOY_FROM_WISDOM);

    convoy_problem p;
    convoy_plan *plan;
    convoy_plan_info info;
    assert_int_equal(convoy_problem_parse(problem, &p), CONVOY_OK);
    p.strided = 1;
    const int64_t x[4] = {200, 100, 10, 1}, w[4] = {18, 9, 3, 1}, y[4] = {98, 49, 7, 1};
    memcpy(p.x_stride, x, sizeof x);
    memcpy(p.w_stride, w, sizeof w);
    memcpy(p.y_stride, y, sizeof y);
    for (int visit = 0; visit < 2; visit++) {
        assert_int_equal(convoy_plan_create(context, &p, &base, &plan), CONVOY_OK);
        assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
        assert_int_equal(info.source, visit ? CONVOY_FROM_WISDOM : CONVOY_FROM_MEASURE);
        convoy_plan_destroy(plan);
    }
    convoy_context_destroy(context);
    assert_int_equal(warnings, 0);
    unlink(path);
}

static void named_engine_is_no_choice(void **state)
{
    (void)state;
    const char *path = fresh_path();
    convoy_plan_options named = {.effort = CONVOY_MEASURE, .time_limit_s = 0.02, .engine = "ref"};
    convoy_context *context = context_with(path, NULL);
    assert_int_equal(plan_once(context, problem, &named).source, CONVOY_FROM_MEASURE);
    assert_int_equal(plan_once(context, problem, &named).source, CONVOY_FROM_WISDOM);
    char *value = value_of(path, "n1c2h9k2r3 fp32");
    assert_non_null(value);
    assert_true(strncmp(value, "some: ref.", 10) == 0);
    free(value);
    if (tune_once(context, problem).source == CONVOY_FROM_MEASURE) { /* there are other engines, so it was not known */
        value = value_of(path, "n1c2h9k2r3 fp32");
        assert_true(strncmp(value, "all: ", 5) == 0);
        assert_non_null(strstr(value, "ref."));
        free(value);
    }
    assert_int_equal(plan_once(context, problem, NULL).source, CONVOY_FROM_WISDOM);
    convoy_context_destroy(context);
    unlink(path);
}

static void contexts_see_each_other(void **state)
{
    (void)state;
    const char *path = fresh_path();
    convoy_context *a = context_with(path, NULL), *b = context_with(path, NULL);
    tune_once(a, problem);
    assert_int_equal(tune_once(b, problem).source, CONVOY_FROM_WISDOM);
    tune_once(b, "n1c1h5k1r2");
    assert_int_equal(plan_once(a, "n1c1h5k1r2", NULL).source, CONVOY_FROM_WISDOM);
    convoy_context_destroy(a);
    convoy_context_destroy(b);
    assert_int_equal(count_entries(path, NULL), 2);
    unlink(path);
}

static void eight_writers(void **state)
{
    (void)state;
    enum { WRITERS = 8, EACH = 6 };
    const char *path = fresh_path();
    pid_t child[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if ((child[i] = fork()) == 0) {
            convoy_context *context = context_with(path, NULL);
            for (int j = 0; j < EACH; j++) {
                char name[32];
                snprintf(name, sizeof name, "n1c1h%dk1r2", 4 + i * EACH + j);
                convoy_plan_options o = {.effort = CONVOY_MEASURE, .time_limit_s = 1e-4};
                plan_once(context, name, &o);
            }
            convoy_context_destroy(context);
            _exit(0);
        }
    for (int i = 0; i < WRITERS; i++) {
        int end;
        assert_int_equal(waitpid(child[i], &end, 0), child[i]);
        assert_true(WIFEXITED(end) && WEXITSTATUS(end) == 0);
    }
    int damaged;
    assert_int_equal(count_entries(path, &damaged), WRITERS * EACH);
    assert_int_equal(damaged, 0);
    unlink(path);
}

static void link_and_mode_stay(void **state)
{
    (void)state;
    char target[128], name[128];
    snprintf(target, sizeof target, "%s", fresh_path());
    snprintf(name, sizeof name, "%s", fresh_path());
    write_file(target, "", 0);
    assert_int_equal(chmod(target, 0640), 0);
    assert_int_equal(symlink(target, name), 0);
    convoy_context *context = context_with(name, NULL);
    tune_once(context, problem);
    convoy_context_destroy(context);
    struct stat s;
    assert_int_equal(lstat(name, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(stat(target, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0640);
    assert_int_equal(count_entries(target, NULL), 1);
    unlink(name);
    unlink(target);
}

static void merge_takes_the_better(void **state)
{
    (void)state;
    char into[128], from[128], text[4096] = "# convoy wisdom 1\n", other[4096] = "# convoy wisdom 1\n";
    const char *old = "cpu: X; convoy: 0.9.0", *new = "cpu: X; convoy: 0.10.0", *far = "cpu: Y; convoy: 0.1.0";
    const char *quick = "all: ref.1 median_ns=10 spread_ns=1", *slow = "all: ref.1 median_ns=20 spread_ns=1",
               *part = "some: ref.1 median_ns=1 spread_ns=1";
    put_head(text, old);
    put_entry(text, old, "a", quick), put_entry(text, old, "b", slow), put_entry(text, old, "c", quick);
    put_entry(text, old, "d", slow);
    put_head(other, new);
    put_entry(other, new, "a", slow); /* slower, but the newer library's */
    put_head(other, old);
    put_entry(other, old, "b", quick), put_entry(other, old, "c", slow), put_entry(other, old, "d", part);
    put_head(other, far);
    put_entry(other, far, "a", slow);
    snprintf(into, sizeof into, "%s", fresh_path());
    snprintf(from, sizeof from, "%s", fresh_path());
    write_file(into, text, strlen(text));
    write_file(from, other, strlen(other));
    for (int again = 0; again < 2; again++) {
        int damaged;
        assert_int_equal(convoy_wisdom_merge(into, from), CONVOY_OK);
        assert_int_equal(count_entries(into, &damaged), 5);
        assert_int_equal(damaged, 0);
        const char *const expected[] = {"a", slow, "b", quick, "c", quick, "d", slow};
        for (int i = 0; i < 8; i += 2) {
            char *value = value_of(into, expected[i]);
            assert_non_null(value);
            assert_string_equal(value, expected[i + 1]);
            free(value);
        }
    }
    assert_int_equal(convoy_wisdom_merge(into, into), CONVOY_OK);
    assert_int_equal(count_entries(into, NULL), 5);
    unlink(into);
    assert_int_equal(convoy_wisdom_merge(into, from), CONVOY_OK); /* a new file is a copy */
    assert_int_equal(count_entries(into, NULL), 5);
    assert_int_equal(convoy_wisdom_clear(into), CONVOY_OK);
    assert_int_equal(count_entries(into, NULL), 0);
    unlink(into);
    assert_int_equal(convoy_wisdom_clear(into), CONVOY_OK);
    assert_int_not_equal(access(into, F_OK), 0);
    assert_int_equal(convoy_wisdom_merge(from, into), CONVOY_IO_ERROR);
    assert_int_equal(convoy_wisdom_merge(NULL, from), CONVOY_INVALID);
    assert_int_equal(convoy_wisdom_clear(NULL), CONVOY_INVALID);
    assert_int_equal(count_entries(into, NULL), -1);
    unlink(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_visit_times_nothing),
        cmocka_unit_test(options_are_told_apart),
        cmocka_unit_test(named_engine_is_no_choice),
        cmocka_unit_test(contexts_see_each_other),
        cmocka_unit_test(eight_writers),
        cmocka_unit_test(link_and_mode_stay),
        cmocka_unit_test(merge_takes_the_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
