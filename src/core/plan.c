/* Plans: choosing, making, describing, explaining. */
#include "services.h"

#include <stdio.h>
#include <string.h>

static const convoy_plan_options default_options;

convoy_status cv_plan_make(convoy_context *context, const cv_request *request, const cv_choice *choice,
                           convoy_plan **out)
{
    cv_machine *m = &context->shared->machine;
    *out = NULL;
    convoy_plan *plan = cv_alloc(&m->memory, sizeof *plan);
    if (!plan)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan");
    memset(plan, 0, sizeof *plan);
    plan->shared = context->shared;
    atomic_fetch_add(&plan->shared->references, 1);
    plan->request = *request;
    plan->choice = *choice;
    plan->composed = cv_composed(request, choice->engine);
    snprintf(plan->name, sizeof plan->name, "%s%s", choice->engine->name, plan->composed ? "+chain" : "");
    plan->empty = cv_request_is_empty(request);
    convoy_status status = CONVOY_OK;
    if (!plan->empty) {
        cv_candidate_print(choice->engine, &choice->candidate, plan->candidate);
        status = m->ops->bind(m);
        if (status == CONVOY_OK)
            status = plan->composed ? cv_match_table.create(request, choice->engine, &choice->candidate, &plan->state,
                                                            &plan->needs)
                                    : choice->engine->create(request, &choice->candidate, &plan->state, &plan->needs);
        if (status == CONVOY_OK && plan->needs.workspace_bytes > request->workspace_limit)
            status =
                cv_fail(CONVOY_INTERNAL, "engine %s, candidate '%s' needs %zu bytes of workspace: expected at most %zu",
                        choice->engine->name, plan->candidate, plan->needs.workspace_bytes, request->workspace_limit);
    }
    if (status == CONVOY_OK)
        *out = plan;
    else
        convoy_plan_destroy(plan);
    return status;
}

/* Wisdom, then timing if asked for, then the estimate. The list holds the ranked choices. */
static convoy_status choose(convoy_context *context, const cv_request *q, const convoy_plan_options *o,
                            const cv_choice *list, int count, cv_choice *choice)
{
    if (cv_request_is_empty(q)) {
        *choice = list[0];
        return CONVOY_OK;
    }
    if (context->wisdom && !o->weights &&
        cv_tuner_table.wisdom_lookup(context, context->wisdom, q, o, list, count, choice))
        return CONVOY_OK;
    if (o->effort == CONVOY_MEASURE)
        return cv_tuner_table.search(context, q, o, list, count, choice);
    *choice = list[0];
    return CONVOY_OK;
}

static convoy_status pick(convoy_context *context, const cv_request *q, const convoy_plan_options *o, cv_choice *choice)
{
    convoy_status status;
    const size_t bytes = sizeof(cv_choice) * CV_CANDIDATES;
    cv_choice *list = cv_alloc(&q->machine->memory, bytes);
    if (!list)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: %zu bytes for the ranking", bytes);
    char reason[CV_REASON_BYTES];
    int count = cv_rank(q, o, list, CV_CANDIDATES, reason);
    if (count == 0) {
        char text[128];
        convoy_problem_print(&q->asked, text, sizeof text);
        status = cv_fail(CONVOY_UNSUPPORTED, "no engine accepts %s: %s", text, reason);
    } else {
        status = choose(context, q, o, list, count, choice);
    }
    cv_free(&q->machine->memory, list);
    return status;
}

convoy_status convoy_plan_create(convoy_context *context, const convoy_problem *problem,
                                 const convoy_plan_options *options, convoy_plan **plan)
{
    if (!plan)
        return cv_fail(CONVOY_INVALID, "plan is NULL: expected a place for the handle");
    *plan = NULL;
    if (!context)
        return cv_fail(CONVOY_INVALID, "context is NULL: expected one from convoy_context_create");
    cv_request request;
    cv_choice choice;
    cv_caller caller; /* so that neither the choice nor an engine's tables depend on the caller's mode */
    cv_caller_enter(&caller, context->shared->machine.ops);
    const convoy_plan_options *o = options ? options : &default_options;
    convoy_status status = cv_request_make(context, problem, o, &request);
    if (status == CONVOY_OK)
        status = pick(context, &request, o, &choice);
    if (status == CONVOY_OK)
        status = cv_plan_make(context, &request, &choice, plan);
    cv_caller_leave(&caller);
    return status;
}

