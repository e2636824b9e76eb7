#include "kit.h"

#include <string.h>

static convoy_status failed(int status, const char *what)
{
    if (status == CV_DNNL_NO_MEMORY)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: oneDNN, %s", what);
    return cv_fail(status == CV_DNNL_UNIMPLEMENTED ? CONVOY_UNSUPPORTED : CONVOY_INTERNAL,
                   "oneDNN gave status %d for %s", status, what);
}

static void free_step(const cv_dnnl *d, cv_kit_step *step)
{
    if (step->primitive)
        d->primitive_destroy(step->primitive);
    if (step->pd)
        d->pd_destroy(step->pd);
}

/* Memory objects begin without data; a slot's are made once, when a thread first takes it. */
static int make_slot(const cv_kit *k, cv_kit_slot *s)
{
    const cv_dnnl *d = k->d;
    const cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y};
    const struct {
        void **memory;
        cv_dnnl_md md;
    } object[] = {{&s->x, k->x.md},      {&s->w, k->w.md},      {&s->bias, k->bias.md}, {&s->y, k->y.md},
                  {&s->own_x, k->own_x}, {&s->own_w, k->own_w}, {&s->own_y, k->own_y}};
    int status = s->stream ? CV_DNNL_OK : d->stream_create(&s->stream, d->engine, 1);
    for (size_t i = 0; i < sizeof object / sizeof *object && status == CV_DNNL_OK; i++)
        if (object[i].md && !*object[i].memory)
            status = d->memory_create(object[i].memory, object[i].md, d->engine, NULL);
    for (int i = 0; i < 4 && status == CV_DNNL_OK; i++)
        if (step[i]->scratch_bytes && !s->scratch[i])
            status =
                d->memory_create(&s->scratch[i], d->query_md(step[i]->pd, CV_DNNL_SCRATCHPAD_MD, 0), d->engine, NULL);
    s->made = status == CV_DNNL_OK;
    return status;
}

static void free_slot(const cv_dnnl *d, cv_kit_slot *s)
{
    void *memory[] = {s->x,     s->w,          s->bias,       s->y,          s->own_x,     s->own_w,
                      s->own_y, s->scratch[0], s->scratch[1], s->scratch[2], s->scratch[3]};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i])
            d->memory_destroy(memory[i]);
    if (s->stream)
        d->stream_destroy(s->stream);
    s->stream = NULL;
}

/* Code is generated here. */
static void make(void *user)
{
    cv_kit_making *m = user;
    cv_kit *k = m->kit;
    cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y, &k->to_block};
    cv_kit_describe(m);
    for (size_t i = 0; i < sizeof step / sizeof *step && m->status == CV_DNNL_OK; i++)
        if (step[i]->pd)
            m->status = k->d->primitive_create(&step[i]->primitive, step[i]->pd);
    if (m->status == CV_DNNL_OK)
        m->status = make_slot(k, &k->slot[0]);
}

void cv_kit_begin(cv_kit *k, const cv_dnnl *d, const cv_request *q)
{
    memset(k, 0, sizeof *k);
    k->d = d;
    k->machine = q->machine;
    k->threads = q->machine->threads;
    k->has_bias = q->bias;
    k->prepared = q->prepared;
    k->flop = convoy_problem_flop(&q->p);
    for (int i = 0; i < CV_KIT_SLOTS; i++)
        atomic_flag_clear(&k->slot[i].taken);
}

void cv_kit_end(cv_kit *k)
{
    const cv_dnnl *d = k->d;
    for (int i = 0; i < CV_KIT_SLOTS; i++)
        free_slot(d, &k->slot[i]);
    cv_kit_step *step[] = {&k->to_x, &k->to_w, &k->sum, &k->to_y, &k->to_block};
    for (size_t i = 0; i < sizeof step / sizeof *step; i++)
        free_step(d, step[i]);
    if (k->block_pd)
        d->pd_destroy(k->block_pd);
    cv_dnnl_own_md *md[] = {&k->x, &k->w, &k->bias, &k->y};
    for (size_t i = 0; i < sizeof md / sizeof *md; i++)
        cv_dnnl_md_free(d, md[i]);
}

