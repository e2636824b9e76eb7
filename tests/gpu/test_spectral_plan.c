/* The plans of the engine cuda_fft, on the host: whatever the problem, the tile and the limit, the tiles cover y, what
 * wraps around in a tile meets zeros, and the workspace keeps the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "spectral_plan.h"

/* The product's shapes belong to the kernels, which are not here: two, of which one is larger. */
int cv_spectral_product_shapes(int hopper) { return hopper ? 2 : 1; }
float cv_spectral_product_shape(int shape, int *outputs, int *tiles, int *begin, int *bytes)
{
    *outputs = shape ? 64 : 32;
    *tiles = shape ? 56 : 32;
    *begin = 1;
    *bytes = shape ? 110000 : 90000;
    return shape ? 5.0f : 10.0f;
}

static const cv_spectral_machine machine = {.bytes = 3e12,
                                            .tensor_cycles = 1e12,
                                            .rate = 1,
                                            .multiprocessors = 132,
                                            .shared = 233472,
                                            .hopper = 1,
                                            .launch = 2e-6};

struct side {
    int image, taps, pad, pad_end, stride, outputs;
};

static struct side side_of(int image, int taps, int pad, int pad_end, int stride)
{
    const struct side s = {image, taps, pad, pad_end, stride, (image + pad + pad_end - taps) / stride + 1};
    return s;
}

/* Along one side: output i of tile t is the sum over r of x[t * step - pad + i + r] w[r]; a cyclic sum over the tile's
 * points must find the same values there. */
static void check_side(const struct side *s, int points, int step, int tiles)
{
    const int unit = (s->outputs - 1) * s->stride + 1;
    assert_true(step >= 1 && step <= points && s->taps <= points);
    assert_true(tiles * step >= unit && (tiles - 1) * step < unit);
    for (int t = 0; t < tiles; t++) {
        const int first = t * step - s->pad;
        for (int i = 0; i < step && t * step + i < unit; i++)
            for (int r = 0; r < s->taps; r++) {
                const int at = first + i + r, wrapped = first + (i + r) % points;
                const int inside = at >= 0 && at < s->image, there = wrapped >= 0 && wrapped < s->image;
                if (i + r >= points && (inside || there))
                    fail_msg("tile of %d points, image %d, %d taps, padding %d and %d: output %d of tile %d, tap %d "
                             "meets x[%d] for x[%d]",
                             points, s->image, s->taps, s->pad, s->pad_end, i, t, r, wrapped, at);
            }
    }
}

static int check(const struct side *down, const struct side *across, int n, int c, int k, int groups, size_t limit)
{
    int plans = 0;
    cv_spectral g;
    memset(&g, 0, sizeof g);
    g.n = n, g.c = c, g.k = k, g.cg = c / groups, g.kg = k / groups;
    g.h = down->image, g.r = down->taps, g.pad_t = down->pad, g.stride_h = down->stride, g.p = down->outputs;
    g.w = across->image, g.s = across->taps, g.pad_l = across->pad, g.stride_w = across->stride, g.q = across->outputs;
    for (const int *ty = cv_spectral_sides; *ty; ty++)
        for (const int *tx = cv_spectral_sides; *tx; tx++) {
            cv_spectral_plan p;
            if (cv_spectral_make_plan(&g, groups, *ty, *tx, limit, 0, &machine, &p))
                continue;
            plans++;
            check_side(down, p.g.ty, p.g.oy, p.g.ny);
            check_side(across, p.g.tx, p.g.ox, p.g.nx);
            assert_int_equal(p.all_tiles, n * p.g.ny * p.g.nx);
            assert_true(p.tile_step >= 1 && p.tile_step <= p.all_tiles && p.k_step >= 1 && p.k_step <= k);
            assert_true(p.workspace_bytes <= limit && p.seconds > 0 && p.seconds < 1e3);
            assert_true(p.xf_bytes + p.yf_bytes + p.wf_bytes + p.wflag_bytes + p.xflag_bytes == p.workspace_bytes);
        }
    return plans;
}

