/* The spectral engine for the leaderboard file, behind the two calls of board.cuh. A choice is the tile, ty x tx; the
 * product's block shape follows by the engine's own reckoning. */
#include "board.cuh"

#define CV_PLAIN_LAUNCHES 1
#include "engines/cuda_fft/boxes.cuh"
#include "engines/cuda_fft/direct.cuh"
#include "engines/cuda_fft/lanes.cuh"
#include "engines/cuda_fft/launch.cuh"
#include "engines/cuda_fft/spectral_plan.h"
#include "engines/cuda_fft/stage.cuh"
#include "engines/cuda_fft/tf32.cuh"

#include <math.h>

#ifndef CV_BOARD_HOPPER
#define CV_BOARD_HOPPER 1
#endif

/* each file's own names in a room of their own; what they offer has C linkage */
namespace forward_file
{
#include "engines/cuda_fft/forward.cu"
}
namespace inverse_file
{
#include "engines/cuda_fft/inverse.cu"
}
namespace forward_lanes_file
{
#include "engines/cuda_fft/forward_lanes.cu"
}
namespace inverse_lanes_file
{
#include "engines/cuda_fft/inverse_lanes.cu"
}
#if CV_BOARD_HOPPER
namespace product_file
{
#include "engines/cuda_fft/product_hopper.cu"
}
#else
namespace product_file
{
#include "engines/cuda_fft/product.cu"
}
#endif
namespace plan_file
{
extern "C" {
#include "engines/cuda_fft/spectral_plan.c"
#include "engines/cuda_fft/spectral_run.c"
}
} // namespace plan_file

/* The board's products are large: on Hopper its warpgroup shapes alone do, elsewhere there are none. */
extern "C" {
int cv_forward_setup(void);
int cv_product_setup(void);
int cv_inverse_setup(void);
int cv_forward_lanes_setup(void);
int cv_inverse_lanes_setup(void);
int cv_hopper_shapes(void);
float cv_hopper_shape(int shape, int *outputs, int *tiles, int *bytes);
int cv_hopper_setup(void);
int cv_hopper_product(const cv_spectral *g, int shape, void *stream);
}
#if CV_BOARD_HOPPER
int cv_spectral_product_shapes(int) { return cv_hopper_shapes(); }
float cv_spectral_product_shape(int shape, int *outputs, int *tiles, int *begin, int *bytes)
{
    *begin = 3;
    return cv_hopper_shape(shape, outputs, tiles, bytes);
}
int cv_product_setup(void) { return cv_hopper_setup(); }
int cv_spectral_product(const cv_spectral *g, int shape, void *stream) { return cv_hopper_product(g, shape, stream); }
#else
int cv_hopper_shapes(void) { return 0; }
float cv_hopper_shape(int, int *, int *, int *) { return 0; }
int cv_hopper_setup(void) { return 0; }
int cv_hopper_product(const cv_spectral *, int, void *) { return cudaErrorNotSupported; }
#endif

/* what the board's problems never ask for */
int cv_spectral_depthwise(const cv_spectral *, void *) { return cudaErrorNotSupported; }
int cv_spectral_product_few(const cv_spectral *, void *) { return cudaErrorNotSupported; }
int cv_spectral_pack(const cv_spectral *, float *, void *) { return cudaErrorNotSupported; }

static int board_setup(void)
{
    static int done;
    int e = 0;
    if (!done && !(e = cv_forward_setup()) && !(e = cv_product_setup()) && !(e = cv_inverse_setup()) &&
        !(e = cv_forward_lanes_setup()) && !(e = cv_inverse_lanes_setup()))
        done = 1;
    return e;
}

/* runs: pieces of the channels, of which the plan does one at a time; its results are packed. */
static int board_plan(const board_case *b, int runs, cv_spectral_plan *plan)
{
    cv_spectral g;
    memset(&g, 0, sizeof g);
    g.n = b->n, g.c = g.cg = b->c, g.h = g.w = b->h, g.k = g.kg = b->k, g.r = g.s = b->r;
    g.p = g.q = b->h - b->r + 1;
    g.stride_h = g.stride_w = 1;
    const int64_t sizes[3][4] = {{g.n, g.c, g.h, g.w}, {g.k, g.c, g.r, g.s}, {g.n, g.k, g.p, g.q}};
    int64_t *const strides[3] = {g.xs, g.ws, g.ys};
    for (int t = 0; t < 3; t++)
        for (int64_t i = 4, step = 1; i-- > 0; step *= sizes[t][i])
            strides[t][i] = step;
    g.c /= runs, g.cg /= runs;
    /* the rates matter to choosing tiles and to cutting work only; neither is left to do */
    int device = 0, shared = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    const cv_spectral_machine machine = {1e12, 1e12, 1, 132, 2e5, CV_BOARD_HOPPER, 0, (double)shared};
    return cv_spectral_make_plan(&g, 1, b->choice[0], b->choice[1], SIZE_MAX, 0, &machine, plan);
}

#ifndef CV_BOARD_MATCH
long long convoy_board_bytes(const long long *problem)
{
    const board_case *b = board_find(problem);
    cv_spectral_plan plan;
    return b && !board_plan(b, 1, &plan) ? (long long)plan.workspace_bytes : -1;
}

const char *convoy_board_run(const long long *problem, const float *x, const float *w, float *y, void *workspace)
{
    const board_case *b = board_find(problem);
    cv_spectral_plan plan;
    if (!b || board_plan(b, 1, &plan))
        return board_words(cudaErrorInvalidValue);
    const int e = board_setup();
    return board_words(e ? e
                         : cv_spectral_run(&plan, x, w, nullptr, nullptr, y, workspace, nullptr, 0, nullptr, nullptr));
}
#endif
