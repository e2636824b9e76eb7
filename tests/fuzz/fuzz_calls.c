/* The interface in any order: each pair of bytes is a call on one of a few slots of contexts, plans and weights, right
 * or wrong, with an allocator that may fail. A status must fit its outputs, a right run its sum, and in the end every
 * block must have come back. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <convoy/convoy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONTEXTS = 3, PLANS = 5, WEIGHTS = 3, FLOATS = 6000 };

static struct {
    const uint8_t *at, *end;
    convoy_context *context[CONTEXTS];
    convoy_plan *plan[PLANS];
    convoy_weights *weights[WEIGHTS];
    long live, until_failure; /* allocations; negative: none fails */
    float tensor[4][FLOATS];  /* x, w, bias, y */
} f;

static void must(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_calls: %s: %s\n", what, convoy_last_message());
    abort();
}

static unsigned byte(void) { return f.at < f.end ? *f.at++ : 0; }

static void *take(void *user, size_t bytes)
{
    (void)user;
    void *block = f.until_failure-- == 0 ? NULL : aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block)
        memset(block, 0xa5, bytes);
    f.live += block != NULL;
    return block;
}

static void give(void *user, void *block)
{
    (void)user;
    f.live -= block != NULL;
    free(block);
}

/* A failure has a message, and no output. */
static void fits(convoy_status status, const void *output, const char *what)
{
    must((status == CONVOY_OK) == (output != NULL), what);
    must(status == CONVOY_OK || *convoy_last_message(), "a failure without a message");
    must(status != CONVOY_INTERNAL, "an internal error");
}

static void context_make(unsigned slot)
{
    static const char *const isa[] = {NULL, "scalar", "avx2", "avx512"};
    convoy_context_options o = {.threads = (int)(byte() % 3) + 1, .wisdom = "off", .allocator = {take, give, NULL}};
    o.isa = isa[byte() % 4];
    convoy_context_destroy(f.context[slot]);
    f.context[slot] = NULL;
    const convoy_status status = convoy_context_create(&o, &f.context[slot]);
    fits(status, f.context[slot], "context");
}

/* Small enough for the tensors here; not always valid. */
static convoy_problem some_problem(void)
{
    static const unsigned char sizes[] = {1, 2, 3, 8, 13, 0};
    convoy_problem p = convoy_problem_make(1 + byte() % 2, 1 + byte() % 4, sizes[byte() % 6], sizes[byte() % 5],
                                           byte() % 5, 1 + byte() % 4, 1 + byte() % 4);
    const unsigned how = byte();
    p.pad_t = p.pad_b = how & 3;
    p.pad_l = how >> 2 & 1, p.pad_r = how >> 3 & 1;
    p.stride_h = 1 + (how >> 4 & 1), p.dil_w = 1 + (how >> 5 & 1);
    if (how >> 6 & 1)
        p.groups = p.k = p.c;
    return p;
}

static void plan_make(unsigned slot, convoy_context *context)
{
    static const char *const engine[] = {NULL, "direct", "fft", "ref", "fft:ty8tx8way0v16", "nosuch", "onednn", ""};
    const convoy_problem p = some_problem();
    const unsigned how = byte(), more = byte();
    convoy_plan_options o = {.math = (convoy_math)(how % 4), .engine = engine[how >> 2 & 7], .bias = how >> 5 & 1};
    o.rtol = o.math == CONVOY_MATH_MATCH && more & 1 ? 1e-3 : 0;
    o.prepared = how >> 6 & 1;
    o.weights = how >> 7 ? f.weights[more >> 1 & 1] : NULL;
    o.workspace_limited = more >> 2 & 1;
    o.workspace_limit_bytes = (size_t)1 << (more >> 3);
    o.effort = (more & 0x18) == 0x18 ? CONVOY_MEASURE : CONVOY_ESTIMATE;
    o.time_limit_s = 1e-6;
    convoy_plan_destroy(f.plan[slot]);
    f.plan[slot] = NULL;
    const convoy_status status = convoy_plan_create(context, &p, more & 0x20 ? NULL : &o, &f.plan[slot]);
    fits(status, f.plan[slot], "plan");
}

static void weights_make(unsigned slot, const convoy_plan *plan)
{
    convoy_weights_destroy(f.weights[slot]);
    f.weights[slot] = NULL;
    const convoy_status status = convoy_weights_create(plan, byte() % 8 ? f.tensor[1] : NULL, NULL, &f.weights[slot]);
    fits(status, f.weights[slot], "weights");
}

