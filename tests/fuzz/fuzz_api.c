/* Small problems made of the fuzzer's bytes, run on every engine with exact buffers: the sanitizers watch the edges,
 * and each y is held to the FP64 sum (loosely: the tests hold the bounds). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <convoy/convoy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static convoy_context *context;

static void must(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_api: %s: %s\n", what, convoy_last_message());
    abort();
}

static float *tensor(int64_t floats, uint64_t seed)
{
    float *t = malloc(sizeof(float) * (size_t)(floats ? floats : 1));
    for (int64_t i = 0; i < floats; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        t[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f;
    }
    return t;
}

static void run(const convoy_problem *p, const convoy_plan_options *o, int64_t outputs)
{
    convoy_plan *plan;
    if (convoy_plan_create(context, p, o, &plan) != CONVOY_OK)
        return;
    float *x = tensor(p->n * p->c * p->h * p->w, 1), *w = tensor(p->k * (p->c / p->groups) * p->r * p->s, 2);
    float *bias = tensor(p->k, 3), *y = malloc(sizeof(float) * (size_t)(outputs ? outputs : 1));
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes ? bytes : 1);
    memset(y, 0xff, sizeof(float) * (size_t)outputs);
    memset(workspace, 0xff, bytes);
    convoy_weights *weights = NULL;
    if (o->prepared)
        must(convoy_weights_create(plan, w, NULL, &weights) == CONVOY_OK, "weights");
    convoy_args args = {.struct_bytes = sizeof args, .x = x, .w = o->prepared ? NULL : w, .weights = weights, .y = y};
    args.bias = o->bias ? bias : NULL;
    args.workspace = workspace;
    args.workspace_bytes = bytes;
    must(convoy_execute(plan, &args) == CONVOY_OK, "execute");
    for (int64_t i = 0; i < outputs; i += 1 + outputs / 16) {
        double value, norm;
        must(convoy_reference(context, p, x, w, args.bias, 1, &i, &value, &norm) == CONVOY_OK, "reference");
        if (!(fabs((double)y[i] - value) <= 1e-4 * (1 + (double)(p->c * p->r * p->s)))) {
            char text[256];
            convoy_problem_print(p, text, sizeof text);
            fprintf(stderr, "%s on %s: output %lld is %g, not %g\n", o->engine, text, (long long)i, (double)y[i],
                    value);
            abort();
        }
    }
    convoy_weights_destroy(weights);
    convoy_plan_destroy(plan);
    free(x);
    free(w);
    free(bias);
    free(y);
    free(workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!context)
        must(convoy_context_create(&(convoy_context_options){.threads = 2, .wisdom = "off"}, &context) == CONVOY_OK,
             "context");
    if (size < 20)
        return 0;
    convoy_problem p =
        convoy_problem_make(data[0] % 3, 0, data[1] % 40, data[2] % 40, 0, 1 + data[3] % 12, 1 + data[4] % 12);
    p.groups = 1 + data[5] % 4;
    p.c = p.groups * (data[6] % 5), p.k = p.groups * (data[7] % 5);
    p.pad_t = data[8] % 6, p.pad_b = data[9] % 6, p.pad_l = data[10] % 6, p.pad_r = data[11] % 6;
    p.stride_h = 1 + data[12] % 3, p.stride_w = 1 + data[13] % 3, p.dil_h = 1 + data[14] % 3,
    p.dil_w = 1 + data[15] % 3;
    int64_t P, Q;
    if (convoy_problem_output(&p, &P, &Q) != CONVOY_OK)
        return 0;
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)) != NULL; i++) {
        if (e->device != CONVOY_CPU || e->vendor)
            continue;
        convoy_plan_options o = {.engine = e->name, .bias = data[16] & 1, .prepared = data[16] >> 1 & 1};
        o.workspace_limited = data[16] >> 2 & 1;
        o.workspace_limit_bytes = (size_t)data[17] << (data[18] % 16);
        run(&p, &o, p.n * p.k * P * Q);
    }
    return 0;
}
