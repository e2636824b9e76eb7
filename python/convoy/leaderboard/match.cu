/* The match contract for the leaderboard file, behind the two calls of board.cuh: the spectral engine, the choice of
 * the outputs whose tolerance is not safe, and their chains, in the order of src/match/gpu_run.c. A choice is the tile,
 * ty x tx, and the number of runs. */
#define CV_BOARD_MATCH 1
#include "fp32.cu"

#include "chain/chain_host.h"
#include "chain/scatter_kernel.cuh"
#include "match/gpu.h"

#include "chain/scatter.cu"
#include "chain/scatter_plan.c"
/* two files with constants of the same names */
#define THREADS SUMS_THREADS
#define WARPS SUMS_WARPS
#define step_error sums_step_error
#include "match/gpu_sums.cu"
#undef THREADS
#undef WARPS
#undef step_error
#define THREADS SELECT_THREADS
#define WARPS SELECT_WARPS
#define step_error select_step_error
#include "match/gpu_select.cu"
#undef THREADS
#undef WARPS
#undef step_error

static const float board_tolerance = 1e-3f; /* the board's rtol and atol */

struct board_match {
    cv_match_gpu m;
    cv_scatter scatter;
    cv_spectral_plan spectral;
    size_t xsum, wslice, wstat, maps, tiles, mask, counts, pieces, inner, bytes; /* places in the workspace */
};

static size_t board_take(size_t *at, double floats)
{
    const size_t here = *at;
    *at += board_up((size_t)floats * sizeof(float));
    return here;
}

/* As src/match/gpu_plan.c describes a problem, for one without padding, strides and groups. */
static int board_match_plan(const board_case *b, board_match *out)
{
    memset(out, 0, sizeof *out);
    cv_match_gpu *m = &out->m;
    const int side = b->h - b->r + 1, ty = b->choice[0], tx = b->choice[1];
    m->runs = b->choice[2];
    if (board_plan(b, m->runs, &out->spectral))
        return cudaErrorInvalidValue;
    m->n = b->n, m->h = m->w = b->h, m->k = m->kg = b->k, m->p = m->q = side, m->r = m->s = b->r;
    m->cg = b->c, m->groups = m->st_h = m->st_w = 1;
    int device = 0, count = 0, shared = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    const int e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e || !cv_match_gpu_cut(m, (size_t)shared))
        return e ? e : cudaErrorInvalidValue;
    m->rtol = m->atol = board_tolerance / (1 + board_tolerance);
    m->tile_h = ty, m->step_h = ty - m->r + 1, m->down = (side + m->step_h - 1) / m->step_h;
    m->tile_w = tx, m->step_w = tx - m->s + 1, m->across = (side + m->step_w - 1) / m->step_w;
    cv_chain_shape c = {b->n, b->c, b->h, b->h, b->k, b->r, b->r, side, side, 1, 1, 0, 0, 0, 0, 1, 1, 1};
    const int64_t sizes[3][4] = {{b->n, b->c, b->h, b->h}, {b->k, b->c, b->r, b->r}, {b->n, b->k, side, side}};
    int64_t *const strides[3] = {c.xs, c.ws, c.ys};
    for (int t = 0; t < 3; t++)
        for (int64_t i = 4, step = 1; i-- > 0; step *= sizes[t][i])
            strides[t][i] = step;
    memcpy(m->xs, c.xs, sizeof c.xs);
    memcpy(m->ws, c.ws, sizeof c.ws);
    memcpy(m->ys, c.ys, sizeof c.ys);

    const cv_chain_gpu gpu = {count, (size_t)shared, 1e12, 1e12};
    if (cv_scatter_plan(&c, &gpu, &out->scatter))
        return cudaErrorInvalidValue;

    const double plane = (double)side * side, outputs = plane * b->n * b->k;
    const double words = (double)b->n * b->k * side * ((side + 31) / 32);
    size_t at = 0;
    out->xsum = board_take(&at, (double)(m->parts + 1) * b->n * b->h * b->h);
    out->wslice = board_take(&at, (double)b->k * m->slices * CV_MATCH_PIECE_W);
    out->wstat = board_take(&at, (double)b->k * CV_MATCH_W);
    out->maps = board_take(&at, 2 * plane * b->n);
    out->tiles = board_take(&at, plane * b->n);
    out->mask = board_take(&at, words);
    out->counts = board_take(&at, words + 1);
    out->pieces = board_take(&at, m->runs > 1 ? m->runs * outputs : 0);
    out->inner = at;
    out->bytes = at + out->spectral.workspace_bytes;
    return cudaSuccess;
}

static int board_match_setup(const board_match *b)
{
    static int done;
    int e = done ? 0 : board_setup();
    if (!e && !done && !(e = cv_match_gpu_setup()))
        done = 1;
    return e ? e : cv_scatter_setup(&b->scatter);
}

static int board_match_run(board_match *b, const float *x, const float *w, float *y, char *base)
{
    cv_match_gpu *m = &b->m;
    cv_scatter *a = &b->scatter;
    m->xsum = (float *)(base + b->xsum), m->wslice = (float *)(base + b->wslice);
    m->wstat = (float *)(base + b->wstat), m->maps = base + b->maps;
    m->tiles = (float *)(base + b->tiles), m->pieces = (float *)(base + b->pieces);
    m->mask = (unsigned *)(base + b->mask), m->counts = (unsigned *)(base + b->counts);
    m->x = a->x = x, m->weight = a->weight = w, m->y = a->y = y;
    a->mask = m->mask, a->counts = m->counts;
    a->odd = m->wstat + 3, a->odd_step = CV_MATCH_W;
    int e = cv_match_gpu_sums(m, a->pools + 1, CV_MATCH_X | CV_MATCH_WEIGHTS, nullptr);
    if (!e)
        e = cv_match_gpu_boxes(m, CV_MATCH_X | CV_MATCH_WEIGHTS, nullptr);
    const int64_t channels = m->cg / m->runs, outputs = (int64_t)m->n * m->k * m->p * m->q;
    for (int i = 0; i < m->runs && !e; i++)
        e = cv_spectral_run(&b->spectral, x + i * channels * m->xs[1], w + i * channels * m->ws[1], nullptr, nullptr,
                            m->runs > 1 ? m->pieces + i * outputs : y, base + b->inner, nullptr, 1, nullptr, nullptr);
    if (!e)
        e = cv_match_gpu_select(m, a, nullptr);
    return e ? e : cv_scatter_run(a, nullptr);
}

long long convoy_board_bytes(const long long *problem)
{
    const board_case *b = board_find(problem);
    board_match plan;
    return b && !board_match_plan(b, &plan) ? (long long)plan.bytes : -1;
}

const char *convoy_board_run(const long long *problem, const float *x, const float *w, float *y, void *workspace)
{
    const board_case *b = board_find(problem);
    board_match plan;
    int e = b ? board_match_plan(b, &plan) : cudaErrorInvalidValue;
    if (!e)
        e = board_match_setup(&plan);
    return board_words(e ? e : board_match_run(&plan, x, w, y, (char *)workspace));
}
