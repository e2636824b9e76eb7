#include "choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gather {
    struct cli_choices *choices;
    bool every, failed;
};

static void add(void *user, const convoy_candidate *candidate)
{
    struct gather *g = user;
    struct cli_choices *all = g->choices;
    if (g->failed || (!g->every && all->count > 0 && strcmp(candidate->engine, all->list[all->count - 1].name) == 0))
        return;
    struct cli_choice *larger = realloc(all->list, sizeof *larger * (size_t)(all->count + 1));
    if (!larger) {
        g->failed = true;
        return;
    }
    all->list = larger;
    struct cli_choice *c = &all->list[all->count++];
    c->predicted_s = candidate->predicted_s;
    snprintf(c->name, sizeof c->name, g->every && *candidate->candidate ? "%s:%s" : "%s", candidate->engine,
             candidate->candidate);
}

/* `ref` is the oracle and the last resort: where nothing else accepts the problem it is tried, else like those that
 * want a name. */
static bool wants_name(const convoy_engine_info *e) { return e->by_name_only || strcmp(e->name, "ref") == 0; }

static int gather_all(const struct cli_options *o, convoy_context *context, const convoy_problem *problem,
                      bool with_named, struct cli_choices *choices, char last[512])
{
    convoy_plan_options plan = o->plan;
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)); i++) {
        struct gather g = {choices, o->sweep, false};
        if (!o->plan.engine && (e->device != cli_device(context) || (wants_name(e) && !with_named)))
            continue;
        plan.engine = o->plan.engine ? o->plan.engine : e->name;
        const convoy_status status = convoy_candidates(context, problem, &plan, add, &g);
        if (g.failed || (status != CONVOY_OK && status != CONVOY_UNSUPPORTED))
            return g.failed ? cli_error("out of memory: a list of tuning choices") : cli_failed(NULL, status);
        if (status != CONVOY_OK)
            snprintf(last, 512, "%s", convoy_last_message());
        if (o->plan.engine)
            break;
    }
    return CLI_OK;
}

int cli_choices(const struct cli_options *o, convoy_context *context, const convoy_problem *problem, bool with_named,
                struct cli_choices *choices)
{
    char last[512] = "this build has no engine for the device";
    *choices = (struct cli_choices){0};
    int code = gather_all(o, context, problem, with_named, choices, last);
    if (code == CLI_OK && choices->count == 0 && !with_named && !o->plan.engine)
        code = gather_all(o, context, problem, true, choices, last);
    if (code == CLI_OK && choices->count == 0)
        code = cli_error("%s", last);
    if (code == CLI_OK && o->plan.engine && !o->sweep) /* the candidate that was named with it */
        snprintf(choices->list[0].name, sizeof choices->list[0].name, "%s", o->plan.engine);
    if (code == CLI_OK)
        return CLI_OK;
    free(choices->list);
    *choices = (struct cli_choices){0};
    return code;
}

void cli_choice_name(const convoy_plan_info *info, char *name, size_t bytes)
{
    snprintf(name, bytes, *info->candidate ? "%.*s:%s" : "%.*s", (int)strcspn(info->engine, "+"), info->engine,
             info->candidate);
}
