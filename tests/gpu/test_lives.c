/* Many lives on the GPU: ten thousand plans, a thousand shapes, two hundred short threads, sixteen threads with plans
 * of their own, and device memory that somebody else has taken. Host and device memory stay flat. */
#include "conv/harness.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum { TOGETHER = 16, MOST_FLOATS = 1 << 20, HELD = 64 };

static convoy_context *on;
static float *x, *w; /* MOST_FLOATS each on the device, more than any problem that is run here reads */

static void cuda(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static int set_up(void **state)
{
    (void)state;
    float *noise = malloc(sizeof *noise * MOST_FLOATS);
    assert_non_null(noise);
    uint64_t seed = 1;
    for (int i = 0; i < MOST_FLOATS; i++)
        noise[i] = (float)(int32_t)random_bits(&seed) * 0x1p-31f;
    on = context_make(1, NULL);
    cuda(cudaMalloc((void **)&x, sizeof(float) * MOST_FLOATS));
    cuda(cudaMalloc((void **)&w, sizeof(float) * MOST_FLOATS));
    cuda(cudaMemcpy(x, noise, sizeof(float) * MOST_FLOATS, cudaMemcpyHostToDevice));
    cuda(cudaMemcpy(w, noise, sizeof(float) * MOST_FLOATS, cudaMemcpyHostToDevice));
    free(noise);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cudaFree(x);
    cudaFree(w);
    convoy_context_destroy(on);
    return 0;
}

/* Safe on any thread: no assertions. The sum of y tells runs apart that differ. */
static convoy_status run_plan(const convoy_plan *plan, double *sum)
{
    convoy_plan_info info;
    int64_t P, Q;
    void *y = NULL, *workspace = NULL;
    cudaStream_t stream = NULL;
    convoy_status status = convoy_plan_describe(plan, &info);
    if (status == CONVOY_OK)
        status = convoy_problem_output(&info.problem, &P, &Q);
    if (status != CONVOY_OK)
        return status;
    const size_t floats = (size_t)(info.problem.n * info.problem.k * P * Q);
    float *host = malloc(sizeof *host * floats);
    if (!host || cudaMalloc(&y, sizeof(float) * floats) != cudaSuccess ||
        cudaMalloc(&workspace, info.workspace_bytes + 1) != cudaSuccess ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        status = CONVOY_INTERNAL;
    if (status == CONVOY_OK) {
        const convoy_args args = {.struct_bytes = sizeof args,
                                  .x = x,
                                  .w = w,
                                  .y = y,
                                  .workspace = workspace,
                                  .workspace_bytes = info.workspace_bytes,
                                  .stream = stream};
        status = convoy_execute(plan, &args);
    }
    if (status == CONVOY_OK &&
        (cudaMemcpyAsync(host, y, sizeof(float) * floats, cudaMemcpyDeviceToHost, stream) != cudaSuccess ||
         cudaStreamSynchronize(stream) != cudaSuccess))
        status = CONVOY_INTERNAL;
    *sum = 0;
    for (size_t i = 0; status == CONVOY_OK && i < floats; i++)
        *sum += (double)host[i] * (double)(i % 7 + 1);
    if (stream)
        cudaStreamDestroy(stream);
    cudaFree(y);
    cudaFree(workspace);
    free(host);
    return status;
}

static convoy_plan *make_plan(convoy_context *context, const char *text, const char *engine)
{
    convoy_problem p;
    convoy_plan *plan = NULL;
    if (convoy_problem_parse(text, &p) != CONVOY_OK ||
        convoy_plan_create(context, &p, &(convoy_plan_options){.engine = engine}, &plan) != CONVOY_OK)
        return NULL;
    return plan;
}

/* Engines of this build and machine, vendors' among them where their libraries are here. */
static int engines(const char *name[8])
{
    const convoy_engine_info *e;
    int count = 0;
    for (int i = 0; (e = convoy_engine(i)) != NULL && count < 8; i++) {
        convoy_plan *plan = e->device == CONVOY_CUDA ? make_plan(on, "n1c4h40k4r5", e->name) : NULL;
        if (plan)
            name[count++] = e->name;
        convoy_plan_destroy(plan);
    }
    assert_true(count >= 2);
    return count;
}

static struct {
    long host_kib;
    size_t free_bytes;
} early;

static void remember(void)
{
    size_t all;
    cuda(cudaDeviceSynchronize());
    cuda(cudaMemGetInfo(&early.free_bytes, &all));
    early.host_kib = resident_kib();
}

/* The GPU gives memory out by 2 MiB. */
static void is_flat(const char *what)
{
    size_t left, all;
    cuda(cudaDeviceSynchronize());
    cuda(cudaMemGetInfo(&left, &all));
    const long host = resident_kib();
    print_message("    %s: host %ld to %ld KiB, device %zu to %zu MiB free\n", what, early.host_kib, host,
                  early.free_bytes >> 20, left >> 20);
    if (host > early.host_kib + 8192 || left + ((size_t)4 << 20) < early.free_bytes)
        fail_msg("%s: memory is not flat", what);
}

static void ten_thousand_plans(void **state)
{
    (void)state;
    const char *name[8];
    const int count = engines(name);
    for (int e = 0; e < count; e++) {
        const int vendor = strncmp(name[e], "cuda_", 5) != 0, plans = vendor ? 200 : 5000;
        for (int i = 0; i < plans; i++) {
            char text[64];
            double unused;
            uint64_t seed = (uint64_t)(vendor ? i % 20 : i); /* a vendor keeps what it has loaded for a shape */
            snprintf(text, sizeof text, "n1c%dh%dk%dr%d", (int)random_in(&seed, 1, 6), (int)random_in(&seed, 12, 90),
                     (int)random_in(&seed, 1, 9), (int)random_in(&seed, 1, 12));
            convoy_context *context = i % 25 == 0 ? context_make(1, NULL) : NULL;
            convoy_plan *plan = make_plan(context ? context : on, text, name[e]);
            convoy_context_destroy(context);
            if (!plan && !vendor)
                fail_msg("%s: %s", text, convoy_last_message());
            if (plan && i % (vendor ? 1 : 20) == 0)
                assert_int_equal(run_plan(plan, &unused), CONVOY_OK);
            convoy_plan_destroy(plan);
            if (i == plans / 2)
                remember();
        }
        is_flat(name[e]);
    }
}

/* Chosen by the library among its own; weights prepared for every other. */
static void a_thousand_shapes(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (int i = 0; i < 1000; i++) {
        convoy_problem p = convoy_problem_make(random_in(&seed, 1, 3), random_in(&seed, 1, 8), random_in(&seed, 12, 80),
                                               random_in(&seed, 12, 80), random_in(&seed, 1, 8),
                                               random_in(&seed, 1, 12), random_in(&seed, 1, 12));
        test_case c = case_make(&p);
        case_fill_normal(&c, seed);
        const convoy_plan_options o = {.exclude = i % 20 ? "cudnn,cufft" : NULL, .prepared = i % 2};
        if (case_run(on, &c, &o, NULL) != CONVOY_OK)
            fail_msg("%s", convoy_last_message());
        case_free(&c);
        if (i == 500)
            remember();
    }
    is_flat("a thousand shapes");
}

typedef struct job {
    const convoy_plan *plan; /* NULL: makes its own */
    const char *engine;
    double sum;
    convoy_status status;
} job;

static void *one_run(void *user)
{
    job *j = user;
    j->status = run_plan(j->plan, &j->sum);
    return NULL;
}

static void *own_plans(void *user)
{
    job *j = user;
    double first = 0;
    for (int i = 0; i < 12 && j->status == CONVOY_OK; i++) {
        convoy_context *context = NULL;
        const convoy_context_options o = {.device = CONVOY_CUDA, .threads = 1, .wisdom = "off"};
        j->status = convoy_context_create(&o, &context);
        convoy_plan *plan = j->status == CONVOY_OK ? make_plan(context, "n1c4h40k4r5", j->engine) : NULL;
        if (j->status == CONVOY_OK)
            j->status = plan ? run_plan(plan, &j->sum) : CONVOY_INTERNAL;
        if (i == 0)
            first = j->sum;
        if (j->sum != first)
            j->status = CONVOY_INTERNAL;
        convoy_plan_destroy(plan);
        convoy_context_destroy(context);
    }
    return NULL;
}

static void together(job *jobs, int count, void *(*body)(void *), double right)
{
    pthread_t thread[TOGETHER];
    for (int t = 0; t < count; t++)
        assert_int_equal(pthread_create(&thread[t], NULL, body, &jobs[t]), 0);
    for (int t = 0; t < count; t++)
        pthread_join(thread[t], NULL);
    for (int t = 0; t < count; t++)
        if (jobs[t].status != CONVOY_OK || jobs[t].sum != right)
            fail_msg("%s, thread %d: status %d, sum %.9g, not %.9g", jobs[t].engine, t, (int)jobs[t].status,
                     jobs[t].sum, right);
}

/* Threads of one call each on one plan, then sixteen with contexts and plans of their own. */
static void short_threads_and_many(void **state)
{
    (void)state;
    const char *name[8];
    const int count = engines(name);
    for (int e = 0; e < count; e++) {
        convoy_plan *plan = make_plan(on, "n1c4h40k4r5", name[e]);
        double right;
        job jobs[TOGETHER];
        assert_non_null(plan);
        assert_int_equal(run_plan(plan, &right), CONVOY_OK);
        for (int i = 0; i < 200; i += 4) {
            for (int t = 0; t < 4; t++)
                jobs[t] = (job){plan, name[e], 0, CONVOY_OK};
            together(jobs, 4, one_run, right);
            if (i == 100)
                remember();
        }
        is_flat(name[e]);
        for (int t = 0; t < TOGETHER; t++)
            jobs[t] = (job){plan, name[e], 0, CONVOY_OK};
        together(jobs, TOGETHER, one_run, right);
        for (int t = 0; t < TOGETHER; t++)
            jobs[t] = (job){NULL, name[e], 0, CONVOY_OK};
        together(jobs, TOGETHER, own_plans, right);
        convoy_plan_destroy(plan);
    }
}

/* Takes all of the device's memory, in ever smaller pieces. */
static int take_everything(void *held[HELD])
{
    int count = 0;
    for (size_t bytes = (size_t)64 << 30; bytes >= 1 << 20 && count < HELD;)
        if (cudaMalloc(&held[count], bytes) == cudaSuccess)
            count++;
        else
            bytes /= 2;
    (void)cudaGetLastError();
    return count;
}

/* Every call that needs device memory says so, and goes on as before once there is some again. */
static void memory_taken_by_others(void **state)
{
    (void)state;
    const char *name[8];
    void *held[HELD], *memory;
    const int count = engines(name);
    for (int e = 0; e < count; e++) {
        convoy_problem p;
        convoy_plan *plan = make_plan(on, "n1c4h44k4r5", name[e]), *prepared = NULL, *late = NULL;
        convoy_weights *weights = NULL;
        convoy_timing timing;
        double before, after;
        assert_int_equal(convoy_problem_parse("n1c8h300k8r9", &p), CONVOY_OK);
        assert_non_null(plan);
        assert_int_equal(run_plan(plan, &before), CONVOY_OK);
        const convoy_plan_options o = {.engine = name[e], .prepared = 1};
        assert_int_equal(convoy_plan_create(on, &p, &o, &prepared), CONVOY_OK);
        const int pieces = take_everything(held);
        assert_int_equal(convoy_memory_alloc(on, (size_t)1 << 30, &memory), CONVOY_OUT_OF_MEMORY);
        assert_null(memory);
        assert_non_null(strstr(convoy_last_message(), "on the GPU"));
        assert_int_equal(convoy_measure(plan, 0.01, &timing), CONVOY_OUT_OF_MEMORY);
        convoy_status status = convoy_plan_create(on, &p, &(convoy_plan_options){.effort = CONVOY_MEASURE}, &late);
        assert_true(status == CONVOY_OUT_OF_MEMORY || status == CONVOY_UNSUPPORTED || status == CONVOY_OK);
        convoy_plan_destroy(late);
        late = NULL;
        status = convoy_plan_create(on, &p, &o, &late);
        print_message("    %s: a plan without memory: %s\n", name[e],
                      status == CONVOY_OK ? "made" : convoy_last_message());
        convoy_plan_destroy(late);
        status = convoy_weights_create(prepared, w, NULL, &weights); /* small ones may find a crumb */
        print_message("    %s: weights without memory: %s\n", name[e],
                      status == CONVOY_OK ? "made" : convoy_last_message());
        assert_true(status == CONVOY_OK || status == CONVOY_OUT_OF_MEMORY || status == CONVOY_DEVICE_ERROR);
        convoy_weights_destroy(weights);
        for (int i = 0; i < pieces; i++)
            cudaFree(held[i]);
        assert_int_equal(run_plan(plan, &after), CONVOY_OK);
        assert_true(before == after);
        assert_int_equal(convoy_measure(plan, 0.01, &timing), CONVOY_OK);
        if (convoy_plan_create(on, &p, &o, &late) != CONVOY_OK ||
            convoy_weights_create(late, w, NULL, &weights) != CONVOY_OK)
            fail_msg("%s does not recover: %s", name[e], convoy_last_message());
        convoy_weights_destroy(weights);
        convoy_plan_destroy(late);
        convoy_plan_destroy(prepared);
        convoy_plan_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest lives[] = {
        cmocka_unit_test_setup_teardown(memory_taken_by_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ten_thousand_plans, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_thousand_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(short_threads_and_many, set_up, tear_down),
    };
    return on_gpu() ? RUN_TESTS(lives) : 77;
}
