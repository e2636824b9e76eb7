/* Sizes at the edge of what can be asked for: large and prime kernels, more than 2^31 elements, offsets beyond 2^31,
 * strides and dilations as long as the image, and plans of problems that no machine could run. */
#include "harness.h"

#include <sys/mman.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_BUILD 1
#else
#define SLOW_BUILD 0
#endif

static convoy_context *cpu, *on; /* on: what is tested, the CPU or a GPU; cpu has the truth */

static int set_up(void **state)
{
    (void)state;
    on = context_make(2, NULL);
    return convoy_context_create(&(convoy_context_options){.threads = 2, .wisdom = "off"}, &cpu) != CONVOY_OK;
}

static int tear_down(void **state)
{
    (void)state;
    convoy_context_destroy(cpu);
    convoy_context_destroy(on);
    return 0;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Tensors by element (0,0,0,0), wherever they lie. */
typedef struct tensors {
    const float *x, *w;
    float *y;
} tensors;

/* y of up to 300 outputs, corners among them, against FP64: within a serial chain's own error, and a transform's. */
static void sampled(const convoy_problem *p, const tensors *t, const int64_t y_stride[4], const char *engine)
{
    int64_t P, Q, index[300];
    double value[300], norm[300];
    assert_int_equal(convoy_problem_output(p, &P, &Q), CONVOY_OK);
    const int64_t outputs = p->n * p->k * P * Q, count = outputs < 300 ? outputs : 300;
    for (int64_t i = 0; i < count; i++)
        index[i] = count > 1 ? (int64_t)((double)i * (double)(outputs - 1) / (double)(count - 1)) : 0;
    index[count - 1] = outputs - 1;
    assert_int_equal(convoy_reference(cpu, p, t->x, t->w, NULL, count, index, value, norm), CONVOY_OK);
    for (int64_t i = 0; i < count; i++) {
        const int64_t q = index[i] % Q, row = index[i] / Q % P, k = index[i] / Q / P % p->k,
                      n = index[i] / Q / P / p->k;
        const double y = (double)t->y[n * y_stride[0] + k * y_stride[1] + row * y_stride[2] + q * y_stride[3]];
        if (!(fabs(y - value[i]) <= 1e-5 * norm[i] + 1e-30))
            fail_msg("%s: y[%lld,%lld,%lld,%lld] is %.9g, the truth %.9g", engine, (long long)n, (long long)k,
                     (long long)row, (long long)q, y, value[i]);
    }
}

/* On the device, or where it lies already. */
static void *there(const void *host, size_t bytes)
{
    void *memory;
    if (!on_gpu())
        return (void *)(uintptr_t)host;
    assert_int_equal(convoy_memory_alloc(on, bytes + 1, &memory), CONVOY_OK);
    if (host)
        assert_int_equal(convoy_memory_copy(on, memory, host, bytes, CONVOY_TO_DEVICE), CONVOY_OK);
    return memory;
}

/* floats: of the packed tensors on a GPU, which get copies; strided views are the CPU's alone. */
static void run(const convoy_plan *plan, const tensors *t, const int64_t floats[3], const char *engine)
{
    const size_t bytes = convoy_plan_workspace_bytes(plan), one = sizeof(float);
    convoy_args args = {.struct_bytes = sizeof args, .workspace_bytes = bytes};
    assert_int_equal(convoy_memory_alloc(on, bytes + 1, &args.workspace), CONVOY_OK);
    args.x = there(t->x, floats ? one * (size_t)floats[0] : 0);
    args.w = there(t->w, floats ? one * (size_t)floats[1] : 0);
    args.y = there(t->y, floats ? one * (size_t)floats[2] : 0);
    if (convoy_execute(plan, &args) != CONVOY_OK || convoy_synchronize(on) != CONVOY_OK)
        fail_msg("%s: %s", engine, convoy_last_message());
    if (on_gpu()) {
        assert_int_equal(convoy_memory_copy(on, t->y, args.y, one * (size_t)floats[2], CONVOY_TO_HOST), CONVOY_OK);
        convoy_memory_free(on, (void *)(uintptr_t)args.x);
        convoy_memory_free(on, (void *)(uintptr_t)args.w);
        convoy_memory_free(on, args.y);
    }
    convoy_memory_free(on, args.workspace);
}

/* Every engine but the CPU's vendor's that accepts the problem and is not too slow for it. Returns how many did. */
static int each_own_engine(const convoy_problem *p, const tensors *t, const int64_t floats[3],
                           const int64_t y_stride[4], double slowest_s)
{
    const convoy_engine_info *e;
    int ran = 0;
    for (int i = 0; (e = convoy_engine(i)) != NULL; i++) {
        convoy_plan *plan;
        convoy_plan_info info;
        if (e->device != (on_gpu() ? CONVOY_CUDA : CONVOY_CPU) || (e->vendor && !on_gpu()) ||
            convoy_plan_create(on, p, &(convoy_plan_options){.engine = e->name}, &plan) != CONVOY_OK)
            continue;
        assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
        if (info.predicted_s <= slowest_s) {
            run(plan, t, floats, e->name);
            sampled(p, t, y_stride, e->name);
            ran++;
        }
        convoy_plan_destroy(plan);
    }
    return ran;
}

static void packed(const int64_t size[4], int64_t stride[4])
{
    stride[3] = 1;
    for (int d = 2; d >= 0; d--)
        stride[d] = stride[d + 1] * size[d + 1];
}

static float *noise(int64_t count, uint64_t seed)
{
    float *f = malloc(sizeof *f * (size_t)(count + 1));
    assert_non_null(f);
    for (int64_t i = 0; i < count; i++)
        f[i] = (float)(int32_t)random_bits(&seed) * 0x1p-31f;
    return f;
}

static int whole(const char *text, double slowest_s)
{
    convoy_problem p;
    int64_t P, Q, y_stride[4];
    if (convoy_problem_parse(text, &p) != CONVOY_OK)
        fail_msg("%s", convoy_last_message());
    assert_int_equal(convoy_problem_output(&p, &P, &Q), CONVOY_OK);
    packed((const int64_t[4]){p.n, p.k, P, Q}, y_stride);
    const int64_t floats[3] = {p.n * p.c * p.h * p.w, p.k * (p.c / p.groups) * p.r * p.s, p.n * p.k * P * Q};
    float *x = noise(floats[0], 1), *w = noise(floats[1], 2), *y = noise(floats[2], 3);
    const int ran = each_own_engine(&p, &(tensors){x, w, y}, floats, y_stride, slowest_s);
    if (!ran)
        fail_msg("no engine ran %s", text);
    free(x);
    free(w);
    free(y);
    return ran;
}

static void large_kernels(void **state)
{
    (void)state;
    const double slowest_s = 0.5;
    assert_true(whole("n1c1h500r363", slowest_s) >= 1);
    whole("n1c1h590r511", slowest_s);
    whole("n1c2h600r512_gc", slowest_s);
    whole("n1c1h1100r1021", slowest_s); /* beyond any tile */
    whole("n1c3h5w700k2r1s511_pad0x255", slowest_s);
    whole("n1c3h700w5k2r511s1_pad255x0", slowest_s);
    whole("n1c1h16r363_pad181", slowest_s); /* the kernel is larger than the image */
}

static void odd_sizes(void **state)
{
    (void)state;
    static const char *const problem[] = {
        "n7c11h101w103k13r17s19",
        "n1c1h1r1",
        "n3c5h1k7r1",
        "n2c3h1k4r31_pad15",           /* one pixel, seen by every tap in turn */
        "n1c13h53w59k13r23_st2_g13",   /* groups of one channel */
        "n2c6h61w67k9r7s5_st60x66_g3", /* strides as long as the image: two outputs a side */
        "n2c6h61w67k9r7s5_st1000x999_g3",
        "n1c4h97w89k4r3_dil48x44", /* the effective kernel is the image */
        "n1c4h97w89k4r3_st5x7_pad3_dil47x43",
        "n1c2h31w37k2r1s1_dil1000x999",
        "n1c65537h3k65537r3_gc",
        "n65537c1h3w4k1r3s2",
        "n1c1h65537w3k1r5s3",
    };
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++)
        whole(problem[i], 1.0);
}

