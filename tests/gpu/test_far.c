/* More than 2^31 elements in x and in y, for real: images, batches, channels and groups whose offsets need 64 bits, by
 * every engine of the GPU. x repeats a block whose length shares no factor with any size, so that the truth of an
 * output is known without the tensor. Needs 80 GiB of device memory at most, and skips where there is less. */
#include "conv/harness.h"

enum { PERIOD = 4194301, SAMPLES = 600, WINDOWS = 12, WINDOW = 1 << 18 };

static float *block; /* x's period on the host */

typedef struct far_case {
    convoy_problem p;
    int64_t P, Q, xs, ws, ys;
    float *x, *w, *y; /* on the device */
    float *taps;      /* w on the host */
} far_case;

static void must(convoy_status status, const char *what)
{
    if (status != CONVOY_OK)
        fail_msg("%s: %s", what, convoy_last_message());
}

/* count floats of the device that repeat the host's first ones. */
static float *repeated(convoy_context *on, const float *first, int64_t period, int64_t count)
{
    void *memory;
    const convoy_status status = convoy_memory_alloc(on, sizeof(float) * (size_t)count, &memory);
    if (status == CONVOY_OUT_OF_MEMORY)
        skip();
    must(status, "memory");
    float *t = memory;
    int64_t done = period < count ? period : count;
    must(convoy_memory_copy(on, t, first, sizeof(float) * (size_t)done, CONVOY_TO_DEVICE), "copy");
    while (done < count) {
        const int64_t more = done < count - done ? done : count - done;
        must(convoy_memory_copy(on, t + done, t, sizeof(float) * (size_t)more, CONVOY_ON_DEVICE), "copy");
        done += more;
    }
    return t;
}

static float x_of(const far_case *c, int64_t n, int64_t channel, int64_t i, int64_t j)
{
    return block[(((n * c->p.c + channel) * c->p.h + i) * c->p.w + j) % PERIOD];
}

/* The sum in FP64, and the sum of its terms' sizes. */
static double truth(const far_case *c, int64_t at, double *size)
{
    const convoy_problem *p = &c->p;
    const int64_t q = at % c->Q, row = at / c->Q % c->P, k = at / c->Q / c->P % p->k, n = at / c->Q / c->P / p->k;
    const int64_t cg = p->c / p->groups, first = k / (p->k / p->groups) * cg;
    double sum = 0;
    *size = 0;
    for (int64_t channel = 0; channel < cg; channel++)
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++) {
                const int64_t i = row * p->stride_h - p->pad_t + r * p->dil_h,
                              j = q * p->stride_w - p->pad_l + s * p->dil_w;
                if (i < 0 || i >= p->h || j < 0 || j >= p->w)
                    continue;
                const double a = (double)x_of(c, n, first + channel, i, j) *
                                 (double)c->taps[((k * cg + channel) * p->r + r) * p->s + s];
                sum += a;
                *size += fabs(a);
            }
    return sum;
}

static float y_of(convoy_context *on, const far_case *c, int64_t at)
{
    float value;
    must(convoy_memory_copy(on, &value, c->y + at, sizeof value, CONVOY_TO_HOST), "copy");
    return value;
}

/* Corners, the neighbours of 2^31 and of other powers of two, and anywhere. |x| and |w| are at most 1, so a tile's norm
 * is at most the root of its area. */
static void check(convoy_context *on, const far_case *c, const convoy_plan_info *info)
{
    uint64_t seed = 7;
    const double u = 0x1p-24, taps = (double)(c->p.r * c->p.s), cg = (double)(c->p.c / c->p.groups);
    for (int i = 0; i < SAMPLES; i++) {
        int64_t at = random_in(&seed, 0, c->ys - 1);
        if (i < 96)
            at = ((int64_t)1 << (i / 6 + 17)) + i % 6 - 3;
        else if (i < 110)
            at = i < 103 ? i - 96 : c->ys - 1 - (i - 103);
        if (at >= c->ys)
            continue;
        double size;
        const double right = truth(c, at, &size), is = (double)y_of(on, c, at);
        const double norm =
            info->error_bound_kind ? cg * sqrt((double)info->tile_h * (double)info->tile_w) * sqrt(taps) : size;
        double bound = u * (info->error_bound_factor * norm + fabs(right));
        if (info->error_bound_kind && !info->tile_h)
            bound = 1e-4 * size; /* a vendor's transform does not say its tile */
        if (!(fabs(is - right) <= bound))
            fail_msg("%s:%s: y[%lld] is %.9g, the truth %.9g to %.3g", info->engine, info->candidate, (long long)at, is,
                     right, bound);
    }
    float *window = malloc(sizeof *window * WINDOW);
    assert_non_null(window);
    for (int i = 0; i < WINDOWS; i++) {
        const int64_t at = (int64_t)((double)(c->ys - WINDOW) * i / (WINDOWS - 1));
        must(convoy_memory_copy(on, window, c->y + at, sizeof *window * WINDOW, CONVOY_TO_HOST), "copy");
        for (int j = 0; j < WINDOW; j++)
            if (isnan(window[j]))
                fail_msg("%s:%s: y[%lld] was not written", info->engine, info->candidate, (long long)(at + j));
    }
    free(window);
}

