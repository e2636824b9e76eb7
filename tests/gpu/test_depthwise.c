/* On a GPU, every candidate rather than the chosen one: depthwise shapes through the exact chain's kernels, bit for
 * bit, with zeros, underflow, infinities and NaN where kernels put zeros of their own; few channels a group, and
 * magnitudes from 1e-30 to 1e30 side by side, through the transforms within their bound. */
#include "conv/harness.h"

enum { CANDIDATES = 64, NAME = 96 };

static convoy_context *context;

static int set_up(void **state)
{
    (void)state;
    context = context_make(2, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    convoy_context_destroy(context);
    return 0;
}

typedef struct names {
    int count;
    char text[CANDIDATES][NAME];
} names;

static void note(void *user, const convoy_candidate *c)
{
    names *n = user;
    if (n->count < CANDIDATES)
        snprintf(n->text[n->count++], NAME, "%s%s%s", c->engine, c->candidate[0] ? ":" : "", c->candidate);
}

/* Runs the first `most` candidates of an engine, each checked as it owes. */
static int each_candidate(test_case *c, const char *engine, convoy_math math, int most)
{
    static names all;
    convoy_plan_options o = {.math = math, .engine = engine, .bias = c->bias != NULL};
    all.count = 0;
    if (convoy_candidates(context, &c->p, &o, note, &all) != CONVOY_OK)
        return 0;
    for (int i = 0; i < all.count && i < most; i++) {
        convoy_plan_info info;
        o.engine = all.text[i];
        if (case_run(context, c, &o, &info) != CONVOY_OK)
            fail_msg("%s: %s", all.text[i], convoy_last_message());
        check_contract(c, &(convoy_engine_info){.name = all.text[i]}, &info, NULL);
    }
    return all.count;
}

/* Zeros in x and w, a plane of x and a kernel that are nothing but zeros, products that underflow to -0, and a few
 * values that are not finite. */
static void fill_wild(test_case *c, uint64_t seed)
{
    const convoy_problem *p = &c->p;
    case_fill_normal(c, seed);
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t channel = 0; channel < p->c; channel++)
            for (int64_t i = 0; i < p->h; i++)
                for (int64_t j = 0; j < p->w; j++)
                    if (random_in(&seed, 0, 9) == 0 || (n == p->n - 1 && channel == p->c - 1))
                        *x_at(c, n, channel, i, j) = 0.0f;
    if (p->k > 1)
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++)
                *w_at(c, p->k - 2, 0, r, s) = 0.0f;
    *w_at(c, 0, 0, 0, 0) = 1e-30f;
    for (int64_t i = 0; i < p->h && i < 3; i++)
        *x_at(c, 0, 0, i, 0) = -1e-30f;
    *w_at(c, p->k - 1, 0, p->r / 2, p->s - 1) = NAN;
    *w_at(c, p->k / 2, 0, p->r - 1, 0) = -INFINITY;
    *x_at(c, 0, p->c / 2, p->h - 1, p->w / 2) = INFINITY;
}

static void exact_depthwise(void **state)
{
    static const char *const problem[] = {
        "n3c5h7r13_padsame_gc",      "n2c3h14r27_padsame_gc",   "n3c2h14r47_padsame_gc", "n2c3h14r13_padsame_gc",
        "n1c3h32r31_padsame_gc",     "n2c2h28r29_padsame_gc",   "n1c2h56r31_padsame_gc", "n1c2h56r5s51_padsame_gc",
        "n1c2h56r51s5_padsame_gc",   "n2c3h20w23r7_padsame_gc", "n1c3h20w23k6r3s9_g3",   "n1c2h40w17k6r5s6_g2",
        "n1c1h70w150r25_padsame",    "n2c5h5w9r1_gc",           "n1c2h8r31_padsame_gc",  "n5c3h6r6_gc",
        "n1c1h9w200k2r4s40_pad7x60", "n1c1h3k1r3_pad9",         "n9c1h31w6k3r4s3_pad1",  "n2c130h5r5_padsame_gc"};
    (void)state;
    if (!on_gpu())
        skip();
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++)
        for (int wild = 0; wild < 2; wild++) {
            test_case c = case_of(problem[i]);
            if (wild)
                fill_wild(&c, i + 300);
            else
                case_fill_normal(&c, i + 300);
            if (i % 2)
                case_add_bias(&c);
            assert_true(each_candidate(&c, "cuda_igemm", CONVOY_MATH_EXACT, CANDIDATES) >= 4);
            case_free(&c);
        }
}

/* Few channels a group: products of spectra without tensor cores, with outputs and tiles that no block's shape divides.
 */
static void few_channels(void **state)
{
    static const char *const problem[] = {"n2c1h40k3r5",     "n1c2h61w35k64r7",  "n3c3h50k5r9_pad4", "n1c4h70k66r3",
                                          "n2c5h33k7r4",     "n1c6h90w20k12r5",  "n2c7h40k2r6_st2",  "n1c8h64k40r8",
                                          "n2c12h40k9r5_g3", "n1c10h30k10r7_g5", "n1c16h50k6r5_g2"};
    (void)state;
    if (!on_gpu())
        skip();
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        test_case c = case_of(problem[i]);
        case_fill_normal(&c, i + 500);
        if (i % 2)
            case_add_bias(&c);
        assert_true(each_candidate(&c, "cuda_fft", CONVOY_MATH_FP32, 8) > 0);
        case_free(&c);
    }
}

/* Channels of 1e30, 1e-30 and 1 in one group, with kernels of the same or of the inverse scale: beyond what a spectrum
 * holds, and beside tiles that it holds. */
static void wide_range(void **state)
{
    static const char *const problem[] = {"n2c6h40k5r5_pad2", "n1c3h50k9r9", "n2c6h40r9_padsame_gc",
                                          "n1c3h33k2r3_pad1"};
    static const double scale[][3] = {{1e30, 1e-30, 1}, {1e-30, 1, 1e-30}, {0x1p39, 0x1p-49, 1}, {1e-12, 1e12, 1}};
    (void)state;
    if (!on_gpu())
        skip();
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++)
        for (int kind = 0; kind < 8; kind++) {
            test_case c = case_of(problem[i]);
            const convoy_problem *p = &c.p;
            case_fill_normal(&c, i + 400);
            for (int64_t channel = 0; channel < p->c; channel++)
                for (int64_t n = 0; n < p->n; n++)
                    for (int64_t at = 0; at < p->h * p->w; at++)
                        *x_at(&c, n, channel, at / p->w, at % p->w) *= (float)scale[kind / 2][channel % 3];
            for (int64_t k = 0; k < p->k && kind % 2; k++)
                for (int64_t channel = 0; channel < p->c / p->groups; channel++)
                    for (int64_t at = 0; at < p->r * p->s; at++)
                        *w_at(&c, k, channel, at / p->s, at % p->s) /=
                            (float)scale[kind / 2][(p->groups > 1 ? k : channel) % 3];
            assert_true(each_candidate(&c, "cuda_fft", CONVOY_MATH_FP32, 6) > 0);
            case_free(&c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(exact_depthwise, set_up, tear_down),
        cmocka_unit_test_setup_teardown(few_channels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wide_range, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
