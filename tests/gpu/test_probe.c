/* What a context says of GPUs that it cannot use, without one: device_cuda.c with a CUDA runtime made up here, whose
 * GPU and faults the tests set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "gpu/device_cuda.h"
#include "gpu/gpu_kernels.h"
#include "gpu/vendor.h"
#include "platform/status.h"

/* ---- The made-up machine */

static struct {
    cudaError_t count, start, code, select, attribute, last;
    int gpus, driver, current;
    int major, minor;
} gpu;

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = gpu.gpus;
    return gpu.last = gpu.count;
}
cudaError_t cudaDriverGetVersion(int *version)
{
    *version = gpu.driver;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void)
{
    const cudaError_t last = gpu.last;
    gpu.last = cudaSuccess;
    return last;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int index)
{
    (void)index;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Made-Up GPU");
    p->major = gpu.major;
    p->minor = gpu.minor;
    p->multiProcessorCount = 40;
    p->totalGlobalMem = (size_t)16 << 30;
    p->memoryBusWidth = 256;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int index)
{
    (void)index;
    *value = which == cudaDevAttrClockRate ? 1500000 : 5000000;
    if (gpu.attribute != cudaSuccess)
        gpu.last = gpu.attribute;
    return gpu.attribute;
}
cudaError_t cudaSetDevice(int index)
{
    if (gpu.select != cudaSuccess)
        return gpu.last = gpu.select;
    gpu.current = index;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *index)
{
    *index = gpu.current;
    return gpu.last = gpu.count;
}
cudaError_t cudaFree(void *memory) { return gpu.last = memory ? cudaSuccess : gpu.start; }
int cv_gpu_has_code(void) { return gpu.last = gpu.code; }
const char *cudaGetErrorString(cudaError_t e) { return e == cudaErrorDevicesUnavailable ? "busy" : "words"; }
const char *cudaGetErrorName(cudaError_t e) { return e == cudaErrorDevicesUnavailable ? "cudaErrorBusy" : "cudaError"; }

/* What the rest of device_cuda.c calls and no test here reaches. */
static cudaError_t unreached(void)
{
    fail_msg("the tests of probe do not come here");
    return cudaErrorUnknown;
}
cudaError_t cudaMalloc(void **m, size_t n) { return (void)m, (void)n, unreached(); }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return (void)to, (void)from, (void)n, (void)kind, (void)stream, unreached();
}
cudaError_t cudaMemsetAsync(void *to, int v, size_t n, cudaStream_t stream)
{
    return (void)to, (void)v, (void)n, (void)stream, unreached();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return (void)stream, unreached(); }
cudaError_t cudaDeviceSynchronize(void) { return unreached(); }
cudaError_t cudaEventCreate(cudaEvent_t *e) { return (void)e, unreached(); }
cudaError_t cudaEventDestroy(cudaEvent_t e) { return (void)e, unreached(); }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) { return (void)e, (void)stream, unreached(); }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { return (void)e, unreached(); }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
    return (void)ms, (void)a, (void)b, unreached();
}
int cv_gpu_burn(int blocks, int rounds, float *sink, double *flop)
{
    return (void)blocks, (void)rounds, (void)sink, (void)flop, unreached();
}
int cv_gpu_fill_bias(const convoy_problem *p, int64_t P, int64_t Q, const float *bias, float *y, void *stream)
{
    return (void)p, (void)P, (void)Q, (void)bias, (void)y, (void)stream, unreached();
}
int cv_gpu_reference(const convoy_problem *p, int64_t P, int64_t Q, const float *x, const float *w, const float *bias,
                     int64_t count, const int64_t *index, double *values, double *norms)
{
    (void)p, (void)P, (void)Q, (void)x, (void)w, (void)bias, (void)count, (void)index, (void)values, (void)norms;
    return unreached();
}
void cv_vendor_versions(const cv_machine *m, char *text, size_t bytes) { (void)m, (void)text, (void)bytes; }

/* ---- Tests */

static int good_gpu(void **state)
{
    (void)state;
    memset(&gpu, 0, sizeof gpu);
    gpu.gpus = 1;
    gpu.driver = CUDART_VERSION;
    gpu.major = 9;
    return 0;
}

/* The status and message of a probe; a refusal leaves no error behind for the caller's next CUDA call. */
static void refuses(convoy_status status, int index, const char *one, const char *two)
{
    cv_machine m = {.threads = 1};
    assert_int_equal(cv_device_cuda.probe(index, &m), status);
    const char *text = convoy_last_message();
    if (!strstr(text, one) || !strstr(text, two))
        fail_msg("expected '%s' and '%s' in: %s", one, two, text);
    assert_int_equal(gpu.last, cudaSuccess);
}

static void a_usable_gpu_is_described(void **state)
{
    (void)state;
    cv_machine m = {.threads = 1};
    assert_int_equal(cv_device_cuda.probe(0, &m), CONVOY_OK);
    assert_string_equal(m.gpu_name, "Made-Up GPU");
    assert_int_equal(m.sm_major, 9);
    assert_int_equal(m.sm_count, 40);
    assert_true(m.flop_per_s > 1e13 && m.flop_per_s < 2e13); /* 40 * 128 * 2 * 1.5 GHz */
    assert_true(m.bytes_per_s > 2e11 && m.bytes_per_s < 3e11);
}

