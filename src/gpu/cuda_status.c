#include "cuda_status.h"
#include "platform/status.h"

#include <cuda_runtime_api.h>

convoy_status cv_cuda_status(int error, const char *doing)
{
    if (error == cudaSuccess)
        return CONVOY_OK;
    /* A failed call is also left as the runtime's last error, which would surface at someone else's next check. */
    (void)cudaGetLastError();
    const convoy_status status = error == cudaErrorMemoryAllocation ? CONVOY_OUT_OF_MEMORY : CONVOY_DEVICE_ERROR;
    return cv_fail(status, "%s: %s (%s)", doing, cudaGetErrorString((cudaError_t)error),
                   cudaGetErrorName((cudaError_t)error));
}
