/* What a problem's outputs are, in FP64, and how a plan's run compares. */
#ifndef CLI_TRUTH_H
#define CLI_TRUTH_H

#include "bound.h"

struct cli_samples {
    int64_t count;
    int64_t *index;
    double *value, *norm; /* the sum, and sum |x||w| */
};

struct cli_truth {
    bool all; /* every output is a sample */
    struct cli_samples samples;
    struct cli_samples points; /* of sum over k of sign(k) * y, at places of (N, P, Q); none when all or K = 1 */
    uint64_t seed;
};

enum cli_bits { BITS_NOT_COMPARED, BITS_EQUAL, BITS_DIFFER };

struct cli_verdict {
    bool ok;
    double worst, bound; /* the error that comes closest to its bound, or exceeds it most */
    int64_t where;       /* its index in (N, K, P, Q); a projection's has k = 0 */
    const char *what;    /* "output", "projection over k", "bits", "match" */
    double max_abs_err, rel_rms_err;
    int64_t checked, chained; /* outputs compared with FP64, and with the exact chain */
    enum cli_bits bits;
};

/* Everything when the direct sum has at most 2 GFLOP, else about 4,600 seeded outputs and the projection (when asked
 * for). */
int truth_make(const struct cli_case *c, uint64_t seed, bool always_sample, bool project, struct cli_truth *truth);
void truth_free(struct cli_truth *truth);

/* "all 4,096 outputs", "4,608 of 3.7 M outputs (corners and tile seams among them) and a projection over k at 512
 * places" */
void truth_text(const struct cli_case *c, const struct cli_truth *truth, char *text, size_t bytes);

/* Compares c->y_host with the truth; with seams, also at the edges of the plan's tiles. */
int truth_compare(const struct cli_case *c, const struct cli_truth *truth, const convoy_plan_info *info,
                  const convoy_plan_options *options, bool seams, struct cli_verdict *v);

/* Compares bits with the exact contract's chain, written out here, at some samples, and with a whole tensor (may be
 * NULL). */
void truth_bits(const struct cli_case *c, const struct cli_truth *truth, const float *exact, struct cli_verdict *v);

/* The match contract: |y - exact| <= atol + rtol * |exact| at every output; exact NULL: at some samples. */
void truth_match(const struct cli_case *c, const struct cli_truth *truth, const float *exact, double rtol, double atol,
                 struct cli_verdict *v);

#endif
