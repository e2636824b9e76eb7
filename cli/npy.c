/* Reading .npy: the magic words, a header that is a Python dictionary, the data. The format is described in NumPy's
 * NEP 1.
 *
 * The dictionary is parsed, not matched: either kind of quotes, any order of keys, blanks, a comma at the end or not,
 * the L of Python 2's long integers. */
#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct reader {
    const char *at, *end;
    char *why;
};

static bool bad(const struct reader *in, const char *expected)
{
    const int left = (int)(in->end - in->at < 20 ? in->end - in->at : 20);
    snprintf(in->why, NPY_WHY, "the header at '%.*s': expected %s, as NumPy writes it", left, in->at, expected);
    for (char *c = in->why; *c; c++)
        if (!isprint((unsigned char)*c))
            *c = '?';
    return false;
}

static void blanks(struct reader *in)
{
    while (in->at < in->end && isspace((unsigned char)*in->at))
        in->at++;
}

static bool take(struct reader *in, char c)
{
    blanks(in);
    if (in->at == in->end || *in->at != c)
        return false;
    in->at++;
    return true;
}

/* A quoted word without escapes. */
static bool word(struct reader *in, char *text, size_t bytes)
{
    blanks(in);
    const char quote = in->at < in->end ? *in->at : 0;
    if (quote != '\'' && quote != '"')
        return bad(in, "a quoted word");
    const char *from = ++in->at;
    while (in->at < in->end && *in->at != quote)
        in->at++;
    const size_t length = (size_t)(in->at - from);
    if (in->at == in->end || length >= bytes)
        return in->at = from, bad(in, "a short quoted word");
    memcpy(text, from, length);
    text[length] = 0;
    in->at++;
    return true;
}

static bool read_descr(struct reader *in)
{
    char descr[32];
    blanks(in);
    if (in->at < in->end && *in->at == '[')
        return snprintf(in->why, NPY_WHY,
                        "the array has fields: expected plain float32; save array['field'].astype(numpy.float32)"),
               false;
    if (!word(in, descr, sizeof descr))
        return false;
    const uint16_t probe = 1;
    const bool little = *(const unsigned char *)&probe == 1;
    if (strcmp(descr, little ? "<f4" : ">f4") == 0 || strcmp(descr, "=f4") == 0 || strcmp(descr, "f4") == 0)
        return true;
    snprintf(in->why, NPY_WHY, "the dtype is '%s': expected float32 ('<f4'); save array.astype(numpy.float32)", descr);
    return false;
}

static bool read_order(struct reader *in)
{
    blanks(in);
    const size_t left = (size_t)(in->end - in->at);
    if (left >= 5 && memcmp(in->at, "False", 5) == 0)
        return in->at += 5, true;
    if (left >= 4 && memcmp(in->at, "True", 4) == 0)
        snprintf(in->why, NPY_WHY,
                 "the array is in Fortran order: expected C order; save numpy.ascontiguousarray(array)");
    else
        bad(in, "True or False");
    return false;
}

static bool read_size(struct reader *in, int64_t *size)
{
    blanks(in);
    if (in->at == in->end || !isdigit((unsigned char)*in->at))
        return bad(in, "a size");
    int64_t v = 0;
    for (; in->at < in->end && isdigit((unsigned char)*in->at); in->at++)
        if (__builtin_mul_overflow(v, (int64_t)10, &v) || __builtin_add_overflow(v, (int64_t)(*in->at - '0'), &v))
            return bad(in, "a size below 2^63");
    if (in->at < in->end && *in->at == 'L')
        in->at++;
    *size = v;
    return true;
}

static bool read_shape(struct reader *in, struct npy *array)
{
    if (!take(in, '('))
        return bad(in, "a tuple of sizes");
    array->dims = 0;
    for (bool comma = true; !take(in, ')'); comma = take(in, ',')) {
        if (!comma)
            return bad(in, "',' or ')'");
        if (array->dims == NPY_MOST_DIMS)
            return snprintf(in->why, NPY_WHY, "the array has more than %d dimensions: expected 1, 2 or 4",
                            NPY_MOST_DIMS),
                   false;
        if (!read_size(in, &array->shape[array->dims++]))
            return false;
    }
    return true;
}

static bool read_header(struct reader *in, struct npy *array)
{
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    int seen = 0;
    if (!take(in, '{'))
        return bad(in, "a dictionary");
    for (bool comma = true; !take(in, '}'); comma = take(in, ',')) {
        char key[32];
        if (!comma)
            return bad(in, "',' or '}'");
        if (!word(in, key, sizeof key))
            return false;
        if (!take(in, ':'))
            return bad(in, "':'");
        const int which = strcmp(key, "descr") == 0           ? DESCR
                          : strcmp(key, "fortran_order") == 0 ? ORDER
                          : strcmp(key, "shape") == 0         ? SHAPE
                                                              : 0;
        if (!which || (seen & which))
            return snprintf(in->why, NPY_WHY,
                            "the header has the key '%s'%s: expected descr, fortran_order and shape, once each", key,
                            which ? " twice" : ""),
                   false;
        seen |= which;
        if (!(which == DESCR ? read_descr(in) : which == ORDER ? read_order(in) : read_shape(in, array)))
            return false;
    }
    blanks(in);
    if (seen != (DESCR | ORDER | SHAPE))
        return snprintf(in->why, NPY_WHY, "the header lacks descr, fortran_order or shape: expected all three"), false;
    return in->at == in->end || *in->at == 0 || bad(in, "the header's end");
}

