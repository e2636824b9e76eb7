/* Ends of processes that use the GPU: exit with everything alive, dlclose with plans alive or freed, fork, and a GPU
 * context that a wild pointer has broken. Each in a process of its own, which this program starts with a word: CUDA may
 * not be used after a fork. */
#include "conv/harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static char self[512];

static const char *const engine[] = {"cuda_igemm", "cuda_fft", "cufft", "cudnn"};

/* ---- In the child: 0 is good; what is wrong goes to standard error. */

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #what, convoy_last_message());                              \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef struct life {
    convoy_context *context;
    convoy_plan *plan;
    convoy_weights *weights;
    convoy_args args;
} life;

/* A context, a plan with prepared weights, and tensors, used once. 1 where the engine is not to be had. */
static int begin(life *l, const char *name)
{
    convoy_problem p = convoy_problem_make(2, 8, 60, 60, 8, 7, 7);
    const convoy_plan_options o = {.engine = name, .prepared = 1};
    void *t[4];
    memset(l, 0, sizeof *l);
    if (convoy_context_create(&(convoy_context_options){.device = CONVOY_CUDA, .wisdom = "off"}, &l->context) !=
            CONVOY_OK ||
        convoy_plan_create(l->context, &p, &o, &l->plan) != CONVOY_OK)
        return 1;
    const size_t bytes[4] = {4 * 2 * 8 * 60 * 60, 4 * 8 * 8 * 7 * 7, 4 * 2 * 8 * 54 * 54,
                             convoy_plan_workspace_bytes(l->plan) + 1};
    for (int i = 0; i < 4; i++)
        if (convoy_memory_alloc(l->context, bytes[i], &t[i]) != CONVOY_OK)
            return 1;
    l->args = (convoy_args){.struct_bytes = sizeof l->args, .x = t[0], .y = t[2]};
    l->args.workspace = t[3];
    l->args.workspace_bytes = bytes[3] - 1;
    if (convoy_weights_create(l->plan, t[1], NULL, &l->weights) != CONVOY_OK)
        return 1;
    l->args.weights = l->weights;
    return convoy_execute(l->plan, &l->args) != CONVOY_OK || convoy_synchronize(l->context) != CONVOY_OK;
}

static void *run_often(void *user)
{
    life *l = user;
    for (int i = 0; i < 50; i++)
        if (convoy_execute(l->plan, &l->args) != CONVOY_OK)
            return l;
    return NULL;
}

/* Everything alive and the GPU still at work. No thread may be inside CUDA while the process ends: that is CUDA's rule.
 */
static int exits(void)
{
    static life lives[4];
    for (int e = 0; e < 4; e++) {
        pthread_t thread;
        void *failed;
        if (begin(&lives[e], engine[e]) && e > 1)
            continue;
        CHECK(lives[e].weights);
        CHECK(pthread_create(&thread, NULL, run_often, &lives[e]) == 0);
        CHECK(pthread_join(thread, &failed) == 0 && !failed);
    }
    exit(0);
}

/* For a look at what happens against that rule; no test. */
static void *run_for_ever(void *user)
{
    while (!run_often(user))
        ;
    return NULL;
}

static int exits_busy(const char *name)
{
    static life l;
    pthread_t thread;
    CHECK(begin(&l, name) == 0 && pthread_create(&thread, NULL, run_for_ever, &l) == 0);
    usleep(50000);
    exit(0);
}

/* The library as a plugin, in a copy of its own. */
static int plugin(const char *path, int forget)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        convoy_status (*create)(const convoy_context_options *, convoy_context **);
        convoy_status (*plan_create)(convoy_context *, const convoy_problem *, const convoy_plan_options *,
                                     convoy_plan **);
        convoy_status (*measure)(const convoy_plan *, double, convoy_timing *);
        void (*plan_destroy)(convoy_plan *), (*destroy)(convoy_context *);
        CHECK(library);
