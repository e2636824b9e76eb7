/* What the tests in this folder share: tensors of one problem, the truth in FP64, the exact chain, running one plan on
 * poisoned memory, and walking the engines. Public interface only, so that what holds here holds for every user. */
#ifndef CONVOY_TEST_HARNESS_H
#define CONVOY_TEST_HARNESS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <convoy/convoy.h>

/* One problem with tensors of its own. Elements of strided tensors are reached through x_at, w_at, y_at. */
typedef struct test_case {
    convoy_problem p; /* strides filled in, whether strided or not */
    int64_t P, Q, outputs;
    int64_t floats[3]; /* of the buffers behind x, w, y */
    int64_t origin[3]; /* of element (0,0,0,0) in them */
    float *x, *w, *y;  /* buffers */
    float *bias;       /* K floats, or NULL */
} test_case;

/* ---- Random numbers (splitmix64): the same on every machine */
uint64_t random_bits(uint64_t *state);
int64_t random_in(uint64_t *state, int64_t least, int64_t most);
float random_normal(uint64_t *state);

/* ---- Libraries that a process asks for once: this program again as `PROGRAM probe`, with FOLDER before others in
 * LD_LIBRARY_PATH. Its first line, and how it ended as wait() has it; -1 when it said nothing. */
int probe_with_libraries(const char *folder, char *line, size_t bytes);

/* ---- Cases */
test_case case_of(const char *problem_string);
test_case case_make(const convoy_problem *problem);
void case_free(test_case *c);
void case_add_bias(test_case *c);
void case_fill_normal(test_case *c, uint64_t seed);
void case_fill_integers(test_case *c,
                        uint64_t seed); /* exact in FP32: x to +-4095 at 25 % density, w +-1, bias small */
float *x_at(const test_case *c, int64_t n, int64_t channel, int64_t i, int64_t j);
float *w_at(const test_case *c, int64_t k, int64_t channel, int64_t r, int64_t s);
float *y_at(const test_case *c, int64_t n, int64_t k, int64_t p, int64_t q);
float *y_flat(const test_case *c, int64_t output); /* by position in a packed (N, K, P, Q) tensor */

/* ---- Right answers */
void truth_of(const test_case *c, double *values, double *norms); /* FP64 sums and sum |x||w|, of all outputs */
void chain_of(const test_case *c, float *values);                 /* the exact contract's chain, of all outputs */
double norm_bound_of(const test_case *c, int64_t output); /* sum over c of ||x channel|| ||w channel|| + |bias| */

/* ---- Running. The context's device may be a GPU: tensors are copied there and back. */
convoy_context *context_make(int threads, const char *isa);
int on_gpu(void);
long resident_kib(void); /* of this process, all threads together */

/* Makes a plan, runs it once on a NaN-filled workspace and y, copies y back. info may be NULL. */
convoy_status case_run(convoy_context *context, test_case *c, const convoy_plan_options *options,
                       convoy_plan_info *info);
convoy_status case_run_plan(convoy_context *context, test_case *c, const convoy_plan *plan, int prepared);

/* ---- Engines. Each of the context's device that accepts the case is run by name; check sees y and how it was made. */
typedef void (*engine_check)(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user);
int each_engine(convoy_context *context, test_case *c, convoy_math math, engine_check check, void *user);

/* Checks y as each engine owes it: the chain bit for bit where EXACT is kept, else the documented bound. Fails the test
 * with the worst output's place. */
void check_contract(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user);
int same_float(float a, float b); /* equal bits, or both NaN */
void show_case(const test_case *c, char text[160]);

int run_all(const struct CMUnitTest *tests, size_t count, const char *name);
#define RUN_TESTS(tests) run_all(tests, sizeof(tests) / sizeof *(tests), #tests)

#endif