void convoy_plan_destroy(convoy_plan *plan)
{
    if (!plan)
        return;
    convoy_allocator memory = plan->shared->machine.memory;
    if (plan->state) {
        cv_caller caller;
        cv_caller_enter(&caller, plan->shared->machine.ops);
        /* a process that the device does not serve, a child after fork, leaves alone what was made in its parent */
        if (plan->shared->machine.ops->bind(&plan->shared->machine) != CONVOY_UNSUPPORTED)
            (plan->composed ? cv_match_table.destroy : plan->choice.engine->destroy)(plan->state);
        cv_caller_leave(&caller);
    }
    cv_shared_release(plan->shared);
    cv_free(&memory, plan);
}

/* Room to align whatever address the caller gives. */
size_t convoy_plan_workspace_bytes(const convoy_plan *plan)
{
    return plan && plan->needs.workspace_bytes ? plan->needs.workspace_bytes + cv_align_bytes(&plan->shared->machine)
                                               : 0;
}

convoy_status convoy_plan_describe(const convoy_plan *plan, convoy_plan_info *info)
{
    if (!info)
        return cv_fail(CONVOY_INVALID, "info is NULL: expected room for a convoy_plan_info");
    memset(info, 0, sizeof *info);
    if (!plan)
        return cv_fail(CONVOY_INVALID, "plan is NULL: expected one from convoy_plan_create");
    const cv_engine *e = plan->choice.engine;
    info->problem = plan->request.asked;
    info->engine = plan->name;
    info->engine_revision = e->revision;
    info->candidate = plan->candidate;
    info->math = e->traits & CV_KEEPS_EXACT ? CONVOY_MATH_EXACT : plan->request.math;
    info->device = e->device;
    info->source = plan->choice.source;
    info->predicted_s = plan->choice.predicted_s;
    info->measured_s = plan->choice.measured_s;
    info->spread_s = plan->choice.spread_s;
    info->workspace_bytes = convoy_plan_workspace_bytes(plan);
    info->threads = plan->shared->machine.threads;
    info->deterministic = !(e->traits & CV_UNSTABLE_BITS);
    info->error_bound_kind = plan->needs.bound_kind;
    info->error_bound_factor = plan->needs.bound_factor;
    info->tile_h = plan->needs.tile_h;
    info->tile_w = plan->needs.tile_w;
    return CONVOY_OK;
}

/* Replaces an engine's best candidate by the one that was measured to be its best, with what that came to. */
static void recall(convoy_context *context, const cv_engine *e, const cv_request *q, const convoy_plan_options *o,
                   cv_choice *best)
{
    cv_choice known = {.engine = e};
    if (!context->wisdom || cv_request_is_empty(q) ||
        !cv_tuner_table.wisdom_engine(context, context->wisdom, q, o, e, &known))
        return;
    const int fixed = o->weights || (o->engine && strchr(o->engine, ':'));
    if (fixed && memcmp(&known.candidate, &best->candidate, sizeof known.candidate) != 0)
        return;
    known.predicted_s = cv_composed(q, e) ? cv_match_table.estimate(q, e, &known.candidate, &known.workspace_bytes)
                                          : e->estimate(q, &known.candidate, &known.workspace_bytes);
    if (known.workspace_bytes <= q->workspace_limit)
        *best = known;
}

/* chosen is NULL where no plan can be made. */
static void explain_one(convoy_context *context, const cv_engine *e, const cv_request *q, const convoy_plan_options *o,
                        const cv_choice *chosen, convoy_explanation *line, char words[CV_REASON_BYTES],
                        char text[CV_CANDIDATE_TEXT])
{
    cv_choice best = {0};
    int count = 0;
    memset(line, 0, sizeof *line);
    line->engine = e->name;
    line->candidate = "";
    line->reason = cv_rank_engine(e, q, o, &best, &count, 1, words);
    if (line->reason)
        return;
    line->chosen = chosen && chosen->engine == e;
    if (line->chosen)
        best = *chosen;
    else
        recall(context, e, q, o, &best);
    line->accepted = 1;
    if (!cv_request_is_empty(q)) {
        cv_candidate_print(e, &best.candidate, text);
        line->candidate = text;
    }
    line->predicted_s = best.predicted_s;
    line->workspace_bytes = best.workspace_bytes;
    line->measured_s = best.measured_s;
}

