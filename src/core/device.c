/* The public calls that go straight to the context's device, or to the tuner. */
#include "services.h"
#include "problem.h"

#include <string.h>

/* The context's device, current until cv_caller_leave, which the caller owes where this gives OK. */
static convoy_status enter(convoy_context *context, const cv_machine **machine, cv_caller *caller)
{
    if (!context)
        return cv_fail(CONVOY_INVALID, "context is NULL: expected one from convoy_context_create");
    *machine = &context->shared->machine;
    cv_caller_enter(caller, (*machine)->ops);
    const convoy_status status = (*machine)->ops->bind(*machine);
    if (status != CONVOY_OK)
        cv_caller_leave(caller);
    return status;
}

convoy_status convoy_memory_alloc(convoy_context *context, size_t bytes, void **memory)
{
    const cv_machine *m = NULL;
    cv_caller caller;
    if (!memory)
        return cv_fail(CONVOY_INVALID, "memory is NULL: expected a place for the pointer");
    *memory = NULL;
    convoy_status status = enter(context, &m, &caller);
    if (status != CONVOY_OK)
        return status;
    status = m->ops->alloc(m, bytes, memory);
    cv_caller_leave(&caller);
    return status;
}

void convoy_memory_free(convoy_context *context, void *memory)
{
    const cv_machine *m = NULL;
    cv_caller caller;
    if (!memory || enter(context, &m, &caller) != CONVOY_OK)
        return;
    m->ops->free(m, memory);
    cv_caller_leave(&caller);
}

convoy_status convoy_memory_copy(convoy_context *context, void *to, const void *from, size_t bytes, convoy_copy kind)
{
    const cv_machine *m = NULL;
    cv_caller caller;
    convoy_status status = enter(context, &m, &caller);
    if (status != CONVOY_OK)
        return status;
    if (bytes && (!to || !from))
        status = cv_fail(CONVOY_INVALID, "%s is NULL: expected %zu bytes", to ? "from" : "to", bytes);
    else
        status = m->ops->copy(m, to, from, bytes, kind, NULL);
    cv_caller_leave(&caller);
    return status;
}

convoy_status convoy_synchronize(convoy_context *context)
{
    const cv_machine *m = NULL;
    cv_caller caller;
    convoy_status status = enter(context, &m, &caller);
    if (status != CONVOY_OK)
        return status;
    status = m->ops->synchronize(m, NULL);
    cv_caller_leave(&caller);
    return status;
}

convoy_status convoy_measure_ceilings(convoy_context *context, double *flop_per_s, double *bytes_per_s)
{
    double flop = 0, bytes = 0;
    const cv_machine *m = NULL;
    cv_caller caller;
    convoy_status status = enter(context, &m, &caller);
    if (status == CONVOY_OK) {
        status = m->ops->ceilings(m, &flop, &bytes);
        cv_caller_leave(&caller);
    }
    if (flop_per_s)
        *flop_per_s = status == CONVOY_OK ? flop : 0;
    if (bytes_per_s)
        *bytes_per_s = status == CONVOY_OK ? bytes : 0;
    return status;
}

convoy_status convoy_measure(const convoy_plan *plan, double time_limit_s, convoy_timing *timing)
{
    if (!timing)
        return cv_fail(CONVOY_INVALID, "timing is NULL: expected room for a convoy_timing");
    memset(timing, 0, sizeof *timing);
    if (!plan)
        return cv_fail(CONVOY_INVALID, "plan is NULL: expected one from convoy_plan_create");
    if (!(time_limit_s >= 0))
        return cv_fail(CONVOY_INVALID, "time_limit_s is %g: expected 0 or more", time_limit_s);
    cv_caller caller;
    cv_caller_enter(&caller, plan->shared->machine.ops);
    convoy_status status = cv_tuner_table.measure(plan, time_limit_s, timing);
    cv_caller_leave(&caller);
    return status;
}

convoy_status convoy_reference(convoy_context *context, const convoy_problem *problem, const float *x, const float *w,
                               const float *bias, int64_t count, const int64_t *index, double *values, double *norms)
{
    int64_t P, Q;
    convoy_status status = convoy_problem_output(problem, &P, &Q);
    if (status != CONVOY_OK)
        return status;
    convoy_problem p = *problem;
    cv_problem_fill_strides(&p, P, Q);
    const int64_t outputs = p.n * p.k * P * Q;
    if (count < 0 || (count && (!index || !values)))
        return cv_fail(CONVOY_INVALID, "count is %lld: expected 0 or more, with index and values", (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= outputs)
            return cv_fail(CONVOY_INVALID, "index[%lld] is %lld: expected 0 to %lld", (long long)i, (long long)index[i],
                           (long long)outputs - 1);
    if (count && p.c && (!x || !w))
        return cv_fail(CONVOY_INVALID, "%s is NULL: expected a tensor", x ? "w" : "x");
    const cv_machine *m = NULL;
    cv_caller caller;
    status = enter(context, &m, &caller);
    if (status != CONVOY_OK)
        return status;
    status = count ? m->ops->reference(m, &p, x, w, bias, count, index, values, norms) : CONVOY_OK;
    cv_caller_leave(&caller);
    return status;
}
