/* CUDA as a device of the core: which GPU, memory, copies, timing with a cold L2, ceilings and the FP64 oracle. */
#include "device_cuda.h"
#include "cuda_status.h"
#include "gpu_kernels.h"
#include "platform/memory.h"
#include "platform/status.h"
#include "vendor.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define TRY(call, doing)                                                                                               \
    do {                                                                                                               \
        const cudaError_t error_ = (call);                                                                             \
        if (error_ != cudaSuccess)                                                                                     \
            return cv_cuda_status(error_, doing);                                                                      \
    } while (0)

static int attribute(enum cudaDeviceAttr which, int index)
{
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, index) == cudaSuccess)
        return value;
    (void)cudaGetLastError();
    return 0;
}

/* FP32 lanes of a multiprocessor. */
static int lanes(int major, int minor) { return major == 8 && minor == 0 ? 64 : 128; }

static convoy_status count_devices(int *count)
{
    int driver = 0;
    if (cv_cuda_is_forked())
        return cv_cuda_forked("device is cuda");
    const cudaError_t e = cudaGetDeviceCount(count);
    if (e == cudaSuccess && *count > 0)
        return CONVOY_OK;
    (void)cudaGetLastError();
    (void)cudaDriverGetVersion(&driver);
    if (e == cudaErrorNoDevice || (e == cudaSuccess && *count == 0))
        return cv_fail(CONVOY_UNSUPPORTED, "device is cuda: the driver sees no NVIDIA GPU");
    if (driver == 0)
        return cv_fail(CONVOY_UNSUPPORTED, "device is cuda: no NVIDIA driver is installed (%s)", cudaGetErrorString(e));
    if (e == cudaErrorInsufficientDriver)
        return cv_fail(CONVOY_UNSUPPORTED, "device is cuda: the driver supports CUDA %d.%d, expected %d.%d or newer",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return cv_fail(CONVOY_UNSUPPORTED, "device is cuda: %s (%s)", cudaGetErrorString(e), cudaGetErrorName(e));
}

static convoy_status probe(int index, cv_machine *m)
{
    int count = 0;
    convoy_status status = count_devices(&count);
    if (status != CONVOY_OK)
        return status;
    if (index < 0 || index >= count)
        return cv_fail(CONVOY_INVALID, "device_index is %d: expected 0 to %d", index, count - 1);
    struct cudaDeviceProp p;
    TRY(cudaGetDeviceProperties(&p, index), "reading the GPU's properties");
    TRY(cudaSetDevice(index), "selecting the GPU");
    /* The first use makes the GPU's context; a card in exclusive mode or out of memory shows here. */
    TRY(cudaFree(NULL), "starting CUDA on the GPU");
    cv_cuda_started();
    const cudaError_t code = (cudaError_t)cv_gpu_has_code();
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
        code == cudaErrorUnsupportedPtxVersion) {
        (void)cudaGetLastError();
        return cv_fail(CONVOY_UNSUPPORTED,
                       "device is cuda: %s has compute capability %d.%d, this build has code for %s (%s)", p.name,
                       p.major, p.minor, CV_CUDA_TARGETS, cudaGetErrorString(code));
    }
    TRY(code, "loading Convoy's kernels on the GPU");
    m->device = CONVOY_CUDA;
    m->device_index = index;
    m->ops = &cv_device_cuda;
    snprintf(m->gpu_name, sizeof m->gpu_name, "%.95s", p.name);
    m->sm_major = p.major;
    m->sm_minor = p.minor;
    m->sm_count = p.multiProcessorCount;
    m->gpu_l2_bytes = (size_t)p.l2CacheSize;
    m->gpu_memory_bytes = p.totalGlobalMem;
    m->gpu_shared_bytes = p.sharedMemPerBlockOptin;
    (void)cudaDriverGetVersion(&m->driver_version);
    (void)cudaRuntimeGetVersion(&m->runtime_version);
    m->flop_per_s = 2e3 * lanes(p.major, p.minor) * m->sm_count * attribute(cudaDevAttrClockRate, index);
    /* double data rate; copies reach seven eighths of the pins' rate */
    m->bytes_per_s = 2e3 * attribute(cudaDevAttrMemoryClockRate, index) * (p.memoryBusWidth / 8.0) * 0.875;
    if (!(m->flop_per_s > 0))
        m->flop_per_s = 20e12;
    if (!(m->bytes_per_s > 0))
        m->bytes_per_s = 1e12;
    return CONVOY_OK;
}

