/* convoy verify: every engine that accepts a problem against FP64, and exact ones bit for bit. */
#include "choices.h"
#include "problems.h"
#include "report.h"
#include "truth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify {
    struct cli_options *o;
    convoy_context *context;
    struct cli_case c;
    struct cli_truth truth;
    char how[200];
    float *exact; /* (N, K, P, Q) from the CPU's direct engine, made when it is first wanted */
    bool exact_tried;
    bool miss;
};

/* What the exact contract says, from the CPU's engine `direct`; NULL when that cannot be had. */
static const float *exact_tensor(struct verify *v)
{
    if (v->exact_tried)
        return v->exact;
    v->exact_tried = true;
    struct cli_options cpu = *v->o;
    convoy_plan_options options = {.math = CONVOY_MATH_EXACT, .engine = "direct", .bias = v->o->plan.bias};
    convoy_context *context = NULL;
    convoy_plan *plan = NULL;
    struct cli_case c = {0};
    cpu.device = CONVOY_CPU;
    cpu.isa = NULL;
    cpu.wisdom = "off";
    cpu.plan.prepared = 0;
    if (cli_context(&cpu, &context) == CLI_OK &&
        convoy_plan_create(context, &v->c.problem, &options, &plan) == CONVOY_OK &&
        case_open(context, &v->c.problem, v->c.text, &cpu, &c) == CLI_OK &&
        case_execute(&c, plan, NULL, NULL) == CONVOY_OK) {
        v->exact = c.y_host;
        c.y = c.y_host = NULL;
    }
    case_close(&c);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    return v->exact;
}

static void reproduce(const struct verify *v, const char *choice, char *text, size_t bytes)
{
    static const char *const math[] = {"", " --math exact", " --math match"};
    const struct cli_options *o = v->o;
    char extra[200] = "", part[96];
    if (o->plan.math == CONVOY_MATH_MATCH)
        snprintf(extra, sizeof extra, " --rtol %g --atol %g", o->plan.rtol, o->plan.atol);
    if (o->threads && snprintf(part, sizeof part, " --threads %d", o->threads) > 0)
        strcat(extra, part);
    if (o->isa && snprintf(part, sizeof part, " --isa %.20s", o->isa) > 0)
        strcat(extra, part);
    if (o->plan.workspace_limited &&
        snprintf(part, sizeof part, " --workspace-limit %zu", o->plan.workspace_limit_bytes) > 0)
        strcat(extra, part);
    snprintf(text, bytes, "convoy verify %s --engine %s --seed %llu --device %s%s%s%s%s", v->c.text, choice,
             (unsigned long long)o->seed, cli_device(v->context) == CONVOY_CUDA ? "cuda" : "cpu", math[o->plan.math],
             o->plan.prepared ? " --prepared" : "", o->plan.bias ? " --with-bias" : "", extra);
}

static void where(const struct verify *v, const struct cli_verdict *r, char *text, size_t bytes)
{
    text[0] = 0;
    if (!r->what) /* no outputs */
        return;
    const struct cli_place at = case_place(&v->c, r->where);
    if (strcmp(r->what, "projection over k") == 0)
        snprintf(text, bytes, "y[%lld,:,%lld,%lld]", (long long)at.n, (long long)at.p, (long long)at.q);
    else
        snprintf(text, bytes, "y[%lld,%lld,%lld,%lld]", (long long)at.n, (long long)at.k, (long long)at.p,
                 (long long)at.q);
}

static const char *bits_text(const struct cli_verdict *r)
{
    return r->bits == BITS_NOT_COMPARED ? "not compared" : r->bits == BITS_EQUAL ? "equal" : "differ";
}

static int print_json(const struct verify *v, const convoy_plan_info *info, const struct cli_verdict *r, const char *at,
                      const char *command)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "problem", v->c.text);
    cJSON_AddStringToObject(line, "engine", info->engine);
    cJSON_AddStringToObject(line, "candidate", info->candidate);
    cJSON_AddStringToObject(line, "device", info->device == CONVOY_CUDA ? "cuda" : "cpu");
    cJSON_AddBoolToObject(line, "ok", r->ok);
    json_real(line, "worst", r->worst);
    json_real(line, "bound", r->bound);
    cJSON_AddStringToObject(line, "where", at);
    cJSON_AddStringToObject(line, "what", r->what ? r->what : "nothing");
    json_real(line, "max_abs_err", r->max_abs_err);
    json_real(line, "rel_rms_err", r->rel_rms_err);
    cJSON_AddStringToObject(line, "bits", bits_text(r));
    cJSON_AddNumberToObject(line, "bits_chained", (double)r->chained);
    cJSON_AddBoolToObject(line, "all_outputs", v->truth.all);
    cJSON_AddNumberToObject(line, "checked", (double)r->checked);
    cJSON_AddStringToObject(line, "check", v->how);
    cJSON_AddStringToObject(line, "command", command);
    return json_line(line);
}

