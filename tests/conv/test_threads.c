/* One plan on many threads, after fork, and in whatever floating-point mode the caller is: always the same bits. */
#include "harness.h"

#include <fenv.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* The thread sanitizer sees no lock inside a vendor's library, which is not built with it. */
#if defined(__SANITIZE_THREAD__)
#define UNSEEN_BY_SANITIZER(engine) ((engine)->vendor)
#else
#define UNSEEN_BY_SANITIZER(engine) 0
#endif

enum { THREADS = 16, ROUNDS = 8 };

/* Problems small enough to run many times, large enough that every engine has several tasks. */
static const char *const problem[] = {"n2c8h33w35k8r7_pad3", "n1c6h40k6r9_padsame_gc", "n3c5h17w70k4r3s11_st2x1"};
enum { PROBLEMS = sizeof problem / sizeof *problem };

typedef struct runner {
    const test_case *c;
    const convoy_plan *plan;
    const float *right;
    convoy_status status;
    int64_t wrong;
} runner;

/* Tensors of its own for y and workspace; x and w are everyone's. */
static void *run_rounds(void *user)
{
    runner *r = user;
    const size_t bytes = convoy_plan_workspace_bytes(r->plan);
    float *y = malloc(sizeof *y * (size_t)r->c->outputs);
    void *workspace = malloc(bytes + 1);
    convoy_args args = {.struct_bytes = sizeof args, .x = r->c->x, .w = r->c->w, .bias = r->c->bias, .y = y};
    args.workspace = workspace;
    args.workspace_bytes = bytes;
    for (int i = 0; i < ROUNDS && r->status == CONVOY_OK; i++) {
        memset(y, 0xff, sizeof *y * (size_t)r->c->outputs);
        memset(workspace, 0xff, bytes);
        r->status = convoy_execute(r->plan, &args);
        for (int64_t o = 0; o < r->c->outputs; o++)
            r->wrong += !same_float(y[o], r->right[o]);
    }
    free(workspace);
    free(y);
    return NULL;
}

/* Calls what for every CPU engine that accepts each problem, with a plan of a pool of three threads and y from a plan
 * of one. */
typedef void (*with_plan)(const char *engine, runner *base);

static void each_plan(with_plan what)
{
    for (int i = 0; i < PROBLEMS; i++) {
        const convoy_engine_info *e;
        test_case c = case_of(problem[i]);
        convoy_context *one = context_make(1, NULL), *many = context_make(3, NULL);
        case_add_bias(&c);
        case_fill_normal(&c, (uint64_t)i + 5);
        for (int at = 0; (e = convoy_engine(at)) != NULL; at++) {
            convoy_plan_options o = {.engine = e->name, .bias = 1};
            convoy_plan *plan;
            if (UNSEEN_BY_SANITIZER(e) || e->device != CONVOY_CPU ||
                convoy_plan_create(one, &c.p, &o, &plan) != CONVOY_OK)
                continue;
            assert_int_equal(case_run_plan(one, &c, plan, 0), CONVOY_OK);
            convoy_plan_info info;
            char name[200]; /* the same engine and candidate for every thread count */
            assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
            snprintf(name, sizeof name, "%s%s%s", info.engine, info.candidate[0] ? ":" : "", info.candidate);
            float *right = malloc(sizeof *right * (size_t)c.outputs);
            memcpy(right, c.y, sizeof *right * (size_t)c.outputs);
            convoy_plan_destroy(plan);
            o.engine = name;
            if (convoy_plan_create(many, &c.p, &o, &plan) != CONVOY_OK)
                fail_msg("%s: %s", name, convoy_last_message());
            runner base = {.c = &c, .plan = plan, .right = right};
            what(name, &base);
            convoy_plan_destroy(plan);
            free(right);
        }
        convoy_context_destroy(one);
        convoy_context_destroy(many);
        case_free(&c);
    }
}

