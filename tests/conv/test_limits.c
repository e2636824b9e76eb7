/* What the system may refuse: threads, addresses. The work is then done by the calling thread alone, or refused with a
 * status; in a child process each, which the limits die with. */
#include "harness.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { CANNOT_LIMIT = 77 };

static const char *const engine[] = {"direct", "fft", "ref"};

static void *nothing(void *user) { return user; }

/* 0: the right bits, or a refusal for want of memory where that may be. */
static int run_each(test_case *c, float *const right[3], int may_refuse)
{
    for (int e = 0; e < 3; e++) {
        convoy_context *context = NULL;
        convoy_plan *plan = NULL;
        const convoy_plan_options o = {.engine = engine[e]};
        convoy_status status =
            convoy_context_create(&(convoy_context_options){.threads = 3, .wisdom = "off"}, &context);
        if (status == CONVOY_OK)
            status = convoy_plan_create(context, &c->p, &o, &plan);
        void *workspace = status == CONVOY_OK ? malloc(convoy_plan_workspace_bytes(plan) + 1) : NULL;
        if (status == CONVOY_OK && !workspace)
            status = CONVOY_OUT_OF_MEMORY;
        if (status == CONVOY_OK) {
            const convoy_args args = {.struct_bytes = sizeof args,
                                      .x = c->x,
                                      .w = c->w,
                                      .y = c->y,
                                      .workspace = workspace,
                                      .workspace_bytes = convoy_plan_workspace_bytes(plan)};
            memset(c->y, 0xff, sizeof(float) * (size_t)c->floats[2]);
            status = convoy_execute(plan, &args);
        }
        if (status == CONVOY_OK ? memcmp(c->y, right[e], sizeof(float) * (size_t)c->floats[2]) != 0
                                : !may_refuse || status != CONVOY_OUT_OF_MEMORY)
            return 10 + e;
        free(workspace);
        convoy_plan_destroy(plan);
        convoy_context_destroy(context);
    }
    return 0;
}

/* No thread can be had: root has to become somebody else first. */
static int without_threads(test_case *c, float *const right[3])
{
    pthread_t thread;
    setrlimit(RLIMIT_NPROC, &(struct rlimit){1, 1});
    if (geteuid() == 0 && setuid(54321) != 0)
        return CANNOT_LIMIT;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0)
        return CANNOT_LIMIT;
    return run_each(c, right, 0);
}

/* Addresses for the tensors and a little more, not for the threads' stacks of 8 MiB. */
static int without_room(test_case *c, float *const right[3])
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (SANITIZED || !f || fscanf(f, "%ld", &pages) != 1)
        return CANNOT_LIMIT;
    fclose(f);
    const rlim_t now = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
    static const rlim_t more_kib[] = {6 << 10, 2 << 10, 512, 128, 0};
    for (int i = 0; i < 5; i++) {
        const rlim_t room = now + (more_kib[i] << 10);
        setrlimit(RLIMIT_AS, &(struct rlimit){room, RLIM_INFINITY});
        const int bad = run_each(c, right, 1);
        setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
        if (bad)
            return bad + 10 * i;
    }
    return 0;
}

static void under(const char *what, int (*limited)(test_case *, float *const[3]))
{
    test_case c = case_of("n2c8h60k8r7");
    float *right[3];
    int status = -1;
    case_fill_normal(&c, 4);
    for (int e = 0; e < 3; e++) {
        convoy_context *context = context_make(1, NULL);
        assert_int_equal(case_run(context, &c, &(convoy_plan_options){.engine = engine[e]}, NULL), CONVOY_OK);
        convoy_context_destroy(context);
        right[e] = malloc(sizeof(float) * (size_t)c.floats[2]);
        assert_non_null(right[e]);
        memcpy(right[e], c.y, sizeof(float) * (size_t)c.floats[2]);
    }
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(limited(&c, right));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int e = 0; e < 3; e++)
        free(right[e]);
    case_free(&c);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_LIMIT)
        skip();
    if (status != 0)
        fail_msg("%s: the child ended with 0x%x", what, status);
}

static void no_threads(void **state)
{
    (void)state;
    under("no threads", without_threads);
}

static void no_room(void **state)
{
    (void)state;
    under("no room", without_room);
}

int main(void)
{
    const struct CMUnitTest limits[] = {cmocka_unit_test(no_threads), cmocka_unit_test(no_room)};
    return RUN_TESTS(limits);
}
