#include "dnnl_api.h"
#include "platform/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    F32 = 3,
    FORWARD_INFERENCE = 96,
    DIRECT = 1,
    FORMAT_ANY = 1,
    CPU = 1,
    IN_ORDER = 1,
    STRICT = 0,
    USER_SCRATCHPAD = 1
};
enum { SEQUENTIAL = 1, OPENMP = 2 };

/* dnnl_version_t of both versions. */
struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
};

/* What only one of the versions has. */
static struct {
    int (*md_init_by_strides)(void *md, int dims, const int64_t *size, int type, const int64_t *stride);
    int (*md_init_by_tag)(void *md, int dims, const int64_t *size, int type, int tag);
    int (*convolution_init)(void *desc, int kind, int algorithm, cv_dnnl_md x, cv_dnnl_md w, cv_dnnl_md bias,
                            cv_dnnl_md y, const int64_t *stride, const int64_t *dilation, const int64_t *low,
                            const int64_t *high);
    int (*pd_create)(void **pd, const void *desc, const void *attr, void *engine, const void *hint);
    int (*md_create_with_strides)(void **md, int dims, const int64_t *size, int type, const int64_t *stride);
    int (*md_create_with_tag)(void **md, int dims, const int64_t *size, int type, int tag);
    int (*md_destroy)(void *md);
    int (*convolution_create)(void **pd, void *engine, int kind, int algorithm, cv_dnnl_md x, cv_dnnl_md w,
                              cv_dnnl_md bias, cv_dnnl_md y, const int64_t *stride, const int64_t *dilation,
                              const int64_t *low, const int64_t *high, const void *attr);
} only;

static cv_dnnl dnnl;
static const char *failure;
static pid_t loaded_by;

