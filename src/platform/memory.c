#include "memory.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    const size_t huge = (size_t)2 << 20;
    const size_t align = bytes >= 2 * huge ? huge : 64;
    if (bytes > SIZE_MAX - align)
        return NULL;
    void *block = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (block && align == huge)
        madvise(block, bytes, MADV_HUGEPAGE); /* a hint; strided passes over large spectra would thrash the TLB */
    return block;
}

static void default_free(void *user, void *block)
{
    (void)user;
    free(block);
}

const convoy_allocator cv_default_allocator = {default_alloc, default_free, NULL};

void *cv_library_open(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
    }
    return NULL;
}

int cv_library_is_loaded(const char *const *names)
{
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (library) {
            dlclose(library);
            return 1;
        }
    }
    return 0;
}

void *cv_library_symbol(void *library, const char *name) { return dlsym(library, name); }

void cv_library_close(void *library)
{
    if (library)
        dlclose(library);
}
