/* convoy run: arrays in, an array out. */
#include "npy.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tensors {
    struct npy x, w, bias, y;
    convoy_problem problem;
    bool planar; /* x and w have two dimensions, and so will y */
};

static int load(const char *option, const char *path, struct npy *array)
{
    char why[NPY_WHY];
    if (!path)
        return cli_error("--%s is missing: expected convoy run --x x.npy --w w.npy -o y.npy", option);
    return npy_load(path, array, why) == 0 ? CLI_OK : cli_error("--%s %s: %s", option, path, why);
}

static int wrong_shape(const char *option, const char *path, const struct npy *array, const char *expected)
{
    char shape[128];
    npy_shape_text(array, shape, sizeof shape);
    return cli_error("--%s %s: the shape is %s: expected %s", option, path, shape, expected);
}

static int load_all(const struct cli_options *o, struct tensors *t)
{
    if (!o->output)
        return cli_error("-o is missing: expected convoy run --x x.npy --w w.npy -o y.npy");
    int code = load("x", o->x, &t->x);
    if (code == CLI_OK)
        code = load("w", o->w, &t->w);
    if (code == CLI_OK && o->bias)
        code = load("bias", o->bias, &t->bias);
    if (code != CLI_OK)
        return code;
    if (t->x.dims != 2 && t->x.dims != 4)
        return wrong_shape("x", o->x, &t->x, "(N, C, H, W), or (H, W) for one image");
    if (t->w.dims != 2 && t->w.dims != 4)
        return wrong_shape("w", o->w, &t->w, "(K, C/G, R, S), or (R, S) for one kernel");
    if (o->bias && (t->bias.dims != 1 || t->bias.shape[0] != (t->w.dims == 4 ? t->w.shape[0] : 1)))
        return wrong_shape("bias", o->bias, &t->bias, "(K,), one value an output channel");
    return CLI_OK;
}

static int make_problem(const struct cli_options *o, struct tensors *t)
{
    const int64_t *x = t->x.shape, *w = t->w.shape;
    const bool one_image = t->x.dims == 2, one_kernel = t->w.dims == 2;
    t->planar = one_image && one_kernel;
    convoy_problem *p = &t->problem;
    *p = convoy_problem_make(one_image ? 1 : x[0], one_image ? 1 : x[1], x[t->x.dims - 2], x[t->x.dims - 1],
                             one_kernel ? 1 : w[0], w[t->w.dims - 2], w[t->w.dims - 1]);
    p->stride_h = o->stride[0], p->stride_w = o->stride[1];
    p->dil_h = o->dilation[0], p->dil_w = o->dilation[1];
    p->pad_t = o->pad[0], p->pad_b = o->pad[1], p->pad_l = o->pad[2], p->pad_r = o->pad[3];
    p->groups = o->groups;
    const int64_t per_group = one_kernel ? 1 : w[1];
    if (p->c % p->groups != 0 || per_group != p->c / p->groups) {
        char expected[160];
        snprintf(expected, sizeof expected, "C/G = %lld/%lld in its second place, from x's channels and --groups",
                 (long long)p->c, (long long)p->groups);
        return wrong_shape("w", o->w, &t->w, expected);
    }
    if (o->pad_same && (p->stride_h != 1 || p->stride_w != 1))
        return cli_error("--padding is same and --stride %lldx%lld: expected stride 1", (long long)p->stride_h,
                         (long long)p->stride_w);
    if (o->pad_same) {
        int64_t v, u;
        if (p->r < 1 || p->s < 1 || __builtin_mul_overflow(p->r - 1, p->dil_h, &v) ||
            __builtin_mul_overflow(p->s - 1, p->dil_w, &u))
            v = u = 0; /* the check below names the field */
        p->pad_t = v / 2, p->pad_b = v - v / 2;
        p->pad_l = u / 2, p->pad_r = u - u / 2;
    }
    const convoy_status status = convoy_problem_check(p);
    return status == CONVOY_OK ? CLI_OK : cli_failed(NULL, status);
}

/* Host array to device memory. On the CPU the array itself serves. */
static convoy_status to_device(convoy_context *context, const struct npy *array, float **device)
{
    const size_t bytes = (size_t)array->count * sizeof(float);
    if (!array->data)
        return CONVOY_OK;
    if (cli_device(context) == CONVOY_CPU)
        return *device = array->data, CONVOY_OK;
    const convoy_status status = convoy_memory_alloc(context, bytes, (void **)device);
    return status == CONVOY_OK ? convoy_memory_copy(context, *device, array->data, bytes, CONVOY_TO_DEVICE) : status;
}

static void from_device(convoy_context *context, const struct npy *array, float *device)
{
    if (device != array->data)
        convoy_memory_free(context, device);
}