static void a_gpu_outside_the_targets_is_named(void **state)
{
    (void)state;
    static const cudaError_t codes[] = {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction,
                                        cudaErrorUnsupportedPtxVersion};
    gpu.major = 7, gpu.minor = 5;
    for (int i = 0; i < 3; i++) {
        gpu.code = codes[i];
        refuses(CONVOY_UNSUPPORTED, 0, "Made-Up GPU has compute capability 7.5",
                "this build has code for " CV_CUDA_TARGETS);
    }
    assert_non_null(strstr(CV_CUDA_TARGETS, "sm_")); /* words, not CMake's spelling */
    assert_null(strstr(CV_CUDA_TARGETS, "real"));
}

static void other_faults_keep_cudas_words(void **state)
{
    (void)state;
    gpu.code = cudaErrorDevicesUnavailable;
    refuses(CONVOY_DEVICE_ERROR, 0, "loading Convoy's kernels", "busy (cudaErrorBusy)");
    gpu.code = cudaSuccess;
    gpu.start = cudaErrorDevicesUnavailable;
    refuses(CONVOY_DEVICE_ERROR, 0, "starting CUDA on the GPU", "busy (cudaErrorBusy)");
    gpu.start = cudaErrorMemoryAllocation;
    refuses(CONVOY_OUT_OF_MEMORY, 0, "starting CUDA on the GPU", "");
}

static void missing_pieces_are_told_apart(void **state)
{
    (void)state;
    gpu.gpus = 0;
    gpu.count = cudaErrorNoDevice;
    refuses(CONVOY_UNSUPPORTED, 0, "sees no NVIDIA GPU", "");
    gpu.count = cudaSuccess;
    refuses(CONVOY_UNSUPPORTED, 0, "sees no NVIDIA GPU", "");
    gpu.count = cudaErrorInsufficientDriver;
    gpu.driver = 0;
    refuses(CONVOY_UNSUPPORTED, 0, "no NVIDIA driver", "");
    gpu.driver = 11080;
    refuses(CONVOY_UNSUPPORTED, 0, "the driver supports CUDA 11.8", "or newer");
    gpu.count = cudaErrorDevicesUnavailable;
    refuses(CONVOY_UNSUPPORTED, 0, "busy", "cudaErrorBusy");
}

static void an_index_beyond_the_last_is_invalid(void **state)
{
    (void)state;
    refuses(CONVOY_INVALID, 1, "device_index is 1", "expected 0 to 0");
    refuses(CONVOY_INVALID, -1, "device_index is -1", "expected 0 to 0");
}

static void the_callers_device_comes_back(void **state)
{
    (void)state;
    cv_machine m = {.threads = 1};
    gpu.gpus = 3;
    gpu.current = 2;
    const int kept = cv_device_cuda.current();
    assert_int_equal(cv_device_cuda.probe(1, &m), CONVOY_OK);
    assert_int_equal(gpu.current, 1);
    gpu.current = 0;
    assert_int_equal(cv_device_cuda.bind(&m), CONVOY_OK);
    assert_int_equal(gpu.current, 1);
    cv_device_cuda.restore(kept);
    assert_int_equal(gpu.current, 2);
    gpu.count = cudaErrorNoDevice; /* nothing is current, no error stays behind, and nothing is put back */
    cv_device_cuda.restore(cv_device_cuda.current());
    assert_int_equal(gpu.current, 2);
    assert_int_equal(gpu.last, cudaSuccess);
}

/* An error that somebody left is not the next call's; one that the GPU's context died of is everybody's. */
static void pending_errors_are_not_ours(void **state)
{
    (void)state;
    const cv_machine m = {.device_index = 0};
    gpu.last = cudaErrorMemoryAllocation;
    assert_int_equal(cv_device_cuda.bind(&m), CONVOY_OK);
    assert_int_equal(gpu.last, cudaSuccess);
    gpu.select = cudaErrorDevicesUnavailable;
    assert_int_equal(cv_device_cuda.bind(&m), CONVOY_DEVICE_ERROR);
    assert_non_null(strstr(convoy_last_message(), "busy (cudaErrorBusy)"));
    assert_int_equal(gpu.last, cudaSuccess);
}

static void unknown_rates_leave_no_error(void **state)
{
    (void)state;
    cv_machine m = {.threads = 1};
    gpu.attribute = cudaErrorInvalidValue;
    assert_int_equal(cv_device_cuda.probe(0, &m), CONVOY_OK);
    assert_int_equal(gpu.last, cudaSuccess);
    assert_true(m.flop_per_s > 0 && m.bytes_per_s > 0);
}

/* CUDA lives on in the parent alone: the child is told so by every way in. */
static void a_forked_child_is_told(void **state)
{
    (void)state;
    cv_machine m = {.threads = 1};
    assert_int_equal(cv_device_cuda.probe(0, &m), CONVOY_OK);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int bad = cv_device_cuda.probe(0, &m) != CONVOY_UNSUPPORTED ||
                        !strstr(convoy_last_message(), "was forked") || cv_device_cuda.bind(&m) != CONVOY_UNSUPPORTED ||
                        !strstr(convoy_last_message(), "was forked");
        _exit(bad);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(cv_device_cuda.bind(&m), CONVOY_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_usable_gpu_is_described, good_gpu),
        cmocka_unit_test_setup(a_gpu_outside_the_targets_is_named, good_gpu),
        cmocka_unit_test_setup(other_faults_keep_cudas_words, good_gpu),
        cmocka_unit_test_setup(missing_pieces_are_told_apart, good_gpu),
        cmocka_unit_test_setup(an_index_beyond_the_last_is_invalid, good_gpu),
        cmocka_unit_test_setup(the_callers_device_comes_back, good_gpu),
        cmocka_unit_test_setup(pending_errors_are_not_ours, good_gpu),
        cmocka_unit_test_setup(unknown_rates_leave_no_error, good_gpu),
        cmocka_unit_test_setup(a_forked_child_is_told, good_gpu),
    };
    return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
