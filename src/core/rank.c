/* From a problem and options to a ranked list of engines and candidates. */
#include "services.h"
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int in_list(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, name, n) == 0)
            return 1;
        at += n + (at[n] == ',');
    }
    return 0;
}

static void engine_names(char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = 0;
    for (const cv_engine *const *e = cv_engines; *e && n < bytes; e++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%s", n ? ", " : "", (*e)->name);
}

static convoy_status unknown_engine(const char *field, const char *name, size_t length)
{
    char names[200];
    engine_names(names, sizeof names);
    return cv_fail(CONVOY_INVALID, "%s is '%.*s': expected one of %s", field, (int)(length < 60 ? length : 60), name,
                   names);
}

static convoy_status check_names(const convoy_plan_options *o)
{
    if (o->engine) {
        size_t n = strcspn(o->engine, ":");
        const cv_engine *e = cv_engine_find(o->engine, n);
        cv_candidate unused;
        if (!e)
            return unknown_engine("engine", o->engine, n);
        if (o->engine[n] && !cv_candidate_parse(e, o->engine + n + 1, &unused))
            return cv_fail(CONVOY_INVALID, "candidate is '%.60s': expected a number after each of '%s' for engine %s",
                           o->engine + n + 1, e->candidate_keys, e->name);
    }
    for (const char *at = o->exclude; at && *at;) {
        size_t n = strcspn(at, ",");
        if (!cv_engine_find(at, n))
            return unknown_engine("exclude", at, n);
        at += n + (at[n] == ',');
    }
    return CONVOY_OK;
}

static convoy_status check_options(const convoy_plan_options *o)
{
    if (o->math != CONVOY_MATH_FP32 && o->math != CONVOY_MATH_EXACT && o->math != CONVOY_MATH_MATCH)
        return cv_fail(CONVOY_INVALID, "math is %d: expected FP32, EXACT or MATCH", (int)o->math);
    if (!(o->rtol >= 0) || !(o->atol >= 0) || isinf(o->rtol) || isinf(o->atol))
        return cv_fail(CONVOY_INVALID, "rtol is %g and atol %g: expected finite numbers of 0 or more", o->rtol,
                       o->atol);
    if (o->math == CONVOY_MATH_MATCH && o->rtol == 0 && o->atol == 0)
        return cv_fail(CONVOY_INVALID, "rtol and atol are 0: expected one above 0 with MATH_MATCH (or MATH_EXACT)");
    if (o->effort != CONVOY_ESTIMATE && o->effort != CONVOY_MEASURE)
        return cv_fail(CONVOY_INVALID, "effort is %d: expected ESTIMATE or MEASURE", (int)o->effort);
    if (!(o->time_limit_s >= 0))
        return cv_fail(CONVOY_INVALID, "time_limit_s is %g: expected 0 or more", o->time_limit_s);
    return check_names(o);
}

/* The tensors' bytes, saturating. */
static size_t tensor_bytes(const cv_request *q)
{
    const convoy_problem *p = &q->p;
    double bytes = 4.0 * ((double)p->n * (double)p->c * (double)p->h * (double)p->w +
                          (double)p->k * (double)q->cg * (double)p->r * (double)p->s +
                          (double)p->n * (double)p->k * (double)q->P * (double)q->Q);
    return bytes < 9e18 ? (size_t)bytes : SIZE_MAX / 2;
}

static const size_t most_workspace = (size_t)1 << 60;

static size_t default_limit(const cv_request *q)
{
    const size_t mib = (size_t)1 << 20, bytes = tensor_bytes(q);
    if (q->machine->device == CONVOY_CPU)
        return bytes + 64 * mib;
    /* A GPU with room for the tensors has it for their spectra, and a 64th of its memory is no burden. */
    const size_t spectra = bytes < 128 * mib ? 512 * mib : bytes < SIZE_MAX / 4 ? 4 * bytes : SIZE_MAX;
    const size_t part = q->machine->gpu_memory_bytes / 64;
    return spectra > part ? spectra : part;
}

convoy_status cv_request_make(convoy_context *context, const convoy_problem *problem, const convoy_plan_options *o,
                              cv_request *q)
{
    memset(q, 0, sizeof *q);
    convoy_status status = convoy_problem_check(problem);
    if (status == CONVOY_OK)
        status = check_options(o);
    if (status != CONVOY_OK)
        return status;
    q->p = *problem;
    if ((status = cv_problem_sizes(&q->p, &q->P, &q->Q)) != CONVOY_OK)
        return status;
    cv_problem_fill_strides(&q->p, q->P, q->Q);
    q->asked = q->p;
    cv_problem_settle(&q->p);
    q->cg = q->p.c / q->p.groups;
    q->kg = q->p.k / q->p.groups;
    q->math = o->math;
    q->rtol = o->math == CONVOY_MATH_MATCH ? o->rtol : 0;
    q->atol = o->math == CONVOY_MATH_MATCH ? o->atol : 0;
    q->bias = o->bias != 0;
    q->prepared = o->prepared != 0 || o->weights;
    q->deterministic = o->deterministic != 0;
    q->machine = &context->shared->machine;
    q->workspace_limit = o->workspace_limited ? o->workspace_limit_bytes : default_limit(q);
    if (q->workspace_limit > most_workspace) /* so that engines may add to it and count in floats */
        q->workspace_limit = most_workspace;
    const convoy_weights *g = o->weights;
    if (g && (g->k != q->p.k || g->cg != q->cg || g->r != q->p.r || g->s != q->p.s || g->groups != q->p.groups))
        return cv_fail(CONVOY_INVALID,
                       "weights were made for k%lld, c/g %lld, r%lld, s%lld, g%lld: expected those of the problem",
                       (long long)g->k, (long long)g->cg, (long long)g->r, (long long)g->s, (long long)g->groups);
    return q->machine->ops->bind(q->machine); /* engines may ask the device before they accept */
}

static int packed_w(const cv_request *q)
{
    const int64_t *t = q->p.w_stride;
    return t[3] == 1 && t[2] == q->p.s && t[1] == q->p.r * q->p.s && t[0] == q->cg * t[1];
}

static int is_named(const cv_engine *e, const char *engine)
{
    const size_t length = strcspn(engine, ":");
    return strlen(e->name) == length && memcmp(e->name, engine, length) == 0;
}

/* What core can say before an engine is asked. */
static const char *declines(const cv_engine *e, const cv_request *q, const convoy_plan_options *o)
{
    if (o->engine && !is_named(e, o->engine))
        return "another engine was named";
    if (in_list(o->exclude, e->name))
        return "it was excluded";
    if (e->device != q->machine->device)
        return e->device == CONVOY_CUDA ? "it runs on a CUDA GPU and the context is on the CPU"
                                        : "it runs on the CPU and the context is on a CUDA GPU";
    if ((e->traits & CV_BY_NAME_ONLY) && !o->engine && !o->weights)
        return "it is only used when named";
    if (o->weights && o->weights->engine != e)
        return "the weights were prepared for another engine";
    if (q->math == CONVOY_MATH_EXACT && !(e->traits & CV_KEEPS_EXACT))
        return "it does not keep the exact contract";
    if (q->deterministic && (e->traits & CV_UNSTABLE_BITS))
        return "its bits may change from run to run and deterministic was asked";
    if ((e->traits & CV_PACKED_ONLY) && q->p.strided)
        return "it needs packed tensors";
    if (q->prepared && !(e->traits & CV_PREPARES) && !packed_w(q))
        return "it keeps prepared weights as a copy of w, which must be packed";
    return NULL;
}

/* Slot for a candidate by time; lists stay short, so insertion does. */
static void insert(cv_choice *list, int *count, int capacity, const cv_choice *choice)
{
    int at = *count;
    if (at == capacity) {
        if (list[at - 1].predicted_s <= choice->predicted_s)
            return;
        at--;
    } else {
        ++*count;
    }
    for (; at > 0 && list[at - 1].predicted_s > choice->predicted_s; at--)
        list[at] = list[at - 1];
    list[at] = *choice;
}

/* The engine's candidates that the options allow: all, the named one if it is offered, or the weights' own. */
static int offered(const cv_engine *e, const cv_request *q, const convoy_plan_options *o, cv_candidate *list)
{
    int n = cv_composed(q, e) ? cv_match_table.candidates(q, e, list, CV_CANDIDATES)
                              : e->candidates(q, list, CV_CANDIDATES);
    const char *colon = o->engine ? strchr(o->engine, ':') : NULL;
    cv_candidate wanted;
    if (o->weights)
        wanted = o->weights->candidate;
    else if (!colon || !cv_candidate_parse(e, colon + 1, &wanted))
        return n;
    for (int i = 0; i < n; i++)
        if (memcmp(&list[i], &wanted, sizeof wanted) == 0) {
            list[0] = wanted;
            return 1;
        }
    return 0;
}

const char *cv_rank_engine(const cv_engine *e, const cv_request *q, const convoy_plan_options *o, cv_choice *list,
                           int *count, int capacity, char reason[CV_REASON_BYTES])
{
    cv_candidate candidate[CV_CANDIDATES];
    const char *declined = declines(e, q, o);
    if (declined)
        return declined;
    if (cv_request_is_empty(q)) { /* core's own work, in any engine's name */
        insert(list, count, capacity, &(cv_choice){.engine = e});
        return NULL;
    }
    const int composed = cv_composed(q, e);
    if ((declined = composed ? cv_match_table.refuse(q, e, reason) : e->refuse(q, reason)) != NULL)
        return declined;
    const int n = offered(e, q, o, candidate);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        cv_choice c = {.engine = e, .candidate = candidate[i]};
        c.predicted_s = composed ? cv_match_table.estimate(q, e, &candidate[i], &c.workspace_bytes)
                                 : e->estimate(q, &candidate[i], &c.workspace_bytes);
        if (c.workspace_bytes <= q->workspace_limit) {
            kept++;
            insert(list, count, capacity, &c);
        }
    }
    return kept                                  ? NULL
           : o->weights                          ? "it does not offer the weights' candidate here"
           : o->engine && strchr(o->engine, ':') ? "it does not offer that candidate here"
                                                 : "it needs more workspace than the limit";
}

int cv_rank(const cv_request *q, const convoy_plan_options *o, cv_choice *list, int capacity,
            char reason[CV_REASON_BYTES])
{
    int count = 0;
    char words[CV_REASON_BYTES];
    snprintf(reason, CV_REASON_BYTES, "no engine of this build runs on the context's device");
    for (const cv_engine *const *e = cv_engines; *e; e++) {
        const char *declined = cv_rank_engine(*e, q, o, list, &count, capacity, words);
        if (declined && (o->engine ? is_named(*e, o->engine) : (*e)->device == q->machine->device))
            snprintf(reason, CV_REASON_BYTES, "%s declined because %s", (*e)->name, declined);
    }
    return count;
}
