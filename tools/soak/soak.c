/* A long run of random problems: engines, candidates, limits, contracts, threads, strides and values, each output
 * sampled against FP64, `exact` bit for bit, `match` against it, several threads on one plan, and memory watched. Says
 * what it did as one line of JSON; a miss is printed with its seed, and the exit status is 1.
 *
 *   soak [--seconds S] [--seed N] [--device cpu|cuda]
 */
#include "subject.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

enum { MOST_ENGINES = 16, TOGETHER = 4, LOOKS = 8, GROWTH_MIB = 48 };

/* Sanitizers hold freed memory back, and a short run is all beginning. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LONG_ENOUGH_S = 1 << 30 };
#else
enum { LONG_ENOUGH_S = 60 };
#endif

static struct {
    double seconds;
    uint64_t seed;
    convoy_device device;
    long long problems, runs, checked, misses, plans, refused;
    struct {
        const char *name;
        long long runs;
        double worst; /* largest error over its bound */
    } engine[MOST_ENGINES];
} s = {.seconds = 60, .seed = 1};

static subject c;
static float *dx, *dw, *db; /* its tensors on the device */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void miss(uint64_t seed, const char *engine, const char *candidate, const char *what, int64_t at, double is,
                 double should, double bound)
{
    s.misses++;
    printf("MISS --seed %llu: %s:%s on %s: %s: output %lld is %.9g, not %.9g to %.3g\n", (unsigned long long)seed,
           engine, candidate, c.text, what, (long long)at, is, should, bound);
    fflush(stdout);
}

static float *to_device(convoy_context *on, const float *host, int64_t count)
{
    void *memory;
    soak_must(convoy_memory_alloc(on, sizeof(float) * (size_t)(count + 1), &memory), "device memory");
    if (host)
        soak_must(convoy_memory_copy(on, memory, host, sizeof(float) * (size_t)count, CONVOY_TO_DEVICE), "copy");
    return memory;
}

/* y of the plan: on the device with poison and canaries around it, then in c.y. */
static convoy_status execute(convoy_context *on, const convoy_plan *plan, const convoy_weights *weights, float *host)
{
    const size_t bytes = convoy_plan_workspace_bytes(plan), floats = (size_t)c.count[2] + 2 * CANARY;
    memset(host, 0xff, sizeof(float) * floats);
    float *y = to_device(on, host, (int64_t)floats);
    void *workspace;
    soak_must(convoy_memory_alloc(on, bytes + 2 * CANARY, &workspace), "workspace");
    convoy_args args = {.struct_bytes = sizeof args, .x = dx, .w = weights ? NULL : dw, .weights = weights};
    args.bias = db;
    args.y = y + CANARY;
    args.workspace = (char *)workspace + 4;
    args.workspace_bytes = bytes;
    convoy_status status = convoy_execute(plan, &args);
    if (status == CONVOY_OK)
        status = convoy_synchronize(on);
    if (status == CONVOY_OK)
        status = convoy_memory_copy(on, host, y, sizeof(float) * floats, CONVOY_TO_HOST);
    convoy_memory_free(on, y);
    convoy_memory_free(on, workspace);
    return status;
}

static int same(float a, float b) { return a == b || (isnan(a) && isnan(b)); }

static void check(uint64_t seed, const convoy_plan_info *info, const convoy_plan_options *o)
{
    const float *y = c.y + CANARY;
    int slot = 0;
    while (slot < MOST_ENGINES - 1 && s.engine[slot].name && strcmp(s.engine[slot].name, info->engine) != 0)
        slot++;
    if (!s.engine[slot].name)
        s.engine[slot].name = strdup(info->engine);
    s.engine[slot].runs++;
    s.runs++;
    for (int i = 0; i < CANARY; i++)
        if (!isnan(c.y[i]) || !isnan(y[c.count[2] + i]))
            miss(seed, info->engine, info->candidate, "a canary", i, 0, 0, 0);
    for (int i = 0; i < c.samples; i++, s.checked++) {
        const double is = (double)y[c.index[i]];
        double bound = 0, should = c.value[i];
        if (info->math == CONVOY_MATH_EXACT && !same(y[c.index[i]], c.chain[i]))
            miss(seed, info->engine, info->candidate, "other bits", c.index[i], is, (double)c.chain[i], 0);
        if (info->math == CONVOY_MATH_MATCH) {
            should = (double)c.chain[i];
            bound = o->atol + o->rtol * fabs(should);
        } else {
            bound = 0x1p-24 * (info->error_bound_factor * c.bound[info->error_bound_kind][i] + fabs(should)) +
                    (double)FLT_TRUE_MIN;
        }
        if (!isfinite(should)) {
            if (isnan(should) ? !isnan(is) : is != should)
                miss(seed, info->engine, info->candidate, "a special value", c.index[i], is, should, 0);
            continue;
        }
        const double share = fabs(is - should) / bound;
        if (!(share <= 1))
            miss(seed, info->engine, info->candidate, "beyond its bound", c.index[i], is, should, bound);
        s.engine[slot].worst = share > s.engine[slot].worst ? share : s.engine[slot].worst;
    }
}

