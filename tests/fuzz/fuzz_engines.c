/* Engine against engine: a small problem with any values in it (subnormals, huge ones, zeros, NaN and infinities) on
 * every engine, candidate, instruction set and thread count. Engines that keep `exact` agree bit for bit; the others
 * with the FP64 sum, within their bound; NaN and infinities are at the same places; `match` is within its tolerance. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <convoy/convoy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 20000 };

static convoy_context *context[3]; /* the best instruction set, avx2, scalar; 2, 1 and 3 threads */
static float *x, *w, *y, *chain, bias[64];
static double *value, *norm;
static int64_t *place;
static convoy_problem p;
static int64_t P, Q, outputs;

static void start(void)
{
    static const char *const isa[] = {NULL, "avx2", "scalar"};
    for (int i = 0; i < 3; i++) {
        const convoy_context_options o = {.threads = i == 0 ? 2 : i == 1 ? 1 : 3, .isa = isa[i], .wisdom = "off"};
        if (convoy_context_create(&o, &context[i]) != CONVOY_OK)
            context[i] = NULL; /* which this machine lacks */
    }
    place = malloc(sizeof *place * MOST);
    value = malloc(sizeof *value * MOST);
    norm = malloc(sizeof *norm * MOST);
    chain = malloc(sizeof *chain * MOST);
    for (int64_t i = 0; i < MOST; i++)
        place[i] = i;
    for (int i = 0; i < 64; i++)
        bias[i] = (float)(i % 5) - 2;
}

static void wrong(const char *engine, const char *what, int64_t at, double is, double should)
{
    char text[400];
    convoy_problem_print(&p, text, sizeof text);
    fprintf(stderr, "fuzz_engines: %s on %s: %s: output %lld is %.9g, not %.9g\n%s\n", engine, text, what,
            (long long)at, is, should, convoy_last_message());
    abort();
}

/* Sums of these stay below FLT_MAX in any order: 1,764 taps of 1e25 times 2^29, the largest weight. */
static float *tensor(int64_t count, const uint8_t *how, int weights)
{
    static const float odd[2][8] = {{0, -0.0f, 1e25f, 1e-30f, 1e-40f, NAN, INFINITY, -INFINITY},
                                    {0, -0.0f, 1e4f, 1e-30f, 1e-42f, 1e-4f, 16777216, -1}};
    uint64_t seed = how[0] + 256u * how[1];
    float *t = malloc(sizeof *t * (size_t)(count + 1));
    const unsigned density = how[2] % 4 == 0 ? how[3] : 0; /* of odd values, in 256 */
    const float scale = how[2] & 0x80 ? ldexpf(1.0f, (int)(how[4] % 80) - 50) : 1.0f;
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        t[i] = (seed >> 20 & 255) < density ? odd[weights][seed >> 30 & 7]
                                            : (float)(int32_t)(seed >> 32) * 0x1p-31f * scale;
    }
    return t;
}

static double square(float a) { return isfinite(a) ? (double)a * (double)a : 0; }

/* sum over c of ||x channel|| ||w channel||: a tile's is no larger. */
static double channel_bound(int64_t output)
{
    const int64_t k = output / (P * Q) % p.k, n = output / (P * Q) / p.k, cg = p.c / p.groups;
    double total = fabs((double)bias[k % 64]);
    for (int64_t c = 0; c < cg; c++) {
        const float *xs = x + (n * p.c + k / (p.k / p.groups) * cg + c) * p.h * p.w, *ws = w + (k * cg + c) * p.r * p.s;
        double x2 = 0, w2 = 0;
        for (int64_t i = 0; i < p.h * p.w; i++)
            x2 += square(xs[i]);
        for (int64_t i = 0; i < p.r * p.s; i++)
            w2 += square(ws[i]);
        total += sqrt(x2) * sqrt(w2);
    }
    return total;
}

static int same(float a, float b) { return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b); }

static void check(const convoy_plan_info *info, const convoy_plan_options *o, int *have_chain)
{
    double channel = 0;
    if (info->math == CONVOY_MATH_EXACT && !*have_chain) {
        memcpy(chain, y, sizeof *y * (size_t)outputs);
        *have_chain = 1;
    }
    for (int64_t i = 0; i < outputs; i++) {
        const double is = (double)y[i];
        if (info->error_bound_kind == 1 && i % (P * Q) == 0)
            channel = channel_bound(i);
        if (info->math == CONVOY_MATH_EXACT && !same(y[i], chain[i]))
            wrong(info->engine, "other bits", i, is, (double)chain[i]);
        if (info->math == CONVOY_MATH_MATCH) {
            const double exact = (double)chain[i];
            if (isfinite(chain[i]) ? !(fabs(is - exact) <= o->atol + o->rtol * fabs(exact)) : !same(y[i], chain[i]))
                wrong(info->engine, "no match", i, is, exact);
            continue;
        }
        if (!isfinite(value[i])) {
            if (isnan(value[i]) ? !isnan(y[i]) : is != value[i])
                wrong(info->engine, "special value", i, is, value[i]);
            continue;
        }
        const double scale = info->error_bound_kind == 1 ? channel : norm[i];
        if (!(fabs(is - value[i]) <=
              0x1p-24 * (info->error_bound_factor * scale + fabs(value[i])) + (double)FLT_TRUE_MIN))
            wrong(info->engine, "beyond its bound", i, is, value[i]);
    }
}

