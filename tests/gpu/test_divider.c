/* Division by a host-made reciprocal, as the kernels of src/chain do it: exact for every numerator below 2^31. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "chain/chain_host.h"

/* cv_divide of slide_parts.cuh, with the high half of a product spelled out. */
static int64_t divide(int64_t n, cv_divider by)
{
    return by.d == 1 ? n : (int64_t)(((uint64_t)n * by.magic >> 32) >> by.shift);
}

static void check(int64_t n, int64_t d)
{
    if (n >= 0 && n <= INT32_MAX && divide(n, cv_divider_make(d)) != n / d)
        fail_msg("%lld / %lld gives %lld", (long long)n, (long long)d, (long long)divide(n, cv_divider_make(d)));
}

static void check_around(int64_t d)
{
    static const int64_t multiples[] = {0, 1, 2, 3, 1000, 46341};
    const int64_t most = INT32_MAX / d;
    for (int i = 0; i < (int)(sizeof multiples / sizeof *multiples); i++)
        for (int64_t off = -1; off <= 1; off++) {
            check(multiples[i] * d + off, d);
            check((most - multiples[i]) * d + off, d);
        }
    check(INT32_MAX, d);
    check(INT32_MAX - 1, d);
}

static void small_divisors(void **state)
{
    (void)state;
    for (int64_t d = 1; d <= 5000; d++)
        check_around(d);
}

static void powers_of_two_and_neighbours(void **state)
{
    (void)state;
    for (int shift = 1; shift < 31; shift++)
        for (int64_t off = -1; off <= 1; off++)
            if (((int64_t)1 << shift) + off > 0)
                check_around(((int64_t)1 << shift) + off);
    check_around(INT32_MAX);
}

static void pairs_at_random(void **state)
{
    (void)state;
    uint64_t r = 88172645463325252u;
    for (int i = 0; i < 2000000; i++) {
        r ^= r << 13, r ^= r >> 7, r ^= r << 17;
        check((int64_t)(r >> 33), 1 + (int64_t)(r & 0x7ffffffe) % ((int64_t)1 << (1 + i % 30)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_divisors),
        cmocka_unit_test(powers_of_two_and_neighbours),
        cmocka_unit_test(pairs_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
