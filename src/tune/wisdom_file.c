#include "wisdom_file.h"
#include "platform/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A few thousand problems take a megabyte: what is larger by far is something else. */
static const off_t most_bytes = (off_t)64 << 20;
static const double patience_s = 5.0; /* with another writer */

static convoy_status io_error(const char *path, const char *what)
{
    char words[128];
    const char *text = strerror_r(errno, words, sizeof words);
    return cv_fail(CONVOY_IO_ERROR, "wisdom file '%.300s' %s: %s", path, what, text);
}

static void stamp_of(const struct stat *s, cv_stamp *stamp)
{
    *stamp = (cv_stamp){(uint64_t)s->st_dev, (uint64_t)s->st_ino, (uint64_t)s->st_size, (uint64_t)s->st_mtim.tv_sec,
                        (uint64_t)s->st_mtim.tv_nsec};
}

void cv_wisdom_stamp(const char *path, cv_stamp *stamp)
{
    struct stat s;
    memset(stamp, 0, sizeof *stamp);
    if (stat(path, &s) == 0)
        stamp_of(&s, stamp);
}

static convoy_status read_all(int fd, const char *path, char *text, size_t bytes, size_t *got)
{
    for (*got = 0; *got < bytes;) {
        const ssize_t n = read(fd, text + *got, bytes - *got);
        if (n == 0)
            break; /* it became shorter since: the last line will not check out */
        if (n < 0 && errno != EINTR)
            return io_error(path, "could not be read");
        *got += n > 0 ? (size_t)n : 0;
    }
    return CONVOY_OK;
}

static convoy_status read_open(int fd, const char *path, cv_book *book, cv_stamp *stamp)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return io_error(path, "could not be read");
    if (!S_ISREG(s.st_mode) || s.st_size > most_bytes)
        return cv_fail(CONVOY_IO_ERROR, "wisdom file '%.300s' is %s: expected a regular file of at most 64 MiB", path,
                       S_ISREG(s.st_mode) ? "larger" : "something else");
    stamp_of(&s, stamp);
    if (s.st_size == 0)
        return CONVOY_OK;
    char *text = cv_alloc(book->memory, (size_t)s.st_size);
    if (!text)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: wisdom of %lld bytes", (long long)s.st_size);
    size_t got = 0;
    convoy_status status = read_all(fd, path, text, (size_t)s.st_size, &got);
    if (status == CONVOY_OK)
        status = cv_book_parse(book, text, got);
    cv_free(book->memory, text);
    return status;
}

convoy_status cv_wisdom_read(const char *path, cv_book *book, cv_stamp *stamp)
{
    memset(stamp, 0, sizeof *stamp);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not make us wait */
    if (fd < 0)
        return errno == ENOENT ? CONVOY_OK : io_error(path, "could not be opened");
    convoy_status status = read_open(fd, path, book, stamp);
    close(fd);
    return status;
}

/* Opens and locks the file that path names at the moment when the lock is held: each writer replaces the file, so a
 * lock that was waited for may be on one that is gone. A system without locks still has atomic replacement. */
static convoy_status lock(const char *path, int *fd)
{
    const double until = cv_now_s() + patience_s;
    for (;;) {
        struct stat mine, named;
        *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
        if (*fd < 0)
            return io_error(path, "could not be written");
        const int busy = flock(*fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR);
        if (!busy && fstat(*fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino &&
            mine.st_dev == named.st_dev) {
            if (mine.st_mode & 0222) /* root may write what its owner has made read-only; we do not */
                return CONVOY_OK;
            close(*fd);
            return cv_fail(CONVOY_IO_ERROR, "wisdom file '%.300s' is read-only", path);
        }
        close(*fd);
        if (cv_now_s() > until)
            return cv_fail(CONVOY_IO_ERROR, "wisdom file '%.300s' stayed locked by another process for %g seconds",
                           path, patience_s);
        if (busy)
            usleep(1000);
    }
}

static int write_all(int fd, const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        const ssize_t n = write(fd, text + at, bytes - at);
        if (n < 0 && errno != EINTR)
            return 0;
        at += n > 0 ? (size_t)n : 0;
    }
    return fsync(fd) == 0;
}

/* So that the new name survives a loss of power as well; not every file system has it, and then nothing is lost but
 * that. */
static void sync_folder(const char *file)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(file, '/');
    snprintf(folder, sizeof folder, "%.*s", slash && slash > file ? (int)(slash - file) : 1, slash ? file : ".");
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

enum { NAME_BYTES = PATH_MAX + 32 };

/* A file beside real: one without a name where the system has such, so that a process that is killed while it writes
 * leaves none behind; else *name says what it is called. */
static int temporary_open(const char *real, char name[NAME_BYTES])
{
    char folder[PATH_MAX];
    const char *slash = strrchr(real, '/'); /* realpath's answer has one */
    const int length = slash && slash > real ? (int)(slash - real) : 1;
    snprintf(folder, sizeof folder, "%.*s", length, real);
    name[0] = 0;
    int fd = access("/proc/self/fd", X_OK) == 0 ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (fd < 0) {
        snprintf(name, NAME_BYTES, "%s.XXXXXX", real);
        fd = mkostemp(name, O_CLOEXEC);
    }
    return fd;
}

/* Names belong to whoever holds the lock, so one that is there is of a process that died. */
static int temporary_name(int fd, const char *real, char name[NAME_BYTES])
{
    char self[48];
    if (*name)
        return 1;
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    snprintf(name, NAME_BYTES, "%s.new", real);
    unlink(name);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
}

/* old is the locked file. */
static convoy_status replace(const char *path, int old, const char *text, size_t bytes, cv_stamp *stamp)
{
    char real[PATH_MAX], temporary[NAME_BYTES]; /* a link stays a link: the file behind it is replaced */
    struct stat s;
    if (!realpath(path, real) || fstat(old, &s) != 0)
        return io_error(path, "could not be written");
    const int fd = temporary_open(real, temporary);
    if (fd < 0)
        return io_error(path, "could not be written beside itself");
    int good = fchmod(fd, s.st_mode & 0777) == 0 && write_all(fd, text, bytes) && temporary_name(fd, real, temporary) &&
               fstat(fd, &s) == 0;
    good = close(fd) == 0 && good;
    good = good && rename(temporary, real) == 0;
    if (!good) {
        convoy_status status = io_error(path, "could not be written");
        if (*temporary)
            unlink(temporary);
        return status;
    }
    stamp_of(&s, stamp);
    sync_folder(real);
    return CONVOY_OK;
}

convoy_status cv_wisdom_update(const char *path, cv_book *book, cv_stamp *stamp,
                               convoy_status (*change)(void *user, cv_book *book), void *user)
{
    int fd;
    convoy_status status = lock(path, &fd);
    if (status != CONVOY_OK)
        return status;
    char *text = NULL;
    size_t bytes = 0;
    status = read_open(fd, path, book, stamp);
    if (status == CONVOY_OK && book->foreign)
        status = cv_fail(CONVOY_IO_ERROR,
                         "file '%.300s' holds no wisdom: expected a wisdom file or a new name; it is left alone", path);
    if (status == CONVOY_OK)
        status = change(user, book);
    if (status == CONVOY_OK)
        status = cv_book_print(book, &text, &bytes);
    if (status == CONVOY_OK)
        status = replace(path, fd, text, bytes, stamp);
    cv_free(book->memory, text);
    flock(fd, LOCK_UN); /* a child that another thread has forked meanwhile holds the file open, too */
    close(fd);
    return status;
}