static convoy_status compute(convoy_context *context, const convoy_plan *plan, struct tensors *t, double *seconds)
{
    float *x = NULL, *w = NULL, *bias = NULL, *y = NULL;
    void *workspace = NULL;
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    convoy_status status = to_device(context, &t->x, &x);
    if (status == CONVOY_OK)
        status = to_device(context, &t->w, &w);
    if (status == CONVOY_OK)
        status = to_device(context, &t->bias, &bias);
    if (status == CONVOY_OK)
        status = to_device(context, &t->y, &y);
    if (status == CONVOY_OK && bytes)
        status = convoy_memory_alloc(context, bytes, &workspace);
    const convoy_args args = {.struct_bytes = sizeof args,
                              .x = x,
                              .w = w,
                              .bias = bias,
                              .y = y,
                              .workspace = workspace,
                              .workspace_bytes = bytes};
    const double from = cli_now_s();
    if (status == CONVOY_OK)
        status = convoy_execute(plan, &args);
    if (status == CONVOY_OK)
        status = convoy_synchronize(context);
    *seconds = cli_now_s() - from;
    if (status == CONVOY_OK && y != t->y.data)
        status = convoy_memory_copy(context, t->y.data, y, (size_t)t->y.count * sizeof(float), CONVOY_TO_HOST);
    from_device(context, &t->x, x);
    from_device(context, &t->w, w);
    from_device(context, &t->bias, bias);
    from_device(context, &t->y, y);
    if (workspace)
        convoy_memory_free(context, workspace);
    return status;
}

static int make_output(struct tensors *t)
{
    const convoy_problem *p = &t->problem;
    int64_t P, Q;
    convoy_problem_output(p, &P, &Q);
    t->y = t->planar ? (struct npy){.dims = 2, .shape = {P, Q}} : (struct npy){.dims = 4, .shape = {p->n, p->k, P, Q}};
    t->y.count = p->n * p->k * P * Q;
    t->y.data = cli_alloc(4.0 * (double)t->y.count, "y");
    return t->y.data ? CLI_OK : CLI_BAD;
}

static int report(const struct cli_options *o, const struct tensors *t, const convoy_plan_info *info, double seconds)
{
    char text[CLI_PROBLEM_TEXT], shape[128];
    convoy_problem_print(&t->problem, text, sizeof text);
    npy_shape_text(&t->y, shape, sizeof shape);
    if (npy_is_stdout(o->output))
        return CLI_OK; /* which the array fills */
    if (!o->json) {
        printf("%s: %s by %s%s%s in %s (%s)\n", o->output, shape, info->engine, *info->candidate ? ":" : "",
               info->candidate, cli_ms(seconds).s, text);
        return cli_flush();
    }
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "problem", text);
    cJSON_AddStringToObject(line, "output", o->output);
    cJSON_AddStringToObject(line, "engine", info->engine);
    cJSON_AddStringToObject(line, "candidate", info->candidate);
    cJSON_AddStringToObject(line, "math",
                            info->math == CONVOY_MATH_EXACT   ? "exact"
                            : info->math == CONVOY_MATH_MATCH ? "match"
                                                              : "fp32");
    cJSON_AddStringToObject(line, "device", info->device == CONVOY_CUDA ? "cuda" : "cpu");
    json_real(line, "ms", 1e3 * seconds);
    return json_line(line);
}

static int convolve(const struct cli_options *o, struct tensors *t)
{
    convoy_context *context = NULL;
    convoy_plan *plan = NULL;
    convoy_plan_info info;
    char why[NPY_WHY];
    double seconds = 0;
    convoy_plan_options options = o->plan;
    options.bias = o->bias != NULL;
    int code = make_problem(o, t);
    if (code == CLI_OK)
        code = make_output(t);
    if (code == CLI_OK)
        code = cli_context(o, &context);
    if (code != CLI_OK)
        return code;
    convoy_status status = convoy_plan_create(context, &t->problem, &options, &plan);
    if (status == CONVOY_OK)
        status = convoy_plan_describe(plan, &info);
    if (status == CONVOY_OK)
        status = compute(context, plan, t, &seconds);
    if (status != CONVOY_OK)
        code = cli_failed(NULL, status);
    else if (npy_save(o->output, &t->y, why) != 0)
        code = cli_error("-o %s: %s", o->output, why);
    else
        code = report(o, t, &info, seconds);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    return code;
}

int cli_run(struct cli_options *o)
{
    struct tensors t = {0};
    int code = load_all(o, &t);
    if (code == CLI_OK)
        code = convolve(o, &t);
    free(t.x.data);
    free(t.w.data);
    free(t.bias.data);
    free(t.y.data);
    return code;
}
