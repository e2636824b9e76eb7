/* The scatter kernel's planner: what the kernel takes for granted of pools, stages and banks, on many shapes and GPUs.
 */
#include "chain/scatter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const cv_chain_gpu gpus[] = {
    {132, 232448, 6.7e13, 4.2e12}, {108, 166912, 1.9e13, 1.7e12}, {58, 101376, 3e13, 2.6e11}};

static cv_chain_shape shape_of(int64_t n, int64_t c, int64_t h, int64_t w, int64_t k, int64_t r, int64_t s,
                               int64_t stride, int64_t pad, int64_t groups)
{
    const int64_t p = (h + 2 * pad - r) / stride + 1, q = (w + 2 * pad - s) / stride + 1, cg = c / groups;
    const cv_chain_shape a = {n,
                              c,
                              h,
                              w,
                              k,
                              r,
                              s,
                              p,
                              q,
                              stride,
                              stride,
                              pad,
                              pad,
                              pad,
                              pad,
                              1,
                              1,
                              groups,
                              {c * h * w, h * w, w, 1},
                              {cg * r * s, r * s, s, 1},
                              {k * p * q, p * q, q, 1}};
    return a;
}

static int64_t draw(int64_t low, int64_t high) { return low + rand() % (high - low + 1); }

static void check(const cv_chain_shape *s, const cv_chain_gpu *gpu, const cv_scatter *a)
{
    assert_true(a->shared + 3 * 1024 <= gpu->shared_bytes);
    assert_true(4u * (2u * (unsigned)a->stage + (unsigned)a->kb * 64 + CV_SCATTER_CAP + 16u * (unsigned)a->deal) <=
                a->shared);
    assert_true(a->cc >= 1 && a->cc <= a->cg);
    assert_true(a->cc * a->plane + a->kb * a->wp <= a->stage);
    /* a channel's windows, with the pitches that a pool may choose, and what 16-byte copies add */
    const int widest = a->pitch + 4 * (a->pitches - 1), columns = a->tq < a->q ? a->tq : a->q;
    assert_true(a->rows >= (a->tp - 1) * a->st_h + a->r && a->plane >= a->rows * widest);
    assert_true(a->pitch >= (((columns - 1) * a->st_w + a->s + a->shift + 3) & ~3));
    assert_true(a->wp >= a->cc * a->r * a->s && a->wp % 4 == 0 && a->stage % 32 == 0);
    assert_true(a->tq % 32 == 0); /* a mask's word belongs to one pool */
    if (a->late) {                /* a lane goes on from bank to bank over rows, channels and stages */
        assert_int_equal(a->pitches, 1);
        assert_int_equal(a->pitch % 32, a->s % 32);
        assert_int_equal(a->plane % 32, 0);
        assert_int_equal(a->r * a->s % 32, 0);
        assert_true(a->r * a->s / 8 >= CV_SCATTER_LATE + 3); /* head and tail of a stage do not meet */
    }
    if (a->bulk) {
        assert_true(!a->padded && a->shift == 0 && a->vec_x && a->vec_w && a->packed_w);
        assert_true(a->w % 4 == 0 && a->s % 4 == 0 && a->pitch % 4 == 0 && a->plane % 4 == 0);
    }
    /* every output has a pool of its own place, in order */
    int last = -1;
    int64_t seen = 0;
    for (int n = 0; n < a->n; n++)
        for (int g = 0; g < a->groups; g++)
            for (int p = 0; p < a->p; p += a->tp)
                for (int q = 0; q < a->q; q += a->tq)
                    for (int k = 0; k < a->kg; k += a->kb) {
                        const int pool = cv_scatter_pool(a, n, g * a->kg + k, p, q);
                        assert_int_equal(pool, last + 1);
                        const int p_end = (p + a->tp < a->p ? p + a->tp : a->p) - 1,
                                  q_end = (q + a->tq < a->q ? q + a->tq : a->q) - 1,
                                  k_end = (k + a->kb < a->kg ? k + a->kb : a->kg) - 1;
                        assert_int_equal(cv_scatter_pool(a, n, g * a->kg + k_end, p_end, q_end), pool);
                        seen += (int64_t)(p_end - p + 1) * (q_end - q + 1) * (k_end - k + 1);
                        last = pool;
                    }
    assert_int_equal(last + 1, a->pools);
    assert_true(seen == s->n * s->k * s->p * s->q);
}

static void plans_hold(void **state)
{
    (void)state;
    static const int64_t sides[] = {1, 3, 4, 5, 8, 12, 16, 24, 31, 32};
    int planned = 0, late = 0, bulk = 0;
    srand(5);
    for (int i = 0; i < 3000; i++) {
        const int64_t r = sides[draw(0, 9)], s = sides[draw(0, 9)], groups = draw(1, 2),
                      pad = draw(0, 3) ? 0 : draw(1, 5);
        const cv_chain_shape shape = shape_of(draw(1, 3), groups * draw(1, 70), r + draw(0, 60), s + draw(0, 120),
                                              groups * draw(1, 70), r, s, draw(0, 3) ? 1 : draw(2, 3), pad, groups);
        cv_scatter a;
        const cv_chain_gpu *gpu = &gpus[i % 3];
        if (cv_scatter_plan(&shape, gpu, &a))
            continue;
        check(&shape, gpu, &a);
        planned++, late += a.late > 0, bulk += a.bulk;
    }
    assert_true(planned > 2500 && late > 200 && bulk > 100);
}

/* Where packed tensors allow bulk copies and late lanes: the problems that these are for. */
static void large_kernels(void **state)
{
    (void)state;
    static const int64_t side[][4] = {{128, 64, 64, 8}, {128, 64, 64, 16}, {256, 128, 128, 16}, {256, 128, 128, 32}};
    for (int i = 0; i < 4; i++) {
        const cv_chain_shape s =
            shape_of(2, side[i][1], side[i][0], side[i][0], side[i][2], side[i][3], side[i][3], 1, 0, 1);
        cv_scatter a;
        assert_int_equal(cv_scatter_plan(&s, &gpus[0], &a), 0);
        assert_true(a.late == CV_SCATTER_LATE && a.bulk);
        check(&s, &gpus[0], &a);
    }
}

static void refusals(void **state)
{
    (void)state;
    cv_scatter a;
    cv_chain_shape s = shape_of(1, 2, 20, 20, 2, 3, 3, 1, 0, 1);
    assert_int_equal(cv_scatter_plan(&s, &gpus[0], &a), 0);
    s.dil_w = 2;
    assert_int_equal(cv_scatter_plan(&s, &gpus[0], &a), -1);
    const cv_chain_shape wide = shape_of(1, 1, 700, 700, 1, 600, 600, 1, 0, 1); /* a window beyond shared memory */
    assert_int_equal(cv_scatter_plan(&wide, &gpus[0], &a), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_hold), cmocka_unit_test(large_kernels),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests_name("scatter_plan", tests, NULL, NULL);
}
