/* A context's wisdom: the file as last read, and what the context measured since. The log gets at most one warning
 * about it. */
#include "wisdom.h"
#include "wisdom_file.h"

#include <stdio.h>
#include <string.h>

struct wisdom {
    const char *path;
    cv_book book;
    cv_stamp stamp; /* of the file when it was read */
    int warned;
    char machine[CV_FINGERPRINT_BYTES];
};

static void warn(convoy_context *context, struct wisdom *w, const char *line)
{
    if (!w->warned)
        cv_log(context, CONVOY_LOG_WARNING, "%s", line);
    w->warned = 1;
}

static void warn_damage(convoy_context *context, struct wisdom *w, const cv_book *book)
{
    char line[512];
    if (!book->damaged || w->warned)
        return;
    snprintf(line, sizeof line,
             book->foreign ? "wisdom file '%.300s' holds no wisdom; it is left alone"
                           : "wisdom file '%.300s': %d damaged lines are skipped",
             w->path, book->damaged);
    warn(context, w, line);
}

/* Takes the file's present state in. The old book stays when memory is short. */
static convoy_status load(convoy_context *context, struct wisdom *w)
{
    cv_book fresh;
    cv_book_open(&fresh, w->book.memory);
    convoy_status status = cv_wisdom_read(w->path, &fresh, &w->stamp);
    if (status == CONVOY_OUT_OF_MEMORY) {
        cv_book_close(&fresh);
        return status;
    }
    if (status != CONVOY_OK)
        warn(context, w, convoy_last_message());
    warn_damage(context, w, &fresh);
    cv_book_close(&w->book);
    w->book = fresh;
    return CONVOY_OK;
}

convoy_status cv_wisdom_open(convoy_context *context, const char *path, void **wisdom)
{
    const cv_machine *m = &context->shared->machine;
    struct wisdom *w = cv_alloc(&m->memory, sizeof *w);
    *wisdom = NULL;
    if (!w)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: wisdom");
    memset(w, 0, sizeof *w);
    w->path = path;
    cv_book_open(&w->book, &m->memory);
    cv_fingerprint(m, w->machine);
    convoy_status status = load(context, w);
    if (status == CONVOY_OK)
        *wisdom = w;
    else
        cv_wisdom_close(context, w);
    return status;
}

void cv_wisdom_close(convoy_context *context, void *wisdom)
{
    struct wisdom *w = wisdom;
    if (!w)
        return;
    cv_book_close(&w->book);
    cv_free(&context->shared->machine.memory, w);
}

/* What is known about a request; what another context has written meanwhile counts. */
static int find(convoy_context *context, struct wisdom *w, const cv_request *q, const convoy_plan_options *o,
                cv_findings *findings)
{
    char key[CV_KEY_BYTES];
    cv_stamp now;
    cv_wisdom_key(q, o, key);
    const char *value = cv_book_find(&w->book, w->machine, key);
    if (!value) {
        cv_wisdom_stamp(w->path, &now);
        if (now.inode && memcmp(&now, &w->stamp, sizeof now) != 0 && load(context, w) == CONVOY_OK)
            value = cv_book_find(&w->book, w->machine, key);
    }
    cv_findings_parse(value ? value : "", findings);
    return findings->count > 0;
}

static const cv_choice *on_offer(const cv_finding *f, const cv_choice *ranked, int count)
{
    for (int i = 0; i < count; i++)
        if (ranked[i].engine == f->engine && memcmp(&ranked[i].candidate, &f->candidate, sizeof f->candidate) == 0)
            return &ranked[i];
    return NULL;
}

/* Every engine that is on offer has been timed: that is so after a whole search, and when the one engine was that is
 * named. */
static int covers(const cv_findings *f, const cv_choice *ranked, int count)
{
    for (int i = 0; i < count && !f->whole; i++) {
        int known = 0;
        for (int j = 0; j < f->count; j++)
            known |= f->best[j].engine == ranked[i].engine;
        if (!known)
            return 0;
    }
    return 1;
}

int cv_wisdom_lookup(convoy_context *context, void *wisdom, const cv_request *q, const convoy_plan_options *o,
                     const cv_choice *ranked, int count, cv_choice *choice)
{
    cv_findings findings;
    if (!find(context, wisdom, q, o, &findings) || !covers(&findings, ranked, count))
        return 0;
    for (int i = 0; i < findings.count; i++) {
        const cv_choice *offer = on_offer(&findings.best[i], ranked, count);
        if (!offer)
            continue;
        *choice = *offer;
        choice->measured_s = findings.best[i].median_s;
        choice->spread_s = findings.best[i].spread_s;
        choice->source = CONVOY_FROM_WISDOM;
        return 1;
    }
    return 0;
}

int cv_wisdom_engine(convoy_context *context, void *wisdom, const cv_request *q, const convoy_plan_options *o,
                     const cv_engine *engine, cv_finding *finding)
{
    cv_findings findings;
    if (!find(context, wisdom, q, o, &findings))
        return 0;
    for (int i = 0; i < findings.count; i++)
        if (findings.best[i].engine == engine) {
            *finding = findings.best[i];
            return 1;
        }
    return 0;
}

struct change {
    const char *machine, *key;
    const cv_findings *findings;
};

/* A finding of this search replaces what was known of its engine; what is known of others stays. */
static convoy_status put(void *user, cv_book *book)
{
    const struct change *change = user;
    const char *value = cv_book_find(book, change->machine, change->key);
    char text[CV_VALUE_BYTES];
    cv_findings known, merged = *change->findings;
    cv_findings_parse(value ? value : "", &known);
    for (int i = 0; i < known.count; i++) {
        int again = 0;
        for (int j = 0; j < change->findings->count; j++)
            again |= change->findings->best[j].engine == known.best[i].engine;
        if (!again)
            cv_findings_add(&merged, &known.best[i]);
    }
    merged.whole |= known.whole;
    cv_findings_print(&merged, text);
    return cv_book_put(book, change->machine, change->key, text);
}

void cv_wisdom_store(convoy_context *context, void *wisdom, const cv_request *q, const convoy_plan_options *o,
                     const cv_findings *findings)
{
    struct wisdom *w = wisdom;
    char key[CV_KEY_BYTES];
    cv_wisdom_key(q, o, key);
    struct change change = {w->machine, key, findings};
    cv_book written;
    cv_stamp stamp;
    cv_book_open(&written, w->book.memory);
    convoy_status status = cv_wisdom_update(w->path, &written, &stamp, put, &change);
    if (status == CONVOY_OK) {
        warn_damage(context, w, &written);
        cv_book_close(&w->book);
        w->book = written;
        w->stamp = stamp;
        return;
    }
    warn(context, w, convoy_last_message());
    cv_book_close(&written);
    put(&change, &w->book); /* known to this context at least; memory being short is no fault of the plan */
}
