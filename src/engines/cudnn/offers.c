/* Walks the engines of cuDNN's backend interface and keeps the plain FP32 ones.
 *
 * An engine counts as FP32 when its numerical notes name no tensor core, no down-conversion of inputs and no
 * reduced-precision reduction. That leaves out TF32, which cuDNN reports as tensor cores with down-converted inputs.
 * Engines whose bits change from run to run are left out too. */
#include "descriptor.h"

#include <string.h>

enum { MOST_KNOBS = 32, MOST_NOTES = 32, MOST_VALUES = 160 };

/* The notes of an engine, or -1 when it is not plain FP32. */
static int notes_of(const cv_dnn_graph *g, descriptor engine)
{
    cudnnBackendNumericalNote_t note[MOST_NOTES];
    int64_t count = 0;
    int notes = 0;
    if (g->dnn->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MOST_NOTES, &count, note) !=
        CUDNN_STATUS_SUCCESS)
        return -1;
    for (int64_t i = 0; i < count && i < MOST_NOTES; i++)
        switch (note[i]) {
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: /* its points are too far apart for an FP32 bound worth the name
                                                        */
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:    /* the same bits run after run is what plans report */
            return -1;
        case CUDNN_NUMERICAL_NOTE_FFT:
            notes |= CV_DNN_FFT;
            break;
        case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
            notes |= CV_DNN_WINOGRAD;
            break;
        default:
            break;
        }
    return notes;
}

typedef struct knob {
    cudnnBackendKnobType_t type;
    int64_t low, high, step;
} knob;

static int knobs_of(const cv_dnn_graph *g, descriptor engine, knob list[CV_DNN_KNOBS])
{
    descriptor info[MOST_KNOBS] = {0};
    int64_t count = 0, got;
    int kept = 0;
    for (int i = 0; i < MOST_KNOBS; i++)
        info[i] = cv_dnn_make(g, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
    if (g->dnn->get(engine, CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_KNOBS, &count, info) !=
        CUDNN_STATUS_SUCCESS)
        count = 0;
    for (int64_t i = 0; i < count && i < CV_DNN_KNOBS; i++) {
        knob k = {0, 0, -1, 1};
        if (g->dnn->get(info[i], CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &got, &k.type) !=
            CUDNN_STATUS_SUCCESS)
            break;
        g->dnn->get(info[i], CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 1, &got, &k.low);
        g->dnn->get(info[i], CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, 1, &got, &k.high);
        g->dnn->get(info[i], CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 1, &got, &k.step);
        if (k.step < 1)
            k.step = 1;
        list[kept++] = k;
    }
    for (int i = 0; i < MOST_KNOBS; i++)
        cv_dnn_drop(g, info[i]);
    return kept;
}

static descriptor engine_of(const cv_dnn_graph *g, int64_t index)
{
    descriptor e = cv_dnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (e && cv_dnn_set_one(g, e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, g->graph) &&
        cv_dnn_set_ints(g, e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &index) && cv_dnn_finish(g, e))
        return e;
    cv_dnn_drop(g, e);
    return NULL;
}

static descriptor config_of(const cv_dnn_graph *g, descriptor engine, const knob *knobs, int count, const int *value)
{
    descriptor choice[CV_DNN_KNOBS] = {0}, config = cv_dnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int set_count = 0, ok = config && cv_dnn_set_one(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    for (int i = 0; i < count && ok; i++) {
        const int64_t v = value[i];
        if (v < 0)
            continue;
        descriptor c = choice[set_count++] = cv_dnn_make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        ok = c && cv_dnn_set(g, c, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knobs[i].type) &&
             cv_dnn_set_ints(g, c, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1, &v) && cv_dnn_finish(g, c);
    }
    if (ok && set_count)
        ok = cv_dnn_set(g, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, set_count, choice);
    ok = ok && cv_dnn_finish(g, config);
    for (int i = 0; i < set_count; i++)
        cv_dnn_drop(g, choice[i]);
    if (ok)
        return config;
    cv_dnn_drop(g, config);
    return NULL;
}

static descriptor plan_of(const cv_dnn_graph *g, descriptor config, size_t *workspace_bytes)
{
    int64_t bytes = 0, got;
    descriptor plan = cv_dnn_make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (plan && cv_dnn_set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->handle) &&
        cv_dnn_set_one(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config) && cv_dnn_finish(g, plan) &&
        g->dnn->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &got, &bytes) ==
            CUDNN_STATUS_SUCCESS &&
        bytes >= 0) {
        *workspace_bytes = (size_t)bytes;
        return plan;
    }
    cv_dnn_drop(g, plan);
    return NULL;
}

cudnnBackendDescriptor_t cv_dnn_plan(const cv_dnn_graph *g, const cv_candidate *candidate, cv_dnn_config *facts)
{
    knob knobs[CV_DNN_KNOBS];
    descriptor engine = engine_of(g, candidate->v[0]), plan = NULL;
    const int notes = engine ? notes_of(g, engine) : -1;
    if (notes >= 0) {
        const int count = knobs_of(g, engine, knobs);
        descriptor config = config_of(g, engine, knobs, count, candidate->v + 1);
        facts->candidate = *candidate;
        facts->notes = (unsigned)notes;
        plan = config ? plan_of(g, config, &facts->workspace_bytes) : NULL;
        cv_dnn_drop(g, config);
    }
    cv_dnn_drop(g, engine);
    return plan;
}