static convoy_status explain(convoy_context *context, const convoy_problem *problem, const convoy_plan_options *o,
                             void (*each)(void *user, const convoy_explanation *line), void *user)
{
    cv_request q;
    cv_choice choice;
    char words[CV_REASON_BYTES], text[CV_CANDIDATE_TEXT];
    convoy_status status = cv_request_make(context, problem, o, &q);
    if (status != CONVOY_OK)
        return status;
    status = pick(context, &q, o, &choice);
    if (status != CONVOY_OK && status != CONVOY_UNSUPPORTED)
        return status;
    const size_t named = o->engine ? strcspn(o->engine, ":") : 0;
    const cv_engine *asked = o->engine ? cv_engine_find(o->engine, named) : NULL;
    for (const cv_engine *const *e = cv_engines; *e; e++) {
        convoy_explanation line;
        if ((*e)->device != q.machine->device && *e != asked)
            continue;
        explain_one(context, *e, &q, o, status == CONVOY_OK ? &choice : NULL, &line, words, text);
        each(user, &line);
    }
    return status;
}

convoy_status convoy_explain(convoy_context *context, const convoy_problem *problem, const convoy_plan_options *options,
                             void (*each)(void *user, const convoy_explanation *line), void *user)
{
    convoy_plan_options o = options ? *options : default_options;
    o.effort = CONVOY_ESTIMATE;
    if (!context || !each)
        return cv_fail(CONVOY_INVALID, "%s is NULL: expected %s", context ? "each" : "context",
                       context ? "a function" : "one from convoy_context_create");
    cv_caller caller;
    cv_caller_enter(&caller, context->shared->machine.ops);
    convoy_status status = explain(context, problem, &o, each, user);
    cv_caller_leave(&caller);
    return status;
}

static convoy_status list_candidates(convoy_context *context, const convoy_problem *problem,
                                     const convoy_plan_options *o,
                                     void (*each)(void *user, const convoy_candidate *candidate), void *user)
{
    cv_request q;
    convoy_status status = cv_request_make(context, problem, o, &q);
    if (status != CONVOY_OK)
        return status;
    cv_choice *list = cv_alloc(&q.machine->memory, sizeof(cv_choice) * CV_CANDIDATES);
    if (!list)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: the ranking");
    char words[CV_REASON_BYTES], text[CV_CANDIDATE_TEXT];
    const int count = cv_rank(&q, o, list, CV_CANDIDATES, words);
    if (count == 0)
        status = cv_fail(CONVOY_UNSUPPORTED, "no engine accepts the problem: %s", words);
    for (int i = 0; i < count; i++) {
        *text = 0; /* an empty problem is core's own work: there is no choice to name */
        if (!cv_request_is_empty(&q))
            cv_candidate_print(list[i].engine, &list[i].candidate, text);
        const convoy_candidate line = {list[i].engine->name, text, list[i].predicted_s, list[i].workspace_bytes};
        each(user, &line);
    }
    cv_free(&q.machine->memory, list);
    return status;
}

convoy_status convoy_candidates(convoy_context *context, const convoy_problem *problem,
                                const convoy_plan_options *options,
                                void (*each)(void *user, const convoy_candidate *candidate), void *user)
{
    if (!context || !each)
        return cv_fail(CONVOY_INVALID, "%s is NULL: expected %s", context ? "each" : "context",
                       context ? "a function" : "one from convoy_context_create");
    cv_caller caller;
    cv_caller_enter(&caller, context->shared->machine.ops);
    convoy_status status = list_candidates(context, problem, options ? options : &default_options, each, user);
    cv_caller_leave(&caller);
    return status;
}
