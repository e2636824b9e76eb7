/* Wisdom files that are not well: plans come out right, the log gets one warning at most, and the file parses
 * afterwards. */
#include "files.h"

#include <sys/stat.h>
#include <unistd.h>

static const char problem[] = "n1c1h6k1r2", key[] = "n1c1h6k1r2 fp32", other[] = "n1c1h7k1r3";

/* A good file of two entries. */
static char *good_text(const char *path, size_t *bytes)
{
    convoy_context *context = context_with(path, NULL);
    tune_once(context, problem);
    tune_once(context, other);
    convoy_context_destroy(context);
    return read_file(path, bytes);
}

/* Plans by the file, then adds to it. */
static void survives(const char *path)
{
    int warnings, damaged;
    convoy_context *context = context_with(path, &warnings);
    plan_once(context, problem, NULL);
    convoy_plan_options quick = {.effort = CONVOY_MEASURE, .time_limit_s = 1e-5};
    plan_once(context, problem, &quick);
    plan_once(context, "n1c1h8k1r2", &quick);
    assert_int_equal(plan_once(context, problem, NULL).source, CONVOY_FROM_WISDOM);
    convoy_context_destroy(context);
    assert_true(warnings <= 1);
    assert_true(count_entries(path, &damaged) >= 2);
    assert_int_equal(damaged, 0);
}

static void truncated_anywhere(void **state)
{
    (void)state;
    const char *path = fresh_path();
    size_t bytes;
    char *text = good_text(path, &bytes);
    for (size_t length = 0; length <= bytes; length++) {
        int warnings;
        write_file(path, text, length);
        convoy_context *context = context_with(path, &warnings);
        const convoy_plan_info info = plan_once(context, other, NULL);
        convoy_context_destroy(context);
        assert_int_equal(info.source, length >= bytes - 1 ? CONVOY_FROM_WISDOM : CONVOY_FROM_ESTIMATE);
        assert_true(warnings <= 1);
        if (length % 7 == 0 || length > bytes - 3)
            survives(path);
    }
    free(text);
    unlink(path);
}

static void flipped_bits(void **state)
{
    (void)state;
    const char *path = fresh_path();
    size_t bytes;
    char *text = good_text(path, &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        int damaged = 0, warnings;
        text[bit / 8] ^= (char)(1 << bit % 8);
        write_file(path, text, bytes);
        assert_true(count_entries(path, &damaged) >= 0);
        if (text[bit / 8] != '\n') /* a flip may only split a line off that is empty */
            assert_true(damaged > 0);
        convoy_context *context = context_with(path, &warnings);
        plan_once(context, problem, NULL);
        convoy_context_destroy(context);
        assert_int_equal(warnings, 1);
        if (bit % 31 == 0)
            survives(path);
        text[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(text);
    unlink(path);
}

/* An entry must not be taken for another machine's when the head between them is lost. */
static void lost_head(void **state)
{
    (void)state;
    const char *path = fresh_path();
    size_t bytes;
    free(good_text(path, &bytes));
    char *machine = machine_of(path), *value = value_of(path, key), text[8192] = "# convoy wisdom 1\n";
    put_head(text, machine);
    put_entry(text, "cpu: elsewhere; convoy: 0.1.0", key, value);
    write_file(path, text, strlen(text));
    int warnings, damaged;
    convoy_context *context = context_with(path, &warnings);
    assert_int_equal(plan_once(context, problem, NULL).source, CONVOY_FROM_ESTIMATE);
    convoy_context_destroy(context);
    assert_int_equal(warnings, 1);
    assert_int_equal(count_entries(path, &damaged), 0);
    assert_int_equal(damaged, 1);
    free(machine);
    free(value);
    unlink(path);
}

static void not_for_us(void **state)
{
    (void)state;
    const char *path = fresh_path();
    size_t bytes;
    free(good_text(path, &bytes));
    char *machine = machine_of(path), *value = value_of(path, key);
    static const char *const useless[] = {
        "all: warp.1:t3 median_ns=5 spread_ns=1",
        "all: ref.999 median_ns=5 spread_ns=1",
        "all: ref.1:ty9 median_ns=5 spread_ns=1",
        "all: ref.1",
        "all:",
        "",
        "what",
        "all: ref.1 median_ns=0 spread_ns=0",
        "all: ref.1 median_ns=-5 spread_ns=1",
        "all: ref.1 median_ns=99999999999999999999 spread_ns=1",
        "all: ;;; ref. ; .1 ; ref.1:",
    };
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) {
        char text[16384] = "# convoy wisdom 1\n", foreign[2048];
        int warnings, damaged;
        snprintf(foreign, sizeof foreign, "cpu: elsewhere; %s", machine);
        put_head(text, foreign);
        put_entry(text, foreign, key, value);
        put_head(text, machine);
        put_entry(text, machine, key, useless[i]);
        write_file(path, text, strlen(text));
        convoy_context *context = context_with(path, &warnings);
        assert_int_equal(plan_once(context, problem, NULL).source, CONVOY_FROM_ESTIMATE);
        assert_int_equal(tune_once(context, problem).source, CONVOY_FROM_MEASURE);
        convoy_context_destroy(context);
        assert_int_equal(warnings, 0);
        assert_int_equal(count_entries(path, &damaged), 2); /* the foreign one is kept */
        assert_int_equal(damaged, 0);
        char *first = value_of(path, key);
        assert_string_equal(first, value);
        free(first);
    }
    free(machine);
    free(value);
    unlink(path);
}

/* What is no wisdom file, or must not be written, stays as it is. */
static void left_alone(const char *path, mode_t mode, const char *text)
{
    int warnings;
    size_t bytes;
    write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, mode), 0);
    convoy_context *context = context_with(path, &warnings);
    assert_int_equal(tune_once(context, problem).source, CONVOY_FROM_MEASURE);
    tune_once(context, other);
    assert_int_equal(plan_once(context, problem, NULL).source, CONVOY_FROM_WISDOM); /* this context remembers */
    convoy_context_destroy(context);
    assert_int_equal(warnings, 1);
    assert_int_equal(chmod(path, 0600), 0);
    char *after = read_file(path, &bytes);
    assert_string_equal(after, text);
    free(after);
    unlink(path);
}

