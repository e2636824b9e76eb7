/* The remaining kernels of src/chain, one set an instruction set (see simd/simd.h). */
#ifndef CV_CHAIN_KERNELS_H
#define CV_CHAIN_KERNELS_H

#include "chain.h"

#define CV_CHAIN_DECLARE(isa)                                                                                          \
    void cv_chain_list_##isa(const convoy_problem *p, int64_t Q, int64_t PQ, const cv_chain_io *io, int64_t count,     \
                             const int64_t *index);

CV_CHAIN_DECLARE(scalar)
CV_CHAIN_DECLARE(avx2)
CV_CHAIN_DECLARE(avx512)

#endif
