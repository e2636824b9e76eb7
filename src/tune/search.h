#ifndef CV_SEARCH_H
#define CV_SEARCH_H

#include "wisdom_entry.h"

/* Times the best few of a ranked list under options->time_limit_s, and says what each engine came to. No finding when
 * the caller stopped it before the first look. */
convoy_status cv_search(convoy_context *context, const cv_request *request, const convoy_plan_options *options,
                        const cv_choice *ranked, int count, cv_findings *findings);

#endif