/* More than 2^31 pixels, all of them the same few numbers: each tile of the transform is read, one output of it kept.
 */
static void broadcast_far(void **state)
{
    (void)state;
    float *w = noise(33 * 33, 3), y[97 * 97];
    static const float one = 1.25f;
    const int64_t side = SLOW_BUILD ? 2000 : 46350;
    convoy_problem p = convoy_problem_make(1, 1, side, side, 1, 33, 33);
    int64_t P, Q;
    p.stride_h = p.stride_w = 480;
    assert_int_equal(convoy_problem_output(&p, &P, &Q), CONVOY_OK);
    assert_true(P <= 97);
    p.strided = 1;
    p.w_stride[2] = 33, p.w_stride[3] = 1;
    packed((const int64_t[4]){1, 1, P, Q}, p.y_stride);
    assert_int_equal(each_own_engine(&p, &(tensors){&one, w, y}, NULL, p.y_stride, 1e9), 3);
    free(w);
}

/* Views whose elements lie gigabytes apart: every offset needs 64 bits. The pages between are never touched. */
static void far_apart(void **state)
{
    (void)state;
    const size_t bytes = (size_t)36 << 30;
    float *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    float *y = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x == MAP_FAILED || y == MAP_FAILED)
        skip();
    static const char *const problem[] = {"n2c3h20w21k4r5_pad1", "n2c4h24k4r9_padsame_gc", "n2c2h19k3r3_st2_pad2_dil3"};
    for (int i = 0; i < 3; i++)
        for (int backwards = 0; backwards < 2; backwards++) {
            convoy_problem p;
            int64_t P, Q;
            assert_int_equal(convoy_problem_parse(problem[i], &p), CONVOY_OK);
            assert_int_equal(convoy_problem_output(&p, &P, &Q), CONVOY_OK);
            p.strided = 1;
            /* n, then channels, then rows, each far beyond the other's reach */
            const int64_t far[4] = {(int64_t)1 << 32, (int64_t)1 << 30, (int64_t)1 << 24, 1}, sign = backwards ? -1 : 1;
            for (int d = 0; d < 4; d++)
                p.x_stride[d] = p.y_stride[d] = sign * far[d];
            packed((const int64_t[4]){p.k, p.c / p.groups, p.r, p.s}, p.w_stride);
            float *w = noise(p.k * (p.c / p.groups) * p.r * p.s, 2);
            const int64_t end = backwards ? (int64_t)(bytes / sizeof(float)) - 1 : 0;
            uint64_t seed = 5;
            for (int64_t n = 0; n < p.n; n++)
                for (int64_t c = 0; c < p.c; c++)
                    for (int64_t h = 0; h < p.h; h++)
                        for (int64_t v = 0; v < p.w; v++)
                            x[end + n * p.x_stride[0] + c * p.x_stride[1] + h * p.x_stride[2] + v * p.x_stride[3]] =
                                random_normal(&seed);
            assert_true(each_own_engine(&p, &(tensors){x + end, w, y + end}, NULL, p.y_stride, 1.0) >= 3);
            free(w);
        }
    munmap(x, bytes);
    munmap(y, bytes);
}