#define FIND(pointer, name) CHECK((*(void **)(&(pointer)) = dlsym(library, name)) != NULL)
        FIND(create, "convoy_context_create");
        FIND(plan_create, "convoy_plan_create");
        FIND(measure, "convoy_measure");
        FIND(plan_destroy, "convoy_plan_destroy");
        FIND(destroy, "convoy_context_destroy");
        convoy_context *context;
        CHECK(create(&(convoy_context_options){.device = CONVOY_CUDA, .wisdom = "off"}, &context) == CONVOY_OK);
        for (int e = 0; e < 4; e++) {
            convoy_problem p = convoy_problem_make(1, 4, 40, 40, 4, 5, 5);
            convoy_plan *plan;
            convoy_timing timing;
            if (plan_create(context, &p, &(convoy_plan_options){.engine = engine[e]}, &plan) != CONVOY_OK && e > 1)
                continue;
            CHECK(measure(plan, 0.001, &timing) == CONVOY_OK);
            if (!forget)
                plan_destroy(plan);
        }
        if (!forget)
            destroy(context);
        dlclose(library);
    }
    return 0;
}

/* The child of a fork may use the CPU, and is told about the GPU; everything may be destroyed. */
static int in_the_fork(life *l)
{
    convoy_problem p = convoy_problem_make(1, 4, 40, 40, 4, 5, 5);
    convoy_context *context;
    convoy_plan *plan;
    convoy_weights *weights;
    convoy_timing timing;
    void *memory;
    alarm(60);
    CHECK(convoy_execute(l->plan, &l->args) == CONVOY_UNSUPPORTED);
    CHECK(strstr(convoy_last_message(), "was forked"));
    CHECK(convoy_synchronize(l->context) == CONVOY_UNSUPPORTED);
    CHECK(convoy_memory_alloc(l->context, 100, &memory) == CONVOY_UNSUPPORTED && !memory);
    CHECK(convoy_plan_create(l->context, &p, NULL, &plan) == CONVOY_UNSUPPORTED && !plan);
    CHECK(convoy_weights_create(l->plan, l->args.x, NULL, &weights) == CONVOY_UNSUPPORTED && !weights);
    CHECK(convoy_measure(l->plan, 0.01, &timing) == CONVOY_UNSUPPORTED);
    const convoy_context_options o = {.device = CONVOY_CUDA, .wisdom = "off"};
    CHECK(convoy_context_create(&o, &context) == CONVOY_UNSUPPORTED && !context);
    CHECK(strstr(convoy_last_message(), "was forked"));
    convoy_weights_destroy(l->weights);
    convoy_plan_destroy(l->plan);
    convoy_context_destroy(l->context);
    CHECK(convoy_context_create(&(convoy_context_options){.wisdom = "off"}, &context) == CONVOY_OK);
    CHECK(convoy_plan_create(context, &p, NULL, &plan) == CONVOY_OK);
    CHECK(convoy_measure(plan, 0.001, &timing) == CONVOY_OK);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    return 0;
}

static int forks(void)
{
    for (int e = 0; e < 4; e++) {
        life l;
        int status = -1;
        if (begin(&l, engine[e]) && e > 1)
            continue;
        CHECK(l.weights);
        fflush(NULL);
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            _exit(in_the_fork(&l));
        CHECK(waitpid(child, &status, 0) == child);
        if (status != 0)
            fprintf(stderr, "%s: the child ended with 0x%x\n", engine[e], status);
        CHECK(status == 0);
        CHECK(convoy_execute(l.plan, &l.args) == CONVOY_OK && convoy_synchronize(l.context) == CONVOY_OK);
        convoy_weights_destroy(l.weights);
        convoy_plan_destroy(l.plan);
        convoy_context_destroy(l.context);
    }
    return 0;
}