/* One output that was run with right arguments. */
static void check_sum(convoy_context *context, const convoy_plan_info *info, const convoy_args *args)
{
    const convoy_problem *p = &info->problem;
    int64_t P, Q, index;
    double value, norm;
    must(convoy_problem_output(p, &P, &Q) == CONVOY_OK, "the plan's problem");
    if (!context || p->n * p->k * P * Q == 0)
        return;
    index = (int64_t)byte() % (p->n * p->k * P * Q);
    must(convoy_reference(context, p, f.tensor[0], f.tensor[1], args->bias, 1, &index, &value, &norm) == CONVOY_OK,
         "reference");
    must(fabs((double)args->y[index] - value) <= 1e-4 * (1 + norm), "a wrong sum");
}

static void run(const convoy_plan *plan, convoy_context *context, int phases)
{
    convoy_plan_info info;
    const unsigned how = byte();
    const size_t bytes = convoy_plan_workspace_bytes(plan), short_by = how & 1;
    void *workspace = malloc(bytes + 1);
    convoy_phase phase[16];
    int count = 0;
    convoy_args args = {.struct_bytes = sizeof args + (how == 0x55), .x = f.tensor[0], .y = f.tensor[3]};
    args.w = how & 2 ? NULL : f.tensor[1];
    args.bias = how & 4 ? f.tensor[2] : NULL;
    args.weights = how & 2 ? f.weights[how >> 3 & 1] : NULL;
    args.workspace = workspace;
    args.workspace_bytes = bytes > short_by ? bytes - short_by : 0;
    memset(workspace, 0xff, bytes);
    const convoy_status status =
        phases ? convoy_execute_phases(plan, &args, phase, 1 + (int)(how % 16), &count) : convoy_execute(plan, &args);
    must(status == CONVOY_OK || status == CONVOY_INVALID, "a run's status");
    if (status == CONVOY_OK && convoy_plan_describe(plan, &info) == CONVOY_OK)
        check_sum(context, &info, &args);
    free(workspace);
}

static void see(void *user, const convoy_explanation *line) { *(int *)user += line->chosen; }

static void look(void *user, const convoy_candidate *candidate) { *(int *)user += *candidate->engine != 0; }

static void ask(convoy_context *context, const convoy_plan *plan)
{
    int chosen = 0, seen = 0;
    convoy_plan_info info;
    convoy_timing timing;
    const convoy_problem p = some_problem();
    const convoy_status a = convoy_explain(context, &p, NULL, see, &chosen),
                        b = convoy_candidates(context, &p, NULL, look, &seen);
    must((a == CONVOY_OK) == (chosen == 1), "explain");
    must(b != CONVOY_OK || seen > 0, "candidates");
    must(convoy_context_info(context) != NULL, "info");
    must((convoy_plan_describe(plan, &info) == CONVOY_OK) == (plan != NULL), "describe");
    if (byte() % 16 == 0)
        convoy_measure(plan, 1e-9, &timing);
}

static void call(void)
{
    const unsigned what = byte(), slot = byte();
    convoy_context *context = f.context[slot % CONTEXTS];
    const convoy_plan *plan = f.plan[slot % PLANS];
    switch (what % 16) {
    case 0:
        context_make(slot % CONTEXTS);
        break;
    case 1:
        convoy_context_destroy(context);
        f.context[slot % CONTEXTS] = NULL;
        break;
    case 2:
        convoy_plan_destroy(f.plan[slot % PLANS]);
        f.plan[slot % PLANS] = NULL;
        break;
    case 3:
    case 4:
        weights_make(slot % WEIGHTS, plan);
        break;
    case 5:
        convoy_weights_destroy(f.weights[slot % WEIGHTS]);
        f.weights[slot % WEIGHTS] = NULL;
        break;
    case 6:
        f.until_failure = slot % 32 - 4;
        break;
    case 7:
        ask(context, plan);
        break;
    case 8:
        run(plan, context, 1);
        break;
    case 9:
    case 10:
    case 11:
        run(plan, context, 0);
        break;
    default:
        plan_make(slot % PLANS, context);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    f.at = data;
    f.end = data + (size < 300 ? size : 300);
    f.until_failure = -1;
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < FLOATS; i++)
            f.tensor[t][i] = (float)((i * 29 + t * 7) % 31 - 15) * 0.125f;
    for (unsigned i = 0; i < CONTEXTS; i++)
        context_make(i);
    while (f.at < f.end)
        call();
    for (int i = 0; i < CONTEXTS; i++)
        convoy_context_destroy(f.context[i]);
    for (int i = 0; i < PLANS; i++)
        convoy_plan_destroy(f.plan[i]);
    for (int i = 0; i < WEIGHTS; i++)
        convoy_weights_destroy(f.weights[i]);
    must(f.live == 0, "blocks are left");
    memset(&f, 0, sizeof f);
    return 0;
}
