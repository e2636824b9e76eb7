/* convoy tune --compare: how good is the cost model, and how good is what tune finds? Choices of every engine are timed
 * briefly; then the quickest few, the model's own choice and tune's again, taking turns, so that a drifting machine
 * treats them alike. What the model predicts at more than ten times the best time seen is passed over, and counted.
 *
 * With a budget each problem has its share of what is left: every engine's best choice by the model, then every
 * engine's second, and so on while the share lasts. */
#include "report.h"
#include "tune.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, FINALISTS = 4, RUNNERS = FINALISTS + 2, ROUNDS = 3 };
static const double passed_over = 10, brief_s = 0.03, round_s = 0.1;
/* Of a problem's share of the budget: brief times; tune; one of a finalist's three turns. */
static const double brief_share = 0.5, tune_share = 0.25, round_share = 0.25 / (RUNNERS * ROUNDS);

struct entry {
    char name[128];
    int place; /* among its engine's choices */
    double predicted_s, seconds;
};

struct field {
    struct entry list[MOST];
    int count;
    double share_s;                       /* of the budget; 0: there is none */
    const struct entry *tuned, *quickest; /* what tune finds; the best of all */
};

static void add(void *user, const convoy_candidate *c)
{
    struct field *f = user;
    if (f->count == MOST)
        return;
    struct entry *e = &f->list[f->count++];
    snprintf(e->name, sizeof e->name, *c->candidate ? "%s:%s" : "%s", c->engine, c->candidate);
    const size_t engine = strlen(c->engine);
    for (int i = 0; i < f->count - 1; i++)
        e->place += strncmp(f->list[i].name, c->engine, engine) == 0 && strchr(":", f->list[i].name[engine]);
    e->predicted_s = c->predicted_s;
}

static convoy_status time_one(const struct cli_options *o, convoy_context *context, const convoy_problem *problem,
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
    return status;
}

static int by_time(const void *a, const void *b)
{
    const double x = (*(const struct entry *const *)a)->seconds, y = (*(const struct entry *const *)b)->seconds;
    return (x > y) - (x < y);
}

static int by_place(const void *a, const void *b)
{
    const struct entry *x = *(const struct entry *const *)a, *y = *(const struct entry *const *)b;
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place) : (x > y) - (x < y);
}

/* Brief times; fills order with those that were timed, the quickest first, and returns their number, or -1. */
static int first_pass(const struct cli_options *o, convoy_context *context, const struct cli_problem *p,
                      struct field *f, struct entry **order)
{
    const double from = cli_now_s(), limit_s = f->share_s > 0 ? fmin(brief_s, 0.01 * f->share_s) : brief_s;
    double best = 1e30;
    int timed = 0;
    for (int i = 0; i < f->count; i++)
        order[i] = &f->list[i];
    if (f->share_s > 0)
        qsort(order, (size_t)f->count, sizeof *order, by_place);
    for (int i = 0; i < f->count; i++) {
        struct entry *e = order[i];
        const int own = e == &f->list[0];
        if (f->share_s > 0 && e->place > 0 && cli_now_s() - from > brief_share * f->share_s)
            break;
        if (!own && e->predicted_s > passed_over * best)
            continue;
        progress_show((double)i / f->count, 0, "%s: %s", p->text, e->name);
        const convoy_status status = time_one(o, context, &p->problem, e->name, limit_s, &e->seconds);
        if (status != CONVOY_OK && own)
            return cli_failed(e->name, status), -1;
        if (status != CONVOY_OK) { /* as tune does with what does not fit into memory now */
            cli_warning("%s: %s is passed over: %s", p->text, e->name, convoy_last_message());
            e->seconds = 0;
            continue;
        }
        best = e->seconds < best ? e->seconds : best;
        order[timed++] = e;
    }
    qsort(order, (size_t)timed, sizeof *order, by_time);
    return timed;
}

/* Which entry tune would take. */
static int find_tuned(const struct cli_options *o, convoy_context *context, const struct cli_problem *p,
                      struct field *f)
{
    convoy_plan_options options = o->plan;
    convoy_plan *plan = NULL;
    convoy_plan_info info;
    char name[sizeof f->list[0].name];
    options.effort = CONVOY_MEASURE;
    options.time_limit_s = tune_share * f->share_s; /* 0: the library's own limit */
    progress_show(1, 0, "%s: tune", p->text);
    convoy_status status = convoy_plan_create(context, &p->problem, &options, &plan);
    if (status == CONVOY_OK)
        status = convoy_plan_describe(plan, &info);
    if (status == CONVOY_OK) /* its strings live as long as the plan */
        snprintf(name, sizeof name, *info.candidate ? "%s:%s" : "%s", info.engine, info.candidate);
    convoy_plan_destroy(plan);
    if (status != CONVOY_OK)
        return cli_failed(p->text, status);
    for (int i = 0; i < f->count; i++)
        if (strcmp(f->list[i].name, name) == 0)
            f->tuned = &f->list[i];
    return f->tuned ? CLI_OK : cli_error("%s: tune took %s, which is not among the choices", p->text, name);
}

static void enlist(struct entry **runner, int *count, const struct entry *e)
{
    for (int i = 0; i < *count; i++)
        if (runner[i] == e)
            return;
    runner[(*count)++] = (struct entry *)e;
}

