/* What the commands of `convoy` share: options, errors, contexts. The command line uses the public API only. */
#ifndef CLI_H
#define CLI_H

#include <convoy/convoy.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, which every function here that returns int uses too. */
enum { CLI_OK = 0, CLI_MISS = 1, CLI_BAD = 2 };

/* Room for any problem's string: 16 numbers of 19 digits and what stands between them. */
enum { CLI_PROBLEM_TEXT = 400 };

struct cli_options {
    const char *command;
    char **words; /* what is left after the options: problems, suites, files */
    int word_count;

    /* context */
    int device; /* a convoy_device, or -1: a GPU when there is one */
    int device_index;
    int threads;
    const char *isa, *wisdom;
    bool json;

    /* plan */
    convoy_plan_options plan;
    bool tolerance; /* --rtol or --atol was given */

    /* data and reports */
    uint64_t seed;
    double seconds; /* a measurement's time limit */
    bool phases, sweep, peers, compare, ceilings;
    double budget_s;

    /* run */
    const char *x, *w, *bias, *output;
    int64_t stride[2], dilation[2], pad[4], groups;
    bool pad_same;
};

/* One line on standard error, "convoy COMMAND: ...", and CLI_BAD. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* cli_error with the library's last message. where may be NULL. */
int cli_failed(const char *where, convoy_status status);

/* CLI_BAD when what was printed so far has not arrived (closed pipe, full disk). */
int cli_flush(void);

/* Makes the context that the options ask for. */
int cli_context(const struct cli_options *o, convoy_context **context);

/* The wisdom file that the options and the environment mean: a path, or NULL for none. text holds bytes. */
const char *cli_wisdom_path(const struct cli_options *o, char *text, size_t bytes);

/* Makes the folder that a file is to lie in, and those above it. */
int cli_make_folder(const char *path);

/* The device of a context, from what it says about itself. */
convoy_device cli_device(const convoy_context *context);
int cli_threads(const convoy_context *context);

double cli_now_s(void);

/* malloc that answers NULL with one line; 0 bytes are fine. */
void *cli_alloc(double bytes, const char *what);

/* "12.3 MiB", "1.23 ms": each call in an expression needs a text of its own. */
struct cli_text {
    char s[48];
};
struct cli_text cli_bytes(double bytes);
struct cli_text cli_ms(double seconds);
struct cli_text cli_count(double count); /* 3.7 M */

/* Text that a shell takes as one word. */
void cli_quote(const char *word, char *text, size_t bytes);

/* The commands. */
int cli_run(struct cli_options *o);
int cli_verify(struct cli_options *o);
int cli_bench(struct cli_options *o);
int cli_tune(struct cli_options *o);
int cli_explain(struct cli_options *o);
int cli_engines(struct cli_options *o);
int cli_info(struct cli_options *o);
int cli_wisdom(struct cli_options *o);

#endif
