/* The direct sum, in the order of the exact contract:
 *
 *   acc = +0;  acc = fmaf(x, w, acc) over c, then r, then s, ascending, taps outside the image skipped;  y = acc [+
 * bias]
 *
 * Lanes are outputs and a chain is never cut across lanes, so an output's bits depend on nothing but its x, w and bias:
 * not on the instruction set, the thread, the neighbours asked for in the same call, or the strides of the tensors.
 *
 * The two functions below recompute outputs in place, from the caller's tensors, without workspace. They run on the
 * calling thread, allocate nothing and take no lock, so tasks of a pool may call them side by side on different
 * outputs. Rounding must be to nearest with subnormals kept (cv_fpenv_enter; the pool's workers are in it). Whole
 * tensors go through whole.h, which packs and blocks.
 */
#ifndef CV_CHAIN_H
#define CV_CHAIN_H

#include "convoy/convoy.h"
#include "platform/cpu.h"

typedef struct cv_chain_io {
    const float *x, *w, *bias; /* element (0,0,0,0) of each; bias NULL: none */
    float *y;
} cv_chain_io;

/* Half-open ranges of outputs; empty ones are fine. Must lie inside (N, K, P, Q). */
typedef struct cv_chain_box {
    int64_t n0, n1, k0, k1, p0, p1, q0, q1;
} cv_chain_box;

/* Writes y over the box, and nothing else of y. problem has its twelve element strides filled in (a cv_request's
 * problem has; set w_stride to read w from a copy of one's own); groups, strides, dilations and pads are all honoured.
 */
void cv_chain_box_run(cv_isa isa, const convoy_problem *problem, const cv_chain_io *io, const cv_chain_box *box);

/* Writes y at count chosen outputs: index[i] is the flat position in a packed (N, K, P, Q) tensor, as in
 * convoy_reference. */
void cv_chain_list_run(cv_isa isa, const convoy_problem *problem, const cv_chain_io *io, int64_t count,
                       const int64_t *index);

#endif