struct runner {
    convoy_context *on;
    const convoy_plan *plan;
    const convoy_weights *weights;
    float *y;
    convoy_status status;
};

static void *run_one(void *user)
{
    struct runner *r = user;
    r->status = execute(r->on, r->plan, r->weights, r->y);
    return NULL;
}

/* Threads on one plan: all get the bits that one got. */
static void run_together(uint64_t seed, convoy_context *on, const convoy_plan *plan, const convoy_weights *weights,
                         const convoy_plan_info *info)
{
    const size_t bytes = sizeof(float) * ((size_t)c.count[2] + 2 * CANARY);
    struct runner r[TOGETHER];
    pthread_t thread[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        r[i] = (struct runner){on, plan, weights, malloc(bytes), CONVOY_OK};
        if (!r[i].y || pthread_create(&thread[i], NULL, run_one, &r[i]) != 0)
            soak_fatal("a thread");
    }
    for (int i = 0; i < TOGETHER; i++) {
        pthread_join(thread[i], NULL);
        if (r[i].status != CONVOY_OK || memcmp(r[i].y, c.y, bytes) != 0)
            miss(seed, info->engine, info->candidate, "threads on one plan differ", i, (double)r[i].status, 0, 0);
        free(r[i].y);
    }
}

struct pick {
    int64_t wanted, seen;
    char name[160];
};

static void pick_one(void *user, const convoy_candidate *candidate)
{
    struct pick *a = user;
    if (a->seen++ <= a->wanted)
        snprintf(a->name, sizeof a->name, *candidate->candidate ? "%s:%s" : "%s", candidate->engine,
                 candidate->candidate);
}

static void one_engine(uint64_t seed, uint64_t *r, convoy_context *on, const convoy_engine_info *e)
{
    convoy_plan_options o = {.engine = e->name, .bias = c.bias, .prepared = (int)soak_in(r, 0, 1)};
    struct pick pick = {.wanted = soak_in(r, 0, 40)};
    convoy_plan *plan;
    convoy_plan_info info;
    convoy_weights *weights = NULL;
    o.math = soak_in(r, 0, 2) == 0 ? CONVOY_MATH_MATCH : CONVOY_MATH_FP32;
    o.rtol = o.atol = o.math == CONVOY_MATH_MATCH ? 1e-3 : 0;
    o.workspace_limited = soak_in(r, 0, 3) == 0;
    o.workspace_limit_bytes = (size_t)(soak_bits(r) >> soak_in(r, 36, 63));
    convoy_status status = convoy_candidates(on, &c.p, &o, pick_one, &pick);
    if (status == CONVOY_OK) {
        o.engine = soak_in(r, 0, 1) ? pick.name : e->name;
        status = convoy_plan_create(on, &c.p, &o, &plan);
    }
    if (status == CONVOY_UNSUPPORTED) {
        s.refused++;
        return;
    }
    soak_must(status, c.text);
    s.plans++;
    soak_must(convoy_plan_describe(plan, &info), "describe");
    if (o.prepared)
        soak_must(convoy_weights_create(plan, dw, NULL, &weights), "weights");
    soak_must(execute(on, plan, weights, c.y), info.engine);
    check(seed, &info, &o);
    if (s.device == CONVOY_CPU && soak_in(r, 0, 7) == 0)
        run_together(seed, on, plan, weights, &info);
    convoy_weights_destroy(weights);
    convoy_plan_destroy(plan);
}

