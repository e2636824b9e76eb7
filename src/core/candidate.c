/* The registry's look-up, and candidates as text. */
#include "engine.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

const cv_engine *cv_engine_find(const char *name, size_t length)
{
    for (const cv_engine *const *e = cv_engines; *e; e++)
        if (strlen((*e)->name) == length && memcmp((*e)->name, name, length) == 0)
            return *e;
    return NULL;
}

const convoy_engine_info *convoy_engine(int index)
{
    static _Thread_local convoy_engine_info info;
    if (index < 0)
        return NULL;
    for (int i = 0; i < index; i++)
        if (!cv_engines[i])
            return NULL;
    const cv_engine *e = cv_engines[index];
    if (!e)
        return NULL;
    info = (convoy_engine_info){e->name,
                                e->revision,
                                e->device,
                                (e->traits & CV_KEEPS_EXACT) != 0,
                                (e->traits & CV_IS_TRANSFORM) != 0,
                                (e->traits & CV_IS_VENDOR) != 0,
                                (e->traits & CV_BY_NAME_ONLY) != 0,
                                e->about};
    return &info;
}

/* Copies the next of the space-separated keys; 0 at the end. */
static int next_key(const char **keys, char key[8])
{
    *keys += strspn(*keys, " ");
    size_t length = strcspn(*keys, " ");
    if (length == 0 || length > 7)
        return 0;
    memcpy(key, *keys, length);
    key[length] = 0;
    *keys += length;
    return 1;
}

void cv_candidate_print(const cv_engine *engine, const cv_candidate *candidate, char *text)
{
    const char *keys = engine->candidate_keys;
    char key[8];
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < CV_CHOICE && next_key(&keys, key); i++)
        n += (size_t)snprintf(text + n, CV_CANDIDATE_TEXT - n, "%s%d", key, candidate->v[i]);
}

int cv_candidate_parse(const cv_engine *engine, const char *text, cv_candidate *candidate)
{
    const char *keys = engine->candidate_keys;
    char key[8];
    memset(candidate, 0, sizeof *candidate);
    for (int i = 0; i < CV_CHOICE && next_key(&keys, key); i++) {
        size_t length = strlen(key);
        if (strncmp(text, key, length) != 0)
            return 0;
        text += length;
        int minus = *text == '-';
        text += minus;
        if (!isdigit((unsigned char)*text))
            return 0;
        long long v = 0;
        for (; isdigit((unsigned char)*text); text++)
            if ((v = v * 10 + (*text - '0')) > INT_MAX)
                return 0;
        candidate->v[i] = (int)(minus ? -v : v);
    }
    return *text == 0;
}

void cv_phase_add(cv_phases *phases, const char *name, double seconds, double bytes, double flop)
{
    if (!phases)
        return;
    int i = 0;
    while (i < phases->count && strcmp(phases->phase[i].name, name) != 0)
        i++;
    if (i == CV_PHASES)
        return;
    convoy_phase *p = &phases->phase[i];
    if (i == phases->count) {
        memset(p, 0, sizeof *p);
        snprintf(p->name, sizeof p->name, "%s", name);
        phases->count++;
    }
    p->seconds += seconds;
    p->bytes += bytes;
    p->flop += flop;
}
