/* The one place that knows the whole library: which devices this build has. The tuner's table is defined in src/tune.
 */
#include "core/device_cpu.h"
#include "core/services.h"

#if CV_WITH_CUDA
#include "gpu/device_cuda.h"
#endif

const cv_device_ops *const cv_device_list[] = {
    [CONVOY_CPU] = &cv_device_cpu,
#if CV_WITH_CUDA
    [CONVOY_CUDA] = &cv_device_cuda,
#else
    [CONVOY_CUDA] = NULL,
#endif
};
