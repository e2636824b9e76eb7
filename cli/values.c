/* Options' values as text. Strict: the whole text must be the value. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* strtoll would take leading blanks and a plus. */
static bool read_int(const char **at, int64_t least, int64_t most, int64_t *value)
{
    char *end;
    if (!isdigit((unsigned char)**at) && !(**at == '-' && isdigit((unsigned char)(*at)[1])))
        return false;
    errno = 0;
    const long long v = strtoll(*at, &end, 10);
    if (errno || v < least || v > most)
        return false;
    *value = v;
    *at = end;
    return true;
}

bool parse_int(const char *text, int64_t least, int64_t most, int64_t *value)
{
    int64_t v;
    if (!read_int(&text, least, most, &v) || *text)
        return false;
    *value = v;
    return true;
}

bool parse_real(const char *text, double least, double *value)
{
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '.')
        return false;
    const double v = strtod(text, &end);
    if (*end || !isfinite(v) || v < least)
        return false;
    *value = v;
    return true;
}

bool parse_bytes(const char *text, size_t *bytes)
{
    int64_t v;
    if (!read_int(&text, 0, INT64_MAX, &v))
        return false;
    static const char units[] = "KMGT";
    const char *unit = *text ? strchr(units, toupper((unsigned char)*text)) : NULL;
    for (int i = unit ? (int)(unit - units) : -1; i >= 0; i--)
        if (__builtin_mul_overflow(v, (int64_t)1024, &v))
            return false;
    text += unit != NULL;
    if (unit && strcmp(text, "iB") == 0)
        text += 2;
    if (*text)
        return false;
    *bytes = (size_t)v;
    return true;
}

bool parse_pair(const char *text, int64_t least, int64_t pair[2])
{
    int64_t a, b;
    if (!read_int(&text, least, INT64_MAX, &a))
        return false;
    b = a;
    if (*text == 'x' && (text++, !read_int(&text, least, INT64_MAX, &b)))
        return false;
    if (*text)
        return false;
    pair[0] = a, pair[1] = b;
    return true;
}

bool parse_padding(const char *text, int64_t pad[4], bool *same)
{
    int64_t v[4];
    *same = strcmp(text, "same") == 0;
    if (*same || strcmp(text, "valid") == 0)
        return true;
    if (!strchr(text, ',')) {
        if (!parse_pair(text, 0, v))
            return false;
        pad[0] = pad[1] = v[0];
        pad[2] = pad[3] = v[1];
        return true;
    }
    for (int i = 0; i < 4; i++)
        if (!read_int(&text, 0, INT64_MAX, &v[i]) || *text++ != (i < 3 ? ',' : 0))
            return false;
    memcpy(pad, v, sizeof v);
    return true;
}

bool parse_device(const char *text, int *device, int *index)
{
    int64_t i = 0;
    if (strcmp(text, "cpu") == 0)
        return *device = CONVOY_CPU, *index = 0, true;
    if (strncmp(text, "cuda", 4) != 0 || (text[4] && (text[4] != ':' || !parse_int(text + 5, 0, 1023, &i))))
        return false;
    return *device = CONVOY_CUDA, *index = (int)i, true;
}
