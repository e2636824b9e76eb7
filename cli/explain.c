/* convoy explain: one line an engine. */
#include "problems.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lines {
    const char *problem;
    bool json, begun;
    int code;
};

static void print_json(struct lines *to, const convoy_explanation *e)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "problem", to->problem);
    cJSON_AddStringToObject(line, "engine", e->engine);
    cJSON_AddStringToObject(line, "candidate", e->candidate);
    cJSON_AddStringToObject(line, "verdict", !e->accepted ? "declined" : e->chosen ? "chosen" : "slower");
    if (e->accepted) {
        json_real(line, "predicted_ms", 1e3 * e->predicted_s);
        if (e->measured_s > 0)
            json_real(line, "measured_ms", 1e3 * e->measured_s);
        cJSON_AddNumberToObject(line, "workspace_bytes", (double)e->workspace_bytes);
    } else {
        cJSON_AddStringToObject(line, "reason", e->reason);
    }
    to->code = json_line(line);
}

static void print_line(void *user, const convoy_explanation *e)
{
    struct lines *to = user;
    if (to->code != CLI_OK)
        return;
    if (to->json) {
        print_json(to, e);
        return;
    }
    if (!to->begun)
        printf("%s\n", to->problem);
    to->begun = true;
    if (!e->accepted) {
        printf("  %-11s declined because %s\n", e->engine, e->reason);
    } else {
        const bool measured = e->measured_s > 0;
        printf("  %-11s %-8s %11s %s  workspace %s%s%s\n", e->engine, e->chosen ? "chosen" : "slower",
               cli_ms(measured ? e->measured_s : e->predicted_s).s, measured ? "measured " : "estimated",
               cli_bytes((double)e->workspace_bytes).s, *e->candidate ? "  " : "", e->candidate);
    }
    to->code = cli_flush();
}

int cli_explain(struct cli_options *o)
{
    struct cli_problems problems;
    convoy_context *context = NULL;
    int code = cli_problems(o, &problems);
    if (code == CLI_OK)
        code = cli_context(o, &context);
    for (int i = 0; i < problems.count && code == CLI_OK; i++) {
        struct lines lines = {problems.list[i].text, o->json, false, CLI_OK};
        const convoy_status status = convoy_explain(context, &problems.list[i].problem, &o->plan, print_line, &lines);
        code = lines.code;
        if (code == CLI_OK && status != CONVOY_OK &&
            status != CONVOY_UNSUPPORTED) /* that no engine accepts is an answer, too */
            code = cli_failed(problems.list[i].text, status);
    }
    convoy_context_destroy(context);
    free(problems.list);
    return code;
}
