/* Convoy: strict-FP32 2-D convolution with large kernels, on CPUs and NVIDIA GPUs.
 *
 * This header is the whole interface and its manual.
 *
 * What is computed (cross-correlation, as in every deep-learning framework)
 *
 *   x (N, C, H, W)     w (K, C/G, R, S)     bias (K)     y (N, K, P, Q)
 *
 *   y[n,k,p,q] = bias[k] + sum over c, r, s of
 *                x[n, c, p*stride_h + r*dil_h - pad_t, q*stride_w + s*dil_w - pad_l] * w[k, c, r, s]
 *
 *   P = floor((H + pad_t + pad_b - (dil_h*(R-1) + 1)) / stride_h) + 1,   Q likewise.
 *   x outside the image is zero and its taps are skipped. With G groups, output channel k reads the C/G input channels
 *   of group k / (K/G).
 *
 * How it is used
 *
 *   context  a device, its threads, the allocator, the log, wisdom          convoy_context_create
 *   plan     the engine and tuning choice for one problem; immutable        convoy_plan_create
 *   weights  w already transformed, for inference (optional)                convoy_weights_create
 *   execute  y = conv(x, w) + bias; allocates nothing                       convoy_execute
 *
 * Errors. Every function that can fail returns a convoy_status, and on failure sets its outputs to NULL or 0. The text
 * of the calling thread's last failure (which field, its value, what was expected) is convoy_last_message(). The
 * library never prints, exits or aborts.
 *
 * Threads. Plans and weights are immutable: any number of threads may execute one plan at once, each with a y and a
 * workspace of its own. A context may make plans from one thread at a time. Everything on the CPU is usable after
 * fork() in the child; CUDA is not, and every call that needs it returns UNSUPPORTED there.
 *
 * Floating point. Arithmetic is round-to-nearest, subnormals kept, whatever mode the calling thread is in; the caller's
 * mode is as before on return.
 */
#ifndef CONVOY_CONVOY_H
#define CONVOY_CONVOY_H

#include <stddef.h>
#include <stdint.h>

#define CONVOY_VERSION_MAJOR 0
#define CONVOY_VERSION_MINOR 1
#define CONVOY_VERSION_PATCH 0

#if defined(_WIN32)
#define CONVOY_API
#else
#define CONVOY_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ------------------------------------------------------------------------------------------------------ */

typedef enum convoy_status {
    CONVOY_OK = 0,
    CONVOY_INVALID = 1,       /* the caller's fault: an argument out of range, a missing pointer, a short workspace */
    CONVOY_UNSUPPORTED = 2,   /* a valid request that no engine of this build and machine can serve */
    CONVOY_OUT_OF_MEMORY = 3, /* the allocator, or the device, had no more */
    CONVOY_DEVICE_ERROR = 4,  /* a CUDA call failed; the message holds CUDA's own text */
    CONVOY_IO_ERROR = 5,      /* a file could not be read or written */
    CONVOY_INTERNAL = 6       /* a fault of this library; please report the message */
} convoy_status;

/* The fixed English name of a status, such as "invalid argument". Never NULL. */
CONVOY_API const char *convoy_status_text(convoy_status status);

/* One line about the calling thread's last failure; "" when there was none. Valid until the thread's next call that
 * fails. */
CONVOY_API const char *convoy_last_message(void);

/* "0.1.0" */
CONVOY_API const char *convoy_version(void);

/* ---- Problem ----------------------------------------------------------------------------------------------------- */

typedef enum convoy_layout { CONVOY_NCHW = 0 } convoy_layout;
typedef enum convoy_dtype { CONVOY_FP32 = 0 } convoy_dtype;
typedef enum convoy_direction {
    CONVOY_FORWARD = 0,
    CONVOY_BACKWARD_DATA = 1,   /* has its place; refused as unsupported */
    CONVOY_BACKWARD_WEIGHTS = 2 /* has its place; refused as unsupported */
} convoy_direction;

/* All sizes are in elements. Ranges: n, c, k >= 0; h, w, r, s, strides, dilations, groups >= 1 (h, w may be 0 only when
 * the padded image still holds the kernel); pads >= 0; c and k multiples of groups. Products of sizes fit in int64_t
 * bytes. */
