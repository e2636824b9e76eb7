/* NVIDIA GPUs as a device of the core. */
#ifndef CV_DEVICE_CUDA_H
#define CV_DEVICE_CUDA_H

#include "platform/device.h"

extern const cv_device_ops cv_device_cuda;

#endif
