/* Planning the scatter kernel: pools and stages. Host arithmetic only; also read as C++. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "scatter.h"

static const double scatter_share = 0.012; /* of outputs, that pools are sized for */
static const double scatter_l2 = 36;       /* a multiprocessor and cycle */

static int64_t scatter_pieces(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int scatter_up_to(int v, int rest, int step) /* the next number that is rest modulo step */
{
    return v + ((rest - v) % step + step) % step;
}

/* Everything that follows from tp, tq and kb; 0 when shared memory does not hold it. */
static int scatter_size_up(cv_scatter *a, const cv_chain_gpu *gpu)
{
    a->np = (int)scatter_pieces(a->p, a->tp);
    a->nq = (int)scatter_pieces(a->q, a->tq);
    a->nk = (int)scatter_pieces(a->kg, a->kb);
    a->rows = (a->tp - 1) * a->st_h + a->r;
    a->cols = ((a->tq < a->q ? a->tq : a->q) - 1) * a->st_w + a->s + a->shift;
    const double plane = (double)a->rows * (a->cols + 32), taps = (double)a->kb * a->r * a->s;
    if (plane + taps > 1e6)
        return 0;
    if (a->late) { /* from bank to bank across rows, channels and stages */
        a->pitch = scatter_up_to(a->cols, a->s % 32, 32);
        a->plane = (int)scatter_pieces(a->rows * (int64_t)a->pitch, 32) * 32;
    } else {
        a->pitch = (a->cols + 3) & ~3;
        a->plane = a->rows * (a->pitch + 4 * (a->pitches - 1));
    }
    const int classes = a->late ? 32 / (CV_SCATTER_LATE + 1) : 32, keys = a->kb * 32 / classes; /* keys of one class */
    a->deal = (CV_SCATTER_CAP + 3 * keys) / CV_SCATTER_CHAINS / (32 / classes) + 1;
    const int list = a->kb * 64 + CV_SCATTER_CAP + a->deal * 16; /* two words a key, one an output, half one a group */
    const int room = (int)(gpu->shared_bytes / 4) - list - 768;
    for (a->cc = 1024 / (a->r * a->s); a->cc >= 0; --a->cc) {
        if (a->cc < 1)
            a->cc = 1;
        if (a->cc > a->cg)
            a->cc = a->cg;
        a->wp = scatter_up_to(a->cc * a->r * a->s, 4, 32); /* channels lie in different banks */
        a->stage = (a->cc * a->plane + a->kb * a->wp + 31) & ~31;
        if (2 * a->stage <= room)
            break;
        if (a->cc == 1)
            return 0;
    }
    a->shared = 4u * (unsigned)(2 * a->stage + list);
    const double pools = (double)a->n * a->groups * a->np * a->nq * a->nk;
    if (pools > 1e9)
        return 0;
    a->pools = (int)pools;
    a->grid = (unsigned)gpu->sm_count;
    return 1;
}

/* Cycles of the multiprocessor with most to do, at the share of outputs that is expected: a word of x for each output
 * and one of w for each thread, more on the lanes of the fullest class; an eighth above what is counted. */
static double scatter_cycles(const cv_scatter *a, const cv_chain_gpu *gpu)
{
    const double taps = (double)a->cg * a->r * a->s, waves = ceil((double)a->pools / gpu->sm_count);
    const double outputs = scatter_share * a->tp * (a->tq < a->q ? a->tq : a->q) * a->kb, keys = 32.0 * a->kb;
    const double each = outputs / keys, some = 1 - exp(-each), groups = keys * fmax(some, 0.25 * each + 0.375 * some);
    const double classes = a->late ? 8 : a->pitches > 1 ? 20 : 32;
    const double fullest = (outputs + groups) / 32 * (1 + 1.4 * sqrt(classes / outputs)) + 1;
    const double copies = (double)a->cg * (a->rows * a->cols + (double)a->kb * a->r * a->s) * 4 / scatter_l2;
    const double chains = taps * fmax(6, fullest * 1.125);
    return waves * (fmax(copies, chains) + 0.3 * fmin(copies, chains) + 1500.0 * scatter_pieces(a->cg, a->cc));
}

int cv_scatter_plan(const cv_chain_shape *c, const cv_chain_gpu *gpu, cv_scatter *plan)
{
    cv_scatter a, best;
    const double most = INT32_MAX / 4;
    if ((c->dil_h > 1 && c->r > 1) || (c->dil_w > 1 && c->s > 1) || (double)c->p * c->q > most ||
        (double)c->h + c->pad_t + c->pad_b > most || (double)c->w + c->pad_l + c->pad_r > most ||
        (double)c->n * c->groups > most || c->k > most || (double)(c->c / c->groups) * c->r * c->s > most ||
        c->st_h > 64 || c->st_w > 64)
        return -1;
    memset(&a, 0, sizeof a);
    memset(&best, 0, sizeof best);
    a.n = (int)c->n, a.h = (int)c->h, a.w = (int)c->w, a.k = (int)c->k, a.p = (int)c->p, a.q = (int)c->q;
    a.r = (int)c->r, a.s = (int)c->s, a.groups = (int)c->groups;
    a.cg = (int)(c->c / c->groups), a.kg = (int)(c->k / c->groups);
    a.st_h = (int)c->st_h, a.st_w = (int)c->st_w, a.pad_t = (int)c->pad_t, a.pad_l = (int)c->pad_l;
    a.padded = c->pad_t || c->pad_l || c->pad_b || c->pad_r;
    memcpy(a.xs, c->xs, sizeof a.xs);
    memcpy(a.ws, c->ws, sizeof a.ws);
    memcpy(a.ys, c->ys, sizeof a.ys);
    a.words = (int)scatter_pieces(a.q, 32);
    a.packed_w = a.ws[3] == 1 && a.ws[2] == a.s && a.ws[1] == (int64_t)a.r * a.s;
    a.vec_w = a.packed_w && a.ws[1] % 4 == 0 && a.ws[0] % 4 == 0;
    a.vec_x = a.xs[3] == 1 && a.xs[2] % 4 == 0 && a.xs[1] % 4 == 0 && a.xs[0] % 4 == 0 && a.w % 4 == 0 && a.s % 4 == 0;
    a.shift = a.vec_x ? (4 - a.pad_l % 4) % 4 : 0;
    a.bulk = a.vec_x && a.vec_w && !a.padded;
    a.late = (a.s == 8 || a.s == 16 || a.s == 32) && a.r * a.s % 32 == 0 && a.r * a.s >= 64 ? CV_SCATTER_LATE : 0;
    const int wide = a.words * 32;
    double least = INFINITY;
    for (int tq = wide;; tq = (tq / 2 + 31) / 32 * 32) {
        for (int down = 1; down <= a.p; down = down < 16 ? down + 1 : down * 2)
            for (int kb = 1; kb <= a.kg && kb <= 32; kb *= 2) {
                a.tp = (int)scatter_pieces(a.p, down), a.tq = tq, a.kb = kb;
                /* the more pitches to choose from, the more room they take */
                for (a.pitches = a.late ? 1 : 8; a.pitches > 1 && !scatter_size_up(&a, gpu); a.pitches /= 2)
                    ;
                if (!scatter_size_up(&a, gpu))
                    continue;
                const double t = scatter_cycles(&a, gpu);
                if (t < least)
                    least = t, best = a;
            }
        if (tq == 32)
            break;
    }
    if (!(least < INFINITY))
        return -1;
    *plan = best;
    return 0;
}
