/* convoy bench: every engine's time, rates, error and workspace. */
#include "choices.h"
#include "peers.h"
#include "problems.h"
#include "truth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    struct cli_options *o;
    convoy_context *context;
    double flop_per_s, bytes_per_s; /* the machine's ceilings, measured in this run */
    struct cli_case c;
    struct cli_truth truth;
    char chosen[128]; /* what auto takes */
    bool miss;
    int code;
};

struct row {
    convoy_plan_info info;
    convoy_timing timing;
    struct cli_verdict verdict;
    convoy_phase phases[CASE_PHASES];
    int phase_count;
    bool chosen;
};

static double compulsory_bytes(const struct cli_case *c)
{
    return 4.0 * ((double)c->xs + (double)c->ws + (double)c->ys);
}

/* The time that the larger of two floors allows: operations at the measured rate, bytes at the measured bandwidth. */
static double floor_s(const struct bench *b, double flop, double bytes)
{
    return fmax(flop / b->flop_per_s, bytes / b->bytes_per_s);
}

static double share(const struct bench *b, double flop, double bytes, double seconds)
{
    return seconds > 0 ? floor_s(b, flop, bytes) / seconds : 0;
}

static void add_phases(const struct bench *b, const struct row *r, cJSON *line)
{
    cJSON *list = cJSON_AddArrayToObject(line, "phases");
    for (int i = 0; i < r->phase_count; i++) {
        const convoy_phase *p = &r->phases[i];
        cJSON *phase = cJSON_CreateObject();
        cJSON_AddStringToObject(phase, "name", p->name);
        json_real(phase, "ms", 1e3 * p->seconds);
        json_real(phase, "bytes", p->bytes);
        json_real(phase, "flop", p->flop);
        json_real(phase, "floor_share", share(b, p->flop, p->bytes, p->seconds));
        cJSON_AddItemToArray(list, phase);
    }
}

/* Rates of a GPU are printed in TFLOP/s. JSON has one unit for all. */
static double unit(const struct bench *b) { return cli_device(b->context) == CONVOY_CUDA ? 1e-12 : 1e-9; }

static const char *unit_name(const struct bench *b)
{
    return cli_device(b->context) == CONVOY_CUDA ? "TFLOP/s" : "GFLOP/s";
}

static int decimals(const struct bench *b) { return cli_device(b->context) == CONVOY_CUDA ? 2 : 1; }

/* Of the direct sum's operations, what a plan of the match contract made again in the exact order; negative: not known.
 */
static double recomputed(const struct bench *b, const struct row *r)
{
    const double flop = convoy_problem_flop(&b->c.problem);
    for (int i = 0; r->info.math == CONVOY_MATH_MATCH && i < r->phase_count; i++)
        if (strcmp(r->phases[i].name, "recompute") == 0)
            return flop > 0 ? r->phases[i].flop / flop : 0;
    return -1;
}

static bool is_vendor(const char *name)
{
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)); i++)
        if (strcmp(e->name, name) == 0)
            return e->vendor != 0;
    return false;
}

static int print_json(const struct bench *b, const struct row *r)
{
    static const char *const math[] = {"fp32", "exact", "match"};
    const double flop = convoy_problem_flop(&b->c.problem);
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "problem", b->c.text);
    cJSON_AddStringToObject(line, "engine", r->info.engine);
    cJSON_AddStringToObject(line, "candidate", r->info.candidate);
    cJSON_AddBoolToObject(line, "vendor", is_vendor(r->info.engine));
    cJSON_AddStringToObject(line, "math", math[r->info.math]);
    cJSON_AddStringToObject(line, "weights", b->o->plan.prepared ? "prepared" : "fresh");
    cJSON_AddStringToObject(line, "device", r->info.device == CONVOY_CUDA ? "cuda" : "cpu");
    cJSON_AddNumberToObject(line, "threads", r->info.threads);
    json_real(line, "median_ms", 1e3 * r->timing.median_s);
    json_real(line, "p10_ms", 1e3 * r->timing.p10_s);
    json_real(line, "p90_ms", 1e3 * r->timing.p90_s);
    cJSON_AddNumberToObject(line, "runs", r->timing.runs);
    json_real(line, "predicted_ms", 1e3 * r->info.predicted_s);
    json_real(line, "direct_gflop_per_s", r->timing.median_s > 0 ? 1e-9 * flop / r->timing.median_s : 0);
    json_real(line, "direct_roofline_share", share(b, flop, compulsory_bytes(&b->c), r->timing.median_s));
    json_real(line, "fma_gflop_per_s", 1e-9 * b->flop_per_s);
    json_real(line, "copy_gb_per_s", 1e-9 * b->bytes_per_s);
    cJSON_AddNumberToObject(line, "workspace_bytes", (double)r->info.workspace_bytes);
    json_real(line, "max_abs_err", r->verdict.max_abs_err);
    json_real(line, "rel_rms_err", r->verdict.rel_rms_err);
    cJSON_AddBoolToObject(line, "within_bound", r->verdict.ok);
    cJSON_AddBoolToObject(line, "chosen", r->chosen);
    if (recomputed(b, r) >= 0)
        json_real(line, "recomputed_share", recomputed(b, r));
    if (b->o->phases)
        add_phases(b, r, line);
    return json_line(line);
}

