/* Wisdom files for tests: made, changed, counted, through the public interface and the file system only. */
#ifndef CONVOY_TEST_FILES_H
#define CONVOY_TEST_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <convoy/convoy.h>

/* The name of a file of this test process; nothing is there. */
const char *fresh_path(void);

void write_file(const char *path, const char *text, size_t bytes);
char *read_file(const char *path, size_t *bytes); /* ends in a zero; free it */

/* A context on two threads with a wisdom file; warnings counts its log's warnings. */
convoy_context *context_with(const char *path, int *warnings);

/* Makes a plan, frees it, and gives what it says; source and measured_s are what tests look at. */
convoy_plan_info plan_once(convoy_context *context, const char *problem, const convoy_plan_options *options);

/* plan_once, MEASURE, with a short limit. */
convoy_plan_info tune_once(convoy_context *context, const char *problem);

/* Entries and damaged lines of a file; -1 when it cannot be read. */
int count_entries(const char *path, int *damaged);

/* The value of a key in the first section that has it, to be freed; NULL when none has. */
char *value_of(const char *path, const char *key);
/* The section of the first entry, to be freed. */
char *machine_of(const char *path);

/* Appends to text a head, or an entry of the section machine, with the checksum that the format asks for. */
void put_head(char *text, const char *machine);
void put_entry(char *text, const char *machine, const char *key, const char *value);

#endif
