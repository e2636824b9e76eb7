/* Options' values: what is taken, and that nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "options.h"

static void integers(void **state)
{
    (void)state;
    int64_t v = 0;
    assert_true(parse_int("0", 0, 10, &v) && v == 0);
    assert_true(parse_int("10", 0, 10, &v) && v == 10);
    assert_true(parse_int("-3", -5, 5, &v) && v == -3);
    assert_true(parse_int("9223372036854775807", 0, INT64_MAX, &v) && v == INT64_MAX);
    static const char *const bad[] = {"",  " 1", "1 ", "+1", "11", "-1", "1e1", "0x1", "nan", "9223372036854775808",
                                      "1,"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parse_int(bad[i], 0, 10, &v));
}

static void reals(void **state)
{
    (void)state;
    double v = 0;
    assert_true(parse_real("1e-3", 0, &v) && v == 1e-3);
    assert_true(parse_real(".5", 0, &v) && v == 0.5);
    assert_true(parse_real("0", 0, &v) && v == 0);
    static const char *const bad[] = {"", "nan", "inf", "-1", "1e999", "1.0x", " 1", "0.0009"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parse_real(bad[i], 1e-3, &v));
}

static void bytes(void **state)
{
    (void)state;
    size_t v = 0;
    assert_true(parse_bytes("0", &v) && v == 0);
    assert_true(parse_bytes("65536", &v) && v == 65536);
    assert_true(parse_bytes("3K", &v) && v == 3072);
    assert_true(parse_bytes("16M", &v) && v == (size_t)16 << 20);
    assert_true(parse_bytes("2g", &v) && v == (size_t)2 << 30);
    assert_true(parse_bytes("2GiB", &v) && v == (size_t)2 << 30);
    assert_true(parse_bytes("1T", &v) && v == (size_t)1 << 40);
    static const char *const bad[] = {
        "", "M", "-1", "1.5M", "16MB", "16 M", "16MM", "99999999999T", "9223372036854775808"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parse_bytes(bad[i], &v));
}

static void pairs(void **state)
{
    (void)state;
    int64_t v[2];
    assert_true(parse_pair("3", 1, v) && v[0] == 3 && v[1] == 3);
    assert_true(parse_pair("3x5", 1, v) && v[0] == 3 && v[1] == 5);
    static const char *const bad[] = {"", "0", "3x", "x3", "3x0", "3x5x7", "3,5", "3 x5", "-1", "3X5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parse_pair(bad[i], 1, v));
}

static void paddings(void **state)
{
    (void)state;
    int64_t v[4];
    bool same;
    assert_true(parse_padding("2", v, &same) && !same && v[0] == 2 && v[1] == 2 && v[2] == 2 && v[3] == 2);
    assert_true(parse_padding("3x5", v, &same) && !same && v[0] == 3 && v[1] == 3 && v[2] == 5 && v[3] == 5);
    assert_true(parse_padding("1,2,3,4", v, &same) && !same && v[0] == 1 && v[1] == 2 && v[2] == 3 && v[3] == 4);
    assert_true(parse_padding("same", v, &same) && same);
    static const char *const bad[] = {"", "1,2", "1,2,3", "1,2,3,4,5", "1,2,3,", "-1", "Same", "samey", "1x2x3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parse_padding(bad[i], v, &same));
}

static void devices(void **state)
{
    (void)state;
    int device = -1, index = -1;
    assert_true(parse_device("cpu", &device, &index) && device == CONVOY_CPU && index == 0);
    assert_true(parse_device("cuda", &device, &index) && device == CONVOY_CUDA && index == 0);
    assert_true(parse_device("cuda:3", &device, &index) && device == CONVOY_CUDA && index == 3);
    static const char *const bad[] = {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda3", "cpu:0", "CUDA"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(parse_device(bad[i], &device, &index));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers), cmocka_unit_test(reals),
                                       cmocka_unit_test(bytes),    cmocka_unit_test(pairs),
                                       cmocka_unit_test(paddings), cmocka_unit_test(devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
