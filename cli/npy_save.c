/* Writing .npy files that appear whole or not at all, whatever happens meanwhile. */
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

static int save_directly(int fd, const struct npy *array, char *why)
{
    return write_array(fd, array) ? 0 : failed(why, errno);
}

static int save_special(const char *path, const struct npy *array, char *why)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return failed(why, errno);
    const int result = save_directly(fd, array, why);
    return close(fd) != 0 && result == 0 ? failed(why, errno) : result;
}

/* What is being written, in the folder that it will be in. name is empty as long as it has none. */
struct temporary {
    int fd;
    char folder[PATH_MAX], name[PATH_MAX + 32];
};

/* Without a name where the system has such files, so that not even SIGKILL leaves a part behind. */
static int temporary_open(const char *path, struct temporary *t)
{
    const char *slash = strrchr(path, '/');
    const int length = slash == path ? 1 : slash ? (int)(slash - path) : 1;
    if (snprintf(t->folder, sizeof t->folder, "%.*s", length, slash ? path : ".") >= (int)sizeof t->folder)
        return ENAMETOOLONG;
    t->name[0] = 0;
    t->fd = access("/proc/self/fd", X_OK) == 0 ? open(t->folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (t->fd < 0) {
        snprintf(t->name, sizeof t->name, "%s/.convoy-XXXXXX", t->folder);
        t->fd = mkostemp(t->name, O_CLOEXEC);
    }
    return t->fd < 0 ? errno : 0;
}

/* Where nothing is in the way the file gets its own name at once, and t has none. Else one from which it is renamed:
 * who is killed by SIGKILL in the instant between leaves a whole file of that name. */
static int temporary_name(struct temporary *t, const char *path, bool new)
{
    char self[48];
    snprintf(self, sizeof self, "/proc/self/fd/%d", t->fd);
    if (new && !*t->name && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    for (int i = 0; !*t->name; i++) {
        snprintf(t->name, sizeof t->name, "%s/.convoy-%ld-%d", t->folder, (long)getpid(), i);
        if (linkat(AT_FDCWD, self, AT_FDCWD, t->name, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        t->name[0] = 0;
        if (errno != EEXIST)
            return errno;
    }
    return 0;
}

/* old: what is there now, whose owner and mode stay; NULL for a new file. */
static int save_and_rename(const char *path, const struct stat *old, const struct npy *array, char *why)
{
    struct temporary t;
    sigset_t all, before;
    int error = temporary_open(path, &t);
    if (error)
        return failed(why, error);
    const mode_t mask = umask(0);
    umask(mask);
    if (!write_array(t.fd, array) || (old && fchown(t.fd, old->st_uid, old->st_gid) != 0 && errno != EPERM) ||
        fchmod(t.fd, old ? old->st_mode & 0777 : 0666 & ~mask) != 0)
        error = errno;
    sigfillset(&all); /* signals wait while the file has a name, so that none is left behind */
    sigprocmask(SIG_BLOCK, &all, &before);
    if (!error)
        error = temporary_name(&t, path, !old);
    if (close(t.fd) != 0 && !error)
        error = errno;
    if (!error && *t.name && rename(t.name, path) != 0)
        error = errno;
    if (error && *t.name)
        unlink(t.name);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error ? failed(why, error) : 0;
}

/* A new file, or the one that a link names which leads nowhere yet. */
static int save_new(const char *path, const struct npy *array, char *why)
{
    struct stat info;
    char target[PATH_MAX];
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? save_and_rename(path, NULL, array, why) : failed(why, errno);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666); /* makes it, so that its name can be asked for */
    if (fd < 0)
        return failed(why, errno);
    close(fd);
    if (!realpath(path, target))
        return failed(why, errno);
    const int result = save_and_rename(target, NULL, array, why);
    if (result != 0)
        unlink(target);
    return result;
}

bool npy_is_stdout(const char *path)
{
    struct stat info, out;
    return stat(path, &info) == 0 && fstat(STDOUT_FILENO, &out) == 0 && info.st_dev == out.st_dev &&
           info.st_ino == out.st_ino && !S_ISCHR(info.st_mode);
}

int npy_save(const char *path, const struct npy *array, char why[NPY_WHY])
{
    struct stat info;
    char target[PATH_MAX];
    if (npy_is_stdout(path))
        return save_directly(STDOUT_FILENO, array, why);
    if (stat(path, &info) != 0)
        return errno == ENOENT ? save_new(path, array, why) : failed(why, errno);
    if (S_ISDIR(info.st_mode))
        return failed(why, EISDIR);
    if (!S_ISREG(info.st_mode))
        return save_special(path, array, why);
    if (!(info.st_mode & 0222) || access(path, W_OK) != 0) /* root may write it all the same; we do not */
        return failed(why, EACCES);
    return realpath(path, target) ? save_and_rename(target, &info, array, why) : failed(why, errno); /* links stay */
}