static void run(convoy_context *on, const convoy_plan_options *o, int *have_chain)
{
    convoy_plan *plan;
    convoy_plan_info info;
    convoy_weights *weights = NULL;
    if (convoy_plan_create(on, &p, o, &plan) != CONVOY_OK)
        return;
    convoy_plan_describe(plan, &info);
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    memset(workspace, 0xff, bytes);
    memset(y, 0xff, sizeof *y * (size_t)outputs);
    if (o->prepared && convoy_weights_create(plan, w, NULL, &weights) != CONVOY_OK)
        wrong(info.engine, "weights", 0, 0, 0);
    convoy_args args = {.struct_bytes = sizeof args, .x = x, .w = weights ? NULL : w, .weights = weights, .y = y};
    args.bias = o->bias ? bias : NULL;
    args.workspace = workspace;
    args.workspace_bytes = bytes;
    if (convoy_execute(plan, &args) != CONVOY_OK)
        wrong(info.engine, "execute", 0, 0, 0);
    check(&info, o, have_chain);
    convoy_weights_destroy(weights);
    convoy_plan_destroy(plan);
    free(workspace);
}

struct pick {
    unsigned count, wanted;
    char name[120];
};

static void pick_one(void *user, const convoy_candidate *c)
{
    struct pick *a = user;
    if (a->count++ % 64 == a->wanted % 64 || a->count == 1)
        snprintf(a->name, sizeof a->name, "%s:%s", c->engine, c->candidate);
}

/* Contract exact first, so that match has its chain. */
static void run_all(const uint8_t *how)
{
    static const char *const engine[] = {"direct", "ref", "fft"};
    int have_chain = 0;
    for (int i = 0; i < 3; i++)
        for (int e = 0; e < 3; e++) {
            convoy_plan_options o = {.engine = engine[e], .bias = how[0] & 1, .prepared = how[0] >> 1 & 1};
            if (how[0] & 4)
                o.workspace_limited = 1, o.workspace_limit_bytes = (size_t)how[1] << (how[2] % 16);
            struct pick pick = {.wanted = how[3] + (unsigned)i};
            if (!context[i] || convoy_candidates(context[i], &p, &o, pick_one, &pick) != CONVOY_OK)
                continue;
            if (strchr(pick.name, ':')[1])
                o.engine = pick.name;
            run(context[i], &o, &have_chain);
            if (e == 2 && have_chain) {
                o.math = CONVOY_MATH_MATCH;
                o.rtol = o.atol = 1e-3;
                run(context[i], &o, &have_chain);
            }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!place)
        start();
    if (size < 32)
        return 0;
    p = convoy_problem_make(1 + data[0] % 2, 0, data[1] % 48, data[2] % 48, 0, 1 + data[3] % 14, 1 + data[4] % 14);
    p.groups = data[5] % 3 ? 1 : 1 + data[5] % 5;
    p.c = p.groups * (1 + data[6] % 9), p.k = p.groups * (1 + data[7] % 9);
    p.pad_t = data[8] % 9, p.pad_b = data[9] % 9, p.pad_l = data[10] % 9, p.pad_r = data[11] % 9;
    p.stride_h = 1 + (data[12] % 8 > 5) * data[12] % 3, p.stride_w = 1 + (data[13] % 8 > 5) * data[13] % 3;
    p.dil_h = 1 + (data[14] % 8 > 5) * data[14] % 3, p.dil_w = 1 + (data[15] % 8 > 5) * data[15] % 3;
    if (convoy_problem_output(&p, &P, &Q) != CONVOY_OK || convoy_problem_flop(&p) > 6e6)
        return 0;
    outputs = p.n * p.k * P * Q;
    if (outputs > MOST || outputs == 0 || p.k > 64)
        return 0;
    x = tensor(p.n * p.c * p.h * p.w, data + 16, 0);
    w = tensor(p.k * (p.c / p.groups) * p.r * p.s, data + 21, 1);
    y = malloc(sizeof *y * (size_t)outputs);
    if (convoy_reference(context[0], &p, x, w, data[26] & 1 ? bias : NULL, outputs, place, value, norm) != CONVOY_OK)
        wrong("reference", "status", 0, 0, 0);
    run_all(data + 26);
    free(x);
    free(w);
    free(y);
    return 0;
}