static int print(const struct verify *v, const convoy_plan_info *info, const struct cli_verdict *r)
{
    char at[100], name[128], command[512];
    where(v, r, at, sizeof at);
    cli_choice_name(info, name, sizeof name);
    reproduce(v, name, command, sizeof command);
    progress_clear();
    if (v->o->json)
        return print_json(v, info, r, at, command);
    printf("  %-24s %-4s", name, r->ok ? "ok" : "MISS");
    if (r->what)
        printf("  worst %.2e of %.2e allowed, %s %s; largest error %.2e, rms %.2e of y's", r->worst, r->bound, r->what,
               at, r->max_abs_err, r->rel_rms_err);
    else
        printf("  no outputs");
    if (r->bits != BITS_NOT_COMPARED)
        printf("; bits %s the exact chain%s", r->bits == BITS_EQUAL ? "equal" : "DIFFER from", "");
    if (r->bits == BITS_EQUAL && !v->exact)
        printf(" at %lld outputs", (long long)r->chained);
    putchar('\n');
    if (!r->ok)
        printf("    reproduce: %s\n", command);
    return cli_flush();
}

static int verify_one(struct verify *v, const char *choice)
{
    convoy_plan_options options = v->o->plan;
    convoy_plan *plan = NULL;
    convoy_plan_info info;
    struct cli_verdict r;
    options.engine = choice;
    convoy_status status = convoy_plan_create(v->context, &v->c.problem, &options, &plan);
    if (status == CONVOY_OK)
        status = convoy_plan_describe(plan, &info);
    if (status == CONVOY_OK)
        status = case_execute(&v->c, plan, NULL, NULL);
    int code = status == CONVOY_OK ? truth_compare(&v->c, &v->truth, &info, &options, true, &r)
                                   : cli_failed(v->c.text, status);
    if (code == CLI_OK && info.math == CONVOY_MATH_EXACT) {
        const bool oracle = info.device == CONVOY_CPU && strcmp(info.engine, "direct") == 0;
        truth_bits(&v->c, &v->truth, oracle ? NULL : exact_tensor(v), &r);
    } else if (code == CLI_OK && info.math == CONVOY_MATH_MATCH) {
        truth_match(&v->c, &v->truth, exact_tensor(v), options.rtol, options.atol, &r);
    }
    if (code == CLI_OK) {
        code = print(v, &info, &r);
        v->miss = v->miss || !r.ok;
    }
    convoy_plan_destroy(plan);
    return code;
}

static int verify_problem(struct verify *v, const struct cli_problem *p)
{
    struct cli_choices choices;
    const bool small = convoy_problem_flop(&p->problem) <= 2e9;
    int code = cli_choices(v->o, v->context, &p->problem, small, &choices);
    if (code != CLI_OK)
        return code;
    code = case_open(v->context, &p->problem, p->text, v->o, &v->c);
    if (code == CLI_OK) {
        progress_show(-1, 0, "%s: summing in FP64", p->text);
        code = truth_make(&v->c, v->o->seed, false, true, &v->truth);
    }
    if (code == CLI_OK) {
        truth_text(&v->c, &v->truth, v->how, sizeof v->how);
        progress_clear();
        if (!v->o->json)
            printf("%s: direct sum %.4g GFLOP; checking %s\n", p->text, 1e-9 * convoy_problem_flop(&p->problem),
                   v->how);
        for (int i = 0; i < choices.count && code == CLI_OK; i++) {
            progress_show(-1, 0, "%s: %s (%d of %d)", p->text, choices.list[i].name, i + 1, choices.count);
            code = verify_one(v, choices.list[i].name);
        }
        truth_free(&v->truth);
    }
    progress_clear();
    case_close(&v->c);
    free(v->exact);
    v->exact = NULL;
    v->exact_tried = false;
    free(choices.list);
    return code;
}

int cli_verify(struct cli_options *o)
{
    struct cli_problems problems;
    struct verify v = {.o = o};
    int code = cli_problems(o, &problems);
    if (code == CLI_OK)
        code = cli_context(o, &v.context);
    for (int i = 0; i < problems.count && code == CLI_OK; i++)
        code = verify_problem(&v, &problems.list[i]);
    convoy_context_destroy(v.context);
    free(problems.list);
    return code == CLI_OK && v.miss ? CLI_MISS : code;
}
