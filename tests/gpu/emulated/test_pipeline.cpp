/*
 * The spectral engine's lane transforms and products on the emulated machine: plans and runs as the library makes them,
 * against a direct sum in double. Every case runs twice, with copies and threads as early and as late as they may be.
 */
#include <stdio.h>
#include <stdlib.h>

#include <limits>

#include "instructions.h"
#include "machine.h"

#include "engines/cuda_fft/lanes.h"
#include "engines/cuda_fft/spectral_plan.h"

extern "C" {
int cv_forward_lanes_setup(void);
int cv_inverse_lanes_setup(void);
int cv_product_setup(void);

/* Only the kernels of lanes.h are here. */
int cv_spectral_forward(const cv_spectral *g, int what, void *stream) { return cv_forward_lanes(g, what, stream); }
int cv_spectral_inverse(const cv_spectral *g, void *stream) { return cv_inverse_lanes(g, stream); }
int cv_spectral_depthwise(const cv_spectral *, void *) { return cudaErrorNotSupported; }

/* copy[k][c][r][s] = w[k, c, r, s]: what setup.cu's kernel does. */
int cv_spectral_pack(const cv_spectral *g, float *copy, void *)
{
    for (int k = 0; k < g->k; k++)
        for (int c = 0; c < g->cg; c++)
            for (int r = 0; r < g->r; r++)
                for (int s = 0; s < g->s; s++)
                    *copy++ = g->weight[k * g->ws[0] + c * g->ws[1] + r * g->ws[2] + s * g->ws[3]];
    return cudaSuccess;
}
}