/* An error that an earlier call left pending on this thread is not ours: our next launch would be blamed for it. One
 * that has broken the GPU's context comes back from every call. */
static convoy_status bind(const cv_machine *m)
{
    if (cv_cuda_is_forked())
        return cv_cuda_forked("selecting the GPU");
    (void)cudaGetLastError();
    TRY(cudaSetDevice(m->device_index), "selecting the GPU");
    return CONVOY_OK;
}

static int current(void)
{
    int index = -1;
    if (cv_cuda_is_forked())
        return -1;
    if (cudaGetDevice(&index) == cudaSuccess)
        return index;
    (void)cudaGetLastError(); /* no driver, say; probe finds the words for it */
    return -1;
}

static void restore(int index)
{
    if (index >= 0 && index != current())
        (void)cudaSetDevice(index);
}

static convoy_status gpu_alloc(const cv_machine *m, size_t bytes, void **memory)
{
    (void)m;
    *memory = NULL;
    const cudaError_t e = cudaMalloc(memory, bytes ? bytes : 1);
    if (e == cudaSuccess)
        return CONVOY_OK;
    char doing[64];
    snprintf(doing, sizeof doing, "allocating %zu bytes on the GPU", bytes);
    return cv_cuda_status(e, doing);
}

static void gpu_free(const cv_machine *m, void *memory)
{
    (void)m;
    (void)cudaFree(memory);
}

static convoy_status copy(const cv_machine *m, void *to, const void *from, size_t bytes, convoy_copy kind, void *stream)
{
    (void)m;
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                                cudaMemcpyDeviceToDevice};
    if (!bytes)
        return CONVOY_OK;
    TRY(cudaMemcpyAsync(to, from, bytes, kinds[kind], stream), "copying");
    /* host memory may be freed as soon as this returns */
    if (kind != CONVOY_ON_DEVICE)
        TRY(cudaStreamSynchronize(stream), "copying");
    return CONVOY_OK;
}

static convoy_status synchronize(const cv_machine *m, void *stream)
{
    (void)m;
    if (stream)
        TRY(cudaStreamSynchronize(stream), "waiting for a stream");
    else
        TRY(cudaDeviceSynchronize(), "waiting for the GPU");
    return CONVOY_OK;
}

static convoy_status fill_bias(const cv_machine *m, const convoy_problem *p, const float *bias, float *y, void *stream)
{
    (void)m;
    int64_t P, Q;
    convoy_status status = convoy_problem_output(p, &P, &Q);
    return status == CONVOY_OK ? cv_cuda_status(cv_gpu_fill_bias(p, P, Q, bias, y, stream), "filling y") : status;
}

/* ---- Timing: 256 MB overwritten before each call, so that nothing is found in L2 */

enum { FLUSH_BYTES = 256 << 20 };

struct timer {
    cudaEvent_t from, to;
    void *flush;
    size_t flush_bytes;
    int value;
};

static void timer_destroy(const cv_machine *m, void *timer)
{
    struct timer *t = timer;
    if (!t)
        return;
    if (t->from)
        (void)cudaEventDestroy(t->from);
    if (t->to)
        (void)cudaEventDestroy(t->to);
    (void)cudaFree(t->flush);
    cv_free(&m->memory, t);
}

static convoy_status timer_create(const cv_machine *m, void **timer)
{
    *timer = NULL;
    struct timer *t = cv_alloc(&m->memory, sizeof *t);
    if (!t)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a timer");
    memset(t, 0, sizeof *t);
    t->flush_bytes = FLUSH_BYTES > 4 * m->gpu_l2_bytes ? FLUSH_BYTES : 4 * m->gpu_l2_bytes;
    cudaError_t e = cudaEventCreate(&t->from);
    if (e == cudaSuccess)
        e = cudaEventCreate(&t->to);
    if (e == cudaSuccess)
        e = cudaMalloc(&t->flush, t->flush_bytes);
    if (e != cudaSuccess) {
        timer_destroy(m, t);
        return cv_cuda_status(e, "making a timer on the GPU");
    }
    *timer = t;
    return CONVOY_OK;
}

