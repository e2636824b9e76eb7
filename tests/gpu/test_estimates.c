/* What the vendors' engines are said to take, on the host, against what they took on an H200
 * (bench/results/h200-tune-compare.json): auto compares these figures with those of the other engines. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cufft/spectral.h"
#if CV_WITH_CUDNN
#include "cudnn/graph.h"
#endif

static const cv_machine h200 = {.device = CONVOY_CUDA,
                                .flop_per_s = 66.9e12,
                                .bytes_per_s = 4.2e12,
                                .sm_count = 132,
                                .gpu_l2_bytes = 60 << 20,
                                .gpu_memory_bytes = 140ull << 30};

static cv_request request_of(const char *problem)
{
    cv_request q;
    memset(&q, 0, sizeof q);
    assert_int_equal(convoy_problem_parse(problem, &q.p), CONVOY_OK);
    assert_int_equal(convoy_problem_output(&q.p, &q.P, &q.Q), CONVOY_OK);
    q.cg = q.p.c / q.p.groups;
    q.kg = q.p.k / q.p.groups;
    q.workspace_limit = (size_t)8 << 30;
    q.machine = &h200;
    return q;
}

static void near(const char *problem, double predicted_s, double measured_ms, double factor)
{
    const double ratio = 1e3 * predicted_s / measured_ms;
    if (!(ratio >= 1 / factor && ratio <= factor))
        fail_msg("%s: %.4f ms predicted, %.4f measured", problem, 1e3 * predicted_s, measured_ms);
}

static void cufft(void **state)
{
    (void)state;
    static const struct {
        const char *problem;
        cv_candidate candidate;
        double ms;
    } seen[] = {
        {"n4c64h128k64r8", {{32, 48, 25}}, 0.244},     {"n1c128h256k128r32", {{64, 56, 29}}, 1.131},
        {"n5c1h5k1r5", {{16, 16, 9}}, 0.052},          {"n1c4h64k4r64", {{64, 64, 33}}, 0.072},
        {"n1c1h331k1r31", {{135, 336, 169}}, 0.136},   {"n1c1h1024k1r31_padsame", {{375, 560, 281}}, 0.250},
        {"n1c1h2048k1r127", {{768, 768, 385}}, 0.554}, {"n8c96h56r31_padsame_gc", {{90, 90, 46}}, 0.201},
    };
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        const cv_request q = request_of(seen[i].problem);
        cv_spectral s;
        assert_true(cv_spectral_make(&q, &seen[i].candidate, 0, &s));
        near(seen[i].problem, cv_spectral_seconds(&q, &s), seen[i].ms, 1.25);
    }
}

static void cudnn(void **state)
{
    (void)state;
#if CV_WITH_CUDNN
    static const struct {
        const char *problem;
        int engine, a, b;
        unsigned notes;
        double ms;
    } seen[] = {
        {"n1c1h331k1r31", 70, 12, 1, 0, 0.312},
        {"n1c1h1024k1r31_padsame", 70, 12, 1, 0, 3.415},
        {"n1c3h39w17k3r11", 70, 12, 1, 0, 0.0205},
        {"n1c32h64k32r4", 70, 12, 0, 0, 0.0227},
        {"n8c64h56k64r3_pad1", 70, 2, 0, 0, 0.0703},
        {"n1c64h128k64r8", 28, 4, 0, 0, 0.430},
        {"n1c128h256k128r32", 1, -1, -1, 0, 47.6},
        {"n8c320h14r13_padsame_gc", 0, -1, -1, 0, 0.052},
        {"n8c384h14r7_padsame_gc", 28, 4, 0, 0, 1.57},
        {"n16c128h32k128r9", 3, -1, -1, CV_DNN_FFT, 0.160},
        {"n16c128h16k128r7", 3, 1, -1, CV_DNN_FFT, 1.131},
        {"n2c128h256k128r16", 4, -1, -1, CV_DNN_FFT, 13.5},
        {"n1c256h14k256r3_pad1", 4, -1, -1, CV_DNN_FFT, 0.229},
        {"n16c384h13k384r3", 6, -1, -1, CV_DNN_WINOGRAD, 0.137},
    };
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        const cv_request q = request_of(seen[i].problem);
        cv_dnn_config c = {.candidate = {{seen[i].engine, seen[i].a, seen[i].b}}, .notes = seen[i].notes};
        near(seen[i].problem, cv_dnn_seconds(&q, &c, 0), seen[i].ms, 1.3);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cufft), cmocka_unit_test(cudnn)};
    return cmocka_run_group_tests_name("estimates", tests, NULL, NULL);
}