typedef struct convoy_problem {
    int64_t n, c, h, w, k, r, s;
    int64_t pad_t, pad_b, pad_l, pad_r;
    int64_t stride_h, stride_w;
    int64_t dil_h, dil_w;
    int64_t groups;
    convoy_layout layout;
    convoy_dtype dtype;
    convoy_direction direction;
    int strided; /* 0: x, w, y are packed in the order of their dimensions; 1: the element strides below are used */
    /* In elements, of the dimensions in order; may be zero or negative (y's: not zero over a size > 1). */
    int64_t x_stride[4], w_stride[4], y_stride[4];
} convoy_problem;

/* A forward problem with stride 1, no padding, dilation 1, one group, packed tensors. */
CONVOY_API convoy_problem convoy_problem_make(int64_t n, int64_t c, int64_t h, int64_t w, int64_t k, int64_t r,
                                              int64_t s);

/* Reads a problem string, in full n4c64h128w128k64r8s8_st1x1_pad0,0,0,0_dil1x1_g1 (docs/problem-strings.md has the
 * grammar); the names A, B, C and D are the four reference problems. The result has also passed convoy_problem_check.
 * INVALID with a message that names the place. */
CONVOY_API convoy_status convoy_problem_parse(const char *text, convoy_problem *problem);

/* Writes the problem's string with its terminating zero, and returns its length. When bytes is too small (or text
 * NULL), writes what fits and returns the length needed. Tensor strides are not part of the string. 192 bytes are
 * enough for any problem whose sizes are below a billion. */
CONVOY_API size_t convoy_problem_print(const convoy_problem *problem, char *text, size_t bytes);

/* OK, or INVALID with a message naming the first bad field, its value and what was expected; UNSUPPORTED for a layout,
 * dtype or direction that has its place but no engine. */
CONVOY_API convoy_status convoy_problem_check(const convoy_problem *problem);

/* Output rows P and columns Q of a problem that passes convoy_problem_check. Either pointer may be NULL. */
CONVOY_API convoy_status convoy_problem_output(const convoy_problem *problem, int64_t *p, int64_t *q);

/* Multiply-adds of the direct sum times two: 2*N*K*P*Q*(C/G)*R*S. "GFLOP/s" in Convoy always counts these. */
CONVOY_API double convoy_problem_flop(const convoy_problem *problem);

/* ---- Context ----------------------------------------------------------------------------------------------------- */

typedef enum convoy_device { CONVOY_CPU = 0, CONVOY_CUDA = 1 } convoy_device;

typedef struct convoy_context convoy_context;

/* NULL functions mean aligned host memory from the C library. alloc returns memory aligned to 64 bytes or NULL. */
typedef struct convoy_allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*free)(void *user, void *memory);
    void *user;
} convoy_allocator;

typedef enum convoy_log_level { CONVOY_LOG_WARNING = 1, CONVOY_LOG_INFO = 2 } convoy_log_level;
typedef void (*convoy_log_fn)(void *user, convoy_log_level level, const char *line);

/* All zero means every default. */
typedef struct convoy_context_options {
    convoy_device device;       /* default CONVOY_CPU */
    int device_index;           /* default 0; CUDA's ordinal */
    int threads;                /* default 0: CONVOY_THREADS if set, else the cores this process may run on; 1..1024 */
    const char *isa;            /* default NULL: CONVOY_ISA if set, else the best; "scalar", "avx2", "avx512" */
    const char *wisdom;         /* default NULL: CONVOY_WISDOM if set, else none; a file's path, or "off" */
    convoy_allocator allocator; /* default: the C library's */
    convoy_log_fn log;          /* default NULL: silent */
    void *log_user;
} convoy_context_options;

/* Makes a context. options may be NULL. Calls on it and on what is made from it leave the calling thread's current CUDA
 * device as it was. Errors: INVALID (a field out of range, an ISA the machine lacks), UNSUPPORTED
 * (no such device, or a build without CUDA), OUT_OF_MEMORY. */
CONVOY_API convoy_status convoy_context_create(const convoy_context_options *options, convoy_context **context);

/* Frees it; plans and weights made from it stay usable. NULL is fine. */
CONVOY_API void convoy_context_destroy(convoy_context *context);

/* Facts about the machine as the context sees it, one "key: value" line each, as convoy info prints them. The pointer
 * is valid while the context lives. */
CONVOY_API const char *convoy_context_info(const convoy_context *context);

