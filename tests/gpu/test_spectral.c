/* The tiling of the engine cufft, on the host: whatever the problem and the limit, the tiles cover y, each tile's rows
 * of x are stored where it looks for them, and the workspace keeps the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "spectral.h"

static const cv_machine machine = {.device = CONVOY_CUDA,
                                   .flop_per_s = 60e12,
                                   .bytes_per_s = 4e12,
                                   .gpu_l2_bytes = 50 << 20,
                                   .gpu_memory_bytes = 80ull << 30};

static cv_request request_of(const char *problem, size_t limit)
{
    cv_request q;
    memset(&q, 0, sizeof q);
    assert_int_equal(convoy_problem_parse(problem, &q.p), CONVOY_OK);
    assert_int_equal(convoy_problem_output(&q.p, &q.P, &q.Q), CONVOY_OK);
    q.cg = q.p.c / q.p.groups;
    q.kg = q.p.k / q.p.groups;
    q.workspace_limit = limit;
    q.machine = &machine;
    return q;
}

static int smooth(int n)
{
    for (int prime = 2; prime <= 7; prime++)
        while (n % prime == 0)
            n /= prime;
    return n == 1;
}

/* Every row of x that an output of the band needs lies in the rows that the band stores. */
static void check_band(const cv_request *q, const cv_spectral *s, int64_t t, int64_t count)
{
    int64_t first;
    const int64_t rows = cv_spectral_rows(q, s, t, count, &first);
    assert_true(first >= 0 && rows >= 0 && first + rows <= q->p.h + (rows == 0 ? first : 0));
    for (int64_t p = t * s->tile_p; p < (t + count) * s->tile_p && p < q->P; p++)
        for (int64_t r = 0; r < q->p.r; r++) {
            const int64_t h = p * q->p.stride_h + r * q->p.dil_h - q->p.pad_t;
            if (h >= 0 && h < q->p.h)
                assert_true(h >= first && h < first + rows);
        }
    assert_true((double)s->x_rows_bytes >= (double)(s->n_at_once * s->g_at_once * q->cg * rows * s->tw) * s->bins * 8);
}

static void check(const cv_request *q, const cv_spectral *s)
{
    const int64_t high = q->p.dil_h * (q->p.r - 1) + 1, wide = q->p.dil_w * (q->p.s - 1) + 1;
    assert_true(s->own_bytes <= q->workspace_limit);
    assert_true(s->tile_p >= 1 && s->tile_q >= 1 && s->th * s->tile_p >= q->P && s->tw * s->tile_q >= q->Q);
    assert_true((s->th - 1) * s->tile_p < q->P && (s->tw - 1) * s->tile_q < q->Q);
    /* the last output of a tile still finds its whole kernel in it */
    assert_true((s->tile_p - 1) * q->p.stride_h + high <= s->ty && (s->tile_q - 1) * q->p.stride_w + wide <= s->tx);
    assert_true(s->step_h == s->tile_p * q->p.stride_h && s->step_w == s->tile_q * q->p.stride_w);
    assert_true(s->kx >= 1 && s->kx <= s->bins && s->bins == s->tx / 2 + 1);
    assert_true(s->g_at_once >= 1 && s->k_at_once >= 1 && s->n_at_once >= 1 && s->t_at_once >= 1);
    assert_true(s->g_at_once == 1 || s->k_at_once == q->kg);
    for (int64_t t = 0; t < s->th; t += s->t_at_once)
        check_band(q, s, t, s->t_at_once < s->th - t ? s->t_at_once : s->th - t);
}

static const char *const problems[] = {"n4c64h128k64r8",
                                       "n1c128h256k128r32",
                                       "n1c3h39w17k3r11",
                                       "n2c6h17k9r4_pad0,1,0,1",
                                       "n2c8h33w29k12r5_st3x2_pad2_dil2x1_g4",
                                       "n1c4h64k4r63_pad31",
                                       "n1c16h40k16r15_st4x4_pad7",
                                       "n1c1h8k1r31_pad15",
                                       "n4c16h48k16r12_g16",
                                       "n1c2h1w127k2r1s11",
                                       "n8c96h56r51s5_padsame_gc",
                                       "n1c1h2048k1r127",
                                       "n1c1h300k2r40_pad70",
                                       "n1c1h9k1r9",
                                       "n3c2h70w40k4r5_st9x7_pad3"};
static const size_t limits[] = {(size_t)256 << 10, (size_t)2 << 20, (size_t)16 << 20, (size_t)512 << 20,
                                (size_t)8 << 30};

static void tiles_cover_and_limits_hold(void **state)
{
    (void)state;
    static cv_candidate list[CV_CANDIDATES];
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        int before = 0;
        for (size_t l = 0; l < sizeof limits / sizeof *limits; l++)
            for (int prepared = 0; prepared < 2; prepared++) {
                cv_request q = request_of(problems[i], limits[l]);
                q.prepared = prepared;
                const int count = cv_spectral_candidates(&q, list, CV_CANDIDATES);
                double last = 0;
                for (int j = 0; j < count; j++) {
                    cv_spectral s;
                    assert_true(cv_spectral_make(&q, &list[j], 0, &s));
                    check(&q, &s);
                    assert_true(smooth(s.ty) && smooth(s.tx) && s.tx % 2 == 0 && s.ty >= 16 && s.ty <= 1024 &&
                                s.tx <= 1024);
                    const double seconds = cv_spectral_seconds(&q, &s);
                    assert_true(seconds > 0 && seconds >= last); /* likely best first */
                    last = seconds;
                }
                if (!prepared) {
                    if (before && !count)
                        fail_msg("%s: none with %zu bytes, some with less", problems[i], limits[l]);
                    before = count;
                }
            }
        assert_true(before > 0); /* 8 GiB are enough for each of these */
    }
}

static void reserved_bytes_are_left(void **state)
{
    (void)state;
    const cv_request q = request_of("n4c64h128k64r8", (size_t)96 << 20);
    const cv_candidate c = {{32, 48, 25}};
    cv_spectral s;
    assert_true(cv_spectral_make(&q, &c, (size_t)30 << 20, &s));
    assert_true(s.own_bytes <= (size_t)66 << 20);
    assert_false(cv_spectral_make(&q, &c, (size_t)97 << 20, &s));
    assert_false(cv_spectral_make(&q, &c, (size_t)96 << 20, &s));
}

static void impossible_candidates_are_refused(void **state)
{
    (void)state;
    const cv_request q = request_of("n1c128h256k128r32", (size_t)8 << 30);
    const cv_candidate bad[] = {{{31, 64, 33}},   {{64, 30, 16}}, {{64, 64, 0}},
                                {{2048, 64, 33}}, {{64, -64, 3}}, {{0, 0, 0}}};
    cv_spectral s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(cv_spectral_make(&q, &bad[i], 0, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiles_cover_and_limits_hold),
        cmocka_unit_test(reserved_bytes_are_left),
        cmocka_unit_test(impossible_candidates_are_refused),
    };
    return cmocka_run_group_tests_name("spectral", tests, NULL, NULL);
}
