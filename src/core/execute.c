/* Running a plan, and preparing its weights. */
#include "services.h"

#include <stdint.h>
#include <string.h>

static void *align_up(const cv_machine *m, void *memory)
{
    const uintptr_t mask = cv_align_bytes(m) - 1;
    return (void *)(((uintptr_t)memory + mask) & ~mask);
}

static convoy_status missing(const char *field, const char *expected)
{
    return cv_fail(CONVOY_INVALID, "args.%s is NULL: expected %s", field, expected);
}

static convoy_status check_weights(const convoy_plan *plan, const convoy_weights *g)
{
    const cv_request *q = &plan->request;
    char made[CV_CANDIDATE_TEXT];
    cv_candidate_print(g->engine, &g->candidate, made);
    if (g->shared->machine.device != plan->shared->machine.device ||
        g->shared->machine.device_index != plan->shared->machine.device_index)
        return cv_fail(CONVOY_INVALID, "args.weights are on another device: expected the plan's");
    if (g->engine != plan->choice.engine || g->composed != plan->composed ||
        memcmp(&g->candidate, &plan->choice.candidate, sizeof g->candidate) != 0)
        return cv_fail(CONVOY_INVALID,
                       "args.weights were made by engine %s, candidate '%s': expected %s, '%s', the plan's",
                       g->engine->name, made, plan->choice.engine->name, plan->candidate);
    if (g->k != q->p.k || g->cg != q->cg || g->r != q->p.r || g->s != q->p.s || g->groups != q->p.groups)
        return cv_fail(CONVOY_INVALID,
                       "args.weights were made for k%lld, c/g %lld, r%lld, s%lld, g%lld: expected the plan's",
                       (long long)g->k, (long long)g->cg, (long long)g->r, (long long)g->s, (long long)g->groups);
    return CONVOY_OK;
}

/* A tensor or workspace as the caller passed it. */
typedef struct span {
    const char *name;
    const void *at;
    size_t bytes;
} span;

static int meet(const span *a, const span *b)
{
    const uintptr_t i = (uintptr_t)a->at, j = (uintptr_t)b->at;
    return a->at && b->at && a->bytes && b->bytes && (i < j ? j - i < a->bytes : i - j < b->bytes);
}

/* Alignment, and that nothing is written where something is read. Strided tensors may interleave with others in one
 * block of memory, so that of them element 0 alone is sure to be their own. */
static convoy_status check_memory(const convoy_plan *plan, const convoy_args *a)
{
    const cv_request *q = &plan->request;
    const convoy_problem *p = &q->p;
    const size_t one = sizeof(float);
    const span y = {"y", a->y, p->strided ? one : one * (size_t)(p->n * p->k * q->P * q->Q)};
    const span room = {"workspace", a->workspace, convoy_plan_workspace_bytes(plan)};
    const span other[] = {
        {"x", plan->empty ? NULL : a->x, p->strided ? one : one * (size_t)(p->n * p->c * p->h * p->w)},
        {"w", plan->empty || q->prepared ? NULL : a->w, p->strided ? one : one * (size_t)(p->k * q->cg * p->r * p->s)},
        {"bias", a->bias, one * (size_t)p->k},
        y};
    for (int i = 0; i < 4; ++i) {
        if ((uintptr_t)other[i].at % sizeof(float))
            return cv_fail(CONVOY_INVALID, "args.%s is at an address that is no multiple of 4: expected floats",
                           other[i].name);
        if (i < 3 && meet(&y, &other[i]))
            return cv_fail(CONVOY_INVALID, "args.y overlaps args.%s: expected memory of its own", other[i].name);
        if (meet(&room, &other[i]))
            return cv_fail(CONVOY_INVALID, "args.workspace overlaps args.%s: expected memory of its own",
                           other[i].name);
    }
    return CONVOY_OK;
}

