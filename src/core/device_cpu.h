#ifndef CV_DEVICE_CPU_H
#define CV_DEVICE_CPU_H

#include "platform/device.h"

extern const cv_device_ops cv_device_cpu;

/* Measured with the machine's threads and instruction set: see src/core/ceilings.c. */
convoy_status cv_cpu_ceilings(const cv_machine *machine, double *flop_per_s, double *bytes_per_s);

#endif