/* Elements and bytes of the shape, so that nothing that follows overflows. */
static bool check_shape(struct npy *array, char *why)
{
    char text[128];
    array->count = 1;
    for (int i = 0; i < array->dims; i++)
        if (array->shape[i] == 0)
            return array->count = 0, true;
    for (int i = 0; i < array->dims; i++)
        if (__builtin_mul_overflow(array->count, array->shape[i], &array->count) || array->count > INT64_MAX / 8) {
            npy_shape_text(array, text, sizeof text);
            return snprintf(why, NPY_WHY, "the shape is %s: expected fewer than 2^60 elements", text), false;
        }
    return true;
}

static bool read_preamble(FILE *in, struct npy *array, char *why)
{
    unsigned char head[12];
    if (fread(head, 1, 10, in) != 10 || memcmp(head, "\x93NUMPY", 6) != 0)
        return snprintf(why, NPY_WHY, "it does not begin as a .npy file: expected one, as numpy.save writes"), false;
    if (head[6] < 1 || head[6] > 3)
        return snprintf(why, NPY_WHY, "the .npy format version is %d.%d: expected 1, 2 or 3", head[6], head[7]), false;
    size_t length = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (fread(head + 10, 1, 2, in) != 2)
            return snprintf(why, NPY_WHY, "the file ends inside the header: expected the rest"), false;
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length > NPY_HEADER_MOST)
        return snprintf(why, NPY_WHY, "the header has %zu bytes: expected at most %d", length, NPY_HEADER_MOST), false;
    char *text = malloc(length + 1);
    if (!text)
        return snprintf(why, NPY_WHY, "out of memory: a header of %zu bytes", length), false;
    const bool whole = fread(text, 1, length, in) == length;
    struct reader reader = {text, text + length, why};
    const bool good = whole && read_header(&reader, array) && check_shape(array, why);
    if (!whole)
        snprintf(why, NPY_WHY, "the file ends inside the header: expected %zu bytes of it", length);
    free(text);
    return good;
}

/* Grows with what really arrives, so that a header cannot ask for memory that the file does not back. */
static bool read_data(FILE *in, struct npy *array, char *why)
{
    const size_t want = (size_t)array->count * sizeof(float), first = (size_t)1 << 24;
    size_t room = want < first ? want : first, have = 0;
    struct stat info;
    if (fileno(in) >= 0 && fstat(fileno(in), &info) == 0 && S_ISREG(info.st_mode) && (size_t)info.st_size >= want)
        room = want;
    char *data = malloc(room ? room : 1);
    while (data && have < want) {
        if (have == room) {
            room = want / 2 < room ? want : 2 * room;
            char *larger = realloc(data, room);
            if (!larger)
                free(data);
            data = larger;
            continue;
        }
        const size_t got = fread(data + have, 1, room - have, in);
        have += got;
        if (got == 0)
            break;
    }
    if (!data)
        snprintf(why, NPY_WHY, "out of memory: %zu bytes of data", want);
    else if (ferror(in))
        snprintf(why, NPY_WHY, "it could not be read: %s", strerror(errno));
    else if (have < want)
        snprintf(why, NPY_WHY, "the file is truncated: %zu bytes of data, expected %zu", have, want);
    else if (fgetc(in) != EOF)
        snprintf(why, NPY_WHY, "the file goes on after the array's %zu bytes: expected its end (one array a file)",
                 want);
    else
        return array->data = (float *)(void *)data, true;
    free(data);
    return false;
}

int npy_read(FILE *in, struct npy *array, char why[NPY_WHY])
{
    memset(array, 0, sizeof *array);
    why[0] = 0;
    if (read_preamble(in, array, why) && read_data(in, array, why))
        return 0;
    memset(array, 0, sizeof *array);
    return -1;
}

int npy_load(const char *path, struct npy *array, char why[NPY_WHY])
{
    struct stat info;
    memset(array, 0, sizeof *array);
    FILE *in = fopen(path, "rb");
    if (!in)
        return snprintf(why, NPY_WHY, "it cannot be opened: %s", strerror(errno)), -1;
    int result = -1;
    if (fstat(fileno(in), &info) == 0 && S_ISDIR(info.st_mode))
        snprintf(why, NPY_WHY, "it is a folder: expected a .npy file");
    else
        result = npy_read(in, array, why);
    fclose(in);
    return result;
}

void npy_shape_text(const struct npy *array, char *text, size_t bytes)
{
    size_t n = (size_t)snprintf(text, bytes, "(");
    for (int i = 0; i < array->dims && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%lld", i ? ", " : "", (long long)array->shape[i]);
    if (n < bytes)
        snprintf(text + n, bytes - n, array->dims == 1 ? ",)" : ")");
}
