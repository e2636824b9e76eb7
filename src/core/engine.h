/* The engine interface: what one way of computing a convolution tells the planner, and how it is run.
 *
 * An engine is one folder under src/engines and one line in src/engines/CMakeLists.txt; it defines one
 * `const cv_engine cv_engine_NAME`. It sees core, platform, simd, fft, chain and gpu, never another engine.
 * docs/adding-an-engine.md walks through a small one. */
#ifndef CV_ENGINE_H
#define CV_ENGINE_H

#include "convoy/convoy.h"
#include "platform/device.h"
#include "platform/memory.h"
#include "platform/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is asked for: a checked problem and everything that may bear on the choice. Plain data, copied freely. */
typedef struct cv_request {
    convoy_problem p;     /* x_stride, w_stride, y_stride are filled in whether or not p.strided is set */
    convoy_problem asked; /* the same before strides over one output and dilations of one tap were set to 1 or so */
    int64_t P, Q;         /* output rows and columns */
    int64_t cg, kg;       /* channels of a group: C/G and K/G */
    convoy_math math;     /* EXACT, FP32 or MATCH; the planner has already left out engines that do not keep it */
    double rtol, atol;
    int bias, prepared, deterministic;
    size_t workspace_limit; /* bytes; the library's default when the caller set none */
    const cv_machine *machine;
} cv_request;

/* A tuning choice: up to CV_CHOICE numbers whose letters the engine names in candidate_keys. Written ty32tx32. */
enum { CV_CHOICE = 8, CV_CANDIDATES = 512, CV_CANDIDATE_TEXT = 96, CV_REASON_BYTES = 256 };
typedef struct cv_candidate {
    int v[CV_CHOICE];
} cv_candidate;

/* What a created plan needs and promises. Core zeroes it first. */
typedef struct cv_needs {
    size_t workspace_bytes; /* for execute; at most request.workspace_limit */
    size_t weights_bytes;   /* of the block that prepare fills; 0 when the engine does not prepare */
    size_t prepare_bytes;   /* scratch for prepare */
    double bound_factor;    /* see convoy_plan_info.error_bound_factor */
    int bound_kind;
    int tile_h, tile_w; /* transform engines: the tile's sides; 0 otherwise */
} cv_needs;

enum { CV_PHASES = 16 };
typedef struct cv_phases {
    int count;
    convoy_phase phase[CV_PHASES];
} cv_phases;

/* Adds to the phase of that name, or begins it. A NULL recorder is fine: then nothing is recorded. CPU engines pass the
 * seconds they took; CUDA engines too, from events, in which case execute may synchronise. */
void cv_phase_add(cv_phases *phases, const char *name, double seconds, double bytes, double flop);

/* One run. Pointers are on the plan's device. */
typedef struct cv_exec {
    const float *x, *w, *bias; /* w is NULL when weights is given; bias NULL when the request has none */
    float *y;
    const void *weights; /* the block that prepare filled */
    void *workspace;     /* 64-byte aligned on the CPU, 256 on a GPU; needs.workspace_bytes */
    void *stream;
    cv_phases *phases; /* NULL unless the caller asked for them */
    int follows; /* a GPU: what comes before on the stream may still run when the first kernel begins, which then waits
                    for it (gpu/overlap.cuh) before it writes, or reads anything but x and w */
} cv_exec;

enum {
    CV_KEEPS_EXACT = 1,  /* every output is the chain of the exact contract */
    CV_IS_TRANSFORM = 2, /* norm-wise error bound */
    CV_IS_VENDOR = 4,
    CV_PACKED_ONLY = 8,   /* declines strided tensors; core says so */
    CV_PREPARES = 16,     /* can transform w ahead; core gives the others a copy of w when prepared is asked */
    CV_BY_NAME_ONLY = 32, /* never chosen unless named */
    CV_UNSTABLE_BITS = 64 /* bits may change from run to run; left out when deterministic is asked */
};

typedef struct cv_engine {
    const char *name;
    const char *about; /* one line, for `convoy engines` */
    int revision; /* raised when the meaning of a candidate or of prepared weights changes: old wisdom is dropped */
    convoy_device device;
    unsigned traits;
    const char *candidate_keys; /* letters of cv_candidate.v in order, separated by spaces: "ty tx"; "" for no choice */

    /* NULL: accepted. Else the words that complete "declined because ...": a constant, or text written to reason. Must
     * not be expensive (a vendor library is opened once). Core has already checked traits, device and the problem.
     * Empty problems (N, K, C, H or W zero) never reach an engine: core answers them. */
    const char *(*refuse)(const cv_request *request, char reason[CV_REASON_BYTES]);

    /* Writes at most capacity candidates, likely best ones first; returns how many. At least one when accepted; those
     * whose workspace exceeds request->workspace_limit are left out, so 0 means "declined because it needs more
     * workspace". */
    int (*candidates)(const cv_request *request, cv_candidate *list, int capacity);

    /* Predicts seconds and workspace bytes for one candidate. Microseconds of CPU time at most. */
    double (*estimate)(const cv_request *request, const cv_candidate *candidate, size_t *workspace_bytes);

    /* Builds the immutable state of a plan with memory from request->machine->memory. On failure *state is NULL. */
    convoy_status (*create)(const cv_request *request, const cv_candidate *candidate, void **state, cv_needs *needs);
    void (*destroy)(void *state);

    /* Transforms w into weights (needs.weights_bytes, aligned as workspace is) with scratch of needs.prepare_bytes.
     * CUDA: enqueues on stream. What is written depends only on engine, revision, candidate, K, C/G, R, S, G. NULL
     * without CV_PREPARES. */
    convoy_status (*prepare)(const void *state, const float *w, void *weights, void *scratch, void *stream);

    /* Computes y. Thread-safe on one state. Allocates nothing, takes no lock. CUDA: only enqueues, unless phases is
     * given. The floating-point mode of the calling thread has been set by core. */
    convoy_status (*execute)(const void *state, const cv_exec *run);

    /* Writes the name and version of the vendor library that was found as a "key: value" line, nothing when there is
     * none. It goes into wisdom's fingerprint. NULL without such a library (and for CUDA engines, whose device's
     * versions function does it). */
    void (*library)(char *text, size_t bytes);
} cv_engine;

/* Memory for a plan's state, zeroed. The state must begin with a `const cv_machine *`, which this fills in. NULL:
 * create returns CONVOY_OUT_OF_MEMORY, the message is there. */
void *cv_state_alloc(const cv_request *request, const char *engine, size_t bytes);
/* Gives such a state back, or NULL: an engine whose state owns nothing else has this as its destroy. */
void cv_state_free(void *state);

/* w's strides where it lies packed, as a prepared block keeps it. */
void cv_packed_weights(const convoy_problem *p, int64_t stride[4]);

/* The engines of this build, in the order of src/engines/CMakeLists.txt; ends with NULL. */
extern const cv_engine *const cv_engines[];

const cv_engine *cv_engine_find(const char *name, size_t length);

/* "ty32tx32" from a candidate and back; text holds CV_CANDIDATE_TEXT bytes. parse gives 1 on success. */
void cv_candidate_print(const cv_engine *engine, const cv_candidate *candidate, char *text);
int cv_candidate_parse(const cv_engine *engine, const char *text, cv_candidate *candidate);

#ifdef __cplusplus
}
#endif

#endif
