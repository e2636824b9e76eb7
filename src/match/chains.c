/* The chains of the outputs that cv_match_judge marked. A task is a few channels of a few bands: enough outputs of each
 * channel to fill the list kernel's lanes, and lists that go to it together, so that its channels of x pass over them
 * all. */
#include "chain/chain.h"
#include "match.h"

enum { CHANNELS = 16, BANDS = 4, LIST = 1024 };

struct work {
    const cv_match_call *call;
    convoy_problem problem; /* with the strides of the w that the chains read */
    cv_chain_io io;
    int64_t sets, spans; /* of channels, a group; of bands, an image */
};

struct list {
    int64_t count, index[LIST];
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void flush(const struct work *a, struct list *list)
{
    cv_chain_list_run(a->call->m->request.machine->cpu.isa, &a->problem, &a->io, list->count, list->index);
    list->count = 0;
}

/* One row: its marked outputs join the list, or all of it runs as a box, whose lanes are several times as quick. */
static void run_row(const struct work *a, int64_t n, int64_t k, int64_t row, struct list *list)
{
    const cv_match_state *m = a->call->m;
    const cv_request *q = &m->request;
    const int64_t at = (n * q->p.k + k) * q->P + row;
    const uint16_t *mask = a->call->mask + at * m->words;
    int64_t count = 0;
    for (int64_t i = 0; i < m->words; i++)
        count += __builtin_popcount(mask[i]);
    if (count > q->Q / 4) {
        const cv_chain_box box = {n, n + 1, k, k + 1, row, row + 1, 0, q->Q};
        cv_chain_box_run(q->machine->cpu.isa, &a->problem, &a->io, &box);
        return;
    }
    for (int64_t i = 0; count > 0 && i < m->words; i++)
        for (unsigned bits = mask[i]; bits; bits &= bits - 1) {
            if (list->count == LIST)
                flush(a, list);
            list->index[list->count++] = at * q->Q + i * CV_MATCH_COLUMNS + __builtin_ctz(bits);
        }
}

static void run_task(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct work *a = user;
    const cv_match_state *m = a->call->m;
    const cv_request *q = &m->request;
    const int64_t set = task % a->sets, span = task / a->sets % a->spans, plane = task / a->sets / a->spans;
    const int64_t n = plane / q->p.groups, k0 = plane % q->p.groups * q->kg, from = set * CHANNELS;
    const int64_t band0 = span * BANDS, band1 = least(band0 + BANDS, m->bands);
    struct list list = {.count = 0};
    for (int64_t k = k0 + from; k < k0 + least(from + CHANNELS, q->kg); k++)
        for (int64_t band = band0; band < band1; band++) {
            const int64_t end = least((band + 1) * CV_MATCH_BAND, q->P);
            for (int64_t row = band * CV_MATCH_BAND; a->call->counts[plane * m->bands + band] && row < end; row++)
                run_row(a, n, k, row, &list);
        }
    flush(a, &list);
}

void cv_match_chains(const cv_match_call *call)
{
    const cv_match_state *m = call->m;
    const cv_request *q = &m->request;
    const cv_exec *run = call->run;
    struct work a = {call,
                     q->p,
                     {run->x, call->w, run->bias, run->y},
                     (q->kg + CHANNELS - 1) / CHANNELS,
                     (m->bands + BANDS - 1) / BANDS};
    if (run->weights)
        cv_packed_weights(&q->p, a.problem.w_stride);
    cv_pool_run(q->machine->pool, q->p.n * q->p.groups * a.spans * a.sets, run_task, &a);
}