static void one_problem(uint64_t seed, convoy_context *truth)
{
    static const char *const isa[] = {NULL, "avx2", "scalar"};
    uint64_t r = seed;
    convoy_context *on;
    convoy_context_options o = {.device = s.device, .threads = (int)soak_in(&r, 1, 4), .wisdom = "off"};
    o.isa = soak_in(&r, 0, 2) ? NULL : isa[soak_in(&r, 0, 2)];
    if (convoy_context_create(&o, &on) != CONVOY_OK) { /* an instruction set that this machine lacks */
        o.isa = NULL;
        soak_must(convoy_context_create(&o, &on), "context");
    }
    subject_make(&c, &r, s.device == CONVOY_CUDA ? 5e9 : 2e8, truth);
    dx = to_device(on, c.x, c.count[0]);
    dw = to_device(on, c.w, c.count[1]);
    db = c.b ? to_device(on, c.b, c.p.k) : NULL;
    const convoy_engine_info *e;
    for (int i = 0; (e = convoy_engine(i)) != NULL; i++)
        if (e->device == s.device && !(e->vendor && c.odd)) /* vendors' special values are their own */
            one_engine(seed, &r, on, e);
    convoy_memory_free(on, dx);
    convoy_memory_free(on, dw);
    convoy_memory_free(on, db);
    convoy_context_destroy(on);
    subject_free(&c);
    s.problems++;
}

static long resident_mib(void)
{
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%ld %ld", &size, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * sysconf(_SC_PAGESIZE) >> 20;
}

static int usage(void)
{
    fprintf(stderr, "usage: soak [--seconds S] [--seed N] [--device cpu|cuda]\n");
    return 2;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc)
            return usage();
        if (strcmp(argv[i], "--seconds") == 0)
            s.seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--seed") == 0)
            s.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--device") == 0)
            s.device = strcmp(argv[i + 1], "cuda") == 0 ? CONVOY_CUDA : CONVOY_CPU;
        else
            return usage();
    }
#if defined(__GLIBC__)
    /* What is resident between two problems is then what somebody still holds: glibc otherwise keeps freed memory in an
     * arena a thread, and ever larger pieces of it. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 256 << 10);
    mallopt(M_TRIM_THRESHOLD, 256 << 10);
#endif
    convoy_context *truth;
    soak_must(convoy_context_create(&(convoy_context_options){.isa = "scalar", .wisdom = "off"}, &truth), "context");
    const double from = now_s();
    long resident[LOOKS] = {0}; /* after each eighth of the time */
    int looks = 0;
    for (uint64_t seed = s.seed; now_s() - from < s.seconds || s.problems == 0; seed++) {
        one_problem(seed, truth);
        for (; looks < LOOKS && now_s() - from >= s.seconds * (looks + 1) / LOOKS; looks++)
            resident[looks] = resident_mib();
    }
    if (s.device == CONVOY_CPU && s.seconds >= LONG_ENOUGH_S &&
        resident[LOOKS - 1] > resident[LOOKS / 4 - 1] + GROWTH_MIB)
        s.misses +=
            printf("MISS resident memory grew from %ld to %ld MiB\n", resident[LOOKS / 4 - 1], resident[LOOKS - 1]) > 0;
    printf("{\"device\":\"%s\",\"seconds\":%.0f,\"first_seed\":%llu,\"problems\":%lld,\"plans\":%lld,\"declined\":%lld,"
           "\"runs\":%lld,\"outputs_checked\":%lld,\"misses\":%lld,\"processor_seconds\":%.0f,\"resident_mib\":[",
           s.device == CONVOY_CUDA ? "cuda" : "cpu", now_s() - from, (unsigned long long)s.seed, s.problems, s.plans,
           s.refused, s.runs, s.checked, s.misses, (double)clock() / CLOCKS_PER_SEC);
    for (int i = 0; i < LOOKS; i++)
        printf("%s%ld", i ? "," : "", resident[i]);
    printf("],\"worst_error_over_bound\":{");
    for (int i = 0; i < MOST_ENGINES && s.engine[i].name; i++)
        printf("%s\"%s\":%.3g", i ? "," : "", s.engine[i].name, s.engine[i].worst);
    printf("}}\n");
    convoy_context_destroy(truth);
    return s.misses != 0;
}