/* The best of the rounds' medians for the finalists, the model's choice, which is the list's first, and tune's. */
static int final_pass(const struct cli_options *o, convoy_context *context, const struct cli_problem *p,
                      struct field *f, struct entry **order, int finalists)
{
    const double limit_s = f->share_s > 0 ? fmin(round_s, round_share * f->share_s) : round_s;
    double best[RUNNERS];
    struct entry *runner[RUNNERS] = {&f->list[0]};
    int count = 1;
    enlist(runner, &count, f->tuned);
    for (int i = 0; i < finalists; i++)
        enlist(runner, &count, order[i]);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            double seconds;
            const convoy_status status = time_one(o, context, &p->problem, runner[i]->name, limit_s, &seconds);
            if (status != CONVOY_OK)
                return cli_failed(runner[i]->name, status);
            best[i] = round == 0 || seconds < best[i] ? seconds : best[i];
        }
    for (int i = 0; i < count; i++)
        runner[i]->seconds = best[i];
    qsort(runner, (size_t)count, sizeof *runner, by_time);
    f->quickest = runner[0];
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

static void table_head(void)
{
    printf("%-34s %-26s %10s  %-26s %10s  %5s  %-26s %5s  %s\n", "problem", "the cost model takes", "time",
           "the quickest", "time", "ratio", "tune takes", "ratio", "timed");
}

static double ratio_of(const struct entry *e, const struct entry *quickest) /* 1 where nothing takes no time at all */
{
    return quickest->seconds > 0 ? e->seconds / quickest->seconds : 1.0;
}

static int print(const struct cli_options *o, const struct cli_problem *p, const struct field *f, int timed)
{
    const struct entry *own = &f->list[0], *best = f->quickest, *tuned = f->tuned;
    const double ratio = ratio_of(own, best), tuned_ratio = ratio_of(tuned, best);
    progress_clear();
    if (!o->json) {
        printf("%-34s %-26s %10s  %-26s %10s  %5.2f  %-26s %5.2f  %3d of %d\n", p->text, own->name,
               cli_ms(own->seconds).s, best->name, cli_ms(best->seconds).s, ratio, tuned->name, tuned_ratio, timed,
               f->count);
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
    cJSON_AddStringToObject(line, "tuned_choice", tuned->name);
    json_real(line, "tuned_ms", 1e3 * tuned->seconds);
    json_real(line, "tuned_ratio", tuned_ratio);
    cJSON_AddNumberToObject(line, "timed", timed);
    cJSON_AddNumberToObject(line, "choices", f->count);
    list_timed(line, f);
    return json_line(line);
}

struct verdict {
    double ratio, tuned_ratio;
};

static int compare_one(const struct cli_options *o, convoy_context *context, const struct cli_problem *p,
                       double share_s, struct verdict *verdict)
{
    struct field *f = calloc(1, sizeof *f);
    struct entry **order = calloc(MOST, sizeof *order);
    int code = f && order ? CLI_OK : cli_error("out of memory: a list of tuning choices"), timed = 0;
    if (code == CLI_OK) {
        f->share_s = share_s;
        const convoy_status status = convoy_candidates(context, &p->problem, &o->plan, add, f);
        code = status == CONVOY_OK ? CLI_OK : cli_failed(p->text, status);
    }
    if (code == CLI_OK && (timed = first_pass(o, context, p, f, order)) < 0)
        code = CLI_BAD;
    if (code == CLI_OK)
        code = find_tuned(o, context, p, f);
    if (code == CLI_OK)
        code = final_pass(o, context, p, f, order, timed < FINALISTS ? timed : FINALISTS);
    if (code == CLI_OK) {
        verdict->ratio = ratio_of(&f->list[0], f->quickest);
        verdict->tuned_ratio = ratio_of(f->tuned, f->quickest);
        code = print(o, p, f, timed);
    }
    free(order);
    free(f);
    return code;
}

int tune_compare(const struct cli_options *o, convoy_context *context, const struct cli_problems *problems)
{
    const double from = cli_now_s();
    int code = CLI_OK, close = 0, tuned_close = 0;
    double worst = 0, tuned_worst = 0;
    if (!o->json)
        table_head();
    for (int i = 0; i < problems->count && code == CLI_OK; i++) {
        struct verdict v = {0};
        double share_s = 0;
        if (o->budget_s > 0)
            share_s = fmax(1e-3, (o->budget_s - (cli_now_s() - from)) / (problems->count - i));
        code = compare_one(o, context, &problems->list[i], share_s, &v);
        close += v.ratio <= 1.2;
        tuned_close += v.tuned_ratio <= 1.05;
        worst = fmax(worst, v.ratio);
        tuned_worst = fmax(tuned_worst, v.tuned_ratio);
    }
    progress_clear();
    if (code == CLI_OK && !o->json) {
        printf("the cost model within 1.2 of the quickest: %d of %d problems; worst ratio %.2f\n", close,
               problems->count, worst);
        printf("tune within 1.05 of the quickest: %d of %d problems; worst ratio %.2f\n", tuned_close, problems->count,
               tuned_worst);
    }
    return code;
}
