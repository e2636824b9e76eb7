/* What was measured before, kept in a file. The functions are those of cv_tuner in core/services.h. */
#ifndef CV_WISDOM_H
#define CV_WISDOM_H

#include "core/services.h"

convoy_status cv_wisdom_open(convoy_context *context, const char *path, void **wisdom);
void cv_wisdom_close(convoy_context *context, void *wisdom);
int cv_wisdom_lookup(convoy_context *context, void *wisdom, const cv_request *request, const convoy_plan_options *options, cv_choice *choice);
double cv_wisdom_engine_s(convoy_context *context, void *wisdom, const cv_request *request, const cv_engine *engine);
void cv_wisdom_store(convoy_context *context, void *wisdom, const cv_request *request, const convoy_plan_options *options,
                     const cv_choice *choice);

#endif
