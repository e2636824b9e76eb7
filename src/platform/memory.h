/* Host memory, paths and shared libraries. */
#ifndef CV_MEMORY_H
#define CV_MEMORY_H

#include "convoy/convoy.h"

/* The allocator used when the caller gives none: 64-byte aligned, large blocks on huge pages where there are some. */
extern const convoy_allocator cv_default_allocator;

static inline void *cv_alloc(const convoy_allocator *memory, size_t bytes)
{
    return memory->alloc(memory->user, bytes);
}
static inline void cv_free(const convoy_allocator *memory, void *block)
{
    if (block)
        memory->free(memory->user, block);
}

/* dlopen of the first of a NULL-ended list of names that loads, with symbols kept local; NULL when none does. */
void *cv_library_open(const char *const *names);
/* 1 when the process has one of them loaded already, by whatever way. */
int cv_library_is_loaded(const char *const *names);
/* NULL when the library has no such symbol. */
void *cv_library_symbol(void *library, const char *name);
void cv_library_close(void *library);

#endif
