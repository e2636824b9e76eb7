/* The search for vendors' libraries: environment, what is loaded, the loader, Python's folders, the system's. */
#include "library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024 };

static void *load(const char *path) { return dlopen(path, RTLD_NOW | RTLD_LOCAL); }

/* The last match of a glob is the newest Python or toolkit. */
static void *load_glob(const char *folder, const char *name)
{
    char pattern[2 * PATH_BYTES];
    glob_t found;
    void *library = NULL;
    if ((size_t)snprintf(pattern, sizeof pattern, "%s/%s", folder, name) >= sizeof pattern)
        return NULL;
    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = found.gl_pathc; i-- > 0 && !library;)
        library = load(found.gl_pathv[i]);
    globfree(&found);
    return library;
}

/* PREFIX/lib/python3.x/{site,dist}-packages/PYTHON/NAME */
static void *load_python(const char *prefix, const char *python, const char *name)
{
    static const char *const folders[] = {"lib/python3*/site-packages", "lib64/python3*/site-packages",
                                          "lib/python3*/dist-packages"};
    char folder[PATH_BYTES];
    for (size_t i = 0; prefix && *prefix && i < sizeof folders / sizeof *folders; i++) {
        if ((size_t)snprintf(folder, sizeof folder, "%s/%s/%s", prefix, folders[i], python) >= sizeof folder)
            continue;
        void *library = load_glob(folder, name);
        if (library)
            return library;
    }
    return NULL;
}

/* The prefix of the python3 that PATH would run: two folders up from it. */
static const char *python_on_path(char prefix[PATH_BYTES])
{
    const char *path = getenv("PATH");
    while (path && *path) {
        const size_t n = strcspn(path, ":");
        char file[PATH_BYTES];
        if (n && n < PATH_BYTES - 16) {
            snprintf(file, sizeof file, "%.*s/python3", (int)n, path);
            if (access(file, X_OK) == 0) {
                snprintf(prefix, PATH_BYTES, "%.*s/..", (int)n, path);
                return prefix;
            }
        }
        path += n + (path[n] == ':');
    }
    return NULL;
}

static void *load_packages(const cv_library_hunt *hunt, const char *name)
{
    char prefix[PATH_BYTES], home[PATH_BYTES];
    const char *user = getenv("HOME");
    snprintf(home, sizeof home, "%.900s/.local", user ? user : "");
    const char *prefixes[] = {getenv("VIRTUAL_ENV"), getenv("CONDA_PREFIX"), python_on_path(prefix),
                              user ? home : NULL,    "/usr/local",           "/usr"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !library; i++)
        library = load_python(prefixes[i], hunt->python, name);
    return library;
}

/* The variable names a file, or a folder that holds one of the names. */
static void *load_named(const cv_library_hunt *hunt, const char *value, char *text, size_t bytes)
{
    struct stat about;
    void *library = NULL;
    if (stat(value, &about) == 0 && S_ISDIR(about.st_mode)) {
        for (const char *const *name = hunt->names; *name && !library; name++)
            library = load_glob(value, *name);
        if (!library)
            snprintf(text, bytes, "the folder that %s names, '%.80s', holds no %s that loads", hunt->variable, value,
                     hunt->names[0]);
        return library;
    }
    library = load(value);
    if (!library) {
        const char *why = dlerror();
        snprintf(text, bytes, "the file that %s names does not load: %.160s", hunt->variable, why ? why : value);
    }
    return library;
}

void *cv_library_hunt_open(const cv_library_hunt *hunt, char *text, size_t bytes)
{
    const char *value = hunt->variable ? getenv(hunt->variable) : NULL;
    if (value && *value)
        return load_named(hunt, value, text, bytes);
    void *library = NULL;
    for (const char *const *name = hunt->names; *name && !library; name++)
        library = dlopen(*name, RTLD_NOW | RTLD_NOLOAD);
    for (const char *const *name = hunt->names; *name && !library; name++) {
        library = load(*name);
        if (!library && hunt->python)
            library = load_packages(hunt, *name);
        for (const char *const *folder = hunt->system; folder && *folder && !library; folder++)
            library = load_glob(*folder, *name);
    }
    if (!library) {
        size_t n = (size_t)snprintf(text, bytes, "%s was not found on this machine", hunt->names[0]);
        if (hunt->variable && n < bytes)
            snprintf(text + n, bytes - n, " (%s can name its file or folder)", hunt->variable);
    }
    return library;
}

void *cv_library_hold_self(void)
{
    Dl_info about;
    static const char here;
    return dladdr(&here, &about) && about.dli_fname ? dlopen(about.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD)
                                                    : NULL;
}