/* Milliseconds in four digits, without an exponent. */
static struct cli_text digits(double ms)
{
    struct cli_text text;
    snprintf(text.s, sizeof text.s, ms < 9999.5 ? "%.4g" : "%.0f", ms);
    return text;
}

static int print(const struct bench *b, const struct row *r)
{
    const double flop = convoy_problem_flop(&b->c.problem), s = r->timing.median_s;
    char name[128], range[128];
    progress_clear();
    if (b->o->json)
        return print_json(b, r);
    cli_choice_name(&r->info, name, sizeof name);
    snprintf(range, sizeof range, "%s-%s", digits(1e3 * r->timing.p10_s).s, digits(1e3 * r->timing.p90_s).s);
    char again[40] = "";
    if (recomputed(b, r) >= 0)
        snprintf(again, sizeof again, "  %.3g%% recomputed", 100 * recomputed(b, r));
    printf("%c %-25s %9s %17s %9.*f %8.1f%% %9.2e %9.2e %11s%s%s\n", r->chosen ? '*' : ' ', name, digits(1e3 * s).s,
           range, decimals(b), s > 0 ? unit(b) * flop / s : 0, 100 * share(b, flop, compulsory_bytes(&b->c), s),
           r->verdict.max_abs_err, r->verdict.rel_rms_err, cli_bytes((double)r->info.workspace_bytes).s, again,
           r->verdict.ok ? "" : "  ERROR BEYOND ITS BOUND");
    for (int i = 0; b->o->phases && i < r->phase_count; i++) {
        const convoy_phase *p = &r->phases[i];
        printf("    %-23s %9.4g ms %11s %10.4g GFLOP %8.1f %s %6.1f GB/s %5.1f%% of the larger floor\n", p->name,
               1e3 * p->seconds, cli_bytes(p->bytes).s, 1e-9 * p->flop,
               p->seconds > 0 ? unit(b) * p->flop / p->seconds : 0, unit_name(b),
               p->seconds > 0 ? 1e-9 * p->bytes / p->seconds : 0, 100 * share(b, p->flop, p->bytes, p->seconds));
    }
    return cli_flush();
}

static int bench_one(struct bench *b, const char *choice)
{
    convoy_plan_options options = b->o->plan;
    convoy_plan *plan = NULL;
    struct row r = {.phase_count = 0};
    char name[128];
    options.engine = choice;
    convoy_status status = convoy_plan_create(b->context, &b->c.problem, &options, &plan);
    if (status == CONVOY_OK)
        status = convoy_plan_describe(plan, &r.info);
    if (status == CONVOY_OK)
        status = case_execute(&b->c, plan, b->o->phases || r.info.math == CONVOY_MATH_MATCH ? r.phases : NULL,
                              &r.phase_count);
    int code = status == CONVOY_OK ? truth_compare(&b->c, &b->truth, &r.info, &options, false, &r.verdict)
                                   : cli_failed(b->c.text, status);
    if (code == CLI_OK) {
        status = convoy_measure(plan, b->o->seconds, &r.timing);
        code = status == CONVOY_OK ? CLI_OK : cli_failed(b->c.text, status);
    }
    if (code == CLI_OK) {
        cli_choice_name(&r.info, name, sizeof name);
        r.chosen = strcmp(name, b->chosen) == 0;
        b->miss = b->miss || !r.verdict.ok;
        code = print(b, &r);
    }
    convoy_plan_destroy(plan);
    return code;
}

/* What a plan without a named engine would be. */
static void find_chosen(struct bench *b, const convoy_problem *problem, struct cli_choices *choices)
{
    convoy_plan_options options = b->o->plan;
    convoy_plan *plan = NULL;
    convoy_plan_info info;
    b->chosen[0] = 0;
    options.engine = NULL;
    if (convoy_plan_create(b->context, problem, &options, &plan) == CONVOY_OK &&
        convoy_plan_describe(plan, &info) == CONVOY_OK) {
        cli_choice_name(&info, b->chosen, sizeof b->chosen);
        for (int i = 0; i < choices->count; i++)
            if (strncmp(choices->list[i].name, b->chosen, strcspn(b->chosen, ":")) == 0 &&
                !choices->list[i].name[strcspn(b->chosen, ":")])
                snprintf(choices->list[i].name, sizeof choices->list[i].name, "%s", b->chosen);
    }
    convoy_plan_destroy(plan);
}

