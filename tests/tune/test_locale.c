/* A program whose decimal point is a comma: what is written, read and understood is the same as everywhere. The locale
 * is made here, with localedef, since a bare machine has none but C's. */
#include "files.h"

#include <locale.h>
#include <unistd.h>

static char folder[] = "/tmp/convoy-locale-XXXXXX";

static int make_locale(void **state)
{
    char path[64], command[256];
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/source", folder);
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n";
    write_file(path, source, sizeof source - 1);
    snprintf(command, sizeof command, "localedef -c -i %s %s/de_TEST >/dev/null 2>&1", path, folder);
    (void)!system(command); /* which ends with 1 for its warnings */
    return setenv("LOCPATH", folder, 1);
}

static int remove_locale(void **state)
{
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* 0 where the system cannot have such a locale. */
static int with_commas(void)
{
    char text[8];
    if (!setlocale(LC_ALL, "de_TEST"))
        return 0;
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
    return 1;
}

static void with_points(void) { assert_non_null(setlocale(LC_ALL, "C")); }

static const convoy_plan_options match = {
    .math = CONVOY_MATH_MATCH, .rtol = 1.5e-3, .atol = 0.25, .effort = CONVOY_MEASURE, .time_limit_s = 0.02};

/* Measured in one locale, found in the other, in both directions; the keys are the same text. */
static void wisdom_crosses_locales(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        const char *path = fresh_path();
        int warnings, damaged;
        for (int second = 0; second < 2; second++) {
            if (first != second && !with_commas())
                skip();
            convoy_context *context = context_with(path, &warnings);
            const convoy_plan_info info = plan_once(context, "n1c2h40k2r9", &match);
            assert_int_equal(info.source, second ? CONVOY_FROM_WISDOM : CONVOY_FROM_MEASURE);
            convoy_context_destroy(context);
            assert_int_equal(warnings, 0);
            with_points();
        }
        assert_int_equal(count_entries(path, &damaged), 1);
        assert_int_equal(damaged, 0);
        char *value = value_of(path, "n1c2h40k2r9 match:0.0015,0.25");
        assert_non_null(value);
        assert_null(strchr(value, ','));
        free(value);
        unlink(path);
    }
}

static void words_are_the_same(void **state)
{
    (void)state;
    char info[2][4096], text[2][200], message[2][512];
    for (int commas = 0; commas < 2; commas++) {
        convoy_problem p;
        convoy_context *context;
        if (commas && !with_commas())
            skip();
        assert_int_equal(convoy_context_create(&(convoy_context_options){.wisdom = "off"}, &context), CONVOY_OK);
        snprintf(info[commas], sizeof info[0], "%s", convoy_context_info(context));
        assert_int_equal(convoy_problem_parse("n12000c3h1234w5678k16r31s7_st2x3_pad1,2,3,4", &p), CONVOY_OK);
        convoy_problem_print(&p, text[commas], sizeof text[0]);
        assert_int_equal(convoy_problem_parse("n1c1,5h8r3", &p), CONVOY_INVALID);
        snprintf(message[commas], sizeof message[0], "%s", convoy_last_message());
        convoy_context_destroy(context);
        with_points();
    }
    assert_string_equal(info[1], info[0]);
    assert_string_equal(text[1], text[0]);
    assert_string_equal(message[1], message[0]);
}

int main(void)
{
    const struct CMUnitTest locales[] = {cmocka_unit_test(wisdom_crosses_locales),
                                         cmocka_unit_test(words_are_the_same)};
    return cmocka_run_group_tests_name("locale", locales, make_locale, remove_locale);
}
