#include "chain/chain.h"
#include "fft.h"

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t clamp(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

void cv_fft_span_of(const cv_fft_axis *a, int64_t phase, int64_t index, cv_fft_span *span)
{
    /* Outputs p = phase + i*phases read x at i*stride + r of the elements base, base + dil, base + 2*dil, ... counted
     * from start. */
    const int64_t hop = a->dil / a->phases * a->stride, shift = phase * hop - a->pad; /* hop: the whole axis's stride */
    const int64_t start = floor_div(shift, a->dil), base = shift - start * a->dil;
    const int64_t have = base < a->in ? (a->in - base + a->dil - 1) / a->dil : 0;
    const int64_t kept = phase < a->outs ? (a->outs - phase + a->phases - 1) / a->phases : 0;
    const int64_t outs = kept > 0 ? (kept - 1) * a->stride + 1 : 0; /* at stride 1 */
    const int64_t i0 = index * a->step, left = clamp(outs - i0, 0, a->step), at = i0 + start;
    span->x_at = (base + at * a->dil) * a->x_unit;
    span->lo = (int)clamp(-at, 0, a->tile);
    span->hi = (int)clamp(have - at, span->lo, left > 0 ? left + a->taps - 1 : span->lo);
    if (span->hi < span->lo)
        span->hi = span->lo;
    span->count = (int)((left + a->stride - 1) / a->stride);
    span->out = phase + i0 / a->stride * a->phases;
    span->out_step = a->phases;
    span->y_at = span->out * a->y_unit;
}

/* Tile t of all: which image, which phases, where in the grid. */
static int64_t place(const cv_fft_shape *s, int64_t t, cv_fft_span *y, cv_fft_span *x)
{
    const int64_t across = t % s->x.tiles, down = t / s->x.tiles % s->y.tiles, image = t / (s->x.tiles * s->y.tiles);
    const int64_t phases = s->y.phases * s->x.phases;
    cv_fft_span_of(&s->y, image % phases / s->x.phases, down, y);
    cv_fft_span_of(&s->x, image % s->x.phases, across, x);
    return image / phases;
}

void cv_fft_tile_source(const cv_fft_run *run, int64_t t, int64_t c, cv_fft_source *source)
{
    const convoy_problem *p = &run->st->r.p;
    cv_fft_span y, x;
    const int64_t n = place(&run->st->s, t, &y, &x);
    source->plane = run->x;
    source->offset = n * p->x_stride[0] + c * p->x_stride[1] + y.x_at + x.x_at;
    source->y0 = y.lo, source->y1 = y.hi;
    source->x0 = x.lo, source->x1 = x.hi;
}

void cv_fft_kernel_source(const cv_fft_run *run, int64_t k, int64_t c, cv_fft_source *source)
{
    const convoy_problem *p = &run->st->r.p;
    source->plane = run->w;
    source->offset = k * run->w_stride[0] + c * run->w_stride[1];
    source->y0 = source->x0 = 0;
    source->y1 = (int)p->r, source->x1 = (int)p->s;
}

void cv_fft_load_begin(const cv_fft_run *run, int kernels, cv_fft_load *load)
{
    load->lanes = 0;
    load->scale = NULL;
    load->want_min = kernels;
    load->step_y = kernels ? run->w_stride[2] : run->st->s.y.x_step;
    load->step_x = kernels ? run->w_stride[3] : run->st->s.x.x_step;
}

void cv_fft_load_end(const cv_fft_run *run, int kernels, cv_fft_load *load)
{
    load->cut_y = kernels ? 0 : run->st->s.y.cut;
    load->cut_x = kernels ? 0 : run->st->s.x.cut;
    load->rows = load->columns = 0;
    for (int l = 0; l < load->lanes; l++) {
        const cv_fft_source *lane = &load->lane[l];
        if (lane->y1 - load->cut_y > load->rows)
            load->rows = lane->y1 - load->cut_y;
        if (lane->x1 - load->cut_x > load->columns)
            load->columns = lane->x1 - load->cut_x;
    }
}

/* Tiles start on kept outputs, so what store says is the same for all lanes. */
void cv_fft_tile_sink(const cv_fft_run *run, int64_t t, int64_t k, cv_fft_sink *sink, cv_fft_store *store)
{
    const convoy_problem *p = &run->st->r.p;
    const cv_fft_shape *s = &run->st->s;
    cv_fft_span y, x;
    const int64_t n = place(s, t, &y, &x);
    sink->plane = run->y;
    sink->offset = n * p->y_stride[0] + k * p->y_stride[1] + y.y_at + x.y_at;
    sink->rows = y.count, sink->columns = x.count;
    sink->bias = run->bias ? run->bias[k] : 0.0f;
    store->every_y = (int)s->y.stride, store->every_x = (int)s->x.stride;
    store->step_y = s->y.y_step, store->step_x = s->x.y_step;
    store->cut_y = s->y.cut, store->cut_x = s->x.cut;
}

/* Special values included: a box of the exact chain. A dilated axis has its tile's outputs one by one. */
void cv_fft_direct(const cv_fft_run *run, int64_t t, int64_t k)
{
    const cv_fft_state *st = run->st;
    convoy_problem p = st->r.p;
    cv_fft_span y, x;
    const int64_t n = place(&st->s, t, &y, &x);
    for (int d = 0; d < 4; d++)
        p.w_stride[d] = run->w_stride[d];
    const cv_chain_io io = {run->x, run->w, run->bias, run->y};
    for (int64_t i = 0; i < (y.out_step > 1 ? y.count : 1); i++)
        for (int64_t j = 0; j < (x.out_step > 1 ? x.count : 1); j++) {
            const int64_t p0 = y.out + i * y.out_step, q0 = x.out + j * x.out_step;
            const cv_chain_box box = {
                n, n + 1, k, k + 1, p0, p0 + (y.out_step > 1 ? 1 : y.count), q0, q0 + (x.out_step > 1 ? 1 : x.count)};
            cv_chain_box_run(st->r.machine->cpu.isa, &p, &io, &box);
        }
}
