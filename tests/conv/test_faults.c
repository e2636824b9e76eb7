/* Lives that end badly, and many lives: ten thousand plans, two hundred threads, small stacks, forks in the middle of
 * other threads' work, exit with everything alive, pointers that are NULL. */
#include "harness.h"

#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *const own_engines[] = {"direct", "fft", "ref"};

static convoy_context *make_context(int threads)
{
    convoy_context *context = NULL;
    if (convoy_context_create(&(convoy_context_options){.threads = threads, .wisdom = "off"}, &context) != CONVOY_OK)
        fail_msg("%s", convoy_last_message());
    return context;
}

static convoy_plan *make_plan(convoy_context *context, const char *text, const char *engine)
{
    convoy_problem p;
    convoy_plan *plan = NULL;
    if (convoy_problem_parse(text, &p) != CONVOY_OK ||
        convoy_plan_create(context, &p, &(convoy_plan_options){.engine = engine}, &plan) != CONVOY_OK)
        fail_msg("%s: %s", text, convoy_last_message());
    return plan;
}

/* One run of a plan on data of its own. Safe on any thread: no assertions. */
static convoy_status run_plan(const convoy_plan *plan, float *checksum)
{
    convoy_plan_info info;
    int64_t P = 0, Q = 0;
    if (convoy_plan_describe(plan, &info) != CONVOY_OK || convoy_problem_output(&info.problem, &P, &Q) != CONVOY_OK)
        return CONVOY_INTERNAL;
    const convoy_problem *p = &info.problem;
    const int64_t xs = p->n * p->c * p->h * p->w, ws = p->k * (p->c / p->groups) * p->r * p->s,
                  ys = p->n * p->k * P * Q;
    float *memory = malloc(sizeof(float) * (size_t)(xs + ws + ys));
    void *workspace = malloc(info.workspace_bytes + 1);
    convoy_status status = CONVOY_OUT_OF_MEMORY;
    if (memory && workspace) {
        for (int64_t i = 0; i < xs + ws; i++)
            memory[i] = (float)(i * 7 % 13) - 6;
        const convoy_args args = {.struct_bytes = sizeof args,
                                  .x = memory,
                                  .w = memory + xs,
                                  .y = memory + xs + ws,
                                  .workspace = workspace,
                                  .workspace_bytes = info.workspace_bytes};
        status = convoy_execute(plan, &args);
        *checksum = 0;
        for (int64_t i = 0; i < ys && status == CONVOY_OK; i++)
            *checksum += memory[xs + ws + i];
    }
    free(memory);
    free(workspace);
    return status;
}

static void ten_thousand_plans(void **state)
{
    (void)state;
    enum { PLANS = SANITIZED ? 1500 : 10000 };
    long early = 0;
    uint64_t seed = 3;
    for (int i = 0; i < PLANS; i++) {
        char text[64];
        snprintf(text, sizeof text, "n1c%dh%dk%dr%d", (int)random_in(&seed, 1, 6), (int)random_in(&seed, 12, 90),
                 (int)random_in(&seed, 1, 9), (int)random_in(&seed, 1, 12));
        convoy_context *context = make_context(1 + i % 3);
        convoy_plan *plan = make_plan(context, text, own_engines[i % 3]);
        float unused;
        if (i % 10 == 0)
            assert_int_equal(run_plan(plan, &unused), CONVOY_OK); /* starts threads, too */
        convoy_context_destroy(context);
        convoy_plan_destroy(plan);
        if (i == PLANS / 5)
            early = resident_kib();
    }
    if (!SANITIZED && resident_kib() > early + 2048)
        fail_msg("resident memory grew from %ld to %ld KiB", early, resident_kib());
}

typedef struct job {
    const convoy_plan *plan;
    float sum;
    convoy_status status;
    const char *wisdom;
} job;

static void *one_run(void *user)
{
    job *j = user;
    j->status = run_plan(j->plan, &j->sum);
    return NULL;
}

