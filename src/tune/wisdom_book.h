/* A wisdom file in memory: its lines, sorted into one section a machine. Text only; wisdom_file.c knows files,
 * wisdom_entry.c what keys and values say.
 *
 *   # convoy wisdom 1
 *   machine cpu: ...; isa: avx512; threads: 2; convoy: 0.1.0 #1f0c92ab
 *   n4c64h128k64r8 fp32 = all: fft.1:ty32tx32 median_ns=18000000 spread_ns=300000; ... #02d5e7c1
 *
 * Every line ends in a checksum. That of an entry starts from its section's, so that an entry whose head was damaged
 * cannot slip into the section before. A line that does not check out is counted and left out, and is gone when the
 * file is next written. */
#ifndef CV_WISDOM_BOOK_H
#define CV_WISDOM_BOOK_H

#include "platform/memory.h"
#include "platform/status.h"

typedef struct cv_book_line {
    int section;
    const char *key, *value;
} cv_book_line;

typedef struct cv_book {
    const convoy_allocator *memory;
    struct cv_book_block *blocks; /* every text that the lines point to */
    const char **section;
    cv_book_line *line;
    int sections, section_room, lines, line_room;
    int damaged; /* lines left out */
    int foreign; /* 1: text in which nothing speaks for a wisdom file; it must not be overwritten */
} cv_book;

/* An empty book. memory must outlive it. */
void cv_book_open(cv_book *book, const convoy_allocator *memory);
void cv_book_close(cv_book *book);

/* Adds the lines of a text, which need not end in a zero. OK whatever it holds, or OUT_OF_MEMORY. */
convoy_status cv_book_parse(cv_book *book, const char *text, size_t bytes);

/* The value of a key in a section; NULL when it has none. */
const char *cv_book_find(const cv_book *book, const char *section, const char *key);

/* Sets a value. Its texts are copied. */
convoy_status cv_book_put(cv_book *book, const char *section, const char *key, const char *value);

/* Removes lines for which drop says 1. */
void cv_book_prune(cv_book *book, int (*drop)(void *user, const char *section, const char *key, const char *value),
                   void *user);

/* The book as a file's text, from its allocator. */
convoy_status cv_book_print(const cv_book *book, char **text, size_t *bytes);

#endif