convoy_status cv_kit_create(const cv_dnnl *d, const cv_request *q, int layout, cv_kit **out)
{
    cv_kit *k = cv_alloc(&q->machine->memory, sizeof *k);
    *out = NULL;
    if (!k)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: a plan of engine onednn");
    cv_kit_begin(k, d, q);
    cv_kit_making m = {k, q, layout, CV_DNNL_OK};
    if (!cv_dnnl_run(d, k->threads, make, &m))
        m.status = CV_DNNL_NO_MEMORY;
    if (m.status == CV_DNNL_OK) {
        *out = k;
        return CONVOY_OK;
    }
    cv_kit_destroy(k);
    return failed(m.status, "a convolution");
}

void cv_kit_destroy(cv_kit *k)
{
    if (!k)
        return;
    cv_kit_end(k);
    cv_free(&k->machine->memory, k);
}

/* ---- Prepared weights: a head of 64 bytes, w as it was, w in the block's layout */

struct preparing {
    const cv_kit *kit;
    const float *w;
    char *block;
    int status;
};

static void prepare(void *user)
{
    struct preparing *p = user;
    const cv_kit *k = p->kit;
    const cv_dnnl *d = k->d;
    char *plain = p->block + CV_KIT_BLOCK_HEAD, *own = plain + cv_kit_round_up(k->w_bytes);
    void *stream = NULL, *from = NULL, *to = NULL, *scratch = NULL, *room = NULL;
    memset(p->block, 0, CV_KIT_BLOCK_HEAD);
    memcpy(plain, p->w, k->w_bytes);
    if (!k->to_block.primitive) {
        memcpy(own, p->w, k->w_bytes);
        return;
    }
    int status = d->stream_create(&stream, d->engine, 1);
    if (status == CV_DNNL_OK)
        status = d->memory_create(&from, k->w.md, d->engine, plain);
    if (status == CV_DNNL_OK)
        status = d->memory_create(&to, k->block_w, d->engine, own);
    cv_dnnl_arg args[3] = {{CV_DNNL_FROM, from}, {CV_DNNL_TO, to}};
    int count = 2;
    if (status == CV_DNNL_OK && k->to_block.scratch_bytes) {
        room = cv_alloc(&k->machine->memory, k->to_block.scratch_bytes);
        status =
            room ? d->memory_create(&scratch, d->query_md(k->to_block.pd, CV_DNNL_SCRATCHPAD_MD, 0), d->engine, room)
                 : CV_DNNL_NO_MEMORY;
        args[count++] = (cv_dnnl_arg){CV_DNNL_SCRATCHPAD, scratch};
    }
    if (status == CV_DNNL_OK)
        status = d->primitive_execute(k->to_block.primitive, stream, count, args);
    if (status == CV_DNNL_OK)
        status = d->stream_wait(stream);
    void *const memory[] = {from, to, scratch};
    for (int i = 0; i < 3; i++)
        if (memory[i])
            d->memory_destroy(memory[i]);
    if (stream)
        d->stream_destroy(stream);
    cv_free(&k->machine->memory, room);
    p->status = status;
}

convoy_status cv_kit_prepare(const cv_kit *k, const float *w, void *block)
{
    struct preparing p = {k, w, block, CV_DNNL_OK};
    if (!cv_dnnl_run(k->d, k->threads, prepare, &p))
        p.status = CV_DNNL_NO_MEMORY;
    return p.status == CV_DNNL_OK ? CONVOY_OK : failed(p.status, "preparing weights");
}

/* ---- Executing */

struct running {
    cv_kit *kit;
    const cv_exec *exec;
    cv_kit_slot *slot;
    int status;
};

static int point(const cv_dnnl *d, void *memory, const void *data)
{
    return memory ? d->memory_set_data_handle(memory, (void *)(uintptr_t)data) : CV_DNNL_OK;
}

