#include "cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <xmmintrin.h>
#define CV_X86 1
#else
#include <fenv.h>
#define CV_X86 0
#endif

static const char *const isa_names[] = {"scalar", "avx2", "avx512"};

const char *cv_isa_name(cv_isa isa) { return isa_names[isa]; }

int cv_isa_parse(const char *text, cv_isa *isa)
{
    for (int i = CV_SCALAR; i <= CV_AVX512; i++)
        if (strcmp(text, isa_names[i]) == 0) {
            *isa = (cv_isa)i;
            return 1;
        }
    return 0;
}

static cv_isa best_isa(void)
{
#if CV_X86
    __builtin_cpu_init(); /* its answers include what the operating system saves on a context switch */
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("fma"))
        return CV_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return CV_AVX2;
#endif
    return CV_SCALAR;
}

static void model_name(char *model, size_t bytes)
{
    snprintf(model, bytes, "unknown");
#if CV_X86
    unsigned r[12] = {0}, highest = __get_cpuid_max(0x80000000u, NULL);
    if (highest < 0x80000004u)
        return;
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    char text[sizeof r + 1];
    memcpy(text, r, sizeof r);
    text[sizeof r] = 0;
    size_t from = strspn(text, " "), to = strlen(text);
    while (to > from && text[to - 1] == ' ')
        to--;
    text[to] = 0;
    if (to > from)
        snprintf(model, bytes, "%s", text + from);
#endif
}

/* The data or unified cache of a level by CPUID's own list (Intel: leaf 4, AMD: 0x8000001D); 0 when it has none. */
static size_t listed_cache_bytes(unsigned level)
{
#if CV_X86
    unsigned a, b, c, d, leaf = 4;
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d) && c >> 22 & 1)
        leaf = 0x8000001Du;
    for (unsigned i = 0; i < 16 && __get_cpuid_count(leaf, i, &a, &b, &c, &d); i++) {
        const unsigned kind = a & 31;
        if (kind == 0)
            break;
        if (kind != 2 && (a >> 5 & 7) == level)
            return (size_t)((b >> 22) + 1) * ((b >> 12 & 1023) + 1) * ((b & 4095) + 1) * ((size_t)c + 1);
    }
#else
    (void)level;
#endif
    return 0;
}

/* The C library's answer comes second: on AMD it has been the L3 of all complexes of a socket together, of which a core
 * reaches one. */
static size_t cache_bytes(unsigned level, int name, size_t fallback)
{
    const size_t listed = listed_cache_bytes(level);
    if (listed > 0)
        return listed;
    const long v = sysconf(name);
    return v > 0 ? (size_t)v : fallback;
}

void cv_cpu_detect(cv_cpu *cpu)
{
    memset(cpu, 0, sizeof *cpu);
    model_name(cpu->model, sizeof cpu->model);
    cpu->isa = best_isa();
    cpu_set_t set;
    CPU_ZERO(&set);
    cpu->cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
    if (cpu->cores < 1) { /* more cores than a cpu_set_t holds */
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        cpu->cores = online > 0 ? (int)online : 1;
    }
    cpu->l1_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE, 32u << 10);
    cpu->l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, 1u << 20);
    cpu->l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, 16u << 20);
}

void cv_fpenv_enter(cv_fpenv *saved)
{
#if CV_X86
    saved->control = _mm_getcsr();
    _mm_setcsr(0x1f80);
#else
    saved->control = (unsigned)fegetround();
    fesetround(FE_TONEAREST);
#endif
}

void cv_fpenv_leave(const cv_fpenv *saved)
{
#if CV_X86
    _mm_setcsr(saved->control);
#else
    fesetround((int)saved->control);
#endif
}

double cv_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