/* Threads that live for one call leave nothing behind. */
static void two_hundred_threads(void **state)
{
    (void)state;
    convoy_context *context = make_context(3);
    long early = 0;
    for (int e = 0; e < 3; e++) {
        convoy_plan *plan = make_plan(context, "n1c4h30k4r5", own_engines[e]);
        float right;
        assert_int_equal(run_plan(plan, &right), CONVOY_OK);
        for (int i = 0; i < 200; i += 4) {
            pthread_t thread[4];
            job jobs[4];
            for (int t = 0; t < 4; t++) {
                jobs[t] = (job){.plan = plan};
                assert_int_equal(pthread_create(&thread[t], NULL, one_run, &jobs[t]), 0);
            }
            for (int t = 0; t < 4; t++) {
                pthread_join(thread[t], NULL);
                assert_int_equal(jobs[t].status, CONVOY_OK);
                assert_true(jobs[t].sum == right);
            }
            if (e == 0 && i == 40)
                early = resident_kib();
        }
        convoy_plan_destroy(plan);
    }
    convoy_context_destroy(context);
    if (!SANITIZED && resident_kib() > early + 4096)
        fail_msg("resident memory grew from %ld to %ld KiB", early, resident_kib());
}

static void *whole_life(void *user)
{
    job *j = user;
    convoy_context *context = NULL;
    convoy_plan *plan = NULL;
    convoy_problem p;
    const convoy_context_options o = {.threads = 2, .wisdom = j->wisdom};
    for (int e = 0; e < 3 && j->status == CONVOY_OK; e++)
        for (int math = 0; math < 3 && j->status == CONVOY_OK; math++) {
            convoy_plan_options po = {.math = (convoy_math)math, .exclude = "onednn"};
            po.rtol = math == CONVOY_MATH_MATCH ? 1e-3 : 0;
            po.effort = e ? CONVOY_ESTIMATE : CONVOY_MEASURE;
            po.time_limit_s = 0.01;
            po.engine = math == 0 ? own_engines[e] : NULL;
            j->status = convoy_problem_parse("n1c8h40k8r9_pad2", &p);
            if (j->status == CONVOY_OK)
                j->status = convoy_context_create(&o, &context);
            if (j->status == CONVOY_OK)
                j->status = convoy_plan_create(context, &p, &po, &plan);
            if (j->status == CONVOY_OK)
                j->status = run_plan(plan, &j->sum);
            convoy_plan_destroy(plan);
            convoy_context_destroy(context);
        }
    return NULL;
}

/* Fibres and musl's threads have small stacks: 128 KiB, of which the caller needs some. Tuning and its file are in. */
static void small_stacks(void **state)
{
    (void)state;
    pthread_attr_t attributes;
    pthread_t thread;
    char wisdom[] = "/tmp/convoy-stack-XXXXXX";
    job j = {.wisdom = wisdom};
    close(mkstemp(wisdom));
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SANITIZED ? 1 << 20 : 96 << 10), 0);
    assert_int_equal(pthread_create(&thread, &attributes, whole_life, &j), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    unlink(wisdom);
    assert_int_equal(j.status, CONVOY_OK);
}

typedef struct churn {
    const convoy_plan *plan;
    atomic_int stop, bad;
} churn;

static void *run_until_told(void *user)
{
    churn *c = user;
    float sum;
    while (!atomic_load(&c->stop))
        if (run_plan(c->plan, &sum) != CONVOY_OK)
            atomic_store(&c->bad, 1);
    return NULL;
}

