/* What error a plan may make at an output (docs/numerics.md). */
#ifndef CLI_BOUND_H
#define CLI_BOUND_H

#include "case.h"

struct cli_bound {
    int kind; /* convoy_plan_info.error_bound_kind */
    double factor;
    double rtol, atol;      /* match: what comes on top of the chain's own error */
    int64_t step_h, step_w; /* transform engines: outputs of the stride-1 sum that a tile yields, */
    int64_t tile_h, tile_w; /* its sides, */
    int64_t down, across;   /* and how many tiles there are */
    double *norms;          /* (N, tiles, K): sum over c of ||x tile|| * ||w|| */
};

int bound_make(const struct cli_case *c, const convoy_plan_info *info, const convoy_plan_options *options,
               struct cli_bound *b);
void bound_free(struct cli_bound *b);

/* For output i, whose sum |x||w| is given (used by direct engines). */
double bound_at(const struct cli_bound *b, const struct cli_case *c, int64_t i, double sum_of_magnitudes);

#endif