static double member(const cJSON *line, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

static const char *text_member(const cJSON *line, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(line, key);
    return cJSON_IsString(v) ? v->valuestring : "";
}

static void print_peer(void *user, cJSON *line)
{
    struct bench *b = user;
    progress_clear();
    if (b->code != CLI_OK || b->o->json) {
        b->code = b->code == CLI_OK ? json_line(line) : (cJSON_Delete(line), b->code);
        return;
    }
    char name[128], range[128];
    const double ms = member(line, "median_ms");
    snprintf(name, sizeof name, "%.60s:%.60s", text_member(line, "engine"), text_member(line, "candidate"));
    snprintf(range, sizeof range, "%s-%s", digits(member(line, "p10_ms")).s, digits(member(line, "p90_ms")).s);
    printf("  %-25s %9s %17s %9.*f %9s %9.2e %9.2e  peer, %s weights\n", name, digits(ms).s, range, decimals(b),
           1e3 * unit(b) * convoy_problem_flop(&b->c.problem) / ms, "", member(line, "max_abs_err"),
           member(line, "rel_rms_err"), text_member(line, "weights"));
    cJSON_Delete(line);
    b->code = cli_flush();
}

static int bench_peers(struct bench *b)
{
    progress_show(-1, 0, "%s: peers", b->c.text);
    const int found =
        peers_run(b->c.text, cli_threads(b->context), b->o->seconds > 0 ? b->o->seconds : 1, b->o->seed, print_peer, b);
    return found < 0 ? CLI_BAD : b->code;
}

static int bench_problem(struct bench *b, const struct cli_problem *p)
{
    struct cli_choices choices;
    int code = cli_choices(b->o, b->context, &p->problem, false, &choices);
    if (code != CLI_OK)
        return code;
    find_chosen(b, &p->problem, &choices);
    code = case_open(b->context, &p->problem, p->text, b->o, &b->c);
    if (code == CLI_OK)
        code = truth_make(&b->c, b->o->seed, true, false, &b->truth);
    if (code == CLI_OK) {
        if (!b->o->json)
            printf("%s: direct sum %.4g GFLOP, tensors %s, weights %s\n  %-25s %9s %17s %9s %9s %9s %9s %11s\n",
                   p->text, 1e-9 * convoy_problem_flop(&p->problem), cli_bytes(compulsory_bytes(&b->c)).s,
                   b->o->plan.prepared ? "prepared" : "fresh", "engine", "median ms", "p10-p90", unit_name(b),
                   "roofline", "max err", "rms err", "workspace");
        for (int i = 0; i < choices.count && code == CLI_OK; i++) {
            progress_show(-1, 0, "%s: %s (%d of %d)", p->text, choices.list[i].name, i + 1, choices.count);
            code = bench_one(b, choices.list[i].name);
        }
        truth_free(&b->truth);
    }
    if (code == CLI_OK && b->o->peers)
        code = bench_peers(b);
    progress_clear();
    case_close(&b->c);
    free(choices.list);
    return code;
}

/* Before anything is timed. */
static int check_peers(const struct bench *b)
{
    if (cli_device(b->context) != CONVOY_CPU)
        return cli_error("--peers: the peer programs run on the CPU: expected --device cpu");
    if (peers_count() == 0)
        return cli_error("--peers: no program convoy-peer-* next to the command or in CONVOY_PEERS: expected those of "
                         "bench/peers (cmake -B build -DCONVOY_PEERS=ON && cmake --build build)");
    return CLI_OK;
}

int cli_bench(struct cli_options *o)
{
    struct cli_problems problems;
    struct bench b = {.o = o};
    int code = cli_problems(o, &problems);
    if (code == CLI_OK)
        code = cli_context(o, &b.context);
    if (code == CLI_OK && o->peers)
        code = check_peers(&b);
    if (code == CLI_OK) {
        const convoy_status status = convoy_measure_ceilings(b.context, &b.flop_per_s, &b.bytes_per_s);
        code = status == CONVOY_OK ? CLI_OK : cli_failed("ceilings", status);
    }
    if (code == CLI_OK && !o->json)
        printf(
            "%s and roofline count the direct sum (an FFT may exceed 100%%); floors of this run: multiply-adds at %.1f "
            "%s, copies at %.1f GB/s; * is what auto takes\n",
            unit_name(&b), unit(&b) * b.flop_per_s, unit_name(&b), 1e-9 * b.bytes_per_s);
    for (int i = 0; i < problems.count && code == CLI_OK; i++)
        code = bench_problem(&b, &problems.list[i]);
    convoy_context_destroy(b.context);
    free(problems.list);
    return code == CLI_OK && b.miss ? CLI_MISS : code;
}
