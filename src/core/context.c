/* Contexts: the device, threads and files that plans are made with. */
#include "services.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CV_TEXT2(a) #a
#define CV_TEXT(a) CV_TEXT2(a)

enum { MOST_THREADS = 1024, INFO_BYTES = 4096 };

const char *convoy_version(void)
{
    return CV_TEXT(CONVOY_VERSION_MAJOR) "." CV_TEXT(CONVOY_VERSION_MINOR) "." CV_TEXT(CONVOY_VERSION_PATCH);
}

void cv_log(const convoy_context *context, convoy_log_level level, const char *format, ...)
{
    if (!context->log)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    context->log(context->log_user, level, line);
}

size_t cv_align_bytes(const cv_machine *machine) { return machine->device == CONVOY_CUDA ? 256 : 64; }

void cv_shared_release(cv_shared *shared)
{
    if (!shared || atomic_fetch_sub(&shared->references, 1) != 1)
        return;
    convoy_allocator memory = shared->machine.memory;
    cv_pool_destroy(shared->machine.pool);
    cv_free(&memory, shared);
}

static convoy_status choose_threads(int asked, int cores, int *threads)
{
    const char *text = getenv("CONVOY_THREADS");
    if (asked == 0 && text && *text) {
        char *end;
        long v = strtol(text, &end, 10);
        if (*end || v < 1 || v > MOST_THREADS)
            return cv_fail(CONVOY_INVALID, "CONVOY_THREADS is '%.40s': expected 1 to %d", text, MOST_THREADS);
        asked = (int)v;
    }
    if (asked < 0 || asked > MOST_THREADS)
        return cv_fail(CONVOY_INVALID, "threads is %d: expected 0 (all cores) to %d", asked, MOST_THREADS);
    *threads = asked ? asked : cores < MOST_THREADS ? cores : MOST_THREADS;
    return CONVOY_OK;
}

static convoy_status choose_isa(const char *asked, cv_isa best, cv_isa *isa)
{
    const char *name = "isa";
    if (!asked) {
        asked = getenv("CONVOY_ISA");
        name = "CONVOY_ISA";
    }
    *isa = best;
    if (!asked || !*asked)
        return CONVOY_OK;
    if (!cv_isa_parse(asked, isa))
        return cv_fail(CONVOY_INVALID, "%s is '%.40s': expected scalar, avx2 or avx512", name, asked);
    if (*isa > best)
        return cv_fail(CONVOY_INVALID, "%s is %s: expected at most %s, the best this machine has", name,
                       cv_isa_name(*isa), cv_isa_name(best));
    return CONVOY_OK;
}

static convoy_status fill_machine(const convoy_context_options *o, cv_machine *m)
{
    m->memory = o->allocator.alloc || o->allocator.free ? o->allocator : cv_default_allocator;
    cv_cpu_detect(&m->cpu);
    convoy_status status = choose_threads(o->threads, m->cpu.cores, &m->threads);
    if (status == CONVOY_OK)
        status = choose_isa(o->isa, m->cpu.isa, &m->cpu.isa);
    if (status != CONVOY_OK)
        return status;
    if (!cv_device_list[o->device])
        return cv_fail(
            CONVOY_UNSUPPORTED,
            "device is cuda: this build has no CUDA code (it was configured with CONVOY_CUDA=OFF, or without nvcc)");
    return cv_device_list[o->device]->probe(o->device_index, m);
}

void cv_machine_versions(const cv_machine *m, char *text, size_t bytes)
{
    m->ops->versions(m, text, bytes);
    for (const cv_engine *const *e = cv_engines; *e; e++) {
        const size_t n = strlen(text);
        if ((*e)->device == m->device && (*e)->library && n + 1 < bytes)
            (*e)->library(text + n, bytes - n);
    }
}

