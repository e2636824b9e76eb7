/* The problems that a command's words name. */
#ifndef CLI_PROBLEMS_H
#define CLI_PROBLEMS_H

#include "cli.h"

struct cli_problem {
    convoy_problem problem;
    char text[CLI_PROBLEM_TEXT]; /* as convoy_problem_print writes it */
};

struct cli_problems {
    struct cli_problem *list;
    int count;
};

/* Each word is a problem string, A, B, C or D, a suite's name (its file's stem), or the path of a suite file. */
int cli_problems(const struct cli_options *o, struct cli_problems *problems);

#endif
