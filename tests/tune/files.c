#include "files.h"

#include <unistd.h>

const char *fresh_path(void)
{
    static char path[128];
    static int number;
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.80s/convoy-wisdom-%d-%d", folder ? folder : "/tmp", (int)getpid(), number++);
    unlink(path);
    return path;
}

void write_file(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t room = 1 << 20;
    char *text = malloc(room + 1);
    *bytes = fread(text, 1, room, file);
    assert_true(*bytes < room);
    text[*bytes] = 0;
    fclose(file);
    return text;
}

static void count_warning(void *user, convoy_log_level level, const char *line)
{
    (void)line;
    if (user && level == CONVOY_LOG_WARNING)
        ++*(int *)user;
}

convoy_context *context_with(const char *path, int *warnings)
{
    const convoy_context_options options = {
        .threads = 2, .isa = "scalar", .wisdom = path, .log = count_warning, .log_user = warnings};
    convoy_context *context;
    if (warnings)
        *warnings = 0;
    if (convoy_context_create(&options, &context) != CONVOY_OK)
        fail_msg("%s", convoy_last_message());
    return context;
}

convoy_plan_info plan_once(convoy_context *context, const char *problem, const convoy_plan_options *options)
{
    convoy_problem p;
    convoy_plan *plan;
    convoy_plan_info info;
    assert_int_equal(convoy_problem_parse(problem, &p), CONVOY_OK);
    if (convoy_plan_create(context, &p, options, &plan) != CONVOY_OK)
        fail_msg("%s", convoy_last_message());
    assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
    static char engine[64], candidate[128]; /* the plan's own text dies with it */
    snprintf(engine, sizeof engine, "%s", info.engine);
    snprintf(candidate, sizeof candidate, "%s", info.candidate);
    info.engine = engine;
    info.candidate = candidate;
    convoy_plan_destroy(plan);
    return info;
}

convoy_plan_info tune_once(convoy_context *context, const char *problem)
{
    return plan_once(context, problem, &(convoy_plan_options){.effort = CONVOY_MEASURE, .time_limit_s = 0.02});
}

static void count_entry(void *user, const char *machine, const char *key, const char *value)
{
    assert_true(*machine && *key && *value);
    ++*(int *)user;
}

int count_entries(const char *path, int *damaged)
{
    int entries = 0;
    return convoy_wisdom_each(path, count_entry, &entries, damaged) == CONVOY_OK ? entries : -1;
}

struct wanted {
    const char *key;
    char *value, *machine;
};

static void take_entry(void *user, const char *machine, const char *key, const char *value)
{
    struct wanted *w = user;
    if (w->value || (w->key && strcmp(key, w->key) != 0))
        return;
    w->value = strdup(value);
    w->machine = strdup(machine);
}

char *value_of(const char *path, const char *key)
{
    struct wanted w = {key, NULL, NULL};
    assert_int_equal(convoy_wisdom_each(path, take_entry, &w, NULL), CONVOY_OK);
    free(w.machine);
    return w.value;
}

char *machine_of(const char *path)
{
    struct wanted w = {NULL, NULL, NULL};
    assert_int_equal(convoy_wisdom_each(path, take_entry, &w, NULL), CONVOY_OK);
    free(w.value);
    return w.machine;
}

static uint32_t fnv1a(uint32_t seed, const char *text)
{
    for (; *text; text++)
        seed = (seed ^ (unsigned char)*text) * 16777619u;
    return seed;
}

void put_head(char *text, const char *machine)
{
    char line[4096];
    snprintf(line, sizeof line, "machine %s", machine);
    sprintf(text + strlen(text), "%s #%08x\n", line, (unsigned)fnv1a(2166136261u, line));
}

void put_entry(char *text, const char *machine, const char *key, const char *value)
{
    char line[8192];
    snprintf(line, sizeof line, "%s = %s", key, value);
    sprintf(text + strlen(text), "%s #%08x\n", line, (unsigned)fnv1a(fnv1a(2166136261u, machine), line));
}