/* ---- Plan -------------------------------------------------------------------------------------------------------- */

/* What is promised about y's bits (docs/numerics.md). */
typedef enum convoy_math {
    CONVOY_MATH_FP32 = 0,  /* any FP32 algorithm within its documented bound */
    CONVOY_MATH_EXACT = 1, /* acc = fmaf(x, w, acc) from +0 over c, r, s ascending, then + bias: one set of bits */
    CONVOY_MATH_MATCH = 2  /* within atol + rtol*|exact| of the exact contract's value, for every output */
} convoy_math;

typedef enum convoy_effort {
    CONVOY_ESTIMATE = 0, /* wisdom if it knows the problem, else the cost model: no timing, under a millisecond (but a
                            vendor library may take tens to describe a large shape when it is first asked) */
    CONVOY_MEASURE = 1   /* wisdom if it knows the problem, else time the best few candidates and remember */
} convoy_effort;

typedef struct convoy_plan convoy_plan;
typedef struct convoy_weights convoy_weights;

/* Progress of a measuring plan: fraction done in 0..1, seconds left (an estimate), and what is being timed. Return 0 to
 * go on, anything else to stop with the best so far. */
typedef int (*convoy_progress_fn)(void *user, double done, double seconds_left, const char *what);

/* All zero means every default. */
typedef struct convoy_plan_options {
    convoy_math math;      /* default CONVOY_MATH_FP32 */
    double rtol, atol;     /* MATCH only; both >= 0 and not both 0 */
    convoy_effort effort;  /* default CONVOY_ESTIMATE */
    double time_limit_s;   /* MEASURE only; default 0: 10 seconds */
    const char *engine;    /* default NULL: any. "fft", or "fft:ty32tx32" with a candidate as describe prints it */
    const char *exclude;   /* default NULL: none. Engine names separated by commas */
    int workspace_limited; /* default 0: the library's own limit, about the size of the tensors plus 64 MiB (CPU) */
    size_t workspace_limit_bytes; /* counts when workspace_limited is not 0; may be 0 */
    int bias;                     /* default 0: execute gets no bias. 1: it gets one */
    int prepared;      /* default 0: execute gets w. 1: it gets weights made from this plan (or a like one) */
    int deterministic; /* default 0. 1: engines that may change bits from run to run are left out */
    const convoy_weights *weights; /* default NULL. Else: the engine and candidate that made them; implies prepared */
    convoy_progress_fn progress;   /* MEASURE only */
    void *progress_user;
} convoy_plan_options;

/* Chooses engine and candidate for a problem. options may be NULL. Errors: INVALID (a bad problem or option, an unknown
 * engine), UNSUPPORTED (no engine accepts the problem under these options; the message says why the last one did not),
 * OUT_OF_MEMORY, DEVICE_ERROR. */
CONVOY_API convoy_status convoy_plan_create(convoy_context *context, const convoy_problem *problem,
                                            const convoy_plan_options *options, convoy_plan **plan);
CONVOY_API void convoy_plan_destroy(convoy_plan *plan);

/* Bytes of workspace that convoy_execute needs; 0 when none. */
CONVOY_API size_t convoy_plan_workspace_bytes(const convoy_plan *plan);

typedef enum convoy_source { CONVOY_FROM_ESTIMATE = 0, CONVOY_FROM_WISDOM = 1, CONVOY_FROM_MEASURE = 2 } convoy_source;

typedef struct convoy_plan_info {
    convoy_problem problem;
    const char *engine; /* lives as long as the plan */
    int engine_revision;
    const char *candidate; /* the tuning choice, such as "ty32tx32"; "" when the engine has none */
    convoy_math math;      /* the contract that this plan keeps (EXACT may be kept where FP32 was asked) */
    convoy_device device;
    convoy_source source;
    double predicted_s; /* the cost model's seconds */
    double measured_s;  /* median of the timing that chose it; 0 when none was made */
    double spread_s;    /* p90 - p10 of that timing */
    size_t workspace_bytes;
    int threads;
    int deterministic;    /* 1: the same bits run after run */
    int error_bound_kind; /* 0: per output, bound_factor * u * sum|x||w|;  1: norm-wise, bound_factor * u *
                             sum over c of ||x tile|| * ||w||, u = 2^-24 (docs/numerics.md);  2: the match contract's
                             own tolerance */
    double error_bound_factor;
    /* Transform engines: sides of the tiles that the bound means, which begin at multiples of T - R + 1 outputs (of the
     * columns and rows that one stride and dilation phase sees). Else 0. */
    int tile_h, tile_w;
} convoy_plan_info;

