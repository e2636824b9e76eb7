/* Vendors' libraries that are missing, broken or misnamed: a reason in words, never a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gpu/vendor.h"
#include "platform/library.h"

static char folder[] = "/tmp/convoy-vendor-XXXXXX";

static void write_file(const char *name, const char *content)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(content, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    write_file("libbroken.so.1", "not a library\n");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char path[200];
    snprintf(path, sizeof path, "%s/libbroken.so.1", folder);
    return unlink(path) || rmdir(folder);
}

static void a_missing_library_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {"libconvoy-nowhere.so.7", "libconvoy-nowhere.so.6", NULL};
    const cv_library_hunt hunt = {"CONVOY_TEST_LIBRARY", names, "nvidia/*/lib", NULL};
    char text[200] = "";
    unsetenv("CONVOY_TEST_LIBRARY");
    assert_null(cv_library_hunt_open(&hunt, text, sizeof text));
    assert_string_equal(
        text, "libconvoy-nowhere.so.7 was not found on this machine (CONVOY_TEST_LIBRARY can name its file or folder)");
    assert_null(cv_library_hunt_open(&hunt, text, 8)); /* a short buffer gets what fits */
    assert_true(strlen(text) == 7);
}

static void the_variable_counts_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"libm.so.6", NULL}, *const broken[] = {"libbroken.so.1", NULL};
    const cv_library_hunt real = {"CONVOY_TEST_LIBRARY", names, NULL, NULL},
                          bad = {"CONVOY_TEST_LIBRARY", broken, NULL, NULL};
    char text[200] = "", file[200];
    setenv("CONVOY_TEST_LIBRARY", folder, 1);
    assert_null(
        cv_library_hunt_open(&real, text, sizeof text)); /* the folder has none, though the loader would find it */
    assert_non_null(strstr(text, "CONVOY_TEST_LIBRARY"));
    assert_null(cv_library_hunt_open(&bad, text, sizeof text)); /* there, but no library */
    assert_non_null(strstr(text, "libbroken.so.1"));
    snprintf(file, sizeof file, "%s/libbroken.so.1", folder);
    setenv("CONVOY_TEST_LIBRARY", file, 1);
    assert_null(cv_library_hunt_open(&bad, text, sizeof text));
    assert_non_null(strstr(text, "does not load"));
    setenv("CONVOY_TEST_LIBRARY", "libm.so.6", 1); /* a name for the loader is fine too */
    assert_non_null(cv_library_hunt_open(&real, text, sizeof text));
    setenv("CONVOY_TEST_LIBRARY", "", 1); /* empty is unset */
    assert_non_null(cv_library_hunt_open(&real, text, sizeof text));
    unsetenv("CONVOY_TEST_LIBRARY");
}

static void folders_are_searched(void **state)
{
    (void)state;
    static const char *const names[] = {"libbroken.so.1", NULL};
    const char *const system[] = {folder, NULL};
    const cv_library_hunt hunt = {NULL, names, NULL, system};
    char text[200] = "";
    assert_null(cv_library_hunt_open(&hunt, text, sizeof text)); /* found, does not load, and that is no crash */
    assert_non_null(strstr(text, "was not found"));
}

/* The process asks for each library once: here with variables that name a folder without them. */
static void engines_get_their_reasons(void **state)
{
    (void)state;
    const cv_machine machine = {.device = CONVOY_CUDA, .driver_version = 13000};
    char text[300];
    setenv("CONVOY_CUDNN_PATH", folder, 1);
    setenv("CONVOY_CUFFT_PATH", folder, 1);
    setenv("CONVOY_CUBLAS_PATH", "/nonexistent/libcublas.so.13", 1);
    for (int again = 0; again < 2; again++) {
#if CV_WITH_CUDNN
        text[0] = 0;
        assert_null(cv_cudnn_open(&machine, text, sizeof text));
        assert_non_null(strstr(text, "CONVOY_CUDNN_PATH"));
#endif
#if CV_WITH_CUFFT
        text[0] = 0;
        assert_null(cv_cufft_open(&machine, text, sizeof text));
        assert_non_null(strstr(text, "CONVOY_CUFFT_PATH"));
        text[0] = 0;
        assert_null(cv_cublas_open(&machine, text, sizeof text));
        assert_non_null(strstr(text, "CONVOY_CUBLAS_PATH"));
#endif
        cv_vendor_versions(&machine, text, sizeof text);
        assert_string_equal(text, "cudnn: none\ncufft: none\ncublas: none\n");
        cv_vendor_versions(&machine, text, 10);
        assert_string_equal(text, "cudnn: no");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(the_variable_counts_alone),
        cmocka_unit_test(folders_are_searched),
        cmocka_unit_test(engines_get_their_reasons),
    };
    return cmocka_run_group_tests_name("vendor", tests, setup, teardown);
}
