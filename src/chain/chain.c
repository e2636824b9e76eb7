/* Sends each call to the kernels of the instruction set in use. */
#include "chain.h"
#include "kernels.h"

void cv_chain_box_run(cv_isa isa, const convoy_problem *problem, const cv_chain_io *io, const cv_chain_box *box)
{
    static void (*const run[])(const convoy_problem *, const cv_chain_io *,
                               const cv_chain_box *) = {cv_chain_box_scalar, cv_chain_box_avx2, cv_chain_box_avx512};
    run[isa](problem, io, box);
}

void cv_chain_list_run(cv_isa isa, const convoy_problem *problem, const cv_chain_io *io, int64_t count,
                       const int64_t *index)
{
    static void (*const run[])(const convoy_problem *, int64_t, int64_t, const cv_chain_io *, int64_t,
                               const int64_t *) = {cv_chain_list_scalar, cv_chain_list_avx2, cv_chain_list_avx512};
    int64_t P, Q;
    if (count > 0 && convoy_problem_output(problem, &P, &Q) == CONVOY_OK)
        run[isa](problem, Q, P * Q, io, count, index);
}
