/* oneDNN that is broken, foreign, too old or without its functions (fake_dnnl.c): declined with a reason, and the other
 * engines serve. A process asks for the library once, so the program runs itself with another LD_LIBRARY_PATH for each.
 */
#include "harness.h"

#include <sys/stat.h>
#include <unistd.h>

static void show(void *user, const convoy_explanation *line)
{
    (void)user;
    if (strcmp(line->engine, "onednn") == 0)
        printf("%s\n", line->accepted ? "accepted" : line->reason);
}

/* In the child: oneDNN's line, and a plan all the same. */
static int probe(void)
{
    convoy_context *context;
    convoy_plan *plan;
    const convoy_problem p = convoy_problem_make(1, 4, 40, 40, 4, 5, 5);
    if (convoy_context_create(&(convoy_context_options){.wisdom = "off"}, &context) != CONVOY_OK ||
        convoy_explain(context, &p, NULL, show, NULL) != CONVOY_OK ||
        convoy_plan_create(context, &p, NULL, &plan) != CONVOY_OK)
        return 1;
    convoy_plan_destroy(plan);
    const int named = convoy_plan_create(context, &p, &(convoy_plan_options){.engine = "onednn"}, &plan);
    convoy_context_destroy(context);
    return named == CONVOY_UNSUPPORTED && !plan ? 0 : 2;
}

static void says(const char *folder, const char *words)
{
    char line[600];
    const int end = probe_with_libraries(folder, line, sizeof line);
    if (end != 0 || !strstr(line, words))
        fail_msg("%s: ended with 0x%x, expected '%s' in: %s", folder, end, words, line);
}

static void libraries_that_will_not_do(void **state)
{
    (void)state;
    says(FAKES "/dnnl_alien", "libdnnl has no dnnl_version function");
    says(FAKES "/dnnl_old", "libdnnl is neither version 2 nor 3");
    says(FAKES "/dnnl_other", "does not run on OpenMP");
    says(FAKES "/dnnl_gone", "libdnnl lacks functions of its version");
}

static void libraries_that_do_not_load(void **state)
{
    static const char *const content[] = {"no library\n", ""};
    char folder[] = "/tmp/convoy-dnnl-XXXXXX", path[2][64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        for (int version = 2; version <= 3; version++) {
            snprintf(path[version - 2], sizeof path[0], "%s/libdnnl.so.%d", folder, version);
            FILE *f = fopen(path[version - 2], "w");
            assert_non_null(f);
            assert_true(fputs(content[i], f) >= 0);
            assert_int_equal(fclose(f), 0);
        }
        says(folder, "libdnnl");
    }
    assert_int_equal(unlink(path[0]) | unlink(path[1]), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        return probe();
    const struct CMUnitTest onednn[] = {cmocka_unit_test(libraries_that_will_not_do),
                                        cmocka_unit_test(libraries_that_do_not_load)};
    return RUN_TESTS(onednn);
}
