/* The tuner's table, and the search: time the candidates that the cost model ranks first, under a time limit, and keep the
 * quickest median. */
#include "measure.h"
#include "wisdom.h"

#include <string.h>

/* How far behind the leader's prediction a candidate may lie and still be timed, and how many are tried at most. */
enum { MOST_TRIES = 24 };
static const double worth_trying = 3.0;

static convoy_status try_one(convoy_context *context, const cv_request *q, const cv_choice *ranked, double limit_s, cv_choice *best)
{
    convoy_plan *plan;
    convoy_timing timing;
    convoy_status status = cv_plan_make(context, q, ranked, &plan);
    if (status != CONVOY_OK)
        return status;
    status = cv_measure(plan, limit_s, &timing);
    convoy_plan_destroy(plan);
    if (status == CONVOY_OK && (!best->engine || timing.median_s < best->measured_s)) {
        *best = *ranked;
        best->measured_s = timing.median_s;
        best->spread_s = timing.p90_s - timing.p10_s;
        best->source = CONVOY_FROM_MEASURE;
    }
    return status;
}

static convoy_status search(convoy_context *context, const cv_request *q, const convoy_plan_options *o, const cv_choice *ranked, int count,
                            cv_choice *choice)
{
    const double limit_s = o->time_limit_s > 0 ? o->time_limit_s : 10.0, from = cv_now_s();
    const int tries = count < MOST_TRIES ? count : MOST_TRIES;
    convoy_status last = CONVOY_OK;
    memset(choice, 0, sizeof *choice);
    for (int i = 0; i < tries; i++) {
        const double spent = cv_now_s() - from;
        if (choice->engine && (spent > limit_s || ranked[i].predicted_s > worth_trying * ranked[0].predicted_s))
            break;
        char what[CV_CANDIDATE_TEXT + 64];
        cv_candidate_print(ranked[i].engine, &ranked[i].candidate, what);
        if (o->progress && o->progress(o->progress_user, (double)i / tries, i ? spent / i * (tries - i) : limit_s, what))
            break;
        convoy_status status = try_one(context, q, &ranked[i], 0.5 * limit_s / tries, choice);
        if (status != CONVOY_OK)
            last = status; /* a candidate that does not fit into memory now is passed over */
    }
    if (choice->engine)
        return CONVOY_OK;
    if (last != CONVOY_OK)
        return last;
    *choice = ranked[0];
    return CONVOY_OK;
}

const cv_tuner cv_tuner_table = {
    .measure = cv_measure,
    .search = search,
    .wisdom_open = cv_wisdom_open,
    .wisdom_close = cv_wisdom_close,
    .wisdom_lookup = cv_wisdom_lookup,
    .wisdom_engine_s = cv_wisdom_engine_s,
    .wisdom_store = cv_wisdom_store,
};
