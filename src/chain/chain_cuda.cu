/* Which kernels can do a shape, in which order they are likely best, and one way to launch them. */
#include <string.h>

#include "chain_host.h"
#include "convoy/convoy.h"

namespace
{

struct ranked {
    cv_chain_choice choice;
    double seconds;
};

void add(ranked *list, int *count, int capacity, const ranked &r)
{
    int at = *count;
    while (at > 0 && list[at - 1].seconds > r.seconds)
        --at;
    if (at >= capacity)
        return;
    const int last = *count < capacity ? (*count)++ : capacity - 1;
    for (int i = last; i > at; --i)
        list[i] = list[i - 1];
    list[at] = r;
}

} // namespace

void cv_chain_shape_of(const convoy_problem *problem, int64_t P, int64_t Q, cv_chain_shape *shape)
{
    const convoy_problem &p = *problem;
    *shape = {p.n,     p.c,     p.h,     p.w,     p.k,     p.r,     p.s,      P,  Q,  p.stride_h, p.stride_w,
              p.pad_t, p.pad_l, p.pad_b, p.pad_r, p.dil_h, p.dil_w, p.groups, {}, {}, {}};
    memcpy(shape->xs, p.x_stride, sizeof shape->xs);
    memcpy(shape->ws, p.w_stride, sizeof shape->ws);
    memcpy(shape->ys, p.y_stride, sizeof shape->ys);
}

double cv_chain_cuda_estimate(const cv_chain_shape *shape, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                              int relay, size_t *workspace_bytes)
{
    size_t relaid = 0, carry = 0;
    double seconds;
    if (choice->kind == CV_CHAIN_SLIDE)
        seconds = cv_slide_seconds(shape, gpu, choice, &relaid, &carry);
    else if (choice->kind == CV_CHAIN_PLANE)
        seconds = cv_plane_seconds(shape, gpu, choice);
    else if (choice->kind == CV_CHAIN_STRIP)
        seconds = cv_strip_seconds(shape, gpu, choice);
    else
        seconds = cv_gather_seconds(shape, gpu, choice);
    if (relaid && !relay)
        seconds -= 2e-6 + 2.0 * (double)relaid / gpu->bytes_per_s;
    if (workspace_bytes)
        *workspace_bytes = carry + (relay ? relaid : 0);
    return seconds;
}

int cv_chain_cuda_choices(const cv_chain_shape *shape, const cv_chain_gpu *gpu, cv_chain_choice *list, int capacity)
{
    enum { MOST = CV_CHAIN_CHOICES };
    ranked all[MOST];
    int count = 0;
    static const int swizzles[] = {8, 1}, taps[] = {32, 96};
    for (int i = 0; i < CV_SLIDE_VARIANTS * 8; ++i) {
        ranked r = {{CV_CHAIN_SLIDE, i / 8, swizzles[i & 1], i >> 1 & 1, taps[i >> 2 & 1]}, 0};
        if (!cv_slide_fits(shape, gpu, &r.choice))
            continue;
        r.seconds = cv_chain_cuda_estimate(shape, gpu, &r.choice, 1, NULL) * (1 + 1e-3 * (i & 1));
        add(all, &count, MOST, r);
    }
    for (int i = 0; i < CV_PLANE_VARIANTS; ++i)
        if (cv_plane_fits(shape, gpu, i)) {
            ranked r = {{CV_CHAIN_PLANE, i, 0, 0, 0}, 0};
            r.seconds = cv_chain_cuda_estimate(shape, gpu, &r.choice, 1, NULL);
            add(all, &count, MOST, r);
        }
    for (int i = 0; i < CV_STRIP_VARIANTS; ++i)
        if (cv_strip_fits(shape, gpu, i)) {
            ranked r = {{CV_CHAIN_STRIP, i, 0, 0, 0}, 0};
            r.seconds = cv_chain_cuda_estimate(shape, gpu, &r.choice, 1, NULL);
            add(all, &count, MOST, r);
        }
    for (int i = 0; i < CV_GATHER_VARIANTS; ++i)
        if (cv_gather_fits(shape, i)) {
            ranked r = {{CV_CHAIN_GATHER, i, 0, 0, 0}, 0};
            r.seconds = cv_chain_cuda_estimate(shape, gpu, &r.choice, 1, NULL);
            add(all, &count, MOST, r);
        }
    if (count > capacity)
        count = capacity;
    for (int i = 0; i < count; ++i)
        list[i] = all[i].choice;
    return count;
}

int cv_chain_cuda_plan(const cv_chain_shape *shape, const cv_chain_gpu *gpu, const cv_chain_choice *choice,
                       cv_chain_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->shape = *shape;
    plan->choice = *choice;
    const int i = choice->variant;
    if (choice->kind == CV_CHAIN_SLIDE && cv_slide_fits(shape, gpu, choice))
        return cv_slide_plan(shape, gpu, choice, plan);
    if (choice->kind == CV_CHAIN_PLANE && i >= 0 && i < CV_PLANE_VARIANTS && cv_plane_fits(shape, gpu, i))
        return cv_plane_plan(shape, gpu, choice, plan);
    if (choice->kind == CV_CHAIN_STRIP && i >= 0 && i < CV_STRIP_VARIANTS && cv_strip_fits(shape, gpu, i))
        return cv_strip_plan(shape, gpu, choice, plan);
    if (choice->kind == CV_CHAIN_GATHER && i >= 0 && i < CV_GATHER_VARIANTS && cv_gather_fits(shape, i))
        return cv_gather_plan(shape, choice, plan);
    return cudaErrorInvalidValue;
}

int cv_chain_cuda_run(const cv_chain_plan *plan, const float *x, const float *w, const float *bias, float *y,
                      void *workspace, void *stream)
{
    switch (plan->choice.kind) {
    case CV_CHAIN_SLIDE:
        return cv_slide_run(plan, x, w, bias, y, workspace, (cudaStream_t)stream);
    case CV_CHAIN_PLANE:
        return cv_plane_run(plan, x, w, bias, y, (cudaStream_t)stream);
    case CV_CHAIN_STRIP:
        return cv_strip_run(plan, x, w, bias, y, (cudaStream_t)stream);
    default:
        return cv_gather_run(plan, x, w, bias, y, (cudaStream_t)stream);
    }
}
