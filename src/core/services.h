/* What the core reaches without seeing it: devices and the tuner, as tables that src/wiring.c fills. */
#ifndef CV_SERVICES_H
#define CV_SERVICES_H

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

extern const cv_tuner cv_tuner_table;
extern const cv_device_ops *const cv_device_list[]; /* by convoy_device; NULL where this build has none */

#endif
