/* The exact chain for the leaderboard file: the slide and gather kernels, behind the two calls of board.cuh. */
#include "board.cuh"

#include "chain/chain_host.h"
#include "chain/gather_kernel.cuh"
#include "chain/slide_kernel.cuh"

/* each file's own table under a name of its own */
namespace slide_file
{
#include "chain/slide.cu"
}
namespace gather_file
{
#include "chain/gather.cu"
}
#include "chain/relay.cu"

static int board_plan(const board_case *b, cv_chain_plan *plan)
{
    const int64_t p = b->h - b->r + 1;
    cv_chain_shape s = {b->n, b->c, b->h, b->h, b->k, b->r, b->r, p, p};
    s.st_h = s.st_w = s.dil_h = s.dil_w = s.groups = 1;
    const int64_t sizes[3][4] = {{b->n, b->c, b->h, b->h}, {b->k, b->c, b->r, b->r}, {b->n, b->k, p, p}};
    int64_t *const strides[3] = {s.xs, s.ws, s.ys};
    for (int t = 0; t < 3; t++)
        for (int64_t i = 4, step = 1; i-- > 0; step *= sizes[t][i])
            strides[t][i] = step;
    int device = 0, count = 0, shared = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    int e = cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (e)
        return e;
    /* the rates matter to choosing only */
    const cv_chain_gpu gpu = {count, (size_t)shared, 1e12, 1e12};
    const cv_chain_choice choice = {b->choice[0], b->choice[1], b->choice[2], b->choice[3], b->choice[4]};
    memset(plan, 0, sizeof *plan);
    plan->shape = s;
    plan->choice = choice;
    if (choice.kind == CV_CHAIN_SLIDE)
        return slide_file::cv_slide_fits(&s, &gpu, &choice) ? slide_file::cv_slide_plan(&s, &gpu, &choice, plan)
                                                            : cudaErrorInvalidValue;
    return gather_file::cv_gather_plan(&s, &choice, plan);
}

long long convoy_board_bytes(const long long *problem)
{
    const board_case *b = board_find(problem);
    cv_chain_plan plan;
    if (!b || board_plan(b, &plan))
        return -1;
    return (long long)(board_up(plan.relaid_bytes) + plan.workspace_bytes);
}

const char *convoy_board_run(const long long *problem, const float *x, const float *w, float *y, void *workspace)
{
    const board_case *b = board_find(problem);
    cv_chain_plan plan;
    int e = b ? board_plan(b, &plan) : cudaErrorInvalidValue;
    if (e)
        return board_words(e);
    if (plan.relaid_bytes) {
        float *relaid = (float *)workspace;
        if ((e = cv_chain_cuda_relay(&plan.shape, plan.kb, w, relaid, nullptr)))
            return board_words(e);
        w = relaid;
    }
    void *rest = (char *)workspace + board_up(plan.relaid_bytes);
    if (plan.choice.kind == CV_CHAIN_SLIDE)
        e = slide_file::cv_slide_run(&plan, x, w, nullptr, y, rest, nullptr);
    else
        e = gather_file::cv_gather_run(&plan, x, w, nullptr, y, nullptr);
    return board_words(e);
}