static convoy_status check_args(const convoy_plan *plan, const convoy_args *a)
{
    const cv_request *q = &plan->request;
    if (!a)
        return cv_fail(CONVOY_INVALID, "args is NULL: expected a convoy_args");
    if (a->struct_bytes != sizeof *a)
        return cv_fail(CONVOY_INVALID, "args.struct_bytes is %zu: expected sizeof(convoy_args) = %zu", a->struct_bytes,
                       sizeof *a);
    if (q->bias && !a->bias && q->p.k)
        return missing("bias", "K floats, as the plan was made with bias = 1");
    if (!q->bias && a->bias)
        return cv_fail(CONVOY_INVALID, "args.bias is set: expected NULL, as the plan was made with bias = 0");
    if (plan->empty)
        return q->p.n == 0 || q->p.k == 0 ? CONVOY_OK : a->y ? check_memory(plan, a) : missing("y", "the output");
    if (!a->x)
        return missing("x", "the input");
    if (!a->y)
        return missing("y", "the output");
    if (q->prepared && !a->weights)
        return missing("weights", "those made from this plan, as it was made with prepared = 1");
    if (!q->prepared && a->weights)
        return cv_fail(CONVOY_INVALID, "args.weights is set: expected NULL, as the plan was made with prepared = 0");
    if (!q->prepared && !a->w)
        return missing("w", "the weights");
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    if (bytes && !a->workspace)
        return cv_fail(CONVOY_INVALID, "args.workspace is NULL: expected at least %zu bytes", bytes);
    if (bytes && a->workspace_bytes < bytes)
        return cv_fail(CONVOY_INVALID, "args.workspace has %zu bytes: expected at least %zu", a->workspace_bytes,
                       bytes);
    const convoy_status status = check_memory(plan, a);
    return status == CONVOY_OK && q->prepared ? check_weights(plan, a->weights) : status;
}

static convoy_status run(const convoy_plan *plan, const convoy_args *a, cv_phases *phases)
{
    const cv_machine *m = &plan->shared->machine;
    convoy_status status = check_args(plan, a);
    if (status == CONVOY_OK)
        status = m->ops->bind(m);
    if (status != CONVOY_OK)
        return status;
    if (plan->empty) {
        if (plan->request.p.n && plan->request.p.k)
            status = m->ops->fill_bias(m, &plan->request.p, a->bias, a->y, a->stream);
    } else {
        cv_exec exec = {a->x, a->w, a->bias, a->y, NULL, NULL, a->stream, phases, 0};
        if (a->weights) {
            const int ahead = (plan->choice.engine->traits & CV_PREPARES) != 0;
            exec.weights = ahead ? a->weights->data : NULL;
            exec.w = ahead ? NULL : a->weights->data;
        }
        exec.workspace = plan->needs.workspace_bytes ? align_up(m, a->workspace) : NULL;
        status = (plan->composed ? cv_match_table.execute : plan->choice.engine->execute)(plan->state, &exec);
    }
    return status;
}

convoy_status convoy_execute(const convoy_plan *plan, const convoy_args *args)
{
    if (!plan)
        return cv_fail(CONVOY_INVALID, "plan is NULL: expected one from convoy_plan_create");
    cv_caller caller;
    cv_caller_enter(&caller, plan->shared->machine.ops);
    const convoy_status status = run(plan, args, NULL);
    cv_caller_leave(&caller);
    return status;
}

convoy_status convoy_execute_phases(const convoy_plan *plan, const convoy_args *args, convoy_phase *phases,
                                    int capacity, int *count)
{
    if (count)
        *count = 0;
    if (!plan || !phases || !count || capacity < 1)
        return cv_fail(CONVOY_INVALID, "%s: expected a plan, room for phases and a count",
                       plan ? "phases, capacity or count is 0" : "plan is NULL");
    const cv_machine *m = &plan->shared->machine;
    cv_phases list;
    memset(&list, 0, sizeof list);
    double from = cv_now_s();
    cv_caller caller;
    cv_caller_enter(&caller, m->ops);
    convoy_status status = run(plan, args, &list);
    if (status == CONVOY_OK)
        status = m->ops->synchronize(m, args->stream);
    cv_caller_leave(&caller);
    if (status != CONVOY_OK)
        return status;
    if (list.count == 0) {
        const convoy_problem *p = &plan->request.p;
        const double bytes = 4.0 * ((double)p->n * (double)p->c * (double)p->h * (double)p->w +
                                    (double)p->k * (double)plan->request.cg * (double)p->r * (double)p->s +
                                    (double)p->n * (double)p->k * (double)plan->request.P * (double)plan->request.Q);
        cv_phase_add(&list, "all", cv_now_s() - from, bytes, convoy_problem_flop(p));
    }
    for (; *count < list.count && *count < capacity; ++*count)
        phases[*count] = list.phase[*count];
    return CONVOY_OK;
}

