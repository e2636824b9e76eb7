/* The most memory that a process holds which runs reference problem D once, tensors and workspace included: under 600
 * MiB by the kernel's count for a child process. */
#include <convoy/convoy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LIMIT_MIB = 600 };

static float *values(size_t count)
{
    float *at = malloc(count * sizeof *at);
    for (size_t i = 0; at && i < count; i++)
        at[i] = (float)(i * 2654435761u % 2048) / 1024.0f - 1.0f;
    return at;
}

/* Exit status of the child: 0 when D has been computed. */
static int run(void)
{
    convoy_context *context;
    convoy_problem p;
    convoy_plan *plan;
    int64_t P, Q;
    if (convoy_context_create(&(convoy_context_options){.wisdom = "off"}, &context) != CONVOY_OK)
        return 1;
    if (convoy_problem_parse("n1c128h256k128r32", &p) != CONVOY_OK || convoy_problem_output(&p, &P, &Q) != CONVOY_OK)
        return 2;
    if (convoy_plan_create(context, &p, NULL, &plan) != CONVOY_OK)
        return 3;
    const size_t outputs = (size_t)(p.n * p.k * P * Q), bytes = convoy_plan_workspace_bytes(plan);
    float *x = values((size_t)(p.n * p.c * p.h * p.w)), *w = values((size_t)(p.k * p.c * p.r * p.s));
    float *y = malloc(outputs * sizeof *y);
    void *workspace = malloc(bytes);
    if (!x || !w || !y || !workspace)
        return 4;
    const convoy_args args = {
        .struct_bytes = sizeof args, .x = x, .w = w, .y = y, .workspace = workspace, .workspace_bytes = bytes};
    const int status = convoy_execute(plan, &args) == CONVOY_OK && y[outputs - 1] == y[outputs - 1] ? 0 : 5;
    free(workspace);
    free(y);
    free(w);
    free(x);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    return status;
}

static void reference_problem_d(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they hold memory of their own */
#endif
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    int status = 0;
    struct rusage use;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(getrusage(RUSAGE_CHILDREN, &use), 0);
    print_message("[          ] peak: %ld MiB\n", use.ru_maxrss / 1024);
    assert_in_range(use.ru_maxrss / 1024, 120, LIMIT_MIB); /* below the tensors' own size nothing has been measured */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reference_problem_d)};
    return cmocka_run_group_tests_name("footprint", tests, NULL, NULL);
}
