/* convoy tune: time the best few choices for each problem, and remember. */
#include "problems.h"
#include "report.h"
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tune {
    const struct cli_options *o;
    const char *problem;
    int index, count;
    double from_s, budget_s;
};

static int show(void *user, double done, double seconds_left, const char *what)
{
    const struct tune *t = user;
    const double whole = (t->index + done) / t->count, spent = cli_now_s() - t->from_s;
    const double by_pace = whole > 0 ? spent / whole * (1 - whole) : t->budget_s,
                 by_budget = fmax(0, t->budget_s - spent);
    const double left = t->count - t->index > 1 ? fmin(by_pace, by_budget) : fmin(seconds_left, by_budget);
    progress_show(whole, left, "%s: %s", t->problem, what);
    return 0;
}

static int print(const struct tune *t, const convoy_plan_info *info)
{
    static const char *const source[] = {"estimated", "known", "timed"}, *const math[] = {"fp32", "exact", "match"};
    progress_clear();
    if (!t->o->json) {
        printf("%-34s %s%s%s  %s  %s\n", t->problem, info->engine, *info->candidate ? ":" : "", info->candidate,
               info->measured_s > 0 ? cli_ms(info->measured_s).s : "no time", source[info->source]);
        return cli_flush();
    }
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "problem", t->problem);
    cJSON_AddStringToObject(line, "engine", info->engine);
    cJSON_AddStringToObject(line, "candidate", info->candidate);
    cJSON_AddStringToObject(line, "math", math[info->math]);
    cJSON_AddStringToObject(line, "weights", t->o->plan.prepared ? "prepared" : "fresh");
    cJSON_AddStringToObject(line, "device", info->device == CONVOY_CUDA ? "cuda" : "cpu");
    cJSON_AddNumberToObject(line, "threads", info->threads);
    json_real(line, "median_ms", 1e3 * info->measured_s);
    json_real(line, "spread_ms", 1e3 * info->spread_s);
    json_real(line, "predicted_ms", 1e3 * info->predicted_s);
    cJSON_AddStringToObject(line, "source", source[info->source]);
    return json_line(line);
}

static int tune_problem(struct tune *t, convoy_context *context, const convoy_problem *problem)
{
    convoy_plan_options options = t->o->plan;
    convoy_plan *plan = NULL;
    convoy_plan_info info;
    options.effort = CONVOY_MEASURE;
    options.progress = show;
    options.progress_user = t;
    options.time_limit_s = fmax(0.01, (t->budget_s - (cli_now_s() - t->from_s)) / (t->count - t->index));
    convoy_status status = convoy_plan_create(context, problem, &options, &plan);
    if (status == CONVOY_OK)
        status = convoy_plan_describe(plan, &info);
    const int code = status == CONVOY_OK ? print(t, &info) : cli_failed(t->problem, status);
    convoy_plan_destroy(plan);
    return code;
}

int cli_tune(struct cli_options *o)
{
    char text[4096];
    struct cli_problems problems;
    convoy_context *context = NULL;
    const char *path = cli_wisdom_path(o, text, sizeof text);
    if (o->compare)
        o->wisdom = "off"; /* the cost model alone is what is compared */
    else if (!path)
        return cli_error("wisdom is off, so nothing would be remembered: expected --wisdom FILE, CONVOY_WISDOM, "
                         "XDG_CACHE_HOME or HOME");
    else if (o->plan.engine)
        return cli_error(
            "--engine is '%.100s': expected none, as wisdom remembers the best of all (--exclude leaves engines out)",
            o->plan.engine);
    else if (cli_make_folder(path) != CLI_OK)
        return CLI_BAD;
    int code = cli_problems(o, &problems);
    if (code == CLI_OK)
        code = cli_context(o, &context);
    struct tune t = {.o = o,
                     .count = problems.count,
                     .from_s = cli_now_s(),
                     .budget_s = o->budget_s > 0 ? o->budget_s : 10.0 * problems.count};
    if (code == CLI_OK && o->compare)
        code = tune_compare(o, context, &problems);
    else
        for (; t.index < t.count && code == CLI_OK; t.index++) {
            t.problem = problems.list[t.index].text;
            code = tune_problem(&t, context, &problems.list[t.index].problem);
        }
    progress_clear();
    convoy_context_destroy(context);
    free(problems.list);
    return code;
}