/* Gives every object of the slot its address. */
static int aim(const struct running *r)
{
    const cv_kit *k = r->kit;
    const cv_exec *e = r->exec;
    cv_kit_slot *s = r->slot;
    char *room = e->workspace;
    const char *block = e->weights;
    const char *w = k->prepared ? block + CV_KIT_BLOCK_HEAD : (const char *)e->w;
    const char *own_w = k->w_is_own         ? block + CV_KIT_BLOCK_HEAD + cv_kit_round_up(k->w_bytes)
                        : k->to_w.primitive ? room + k->at_w
                                            : w;
    const struct {
        void *memory;
        const void *data;
    } object[] = {
        {s->x, e->x},
        {s->w, w},
        {s->bias, e->bias},
        {s->y, e->y},
        {s->own_x, k->to_x.primitive ? (const void *)(room + k->at_x) : e->x},
        {s->own_w, own_w},
        {s->own_y, k->to_y.primitive ? (const void *)(room + k->at_y) : e->y},
        {s->scratch[0], room + k->at_scratch},
        {s->scratch[1], room + k->at_scratch},
        {s->scratch[2], room + k->at_scratch},
        {s->scratch[3], room + k->at_scratch},
    };
    int status = CV_DNNL_OK;
    for (size_t i = 0; i < sizeof object / sizeof *object && status == CV_DNNL_OK; i++)
        status = point(k->d, object[i].memory, object[i].data);
    return status;
}

static int take_step(const struct running *r, const cv_kit_step *step, int number, cv_dnnl_arg args[5], int count,
                     const char *phase, double bytes, double flop)
{
    if (!step->primitive)
        return CV_DNNL_OK;
    const cv_dnnl *d = r->kit->d;
    const double from = r->exec->phases ? cv_now_s() : 0;
    if (r->slot->scratch[number])
        args[count++] = (cv_dnnl_arg){CV_DNNL_SCRATCHPAD, r->slot->scratch[number]};
    int status = d->primitive_execute(step->primitive, r->slot->stream, count, args);
    if (status == CV_DNNL_OK)
        status = d->stream_wait(r->slot->stream);
    if (r->exec->phases)
        cv_phase_add(r->exec->phases, phase, cv_now_s() - from, bytes, flop);
    return status;
}

static void run_steps(void *user)
{
    struct running *r = user;
    const cv_kit *k = r->kit;
    const cv_dnnl *d = k->d;
    cv_kit_slot *s = r->slot;
    int status = s->made ? CV_DNNL_OK : make_slot(k, s);
    if (status == CV_DNNL_OK)
        status = aim(r);
    const double x = (double)d->md_get_size(k->own_x), w = (double)d->md_get_size(k->own_w),
                 y = (double)d->md_get_size(k->own_y);
    cv_dnnl_arg to_x[5] = {{CV_DNNL_FROM, s->x}, {CV_DNNL_TO, s->own_x}},
                to_w[5] = {{CV_DNNL_FROM, s->w}, {CV_DNNL_TO, s->own_w}},
                to_y[5] = {{CV_DNNL_FROM, s->own_y}, {CV_DNNL_TO, s->y}},
                sum[5] = {{CV_DNNL_SRC, s->own_x},
                          {CV_DNNL_WEIGHTS, s->own_w},
                          {CV_DNNL_DST, s->own_y},
                          {CV_DNNL_BIAS, s->bias}};
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->to_x, 0, to_x, 2, "lay out x", 2 * x, 0);
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->to_w, 1, to_w, 2, "lay out w", 2 * w, 0);
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->sum, 2, sum, k->has_bias ? 4 : 3, "sum", x + w + y, k->flop);
    if (status == CV_DNNL_OK)
        status = take_step(r, &k->to_y, 3, to_y, 2, "lay out y", 2 * y, 0);
    r->status = status;
}

convoy_status cv_kit_execute(cv_kit *k, const cv_exec *exec)
{
    cv_kit_slot spare, *slot = NULL;
    for (int i = 0; i < CV_KIT_SLOTS && !slot; i++)
        if (!atomic_flag_test_and_set_explicit(&k->slot[i].taken, memory_order_acquire))
            slot = &k->slot[i];
    if (!slot) { /* more threads at once than slots: this one pays for objects of its own */
        memset(&spare, 0, sizeof spare);
    }
    struct running r = {k, exec, slot ? slot : &spare, CV_DNNL_OK};
    if (!cv_dnnl_run(k->d, k->threads, run_steps, &r))
        r.status = CV_DNNL_NO_MEMORY;
    if (slot)
        atomic_flag_clear_explicit(&slot->taken, memory_order_release);
    else
        free_slot(k->d, &spare);
    return r.status == CV_DNNL_OK ? CONVOY_OK : failed(r.status, "a convolution");
}