/* A child that is forked while other threads hold the pool uses the same plan, destroys it, and makes new ones. */
static void fork_in_the_middle(void **state)
{
    (void)state;
    convoy_context *context = make_context(3);
    for (int e = 0; e < 2; e++) {
        convoy_plan *plan = make_plan(context, "n2c8h60k8r7", own_engines[e]);
        float right;
        assert_int_equal(run_plan(plan, &right), CONVOY_OK);
        churn c = {.plan = plan};
        pthread_t thread[2];
        for (int t = 0; t < 2; t++)
            assert_int_equal(pthread_create(&thread[t], NULL, run_until_told, &c), 0);
        for (int i = 0; i < 12; i++) {
            fflush(NULL);
            const pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                alarm(30);
                float sum = 0;
                int bad = run_plan(plan, &sum) != CONVOY_OK || sum != right;
                convoy_plan_destroy(plan);
                bad |= convoy_context_create(&(convoy_context_options){.threads = 2}, &context) != CONVOY_OK;
                convoy_problem p = convoy_problem_make(1, 2, 30, 30, 2, 5, 5);
                bad |= convoy_plan_create(context, &p, NULL, &plan) != CONVOY_OK || run_plan(plan, &sum) != CONVOY_OK;
                convoy_plan_destroy(plan);
                convoy_context_destroy(context);
                _exit(bad);
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            if (status != 0)
                fail_msg("%s, child %d ended with 0x%x", own_engines[e], i, status);
        }
        atomic_store(&c.stop, 1);
        for (int t = 0; t < 2; t++)
            pthread_join(thread[t], NULL);
        assert_false(atomic_load(&c.bad));
        convoy_plan_destroy(plan);
    }
    convoy_context_destroy(context);
}

/* exit() with plans, weights and busy threads alive is a clean end. */
static void exit_with_everything(void **state)
{
    (void)state;
    for (int e = 0; e < 3; e++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(30);
            convoy_context *context = make_context(3);
            static churn c;
            pthread_t thread;
            c.plan = make_plan(context, "n2c8h60k8r7", own_engines[e]);
            if (pthread_create(&thread, NULL, run_until_told, &c) != 0)
                _exit(1);
            usleep(20000);
            if (SANITIZED)
                _exit(0);   /* what is alive at exit is a leak to the leak checker */
            fclose(stdout); /* cmocka's report is the parent's */
            exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("%s: exit ended with 0x%x", own_engines[e], status);
    }
}

