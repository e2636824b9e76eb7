/* Problem strings: the grammar of docs/problem-strings.md both ways, and a message with the place for every way to get
 * it wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <convoy/convoy.h>

static void prints_as(void **state)
{
    static const char *const pair[][2] = {
        {"n4c64h128k64r8", "n4c64h128k64r8"},
        {"n4c64h128w128k64r8s8_st1x1_pad0,0,0,0_dil1x1_g1", "n4c64h128k64r8"},
        {"A", "n4c64h128k64r8"},
        {"B", "n4c64h128k64r16"},
        {"C", "n2c128h256k128r16"},
        {"D", "n1c128h256k128r32"},
        {"c3h9r2", "n1c3h9k3r2"},
        {"n2c8h33w29k12r5_st3x2_pad2_dil2x1_g4", "n2c8h33w29k12r5_st3x2_pad2_dil2x1_g4"},
        {"n1c1h64k1r31_padsame", "n1c1h64k1r31_pad15"},
        {"n1c1h64k1r4_padsame", "n1c1h64k1r4_pad1,2,1,2"},
        {"n1c1h64k1r4_padsame_dil2", "n1c1h64k1r4_pad3_dil2"},
        {"n8c96h56r51s5_padsame_gc", "n8c96h56k96r51s5_pad25x2_gc"},
        {"n4c16h48k16r12_g16", "n4c16h48k16r12_gc"},
        {"n1c1h8k1r3_g1", "n1c1h8k1r3"},
        {"n1c1h8k1r3_gc", "n1c1h8k1r3"},
        {"n1c4h8k8r3_gc", "n1c4h8k8r3_gc"},
        {"n1c4h8k4r3_pad1x2", "n1c4h8k4r3_pad1x2"},
        {"n1c4h8k4r3_pad1,1,2,2", "n1c4h8k4r3_pad1x2"},
        {"n1c4h8k4r3_pad0", "n1c4h8k4r3"},
        {"n1c4h8w8k4r3s3_st2x2", "n1c4h8k4r3_st2"},
        {"n0c0h0w5k0r1s1_pad1", "n0c0h0w5k0r1_pad1"},
        {"n007c1h8k1r3", "n7c1h8k1r3"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        convoy_problem p, again;
        char text[128];
        if (convoy_problem_parse(pair[i][0], &p) != CONVOY_OK)
            fail_msg("%s", convoy_last_message());
        assert_int_equal(convoy_problem_print(&p, text, sizeof text), strlen(pair[i][1]));
        assert_string_equal(text, pair[i][1]);
        assert_int_equal(convoy_problem_parse(text, &again), CONVOY_OK);
        assert_memory_equal(&p, &again, sizeof p);
    }
}

static void refuses(void **state)
{
    static const char *const pair[][2] = {
        {"", "character 1 ('the end') expected 'c'"},
        {"E", "character 1"},
        {"AB", "character 1"},
        {"n4", "character 3"},
        {"n4c64", "'h' and its size"},
        {"n4c64h128k64", "'r' and its size"},
        {"n4c64h128k64r8 ", "character 15"},
        {" n4c64h128k64r8", "character 1"},
        {"n-1c1h8r3", "expected a number"},
        {"ncc", "expected a number"},
        {"c1n1h8r3", "expected 'h'"},
        {"c1h8r3_dil2_st2", "in this order, once each"},
        {"c1h8r3_st2_st2", "in this order, once each"},
        {"c1h8r3_st", "expected a number"},
        {"c1h8r3_st2x", "expected a number"},
        {"c1h8r3_pad1,2", "of four pads"},
        {"c1h8r3_pad1,2,3", "of four pads"},
        {"c1h8r3_pad1,2,3,4,5", "expected the end"},
        {"c1h8r3_padsam", "expected a number"},
        {"c1h8r3_padsame_g", "expected a number"},
        {"c1h8r3_st2_padsame", "expected stride 1"},
        {"c1h9223372036854775808r3", "below 2^63"},
        {"c1h99999999999999999999999999999999r3", "below 2^63"},
        {"c1h9223372036854775807r3", "h is 9223372036854775807"},
        {"c1h2r3", "effective kernel is 3 and the padded image 2"},
        {"c1h2r2_dil3", "effective kernel is 4 and the padded image 2"},
        {"c6h8k4r3_g3", "groups is 3"},
        {"c6h8k6r0", "r is 0"},
        {"c6h8k6r9223372036854775807_padsame_dil9223372036854775807", "r is 9223372036854775807"},
        {"c4294967296h4294967296k1r1", "x has"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        convoy_problem p, none;
        memset(&p, 0x55, sizeof p);
        memset(&none, 0, sizeof none);
        assert_int_equal(convoy_problem_parse(pair[i][0], &p), CONVOY_INVALID);
        if (!strstr(convoy_last_message(), pair[i][1]))
            fail_msg("'%s': expected a message with \"%s\", got \"%s\"", pair[i][0], pair[i][1], convoy_last_message());
        assert_memory_equal(&p, &none, sizeof p);
    }
    convoy_problem p;
    assert_int_equal(convoy_problem_parse(NULL, &p), CONVOY_INVALID);
    assert_int_equal(convoy_problem_parse("A", NULL), CONVOY_INVALID);
}

/* As snprintf: what fits, always ended, and the length that is needed. */
static void short_room(void **state)
{
    convoy_problem p;
    char text[32];
    (void)state;
    assert_int_equal(convoy_problem_parse("n4c64h128k64r8_pad3", &p), CONVOY_OK);
    const size_t length = convoy_problem_print(&p, NULL, 0);
    assert_int_equal(length, strlen("n4c64h128k64r8_pad3"));
    for (size_t room = 0; room <= length + 1; room++) {
        memset(text, '#', sizeof text);
        assert_int_equal(convoy_problem_print(&p, text, room), length);
        if (room) {
            const size_t kept = room - 1 < length ? room - 1 : length;
            assert_memory_equal(text, "n4c64h128k64r8_pad3", kept);
            assert_int_equal(text[kept], 0);
        }
        assert_int_equal(text[room], '#');
    }
    assert_int_equal(convoy_problem_print(NULL, text, sizeof text), 0);
}

/* The largest numbers in every place stay within the room that the header promises for sizes below a billion. */
static void promised_room(void **state)
{
    (void)state;
    const int64_t big = 999999999;
    convoy_problem p = convoy_problem_make(big, big, big, big - 1, big, big, big - 1);
    p.stride_h = big, p.stride_w = big - 1, p.dil_h = big, p.dil_w = big - 1;
    p.pad_t = p.pad_l = big, p.pad_b = p.pad_r = big - 1;
    p.groups = big - 1;
    assert_true(convoy_problem_print(&p, NULL, 0) < 192);
}

int main(void)
{
    const struct CMUnitTest problem_string[] = {cmocka_unit_test(prints_as), cmocka_unit_test(refuses),
                                                cmocka_unit_test(short_room), cmocka_unit_test(promised_room)};
    return cmocka_run_group_tests(problem_string, NULL, NULL);
}