static void sides(void **state)
{
    static const int images[] = {1, 7, 14, 28, 32, 56, 100}, taps[] = {1, 3, 8, 13, 27, 31, 51};
    (void)state;
    int plans = 0;
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        for (size_t j = 0; j < sizeof taps / sizeof *taps; j++)
            for (int pad = 0; pad <= taps[j]; pad += taps[j] / 3 + 1)
                for (int more = 0; more <= taps[j]; more += taps[j] / 2 + 1)
                    for (int stride = 1; stride <= 3; stride += 2) {
                        if (images[i] + pad + pad / 2 + more < taps[j])
                            continue;
                        const struct side s = side_of(images[i], taps[j], pad, pad / 2 + more, stride);
                        const struct side other = side_of(20, 5, 2, 2, 1);
                        plans += check(&s, &other, 1, 2, 2, 1, SIZE_MAX);
                        plans += check(&other, &s, 2, 2, 2, 2, SIZE_MAX);
                    }
    assert_true(plans > 1000);
}

/* A padded image lies in one tile of image + padding points on a side. */
static void whole_images(void **state)
{
    (void)state;
    const struct side s = side_of(14, 27, 13, 13, 1);
    cv_spectral g;
    cv_spectral_plan p;
    memset(&g, 0, sizeof g);
    g.n = 8, g.c = g.k = 512, g.cg = g.kg = 1, g.h = g.w = 14, g.r = g.s = 27, g.p = g.q = s.outputs;
    g.stride_h = g.stride_w = 1, g.pad_t = g.pad_l = 13;
    assert_int_equal(cv_spectral_make_plan(&g, 512, 28, 28, SIZE_MAX, 0, &machine, &p), 0);
    assert_int_equal(p.all_tiles, 8);
    assert_int_equal(cv_spectral_make_plan(&g, 512, 24, 24, SIZE_MAX, 0, &machine, &p), -1);
    g.pad_t = g.pad_l = 12; /* one row less: 28 points hold the image, but a row would wrap onto it */
    g.p = g.q = 14 + 12 + 14 - 27 + 1;
    assert_int_equal(cv_spectral_make_plan(&g, 512, 28, 28, SIZE_MAX, 0, &machine, &p), 0);
    check_side(&(struct side){14, 27, 12, 14, 1, 14}, 28, p.g.oy, p.g.ny);
}

static void limits(void **state)
{
    (void)state;
    const struct side s = side_of(256, 32, 0, 0, 1);
    for (size_t limit = (size_t)1 << 20; limit <= (size_t)1 << 30; limit *= 2)
        check(&s, &s, 1, 128, 128, 1, limit);
    assert_true(check(&s, &s, 1, 128, 128, 1, (size_t)128 << 20) > 10);
    assert_int_equal(check(&s, &s, 1, 128, 128, 1, 1000), 0);
}

/* A GPU with 99 KB a block gets neither tiles nor product shapes that ask for more. */
static void small_shared_memory(void **state)
{
    (void)state;
    const struct side s = side_of(128, 32, 0, 0, 1);
    cv_spectral_machine small = machine;
    small.block = 101376;
    cv_spectral g;
    cv_spectral_plan p;
    memset(&g, 0, sizeof g);
    g.n = 1, g.c = g.cg = g.k = g.kg = 64, g.h = g.w = s.image, g.r = g.s = s.taps, g.p = g.q = s.outputs;
    g.stride_h = g.stride_w = 1;
    assert_int_equal(cv_spectral_make_plan(&g, 1, 128, 128, SIZE_MAX, 0, &machine, &p), 0);
    assert_int_equal(p.shape, 1);
    assert_int_equal(cv_spectral_make_plan(&g, 1, 128, 128, SIZE_MAX, 0, &small, &p), -1);
    assert_int_equal(cv_spectral_make_plan(&g, 1, 64, 64, SIZE_MAX, 0, &small, &p), 0);
    assert_int_equal(p.shape, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sides), cmocka_unit_test(whole_images),
                                       cmocka_unit_test(limits), cmocka_unit_test(small_shared_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
