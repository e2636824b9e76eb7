/* dlclose with plans alive, or freed: the library is a plugin of many a program. */
#include "harness.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const char *library_path(void)
{
    Dl_info about;
    void *address = NULL;
    convoy_status (*function)(const convoy_plan *, const convoy_args *) = convoy_execute;
    memcpy(&address, &function, sizeof address);
    return dladdr(address, &about) && strstr(about.dli_fname, ".so") ? about.dli_fname : NULL;
}

/* The library as a plugin of a program that does not link it, which forgets its plans before dlclose, or frees them:
 * bash is such a program everywhere, but cannot call C. So a child maps a copy of its own and calls through dlsym. */
static int plugin(const char *path, int forget)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    convoy_status (*create)(const convoy_context_options *, convoy_context **);
    convoy_status (*plan_create)(convoy_context *, const convoy_problem *, const convoy_plan_options *, convoy_plan **);
    convoy_status (*execute)(const convoy_plan *, const convoy_args *);
    void (*plan_destroy)(convoy_plan *), (*destroy)(convoy_context *);
    if (!library)
        return 2;
#define FIND(pointer, name)                                                                                            \
    if (!(*(void **)(&(pointer)) = dlsym(library, name)))                                                              \
        return 3;
    FIND(create, "convoy_context_create")
    FIND(plan_create, "convoy_plan_create")
    FIND(execute, "convoy_execute")
    FIND(plan_destroy, "convoy_plan_destroy")
    FIND(destroy, "convoy_context_destroy")
#undef FIND
    convoy_context *context;
    convoy_plan *plan;
    convoy_problem p = {.n = 1, .c = 4, .h = 40, .w = 40, .k = 4, .r = 5, .s = 5, .groups = 1};
    p.stride_h = p.stride_w = p.dil_h = p.dil_w = 1;
    static float x[6400], w[400], y[5184];
    if (create(&(convoy_context_options){.threads = 4, .wisdom = "off"}, &context) != CONVOY_OK ||
        plan_create(context, &p, &(convoy_plan_options){.engine = "direct:k0c0"}, &plan) != CONVOY_OK)
        return 4;
    const convoy_args args = {.struct_bytes = sizeof args, .x = x, .w = w, .y = y};
    for (int i = 0; i < 10; i++)
        if (execute(plan, &args) != CONVOY_OK)
            return 5;
    if (!forget) {
        plan_destroy(plan);
        destroy(context);
    }
    dlclose(library);
    usleep(30000); /* time for the workers to run into unmapped code, if they are there and it is not */
    return 0;
}

static void dlclose_at_any_time(void **state)
{
    (void)state;
    char copy[] = "/tmp/libconvoy-XXXXXX", command[512];
    const char *path = library_path();
    if (!path || SANITIZED)
        skip(); /* a static build, or one whose run-time dislikes two copies */
    const int fd = mkstemp(copy);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "cp '%s' %s", path, copy); /* another file: the loader maps it anew */
    assert_int_equal(system(command), 0);
    for (int forget = 0; forget < 2; forget++) {
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(30);
            int bad = 0;
            for (int i = 0; i < 5 && !bad; i++)
                bad = plugin(copy, forget);
            _exit(bad);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            fail_msg("%s plans before dlclose: 0x%x", forget ? "forgotten" : "freed", status);
    }
    unlink(copy);
}

int main(void)
{
    const struct CMUnitTest plugins[] = {cmocka_unit_test(dlclose_at_any_time)};
    return RUN_TESTS(plugins);
}
