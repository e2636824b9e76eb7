/* What the three launchers share: the board's problems, each with the choice that Convoy's planner made for it, and
 * what the module in front of them calls. CV_BOARD_CASES comes from the generator: {n, c, h, k, r, {choice}}, ... */
#ifndef CV_BOARD_CUH
#define CV_BOARD_CUH

#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

#ifndef CV_BOARD_CASES
#define CV_BOARD_CASES
#endif

struct board_case {
    int n, c, h, k, r, choice[8];
};

static const board_case board_cases[] = {CV_BOARD_CASES{0, 0, 0, 0, 0, {0}}};

/* problem: n, c, h, k, r. Square images and kernels, packed tensors. */
static const board_case *board_find(const long long *problem)
{
    for (const board_case *b = board_cases; b->n; b++)
        if (b->n == problem[0] && b->c == problem[1] && b->h == problem[2] && b->k == problem[3] && b->r == problem[4])
            return b;
    return nullptr;
}

static const char *board_words(int error) { return error ? cudaGetErrorName((cudaError_t)error) : nullptr; }

static size_t board_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

extern "C" {
/* Bytes of workspace (at a multiple of 256), or -1 for a problem without a choice. */
long long convoy_board_bytes(const long long *problem);
/* Enqueues; NULL, or the name of what failed. */
const char *convoy_board_run(const long long *problem, const float *x, const float *w, float *y, void *workspace);
}

#endif