/* Every pointer that may be wrong: a status or nothing, never a fault. */
static void nothing_for_everything(void **state)
{
    (void)state;
    convoy_context *context = make_context(1);
    convoy_problem p = convoy_problem_make(1, 1, 8, 8, 1, 3, 3), empty;
    double a = 7, b = 7;
    int64_t index = 0;
    void *memory = &a;
    convoy_timing timing;
    convoy_phase phase;
    int count = 7;
    assert_int_equal(convoy_context_create(NULL, NULL), CONVOY_INVALID);
    convoy_context_destroy(NULL);
    assert_string_equal(convoy_context_info(NULL), "");
    assert_int_equal(convoy_problem_parse(NULL, &empty), CONVOY_INVALID);
    assert_int_equal(convoy_problem_parse("A", NULL), CONVOY_INVALID);
    assert_int_equal(convoy_problem_print(NULL, NULL, 0), 0);
    assert_int_equal(convoy_problem_print(&p, NULL, 100), strlen("n1c1h8k1r3"));
    assert_int_equal(convoy_problem_check(NULL), CONVOY_INVALID);
    assert_int_equal(convoy_problem_output(NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_problem_output(&p, NULL, NULL), CONVOY_OK);
    assert_true(convoy_problem_flop(NULL) == 0);
    assert_int_equal(convoy_plan_create(NULL, &p, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_plan_create(context, &p, NULL, NULL), CONVOY_INVALID);
    convoy_plan_destroy(NULL);
    assert_int_equal(convoy_plan_workspace_bytes(NULL), 0);
    assert_int_equal(convoy_plan_describe(NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_explain(context, &p, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_explain(NULL, NULL, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_candidates(context, &p, NULL, NULL, NULL), CONVOY_INVALID);
    assert_null(convoy_engine(-1));
    assert_null(convoy_engine(1 << 30));
    assert_int_equal(convoy_weights_create(NULL, NULL, NULL, NULL), CONVOY_INVALID);
    convoy_weights_destroy(NULL);
    assert_int_equal(convoy_weights_bytes(NULL), 0);
    assert_int_equal(convoy_execute(NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_execute_phases(NULL, NULL, &phase, 1, &count), CONVOY_INVALID);
    assert_int_equal(count, 0);
    assert_int_equal(convoy_measure(NULL, 0, &timing), CONVOY_INVALID);
    assert_int_equal(convoy_measure(NULL, 0, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_measure_ceilings(NULL, &a, &b), CONVOY_INVALID);
    assert_true(a == 0 && b == 0);
    assert_int_equal(convoy_reference(NULL, &p, NULL, NULL, NULL, 0, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_reference(context, &p, NULL, NULL, NULL, 1, &index, &a, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_memory_alloc(NULL, 8, &memory), CONVOY_INVALID);
    assert_null(memory);
    assert_int_equal(convoy_memory_alloc(context, SIZE_MAX, &memory), CONVOY_OUT_OF_MEMORY);
    assert_null(memory);
    convoy_memory_free(NULL, &a);
    convoy_memory_free(context, NULL);
    assert_int_equal(convoy_memory_copy(context, NULL, NULL, 0, CONVOY_TO_HOST), CONVOY_OK);
    assert_int_equal(convoy_memory_copy(context, NULL, &a, 8, CONVOY_TO_HOST), CONVOY_INVALID);
    assert_int_equal(convoy_synchronize(NULL), CONVOY_INVALID);
    assert_int_equal(convoy_wisdom_each(NULL, NULL, NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_wisdom_merge(NULL, NULL), CONVOY_INVALID);
    assert_int_equal(convoy_wisdom_clear(NULL), CONVOY_INVALID);
    assert_string_equal(convoy_status_text((convoy_status)-1), "unknown status");
    convoy_context_destroy(context);
}

#if defined(__GLIBC__)
static void count_line(void *user, const convoy_candidate *c)
{
    (void)c;
    ++*(int *)user;
}

static void explain_line(void *user, const convoy_explanation *e)
{
    (void)e;
    ++*(int *)user;
}

/* A caller who wants every floating-point exception as a signal gets none from us: not even inexact. */
static void trapping_caller(void **state)
{
    (void)state;
    convoy_context *context = make_context(2);
    convoy_problem p = convoy_problem_make(1, 3, 41, 43, 5, 7, 6);
    int lines = 0;
    float sum;
    convoy_plan *plan = make_plan(context, "n1c3h41k5r7", NULL);
    feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    for (int math = 0; math < 3; math++) {
        convoy_plan_options o = {.math = (convoy_math)math, .exclude = "onednn"};
        o.rtol = math == CONVOY_MATH_MATCH ? 1e-3 : 0;
        assert_int_equal(convoy_candidates(context, &p, &o, count_line, &lines), CONVOY_OK);
        assert_int_equal(convoy_explain(context, &p, &o, explain_line, &lines), CONVOY_OK);
    }
    assert_int_equal(run_plan(plan, &sum), CONVOY_OK);
    assert_int_equal(fegetexcept(), FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
    fedisableexcept(FE_ALL_EXCEPT);
    assert_true(lines > 6);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
}
#endif

int main(void)
{
    const struct CMUnitTest faults[] = {
        cmocka_unit_test(ten_thousand_plans),
        cmocka_unit_test(two_hundred_threads),
        cmocka_unit_test(small_stacks),
#if !defined(__SANITIZE_THREAD__) /* whose run-time allows no threads after a fork */
        cmocka_unit_test(fork_in_the_middle),
        cmocka_unit_test(exit_with_everything),
#endif
        cmocka_unit_test(nothing_for_everything),
#if defined(__GLIBC__)
        cmocka_unit_test(trapping_caller),
#endif
    };
    return RUN_TESTS(faults);
}