/* A function pointer from a symbol's address, in the one way that ISO C leaves. */
static int take(void *library, const char *name, void *function)
{
    void *symbol = cv_library_symbol(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int take_common(void *library)
{
    const struct {
        const char *name;
        void *function;
    } common[] = {
        {"dnnl_stream_create", &dnnl.stream_create},
        {"dnnl_stream_wait", &dnnl.stream_wait},
        {"dnnl_stream_destroy", &dnnl.stream_destroy},
        {"dnnl_memory_create", &dnnl.memory_create},
        {"dnnl_memory_set_data_handle", &dnnl.memory_set_data_handle},
        {"dnnl_memory_destroy", &dnnl.memory_destroy},
        {"dnnl_memory_desc_get_size", &dnnl.md_get_size},
        {"dnnl_memory_desc_equal", &dnnl.md_equal},
        {"dnnl_reorder_primitive_desc_create", &dnnl.reorder_create},
        {"dnnl_primitive_desc_query_md", &dnnl.query_md},
        {"dnnl_primitive_desc_query", &dnnl.query},
        {"dnnl_primitive_desc_destroy", &dnnl.pd_destroy},
        {"dnnl_primitive_create", &dnnl.primitive_create},
        {"dnnl_primitive_execute", &dnnl.primitive_execute},
        {"dnnl_primitive_destroy", &dnnl.primitive_destroy},
    };
    int all = 1;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        all &= take(library, common[i].name, common[i].function);
    return all;
}

static int take_versioned(void *library)
{
    if (dnnl.major == 2)
        return take(library, "dnnl_memory_desc_init_by_strides", &only.md_init_by_strides) &&
               take(library, "dnnl_memory_desc_init_by_tag", &only.md_init_by_tag) &&
               take(library, "dnnl_dilated_convolution_forward_desc_init", &only.convolution_init) &&
               take(library, "dnnl_primitive_desc_create", &only.pd_create);
    return take(library, "dnnl_memory_desc_create_with_strides", &only.md_create_with_strides) &&
           take(library, "dnnl_memory_desc_create_with_tag", &only.md_create_with_tag) &&
           take(library, "dnnl_memory_desc_destroy", &only.md_destroy) &&
           take(library, "dnnl_convolution_forward_primitive_desc_create", &only.convolution_create);
}

static int take_threads(void *library, unsigned runtime)
{
    if (runtime == SEQUENTIAL)
        return 1;
    return runtime == OPENMP && take(library, "omp_set_num_threads", &dnnl.set_threads) &&
           take(library, "omp_get_max_threads", &dnnl.get_threads);
}

/* The strict mode must have been set: without the call (before 2.6) there is no other mode either, but for the
 * environment variable that came with it. */
static int make_objects(void *library)
{
    int (*engine_create)(void **, int, size_t), (*attr_create)(void **), (*set_fpmath)(void *, int),
        (*set_scratchpad)(void *, int);
    return take(library, "dnnl_engine_create", &engine_create) &&
           take(library, "dnnl_primitive_attr_create", &attr_create) &&
           take(library, "dnnl_primitive_attr_set_fpmath_mode", &set_fpmath) &&
           take(library, "dnnl_primitive_attr_set_scratchpad_mode", &set_scratchpad) &&
           engine_create(&dnnl.engine, CPU, 0) == CV_DNNL_OK && attr_create(&dnnl.attr) == CV_DNNL_OK &&
           set_fpmath(dnnl.attr, STRICT) == CV_DNNL_OK && set_scratchpad(dnnl.attr, USER_SCRATCHPAD) == CV_DNNL_OK;
}

/* oneDNN keeps the code of the last 1024 primitives, some 20 KB each. Plans keep what they need themselves, so a few
 * will do; a library that the program was using before us is left as it is. */
static void shrink_cache(void *library)
{
    int (*set_capacity)(int);
    if (take(library, "dnnl_set_primitive_cache_capacity", &set_capacity))
        set_capacity(64);
}

static const char *load_from(void *library, int is_ours)
{
    const struct version *(*get_version)(void);
    if (!take(library, "dnnl_version", &get_version))
        return "libdnnl has no dnnl_version function";
    const struct version *v = get_version();
    dnnl.major = v->major, dnnl.minor = v->minor, dnnl.patch = v->patch;
    if (v->major != 2 && v->major != 3)
        return "libdnnl is neither version 2 nor 3";
    if (!take_threads(library, v->cpu_runtime))
        return "this build of libdnnl does not run on OpenMP, so its threads cannot be counted out";
    if (!take_common(library) || !take_versioned(library))
        return "libdnnl lacks functions of its version";
    if (is_ours)
        shrink_cache(library);
    return make_objects(library) ? NULL : "libdnnl is older than 2.6, or cannot make a CPU engine in strict FP32 mode";
}

/* A library that cannot be used stays open: taking out one that has started threads is not safe. */
static void load(void)
{
    static const char *const names[][2] = {{"libdnnl.so.3", NULL}, {"libdnnl.so.2", NULL}};
    loaded_by = getpid();
    failure = "neither libdnnl.so.3 nor libdnnl.so.2 was found";
    for (size_t i = 0; i < sizeof names / sizeof *names && failure; i++) {
        const int is_ours = !cv_library_is_loaded(names[i]);
        void *library = cv_library_open(names[i]);
        if (library)
            failure = load_from(library, is_ours);
    }
}

const cv_dnnl *cv_dnnl_get(const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    *why = failure;
    return failure ? NULL : &dnnl;
}

int cv_dnnl_md_strides(const cv_dnnl *d, cv_dnnl_own_md *md, int dims, const int64_t *size, const int64_t *stride)
{
    void *made = md->room;
    const int status = d->major == 2 ? only.md_init_by_strides(made, dims, size, F32, stride)
                                     : only.md_create_with_strides(&made, dims, size, F32, stride);
    md->md = status == CV_DNNL_OK ? made : NULL;
    return status;
}

int cv_dnnl_md_any(const cv_dnnl *d, cv_dnnl_own_md *md, int dims, const int64_t *size)
{
    void *made = md->room;
    const int status = d->major == 2 ? only.md_init_by_tag(made, dims, size, F32, FORMAT_ANY)
                                     : only.md_create_with_tag(&made, dims, size, F32, FORMAT_ANY);
    md->md = status == CV_DNNL_OK ? made : NULL;
    return status;
}

void cv_dnnl_md_free(const cv_dnnl *d, cv_dnnl_own_md *md)
{
    if (md->md && d->major != 2)
        only.md_destroy((void *)(uintptr_t)md->md);
    md->md = NULL;
}

int cv_dnnl_convolution(const cv_dnnl *d, void **pd, cv_dnnl_md x, cv_dnnl_md w, cv_dnnl_md bias, cv_dnnl_md y,
                        const cv_dnnl_window *v)
{
    *pd = NULL;
    if (d->major != 2)
        return only.convolution_create(pd, d->engine, FORWARD_INFERENCE, DIRECT, x, w, bias, y, v->stride, v->dilation,
                                       v->pad_low, v->pad_high, d->attr);
    _Alignas(16) unsigned char desc[16384]; /* dnnl_convolution_desc_t has 5976 bytes */
    const int status = only.convolution_init(desc, FORWARD_INFERENCE, DIRECT, x, w, bias, y, v->stride, v->dilation,
                                             v->pad_low, v->pad_high);
    return status == CV_DNNL_OK ? only.pd_create(pd, desc, d->attr, d->engine, NULL) : status;
}

struct job {
    const cv_dnnl *d;
    int threads;
    void (*work)(void *user);
    void *user;
};

static void *run_job(void *argument)
{
    const struct job *job = argument;
    const int before = job->d->get_threads ? job->d->get_threads() : 1;
    if (job->d->set_threads)
        job->d->set_threads(job->threads);
    job->work(job->user);
    if (job->d->set_threads)
        job->d->set_threads(before);
    return NULL;
}

int cv_dnnl_run(const cv_dnnl *d, int threads, void (*work)(void *user), void *user)
{
    struct job job = {d, threads, work, user};
    pthread_t thread;
    if (getpid() == loaded_by) {
        run_job(&job);
        return 1;
    }
    if (pthread_create(&thread, NULL, run_job, &job) != 0)
        return 0;
    pthread_join(thread, NULL);
    return 1;
}
