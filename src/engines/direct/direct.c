/* direct: contract exact, on the CPU. The kernels are src/chain's; here they are offered, priced and given memory.
 *
 * Candidates say what a vector's lanes are, and with it how w is packed:
 *
 *   k32c0    32 output channels: panels of w, x broadcast; any strides of x
 *   k0c16    16 depthwise channels: panels of w, x interleaved by bands of rows, a band a thread
 *   k0c0     output columns: nothing packed, no workspace
 */
#include "core/engine.h"
#include "chain/taps.h"
#include "chain/whole.h"

#include <string.h>

enum { KEY_CHANNEL, KEY_PLANE };

struct plan {
    const cv_machine *machine;
    cv_request q;
    cv_whole whole;
    size_t panels; /* bytes of workspace for packed weights, a multiple of 64; 0 when prepared or not packed */
};

static const char *refuse(const cv_request *q, char *reason)
{
    (void)q, (void)reason;
    return NULL;
}

static void plan_of(const cv_request *q, cv_whole_kind kind, cv_whole *whole)
{
    cv_whole_plan(whole, &q->p, q->machine->cpu.isa, &q->machine->cpu, q->machine->threads, kind);
}

static int64_t over(int64_t a, int64_t b) { return (a + b - 1) / b; }

static size_t round_up(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static size_t panel_workspace(const cv_request *q, const cv_whole *whole)
{
    return q->prepared || whole->kind == CV_BY_COLUMN ? 0 : round_up(cv_whole_panel_bytes(whole));
}

static size_t workspace(const cv_request *q, const cv_whole *whole)
{
    return panel_workspace(q, whole) + cv_whole_stage_bytes(whole);
}

static cv_whole_kind kind_of(const cv_candidate *c)
{
    return c->v[KEY_CHANNEL] ? CV_BY_CHANNEL : c->v[KEY_PLANE] ? CV_BY_PLANE : CV_BY_COLUMN;
}

static int offer(const cv_request *q, cv_whole_kind kind, cv_candidate *list, int count, int capacity)
{
    cv_whole whole;
    plan_of(q, kind, &whole);
    if (count == capacity || workspace(q, &whole) > q->workspace_limit)
        return count;
    memset(&list[count], 0, sizeof list[count]);
    list[count].v[KEY_CHANNEL] = kind == CV_BY_CHANNEL ? whole.width : 0;
    list[count].v[KEY_PLANE] = kind == CV_BY_PLANE ? whole.width : 0;
    return count + 1;
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    int count = 0;
    if (q->kg == 1 && q->cg == 1 && q->p.groups > 1)
        count = offer(q, CV_BY_PLANE, list, count, capacity);
    count = offer(q, CV_BY_CHANNEL, list, count, capacity);
    return offer(q, CV_BY_COLUMN, list, count, capacity);
}

/* Multiply-adds inside the image, with lanes that stand idle, over rates measured on two Zen 4 cores with AVX-512 as
 * shares of the nominal one; packing w; and for depthwise planes the interleaving of x and y. */
static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    const convoy_problem *p = &q->p;
    const cv_axis y = {p->h, p->r, p->stride_h, p->dil_h, p->pad_t}, x = {p->w, p->s, p->stride_w, p->dil_w, p->pad_l};
    const double flop = convoy_problem_flop(p) * cv_axis_share(&y, q->P) * cv_axis_share(&x, q->Q);
    const double peak = q->machine->flop_per_s, call = q->machine->threads > 1 ? 4e-6 : 1e-6; /* waking a thread */
    cv_whole whole;
    plan_of(q, kind_of(candidate), &whole);
    *workspace_bytes = workspace(q, &whole);
    if (whole.kind == CV_BY_CHANNEL) {
        const int vector = whole.width >= 32 ? whole.width / 2 : whole.width; /* the last panel may be half as wide */
        const double lanes = (double)(over(q->kg, vector) * vector), filled = (double)q->kg / lanes;
        const double packed = q->prepared ? 0 : (double)p->groups * lanes * (double)(q->cg * p->r * p->s);
        const double edges = 1.0 + 2.5 / (double)q->Q; /* rows of outputs that do not fill the register tile */
        return 2 * call + flop * edges / filled / (0.93 * peak) + packed * 0.4e-9 / q->machine->threads;
    }
    if (whole.kind == CV_BY_PLANE) {
        const double moved = 4.0 * (double)p->n * (double)(p->c * p->h * p->w + p->k * q->P * q->Q);
        const double filled = (double)p->groups / (double)(over(p->groups, whole.width) * whole.width);
        return call + flop * (1.0 + 9.0 / (double)q->Q) / filled / (0.84 * peak) + moved / q->machine->bytes_per_s;
    }
    /* Four vectors of columns hide the latency of a chain; tiles that padding cuts are masked, as are vectors that the
     * columns do not fill; other strides are gathered. */
    const int64_t vectors = over(q->Q, 16);
    const double filled = (double)q->Q / (double)(16 * vectors), busy = vectors < 4 ? (double)vectors / 4 : 1.0;
    const double border = (p->pad_l > 0 ? 4.0 : 0) + (p->pad_r > 0 ? 4.0 : 0); /* vectors of the tiles it cuts */
    const double masked = border < (double)vectors ? border / (double)vectors : 1.0;
    const double slow = (q->Q < 16 ? 2.2 : 1.0 + masked) * (p->stride_w > 1 ? 4.0 : 1.0);
    return call + flop * slow / (filled * busy) / (0.95 * peak);
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    *state = NULL;
    cv_whole whole;
    plan_of(q, kind_of(candidate), &whole);
    struct plan *plan = cv_state_alloc(q, "direct", sizeof *plan + cv_whole_table_bytes(&whole));
    if (!plan)
        return CONVOY_OUT_OF_MEMORY;
    plan->q = *q;
    plan->whole = whole;
    cv_whole_tables(&plan->whole, plan + 1);
    plan->panels = panel_workspace(q, &whole);
    needs->workspace_bytes = workspace(q, &whole);
    needs->weights_bytes = q->prepared ? cv_whole_panel_bytes(&whole) : 0;
    /* One rounding a term and one for the bias; n*u needs no 1/(1 - n*u) (Jeannerod and Rump, 2013). */
    needs->bound_factor = (double)q->cg * (double)q->p.r * (double)q->p.s + 1;
    *state = plan;
    return CONVOY_OK;
}

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    (void)scratch, (void)stream;
    const struct plan *plan = state;
    cv_whole_pack(&plan->whole, plan->q.machine->pool, w, weights);
    return CONVOY_OK;
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    const struct plan *plan = state;
    const cv_chain_io io = {run->x, run->w, run->bias, run->y};
    const float *panels = run->weights;
    if (plan->panels) {
        const double from = run->phases ? cv_now_s() : 0;
        cv_whole_pack(&plan->whole, plan->q.machine->pool, run->w, run->workspace);
        panels = run->workspace;
        if (run->phases)
            cv_phase_add(run->phases, "pack", cv_now_s() - from, 2.0 * (double)plan->panels, 0);
    }
    const double from = run->phases ? cv_now_s() : 0;
    cv_whole_run(&plan->whole, plan->q.machine->pool, &io, panels, (char *)run->workspace + plan->panels);
    if (run->phases) {
        const convoy_problem *p = &plan->q.p;
        const double floats = (double)p->n * ((double)p->c * (double)p->h * (double)p->w +
                                              (double)p->k * (double)plan->q.P * (double)plan->q.Q);
        cv_phase_add(run->phases, "sum", cv_now_s() - from, 4.0 * floats + (double)cv_whole_panel_bytes(&plan->whole),
                     convoy_problem_flop(p));
    }
    return CONVOY_OK;
}

const cv_engine cv_engine_direct = {
    .name = "direct",
    .about = "the direct sum in the exact contract's order, SIMD across outputs",
    .revision = 1,
    .device = CONVOY_CPU,
    .traits = CV_KEEPS_EXACT | CV_PREPARES,
    .candidate_keys = "k c",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = cv_state_free,
    .prepare = prepare,
    .execute = execute,
};
