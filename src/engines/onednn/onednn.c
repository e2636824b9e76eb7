/* onednn: the vendor's direct convolution, loaded at run time.
 *
 *   y[n,k,p,q] = bias[k] + sum over c, r, s of x * w      accumulated in FP32 in an order of oneDNN's
 *
 * fpmath mode is strict. Layouts are oneDNN's own choice, and laying x, w and y out is part of every run (w's is not
 * with prepared weights). Candidates: l0 all layouts to oneDNN's liking, l1 x and y as they are.
 *
 * Winograd is left alone: it spreads one NaN over a tile of outputs, and its weights cannot serve a second plan.
 *
 * Any order of a sum of n products, FMA or not, is within n*u*sum|x||w| of the truth to first order, which is the bound
 * given, with two roundings for the bias and the product. */
#include "kit.h"
#include "chain/taps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Found out once for a request: refuse, candidates and estimate are asked about the same one in turn. */
static const cv_kit_facts *facts_of(const cv_request *q)
{
    static _Thread_local struct {
        int threads; /* 0: nothing known; a machine of another context may lie at the same address */
        cv_request request;
        cv_kit_facts facts[CV_KIT_LAYOUTS];
    } last;
    const char *why;
    const cv_dnnl *d = cv_dnnl_get(&why);
    if (last.threads != q->machine->threads || memcmp(&last.request, q, sizeof *q) != 0) {
        memcpy(&last.request, q, sizeof *q); /* with its padding */
        for (int layout = 0; layout < CV_KIT_LAYOUTS; layout++)
            cv_kit_find(d, q, layout, &last.facts[layout]);
        last.threads = q->machine->threads;
    }
    return last.facts;
}

static const char *refuse(const cv_request *q, char *reason)
{
    const char *why;
    const cv_machine *m = q->machine;
    const convoy_problem *p = &q->p;
    if (!cv_dnnl_get(&why))
        return why;
    cv_cpu cpu;
    cv_cpu_detect(&cpu);
    if (m->cpu.isa < cpu.isa) {
        snprintf(reason, CV_REASON_BYTES, "it cannot be held to %s on a processor with %s", cv_isa_name(m->cpu.isa),
                 cv_isa_name(cpu.isa));
        return reason;
    }
    const double most = 2147483647.0, x = (double)p->n * (double)p->c * (double)p->h * (double)p->w,
                 w = (double)p->k * (double)q->cg * (double)p->r * (double)p->s,
                 y = (double)p->n * (double)p->k * (double)q->P * (double)q->Q;
    const int64_t longest[] = {p->pad_t, p->pad_b, p->pad_l, p->pad_r, p->dil_h, p->dil_w, p->stride_h, p->stride_w};
    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++)
        if ((double)longest[i] > most)
            return "a stride, dilation or pad does not fit into 32 bits";
    if (x > most || w > most || y > most)
        return "a tensor has 2^31 elements or more";
    const cv_kit_facts *facts = facts_of(q);
    for (int layout = 0; layout < CV_KIT_LAYOUTS; layout++)
        if (facts[layout].offered)
            return NULL;
    return "it has no quick loops for this problem";
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    const cv_kit_facts *facts = facts_of(q);
    int count = 0;
    for (int layout = 0; layout < CV_KIT_LAYOUTS && count < capacity; layout++)
        if (facts[layout].offered && facts[layout].workspace_bytes <= q->workspace_limit) {
            memset(&list[count], 0, sizeof *list);
            list[count++].v[0] = layout;
        }
    return count;
}

/* Rates as measured on two cores with AVX-512, over the nominal ones. Output channels fill whole vectors, one group at
 * a time. Depthwise kernels leave out taps in the padding and lose a few columns' worth a row. */
static double sum_s(const cv_request *q, const cv_kit_facts *f)
{
    const convoy_problem *p = &q->p;
    const double peak = q->machine->flop_per_s, flop = convoy_problem_flop(p);
    if (strstr(f->implementation, "gemm")) {
        const double elements = (double)p->n * (double)p->c * (double)p->r * (double)p->s * (double)q->P * (double)q->Q;
        const double columns = (double)(q->P * q->Q), narrow = columns < 128 ? 128 / columns : 1;
        return flop * narrow / (0.95 * peak) + (p->r * p->s > 1 ? elements * 0.7e-9 / q->machine->threads : 0);
    }
    if (p->groups == p->c && q->kg == 1) {
        const cv_axis y = {p->h, p->r, p->stride_h, p->dil_h, p->pad_t},
                      x = {p->w, p->s, p->stride_w, p->dil_w, p->pad_l};
        const double share = cv_axis_share(&y, q->P) * cv_axis_share(&x, q->Q);
        return flop * share * (1.0 + 7.0 / (double)q->Q) / (0.65 * peak);
    }
    /* A row's sums are chains of dependent multiply-adds: eight of them fill the pipes. A row is one thread's. */
    const double blocks = (double)((q->kg + 15) / 16), vectors = 16.0 * blocks / (double)q->kg;
    const double chains = fmin(8.0, (double)q->Q * blocks), threads = q->machine->threads,
                 rows = fmin(threads, (double)p->n * (double)p->groups * (double)q->P);
    return flop * vectors * 8.0 / chains * threads / rows / (0.95 * peak);
}

static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    const cv_kit_facts *f = &facts_of(q)[candidate->v[0]];
    *workspace_bytes = f->workspace_bytes;
    const double moved = 2.0 * (double)(f->x_bytes + f->w_bytes + f->y_bytes);
    const double rate = q->machine->bytes_per_s * (moved < 8e6 ? 2.0 : 0.7);      /* what is small stays in L3 */
    return (q->machine->threads > 1 ? 14e-6 : 4e-6) + sum_s(q, f) + moved / rate; /* OpenMP's barriers */
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    const char *why;
    cv_kit *kit;
    convoy_status status = cv_kit_create(cv_dnnl_get(&why), q, candidate->v[0], &kit);
    *state = kit;
    if (status != CONVOY_OK)
        return status;
    needs->workspace_bytes = kit->workspace_bytes;
    needs->weights_bytes = kit->block_bytes;
    needs->bound_factor = (double)q->cg * (double)q->p.r * (double)q->p.s + 2.0;
    return CONVOY_OK;
}

static void destroy(void *state) { cv_kit_destroy(state); }

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    (void)scratch, (void)stream;
    return cv_kit_prepare(state, w, weights);
}

/* The plan is immutable but for its slots, which threads take in turn. */
static convoy_status execute(const void *state, const cv_exec *run)
{
    return cv_kit_execute((cv_kit *)(uintptr_t)state, run);
}

static void library(char *text, size_t bytes)
{
    const char *why;
    const cv_dnnl *d = cv_dnnl_get(&why);
    if (d)
        snprintf(text, bytes, "onednn: %d.%d.%d\n", d->major, d->minor, d->patch);
}

const cv_engine cv_engine_onednn = {
    .name = "onednn",
    .about = "oneDNN's direct convolution in strict FP32, when libdnnl 2 or 3 is installed",
    .revision = 1,
    .device = CONVOY_CPU,
    .traits = CV_IS_VENDOR | CV_PREPARES | CV_PACKED_ONLY,
    .candidate_keys = "l",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = destroy,
    .prepare = prepare,
    .execute = execute,
    .library = library,
};
