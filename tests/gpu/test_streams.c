/* Every engine of the GPU on streams: captured in a CUDA graph and replayed, and one plan on several threads with a
 * stream each. The bits are those of a plain run, guards included: one problem has a NaN in x. */
#include "conv/harness.h"

#include <cuda_runtime_api.h>
#include <pthread.h>

enum { THREADS = 16, ROUNDS = 6 };

static const char *const problem[] = {"n2c16h40k24r5_pad2", "n1c6h40k6r9_padsame_gc", "n2c8h30w41k8r3s5_st2x1_g2"};

static void cuda(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

static float *on_device(const float *from, int64_t floats)
{
    void *memory = NULL;
    cuda(cudaMalloc(&memory, sizeof(float) * (size_t)floats));
    cuda(cudaMemcpy(memory, from, sizeof(float) * (size_t)floats, cudaMemcpyHostToDevice));
    return memory;
}

/* What a thread runs: y, the workspace and the stream are its own. */
typedef struct runner {
    const convoy_plan *plan;
    convoy_args args;
    const float *right;
    float *y;
    int64_t outputs, wrong;
    cudaError_t error;
    convoy_status status;
} runner;

static void runner_open(runner *r, const convoy_plan *plan, const test_case *c, const float *x, const float *w,
                        const float *bias, const float *right)
{
    cudaStream_t stream;
    void *y, *workspace = NULL;
    memset(r, 0, sizeof *r);
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda(cudaMalloc(&y, sizeof(float) * (size_t)c->outputs));
    if (bytes)
        cuda(cudaMalloc(&workspace, bytes));
    r->plan = plan;
    r->right = right;
    r->outputs = c->outputs;
    r->y = malloc(sizeof(float) * (size_t)c->outputs);
    assert_non_null(r->y);
    r->args.struct_bytes = sizeof r->args;
    r->args.x = x;
    r->args.w = w;
    r->args.bias = bias;
    r->args.y = y;
    r->args.workspace = workspace;
    r->args.workspace_bytes = bytes;
    r->args.stream = stream;
}

static void runner_close(runner *r)
{
    cudaStreamDestroy(r->args.stream);
    cudaFree(r->args.y);
    cudaFree(r->args.workspace);
    free(r->y);
}

/* Poisons y and the workspace on the stream, so that nothing is left over from the run before. */
static void poison(runner *r)
{
    if (r->error == cudaSuccess)
        r->error = cudaMemsetAsync(r->args.y, 0xff, sizeof(float) * (size_t)r->outputs, r->args.stream);
    if (r->error == cudaSuccess && r->args.workspace)
        r->error = cudaMemsetAsync(r->args.workspace, 0xff, r->args.workspace_bytes, r->args.stream);
}

static void compare(runner *r)
{
    const size_t bytes = sizeof(float) * (size_t)r->outputs;
    if (r->error == cudaSuccess)
        r->error = cudaMemcpyAsync(r->y, r->args.y, bytes, cudaMemcpyDeviceToHost, r->args.stream);
    if (r->error == cudaSuccess)
        r->error = cudaStreamSynchronize(r->args.stream);
    for (int64_t o = 0; r->error == cudaSuccess && o < r->outputs; o++)
        r->wrong += !same_float(r->y[o], r->right[o]);
}

static void *rounds(void *user)
{
    runner *r = user;
    for (int i = 0; i < ROUNDS && r->status == CONVOY_OK && r->error == cudaSuccess; i++) {
        poison(r);
        r->status = convoy_execute(r->plan, &r->args);
        compare(r);
    }
    return NULL;
}

static void check(const runner *r, const char *engine, const char *how)
{
    if (r->error != cudaSuccess || r->status != CONVOY_OK || r->wrong)
        fail_msg("%s, %s: status %d, %s, %lld outputs differ", engine, how, (int)r->status,
                 cudaGetErrorString(r->error), (long long)r->wrong);
}

static void in_a_graph(const char *engine, runner *r)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t replay = NULL;
    cuda(cudaStreamBeginCapture(r->args.stream, cudaStreamCaptureModeThreadLocal));
    const convoy_status status = convoy_execute(r->plan, &r->args);
    const cudaError_t ended = cudaStreamEndCapture(r->args.stream, &graph);
    if (status != CONVOY_OK || ended != cudaSuccess)
        fail_msg("%s does not capture: %s, %s", engine, status == CONVOY_OK ? "" : convoy_last_message(),
                 cudaGetErrorString(ended));
    cuda(cudaGraphInstantiate(&replay, graph, 0));
    for (int i = 0; i < 2; i++) {
        poison(r);
        cuda(cudaGraphLaunch(replay, r->args.stream));
        compare(r);
    }
    check(r, engine, "in a graph");
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
}

static void one_engine(convoy_context *context, test_case *c, const convoy_plan *plan, const char *engine)
{
    assert_int_equal(case_run_plan(context, c, plan, 0), CONVOY_OK);
    float *x = on_device(c->x, c->floats[0]), *w = on_device(c->w, c->floats[1]), *bias = on_device(c->bias, c->p.k);
    runner r[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        runner_open(&r[i], plan, c, x, w, bias, c->y);
    in_a_graph(engine, &r[0]);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, rounds, &r[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        check(&r[i], engine, "on a stream of its own");
        runner_close(&r[i]);
    }
    cudaFree(x);
    cudaFree(w);
    cudaFree(bias);
}

static void every_engine_on_streams(void **state)
{
    (void)state;
    convoy_context *context = context_make(2, NULL);
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++)
        for (int bad = 0; bad < 2; bad++) {
            const convoy_engine_info *e;
            test_case c = case_of(problem[i]);
            case_add_bias(&c);
            case_fill_normal(&c, i + 11);
            if (bad)
                *x_at(&c, 0, 3, 12, 7) = NAN;
            for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
                const convoy_plan_options o = {.engine = e->name, .bias = 1};
                convoy_plan *plan;
                if (e->device != CONVOY_CUDA || convoy_plan_create(context, &c.p, &o, &plan) != CONVOY_OK)
                    continue;
                one_engine(context, &c, plan, e->name);
                convoy_plan_destroy(plan);
            }
            /* the contract that is composed of several kernels, at a tolerance that leaves outputs to recompute */
            const convoy_plan_options o = {
                .engine = "cuda_fft", .math = CONVOY_MATH_MATCH, .rtol = 1e-6, .atol = 3e-6, .bias = 1};
            convoy_plan *plan;
            if (convoy_plan_create(context, &c.p, &o, &plan) == CONVOY_OK) {
                one_engine(context, &c, plan, "match by cuda_fft");
                convoy_plan_destroy(plan);
            }
            case_free(&c);
        }
    convoy_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest streams[] = {cmocka_unit_test(every_engine_on_streams)};
    return RUN_TESTS(streams);
}
