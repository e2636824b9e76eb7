/* The objects behind the public handles, for core and tune. */
#ifndef CV_PLAN_H
#define CV_PLAN_H

#include "engine.h"

#include <stdatomic.h>

/* Shared by a context and the plans made from it; freed with the last of them. */
typedef struct cv_shared {
    atomic_int references;
    cv_machine machine;
} cv_shared;

struct convoy_context {
    cv_shared *shared;
    convoy_log_fn log;
    void *log_user;
    char *wisdom_path; /* NULL: none */
    void *wisdom;      /* the tuner's, see services.h */
    char *info;
};

typedef struct cv_choice {
    const cv_engine *engine;
    cv_candidate candidate;
    double predicted_s, measured_s, spread_s;
    size_t workspace_bytes;
    convoy_source source;
} cv_choice;

struct convoy_plan {
    cv_shared *shared;
    cv_request request;
    cv_choice choice;
    int composed;  /* the match contract: the engine's transform, then the chain for unsafe outputs */
    char name[48]; /* the engine's, with +chain when composed */
    char candidate[CV_CANDIDATE_TEXT];
    cv_needs needs;
    void *state; /* the engine's; NULL for an empty problem */
    int empty;   /* cv_request_is_empty: core writes bias or zero */
};

struct convoy_weights {
    cv_shared *shared;
    const cv_engine *engine;
    cv_candidate candidate;
    int composed;
    int64_t k, cg, r, s, groups;
    size_t bytes;
    void *block; /* as the device's alloc gave it */
    void *data;  /* aligned */
};

void cv_shared_release(cv_shared *shared);
void cv_log(const convoy_context *context, convoy_log_level level, const char *format, ...) CV_PRINTF(3, 4);

/* Checks problem and options and builds the request. */
convoy_status cv_request_make(convoy_context *context, const convoy_problem *problem,
                              const convoy_plan_options *options, cv_request *request);

/* 1 when y has no element, or no output has a term in its sum: then core writes y itself and no engine is asked. */
static inline int cv_request_is_empty(const cv_request *q)
{
    const convoy_problem *p = &q->p;
    return p->n == 0 || p->k == 0 || p->c == 0 || p->h == 0 || p->w == 0;
}

/* Inserts the engine's candidates that the options allow into a list that is sorted by predicted time. NULL when there
 * is at least one; else why not, in words that complete "declined because ...". */
const char *cv_rank_engine(const cv_engine *engine, const cv_request *request, const convoy_plan_options *options,
                           cv_choice *list, int *count, int capacity, char reason[CV_REASON_BYTES]);

/* The same for all engines; returns the number. When it is 0, reason says why the last engine did not accept. */
int cv_rank(const cv_request *request, const convoy_plan_options *options, cv_choice *list, int capacity,
            char reason[CV_REASON_BYTES]);

/* A plan for one choice, without wisdom or timing. */
convoy_status cv_plan_make(convoy_context *context, const cv_request *request, const cv_choice *choice,
                           convoy_plan **plan);

/* Versions of the vendor libraries that this device's engines would load, one "key: value" line each. */
void cv_machine_versions(const cv_machine *machine, char *text, size_t bytes);

size_t cv_align_bytes(const cv_machine *machine); /* of workspaces and weights: 64 or 256 */

#endif
