/* Problem helpers inside the library; the public ones are in convoy.h. */
#ifndef CV_PROBLEM_H
#define CV_PROBLEM_H

#include "convoy/convoy.h"
#include "platform/status.h"

/* P and Q of a problem whose fields are in range. */
convoy_status cv_problem_sizes(const convoy_problem *p, int64_t *P, int64_t *Q);

/* Writes all twelve strides; clears p->strided when they turn out to be the packed ones. */
void cv_problem_fill_strides(convoy_problem *p, int64_t P, int64_t Q);

/* Gives strides over a single output, and dilations of a single tap, which mean nothing, values that no product
 * overflows with. P and Q stay. */
void cv_problem_settle(convoy_problem *p);

#endif
