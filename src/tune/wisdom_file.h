/* Wisdom books on disk: read whole, replaced whole. */
#ifndef CV_WISDOM_FILE_H
#define CV_WISDOM_FILE_H

#include "wisdom_book.h"

#include <stdint.h>

/* What tells one state of a file from the next; all 0 when there is no file. */
typedef struct cv_stamp {
    uint64_t device, inode, bytes, seconds, nanoseconds;
} cv_stamp;

void cv_wisdom_stamp(const char *path, cv_stamp *stamp);

/* Reads a file into an open book. A missing file is an empty one. IO_ERROR when it cannot be read or is no regular
 * file. */
convoy_status cv_wisdom_read(const char *path, cv_book *book, cv_stamp *stamp);

/* Reads the file, lets change alter the book, and replaces the file atomically; other writers wait meanwhile, so
 * nobody's lines are lost. The open book given is left with what was written. A file that is read-only, or not a wisdom
 * file, is left alone: IO_ERROR. */
convoy_status cv_wisdom_update(const char *path, cv_book *book, cv_stamp *stamp,
                               convoy_status (*change)(void *user, cv_book *book), void *user);

#endif
