/* What a call changes of its caller's thread and puts back before it returns: the floating-point mode, so that neither
 * a choice nor a result depends on it, and the current device, which the program's own CUDA calls go on from. */
#ifndef CV_CALLER_H
#define CV_CALLER_H

#include "platform/cpu.h"
#include "platform/device.h"

typedef struct cv_caller {
    cv_fpenv mode;
    const cv_device_ops *ops;
    int device;
} cv_caller;

static inline void cv_caller_enter(cv_caller *caller, const cv_device_ops *ops)
{
    caller->ops = ops;
    caller->device = ops->current();
    cv_fpenv_enter(&caller->mode);
}

static inline void cv_caller_leave(const cv_caller *caller)
{
    cv_fpenv_leave(&caller->mode);
    caller->ops->restore(caller->device);
}

#endif
