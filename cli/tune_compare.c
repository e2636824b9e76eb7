/* convoy tune --compare: how good is the cost model? Every choice of every engine is timed briefly; then the quickest
 * few and the model's own choice again, taking turns, so that a drifting machine treats them alike. What the model
 * predicts at more than ten times the best time seen is passed over, and counted. */
#include "report.h"
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, FINALISTS = 4, ROUNDS = 3 };
static const double passed_over = 10, brief_s = 0.03, round_s = 0.1;

struct entry {
    char name[128];
    double predicted_s, seconds;
};

struct field {
    struct entry list[MOST];
    int count;
};

static void add(void *user, const convoy_candidate *c)
{
    struct field *f = user;
    if (f->count == MOST)
        return;
    struct entry *e = &f->list[f->count++];
    snprintf(e->name, sizeof e->name, *c->candidate ? "%s:%s" : "%s", c->engine, c->candidate);
    e->predicted_s = c->predicted_s;
    e->seconds = 0;
}

static int time_one(const struct cli_options *o, convoy_context *context, const convoy_problem *problem,
                    const char *name, double limit_s, double *seconds)
{
    convoy_plan_options options = o->plan;
    convoy_plan *plan = NULL;
    convoy_timing timing = {0};
    options.engine = name;
    convoy_status status = convoy_plan_create(context, problem, &options, &plan);
    if (status == CONVOY_OK)
        status = convoy_measure(plan, limit_s, &timing);
    convoy_plan_destroy(plan);
    *seconds = timing.median_s;
    return status == CONVOY_OK ? CLI_OK : cli_failed(name, status);
}

static int by_time(const void *a, const void *b)
{
    const double x = (*(const struct entry *const *)a)->seconds, y = (*(const struct entry *const *)b)->seconds;
    return (x > y) - (x < y);
}

/* Brief times of all; fills order with those that were timed, the quickest first, and returns their number, or -1. */
static int first_pass(const struct cli_options *o, convoy_context *context, const struct cli_problem *p,
                      struct field *f, struct entry **order)
{
    double best = 1e30;
    int timed = 0;
    for (int i = 0; i < f->count; i++) {
        struct entry *e = &f->list[i];
        if (i > 0 && e->predicted_s > passed_over * best)
            continue;
        progress_show((double)i / f->count, 0, "%s: %s", p->text, e->name);
        if (time_one(o, context, &p->problem, e->name, brief_s, &e->seconds) != CLI_OK)
            return -1;
        best = e->seconds < best ? e->seconds : best;
        order[timed++] = e;
    }
    qsort(order, (size_t)timed, sizeof *order, by_time);
    return timed;
}

/* The best of the rounds' medians for the finalists and for the model's choice, which is the list's first. */
static int final_pass(const struct cli_options *o, convoy_context *context, const struct cli_problem *p,
                      struct field *f, struct entry **order, int finalists)
{
    double best[FINALISTS + 1];
    struct entry *runner[FINALISTS + 1] = {&f->list[0]};
    int count = 1;
    for (int i = 0; i < finalists; i++)
        if (order[i] != runner[0])
            runner[count++] = order[i];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            double seconds;
            if (time_one(o, context, &p->problem, runner[i]->name, round_s, &seconds) != CLI_OK)
                return CLI_BAD;
            best[i] = round == 0 || seconds < best[i] ? seconds : best[i];
        }
    for (int i = 0; i < count; i++)
        runner[i]->seconds = best[i];
    qsort(runner, (size_t)count, sizeof *runner, by_time);
    order[0] = runner[0];
    return CLI_OK;
}

/* All that was timed: what a change of the cost model can be judged by without timing again. */
static void list_timed(cJSON *line, const struct field *f)
{
    cJSON *all = cJSON_AddArrayToObject(line, "all");
    for (int i = 0; i < f->count; i++) {
        const struct entry *e = &f->list[i];
        if (e->seconds <= 0)
            continue;
        cJSON *one = cJSON_CreateObject();
        cJSON_AddStringToObject(one, "choice", e->name);
        json_real(one, "predicted_ms", 1e3 * e->predicted_s);
        json_real(one, "ms", 1e3 * e->seconds);
        cJSON_AddItemToArray(all, one);
    }
}

static int print(const struct cli_options *o, const struct cli_problem *p, const struct field *f,
                 const struct entry *best, int timed)
{
    const struct entry *own = &f->list[0];
    const double ratio = own->seconds / best->seconds;
    progress_clear();
    if (!o->json) {
        printf("%-34s %-26s %10s  %-26s %10s  %5.2f  %3d of %d\n", p->text, own->name, cli_ms(own->seconds).s,
               best->name, cli_ms(best->seconds).s, ratio, timed, f->count);
        return cli_flush();
    }
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "problem", p->text);
    cJSON_AddStringToObject(line, "estimate_choice", own->name);
    json_real(line, "estimate_predicted_ms", 1e3 * own->predicted_s);
    json_real(line, "estimate_ms", 1e3 * own->seconds);
    cJSON_AddStringToObject(line, "best_choice", best->name);
    json_real(line, "best_ms", 1e3 * best->seconds);
    json_real(line, "best_predicted_ms", 1e3 * best->predicted_s);
    json_real(line, "ratio", ratio);
    cJSON_AddNumberToObject(line, "timed", timed);
    cJSON_AddNumberToObject(line, "choices", f->count);
    list_timed(line, f);
    return json_line(line);
}

static int compare_one(const struct cli_options *o, convoy_context *context, const struct cli_problem *p, double *ratio)
{
    struct field *f = calloc(1, sizeof *f);
    struct entry **order = calloc(MOST, sizeof *order);
    int code = f && order ? CLI_OK : cli_error("out of memory: a list of tuning choices"), timed = 0;
    if (code == CLI_OK) {
        const convoy_status status = convoy_candidates(context, &p->problem, &o->plan, add, f);
        code = status == CONVOY_OK ? CLI_OK : cli_failed(p->text, status);
    }
    if (code == CLI_OK && (timed = first_pass(o, context, p, f, order)) < 0)
        code = CLI_BAD;
    if (code == CLI_OK)
        code = final_pass(o, context, p, f, order, timed < FINALISTS ? timed : FINALISTS);
    if (code == CLI_OK) {
        *ratio = f->list[0].seconds / order[0]->seconds;
        code = print(o, p, f, order[0], timed);
    }
    free(order);
    free(f);
    return code;
}

int tune_compare(const struct cli_options *o, convoy_context *context, const struct cli_problems *problems)
{
    int code = CLI_OK, close = 0;
    double worst = 0;
    if (!o->json)
        printf("%-34s %-26s %10s  %-26s %10s  %5s  %s\n", "problem", "the cost model takes", "time", "the quickest",
               "time", "ratio", "timed");
    for (int i = 0; i < problems->count && code == CLI_OK; i++) {
        double ratio = 0;
        code = compare_one(o, context, &problems->list[i], &ratio);
        close += ratio <= 1.3;
        worst = ratio > worst ? ratio : worst;
    }
    progress_clear();
    if (code == CLI_OK && !o->json)
        printf("within 1.3 of the quickest: %d of %d problems; worst ratio %.2f\n", close, problems->count, worst);
    return code;
}
