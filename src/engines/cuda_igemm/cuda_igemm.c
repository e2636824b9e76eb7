/* cuda_igemm: the direct sum on a GPU in the exact contract's order, by the kernels of src/chain.
 *
 * Candidates: kind (0 slide, 1 plane, 2 gather), variant of its kernel, and for slide the swizzle and whether tiles are
 * split into equal shares. slide has w re-laid into the workspace, or ahead of time for prepared weights. */
#include "core/engine.h"
#include "chain/chain_cuda.h"
#include "gpu/cuda_status.h"

#include <string.h>

enum { ALIGN = 256 };

struct state {
    const cv_machine *machine;
    cv_chain_shape shape; /* as the caller's tensors are */
    cv_chain_plan plan;   /* w's strides packed when it comes prepared */
};

static cv_chain_shape shape_of(const cv_request *q)
{
    cv_chain_shape s;
    cv_chain_shape_of(&q->p, q->P, q->Q, &s);
    return s;
}

static cv_chain_gpu gpu_of(const cv_machine *m)
{
    const cv_chain_gpu gpu = {m->sm_count, m->gpu_shared_bytes, m->flop_per_s, m->bytes_per_s};
    return gpu;
}

static cv_chain_choice choice_of(const cv_candidate *c)
{
    const cv_chain_choice choice = {c->v[0], c->v[1], c->v[2], c->v[3], c->v[4]};
    return choice;
}

static size_t round_up(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

static size_t relaid_bytes(const cv_chain_plan *plan) { return round_up(plan->relaid_bytes); }

static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    const cv_chain_shape shape = shape_of(q);
    const cv_chain_gpu gpu = gpu_of(q->machine);
    const cv_chain_choice choice = choice_of(candidate);
    return cv_chain_cuda_estimate(&shape, &gpu, &choice, !q->prepared, workspace_bytes);
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    cv_chain_choice choices[CV_CHAIN_CHOICES];
    const cv_chain_shape shape = shape_of(q);
    const cv_chain_gpu gpu = gpu_of(q->machine);
    const int found = cv_chain_cuda_choices(&shape, &gpu, choices, CV_CHAIN_CHOICES);
    int count = 0;
    for (int i = 0; i < found && count < capacity; i++) {
        cv_candidate c = {{choices[i].kind, choices[i].variant, choices[i].swizzle, choices[i].split, choices[i].taps}};
        size_t bytes = 0;
        (void)estimate(q, &c, &bytes);
        if (bytes <= q->workspace_limit)
            list[count++] = c;
    }
    return count;
}

static const char *refuse(const cv_request *q, char *reason)
{
    cv_chain_choice choice;
    const cv_chain_shape shape = shape_of(q);
    const cv_chain_gpu gpu = gpu_of(q->machine);
    (void)reason;
    return cv_chain_cuda_choices(&shape, &gpu, &choice, 1) ? NULL : "its sizes exceed what the kernels' indices hold";
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    cv_chain_shape shape = shape_of(q);
    const cv_chain_gpu gpu = gpu_of(q->machine);
    const cv_chain_choice choice = choice_of(candidate);
    *state = NULL;
    struct state *s = cv_state_alloc(q, "cuda_igemm", sizeof *s);
    if (!s)
        return CONVOY_OUT_OF_MEMORY;
    s->shape = shape;
    if (q->prepared)
        cv_packed_weights(&q->p, shape.ws);
    convoy_status status = cv_cuda_status(cv_chain_cuda_plan(&shape, &gpu, &choice, &s->plan), "planning cuda_igemm");
    if (status != CONVOY_OK) {
        cv_state_free(s);
        return status;
    }
    const size_t relaid = relaid_bytes(&s->plan);
    needs->workspace_bytes = s->plan.workspace_bytes + (q->prepared ? 0 : relaid);
    needs->weights_bytes = relaid ? relaid : (size_t)(q->p.k * q->cg * q->p.r * q->p.s) * sizeof(float);
    needs->bound_kind = 0;
    needs->bound_factor = (double)q->cg * (double)q->p.r * (double)q->p.s + 1;
    *state = s;
    return CONVOY_OK;
}

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    const struct state *s = state;
    (void)scratch;
    /* plane and gather read w as it is: their block is a packed copy */
    return cv_cuda_status(cv_chain_cuda_relay(&s->shape, s->plan.relaid_bytes ? s->plan.kb : 1, w, weights, stream),
                          "re-laying w for cuda_igemm");
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    const struct state *s = state;
    const float *w = run->w;
    void *rest = run->workspace;
    if (run->weights) {
        w = run->weights;
    } else if (s->plan.relaid_bytes) {
        float *relaid = run->workspace;
        const int e = cv_chain_cuda_relay(&s->shape, s->plan.kb, run->w, relaid, run->stream);
        if (e)
            return cv_cuda_status(e, "re-laying w for cuda_igemm");
        w = relaid;
        rest = (char *)run->workspace + relaid_bytes(&s->plan);
    }
    return cv_cuda_status(cv_chain_cuda_run(&s->plan, run->x, w, run->bias, run->y, rest, run->stream),
                          "launching cuda_igemm");
}

const cv_engine cv_engine_cuda_igemm = {
    .name = "cuda_igemm",
    .about = "direct sum on the GPU in the exact contract's order",
    .revision = 2,
    .device = CONVOY_CUDA,
    .traits = CV_KEEPS_EXACT | CV_PREPARES,
    .candidate_keys = "kind v swz split taps",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = cv_state_free,
    .prepare = prepare,
    .execute = execute,
};
