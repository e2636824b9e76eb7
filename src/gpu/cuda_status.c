#include "cuda_status.h"
#include "platform/status.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

static atomic_flag watching = ATOMIC_FLAG_INIT;
static atomic_int forked;

static void in_the_child(void) { atomic_store(&forked, 1); }

void cv_cuda_started(void)
{
    if (!atomic_flag_test_and_set(&watching))
        (void)pthread_atfork(NULL, NULL, in_the_child);
}

int cv_cuda_is_forked(void) { return atomic_load_explicit(&forked, memory_order_relaxed); }

convoy_status cv_cuda_forked(const char *doing)
{
    (void)cudaGetLastError();
    return cv_fail(CONVOY_UNSUPPORTED,
                   "%s: this process was forked from one that had used CUDA, which CUDA does not allow (start it with "
                   "exec or spawn, or fork before the first CUDA context)",
                   doing);
}

convoy_status cv_cuda_status(int error, const char *doing)
{
    if (error == cudaSuccess)
        return CONVOY_OK;
    if (cv_cuda_is_forked())
        return cv_cuda_forked(doing);
    /* A failed call is also left as the runtime's last error, which would surface at someone else's next check. */
    (void)cudaGetLastError();
    const convoy_status status = error == cudaErrorMemoryAllocation ? CONVOY_OUT_OF_MEMORY : CONVOY_DEVICE_ERROR;
    return cv_fail(status, "%s: %s (%s)", doing, cudaGetErrorString((cudaError_t)error),
                   cudaGetErrorName((cudaError_t)error));
}