CONVOY_API convoy_status convoy_plan_describe(const convoy_plan *plan, convoy_plan_info *info);

/* One line of convoy_explain. Strings live during the call only. */
typedef struct convoy_explanation {
    const char *engine;
    const char *candidate;  /* the best one by measurement or estimate; "" when declined */
    int accepted;           /* 0: declined */
    int chosen;             /* 1 on the one line that a plan would take */
    double predicted_s;     /* when accepted */
    double measured_s;      /* from wisdom; 0 when not measured */
    size_t workspace_bytes; /* when accepted */
    const char *reason;     /* when declined: completes "declined because ..." */
} convoy_explanation;

/* Calls each for every engine of the context's device, in the registry's order, and says truthfully which one a plan
 * with the same arguments takes (effort ESTIMATE) and why the others do not. Returns what convoy_plan_create would. */
CONVOY_API convoy_status convoy_explain(convoy_context *context, const convoy_problem *problem,
                                        const convoy_plan_options *options,
                                        void (*each)(void *user, const convoy_explanation *line), void *user);

/* One choice that a plan could make. Strings live during the call only. */
typedef struct convoy_candidate {
    const char *engine;
    const char *candidate;  /* the tuning choice, as options.engine takes it after the colon; "" when there is none */
    double predicted_s;     /* the cost model's seconds */
    size_t workspace_bytes; /* as the cost model knows it */
} convoy_candidate;

/* Calls each for the engines and candidates that a plan with the same arguments may choose from, the quickest predicted
 * first (the 512 quickest at most). Wisdom and effort play no part. Returns what convoy_plan_create would. */
CONVOY_API convoy_status convoy_candidates(convoy_context *context, const convoy_problem *problem,
                                           const convoy_plan_options *options,
                                           void (*each)(void *user, const convoy_candidate *candidate), void *user);

/* The engines in this build, by index from 0; NULL past the last. Engines of all devices, present or not. The answers
 * live as long as the process. */
typedef struct convoy_engine_info {
    const char *name;
    int revision;
    convoy_device device;
    int keeps_exact;   /* keeps the EXACT contract */
    int transform;     /* an FFT engine: norm-wise bound */
    int vendor;        /* someone else's library, loaded at run time */
    int by_name_only;  /* never chosen unless named */
    const char *about; /* one line */
} convoy_engine_info;
CONVOY_API const convoy_engine_info *convoy_engine(int index);

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

/* Transforms w once for a plan made with prepared = 1. w is a host pointer for a CPU plan and a device pointer for a
 * CUDA plan (then stream is the cudaStream_t to work on, NULL the default one, and the call returns when the work is
 * done). The memory comes from the context's allocator, or from the device. The weights serve every plan with the same
 * engine, revision, candidate, K, C/G, R, S and G. w may be freed afterwards. */
CONVOY_API convoy_status convoy_weights_create(const convoy_plan *plan, const float *w, void *stream,
                                               convoy_weights **weights);
CONVOY_API void convoy_weights_destroy(convoy_weights *weights);
CONVOY_API size_t convoy_weights_bytes(const convoy_weights *weights);

/* ---- Execute ----------------------------------------------------------------------------------------------------- */

/* Host pointers for a CPU plan, device pointers for a CUDA plan. x, w, bias, y need the alignment of a float. y and the
 * workspace must not overlap anything else (refused where the tensors are packed; strided ones may interleave); x, w
 * and bias are only read. Strided tensors: the pointer is element (0,0,0,0). */
typedef struct convoy_args {
    size_t struct_bytes; /* sizeof(convoy_args) */
    const float *x;
    const float *w;                /* with weights it is ignored, and may be NULL */
    const convoy_weights *weights; /* for a plan with prepared = 1, else NULL */
    const float *bias;             /* for a plan with bias = 1, else NULL */
    float *y;                      /* every element is written */
    void *workspace; /* at least convoy_plan_workspace_bytes; any alignment; contents on entry are ignored */
    size_t workspace_bytes;
    void *stream; /* CUDA: the cudaStream_t to enqueue on (NULL: the default stream); CPU: ignored */
} convoy_args;

