/* cuda_fft: tiled overlap-save convolution on a GPU by kernels of our own. docs/engines/cuda-fft.md tells the story.
 *
 * Candidates: the tile, ty x tx. Everything else (block shapes, cuts that honour the workspace limit) follows from the
 * problem. */
#include "core/engine.h"
#include "gpu/cuda_status.h"
#include "spectral_plan.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 128, BEST = 24 };

struct state {
    const cv_machine *machine;
    cv_spectral_plan plan;
};

/* What kernels of this kind reach of the nominal rates: measured on an H200, see docs/performance-log.md. */
static cv_spectral_machine rates(const cv_machine *m)
{
    const double peak = m->flop_per_s > 0 ? m->flop_per_s : 6.0e13,
                 bytes = m->bytes_per_s > 0 ? m->bytes_per_s : 4.0e12;
    const int multiprocessors = m->sm_count > 0 ? m->sm_count : 132;
    const cv_spectral_machine r = {.bytes = 0.7 * bytes,
                                   .tensor_cycles = peak / 64, /* a multiply-add of 32 lanes a cycle */
                                   .rate = peak / multiprocessors / 5.07e11,
                                   .multiprocessors = multiprocessors,
                                   .shared = m->gpu_shared_bytes > 0 ? (double)m->gpu_shared_bytes + 1024 : 233472,
                                   .hopper = m->sm_major == 9 && m->sm_minor == 0,
                                   .launch = 2e-6,
                                   .block = (double)m->gpu_shared_bytes};
    return r;
}

/* Leaves out the taps along one side that meet the image for no output: those before first and from last on. */
static void crop_taps(int64_t taps, int64_t image, int64_t pad, int64_t reach, int *first, int *last)
{
    *first = (int)(pad > reach ? pad - reach : 0);
    *last = (int)(taps < pad + image ? taps : pad + image);
    if (*first >= *last)
        *first = 0, *last = (int)taps;
}

static cv_spectral geometry(const cv_request *q)
{
    const convoy_problem *p = &q->p;
    cv_spectral g = {.n = (int)p->n,
                     .c = (int)p->c,
                     .h = (int)p->h,
                     .w = (int)p->w,
                     .k = (int)p->k,
                     .r = (int)p->r,
                     .s = (int)p->s,
                     .p = (int)q->P,
                     .q = (int)q->Q,
                     .cg = (int)q->cg,
                     .kg = (int)q->kg,
                     .stride_h = (int)p->stride_h,
                     .stride_w = (int)p->stride_w,
                     .pad_t = (int)p->pad_t,
                     .pad_l = (int)p->pad_l};
    int r0, r1, s0, s1;
    crop_taps(p->r, p->h, p->pad_t, (q->P - 1) * p->stride_h, &r0, &r1);
    crop_taps(p->s, p->w, p->pad_l, (q->Q - 1) * p->stride_w, &s0, &s1);
    g.r = r1 - r0, g.pad_t -= r0;
    g.s = s1 - s0, g.pad_l -= s0;
    g.w_first = r0 * p->w_stride[2] + s0 * p->w_stride[3];
    memcpy(g.xs, p->x_stride, sizeof g.xs);
    memcpy(g.ws, p->w_stride, sizeof g.ws);
    memcpy(g.ys, p->y_stride, sizeof g.ys);
    return g;
}

static int plan_for(const cv_request *q, int ty, int tx, cv_spectral_plan *plan)
{
    const cv_spectral g = geometry(q);
    const cv_spectral_machine machine = rates(q->machine);
    return cv_spectral_make_plan(&g, (int)q->p.groups, ty, tx, q->workspace_limit, q->prepared, &machine, plan);
}

static const char *refuse(const cv_request *q, char *reason)
{
    const convoy_problem *p = &q->p;
    const int64_t most = INT32_MAX / 4;
    if ((p->dil_h > 1 && p->r > 1) || (p->dil_w > 1 && p->s > 1)) {
        snprintf(reason, CV_REASON_BYTES, "its kernels have no dilation, and %lldx%lld is asked", (long long)p->dil_h,
                 (long long)p->dil_w);
        return reason;
    }
    if (p->r > LONGEST || p->s > LONGEST) {
        snprintf(reason, CV_REASON_BYTES, "the kernel's %lldx%lld points exceed its largest tile, %d", (long long)p->r,
                 (long long)p->s, LONGEST);
        return reason;
    }
    if (p->n > most || p->c > most || p->k > most || p->h + p->pad_t + p->pad_b > most ||
        p->w + p->pad_l + p->pad_r > most || p->stride_h > most || p->stride_w > most)
        return "its sizes exceed what the kernels' indices hold";
    return NULL;
}

struct ranked {
    double seconds;
    int ty, tx;
};

