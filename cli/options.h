#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli.h"

/* Groups of options that a command takes. */
enum {
    TAKES_PLAN = 1,
    TAKES_DATA = 2,
    TAKES_RUN = 4,
    TAKES_VERIFY = 8,
    TAKES_BENCH = 16,
    TAKES_TUNE = 32,
    TAKES_INFO = 64
};

struct cli_command {
    const char *name;
    const char *words; /* usage of what follows the options */
    const char *about; /* one line */
    unsigned takes;
    int least_words, most_words; /* most_words < 0: any number */
    int (*run)(struct cli_options *o);
};

/* Fills o from the words after the command's name. CLI_BAD after one line on standard error. --help exits. */
int cli_parse(const struct cli_command *command, int argc, char **argv, struct cli_options *o);

/* Values as text, strictly; true on success. */
bool parse_int(const char *text, int64_t least, int64_t most, int64_t *value);
bool parse_real(const char *text, double least, double *value);
bool parse_bytes(const char *text, size_t *bytes);                 /* 16777216, 16384K, 16M, 1G: powers of 1024 */
bool parse_pair(const char *text, int64_t least, int64_t pair[2]); /* 3 or 3x5 */
bool parse_padding(const char *text, int64_t pad[4], bool *same);  /* 3, 3x5, 1,2,3,4 (t,b,l,r) or same */
bool parse_device(const char *text, int *device, int *index);      /* cpu, cuda, cuda:1 */

#endif
