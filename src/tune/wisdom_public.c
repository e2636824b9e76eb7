/* The public calls on wisdom files. */
#include "wisdom_entry.h"
#include "wisdom_file.h"

#include <string.h>

static convoy_status missing(const char *name)
{
    return cv_fail(CONVOY_INVALID, "%s is NULL: expected %s", name,
                   strcmp(name, "each") == 0 ? "a function" : "a file's name");
}

convoy_status convoy_wisdom_each(const char *path, void (*each)(void *, const char *, const char *, const char *),
                                 void *user, int *damaged)
{
    if (damaged)
        *damaged = 0;
    if (!path || !each)
        return missing(path ? "each" : "path");
    cv_book book;
    cv_stamp stamp;
    cv_book_open(&book, &cv_default_allocator);
    convoy_status status = cv_wisdom_read(path, &book, &stamp);
    if (status == CONVOY_OK && !stamp.inode)
        status = cv_fail(CONVOY_IO_ERROR, "wisdom file '%.300s' does not exist", path);
    if (status == CONVOY_OK && damaged)
        *damaged = book.damaged;
    for (int i = 0; status == CONVOY_OK && i < book.lines; i++)
        each(user, book.section[book.line[i].section], book.line[i].key, book.line[i].value);
    cv_book_close(&book);
    return status;
}

struct newcomer {
    const char *machine, *key, *value;
    int beaten; /* by a line that is there already */
};

/* Whether the newcomer takes a line's place: of two for one machine and key, the newer library's stays, then a whole
 * one before one that is not, then the quicker. */
static int replaces(void *user, const char *machine, const char *key, const char *value)
{
    struct newcomer *n = user;
    int same_machine;
    if (strcmp(key, n->key) != 0)
        return 0;
    int better = cv_fingerprint_compare(n->machine, machine, &same_machine);
    if (!same_machine)
        return 0;
    if (better == 0)
        better = cv_value_whole(n->value) - cv_value_whole(value);
    if (better == 0)
        better = cv_value_median_ns(n->value) < cv_value_median_ns(value) ? 1 : -1;
    n->beaten |= better < 0;
    return better > 0;
}

static convoy_status add_all(void *user, cv_book *into)
{
    const cv_book *from = user;
    convoy_status status = CONVOY_OK;
    for (int i = 0; i < from->lines && status == CONVOY_OK; i++) {
        struct newcomer n = {from->section[from->line[i].section], from->line[i].key, from->line[i].value, 0};
        cv_book_prune(into, replaces, &n);
        if (!n.beaten)
            status = cv_book_put(into, n.machine, n.key, n.value);
    }
    return status;
}

static int everything(void *user, const char *machine, const char *key, const char *value)
{
    (void)user, (void)machine, (void)key, (void)value;
    return 1;
}

static convoy_status remove_all(void *user, cv_book *book)
{
    cv_book_prune(book, everything, user);
    return CONVOY_OK;
}

convoy_status convoy_wisdom_merge(const char *into, const char *from)
{
    if (!into || !from)
        return missing(into ? "from" : "into");
    cv_book source, target;
    cv_stamp stamp;
    cv_book_open(&source, &cv_default_allocator);
    cv_book_open(&target, &cv_default_allocator);
    convoy_status status = cv_wisdom_read(from, &source, &stamp);
    if (status == CONVOY_OK && !stamp.inode)
        status = cv_fail(CONVOY_IO_ERROR, "wisdom file '%.300s' does not exist", from);
    if (status == CONVOY_OK && source.foreign)
        status = cv_fail(CONVOY_IO_ERROR, "file '%.300s' holds no wisdom", from);
    if (status == CONVOY_OK)
        status = cv_wisdom_update(into, &target, &stamp, add_all, &source);
    cv_book_close(&source);
    cv_book_close(&target);
    return status;
}

convoy_status convoy_wisdom_clear(const char *path)
{
    if (!path)
        return missing("path");
    cv_book book;
    cv_stamp stamp;
    cv_wisdom_stamp(path, &stamp);
    if (!stamp.inode)
        return CONVOY_OK;
    cv_book_open(&book, &cv_default_allocator);
    convoy_status status = cv_wisdom_update(path, &book, &stamp, remove_all, NULL);
    cv_book_close(&book);
    return status;
}