/* A bright pixel spoils the transform of every tile that holds it, and with dilation its tiles reach far: match must
 * see that the tolerance is not safe there. */
static void match_and_bright_pixels(void **state)
{
    (void)state;
    static const char *const problem[] = {"n1c2h64w160k3r1s30_dil1x5", "n1c3h90w20k2r7s2_dil6x1",
                                          "n1c4h97w141k1r4s2_dil3x4",  "n1c3h60w117k3r1s19_st2x3_dil1x3",
                                          "n2c5h70w60k5r5_pad4_gc",    "n1c1h61w119k1r20s7_st3x1_dil1x2"};
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++)
        for (int bright = 0; bright < 40; bright++) {
            test_case exact = case_of(problem[i]), match = case_of(problem[i]);
            uint64_t seed = (uint64_t)bright + 1;
            case_fill_normal(&exact, 7);
            for (int n = 0; n < 3; n++)
                exact.x[random_in(&seed, 0, exact.floats[0] - 1)] = bright % 2 ? 1e12f : 1e6f;
            memcpy(match.x, exact.x, sizeof(float) * (size_t)exact.floats[0]);
            memcpy(match.w, exact.w, sizeof(float) * (size_t)exact.floats[1]);
            const convoy_plan_options o = {.math = CONVOY_MATH_MATCH, .engine = "fft", .rtol = 1e-3, .atol = 1e-3};
            assert_int_equal(case_run(cpu, &exact, &(convoy_plan_options){.engine = "direct"}, NULL), CONVOY_OK);
            assert_int_equal(case_run(cpu, &match, &o, NULL), CONVOY_OK);
            for (int64_t at = 0; at < exact.outputs; at++) {
                const double right = (double)*y_flat(&exact, at), is = (double)*y_flat(&match, at);
                if (!(fabs(is - right) <= 1e-3 + 1e-3 * fabs(right)))
                    fail_msg("%s, seed %d: output %lld is %.9g, exact is %.9g", problem[i], bright + 1, (long long)at,
                             is, right);
            }
            case_free(&exact);
            case_free(&match);
        }
}

static int64_t any_size(uint64_t *s, int bits)
{
    const int b = (int)random_in(s, 0, bits);
    return (int64_t)(random_bits(s) >> 1 >> (63 - b)) | (((int64_t)1 << b) >> 1);
}

static int64_t either(uint64_t *s, int64_t a, int64_t b) { return random_in(s, 0, 1) ? a : b; }

