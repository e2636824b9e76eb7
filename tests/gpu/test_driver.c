/* Drivers that are missing, too old, broken, or stubs (fake_driver.c), under the CUDA runtime that the library is
 * linked with: each is told in words, and the CPU goes on working. The driver is loaded once a process, so the program
 * runs itself with another LD_LIBRARY_PATH for each. */
#include "conv/harness.h"

#include <sys/stat.h>
#include <unistd.h>

/* In the child: what a context on the GPU comes to, "STATUS words"; then a plan on the CPU must work as ever. */
static int probe(void)
{
    convoy_context *context;
    convoy_plan *plan;
    const convoy_status status =
        convoy_context_create(&(convoy_context_options){.device = CONVOY_CUDA, .wisdom = "off"}, &context);
    printf("%d %s\n", (int)status, convoy_last_message());
    if (status == CONVOY_OK || context)
        return 1;
    const convoy_problem p = convoy_problem_make(1, 2, 20, 20, 2, 3, 3);
    if (convoy_context_create(&(convoy_context_options){.wisdom = "off"}, &context) != CONVOY_OK ||
        convoy_plan_create(context, &p, NULL, &plan) != CONVOY_OK)
        return 2;
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    return 0;
}

static void says(const char *folder, convoy_status status, const char *one, const char *two)
{
    char line[600];
    const int end = probe_with_libraries(folder, line, sizeof line);
    if (end != 0 || atoi(line) != (int)status || !strstr(line, one) || !strstr(line, two))
        fail_msg("%s: ended with 0x%x, expected %d and '%s' and '%s' in: %s", folder, end, (int)status, one, two, line);
}

static void drivers_that_will_not_do(void **state)
{
    (void)state;
    says(FAKES "/driver_gone", CONVOY_UNSUPPORTED, "cudaErrorCallRequiresNewerDriver", "");
    says(FAKES "/driver_old", CONVOY_UNSUPPORTED, "the driver supports CUDA 11.8, expected", "or newer");
    says(FAKES "/driver_bare", CONVOY_UNSUPPORTED, "the driver sees no NVIDIA GPU", "");
    says(FAKES "/driver_busy", CONVOY_UNSUPPORTED, "cudaErrorSystemNotReady", "");
    says(FAKES "/driver_stub", CONVOY_UNSUPPORTED, "cudaErrorStubLibrary", "");
    says(FAKES "/driver_lacks", CONVOY_UNSUPPORTED, "device is cuda: ", "cudaError");
    says(FAKES "/driver_hollow", CONVOY_UNSUPPORTED, "device is cuda: ", "cudaErrorUnknown");
}

/* Not a library at all, or an empty file, as a half-finished upgrade leaves it. */
static void drivers_that_do_not_load(void **state)
{
    static const char *const content[] = {"no library\n", ""};
    char folder[] = "/tmp/convoy-driver-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    for (int i = 0; i < 2; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(content[i], f) >= 0);
        assert_int_equal(fclose(f), 0);
        says(folder, CONVOY_UNSUPPORTED, "no NVIDIA driver", "");
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        return probe();
    const struct CMUnitTest driver[] = {cmocka_unit_test(drivers_that_will_not_do),
                                        cmocka_unit_test(drivers_that_do_not_load)};
    return RUN_TESTS(driver);
}
