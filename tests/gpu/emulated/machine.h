/* The emulated machine, for the tests that use it. */
#ifndef CV_EMULATED_MACHINE_H
#define CV_EMULATED_MACHINE_H

#include <stddef.h>

namespace emulated
{

/* Compute capability: from 9 on there is a tensor copy engine. */
extern int capability;
/* When asynchronous copies take place, and in which order threads run: as early as they may, or as late. */
extern bool late;
/* Blocks that have run. */
extern long blocks_run;
/* Bytes whose last one is followed by memory that may not be touched, 16-byte aligned where bytes is a multiple of 16;
 * all hold NaN. */
void *guarded(size_t bytes);

} // namespace emulated

#endif