namespace
{

enum { HOPPER = 7, FEW = -1, PLANNED = -2 }; /* product shapes: the first of Hopper's */
enum { ODD = 1, BIAS = 2, PREPARED = 4, AMPERE = 8, RANGE = 16 };

struct problem {
    int ty, tx, n, groups, cg, kg, h, w, r, s, pad_t, pad_l, pad_b, pad_r;
    int shape; /* of the product */
    int cuts;  /* the workspace has room for such a part of everything */
    int flags;
};

const problem problems[] = {
    /* one tile; padding; Hopper's product, two bins beside each other */
    {48, 48, 1, 1, 5, 16, 30, 30, 13, 13, 6, 6, 6, 6, HOPPER, 1, BIAS},
    /* words instead of boxes, a tile at the image's edge that is partial */
    {48, 56, 1, 1, 6, 8, 50, 61, 9, 11, 4, 5, 3, 5, HOPPER + 1, 1, ODD},
    {56, 56, 1, 1, 10, 16, 40, 70, 31, 27, 15, 13, 15, 13, HOPPER + 3, 1, BIAS},
    {64, 64, 1, 1, 14, 9, 70, 66, 7, 5, 3, 0, 3, 2, HOPPER + 4, 1, 0},
    /* groups of an odd number of channels */
    {48, 64, 1, 2, 3, 8, 40, 80, 25, 17, 12, 8, 12, 8, HOPPER + 2, 1, 0},
    {64, 56, 2, 3, 4, 5, 60, 50, 33, 3, 0, 1, 4, 2, HOPPER, 1, BIAS | ODD},
    {56, 64, 1, 4, 2, 8, 33, 64, 41, 33, 20, 16, 20, 16, PLANNED, 1, BIAS},
    /* channels that go round the ring of stages */
    {48, 48, 1, 1, 70, 8, 20, 20, 9, 9, 4, 4, 4, 4, HOPPER, 1, 0},
    {48, 48, 1, 1, 56, 8, 20, 20, 9, 9, 4, 4, 4, 4, HOPPER + 3, 1, 0},
    /* cut into passes */
    {48, 48, 1, 1, 4, 24, 60, 60, 21, 21, 10, 10, 10, 10, HOPPER + 1, 5, BIAS},
    {48, 48, 2, 4, 4, 8, 47, 45, 15, 15, 7, 7, 7, 7, HOPPER, 3, 0},
    /* w prepared: passes begin within its spectra */
    {48, 48, 1, 1, 20, 20, 50, 30, 19, 19, 9, 9, 9, 9, HOPPER, 3, PREPARED | BIAS},
    /* mma.sync's product and words, as on compute capability 8.0 */
    {48, 48, 1, 1, 70, 24, 42, 40, 11, 11, 5, 5, 5, 5, 6, 1, AMPERE | BIAS},
    {56, 48 + 8, 2, 2, 6, 16, 50, 40, 20, 9, 9, 4, 9, 4, 4, 1, AMPERE},
    /* few channels */
    {64, 64, 1, 1, 3, 6, 90, 60, 35, 9, 0, 4, 0, 4, FEW, 1, BIAS},
    /* values that the transforms do not hold: the direct sum */
    {48, 48, 2, 1, 3, 8, 40, 40, 9, 9, 4, 4, 4, 4, HOPPER, 1, RANGE | BIAS},
};

struct tensor {
    int64_t strides[4], words;
    float *data;
};

/* Rows and planes apart by what the copy engine takes, or not. The last element ends the room. */
tensor make_tensor(int a, int b, int c, int d, bool odd)
{
    tensor t;
    t.strides[3] = 1;
    t.strides[2] = odd ? d + 3 - d % 2 : (d + 3) / 4 * 4;
    t.strides[1] = t.strides[2] * c + (odd ? 6 - c % 2 : 8);
    t.strides[0] = t.strides[1] * b + (odd ? 1 : 4);
    t.words = (a - 1) * t.strides[0] + (b - 1) * t.strides[1] + (c - 1) * t.strides[2] + d;
    if (!odd)
        t.words = (t.words + 3) / 4 * 4;
    t.data = (float *)emulated::guarded((size_t)t.words * 4);
    return t;
}

uint32_t random_state = 1;
float random_value()
{
    random_state = random_state * 1664525 + 1013904223;
    return (float)(int32_t)random_state * 0x1p-31f;
}

template <class F> void each(const tensor &t, int a, int b, int c, int d, F f)
{
    for (int i = 0; i < a; i++)
        for (int j = 0; j < b; j++)
            for (int k = 0; k < c; k++)
                for (int l = 0; l < d; l++)
                    f(t.data[i * t.strides[0] + j * t.strides[1] + k * t.strides[2] + l], i, j, k, l);
}

cv_spectral geometry(const problem &o, const tensor &x, const tensor &w, const tensor &y)
{
    cv_spectral g = {};
    g.n = o.n, g.c = o.groups * o.cg, g.h = o.h, g.w = o.w, g.k = o.groups * o.kg, g.r = o.r, g.s = o.s;
    g.p = o.h + o.pad_t + o.pad_b - o.r + 1, g.q = o.w + o.pad_l + o.pad_r - o.s + 1;
    g.cg = o.cg, g.kg = o.kg;
    g.stride_h = g.stride_w = 1;
    g.pad_t = o.pad_t, g.pad_l = o.pad_l;
    memcpy(g.xs, x.strides, sizeof g.xs);
    memcpy(g.ws, w.strides, sizeof g.ws);
    memcpy(g.ys, y.strides, sizeof g.ys);
    return g;
}

bool make_plan(const problem &o, const cv_spectral &base, cv_spectral_plan *plan)
{
    cv_spectral_machine machine = {};
    machine.bytes = 4e12, machine.tensor_cycles = 1e12, machine.rate = 1, machine.multiprocessors = 132;
    machine.shared = 233472, machine.hopper = !(o.flags & AMPERE), machine.launch = 2e-6, machine.block = 232448;
    const int prepared = (o.flags & PREPARED) != 0;
    if (cv_spectral_make_plan(&base, o.groups, o.ty, o.tx, SIZE_MAX, prepared, &machine, plan))
        return false;
    if (o.cuts > 1 && cv_spectral_make_plan(&base, o.groups, o.ty, o.tx, plan->workspace_bytes / (size_t)o.cuts,
                                            prepared, &machine, plan))
        return false;
    if (o.shape != PLANNED) {
        plan->few = o.shape == FEW;
        plan->shape = o.shape == FEW ? 0 : o.shape;
    }
    return plan->g.lanes != 0;
}

int run(const problem &o)
{
    const int c = o.groups * o.cg, k = o.groups * o.kg;
    const bool odd = o.flags & ODD, biased = o.flags & BIAS;
    const tensor x = make_tensor(o.n, c, o.h, o.w, odd), w = make_tensor(k, o.cg, o.r, o.s, odd),
                 y = make_tensor(o.n, k, o.h + o.pad_t + o.pad_b - o.r + 1, o.w + o.pad_l + o.pad_r - o.s + 1, odd);
    float *const bias = (float *)emulated::guarded((size_t)k * 4);
    const cv_spectral base = geometry(o, x, w, y);
    auto fill = [](float &v, int, int, int, int) { v = random_value(); };
    each(x, o.n, c, o.h, o.w, fill);
    each(w, k, o.cg, o.r, o.s, fill);
    for (int i = 0; i < k; i++)
        bias[i] = random_value();
    if (o.flags & RANGE)
        x.data[5 * x.strides[2] + 7] = 0x1p60f; /* its image's outputs are judged by their own size */

    cv_spectral_plan plan;
    if (!make_plan(o, base, &plan))
        return printf("no plan\n"), 1;
    char *const workspace = (char *)emulated::guarded((plan.workspace_bytes + 255) / 256 * 256);
    void *const prepared = plan.prepared ? emulated::guarded(plan.weights_bytes) : nullptr;
    emulated::capability = o.flags & AMPERE ? 8 : 9;
    int e = cv_forward_lanes_setup() || cv_inverse_lanes_setup() || cv_product_setup();
    if (!e && prepared)
        e = cv_spectral_prepare(&plan, w.data, prepared, nullptr);
    if (!e)
        e = cv_spectral_run(&plan, x.data, prepared ? nullptr : w.data, prepared, biased ? bias : nullptr, y.data,
                            workspace, nullptr, 0, nullptr, nullptr);
    if (e)
        return printf("error %d\n", e), 1;

    double error = 0, square = 0, worst = 0;
    int wrong = 0;
    each(y, o.n, k, base.p, base.q, [&](float &out, int in, int ik, int ip, int iq) {
        double sum = biased ? bias[ik] : 0, size = 0;
        const float *const from = x.data + in * x.strides[0] + ik / o.kg * o.cg * x.strides[1];
        const int r0 = max(0, o.pad_t - ip), r1 = min(o.r, o.h + o.pad_t - ip);
        const int s0 = max(0, o.pad_l - iq), s1 = min(o.s, o.w + o.pad_l - iq);
        for (int ic = 0; ic < o.cg; ic++)
            for (int r = r0; r < r1; r++) {
                const float *const a = from + ic * x.strides[1] + (ip - o.pad_t + r) * x.strides[2] + iq - o.pad_l;
                const float *const b = w.data + ik * w.strides[0] + ic * w.strides[1] + r * w.strides[2];
                for (int s = s0; s < s1; s++) {
                    sum += (double)a[s] * b[s];
                    size += o.flags & RANGE ? fabs((double)a[s] * b[s]) : 0;
                }
            }
        const double unit = o.flags & RANGE ? 1 + size : sqrt((double)o.cg * o.r * o.s), d = fabs(out - sum) / unit;
        wrong += !(d < 4e-6);
        worst = max(worst, d);
        error += d * d, square += sum / unit * (sum / unit);
        out = std::numeric_limits<float>::quiet_NaN();
    });
    for (int64_t i = 0; i < y.words; i++)
        wrong += !isnan(y.data[i]); /* written beside y's elements */
    const bool twos = !plan.few && plan.g.ycb == 8 && plan.k_step % 8 == 0 && (o.groups == 1 || o.kg % 8 == 0);
    printf(
        "tile %dx%d, %d channels and %d outputs a block, passes of %d of %d tiles and %d of %d outputs, product %d%s: "
        "error %.2g, worst %.2g%s\n",
        o.ty, o.tx, plan.g.cb, plan.g.ycb, plan.tile_step, plan.all_tiles, plan.k_step, k, plan.few ? FEW : plan.shape,
        twos ? ", bins in twos" : "", sqrt(error / square), worst, wrong ? ": WRONG" : "");
    return wrong != 0;
}

} // namespace

int main()
{
    int failures = 0;
    for (const problem &o : problems)
        for (const bool late : {false, true}) {
            emulated::late = late;
            failures += run(o);
            fflush(stdout);
        }
    printf("%ld blocks, %d failures\n", emulated::blocks_run, failures);
    return failures != 0;
}
