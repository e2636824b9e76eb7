/* What the processor is: instruction sets, caches, cores. All functions are thread-safe. */
#ifndef CV_CPU_H
#define CV_CPU_H

#include <stddef.h>

typedef enum cv_isa { CV_SCALAR = 0, CV_AVX2 = 1, CV_AVX512 = 2 } cv_isa;

typedef struct cv_cpu {
    char model[96];
    cv_isa isa;                          /* the best that processor and operating system offer */
    int cores;                           /* that this process may run on */
    size_t l1_bytes, l2_bytes, l3_bytes; /* data caches: a core's, a core's, and the one that cores share; never 0 */
} cv_cpu;

void cv_cpu_detect(cv_cpu *cpu);
const char *cv_isa_name(cv_isa isa);
/* 1 and *isa set when text is "scalar", "avx2" or "avx512". */
int cv_isa_parse(const char *text, cv_isa *isa);

/* The caller's rounding and flush modes, put aside while the library computes. */
typedef struct cv_fpenv {
    unsigned control;
} cv_fpenv;
void cv_fpenv_enter(cv_fpenv *saved); /* round to nearest, subnormals kept, exceptions masked */
void cv_fpenv_leave(const cv_fpenv *saved);

double cv_now_s(void); /* a monotonic clock, in seconds */

#endif
