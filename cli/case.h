/* One problem's tensors, on the host and on a context's device, and running plans on them. */
#ifndef CLI_CASE_H
#define CLI_CASE_H

#include "cli.h"

struct cli_case {
    convoy_context *context;
    const char *text; /* the problem's string */
    bool prepared;    /* plans get weights transformed ahead */
    convoy_problem problem;
    int64_t P, Q;
    int64_t xs, ws, ys;                 /* elements */
    float *x_host, *w_host, *bias_host; /* (N,C,H,W)  (K,C/G,R,S)  (K) or NULL */
    float *y_host;                      /* (N,K,P,Q): the last run's output */
    float *x, *w, *bias, *y;            /* on the device; on the CPU the same memory */
};

/* normal(0,1) draws that depend on seed and position alone. */
void cli_normal(float *out, int64_t count, uint64_t seed);

/* 64 bits from a counter, for choosing samples. */
uint64_t cli_random(uint64_t seed, uint64_t counter);

/* Makes the tensors and fills x, w and, when the plan options say so, bias. One line on standard error when it cannot.
 */
int case_open(convoy_context *context, const convoy_problem *problem, const char *text, const struct cli_options *o,
              struct cli_case *c);
void case_close(struct cli_case *c);

/* Element i of a packed (N, K, P, Q) output. */
struct cli_place {
    int64_t n, k, p, q;
};
struct cli_place case_place(const struct cli_case *c, int64_t index);
int64_t case_index(const struct cli_case *c, struct cli_place at);

enum { CASE_PHASES = 16 };

/* Runs a plan once, y and the workspace filled with NaN before, and brings y to y_host. With phases (room for
 * CASE_PHASES) it runs more often and takes their times. Prepares the weights itself when the case says so. */
convoy_status case_execute(struct cli_case *c, const convoy_plan *plan, convoy_phase *phases, int *phase_count);

#endif
