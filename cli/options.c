/* The options of all commands, parsed by glibc's argp. Each command takes some groups of them; --help shows just those.
 */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum key {
    KEY_DEVICE = 256,
    KEY_THREADS,
    KEY_ISA,
    KEY_WISDOM,
    KEY_JSON,
    KEY_MATH,
    KEY_RTOL,
    KEY_ATOL,
    KEY_ENGINE,
    KEY_EXCLUDE,
    KEY_WORKSPACE,
    KEY_DETERMINISTIC,
    KEY_EFFORT,
    KEY_SEED,
    KEY_PREPARED,
    KEY_WITH_BIAS,
    KEY_SWEEP,
    KEY_X,
    KEY_W,
    KEY_BIAS,
    KEY_STRIDE,
    KEY_PADDING,
    KEY_DILATION,
    KEY_GROUPS,
    KEY_PHASES,
    KEY_PEERS,
    KEY_TIME,
    KEY_BUDGET,
    KEY_COMPARE,
    KEY_CEILINGS,
};

static const struct argp_option context_options[] = {
    {0, 0, 0, 0, "Where", 1},
    {"device", KEY_DEVICE, "cpu|cuda[:I]", 0, "The device; by default a GPU when there is one", 1},
    {"threads", KEY_THREADS, "N", 0, "CPU threads; by default CONVOY_THREADS, else all cores", 1},
    {"isa", KEY_ISA, "scalar|avx2|avx512", 0, "Vectors to use at most; by default CONVOY_ISA, else the best", 1},
    {"wisdom", KEY_WISDOM, "FILE|off", 0,
     "What tuning remembers; by default CONVOY_WISDOM, else convoy/wisdom in the user's cache folder", 1},
    {"json", KEY_JSON, 0, 0, "Report one JSON object a line", 1},
    {0},
};
static const struct argp_option plan_options[] = {
    {0, 0, 0, 0, "How", 2},
    {"math", KEY_MATH, "exact|fp32|match", 0, "The numeric contract; by default fp32", 2},
    {"rtol", KEY_RTOL, "R", 0, "Relative tolerance of match; by default 1e-3 when --atol is not given", 2},
    {"atol", KEY_ATOL, "A", 0, "Absolute tolerance of match; by default 1e-3 when --rtol is not given", 2},
    {"engine", KEY_ENGINE, "NAME[:CANDIDATE]", 0, "Only this engine, or this tuning choice of it", 2},
    {"exclude", KEY_EXCLUDE, "NAME,...", 0, "Not these engines", 2},
    {"workspace-limit", KEY_WORKSPACE, "BYTES", 0, "Workspace at most; K, M, G mean powers of 1024", 2},
    {"deterministic", KEY_DETERMINISTIC, 0, 0, "Only engines with the same bits run after run", 2},
    {"effort", KEY_EFFORT, "estimate|measure", 0, "Trust the cost model (default), or time the best few choices", 2},
    {0},
};
static const struct argp_option data_options[] = {
    {0, 0, 0, 0, "Data", 3},
    {"seed", KEY_SEED, "N", 0, "Seed of the normal(0,1) data; by default 1", 3},
    {"prepared", KEY_PREPARED, 0, 0, "With weights transformed ahead", 3},
    {"with-bias", KEY_WITH_BIAS, 0, 0, "With a bias", 3},
    {0},
};
static const struct argp_option sweep_options[] = {
    {"sweep", KEY_SWEEP, 0, 0, "Every tuning choice of every engine, not just the likely best", 3},
    {0},
};
static const struct argp_option run_options[] = {
    {0, 0, 0, 0, "Arrays (.npy, C order, float32)", 4},
    {"x", KEY_X, "FILE", 0, "Images: (N, C, H, W), or (H, W) for one", 4},
    {"w", KEY_W, "FILE", 0, "Kernels: (K, C/G, R, S), or (R, S) for one", 4},
    {"bias", KEY_BIAS, "FILE", 0, "Added to the output channels: (K)", 4},
    {"output", 'o', "FILE", 0, "The result: (N, K, P, Q), or (P, Q) when x and w have two dimensions", 4},
    {"stride", KEY_STRIDE, "A[xB]", 0, "By default 1", 4},
    {"padding", KEY_PADDING, "A[xB]|T,B,L,R|same|valid", 0, "By default 0, which is valid", 4},
    {"dilation", KEY_DILATION, "A[xB]", 0, "By default 1", 4},
    {"groups", KEY_GROUPS, "G", 0, "By default 1", 4},
    {0},
};
static const struct argp_option bench_options[] = {
    {"phases", KEY_PHASES, 0, 0,
     "Time, bytes and operations of each engine's phases, and their share of the larger floor", 4},
    {"peers", KEY_PEERS, 0, 0, "Also the peer programs that were built (bench/peers)", 4},
    {"time", KEY_TIME, "SECONDS", 0, "Time to spend on one measurement; by default 1", 4},
    {0},
};
static const struct argp_option tune_options[] = {
    {"budget", KEY_BUDGET, "SECONDS", 0, "For all problems together; by default 10 for each that is not known yet", 4},
    {"compare", KEY_COMPARE, 0, 0,
     "A table: what the cost model and tune choose, against the quickest of all choices; a budget limits how many are "
     "timed",
     4},
    {0},
};
static const struct argp_option info_options[] = {
    {"ceilings", KEY_CEILINGS, 0, 0, "Measure the rate of multiply-adds and of copying, too", 4},
    {0},
};

