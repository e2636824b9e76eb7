/* Picks the vector vocabulary for the translation unit. The build compiles each kernel source once per instruction set,
 * with CV_ISA_AVX512, CV_ISA_AVX2 or CV_ISA_SCALAR defined and only that set's flags; CV_ISA_NAME(f) gives the symbol
 * its suffix (f_avx512, f_avx2, f_scalar). Everything but that one exported name must be static. */
#ifndef CV_SIMD_H
#define CV_SIMD_H

#if defined(CV_ISA_AVX512)
#include "vec_avx512.h"
#define CV_ISA_NAME(f) f##_avx512
#elif defined(CV_ISA_AVX2)
#include "vec_avx2.h"
#define CV_ISA_NAME(f) f##_avx2
#elif defined(CV_ISA_SCALAR)
#include "vec_scalar.h"
#define CV_ISA_NAME(f) f##_scalar
#else
#error "compile through convoy_isa_sources(), which defines CV_ISA_*"
#endif

#endif
