/* The oracle itself: convoy_reference against a loop nest that is written differently (scatter instead of gather), and
 * its norms; and the harness's own chain against a hand-worked sum. */
#include "harness.h"

static void scatter(const test_case *c, double *values, double *norms)
{
    const convoy_problem *p = &c->p;
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups;
    for (int64_t o = 0; o < c->outputs; o++) {
        const double b = c->bias ? (double)c->bias[o / c->Q / c->P % p->k] : 0;
        values[o] = b;
        norms[o] = fabs(b);
    }
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t channel = 0; channel < p->c; channel++)
            for (int64_t i = 0; i < p->h; i++)
                for (int64_t j = 0; j < p->w; j++)
                    for (int64_t k = channel / cg * kg; k < (channel / cg + 1) * kg; k++)
                        for (int64_t r = 0; r < p->r; r++)
                            for (int64_t s = 0; s < p->s; s++) {
                                const int64_t a = i + p->pad_t - r * p->dil_h, b = j + p->pad_l - s * p->dil_w;
                                if (a < 0 || b < 0 || a % p->stride_h || b % p->stride_w)
                                    continue;
                                const int64_t row = a / p->stride_h, col = b / p->stride_w;
                                if (row >= c->P || col >= c->Q)
                                    continue;
                                const int64_t o = ((n * p->k + k) * c->P + row) * c->Q + col;
                                const double v =
                                    (double)*x_at(c, n, channel, i, j) * (double)*w_at(c, k, channel % cg, r, s);
                                values[o] += v;
                                norms[o] += fabs(v);
                            }
}

static void agrees(void **state)
{
    static const char *const problem[] = {"n2c3h9w11k4r3s5_pad1,2,3,0",
                                          "n1c4h12k6r3_st2x3_pad2_dil2x1_g2",
                                          "n1c5h10k5r4_padsame_gc",
                                          "n3c1h1w20k2r1s7",
                                          "n1c2h6k1r6",
                                          "n1c6h15w7k9r5s2_st3x1_dil3x2_g3"};
    (void)state;
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        test_case c = case_of(problem[i]);
        if (i % 2)
            case_add_bias(&c);
        case_fill_normal(&c, i + 30);
        double *v = malloc(32 * (size_t)c.outputs), *n = v + c.outputs, *rv = n + c.outputs, *rn = rv + c.outputs;
        scatter(&c, v, n);
        truth_of(&c, rv, rn);
        for (int64_t o = 0; o < c.outputs; o++)
            if (fabs(v[o] - rv[o]) > 1e-13 * n[o] || fabs(n[o] - rn[o]) > 1e-13 * n[o])
                fail_msg("%s: output %lld is %.17g, expected %.17g", problem[i], (long long)o, rv[o], v[o]);
        free(v);
        case_free(&c);
    }
}

static void chosen_outputs(void **state)
{
    (void)state;
    convoy_context *context = context_make(1, NULL);
    test_case c = case_of("n2c2h6k3r3");
    case_fill_normal(&c, 5);
    double *all = malloc(8 * (size_t)c.outputs), some[3];
    const int64_t index[3] = {c.outputs - 1, 0, 17};
    truth_of(&c, all, NULL);
    if (!on_gpu()) {
        assert_int_equal(convoy_reference(context, &c.p, c.x, c.w, NULL, 3, index, some, NULL), CONVOY_OK);
        for (int i = 0; i < 3; i++)
            assert_true(some[i] == all[index[i]]);
    }
    free(all);
    case_free(&c);
    convoy_context_destroy(context);
}

/* 2^24 + 1 + 1: the chain rounds after every step and stays at 2^24; the order c, r, s decides where the large term
 * comes. */
static void chain_by_hand(void **state)
{
    (void)state;
    test_case c = case_of("n1c1h1w3k1r1s3");
    float y;
    for (int i = 0; i < 3; i++)
        c.w[i] = 1.0f;
    c.x[0] = 0x1p24f, c.x[1] = c.x[2] = 1.0f;
    chain_of(&c, &y);
    assert_true(y == 0x1p24f);
    c.x[0] = c.x[1] = 1.0f, c.x[2] = 0x1p24f;
    chain_of(&c, &y);
    assert_true(y == 0x1p24f + 2.0f);
    c.x[0] = 1.0f + 0x1p-12f, c.w[0] = c.x[0], c.x[1] = -1.0f, c.x[2] = 0.0f; /* one rounding a term: fused */
    chain_of(&c, &y);
    assert_true(y == 0x1p-11f);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest oracle[] = {cmocka_unit_test(agrees), cmocka_unit_test(chosen_outputs),
                                        cmocka_unit_test(chain_by_hand)};
    return RUN_TESTS(oracle);
}
