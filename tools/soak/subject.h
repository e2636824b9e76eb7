/* What one round of the soak is about: a random problem, its data, and what is right. */
#ifndef SOAK_SUBJECT_H
#define SOAK_SUBJECT_H

#include <convoy/convoy.h>

enum { SAMPLES = 256, CANARY = 64 }; /* outputs looked at; floats before and behind y */

typedef struct subject {
    convoy_problem p;
    int64_t P, Q, count[3], index[SAMPLES];
    int bias, odd, samples;                   /* odd: special values among x */
    float *x, *w, *b, *y;                     /* host; y with its canaries */
    double value[SAMPLES], bound[2][SAMPLES]; /* bound: sums of |x||w|, and of channels' norms */
    float chain[SAMPLES];
    char text[400];
} subject;

/* The same for a seed on every machine. */
uint64_t soak_bits(uint64_t *state);
int64_t soak_in(uint64_t *state, int64_t least, int64_t most);

/* Ends the program: what the library said is no miss but a fault of the soak or of its machine. */
void soak_fatal(const char *what);
void soak_must(convoy_status status, const char *what);

/* most_flop bounds the direct sum. truth is a context on the CPU. */
void subject_make(subject *c, uint64_t *state, double most_flop, convoy_context *truth);
void subject_free(subject *c);

#endif
