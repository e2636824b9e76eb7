/* What a device offers to the core and the tuner, as a table of functions: src/core/device_cpu.c has the host's,
 * src/gpu the CUDA one. Functions other than probe are called with the device bound (see bind). */
#ifndef CV_DEVICE_H
#define CV_DEVICE_H

#include "convoy/convoy.h"
#include "cpu.h"
#include "threads.h"

/* Everything that engines and cost models may know about where a plan runs. Filled once per context, then read only; it
 * outlives every plan made from it. */
typedef struct cv_machine {
    convoy_device device;
    int device_index;
    const struct cv_device_ops *ops;
    convoy_allocator memory; /* host memory */

    cv_cpu cpu; /* isa may be lower than the processor's, by request */
    int threads;
    cv_pool *pool;

    double flop_per_s;  /* FP32 multiply-adds with all threads or on the whole GPU: nominal, for the cost models */
    double bytes_per_s; /* copy to and from main memory, read plus written */

    /* CUDA only */
    char gpu_name[96];
    int sm_major, sm_minor, sm_count;
    size_t gpu_l2_bytes, gpu_memory_bytes, gpu_shared_bytes; /* shared: the most a block may opt in to */
    int driver_version, runtime_version;                     /* as CUDA numbers them: 13000 */
} cv_machine;

typedef convoy_status (*cv_timed_fn)(void *user);

typedef struct cv_device_ops {
    convoy_device device;
    const char *name; /* "cpu", "cuda" */

    /* Fills the device part of machine (device, device_index, ops, rates, and the CUDA fields). UNSUPPORTED with a
     * message that says what is missing, when there is no such device, no driver, or no code in this build for it. */
    convoy_status (*probe)(int index, cv_machine *machine);
    /* Makes the device current for the calling thread; no-op on the CPU. UNSUPPORTED in a process that the device does
     * not serve: a child that was forked from one which had used CUDA. */
    convoy_status (*bind)(const cv_machine *machine);
    /* The device that is current for the calling thread, and making it so again: every public call that binds leaves
     * the caller's as it was. */
    int (*current)(void);
    void (*restore)(int index);

    convoy_status (*alloc)(const cv_machine *machine, size_t bytes, void **memory);
    void (*free)(const cv_machine *machine, void *memory);
    convoy_status (*copy)(const cv_machine *machine, void *to, const void *from, size_t bytes, convoy_copy kind,
                          void *stream);
    convoy_status (*synchronize)(const cv_machine *machine, void *stream);

    /* y = bias of its channel, or 0 where bias is NULL: a convolution without terms. problem has its strides filled in.
     * Enqueues. */
    convoy_status (*fill_bias)(const cv_machine *machine, const convoy_problem *problem, const float *bias, float *y,
                               void *stream);

    /* Runs call once on the default stream with cold caches (GPU: L2 overwritten first) and gives its duration: wall
     * clock on the CPU, between events on a GPU. timer comes from timer_create and belongs to one thread. */
    convoy_status (*timer_create)(const cv_machine *machine, void **timer);
    void (*timer_destroy)(const cv_machine *machine, void *timer);
    convoy_status (*timer_run)(const cv_machine *machine, void *timer, cv_timed_fn call, void *user, double *seconds);

    /* Measured ceilings, see convoy_measure_ceilings. */
    convoy_status (*ceilings)(const cv_machine *machine, double *flop_per_s, double *bytes_per_s);

    /* See convoy_reference. problem has its strides filled in. */
    convoy_status (*reference)(const cv_machine *machine, const convoy_problem *problem, const float *x, const float *w,
                               const float *bias, int64_t count, const int64_t *index, double *values, double *norms);

    /* Versions of the vendor libraries that engines of this device would load, one "key: value" line each, for info and
     * the fingerprint. */
    void (*versions)(const cv_machine *machine, char *text, size_t bytes);
} cv_device_ops;

#endif