static int faster(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static int candidates(const cv_request *q, cv_candidate *list, int capacity)
{
    struct ranked all[32 * 32];
    int found = 0, count = 0;
    for (const int *ty = cv_spectral_sides; *ty; ty++)
        for (const int *tx = cv_spectral_sides; *tx; tx++) {
            cv_spectral_plan plan;
            if (plan_for(q, *ty, *tx, &plan) == 0)
                all[found++] = (struct ranked){plan.seconds, *ty, *tx};
        }
    if (found == 0)
        return 0;
    qsort(all, (size_t)found, sizeof *all, faster);
    for (; count < found && count < capacity && count < BEST; count++) {
        memset(&list[count], 0, sizeof *list);
        list[count].v[0] = all[count].ty;
        list[count].v[1] = all[count].tx;
    }
    return count;
}

static double estimate(const cv_request *q, const cv_candidate *candidate, size_t *workspace_bytes)
{
    cv_spectral_plan plan;
    if (plan_for(q, candidate->v[0], candidate->v[1], &plan)) {
        *workspace_bytes = SIZE_MAX;
        return HUGE_VAL;
    }
    *workspace_bytes = plan.workspace_bytes;
    return plan.seconds;
}

static convoy_status create(const cv_request *q, const cv_candidate *candidate, void **state, cv_needs *needs)
{
    cv_spectral_plan plan;
    const int ty = candidate->v[0], tx = candidate->v[1];
    *state = NULL;
    if (plan_for(q, ty, tx, &plan))
        return cv_fail(
            CONVOY_UNSUPPORTED,
            "engine cuda_fft cannot run candidate ty%dtx%d here: expected sides that its kernels have, that hold "
            "the kernel, and a workspace limit (%zu bytes) that holds a tile of every channel",
            ty, tx, q->workspace_limit);
    const convoy_status status = cv_cuda_status(cv_spectral_setup(), "setting up cuda_fft");
    if (status != CONVOY_OK)
        return status;
    struct state *s = cv_alloc(&q->machine->memory, sizeof *s);
    if (!s)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of engine cuda_fft");
    s->machine = q->machine;
    s->plan = plan;
    s->plan.g.overlap = cv_spectral_overlaps();
    needs->workspace_bytes = plan.workspace_bytes;
    needs->weights_bytes = plan.weights_bytes;
    needs->bound_kind = 1;
    needs->bound_factor = 4 * log2((double)ty * tx);
    needs->tile_h = ty;
    needs->tile_w = tx;
    *state = s;
    return CONVOY_OK;
}

static void destroy(void *state)
{
    struct state *s = state;
    if (s)
        cv_free(&s->machine->memory, s);
}

static convoy_status prepare(const void *state, const float *w, void *weights, void *scratch, void *stream)
{
    const struct state *s = state;
    (void)scratch;
    return cv_cuda_status(cv_spectral_prepare(&s->plan, w, weights, stream), "preparing weights for cuda_fft");
}

/* Phases are timed between events, one after each launch, on a run that is waited for. */
enum { MARKS = 256 };
struct marks {
    cudaStream_t stream;
    cudaEvent_t event[MARKS];
    int phase[MARKS], count;
};

static void mark(void *user, int phase)
{
    struct marks *m = user;
    if (m->count >= MARKS || cudaEventCreate(&m->event[m->count]) != cudaSuccess)
        return;
    cudaEventRecord(m->event[m->count], m->stream);
    m->phase[m->count++] = phase;
}

static void add_phases(const struct state *s, struct marks *m, cv_phases *phases)
{
    static const char *const names[] = {"transform", "transform w", "product", "inverse"};
    const cv_spectral_plan *p = &s->plan;
    const double bytes[4] = {p->phase_bytes[0] + p->phase_bytes[1], p->phase_bytes[1], p->phase_bytes[2],
                             p->phase_bytes[3]};
    const double flop[4] = {0, 0, p->depthwise ? 0 : 8.0 * p->g.bins * p->all_tiles * p->g.k * p->g.cg, 0};
    int seen[4] = {0};
    for (int i = 1; i < m->count; i++) {
        float ms = 0;
        const int phase = m->phase[i];
        const char *name = p->depthwise ? (phase == 3 ? "tiles" : names[1]) : names[phase];
        const double moved = p->depthwise && phase == 3 ? p->phase_bytes[0] : bytes[phase];
        if (cudaEventElapsedTime(&ms, m->event[i - 1], m->event[i]) != cudaSuccess)
            continue;
        cv_phase_add(phases, name, ms * 1e-3, seen[phase] ? 0 : moved, seen[phase] ? 0 : flop[phase]);
        seen[phase] = 1;
    }
}

static convoy_status execute(const void *state, const cv_exec *run)
{
    const struct state *s = state;
    struct marks *m = NULL;
    if (run->phases) {
        if (!(m = cv_alloc(&s->machine->memory, sizeof *m)))
            return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: timing phases of cuda_fft");
        m->stream = run->stream;
        m->count = 0;
        mark(m, 0);
    }
    int e = cv_spectral_run(&s->plan, run->x, run->w, run->weights, run->bias, run->y, run->workspace, run->stream,
                            run->follows && !m, m ? mark : NULL, m);
    if (m) {
        if (!e)
            e = cudaStreamSynchronize(m->stream);
        if (!e)
            add_phases(s, m, run->phases);
        for (int i = 0; i < m->count; i++)
            cudaEventDestroy(m->event[i]);
        cv_free(&s->machine->memory, m);
    }
    return cv_cuda_status(e, "launching cuda_fft");
}

const cv_engine cv_engine_cuda_fft = {
    .name = "cuda_fft",
    .about = "tiled overlap-save FFT convolution on a GPU: fused transforms, 3xTF32 products",
    .revision = 1,
    .device = CONVOY_CUDA,
    .traits = CV_IS_TRANSFORM | CV_PREPARES,
    .candidate_keys = "ty tx",
    .refuse = refuse,
    .candidates = candidates,
    .estimate = estimate,
    .create = create,
    .destroy = destroy,
    .prepare = prepare,
    .execute = execute,
};
