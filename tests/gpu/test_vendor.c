/* Vendors' libraries that are missing, broken or misnamed: a reason in words, never a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* ---- Libraries that load and will not do (fake_vendor.c). A process asks for each library once, so every kind has a
 * process of its own. */

static void aim(const char *variable, const char *kind)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", FAKES, kind);
    setenv(variable, path, 1);
}

/* In the child: 0 when the library is refused with these words, or accepted where there are none. */
static int judge(const char *name, int accepted, const char *text, const char *one, const char *two)
{
    const int right = one ? !accepted && strstr(text, one) && strstr(text, two) : accepted;
    if (!right)
        fprintf(stderr, "%s: %s, expected %s%s%s; the text is: %s\n", name, accepted ? "accepted" : "refused",
                one ? one : "acceptance", one ? " and " : "", one ? two : "", text);
    return !right;
}

static int open_cudnn(const char *kind, const cv_machine *m, const char *one, const char *two)
{
    int wrong = 0;
    (void)kind, (void)m, (void)one, (void)two;
#if CV_WITH_CUDNN
    char text[256] = "";
    aim("CONVOY_CUDNN_PATH", kind);
    wrong = judge("cudnn", cv_cudnn_open(m, text, sizeof text) != NULL, text, one, two);
#endif
    return wrong;
}

static int open_fft_parts(const char *kind, const cv_machine *m, const char *fft[2], const char *blas[2])
{
    int wrong = 0;
    (void)kind, (void)m, (void)fft, (void)blas;
#if CV_WITH_CUFFT
    char text[256] = "";
    aim("CONVOY_CUFFT_PATH", kind);
    aim("CONVOY_CUBLAS_PATH", kind);
    wrong = judge("cufft", cv_cufft_open(m, text, sizeof text) != NULL, text, fft[0], fft[1]);
    text[0] = 0;
    wrong |= judge("cublas", cv_cublas_open(m, text, sizeof text) != NULL, text, blas[0], blas[1]);
#endif
    return wrong;
}

static int good_ones(const cv_machine *m)
{
    const char *none[2] = {NULL, NULL};
    char text[200];
    int wrong = open_cudnn("good", m, NULL, NULL) | open_fft_parts("good", m, none, none);
    cv_vendor_versions(m, text, sizeof text);
#if CV_WITH_CUDNN && CV_WITH_CUFFT
    wrong |= strcmp(text, "cudnn: 9.19.0\ncufft: 12.1.3\ncublas: 13.1.2\n") != 0;
#endif
    return wrong;
}

static int without_a_symbol(const cv_machine *m)
{
    const char *fft[2] = {"no cufftExecC2C", "too old"}, *blas[2] = {"no cublasCgemmStridedBatched", "too old"};
    return open_cudnn("gone", m, "no cudnnBackendExecute", "too old") | open_fft_parts("gone", m, fft, blas);
}

static int of_an_old_major(const cv_machine *m)
{
    return open_cudnn("old", m, "cuDNN 7.6.5 has no graph interface", "8 or later");
}

/* Built for a CUDA that the driver does not know yet. */
static int newer_than_the_driver(const cv_machine *m)
{
    const char *fft[2] = {"cuFFT 98.0 is built for CUDA 99", "the driver supports CUDA 13.0"};
    const char *blas[2] = {"cuBLAS 99.0 is built for CUDA 99", "the driver supports CUDA 13.0"};
    return open_cudnn("newer", m, "is built for CUDA 99", "the driver supports CUDA 13.0") |
           open_fft_parts("newer", m, fft, blas);
}

static void libraries_that_will_not_do(void **state)
{
    (void)state;
    static int (*const kinds[])(const cv_machine *) = {good_ones, without_a_symbol, of_an_old_major,
                                                       newer_than_the_driver};
    const cv_machine machine = {.device = CONVOY_CUDA, .driver_version = 13000};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int status = 0;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            _exit(kinds[i](&machine));
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("kind %zu: status %d (the words are above)", i, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_missing_library_is_named),
        cmocka_unit_test(the_variable_counts_alone),
        cmocka_unit_test(folders_are_searched),
        cmocka_unit_test(libraries_that_will_not_do), /* before this process itself has asked */
        cmocka_unit_test(engines_get_their_reasons),
    };
    return cmocka_run_group_tests_name("vendor", tests, setup, teardown);
}
