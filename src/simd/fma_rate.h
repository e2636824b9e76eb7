/* rounds times CV_FMA_CHAINS independent multiply-adds of one vector each; compiled once per instruction set. */
#ifndef CV_FMA_RATE_H
#define CV_FMA_RATE_H

#include <stdint.h>

enum { CV_FMA_CHAINS = 12 };

float cv_fma_scalar(int64_t rounds);
float cv_fma_avx2(int64_t rounds);
float cv_fma_avx512(int64_t rounds);

#endif