static void write_info(const cv_machine *m, const char *wisdom, char *text)
{
    size_t n = 0;
#define PUT(...) (n += (size_t)snprintf(text + n, INFO_BYTES - n, __VA_ARGS__), n = n < INFO_BYTES ? n : INFO_BYTES - 1)
    PUT("version: %s\ndevice: %s\n", convoy_version(), m->ops->name);
    if (m->device == CONVOY_CUDA) {
        PUT("gpu: %s\ngpu_index: %d\ncompute_capability: %d.%d\nmultiprocessors: %d\n", m->gpu_name, m->device_index,
            m->sm_major, m->sm_minor, m->sm_count);
        PUT("gpu_l2_bytes: %zu\ngpu_memory_bytes: %zu\ncuda_driver: %d\ncuda_runtime: %d\n", m->gpu_l2_bytes,
            m->gpu_memory_bytes, m->driver_version, m->runtime_version);
    }
    PUT("cpu: %s\nisa: %s\nthreads: %d\nl1_bytes: %zu\nl2_bytes: %zu\nl3_bytes: %zu\n", m->cpu.model,
        cv_isa_name(m->cpu.isa), m->threads, m->cpu.l1_bytes, m->cpu.l2_bytes, m->cpu.l3_bytes);
    PUT("wisdom: %s\n", wisdom ? wisdom : "off");
    cv_machine_versions(m, text + n, INFO_BYTES - n);
#undef PUT
}

static char *copy_text(const convoy_allocator *memory, const char *text)
{
    char *copy = cv_alloc(memory, strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static convoy_status open_wisdom(convoy_context *c, const char *path)
{
    const convoy_allocator *memory = &c->shared->machine.memory;
    if (!path)
        path = getenv("CONVOY_WISDOM");
    if (!path || !*path || strcmp(path, "off") == 0)
        return CONVOY_OK;
    if (!(c->wisdom_path = copy_text(memory, path)))
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a wisdom path");
    return cv_tuner_table.wisdom_open(c, c->wisdom_path, &c->wisdom);
}

static convoy_status fill_context(convoy_context *c, const convoy_context_options *o)
{
    cv_machine *m = &c->shared->machine;
    c->log = o->log;
    c->log_user = o->log_user;
    convoy_status status = fill_machine(o, m);
    if (status == CONVOY_OK)
        status = cv_pool_create(m->threads, &m->memory, &m->pool);
    if (status == CONVOY_OK)
        status = open_wisdom(c, o->wisdom);
    if (status != CONVOY_OK)
        return status;
    if (!(c->info = cv_alloc(&m->memory, INFO_BYTES)))
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: the context's description");
    write_info(m, c->wisdom_path, c->info);
    return CONVOY_OK;
}

convoy_status convoy_context_create(const convoy_context_options *options, convoy_context **out)
{
    const convoy_context_options defaults = {0}, *o = options ? options : &defaults;
    if (!out)
        return cv_fail(CONVOY_INVALID, "context is NULL: expected a place for the handle");
    *out = NULL;
    if (o->device != CONVOY_CPU && o->device != CONVOY_CUDA)
        return cv_fail(CONVOY_INVALID, "device is %d: expected CONVOY_CPU or CONVOY_CUDA", (int)o->device);
    if (!o->allocator.alloc != !o->allocator.free)
        return cv_fail(CONVOY_INVALID, "allocator has only one of alloc and free: expected both or neither");
    const convoy_allocator *memory = o->allocator.alloc ? &o->allocator : &cv_default_allocator;
    convoy_context *c = cv_alloc(memory, sizeof *c);
    cv_shared *shared = cv_alloc(memory, sizeof *shared);
    if (!c || !shared) {
        cv_free(memory, c);
        cv_free(memory, shared);
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a context");
    }
    memset(c, 0, sizeof *c);
    memset(shared, 0, sizeof *shared);
    atomic_init(&shared->references, 1);
    shared->machine.memory = *memory;
    c->shared = shared;
    const cv_device_ops *ops = cv_device_list[o->device];
    cv_caller caller;
    if (ops)
        cv_caller_enter(&caller, ops);
    convoy_status status = fill_context(c, o);
    if (ops)
        cv_caller_leave(&caller);
    if (status == CONVOY_OK)
        *out = c;
    else
        convoy_context_destroy(c);
    return status;
}

void convoy_context_destroy(convoy_context *c)
{
    if (!c)
        return;
    convoy_allocator memory = c->shared->machine.memory;
    if (c->wisdom)
        cv_tuner_table.wisdom_close(c, c->wisdom);
    cv_free(&memory, c->wisdom_path);
    cv_free(&memory, c->info);
    cv_shared_release(c->shared);
    cv_free(&memory, c);
}

const char *convoy_context_info(const convoy_context *context) { return context ? context->info : ""; }