/* CPU: returns when y is complete. CUDA: only enqueues on the stream, so it can be captured in a CUDA graph. Allocates
 * nothing. Errors: INVALID (a missing pointer, a short workspace, weights that do not fit), DEVICE_ERROR. */
CONVOY_API convoy_status convoy_execute(const convoy_plan *plan, const convoy_args *args);

/* ---- Measuring --------------------------------------------------------------------------------------------------- */

typedef struct convoy_timing {
    int runs;
    double median_s, p10_s, p90_s;
} convoy_timing;

/* Times a plan on fresh normal(0,1) data by the rules of docs/benchmarking.md (cold caches, medians). time_limit_s
 * bounds the timed runs (0: one second); at least 5 runs on a CPU and 20 on a GPU unless the limit is reached ten times
 * over. Allocates its own tensors. The tuner uses the same code. */
CONVOY_API convoy_status convoy_measure(const convoy_plan *plan, double time_limit_s, convoy_timing *timing);

typedef struct convoy_phase {
    char name[24];
    double seconds; /* summed over the call (CPU: wall time of the phase) */
    double bytes;   /* memory traffic the phase must make, read and written */
    double flop;    /* operations the phase makes, as it makes them */
} convoy_phase;

/* Executes once, blocking, and reports its phases in order. capacity is the room in phases (16 are enough); count gets
 * the number. Engines without phases report one, "all". */
CONVOY_API convoy_status convoy_execute_phases(const convoy_plan *plan, const convoy_args *args, convoy_phase *phases,
                                               int capacity, int *count);

/* The machine's ceilings, measured now (about a quarter of a second) with all the context's threads, or on the GPU:
 * FP32 multiply-adds as flop/s, and a large copy's bytes/s, read plus written. */
CONVOY_API convoy_status convoy_measure_ceilings(convoy_context *context, double *flop_per_s, double *bytes_per_s);

/* ---- Truth ------------------------------------------------------------------------------------------------------- */

/* Sums chosen outputs in FP64, the oracle of every accuracy check. index[i] is the flat position in a packed (N, K, P,
 * Q) tensor; values[i] gets the sum with bias (may be NULL), norms[i] sum |x||w| + |bias| (norms may be NULL). x, w,
 * bias are the context's device pointers, laid out as the problem says; index, values and norms are host pointers.
 * Blocking. */
CONVOY_API convoy_status convoy_reference(convoy_context *context, const convoy_problem *problem, const float *x,
                                          const float *w, const float *bias, int64_t count, const int64_t *index,
                                          double *values, double *norms);

/* ---- Memory of the context's device ------------------------------------------------------------------------------ */

/* For programs that do not link CUDA themselves: memory on the context's device (host memory for a CPU context),
 * copies, and waiting for everything enqueued so far. */
typedef enum convoy_copy { CONVOY_TO_DEVICE = 0, CONVOY_TO_HOST = 1, CONVOY_ON_DEVICE = 2 } convoy_copy;
CONVOY_API convoy_status convoy_memory_alloc(convoy_context *context, size_t bytes, void **memory);
CONVOY_API void convoy_memory_free(convoy_context *context, void *memory);
CONVOY_API convoy_status convoy_memory_copy(convoy_context *context, void *to, const void *from, size_t bytes,
                                            convoy_copy kind);
CONVOY_API convoy_status convoy_synchronize(convoy_context *context);

/* ---- Wisdom ------------------------------------------------------------------------------------------------------ */

/* The library reads and writes wisdom only when the context names a file. These work on files; none needs a context. */

/* Calls each for every entry: the section's fingerprint, the key and the value as text. Damaged lines are skipped and
 * counted in *damaged (may be NULL). IO_ERROR when the file cannot be read. */
typedef void (*convoy_wisdom_fn)(void *user, const char *machine, const char *key, const char *value);
CONVOY_API convoy_status convoy_wisdom_each(const char *path, convoy_wisdom_fn each, void *user, int *damaged);

/* Adds from's entries to into's (newer library versions win, then lower medians). into is replaced atomically. */
CONVOY_API convoy_status convoy_wisdom_merge(const char *into, const char *from);

/* Removes the file's entries (the file stays, empty). A missing file is fine. */
CONVOY_API convoy_status convoy_wisdom_clear(const char *path);

#ifdef __cplusplus
}
#endif

#endif
