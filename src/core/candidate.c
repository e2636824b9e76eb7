/* The registry's look-up, and candidates as text. */
#include "engine.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

const cv_engine *cv_engine_find(const char *name, size_t length)
{
    for (const cv_engine *const *e = cv_engines; *e; e++)
        if (strlen((*e)->name) == length && memcmp((*e)->name, name, length) == 0)
            return *e;
    return NULL;
}

enum { MOST_ENGINES = 64 };
static convoy_engine_info public_engines[MOST_ENGINES];
static int public_count;

static void publish_engines(void)
{
    for (; public_count < MOST_ENGINES && cv_engines[public_count]; public_count++) {
        const cv_engine *e = cv_engines[public_count];
        public_engines[public_count] = (convoy_engine_info){
            .name = e->name,
            .revision = e->revision,
            .device = e->device,
            .keeps_exact = (e->traits & CV_KEEPS_EXACT) != 0,
            .transform = (e->traits & CV_IS_TRANSFORM) != 0,
            .vendor = (e->traits & CV_IS_VENDOR) != 0,
            .by_name_only = (e->traits & CV_BY_NAME_ONLY) != 0,
            .about = e->about,
        };
    }
}

const convoy_engine_info *convoy_engine(int index)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, publish_engines);
    return index >= 0 && index < public_count ? &public_engines[index] : NULL;
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
