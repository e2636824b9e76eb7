/* What the core reaches without seeing it: devices and the tuner, as tables that src/wiring.c fills. */
#ifndef CV_SERVICES_H
#define CV_SERVICES_H

#include "caller.h"
#include "plan.h"

typedef struct cv_tuner {
    /* convoy_measure. */
    convoy_status (*measure)(const convoy_plan *plan, double time_limit_s, convoy_timing *timing);

    /* Times the best few of a ranked list under options->time_limit_s, writes the winner to *choice (source MEASURE)
     * and keeps what was found in the context's wisdom. A failure to write is a warning in the log, never an error. */
    convoy_status (*search)(convoy_context *context, const cv_request *request, const convoy_plan_options *options,
                            const cv_choice *ranked, int count, cv_choice *choice);

    /* Wisdom of one context: opened with the context's machine for its fingerprint. A missing file is an empty wisdom;
     * a damaged one costs a warning in the log. lookup gives 1 and the choice when the request is known and its choice
     * is still in the ranked list. */
    convoy_status (*wisdom_open)(convoy_context *context, const char *path, void **wisdom);
    void (*wisdom_close)(convoy_context *context, void *wisdom);
    int (*wisdom_lookup)(convoy_context *context, void *wisdom, const cv_request *request,
                         const convoy_plan_options *options, const cv_choice *ranked, int count, cv_choice *choice);
    /* 1 when something was measured for an engine: its best candidate, median and spread, for explain. */
    int (*wisdom_engine)(convoy_context *context, void *wisdom, const cv_request *request,
                         const convoy_plan_options *options, const cv_engine *engine, cv_choice *choice);
} cv_tuner;

/* The match contract by composition: a transform engine, and the exact chain for the outputs whose tolerance is not
 * safe. The functions are those of cv_engine with the transform engine as an argument. A plan is composed when match is
 * asked and its engine does not keep the exact contract. */
typedef struct cv_match {
    const char *(*refuse)(const cv_request *request, const cv_engine *engine, char reason[CV_REASON_BYTES]);
    int (*candidates)(const cv_request *request, const cv_engine *engine, cv_candidate *list, int capacity);
    double (*estimate)(const cv_request *request, const cv_engine *engine, const cv_candidate *candidate,
                       size_t *workspace_bytes);
    convoy_status (*create)(const cv_request *request, const cv_engine *engine, const cv_candidate *candidate,
                            void **state, cv_needs *needs);
    void (*destroy)(void *state);
    convoy_status (*prepare)(const void *state, const float *w, void *weights, void *scratch, void *stream);
    convoy_status (*execute)(const void *state, const cv_exec *run);
} cv_match;

static inline int cv_composed(const cv_request *request, const cv_engine *engine)
{
    return request->math == CONVOY_MATH_MATCH && !(engine->traits & CV_KEEPS_EXACT);
}

extern const cv_match cv_match_table;
extern const cv_tuner cv_tuner_table;
extern const cv_device_ops *const cv_device_list[]; /* by convoy_device; NULL where this build has none */

#endif