/* The device block's contents: the engine's transform, or a plain copy where the engine reads w itself. */
static convoy_status fill_weights(const convoy_plan *plan, const float *w, void *stream, convoy_weights *g)
{
    const cv_machine *m = &plan->shared->machine;
    if (!(plan->choice.engine->traits & CV_PREPARES))
        return m->ops->copy(m, g->data, w, g->bytes, CONVOY_ON_DEVICE, stream);
    void *block = NULL, *scratch = NULL;
    convoy_status status = CONVOY_OK;
    if (plan->needs.prepare_bytes) {
        status = m->ops->alloc(m, plan->needs.prepare_bytes + cv_align_bytes(m), &block);
        scratch = block ? align_up(m, block) : NULL;
    }
    if (status == CONVOY_OK)
        status = (plan->composed ? cv_match_table.prepare : plan->choice.engine->prepare)(plan->state, w, g->data,
                                                                                          scratch, stream);
    if (status == CONVOY_OK)
        status = m->ops->synchronize(m, stream);
    if (block)
        m->ops->free(m, block);
    return status;
}

static convoy_status make_weights(const convoy_plan *plan, const float *w, void *stream, convoy_weights **out)
{
    const cv_machine *m = &plan->shared->machine;
    const cv_request *q = &plan->request;
    convoy_weights *g = cv_alloc(&m->memory, sizeof *g);
    if (!g)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a weights handle");
    memset(g, 0, sizeof *g);
    g->shared = plan->shared;
    atomic_fetch_add(&g->shared->references, 1);
    g->engine = plan->choice.engine;
    g->candidate = plan->choice.candidate;
    g->composed = plan->composed;
    g->k = q->p.k, g->cg = q->cg, g->r = q->p.r, g->s = q->p.s, g->groups = q->p.groups;
    const int ahead = (g->engine->traits & CV_PREPARES) != 0;
    g->bytes = plan->empty ? 0
               : ahead     ? plan->needs.weights_bytes
                           : sizeof(float) * (size_t)(g->k * g->cg * g->r * g->s);
    convoy_status status = m->ops->bind(m);
    if (status == CONVOY_OK)
        status = m->ops->alloc(m, g->bytes + cv_align_bytes(m), &g->block);
    if (status == CONVOY_OK) {
        g->data = align_up(m, g->block);
        if (!plan->empty)
            status = fill_weights(plan, w, stream, g);
    }
    if (status == CONVOY_OK)
        *out = g;
    else
        convoy_weights_destroy(g);
    return status;
}

convoy_status convoy_weights_create(const convoy_plan *plan, const float *w, void *stream, convoy_weights **weights)
{
    if (!weights)
        return cv_fail(CONVOY_INVALID, "weights is NULL: expected a place for the handle");
    *weights = NULL;
    if (!plan || (!w && !plan->empty))
        return cv_fail(CONVOY_INVALID, "%s is NULL: expected %s", plan ? "w" : "plan",
                       plan ? "the weights" : "one from convoy_plan_create");
    if (!plan->request.prepared)
        return cv_fail(CONVOY_INVALID, "the plan was made with prepared = 0: expected 1");
    cv_caller caller;
    cv_caller_enter(&caller, plan->shared->machine.ops);
    const convoy_status status = make_weights(plan, w, stream, weights);
    cv_caller_leave(&caller);
    return status;
}

void convoy_weights_destroy(convoy_weights *g)
{
    if (!g)
        return;
    const cv_machine *m = &g->shared->machine;
    convoy_allocator memory = m->memory;
    if (g->block) {
        cv_caller caller;
        cv_caller_enter(&caller, m->ops);
        if (m->ops->bind(m) != CONVOY_UNSUPPORTED)
            m->ops->free(m, g->block);
        cv_caller_leave(&caller);
    }
    cv_shared_release(g->shared);
    cv_free(&memory, g);
}

size_t convoy_weights_bytes(const convoy_weights *g) { return g ? g->bytes : 0; }
