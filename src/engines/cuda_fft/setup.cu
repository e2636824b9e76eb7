/* Shared-memory limits of all kernels, raised once a device. */
#include <cuda_runtime.h>

#include "spectral.h"

extern "C" {
int cv_forward_setup(void);
int cv_product_setup(void);
int cv_inverse_setup(void);
int cv_depthwise_setup(void);
}

extern "C" int cv_spectral_setup(void)
{
    int (*const parts[])(void) = {cv_forward_setup, cv_product_setup, cv_inverse_setup, cv_depthwise_setup};
    for (auto part : parts)
        if (int e = part())
            return e;
    return cudaSuccess;
}
