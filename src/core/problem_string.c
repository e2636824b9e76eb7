/* Problem strings, both ways. The grammar is in docs/problem-strings.md:
 *
 *   [nN] cC hH [wW] [kK] rR [sS] [_stA[xB]] [_padA[xB] | _padT,B,L,R | _padsame] [_dilA[xB]] [_gG | _gc]
 *
 * Parts come in this order, once each. */
#include "problem.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct reader {
    const char *text, *at;
};

static convoy_status bad(const struct reader *in, const char *expected)
{
    return cv_fail(CONVOY_INVALID, "problem '%.120s': at character %d ('%.16s') expected %s", in->text,
                   (int)(in->at - in->text) + 1, *in->at ? in->at : "the end", expected);
}

static int skip(struct reader *in, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(in->at, word, length) != 0)
        return 0;
    in->at += length;
    return 1;
}

static convoy_status number(struct reader *in, int64_t *value)
{
    if (!isdigit((unsigned char)*in->at))
        return bad(in, "a number");
    int64_t v = 0;
    const char *from = in->at;
    for (; isdigit((unsigned char)*in->at); in->at++)
        if (__builtin_mul_overflow(v, (int64_t)10, &v) || __builtin_add_overflow(v, (int64_t)(*in->at - '0'), &v)) {
            in->at = from;
            return bad(in, "a number below 2^63");
        }
    *value = v;
    return CONVOY_OK;
}

static convoy_status pair(struct reader *in, int64_t *a, int64_t *b)
{
    if (number(in, a) != CONVOY_OK)
        return CONVOY_INVALID;
    *b = *a;
    return skip(in, "x") ? number(in, b) : CONVOY_OK;
}

static convoy_status sizes(struct reader *in, convoy_problem *p)
{
    const struct {
        char letter;
        int needed;
        int64_t *field;
    } part[] = {{'n', 0, &p->n}, {'c', 1, &p->c}, {'h', 1, &p->h}, {'w', 0, &p->w},
                {'k', 0, &p->k}, {'r', 1, &p->r}, {'s', 0, &p->s}};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (*in->at == part[i].letter) {
            in->at++;
            if (number(in, part[i].field) != CONVOY_OK)
                return CONVOY_INVALID;
        } else if (part[i].needed) {
            char expected[64];
            snprintf(expected, sizeof expected, "'%c' and its size (an example is n4c64h128k64r8)", part[i].letter);
            return bad(in, expected);
        } else if (part[i].letter == 'w') {
            p->w = p->h;
        } else if (part[i].letter == 'k') {
            p->k = p->c;
        } else if (part[i].letter == 's') {
            p->s = p->r;
        }
    }
    return CONVOY_OK;
}

/* Numbers, or same; sets *same, whose amounts need the dilation that comes later. */
static convoy_status padding(struct reader *in, convoy_problem *p, int *same)
{
    int64_t v[4];
    if (skip(in, "same"))
        return *same = 1, CONVOY_OK;
    if (number(in, &v[0]) != CONVOY_OK)
        return CONVOY_INVALID;
    if (*in->at == ',') {
        for (int i = 1; i < 4; i++) {
            if (!skip(in, ","))
                return bad(in, "',' and the next of four pads: top,bottom,left,right");
            if (number(in, &v[i]) != CONVOY_OK)
                return CONVOY_INVALID;
        }
        p->pad_t = v[0], p->pad_b = v[1], p->pad_l = v[2], p->pad_r = v[3];
        return CONVOY_OK;
    }
    v[1] = v[0];
    if (skip(in, "x") && number(in, &v[1]) != CONVOY_OK)
        return CONVOY_INVALID;
    p->pad_t = p->pad_b = v[0];
    p->pad_l = p->pad_r = v[1];
    return CONVOY_OK;
}

static convoy_status suffixes(struct reader *in, convoy_problem *p, int *same)
{
    if (skip(in, "_st") && pair(in, &p->stride_h, &p->stride_w) != CONVOY_OK)
        return CONVOY_INVALID;
    if (skip(in, "_pad") && padding(in, p, same) != CONVOY_OK)
        return CONVOY_INVALID;
    if (skip(in, "_dil") && pair(in, &p->dil_h, &p->dil_w) != CONVOY_OK)
        return CONVOY_INVALID;
    if (skip(in, "_gc"))
        p->groups = p->c;
    else if (skip(in, "_g") && number(in, &p->groups) != CONVOY_OK)
        return CONVOY_INVALID;
    return *in->at ? bad(in, "the end, or _st, _pad, _dil, _g in this order, once each") : CONVOY_OK;
}