/* Appends the candidate unless it is there already or cuDNN cannot run it. */
static void add(const cv_dnn_graph *g, const cv_candidate *candidate, cv_dnn_config *list, int *count, int capacity)
{
    for (int i = 0; i < *count; i++)
        if (memcmp(&list[i].candidate, candidate, sizeof *candidate) == 0)
            return;
    if (*count == capacity)
        return;
    descriptor plan = cv_dnn_plan(g, candidate, &list[*count]);
    if (plan)
        ++*count;
    cv_dnn_drop(g, plan);
}

/* What a heuristic's configuration says, as a candidate; 0 when it is not plain FP32. */
static int describe(const cv_dnn_graph *g, descriptor config, cv_candidate *candidate)
{
    int64_t index = -1, count = 0, got;
    int ok = 0;
    descriptor engine = cv_dnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR), choice[MOST_KNOBS] = {0};
    if (engine &&
        g->dnn->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &got, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        g->dnn->get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &got, &index) ==
            CUDNN_STATUS_SUCCESS &&
        index <= INT32_MAX && notes_of(g, engine) >= 0) {
        knob knobs[CV_DNN_KNOBS];
        descriptor own = engine_of(g, index); /* its knobs in the order that a candidate uses */
        const int known = own ? knobs_of(g, own, knobs) : 0;
        cv_dnn_drop(g, own);
        candidate->v[0] = (int)index;
        for (int i = 0; i < CV_DNN_KNOBS; i++)
            candidate->v[1 + i] = -1;
        for (int i = 0; i < MOST_KNOBS; i++)
            choice[i] = cv_dnn_make(g, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        if (g->dnn->get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_KNOBS, &count,
                        choice) != CUDNN_STATUS_SUCCESS)
            count = 0;
        for (int64_t i = 0; i < count && i < MOST_KNOBS; i++) {
            cudnnBackendKnobType_t type;
            int64_t value;
            if (g->dnn->get(choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &got, &type) !=
                    CUDNN_STATUS_SUCCESS ||
                g->dnn->get(choice[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &got, &value) !=
                    CUDNN_STATUS_SUCCESS)
                continue;
            for (int j = 0; j < known; j++)
                if (knobs[j].type == type && value >= 0 && value <= INT32_MAX)
                    candidate->v[1 + j] = (int)value;
        }
        for (int i = 0; i < MOST_KNOBS; i++)
            cv_dnn_drop(g, choice[i]);
        ok = 1;
    }
    cv_dnn_drop(g, engine);
    return ok;
}

static void add_heuristic(const cv_dnn_graph *g, cudnnBackendHeurMode_t mode, cv_dnn_config *list, int *count,
                          int capacity)
{
    enum { MOST = 96 };
    descriptor result[MOST] = {0}, h = cv_dnn_make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t found = 0;
    if (h && cv_dnn_set_one(g, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph) &&
        cv_dnn_set(g, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) && cv_dnn_finish(g, h)) {
        for (int i = 0; i < MOST; i++)
            result[i] = cv_dnn_make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (g->dnn->get(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &found, result) !=
            CUDNN_STATUS_SUCCESS)
            found = 0;
        for (int64_t i = 0; i < found && i < MOST; i++) {
            cv_candidate candidate;
            if (describe(g, result[i], &candidate))
                add(g, &candidate, list, count, capacity);
        }
        for (int i = 0; i < MOST; i++)
            cv_dnn_drop(g, result[i]);
    }
    cv_dnn_drop(g, h);
}

/* An engine with the knobs left to cuDNN, or every combination of its knobs' values, counted like an odometer, unless
 * there are too many. */
static void add_combinations(const cv_dnn_graph *g, int64_t index, int all, cv_dnn_config *list, int *count,
                             int capacity)
{
    knob knobs[CV_DNN_KNOBS];
    descriptor engine = engine_of(g, index);
    const int fine = engine && notes_of(g, engine) >= 0;
    const int known = fine ? knobs_of(g, engine, knobs) : 0;
    cv_dnn_drop(g, engine);
    if (!fine)
        return;
    cv_candidate c = {{(int)index}};
    double total = 1;
    for (int i = 0; i < CV_DNN_KNOBS; i++) {
        c.v[1 + i] = -1;
        if (i < known)
            total *= (double)((knobs[i].high - knobs[i].low) / knobs[i].step + 1);
    }
    if (!all)
        add(g, &c, list, count, capacity);
    if (!all || known == 0 || total < 1 || total > MOST_VALUES)
        return;
    for (int i = 0; i < known; i++)
        c.v[1 + i] = (int)knobs[i].low;
    for (int at = 0; at < known;) {
        add(g, &c, list, count, capacity);
        for (at = 0; at < known; at++) {
            c.v[1 + at] += (int)knobs[at].step;
            if (c.v[1 + at] <= knobs[at].high)
                break;
            c.v[1 + at] = (int)knobs[at].low;
        }
    }
}

int cv_dnn_list(const cv_dnn_graph *g, cv_dnn_config *list, int capacity)
{
    int64_t engines = 0, got;
    int count = 0;
    if (g->dnn->get(g->graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 1, &got, &engines) !=
        CUDNN_STATUS_SUCCESS)
        return 0;
    add_heuristic(g, CUDNN_HEUR_MODE_A, list, &count, capacity);
    add_heuristic(g, CUDNN_HEUR_MODE_FALLBACK, list, &count, capacity);
    for (int knobs = 0; knobs < 2; knobs++)
        for (int64_t i = 0; i < engines && i < 1000; i++)
            add_combinations(g, i, knobs, list, &count, capacity);
    return count;
}