static convoy_status timer_run(const cv_machine *m, void *timer, cv_timed_fn call, void *user, double *seconds)
{
    (void)m;
    struct timer *t = timer;
    float ms = 0;
    TRY(cudaMemsetAsync(t->flush, ++t->value & 255, t->flush_bytes, NULL), "overwriting L2");
    TRY(cudaEventRecord(t->from, NULL), "timing");
    convoy_status status = call(user);
    if (status != CONVOY_OK)
        return status;
    TRY(cudaEventRecord(t->to, NULL), "timing");
    TRY(cudaEventSynchronize(t->to), "running what is timed");
    TRY(cudaEventElapsedTime(&ms, t->from, t->to), "timing");
    *seconds = ms * 1e-3;
    return CONVOY_OK;
}

/* ---- Ceilings */

struct work {
    const cv_machine *m;
    void *a, *b;
    size_t bytes;
    double flop;
};

static convoy_status burn(void *user)
{
    struct work *w = user;
    return cv_cuda_status(cv_gpu_burn(w->m->sm_count * 8, 4000, w->a, &w->flop), "measuring the FMA rate");
}

static convoy_status move(void *user)
{
    struct work *w = user;
    return cv_cuda_status(cudaMemcpyAsync(w->b, w->a, w->bytes, cudaMemcpyDeviceToDevice, NULL), "measuring a copy");
}

static convoy_status best_of(const cv_machine *m, void *timer, int runs, cv_timed_fn call, struct work *w, double *best)
{
    convoy_status status = CONVOY_OK;
    *best = 1e30;
    for (int i = 0; i < runs && status == CONVOY_OK; i++) {
        double s = 0;
        status = timer_run(m, timer, call, w, &s);
        if (status == CONVOY_OK && s > 0 && s < *best)
            *best = s;
    }
    return status;
}

static convoy_status ceilings(const cv_machine *m, double *flop_per_s, double *bytes_per_s)
{
    struct work w = {m, NULL, NULL, (size_t)1 << 30, 0};
    void *timer = NULL;
    double s = 0;
    while (w.bytes > m->gpu_memory_bytes / 8)
        w.bytes /= 2;
    convoy_status status = timer_create(m, &timer);
    if (status == CONVOY_OK)
        status = gpu_alloc(m, w.bytes, &w.a);
    if (status == CONVOY_OK)
        status = gpu_alloc(m, w.bytes, &w.b);
    if (status == CONVOY_OK)
        status = best_of(m, timer, 7, burn, &w, &s);
    if (status == CONVOY_OK) {
        *flop_per_s = w.flop / s;
        status = best_of(m, timer, 7, move, &w, &s);
    }
    if (status == CONVOY_OK)
        *bytes_per_s = 2.0 * (double)w.bytes / s;
    (void)cudaFree(w.a);
    (void)cudaFree(w.b);
    timer_destroy(m, timer);
    return status;
}

static convoy_status reference(const cv_machine *m, const convoy_problem *p, const float *x, const float *w,
                               const float *bias, int64_t count, const int64_t *index, double *values, double *norms)
{
    int64_t P, Q;
    convoy_status status = convoy_problem_output(p, &P, &Q);
    if (status != CONVOY_OK)
        return status;
    const size_t bytes = (size_t)count * sizeof(double);
    char *block = NULL;
    status = gpu_alloc(m, 3 * bytes, (void **)&block);
    if (status != CONVOY_OK)
        return status;
    void *index_there = block, *sums = block + bytes, *sizes = block + 2 * bytes;
    status = copy(m, block, index, bytes, CONVOY_TO_DEVICE, NULL);
    if (status == CONVOY_OK)
        status =
            cv_cuda_status(cv_gpu_reference(p, P, Q, x, w, bias, count, index_there, sums, sizes), "summing in FP64");
    if (status == CONVOY_OK)
        status = copy(m, values, sums, bytes, CONVOY_TO_HOST, NULL);
    if (status == CONVOY_OK && norms)
        status = copy(m, norms, sizes, bytes, CONVOY_TO_HOST, NULL);
    (void)cudaFree(block);
    return status;
}

const cv_device_ops cv_device_cuda = {
    .device = CONVOY_CUDA,
    .name = "cuda",
    .probe = probe,
    .bind = bind,
    .current = current,
    .restore = restore,
    .alloc = gpu_alloc,
    .free = gpu_free,
    .copy = copy,
    .synchronize = synchronize,
    .fill_bias = fill_bias,
    .timer_create = timer_create,
    .timer_destroy = timer_destroy,
    .timer_run = timer_run,
    .ceilings = ceilings,
    .reference = reference,
    .versions = cv_vendor_versions,
};
