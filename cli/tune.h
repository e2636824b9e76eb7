#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "problems.h"

/* convoy tune --compare: what the cost model alone chooses against the quickest of all choices. */
int tune_compare(const struct cli_options *o, convoy_context *context, const struct cli_problems *problems);

#endif
