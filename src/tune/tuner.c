/* The tuner's table for the core: timing, searching, remembering. */
#include "measure.h"
#include "search.h"
#include "wisdom.h"

#include <string.h>

/* A named candidate leaves nothing to remember: it may be any one of its engine's. */
static int worth_keeping(const convoy_plan_options *o) { return !o->weights && !(o->engine && strchr(o->engine, ':')); }

static convoy_status search(convoy_context *context, const cv_request *q, const convoy_plan_options *o,
                            const cv_choice *ranked, int count, cv_choice *choice)
{
    cv_findings findings;
    *choice = ranked[0];
    if (count == 1 && !worth_keeping(o))
        return CONVOY_OK; /* nothing to choose from */
    convoy_status status = cv_search(context, q, o, ranked, count, &findings);
    if (status != CONVOY_OK || !findings.count)
        return status;
    const cv_finding *best = &findings.best[0];
    for (int i = 0; i < count; i++)
        if (ranked[i].engine == best->engine &&
            memcmp(&ranked[i].candidate, &best->candidate, sizeof best->candidate) == 0)
            *choice = ranked[i];
    choice->measured_s = best->median_s;
    choice->spread_s = best->spread_s;
    choice->source = CONVOY_FROM_MEASURE;
    if (context->wisdom && worth_keeping(o) && !findings.stopped)
        cv_wisdom_store(context, context->wisdom, q, o, &findings);
    return CONVOY_OK;
}

static int engine_result(convoy_context *context, void *wisdom, const cv_request *q, const convoy_plan_options *o,
                         const cv_engine *engine, cv_choice *choice)
{
    cv_finding finding;
    if (!cv_wisdom_engine(context, wisdom, q, o, engine, &finding))
        return 0;
    choice->engine = engine;
    choice->candidate = finding.candidate;
    choice->measured_s = finding.median_s;
    choice->spread_s = finding.spread_s;
    return 1;
}

const cv_tuner cv_tuner_table = {
    .measure = cv_measure,
    .search = search,
    .wisdom_open = cv_wisdom_open,
    .wisdom_close = cv_wisdom_close,
    .wisdom_lookup = cv_wisdom_lookup,
    .wisdom_engine = engine_result,
};