static void files_left_alone(void **state)
{
    (void)state;
    left_alone(fresh_path(), 0444, "# convoy wisdom 1\n");
    left_alone(fresh_path(), 0600, "alias ll='ls -l'\nexport PATH\n");
    left_alone(fresh_path(), 0600,
               "\x7f"
               "ELF and so on");
    const char *path = fresh_path();
    write_file(path, "int main;\n", 10);
    assert_int_equal(convoy_wisdom_clear(path), CONVOY_IO_ERROR);
    assert_int_equal(convoy_wisdom_merge(path, path), CONVOY_IO_ERROR);
    unlink(path);
}

static void unusable_place(const char *path)
{
    int warnings;
    convoy_context *context = context_with(path, &warnings);
    tune_once(context, problem);
    tune_once(context, other);
    convoy_context_destroy(context);
    assert_int_equal(warnings, 1);
}

static void places(void **state)
{
    (void)state;
    const char *path = fresh_path();
    unusable_place("/proc/convoy-wisdom");
    unusable_place("/dev/null");
    unusable_place("/dev/full");
    unusable_place("/tmp");
    char below[160];
    snprintf(below, sizeof below, "%s/missing/wisdom", path);
    unusable_place(below);
    assert_int_equal(mkfifo(path, 0600), 0);
    unusable_place(path); /* and does not wait for a writer */
    unlink(path);
    assert_int_equal(symlink(path, path), 0);
    unusable_place(path);
    unlink(path);
}

/* ---- An allocator that fails at its nth call */

static int calls, fails_at;

static void *failing_alloc(void *user, size_t bytes)
{
    (void)user;
    void *block;
    return ++calls == fails_at || posix_memalign(&block, 64, bytes) != 0 ? NULL : block;
}

static void failing_free(void *user, void *block)
{
    (void)user;
    free(block);
}

static void short_of_memory(void **state)
{
    (void)state;
    const char *path = fresh_path();
    size_t bytes;
    char *text = good_text(path, &bytes);
    int finished = 0;
    for (fails_at = 1; !finished; fails_at++) {
        const convoy_context_options options = {
            .threads = 1, .isa = "scalar", .wisdom = path, .allocator = {failing_alloc, failing_free, NULL}};
        const convoy_plan_options quick = {.effort = CONVOY_MEASURE, .time_limit_s = 1e-5};
        convoy_context *context;
        convoy_plan *plan;
        convoy_problem p;
        write_file(path, text, bytes);
        calls = 0;
        convoy_status status = convoy_context_create(&options, &context);
        if (status == CONVOY_OK) {
            assert_int_equal(convoy_problem_parse("n1c1h9k1r3", &p), CONVOY_OK);
            status = convoy_plan_create(context, &p, &quick, &plan);
            convoy_plan_destroy(plan);
            convoy_context_destroy(context);
        }
        assert_true(status == CONVOY_OK || status == CONVOY_OUT_OF_MEMORY);
        int damaged;
        assert_true(count_entries(path, &damaged) >= 2);
        assert_int_equal(damaged, 0);
        finished = calls < fails_at;
        assert_true(!finished || status == CONVOY_OK);
    }
    free(text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_anywhere), cmocka_unit_test(flipped_bits),     cmocka_unit_test(lost_head),
        cmocka_unit_test(not_for_us),         cmocka_unit_test(files_left_alone), cmocka_unit_test(places),
        cmocka_unit_test(short_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
