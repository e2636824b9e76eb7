/* What the match contract is expected to cost beside the transform, when x and w are normal(0,1), and who else could do
 * its work. */
#include "rule.h"

#include <string.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The worst cells' share beyond a window, along one axis. */
static double overlap(int64_t reach, int64_t size)
{
    const int64_t cells = (reach + CV_MATCH_CELL - 2) / CV_MATCH_CELL + 1;
    return (double)least(cells * CV_MATCH_CELL, size) / (double)least(reach, size);
}

/* The share of unsafe outputs, and whether the cells' sums keep them all. */
static double unsafe_share(const cv_request *q, int runs, int *by_cells)
{
    const convoy_problem *p = &q->p;
    const int64_t reach_h = (p->r - 1) * p->dil_h + 1, reach_w = (p->s - 1) * p->dil_w + 1;
    const double side = 2.0 * (double)reach_h + 32, tile = side * side; /* about what engines take */
    const struct rule r = rule_of(q, runs, tile);
    const double n = r.taps, around = fmin(2 * side, (double)p->h) * fmin(2 * side, (double)p->w) * (double)q->cg;
    cv_match_w w = {.norm = 1.1 * sqrt((double)p->r * (double)p->s), .prefix = 0.7 * n * n};
    struct sums x = {.mean2 = 4.0 / n, .tile2 = around};
    for (int b = 0; b < runs; b++)
        x.root4[b] = w.root4[b] = 1.03 * sqrt(3.0 * n / runs);
    const double path = runs > 1 ? 0.5 * n : 0.0, rms = sqrt(n); /* at an output near zero */
    const double need = sqrt(bound_of(&r, &x, &w) + r.path_factor * (r.rtol > 0 ? path : n));
    const double more = overlap(reach_h, p->h) * overlap(reach_w, p->w);
    const struct sums cells = {.root4 = {x.root4[0] * sqrt(more)}, .mean2 = more, .tile2 = around};
    *by_cells = covers_all(&r, bound_of(&r, &cells, &w), 0);
    if (need <= r.atol)
        return 0;
    return r.rtol > 0 ? fmin(1.0, 0.8 * (need - r.atol) / r.rtol / rms) : 1.0;
}

/* As measured on two Zen 4 cores: whole windows, and windows that padding cuts; short rows of taps leave less between
 * one row's addresses and the next one's. */
double cv_match_list_rate(const cv_request *q, double share)
{
    const convoy_problem *p = &q->p;
    const double s = (double)p->s, whole = 0.23 * s / (s + 4.0), cut = 0.055, lanes = 32.0;
    const double h = (double)(q->P - (p->pad_t + p->pad_b) / p->stride_h) / (double)q->P,
                 w = (double)(q->Q - (p->pad_l + p->pad_r) / p->stride_w) / (double)q->Q;
    const double inside = p->s < 4 || p->dil_w > 1 ? 0 : fmax(h, 0) * fmax(w, 0);
    const double listed = fmax(1.0, share * (double)least(q->P, 4 * CV_MATCH_BAND) * (double)q->Q);
    const double filled = listed / lanes / ceil(listed / lanes); /* of the groups of one channel */
    return filled / (inside / whole + (1.0 - inside) / cut);
}

/* The cells' pass over x and w's statistics; windows, judging and folding where cells do not suffice; and the chains of
 * the share that normal data leave, or everything again. Seconds a value on one Zen 4 core. */
double cv_match_extra_seconds(const cv_request *q, int runs, double exact_seconds)
{
    const convoy_problem *p = &q->p;
    const double x = (double)p->n * (double)p->c * (double)p->h * (double)p->w, threads = q->machine->threads,
                 w = (double)p->k * (double)q->cg * (double)p->r * (double)p->s,
                 planes = (double)p->n * (double)p->groups,
                 maps = planes * (double)q->P * (double)((p->w + p->pad_l + p->pad_r) * p->stride_h),
                 y = (double)p->n * (double)p->k * (double)q->P * (double)q->Q;
    const double halo = 1.0 + (double)((p->r - 1) * p->dil_h) / (double)(CV_MATCH_BAND * p->stride_h);
    const double cells = planes * (double)p->h * (double)p->w / (CV_MATCH_CELL * CV_MATCH_CELL);
    int by_cells;
    const double share = unsafe_share(q, runs, &by_cells), flop = convoy_problem_flop(p);
    const double chains = flop * share / (cv_match_list_rate(q, share) * q->machine->flop_per_s);
    double seconds = x * 0.45e-9 + w * 2.5e-9 + planes * 1.8e-6;
    if (!by_cells)
        seconds += x * halo * 0.6e-9 + maps * (runs + 1) * (1.0 + log2((double)(p->r * p->s))) * 0.1e-9 +
                   y * (runs > 1 ? 2e-9 + runs * 1e-9 : 1.5e-9);
    return 4e-6 + seconds / fmin(threads, ceil(planes * (double)p->h / CV_MATCH_CELL)) +
           cells * 0.05e-6 / fmin(threads, planes) + fmin(chains, exact_seconds);
}

void cv_match_find_exact(const cv_request *q, cv_match_exact *best)
{
    char reason[CV_REASON_BYTES];
    memset(best, 0, sizeof *best);
    best->seconds = HUGE_VAL;
    best->request = *q;
    best->request.math = CONVOY_MATH_EXACT;
    best->request.rtol = best->request.atol = 0;
    best->request.prepared = 0;
    if (q->prepared) {
        cv_packed_weights(&q->p, best->request.p.w_stride);
        best->request.p.strided = 1;
    }
    for (const cv_engine *const *e = cv_engines; *e; e++) {
        cv_candidate list[8];
        const unsigned wanted = CV_KEEPS_EXACT, unwanted = CV_BY_NAME_ONLY | CV_IS_VENDOR | CV_PACKED_ONLY;
        if ((*e)->device != q->machine->device || ((*e)->traits & (wanted | unwanted)) != wanted ||
            (*e)->refuse(&best->request, reason))
            continue;
        const int count = (*e)->candidates(&best->request, list, 8);
        for (int i = 0; i < count; i++) {
            size_t bytes;
            const double seconds = (*e)->estimate(&best->request, &list[i], &bytes);
            if (bytes <= q->workspace_limit && seconds < best->seconds) {
                best->engine = *e;
                best->candidate = list[i];
                best->seconds = seconds;
                best->workspace_bytes = bytes;
            }
        }
    }
}
