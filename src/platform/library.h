/* Finding a shared library of another vendor wherever installers put it. */
#ifndef CV_LIBRARY_H
#define CV_LIBRARY_H

#include <stddef.h>

/* What to look for. Names are file names, the preferred one first; lists end with NULL. */
typedef struct cv_library_hunt {
    const char *variable; /* an environment variable that holds a file or a folder; it alone counts when it is set */
    const char *const *names; /* "libcudnn.so.9", "libcudnn.so.8" */
    const char
        *python; /* glob below site-packages: the folder in which Python packages put it, "nvidia" / "*" / "lib" */
    const char *const *system; /* folders (globs) to try after the loader's own search */
} cv_library_hunt;

/* Opens the first that loads, in this order: what the variable names; a library of that name which the process has
 * already loaded; the loader's own search (LD_LIBRARY_PATH, ldconfig); site-packages of VIRTUAL_ENV, CONDA_PREFIX, of
 * the python3 on PATH, of the user and of the system; the system folders. Symbols stay local. On failure NULL, and why
 * in text: it completes "declined because ...". */
void *cv_library_hunt_open(const cv_library_hunt *hunt, char *text, size_t bytes);

/* A reference to the shared object that holds this library, so that dlclose by the program does not unmap code that
 * threads are running; give it back with cv_library_close. NULL when it is part of the program itself. */
void *cv_library_hold_self(void);

#endif
