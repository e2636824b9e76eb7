/* Which engines and tuning choices verify and bench go through for a problem. */
#ifndef CLI_CHOICES_H
#define CLI_CHOICES_H

#include "cli.h"

struct cli_choice {
    char name[128]; /* for convoy_plan_options.engine: "fft" or "fft:ty32tx32" */
    double predicted_s;
};

struct cli_choices {
    struct cli_choice *list;
    int count;
};

/* One entry an engine that accepts the problem, the likely best choice; with o->sweep every choice. Engines that are
 * used only when named come along when named, or with_named. CLI_BAD after a line on standard error when there is none.
 */
int cli_choices(const struct cli_options *o, convoy_context *context, const convoy_problem *problem, bool with_named,
                struct cli_choices *choices);

/* "fft:ty32tx32" from a plan, as convoy_plan_options.engine takes it: without the +chain of composed plans. */
void cli_choice_name(const convoy_plan_info *info, char *name, size_t bytes);

#endif