static error_t refuse(const struct argp_state *state, const char *option, const char *value, const char *expected)
{
    (void)state;
    cli_error("--%s is '%.100s': expected %s", option, value, expected);
    return EINVAL;
}

static error_t set_context(int key, char *arg, struct argp_state *state)
{
    struct cli_options *o = state->input;
    int64_t v;
    switch (key) {
    case KEY_DEVICE:
        return parse_device(arg, &o->device, &o->device_index) ? 0
                                                               : refuse(state, "device", arg, "cpu, cuda or cuda:I");
    case KEY_THREADS:
        if (!parse_int(arg, 1, 1024, &v))
            return refuse(state, "threads", arg, "1 to 1024");
        o->threads = (int)v;
        return 0;
    case KEY_ISA:
        o->isa = arg;
        return 0;
    case KEY_WISDOM:
        o->wisdom = arg;
        return *arg ? 0 : refuse(state, "wisdom", arg, "a file, or off");
    case KEY_JSON:
        o->json = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t set_plan(int key, char *arg, struct argp_state *state)
{
    static const char *const math[] = {"fp32", "exact", "match"}; /* by convoy_math */
    struct cli_options *o = state->input;
    convoy_plan_options *plan = &o->plan;
    switch (key) {
    case KEY_MATH:
        for (int i = 0; i < 3; i++)
            if (strcmp(arg, math[i]) == 0)
                return plan->math = (convoy_math)i, 0;
        return refuse(state, "math", arg, "exact, fp32 or match");
    case KEY_RTOL:
        o->tolerance = true;
        return parse_real(arg, 0, &plan->rtol) ? 0 : refuse(state, "rtol", arg, "a number of 0 or more");
    case KEY_ATOL:
        o->tolerance = true;
        return parse_real(arg, 0, &plan->atol) ? 0 : refuse(state, "atol", arg, "a number of 0 or more");
    case KEY_ENGINE:
        plan->engine = arg;
        return 0;
    case KEY_EXCLUDE:
        plan->exclude = arg;
        return 0;
    case KEY_WORKSPACE:
        plan->workspace_limited = 1;
        return parse_bytes(arg, &plan->workspace_limit_bytes)
                   ? 0
                   : refuse(state, "workspace-limit", arg, "bytes, such as 0, 65536 or 16M");
    case KEY_DETERMINISTIC:
        plan->deterministic = 1;
        return 0;
    case KEY_EFFORT:
        plan->effort = strcmp(arg, "measure") == 0 ? CONVOY_MEASURE : CONVOY_ESTIMATE;
        return plan->effort == CONVOY_MEASURE || strcmp(arg, "estimate") == 0
                   ? 0
                   : refuse(state, "effort", arg, "estimate or measure");
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t set_run(int key, char *arg, struct argp_state *state)
{
    struct cli_options *o = state->input;
    switch (key) {
    case KEY_X:
        o->x = arg;
        return 0;
    case KEY_W:
        o->w = arg;
        return 0;
    case KEY_BIAS:
        o->bias = arg;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case KEY_STRIDE:
        return parse_pair(arg, 1, o->stride) ? 0
                                             : refuse(state, "stride", arg, "1 or more, as 2 or 2x3 (height x width)");
    case KEY_PADDING:
        return parse_padding(arg, o->pad, &o->pad_same)
                   ? 0
                   : refuse(state, "padding", arg,
                            "3, 3x5 (height x width), 1,2,3,4 (top,bottom,left,right), "
                            "same or valid");
    case KEY_DILATION:
        return parse_pair(arg, 1, o->dilation)
                   ? 0
                   : refuse(state, "dilation", arg, "1 or more, as 2 or 2x3 (height x width)");
    case KEY_GROUPS:
        return parse_int(arg, 1, INT64_MAX, &o->groups)
                   ? 0
                   : refuse(state, "groups", arg, "a divisor of C and K, 1 or more");
    }
    return ARGP_ERR_UNKNOWN;
}

static error_t set_report(int key, char *arg, struct argp_state *state)
{
    struct cli_options *o = state->input;
    int64_t v;
    switch (key) {
    case KEY_SEED:
        if (!parse_int(arg, 0, INT64_MAX, &v))
            return refuse(state, "seed", arg, "a whole number of 0 or more");
        o->seed = (uint64_t)v;
        return 0;
    case KEY_PREPARED:
        o->plan.prepared = 1;
        return 0;
    case KEY_WITH_BIAS:
        o->plan.bias = 1;
        return 0;
    case KEY_SWEEP:
        o->sweep = true;
        return 0;
    case KEY_PHASES:
        o->phases = true;
        return 0;
    case KEY_PEERS:
        o->peers = true;
        return 0;
    case KEY_TIME:
        return parse_real(arg, 1e-3, &o->seconds) ? 0 : refuse(state, "time", arg, "seconds, 0.001 or more");
    case KEY_BUDGET:
        return parse_real(arg, 1e-3, &o->budget_s) ? 0 : refuse(state, "budget", arg, "seconds, 0.001 or more");
    case KEY_COMPARE:
        o->compare = true;
        return 0;
    case KEY_CEILINGS:
        o->ceilings = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static int group_count; /* of the command being parsed */

/* The command's own parser: hands its input to the groups and collects the words. */
static error_t collect(int key, char *arg, struct argp_state *state)
{
    struct cli_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's own line is enough; argp would add another */
        for (int i = 0; i < group_count; i++)
            state->child_inputs[i] = o;
        return 0;
    case 'h':
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        o->words[o->word_count++] = arg;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static int check_words(const struct cli_command *command, const struct cli_options *o)
{
    if (o->word_count < command->least_words)
        return cli_error("%s is missing: expected convoy %s %s", command->words, command->name, command->words);
    if (command->most_words >= 0 && o->word_count > command->most_words)
        return cli_error("'%.100s' is one word too many: expected convoy %s%s%s", o->words[command->most_words],
                         command->name, *command->words ? " " : "", command->words);
    return CLI_OK;
}

int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_options *o)
{
    static const struct argp context = {context_options, set_context, 0, 0, 0, 0, 0},
                             plan = {plan_options, set_plan, 0, 0, 0, 0, 0},
                             data = {data_options, set_report, 0, 0, 0, 0, 0},
                             sweep = {sweep_options, set_report, 0, 0, 0, 0, 0},
                             run = {run_options, set_run, 0, 0, 0, 0, 0},
                             bench = {bench_options, set_report, 0, 0, 0, 0, 0},
                             tune = {tune_options, set_report, 0, 0, 0, 0, 0},
                             info = {info_options, set_report, 0, 0, 0, 0, 0};
    const struct {
        unsigned flag;
        const struct argp *group;
    } group[] = {{~0u, &context},   {TAKES_PLAN, &plan},   {TAKES_DATA, &data}, {TAKES_VERIFY | TAKES_BENCH, &sweep},
                 {TAKES_RUN, &run}, {TAKES_BENCH, &bench}, {TAKES_TUNE, &tune}, {TAKES_INFO, &info}};
    struct argp_child children[sizeof group / sizeof *group + 1] = {{0}};
    group_count = 0;
    for (size_t i = 0; i < sizeof group / sizeof *group; i++)
        if (group[i].flag == ~0u || (command->takes & group[i].flag))
            children[group_count++].argp = group[i].group;
    static const struct argp_option own[] = {{"", 'h', 0, OPTION_HIDDEN, 0, 0}, {0}};
    const struct argp argp = {own, collect, command->words, command->about, children, 0, 0};
    const struct cli_options defaults = {
        .command = command->name, .device = -1, .seed = 1, .stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    *o = defaults;
    if (!(o->words = calloc((size_t)argc + 1, sizeof *o->words)))
        return cli_error("out of memory: %d words", argc);
    if (argp_parse(&argp, argc, argv, 0, NULL, o) != 0)
        return CLI_BAD;
    if (o->plan.math == CONVOY_MATH_MATCH && !o->tolerance)
        o->plan.rtol = o->plan.atol = 1e-3;
    return check_words(command, o);
}
