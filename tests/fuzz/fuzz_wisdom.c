/* Wisdom files: any bytes may stand in one. The first byte says whether lines get their right checksums, without which
 * hardly a change of the fuzzer's would reach what lies behind them: 0 as they are, else each line is signed, as an
 * entry of this machine's section. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <convoy/convoy.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char problem[] = "n1c1h4k1r2";
static char path[64], merged[64], machine[4096];
static int warnings;

static void must(int truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "fuzz_wisdom: %s: %s\n", what, convoy_last_message());
    abort();
}

static void count_warning(void *user, convoy_log_level level, const char *line)
{
    (void)user, (void)line;
    warnings += level == CONVOY_LOG_WARNING;
}

/* A plan by the file's wisdom, or one that is measured and stored there. */
static void plan(convoy_effort effort)
{
    const convoy_context_options options = {.threads = 1, .isa = "scalar", .wisdom = path, .log = count_warning};
    const convoy_plan_options quick = {.effort = effort, .time_limit_s = 1e-6};
    convoy_context *context;
    convoy_plan *made;
    convoy_problem p;
    warnings = 0;
    must(convoy_problem_parse(problem, &p) == CONVOY_OK, "problem");
    must(convoy_context_create(&options, &context) == CONVOY_OK, "context");
    must(convoy_plan_create(context, &p, &quick, &made) == CONVOY_OK, "plan");
    convoy_plan_destroy(made);
    convoy_context_destroy(context);
    must(warnings <= 1, "more than one warning");
}

static void take_machine(void *user, const char *name, const char *key, const char *value)
{
    (void)user, (void)key, (void)value;
    snprintf(machine, sizeof machine, "%s", name);
}

static void count(void *user, const char *name, const char *key, const char *value)
{
    must(*name && *key && value, "an empty entry");
    ++*(int *)user;
}

static uint32_t fnv1a(uint32_t seed, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        seed = (seed ^ (unsigned char)text[i]) * 16777619u;
    return seed;
}

static void write_input(const uint8_t *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    must(file != NULL, "temporary file");
    if (!size || !data[0]) {
        fwrite(data + (size > 0), 1, size - (size > 0), file);
    } else {
        char head[sizeof machine + 16];
        const int length = snprintf(head, sizeof head, "machine %s", machine);
        fprintf(file, "# convoy wisdom 1\n%s #%08x\n", head, (unsigned)fnv1a(2166136261u, head, (size_t)length));
        const uint32_t seed = fnv1a(2166136261u, machine, strlen(machine));
        for (size_t at = 1; at < size;) {
            const uint8_t *stop = memchr(data + at, '\n', size - at);
            const size_t bytes = stop ? (size_t)(stop - data) - at : size - at;
            fwrite(data + at, 1, bytes, file);
            fprintf(file, " #%08x\n", (unsigned)fnv1a(seed, (const char *)data + at, bytes));
            at += bytes + 1;
        }
    }
    fclose(file);
}

static void start(void)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, sizeof path, "%s/fuzz-wisdom-%d", folder, (int)getpid());
    snprintf(merged, sizeof merged, "%s/fuzz-merged-%d", folder, (int)getpid());
    plan(CONVOY_MEASURE);
    must(convoy_wisdom_each(path, take_machine, NULL, NULL) == CONVOY_OK && *machine, "machine");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*machine)
        start();
    int entries = 0, damaged = 0, merged_entries = 0;
    write_input(data, size);
    must(convoy_wisdom_each(path, count, &entries, &damaged) == CONVOY_OK, "each");
    unlink(merged);
    if (convoy_wisdom_merge(merged, path) == CONVOY_OK) {
        must(convoy_wisdom_each(merged, count, &merged_entries, &damaged) == CONVOY_OK, "each after merging");
        must(!damaged && merged_entries <= entries, "merging made it worse");
    }
    plan(CONVOY_ESTIMATE);
    plan(CONVOY_MEASURE);
    if (warnings == 0)
        must(convoy_wisdom_each(path, count, &entries, &damaged) == CONVOY_OK && !damaged, "damaged after writing");
    unlink(path);
    unlink(merged);
    return 0;
}