/* Sizes up to 2^60, log-uniform; strides of x and w of either sign. */
static int any_problem(uint64_t *s, convoy_problem *p)
{
    const int bits = (int)random_in(s, 1, 60);
    int64_t P, Q;
    *p = convoy_problem_make(any_size(s, bits), 0, any_size(s, bits), any_size(s, bits), 0, 1 + any_size(s, bits / 3),
                             1 + any_size(s, bits / 4));
    p->groups = either(s, 1, 1 + any_size(s, bits / 2));
    if (__builtin_mul_overflow(p->groups, either(s, 1, any_size(s, bits)), &p->c) ||
        __builtin_mul_overflow(p->groups, either(s, 1, any_size(s, bits)), &p->k))
        return 0;
    for (int64_t *pad = &p->pad_t; pad <= &p->pad_r && random_in(s, 0, 1); pad++)
        *pad = any_size(s, bits);
    for (int64_t *step = &p->stride_h; step <= &p->dil_w; step++)
        *step = either(s, 1, 1 + any_size(s, bits));
    if (convoy_problem_output(p, &P, &Q) != CONVOY_OK)
        return 0;
    if (random_in(s, 0, 1)) {
        p->strided = 1;
        packed((const int64_t[4]){p->n, p->k, P, Q}, p->y_stride);
        for (int d = 0; d < 4; d++) {
            p->x_stride[d] = either(s, 0, any_size(s, bits)) - either(s, 0, any_size(s, bits));
            p->w_stride[d] = either(s, 0, any_size(s, bits)) - either(s, 0, any_size(s, bits));
            p->y_stride[d] *= either(s, 1, -1);
        }
    }
    return convoy_problem_check(p) == CONVOY_OK;
}

static void look(void *user, const convoy_candidate *c)
{
    ++*(int *)user;
    assert_true(c->predicted_s >= 0 && c->workspace_bytes <= (size_t)1 << 60);
}

/* Vendors' engines, which are slow to plan, as far as this build has them. */
static const char *vendors(void)
{
    for (int i = 0; convoy_engine(i); i++)
        if (strcmp(convoy_engine(i)->name, "cufft") == 0)
            return "onednn,cufft,cudnn";
    return "onednn";
}

/* No product overflows on the way to a plan (the sanitizers watch), the limit is kept, nothing takes long, and what was
 * asked for is what the plan says. */
static void plans_of_anything(void **state)
{
    (void)state;
    uint64_t s = 2026;
    int planned = 0;
    double spent = 0;
    for (int i = 0; i < (SLOW_BUILD ? 600 : 2000);) {
        convoy_problem p;
        convoy_plan *plan;
        if (!any_problem(&s, &p))
            continue;
        i++;
        char text[400];
        convoy_problem back;
        assert_true(convoy_problem_print(&p, text, sizeof text) < sizeof text);
        assert_int_equal(convoy_problem_parse(text, &back), CONVOY_OK);
        assert_memory_equal(&back, &p, offsetof(convoy_problem, layout));
        convoy_plan_options o = {.math = (convoy_math)random_in(&s, 0, 2), .exclude = vendors()};
        o.rtol = o.math == CONVOY_MATH_MATCH ? 1e-3 : 0;
        o.prepared = (int)random_in(&s, 0, 1), o.bias = (int)random_in(&s, 0, 1);
        o.workspace_limited = (int)random_in(&s, 0, 1);
        o.workspace_limit_bytes = (size_t)(random_bits(&s) >> random_in(&s, 0, 63));
        const double from = now_s();
        const convoy_status status = convoy_plan_create(on, &p, &o, &plan);
        const double took = now_s() - from;
        spent += p.s < 100000 ? took : 0; /* direct keeps a table of a row's taps */
        if (p.s < 100000 && took > (SLOW_BUILD ? 2 : 0.2))
            fail_msg("%s took %.3f s to plan", text, took);
        if (status == CONVOY_OK) {
            convoy_plan_info info;
            assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
            assert_memory_equal(&info.problem, &p, offsetof(convoy_problem, layout));
            assert_true(!o.workspace_limited || info.workspace_bytes <= o.workspace_limit_bytes ||
                        info.workspace_bytes - 256 <= o.workspace_limit_bytes);
            planned++;
            int seen = 0;
            if (i % 8 == 0)
                assert_int_equal(convoy_candidates(on, &p, &o, look, &seen), CONVOY_OK);
            convoy_plan_destroy(plan);
        } else if (status != CONVOY_UNSUPPORTED && status != CONVOY_OUT_OF_MEMORY) {
            fail_msg("%s: %s", text, convoy_last_message());
        }
    }
    print_message("%d plans in %.3f s\n", planned, spent);
    assert_true(planned > 300);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest extremes[] = {TEST(large_kernels), TEST(odd_sizes), TEST(plans_of_anything),
                                          TEST(broadcast_far), TEST(far_apart), TEST(match_and_bright_pixels)};
    return run_all(extremes, on_gpu() ? 3 : 6, "extremes"); /* the GPU's far elements are tests/gpu/test_far.c's */
}