/* After a wild pointer CUDA answers nothing more in this process: statuses and words, destruction, a clean end. */
static int breaks(const char *name)
{
    life l;
    convoy_plan *plan;
    void *memory;
    convoy_problem p = convoy_problem_make(1, 4, 40, 40, 4, 5, 5);
    if (begin(&l, name) && strncmp(name, "cuda_", 5) != 0)
        return 0; /* the vendor's library is not here */
    CHECK(l.weights);
    convoy_args wild = l.args;
    wild.x = (const float *)(uintptr_t)0x7fff00000000;
    convoy_status status = convoy_execute(l.plan, &wild);
    if (status == CONVOY_OK)
        status = convoy_synchronize(l.context);
    CHECK(status == CONVOY_DEVICE_ERROR);
    CHECK(strstr(convoy_last_message(), "cudaError") || strstr(convoy_last_message(), name));
    CHECK(convoy_synchronize(l.context) == CONVOY_DEVICE_ERROR);
    CHECK(convoy_memory_alloc(l.context, 100, &memory) == CONVOY_DEVICE_ERROR && !memory);
    CHECK(convoy_execute(l.plan, &l.args) != CONVOY_OK || convoy_synchronize(l.context) == CONVOY_DEVICE_ERROR);
    status = convoy_plan_create(l.context, &p, NULL, &plan);
    if (status == CONVOY_OK)
        convoy_plan_destroy(plan);
    fprintf(stderr, "    %s: a plan after that: %s\n", name, status == CONVOY_OK ? "made" : convoy_last_message());
    convoy_weights_destroy(l.weights);
    convoy_plan_destroy(l.plan);
    convoy_context_destroy(l.context);
    return 0;
}

static int child(int argc, char **argv)
{
    alarm(120);
    const char *what = argv[1];
    return strcmp(what, "exit") == 0     ? exits()
           : strcmp(what, "busy") == 0   ? exits_busy(argc > 2 ? argv[2] : engine[0])
           : strcmp(what, "fork") == 0   ? forks()
           : strcmp(what, "break") == 0  ? breaks(argc > 2 ? argv[2] : engine[0])
           : strcmp(what, "plugin") == 0 ? plugin(argc > 3 ? argv[3] : "", argc > 2 && argv[2][0] == 'f')
                                         : 9;
}

/* ---- The tests */

static void good(const char *words)
{
    char command[1400];
    snprintf(command, sizeof command, "'%s' %s", self, words);
    const int status = system(command);
    if (status != 0)
        fail_msg("%s: ended with 0x%x", words, status);
}

static void exit_with_everything(void **state)
{
    (void)state;
    good("exit");
}

static void forked_children(void **state)
{
    (void)state;
    good("fork");
}

static void broken_contexts(void **state)
{
    char words[64];
    (void)state;
    for (int e = 0; e < 4; e++) {
        snprintf(words, sizeof words, "break %s", engine[e]);
        good(words);
    }
}

static void dlclose_at_any_time(void **state)
{
    char copy[] = "/tmp/libconvoy-XXXXXX", command[700];
    Dl_info about;
    void *address = NULL;
    convoy_status (*function)(const convoy_plan *, const convoy_args *) = convoy_execute;
    (void)state;
    memcpy(&address, &function, sizeof address);
    if (!dladdr(address, &about) || !strstr(about.dli_fname, ".so"))
        skip(); /* a static build */
    const int fd = mkstemp(copy);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "cp '%s' %s", about.dli_fname, copy); /* another file: the loader maps it anew */
    assert_int_equal(system(command), 0);
    for (int forget = 0; forget < 2; forget++) {
        snprintf(command, sizeof command, "plugin %s %s", forget ? "forget" : "free", copy);
        good(command);
    }
    unlink(copy);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argc, argv);
    const struct CMUnitTest ends[] = {
        cmocka_unit_test(exit_with_everything),
        cmocka_unit_test(forked_children),
        cmocka_unit_test(broken_contexts),
        cmocka_unit_test(dlclose_at_any_time),
    };
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    return on_gpu() && length > 0 ? RUN_TESTS(ends) : 77;
}
