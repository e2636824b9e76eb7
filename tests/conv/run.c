#include "harness.h"

#include <unistd.h>

int on_gpu(void)
{
    const char *device = getenv("CONVOY_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

int probe_with_libraries(const char *folder, char *line, size_t bytes)
{
    char self[512], command[1300];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    snprintf(command, sizeof command, "LD_LIBRARY_PATH='%s'${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} timeout 60 '%s' probe",
             folder, self);
    *line = 0;
    FILE *f = popen(command, "r");
    assert_non_null(f);
    const char *got = fgets(line, (int)bytes, f);
    const int end = pclose(f);
    return got ? end : -1;
}

convoy_context *context_make(int threads, const char *isa)
{
    convoy_context_options o = {
        .device = on_gpu() ? CONVOY_CUDA : CONVOY_CPU, .threads = threads, .isa = isa, .wisdom = "off"};
    convoy_context *context = NULL;
    if (convoy_context_create(&o, &context) != CONVOY_OK)
        fail_msg("context: %s", convoy_last_message());
    return context;
}

static void must(convoy_status status)
{
    if (status != CONVOY_OK)
        fail_msg("%s: %s", convoy_status_text(status), convoy_last_message());
}

/* Device memory with a copy of host floats, or filled with NaN. */
static float *device_floats(convoy_context *context, const float *from, int64_t floats)
{
    const size_t bytes = sizeof(float) * (size_t)floats;
    void *memory;
    must(convoy_memory_alloc(context, bytes, &memory));
    float *poison = NULL;
    if (!from) {
        from = poison = malloc(bytes + 1);
        assert_non_null(poison);
        memset(poison, 0xff, bytes);
    }
    must(convoy_memory_copy(context, memory, from, bytes, CONVOY_TO_DEVICE));
    free(poison);
    return memory;
}

convoy_status case_run_plan(convoy_context *context, test_case *c, const convoy_plan *plan, int prepared)
{
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    for (int64_t o = 0; o < c->outputs; o++)
        *y_flat(c, o) = NAN;
    float *x = device_floats(context, c->x, c->floats[0]), *w = device_floats(context, c->w, c->floats[1]);
    float *y = device_floats(context, c->y, c->floats[2]),
          *bias = c->bias ? device_floats(context, c->bias, c->p.k) : NULL;
    float *workspace = device_floats(context, NULL, (int64_t)((bytes + 3) / 4));
    convoy_weights *weights = NULL;
    convoy_status status = CONVOY_OK;
    if (prepared)
        status = convoy_weights_create(plan, w + c->origin[1], NULL, &weights);
    if (status == CONVOY_OK) {
        convoy_args args = {
            .struct_bytes = sizeof args, .x = x + c->origin[0], .w = prepared ? NULL : w + c->origin[1]};
        args.weights = weights;
        args.bias = bias;
        args.y = y + c->origin[2];
        args.workspace = bytes ? workspace : NULL;
        args.workspace_bytes = bytes;
        status = convoy_execute(plan, &args);
    }
    if (status == CONVOY_OK)
        status = convoy_synchronize(context);
    if (status == CONVOY_OK)
        must(convoy_memory_copy(context, c->y, y, sizeof(float) * (size_t)c->floats[2], CONVOY_TO_HOST));
    convoy_weights_destroy(weights);
    convoy_memory_free(context, x);
    convoy_memory_free(context, w);
    convoy_memory_free(context, y);
    convoy_memory_free(context, bias);
    convoy_memory_free(context, workspace);
    return status;
}

convoy_status case_run(convoy_context *context, test_case *c, const convoy_plan_options *options,
                       convoy_plan_info *info)
{
    convoy_plan_options o = options ? *options : (convoy_plan_options){0};
    convoy_plan *plan = NULL;
    o.bias = c->bias != NULL;
    convoy_status status = convoy_plan_create(context, &c->p, &o, &plan);
    if (status != CONVOY_OK) {
        assert_null(plan);
        return status;
    }
    if (info) {
        must(convoy_plan_describe(plan, info));
        static char engine[64], candidate[128]; /* the plan's own text dies with it */
        snprintf(engine, sizeof engine, "%s", info->engine);
        snprintf(candidate, sizeof candidate, "%s", info->candidate);
        info->engine = engine;
        info->candidate = candidate;
    }
    status = case_run_plan(context, c, plan, o.prepared);
    convoy_plan_destroy(plan);
    return status;
}

int each_engine(convoy_context *context, test_case *c, convoy_math math, engine_check check, void *user)
{
    int ran = 0;
    const convoy_engine_info *engine;
    for (int i = 0; (engine = convoy_engine(i)) != NULL; i++) {
        const convoy_engine_info e = *engine;
        if (e.device != (on_gpu() ? CONVOY_CUDA : CONVOY_CPU))
            continue;
        convoy_plan_options o = {.math = math, .engine = e.name};
        convoy_plan_info info;
        convoy_status status = case_run(context, c, &o, &info);
        if (status == CONVOY_UNSUPPORTED)
            continue;
        must(status);
        assert_string_equal(info.engine, e.name);
        check(c, &e, &info, user);
        ran++;
    }
    return ran;
}

int run_all(const struct CMUnitTest *tests, size_t count, const char *name)
{
    if (on_gpu()) {
        convoy_context *context;
        convoy_context_options o = {.device = CONVOY_CUDA, .wisdom = "off"};
        if (convoy_context_create(&o, &context) != CONVOY_OK) {
            printf("skipped: %s\n", convoy_last_message());
            return 77;
        }
        convoy_context_destroy(context);
    }
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL) != 0;
}

long resident_kib(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}
