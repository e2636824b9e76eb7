#include "wisdom_entry.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
    char *text;
    size_t bytes, length;
};

static void put(struct writer *out, const char *format, ...) CV_PRINTF(2, 3);

/* What does not fit is cut off. */
static void put(struct writer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(out->text + out->length, out->bytes - out->length, format, args);
    va_end(args);
    out->length += n > 0 ? (size_t)n : 0;
    if (out->length >= out->bytes)
        out->length = out->bytes - 1;
}

void cv_fingerprint(const cv_machine *m, char text[CV_FINGERPRINT_BYTES])
{
    struct writer out = {text, CV_FINGERPRINT_BYTES - 64, 0}; /* so that the version is never what is cut off */
    char versions[1024] = "";
    if (m->device == CONVOY_CUDA)
        put(&out, "gpu: %s; driver: %d; cuda: %d; ", m->gpu_name, m->driver_version, m->runtime_version);
    else
        put(&out, "cpu: %s; isa: %s; threads: %d; ", m->cpu.model, cv_isa_name(m->cpu.isa), m->threads);
    cv_machine_versions(m, versions, sizeof versions);
    for (char *line = versions; *line;) {
        const size_t length = strcspn(line, "\n");
        if (length)
            put(&out, "%.*s; ", (int)length, line);
        line += length + (line[length] == '\n');
    }
    out.bytes = CV_FINGERPRINT_BYTES;
    put(&out, "convoy: %s", convoy_version());
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static void put_strides(struct writer *out, const char *name, const int64_t stride[4])
{
    put(out, " %s=%lld,%lld,%lld,%lld", name, (long long)stride[0], (long long)stride[1], (long long)stride[2],
        (long long)stride[3]);
}

/* The same text whatever the program's locale has for a decimal point. */
static void put_number(struct writer *out, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.17g", value);
    for (char *c = digits; *c; c++)
        if (!strchr("+-e0123456789", *c))
            *c = '.';
    put(out, "%s", digits);
}

void cv_wisdom_key(const cv_request *q, const convoy_plan_options *o, char text[CV_KEY_BYTES])
{
    static const char *const contract[] = {"fp32", "exact", "match:"};
    struct writer out = {text, CV_KEY_BYTES, 0};
    char problem[512];
    convoy_problem_print(&q->p, problem, sizeof problem);
    put(&out, "%s", problem);
    if (q->p.strided) {
        put_strides(&out, "x", q->p.x_stride);
        put_strides(&out, "w", q->p.w_stride);
        put_strides(&out, "y", q->p.y_stride);
    }
    put(&out, " %s", contract[q->math]);
    if (q->math == CONVOY_MATH_MATCH) {
        put_number(&out, q->rtol);
        put(&out, ",");
        put_number(&out, q->atol);
    }
    put(&out, "%s%s%s", q->bias ? " bias" : "", q->prepared ? " prepared" : "",
        q->deterministic ? " deterministic" : "");
    if (o->workspace_limited)
        put(&out, " workspace_bytes:%zu", q->workspace_limit);
    if (o->exclude && *o->exclude)
        put(&out, " exclude:%s", o->exclude);
}

void cv_findings_add(cv_findings *f, const cv_finding *finding)
{
    int at = 0;
    while (at < f->count && f->best[at].engine != finding->engine)
        at++;
    if (at < f->count && f->best[at].median_s <= finding->median_s)
        return;
    if (at == CV_FINDINGS)
        return;
    f->count += at == f->count;
    for (; at > 0 && f->best[at - 1].median_s > finding->median_s; at--)
        f->best[at] = f->best[at - 1];
    f->best[at] = *finding;
}

static long long nanoseconds(double s) { return s > 0 && s < 9e9 ? (long long)(s * 1e9 + 0.5) : 0; }

void cv_findings_print(const cv_findings *f, char text[CV_VALUE_BYTES])
{
    struct writer out = {text, CV_VALUE_BYTES, 0};
    put(&out, "%s", f->whole ? "all:" : "some:");
    for (int i = 0; i < f->count; i++) {
        const cv_finding *b = &f->best[i];
        char candidate[CV_CANDIDATE_TEXT];
        cv_candidate_print(b->engine, &b->candidate, candidate);
        put(&out, "%s %s.%d%s%s median_ns=%lld spread_ns=%lld", i ? ";" : "", b->engine->name, b->engine->revision,
            *candidate ? ":" : "", candidate, nanoseconds(b->median_s), nanoseconds(b->spread_s));
    }
}

int cv_value_whole(const char *text) { return strncmp(text, "all:", 4) == 0; }

/* The number after a word within the part of a text that ends at stop; -1 when it is not there. */
static long long number_after(const char *text, const char *stop, const char *word)
{
    const char *at = strstr(text, word);
    if (!at || at >= stop)
        return -1;
    at += strlen(word);
    long long v = 0;
    int digits = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (++digits > 18)
            return -1;
        else
            v = 10 * v + (*at - '0');
    return digits ? v : -1;
}

long long cv_value_median_ns(const char *text)
{
    const long long ns = number_after(text, text + strlen(text), "median_ns=");
    return ns > 0 ? ns : 0;
}

static int parse_one(const char *text, const char *stop, cv_finding *finding)
{
    char candidate[CV_CANDIDATE_TEXT];
    const size_t name = strcspn(text, ".;"), word = strcspn(text, " ;");
    if (text[name] != '.' || word < name)
        return 0;
    finding->engine = cv_engine_find(text, name);
    const long long revision = number_after(text, stop, ".");
    if (!finding->engine || revision != finding->engine->revision)
        return 0;
    const char *colon = memchr(text, ':', word);
    const size_t length = colon ? (size_t)(text + word - colon - 1) : 0;
    if (length >= sizeof candidate)
        return 0;
    memcpy(candidate, colon ? colon + 1 : "", length);
    candidate[length] = 0;
    const long long median = number_after(text, stop, " median_ns="), spread = number_after(text, stop, " spread_ns=");
    finding->median_s = 1e-9 * (double)median;
    finding->spread_s = 1e-9 * (double)spread;
    return median > 0 && spread >= 0 && cv_candidate_parse(finding->engine, candidate, &finding->candidate);
}

void cv_findings_parse(const char *text, cv_findings *f)
{
    memset(f, 0, sizeof *f);
    f->whole = cv_value_whole(text);
    const char *at = strchr(text, ':');
    while (at && *at) {
        at += 1 + strspn(at + 1, " ");
        const char *stop = at + strcspn(at, ";");
        cv_finding finding;
        if (parse_one(at, stop, &finding))
            cv_findings_add(f, &finding);
        at = stop;
    }
}

int cv_fingerprint_compare(const char *a, const char *b, int *same_machine)
{
    static const char word[] = "convoy: ";
    const char *const text[2] = {a, b};
    size_t before[2];
    long long part[2][3] = {{0}};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(text[i], word);
        for (const char *next = at; next;
             next = strstr(next + 1, word)) /* the last one: a model's name may hold anything */
            at = next;
        before[i] = at ? (size_t)(at - text[i]) : strlen(text[i]);
        at = at ? at + sizeof word - 1 : "";
        for (int j = 0; j < 3; j++) {
            part[i][j] = strtoll(at, NULL, 10);
            at += strcspn(at, ".");
            at += *at == '.';
        }
    }
    *same_machine = before[0] == before[1] && memcmp(a, b, before[0]) == 0;
    for (int j = 0; j < 3; j++)
        if (part[0][j] != part[1][j])
            return part[0][j] < part[1][j] ? -1 : 1;
    return 0;
}