static void run_plan(convoy_context *on, const far_case *c, const convoy_plan *plan, const convoy_plan_info *info)
{
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    convoy_args args = {.struct_bytes = sizeof args, .x = c->x, .w = c->w, .y = c->y, .workspace_bytes = bytes};
    if (convoy_memory_alloc(on, bytes + 1, &args.workspace) != CONVOY_OK) {
        print_message("    %s needs a workspace of %zu bytes: left out\n", info->engine, bytes);
        return;
    }
    must(convoy_execute(plan, &args), info->engine);
    must(convoy_synchronize(on), info->engine);
    check(on, c, info);
    print_message("    %s:%s, %zu MiB of workspace\n", info->engine, info->candidate, bytes >> 20);
    convoy_memory_free(on, args.workspace);
}

static void far_problem(convoy_context *on, const char *text)
{
    float poison[1024];
    far_case c = {0};
    int ran = 0;
    memset(poison, 0xff, sizeof poison);
    must(convoy_problem_parse(text, &c.p), text);
    must(convoy_problem_output(&c.p, &c.P, &c.Q), text);
    c.xs = c.p.n * c.p.c * c.p.h * c.p.w, c.ws = c.p.k * (c.p.c / c.p.groups) * c.p.r * c.p.s;
    c.ys = c.p.n * c.p.k * c.P * c.Q;
    print_message("%s: %lld to %lld elements\n", text, (long long)c.xs, (long long)c.ys);
    assert_true(c.xs > (int64_t)1 << 31 || c.ys > (int64_t)1 << 31);
    c.taps = malloc(sizeof(float) * (size_t)c.ws);
    assert_non_null(c.taps);
    uint64_t seed = 3;
    for (int64_t i = 0; i < c.ws; i++)
        c.taps[i] = (float)(int32_t)random_bits(&seed) * 0x1p-31f;
    c.x = repeated(on, block, PERIOD, c.xs);
    c.w = repeated(on, c.taps, c.ws, c.ws);
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)) != NULL; i++) {
        convoy_plan *plan;
        convoy_plan_info info;
        if (e->device != CONVOY_CUDA)
            continue;
        if (convoy_plan_create(on, &c.p, &(convoy_plan_options){.engine = e->name}, &plan) != CONVOY_OK) {
            print_message("    %s: %s\n", e->name, convoy_last_message());
            continue;
        }
        must(convoy_plan_describe(plan, &info), "describe");
        if (info.predicted_s < 1) {
            c.y = repeated(on, poison, 1024, c.ys);
            run_plan(on, &c, plan, &info);
            convoy_memory_free(on, c.y);
            ran += !e->vendor;
        }
        convoy_plan_destroy(plan);
    }
    convoy_memory_free(on, c.x);
    convoy_memory_free(on, c.w);
    free(c.taps);
    if (!ran)
        fail_msg("no engine of ours ran %s", text);
}

static void beyond_two_to_the_31(void **state)
{
    static const char *const problem[] = {
        "n1c1h46400w46400k1r31_pad15",                           /* one image; test_large.c has another */
        "n40000c1h240w240k1r5_pad2",                             /* a batch */
        "n1c40000h240k40000r5_pad2_gc", "n2c1h1200w1000k1000r9", /* y alone */
        "n1c700h1760w1760k2r3",                                  /* x alone */
    };
    convoy_context *on = context_make(2, NULL);
    uint64_t seed = 5;
    (void)state;
    block = malloc(sizeof *block * PERIOD);
    assert_non_null(block);
    for (int64_t i = 0; i < PERIOD; i++)
        block[i] = (float)(int32_t)random_bits(&seed) * 0x1p-31f;
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++)
        far_problem(on, problem[i]);
    free(block);
    convoy_context_destroy(on);
}

int main(void)
{
    const struct CMUnitTest far_away[] = {cmocka_unit_test(beyond_two_to_the_31)};
    return on_gpu() ? RUN_TESTS(far_away) : 77;
}
