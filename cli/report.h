/* What the commands print: JSON lines, and a progress line on a terminal. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli.h"

#include <cjson/cJSON.h>

/* A number with six significant digits; null when it is not finite. */
void json_real(cJSON *object, const char *key, double value);

/* Prints the object on a line of its own, frees it, and flushes: CLI_BAD when that failed. */
int json_line(cJSON *object);

/* A line on standard error that is written over again and again; nothing when that is no terminal. done is in 0..1, or
 * negative without a bar. */
void progress_show(double done, double seconds_left, const char *format, ...) __attribute__((format(printf, 3, 4)));
void progress_clear(void);
bool progress_on_terminal(void);

#endif