static convoy_status pad_same(const struct reader *in, convoy_problem *p)
{
    int64_t v, u;
    if (p->stride_h != 1 || p->stride_w != 1)
        return cv_fail(CONVOY_INVALID, "problem '%.120s': _padsame with stride %lldx%lld: expected stride 1", in->text,
                       (long long)p->stride_h, (long long)p->stride_w);
    if (p->r < 1 || p->s < 1 || __builtin_mul_overflow(p->r - 1, p->dil_h, &v) ||
        __builtin_mul_overflow(p->s - 1, p->dil_w, &u))
        return convoy_problem_check(p) == CONVOY_OK
                   ? cv_fail(CONVOY_INVALID, "problem '%.120s': the padding overflows", in->text)
                   : CONVOY_INVALID;
    p->pad_t = v / 2, p->pad_b = v - v / 2;
    p->pad_l = u / 2, p->pad_r = u - u / 2;
    return CONVOY_OK;
}

convoy_status convoy_problem_parse(const char *text, convoy_problem *problem)
{
    static const char *const named[4] = {"n4c64h128k64r8", "n4c64h128k64r16", "n2c128h256k128r16", "n1c128h256k128r32"};
    if (!problem)
        return cv_fail(CONVOY_INVALID, "problem is NULL: expected room for a convoy_problem");
    memset(problem, 0, sizeof *problem);
    if (!text)
        return cv_fail(CONVOY_INVALID, "text is NULL: expected a problem such as n4c64h128k64r8");
    struct reader in = {text, text};
    if (text[0] >= 'A' && text[0] <= 'D' && !text[1])
        in.at = named[text[0] - 'A'];
    convoy_problem p = convoy_problem_make(1, 0, 0, 0, 0, 0, 0);
    int same = 0;
    convoy_status status = sizes(&in, &p);
    if (status == CONVOY_OK)
        status = suffixes(&in, &p, &same);
    if (status == CONVOY_OK && same)
        status = pad_same(&in, &p);
    if (status == CONVOY_OK)
        status = convoy_problem_check(&p);
    if (status == CONVOY_OK)
        *problem = p;
    return status;
}

struct writer {
    char *text;
    size_t bytes, length;
};

static void put(struct writer *out, const char *words, int count, const int64_t *values, const char *between)
{
    char part[128];
    size_t n = (size_t)snprintf(part, sizeof part, "%s", words);
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(part + n, sizeof part - n, "%s%lld", i ? between : "", (long long)values[i]);
    for (size_t i = 0; i < n; i++, out->length++)
        if (out->length + 1 < out->bytes)
            out->text[out->length] = part[i];
}

static void put_pair(struct writer *out, const char *words, int64_t a, int64_t b)
{
    put(out, words, a == b ? 1 : 2, (const int64_t[]){a, b}, "x");
}

size_t convoy_problem_print(const convoy_problem *p, char *text, size_t bytes)
{
    struct writer out = {text, text ? bytes : 0, 0};
    if (p) {
        put(&out, "n", 1, &p->n, "");
        put(&out, "c", 1, &p->c, "");
        put(&out, "h", 1, &p->h, "");
        if (p->w != p->h)
            put(&out, "w", 1, &p->w, "");
        put(&out, "k", 1, &p->k, "");
        put(&out, "r", 1, &p->r, "");
        if (p->s != p->r)
            put(&out, "s", 1, &p->s, "");
        if (p->stride_h != 1 || p->stride_w != 1)
            put_pair(&out, "_st", p->stride_h, p->stride_w);
        if (p->pad_t != p->pad_b || p->pad_l != p->pad_r)
            put(&out, "_pad", 4, (const int64_t[]){p->pad_t, p->pad_b, p->pad_l, p->pad_r}, ",");
        else if (p->pad_t || p->pad_l)
            put_pair(&out, "_pad", p->pad_t, p->pad_l);
        if (p->dil_h != 1 || p->dil_w != 1)
            put_pair(&out, "_dil", p->dil_h, p->dil_w);
        if (p->groups > 1 && p->groups == p->c)
            put(&out, "_gc", 0, NULL, "");
        else if (p->groups != 1)
            put(&out, "_g", 1, &p->groups, "");
    }
    if (out.bytes)
        out.text[out.length < out.bytes ? out.length : out.bytes - 1] = 0;
    return out.length;
}