static void on_many_threads(const char *engine, runner *base)
{
    pthread_t thread[THREADS];
    runner r[THREADS];
    for (int i = 0; i < THREADS; i++) {
        r[i] = *base;
        assert_int_equal(pthread_create(&thread[i], NULL, run_rounds, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (r[i].status != CONVOY_OK || r[i].wrong)
            fail_msg("%s, thread %d: status %d, %lld outputs differ", engine, i, (int)r[i].status,
                     (long long)r[i].wrong);
}

static void sixteen_threads(void **state)
{
    (void)state;
    each_plan(on_many_threads);
}

/* A life of its own on every thread: context, plan, runs, in any order among the threads. */
static void *own_life(void *user)
{
    runner *r = user;
    convoy_plan_info info;
    convoy_context *context = NULL;
    convoy_plan *plan = NULL;
    char name[200];
    r->status = convoy_plan_describe(r->plan, &info);
    snprintf(name, sizeof name, "%s%s%s", info.engine, info.candidate[0] ? ":" : "", info.candidate);
    const convoy_plan_options o = {.engine = name, .bias = 1};
    for (int i = 0; i < 3 && r->status == CONVOY_OK; i++) {
        r->status = convoy_context_create(&(convoy_context_options){.threads = 1 + i, .wisdom = "off"}, &context);
        if (r->status == CONVOY_OK)
            r->status = convoy_plan_create(context, &r->c->p, &o, &plan);
        if (r->status == CONVOY_OK) {
            r->plan = plan;
            run_rounds(r);
        }
        convoy_plan_destroy(plan);
        convoy_context_destroy(context);
        plan = NULL;
    }
    return NULL;
}

static void on_lives_of_their_own(const char *engine, runner *base)
{
    pthread_t thread[THREADS];
    runner r[THREADS];
    for (int i = 0; i < THREADS; i++) {
        r[i] = *base;
        assert_int_equal(pthread_create(&thread[i], NULL, own_life, &r[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (r[i].status != CONVOY_OK || r[i].wrong)
            fail_msg("%s, thread %d with a plan of its own: status %d, %lld outputs differ", engine, i,
                     (int)r[i].status, (long long)r[i].wrong);
}

static void sixteen_plans(void **state)
{
    (void)state;
    each_plan(on_lives_of_their_own);
}

/* The child has none of the pool's workers, and perhaps locks that nobody will release. */
static void in_a_child(const char *engine, runner *base)
{
    runner r = *base;
    run_rounds(&r); /* starts the pool's workers */
    assert_int_equal(r.wrong, 0);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        r = *base;
        run_rounds(&r);
        int bad = r.status != CONVOY_OK || r.wrong;
        convoy_context *fresh = NULL; /* and new contexts work there too */
        bad |= convoy_context_create(&(convoy_context_options){.threads = 2, .wisdom = "off"}, &fresh) != CONVOY_OK;
        convoy_plan *plan = NULL;
        bad |= convoy_plan_create(fresh, &base->c->p, &(convoy_plan_options){.engine = engine, .bias = 1}, &plan) !=
               CONVOY_OK;
        r.plan = plan;
        if (!bad)
            run_rounds(&r);
        bad |= r.status != CONVOY_OK || r.wrong;
        convoy_plan_destroy(plan);
        convoy_context_destroy(fresh);
        _exit(bad);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s: the child of a fork ended with status 0x%x", engine, status);
    r = *base; /* the parent goes on as before */
    run_rounds(&r);
    assert_int_equal(r.wrong, 0);
}

static void after_fork(void **state)
{
    (void)state;
    each_plan(in_a_child);
}

#if defined(__x86_64__)
/* The plan is made and run in a mode that would change every sum: toward +inf, subnormals flushed. */
static void in_a_strange_mode(const char *engine, runner *base)
{
    const unsigned before = _mm_getcsr(), strange = (before & ~0x6000u) | 0x4000u | 0x8040u;
    convoy_context *context = context_make(3, NULL);
    convoy_plan *plan = NULL;
    runner r = *base;
    _mm_setcsr(strange);
    convoy_status status =
        convoy_plan_create(context, &base->c->p, &(convoy_plan_options){.engine = engine, .bias = 1}, &plan);
    r.plan = plan;
    if (status == CONVOY_OK)
        run_rounds(&r);
    const unsigned after = _mm_getcsr();
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    _mm_setcsr(before);
    assert_int_equal(status, CONVOY_OK);
    if (r.wrong)
        fail_msg("%s: %lld outputs depend on the caller's floating-point mode", engine, (long long)r.wrong);
    assert_int_equal(after & ~0x3fu, strange & ~0x3fu); /* the six low bits are sticky flags */
}

static void strange_modes(void **state)
{
    (void)state;
    each_plan(in_a_strange_mode);
}
#endif

int main(void)
{
    const struct CMUnitTest threads[] = {
        cmocka_unit_test(sixteen_threads),
        cmocka_unit_test(sixteen_plans),
#if !defined(__SANITIZE_THREAD__) /* whose run-time allows no threads after a fork */
        cmocka_unit_test(after_fork),
#endif
#if defined(__x86_64__)
        cmocka_unit_test(strange_modes),
#endif
    };
    return on_gpu() ? 77 : RUN_TESTS(threads);
}
