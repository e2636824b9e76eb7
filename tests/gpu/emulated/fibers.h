/* The emulated machine's parts, for each other. */
#ifndef CV_EMULATED_FIBERS_H
#define CV_EMULATED_FIBERS_H

#include "instructions.h"
#include "machine.h"

namespace emulated
{

/* Says which thread does what it may not, and ends the test. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void fault(const char *format, ...);
/* Shared memory at an address, if an access of that kind may be there. */
char *shared_at(unsigned address, size_t bytes, size_t alignment);
/* Others run, until this thread looks again for what it waits for; and what makes looking again worth while. */
void busy_wait();
void progress();
/* Changes with each meeting of this thread's warp. */
int turn_of_warp();

/* A block's beginning and end: copies.cpp, products.cpp. */
void begin_copies(int threads);
void end_copies();
void begin_products(int threads);
void end_products();

} // namespace emulated

#endif
