/* What was measured before, kept in a file. open, close, lookup and engine are those of cv_tuner in core/services.h. */
#ifndef CV_WISDOM_H
#define CV_WISDOM_H

#include "wisdom_entry.h"

convoy_status cv_wisdom_open(convoy_context *context, const char *path, void **wisdom);
void cv_wisdom_close(convoy_context *context, void *wisdom);
int cv_wisdom_lookup(convoy_context *context, void *wisdom, const cv_request *request,
                     const convoy_plan_options *options, const cv_choice *ranked, int count, cv_choice *choice);
int cv_wisdom_engine(convoy_context *context, void *wisdom, const cv_request *request,
                     const convoy_plan_options *options, const cv_engine *engine, cv_finding *finding);

/* Adds what a search found, here and in the file. That the file cannot be written is a warning in the log. */
void cv_wisdom_store(convoy_context *context, void *wisdom, const cv_request *request,
                     const convoy_plan_options *options, const cv_findings *findings);

#endif
