/* Writing .npy files that appear whole or not at all. */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Version 1.0, padded so that the data begin at a multiple of 64 bytes. Returns its length. */
static size_t make_header(const struct npy *array, char *out, size_t bytes)
{
    const uint16_t probe = 1;
    const char order = *(const unsigned char *)&probe == 1 ? '<' : '>';
    char shape[128];
    npy_shape_text(array, shape, sizeof shape);
    size_t n = 10 + (size_t)snprintf(out + 10, bytes - 10, "{'descr': '%cf4', 'fortran_order': False, 'shape': %s, }",
                                     order, shape);
    while ((n + 1) % 64 != 0)
        out[n++] = ' ';
    out[n++] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((n - 10) & 255);
    out[9] = (char)((n - 10) >> 8);
    return n;
}

static bool write_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t done = write(fd, data, bytes < ((size_t)1 << 30) ? bytes : (size_t)1 << 30);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        data += done;
        bytes -= (size_t)done;
    }
    return true;
}

static bool write_array(int fd, const struct npy *array)
{
    char header[512];
    const size_t length = make_header(array, header, sizeof header);
    return write_all(fd, header, length) &&
           write_all(fd, (const char *)array->data, (size_t)array->count * sizeof(float));
}

static int failed(char *why, int error)
{
    snprintf(why, NPY_WHY, "it cannot be written: %s", strerror(error));
    return -1;
}

static int save_directly(const char *path, const struct npy *array, char *why)
{
    const int fd = open(path, O_WRONLY);
    if (fd < 0)
        return failed(why, errno);
    const bool good = write_array(fd, array);
    const int error = errno;
    return (close(fd) == 0 || !good) && good ? 0 : failed(why, good ? errno : error);
}

/* Signals wait while the temporary file exists, so that none is left behind. */
static int save_and_rename(const char *path, const struct npy *array, char *why)
{
    char temporary[PATH_MAX];
    sigset_t all, before;
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
        return failed(why, ENAMETOOLONG);
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const int fd = mkstemp(temporary);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        const mode_t mask = umask(0);
        umask(mask);
        if (!write_array(fd, array) || fchmod(fd, 0666 & ~mask) != 0)
            error = errno;
        if (close(fd) != 0 && !error)
            error = errno;
        if (!error && rename(temporary, path) != 0)
            error = errno;
        if (error)
            unlink(temporary);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error ? failed(why, error) : 0;
}

int npy_save(const char *path, const struct npy *array, char why[NPY_WHY])
{
    struct stat info;
    char target[PATH_MAX];
    if (stat(path, &info) != 0)
        return save_and_rename(path, array, why);
    if (S_ISDIR(info.st_mode))
        return failed(why, EISDIR);
    if (!S_ISREG(info.st_mode))
        return save_directly(path, array, why);
    return realpath(path, target) ? save_and_rename(target, array, why) : failed(why, errno); /* a link stays one */
}
