/* The kernels of the CPU fft engine against double-precision sums: transforms of every length, products, magnitudes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fft/tile.h"
#include "platform/cpu.h"

static uint64_t seed = 11;

static int draw(int least, int most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return least + (int)((seed >> 33) % (uint64_t)(most - least + 1));
}

static float draw_float(void) { return (float)draw(-1000000, 1000000) * 1e-6f; }

static float *floats(size_t n)
{
    float *block = aligned_alloc(64, (n + 15) / 16 * 64);
    assert_non_null(block);
    for (size_t i = 0; i < n; i++)
        block[i] = NAN; /* nothing may be read that was not written */
    return block;
}

static const cv_fft_kernels *const kernels[] = {&cv_fft_kernels_scalar, &cv_fft_kernels_avx2, &cv_fft_kernels_avx512};

/* Runs test with the kernels of every instruction set that this machine has. */
static void everywhere(void (*test)(const cv_fft_kernels *k))
{
    cv_cpu cpu;
    cv_cpu_detect(&cpu);
    for (int isa = CV_SCALAR; isa <= (int)cpu.isa; isa++)
        test(kernels[isa]);
}

typedef struct bench {
    cv_fft_tile tile;
    float *tables, *half, *line, *image, *spectrum;
    cv_fft_load load;
} bench;

/* A tile whose lanes lie in one image, each with a rectangle of its own. */
static bench bench_make(const cv_fft_kernels *k, int ty, int tx)
{
    bench b = {.tile = {.ty = ty, .tx = tx, .ux = tx / 2 + 1, .bins = (int64_t)ty * (tx / 2 + 1)}};
    const size_t row = cv_fft_line_floats(tx), area = (size_t)ty * (size_t)tx;
    b.tables = floats(row + cv_fft_line_floats(ty));
    cv_fft_line_init(&b.tile.row, tx, b.tables);
    cv_fft_line_init(&b.tile.column, ty, b.tables + row);
    b.half = floats(k->half_floats(&b.tile));
    b.line = floats(k->line_floats(&b.tile));
    b.image = floats(area * (size_t)k->lanes);
    b.spectrum = floats((size_t)(cv_fft_column_floats(&b.tile, k->lanes) * b.tile.ux));
    for (size_t i = 0; i < area * (size_t)k->lanes; i++)
        b.image[i] = draw_float();
    b.load.lanes = draw(0, 1) ? k->lanes : draw(1, k->lanes);
    b.load.step_x = 1, b.load.step_y = tx;
    b.load.cut_y = draw(0, ty / 2), b.load.cut_x = draw(0, tx / 2);
    for (int l = 0; l < b.load.lanes; l++) {
        cv_fft_source *s = &b.load.lane[l];
        *s = (cv_fft_source){.plane = b.image, .offset = (int64_t)area * l};
        const int whole = draw(0, 1);
        s->y0 = whole ? b.load.cut_y : draw(b.load.cut_y, ty), s->y1 = whole ? ty : draw(s->y0, ty);
        s->x0 = whole ? b.load.cut_x : draw(b.load.cut_x, tx), s->x1 = whole ? tx : draw(s->x0, tx);
        b.load.rows = s->y1 - b.load.cut_y > b.load.rows ? s->y1 - b.load.cut_y : b.load.rows;
        b.load.columns = s->x1 - b.load.cut_x > b.load.columns ? s->x1 - b.load.cut_x : b.load.columns;
    }
    return b;
}

static void bench_free(bench *b)
{
    free(b->tables);
    free(b->half);
    free(b->line);
    free(b->image);
    free(b->spectrum);
}

/* Element (y, x) of a lane's tile, after the cut. */
static double element(const bench *b, int lane, int y, int x)
{
    const cv_fft_source *s = &b->load.lane[lane];
    y += b->load.cut_y, x += b->load.cut_x;
    if (lane >= b->load.lanes || y < s->y0 || y >= s->y1 || x < s->x0 || x >= s->x1)
        return 0;
    return (double)b->image[s->offset + (int64_t)y * b->tile.tx + x];
}

/* Bin (u, v) of a lane: the doubled transform, its conjugate when asked. rows[y] = sum over x at this u. */
static void check_bins(const cv_fft_kernels *k, const bench *b, int lane, int conjugate)
{
    const int ty = b->tile.ty, tx = b->tile.tx;
    const int64_t column = cv_fft_column_floats(&b->tile, k->lanes);
    const double turn = 6.283185307179586476925;
    double *re = malloc(sizeof *re * (size_t)ty), *im = malloc(sizeof *im * (size_t)ty);
    assert_true(re && im);
    for (int u = 0; u<b->tile.ux; u += b->tile.ux> 9 ? draw(1, 8) : 1) {
        for (int y = 0; y < ty; y++) {
            re[y] = im[y] = 0;
            for (int x = 0; x < tx; x++) {
                re[y] += element(b, lane, y, x) * cos(turn * (x * u % tx) / tx);
                im[y] -= element(b, lane, y, x) * sin(turn * (x * u % tx) / tx);
            }
        }
        for (int v = 0; v<ty; v += ty> 9 ? draw(1, 8) : 1) {
            double r = 0, i = 0;
            for (int y = 0; y < ty; y++) {
                const double c = cos(turn * (y * v % ty) / ty), s = -sin(turn * (y * v % ty) / ty);
                r += re[y] * c - im[y] * s;
                i += re[y] * s + im[y] * c;
            }
            const float *at = b->spectrum + u * column + v * 2 * k->lanes + lane;
            const double tolerance = 4e-7 * sqrt((double)ty * tx) * log2((double)ty * tx + 2);
            if (!(fabs((double)at[0] - 2 * r) < tolerance) ||
                !(fabs((double)at[k->lanes] - (conjugate ? -2 : 2) * i) < tolerance))
                fail_msg("%d lanes, %dx%d, bin %d,%d of lane %d: %g %g, truth %g %g", k->lanes, ty, tx, u, v, lane,
                         (double)at[0], (double)at[k->lanes], 2 * r, (conjugate ? -2 : 2) * i);
        }
    }
    free(re);
    free(im);
}

/* Back again: inverse(forward) is 2*tx*ty times the tile, in the place it had before the cut. */
static void check_back(const cv_fft_kernels *k, bench *b)
{
    const int ty = b->tile.ty, tx = b->tile.tx;
    float *y = floats((size_t)(ty * tx * k->lanes));
    cv_fft_store store = {.lanes = b->load.lanes, .every_y = draw(1, 3), .every_x = draw(1, 3)};
    store.step_y = tx, store.step_x = 1;
    store.cut_y = b->load.cut_y, store.cut_x = b->load.cut_x;
    for (int l = 0; l < store.lanes; l++)
        store.lane[l] = (cv_fft_sink){.plane = y,
                                      .offset = (int64_t)ty * tx * l,
                                      .rows = draw(1, (ty - 1) / store.every_y + 1),
                                      .columns = draw(1, (tx - 1) / store.every_x + 1),
                                      .scale = 0.25f / (float)(tx * ty),
                                      .power = 2,
                                      .bias = (float)l};
    /* Once through rows that were picked when the columns were done, streamed or not, in place or not. */
    const int64_t column = cv_fft_column_floats(&b->tile, k->lanes);
    const int rows = (ty - 1) / store.every_y + 1, in_place = draw(0, 1);
    float *kept = in_place ? b->spectrum : floats((size_t)(b->tile.ux * column + 16));
    float *aligned = in_place ? kept : (float *)(((uintptr_t)kept + 63) / 64 * 64);
    const cv_fft_finish finish = {.in = b->spectrum,
                                  .out = aligned,
                                  .count = b->tile.ux,
                                  .in_pitch = column,
                                  .out_pitch = column,
                                  .first = (ty - store.cut_y) % ty,
                                  .every = store.every_y,
                                  .rows = rows,
                                  .stream = !in_place && draw(0, 1)};
    const cv_fft_half half = {aligned, 2 * k->lanes, column, 0, 1, rows, draw(0, 1)};
    k->columns_finish(&b->tile, &finish, b->line);
    k->rows_finish(&b->tile, &half, &store, b->line);
    if (!in_place)
        free(kept);
    for (int l = 0; l < store.lanes; l++)
        for (int i = 0; i < ty; i++)
            for (int j = 0; j < tx; j++) {
                const float got = y[((int64_t)l * ty + i) * tx + j];
                if (i >= store.lane[l].rows || j >= store.lane[l].columns) {
                    assert_true(isnan(got)); /* untouched */
                    continue;
                }
                const int row = i * store.every_y - b->load.cut_y, col = j * store.every_x - b->load.cut_x;
                const double want = element(b, l, row < 0 ? row + ty : row, col < 0 ? col + tx : col) + l;
                if (!(fabs((double)got - want) < 3e-6))
                    fail_msg("%d lanes, %dx%d, output %d,%d of lane %d: %g, truth %g", k->lanes, ty, tx, i, j, l,
                             (double)got, want);
            }
    free(y);
}

static void columns_in_two_steps(const cv_fft_kernels *k, bench *b, int conjugate, cv_fft_spectrum out)
{
    const cv_fft_spectrum kept = {NULL, (int64_t)b->load.rows * 2 * k->lanes, out.stream};
    float *columns = floats((size_t)(b->tile.ux * kept.step));
    k->columns_copy(&b->tile, b->half, b->load.rows, (cv_fft_spectrum){columns, kept.step, kept.stream});
    for (int u = 0; u < b->tile.ux; u++)
        k->columns_lines(&b->tile, columns + u * kept.step, b->load.rows, 1, conjugate, out.at + u * out.step, b->line);
    free(columns);
}

static void transform_sizes(const cv_fft_kernels *k)
{
    for (int n = 2; n <= CV_FFT_MAX; n++) {
        if (!cv_fft_line_has(n))
            continue;
        for (int turned = 0; turned < 2; turned++) {
            const int other = n > 64 ? 8 : draw(1, 3) == 1 ? 15 : 16;
            bench b = bench_make(k, turned ? other : n, turned ? n : other);
            const int conjugate = draw(0, 1), lane = draw(0, k->lanes - 1);
            const cv_fft_spectrum out = {b.spectrum, cv_fft_column_floats(&b.tile, k->lanes), draw(0, 1)};
            k->rows_forward(&b.tile, &b.load, conjugate, b.half, b.line);
            if (draw(0, 1))
                k->columns_forward(&b.tile, b.half, b.load.rows, conjugate, out, b.line);
            else
                columns_in_two_steps(k, &b, conjugate, out);
            check_bins(k, &b, lane, conjugate);
            if (!conjugate)
                check_back(k, &b);
            bench_free(&b);
        }
    }
}

static void every_length(void **state)
{
    (void)state;
    everywhere(transform_sizes);
    assert_false(cv_fft_line_has(7) || cv_fft_line_has(1) || cv_fft_line_has(0) || cv_fft_line_has(1024));
}

static void magnitudes_of(const cv_fft_kernels *k)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, 1e-45f};
    for (int i = 0; i < 5; i++) {
        bench b = bench_make(k, 16, 20);
        b.load.want_min = 1;
        cv_fft_source *s = &b.load.lane[b.load.lanes - 1];
        s->y0 = b.load.cut_y, s->y1 = 16, s->x0 = b.load.cut_x, s->x1 = 20;
        b.load.rows = 16 - b.load.cut_y, b.load.columns = 20 - b.load.cut_x;
        b.image[s->offset + (int64_t)draw(s->y0, 15) * 20 + draw(s->x0, 19)] = odd[i];
        k->rows_forward(&b.tile, &b.load, 0, b.half, b.line);
        const float max = b.load.max[b.load.lanes - 1], min = b.load.min[b.load.lanes - 1];
        assert_true(i == 0 ? isnan(max) : i < 3 ? isinf(max) : i == 3 ? max == 3e38f : max <= 1.0f && min == 1e-45f);
        for (int l = 0; l + 1 < b.load.lanes; l++)
            assert_true(b.load.max[l] <= 1.0f);
        bench_free(&b);
    }
}

static void magnitudes(void **state)
{
    (void)state;
    everywhere(magnitudes_of);
}

/* Value (item, c) of a row or vector operand at bin (u, v): real part, and its imaginary one lanes further on. */
static const float *row_value(const cv_fft_product *f, int64_t lanes, int64_t n, int64_t c, int u, int v)
{
    const int64_t i = f->row_first + n * f->row_pitch + c;
    return f->row + u * f->row_step + i / lanes * cv_fft_column_floats(f->tile, (int)lanes) + v * 2 * lanes + i % lanes;
}

static void product_sizes(const cv_fft_kernels *k)
{
    const int64_t vl = k->lanes;
    for (int round = 0; round < 60; round++) {
        cv_fft_tile tile = {.ty = draw(2, 9), .tx = 4, .ux = 3};
        const int64_t column = cv_fft_column_floats(&tile, k->lanes);
        cv_fft_product f = {.tile = &tile,
                            .rows = round % 20 == 0 ? draw(120, 300) : draw(1, 40),
                            .groups = draw(1, 3),
                            .depth = round % 10 == 1 ? draw(100, CV_FFT_DEPTH) : draw(1, 50),
                            .row_first = draw(0, 20)};
        f.row_pitch = f.depth + draw(0, 5), f.vector_pitch = f.depth + draw(0, 5);
        f.out_group = column + draw(0, 3), f.out_row = f.groups * f.out_group + draw(0, 3);
        const int64_t flat = f.row_first + f.rows * f.row_pitch + vl, vectors = f.groups * f.vector_pitch;
        f.row_step = (flat + vl - 1) / vl * column, f.vector_step = vectors * column;
        float *row = floats((size_t)(3 * f.row_step)), *vector = floats((size_t)(3 * f.vector_step));
        float *out = floats((size_t)(f.rows * f.out_row)),
              *panels = floats((size_t)tile.ty * k->panel_floats(f.rows, f.depth));
        for (int64_t i = 0; i < 3 * f.row_step; i++)
            row[i] = draw_float();
        for (int64_t i = 0; i < 3 * f.vector_step; i++)
            vector[i] = draw_float();
        f.row = row, f.vector = vector, f.out = out;
        k->pack(&f, 1, 1, tile.ty, panels);
        k->multiply(&f, 1, 1, tile.ty, panels);
        f.more = 1;
        k->multiply(&f, 1, 1, tile.ty, panels); /* and once more on top */
        for (int check = 0; check < 200; check++) {
            const int64_t n = draw(0, (int)f.rows - 1), g = draw(0, (int)f.groups - 1), l = draw(0, (int)vl - 1);
            const int v = draw(1, tile.ty - 1);
            double re = 0, im = 0;
            for (int64_t c = 0; c < f.depth; c++) {
                const float *a = row_value(&f, vl, n, c, 1, v);
                const float *b = vector + f.vector_step + (g * f.vector_pitch + c) * column + v * 2 * vl + l;
                re += 2 * ((double)a[0] * (double)b[0] - (double)a[vl] * (double)b[vl]);
                im += 2 * ((double)a[0] * (double)b[vl] + (double)a[vl] * (double)b[0]);
            }
            const float *got = out + n * f.out_row + g * f.out_group + v * 2 * vl + l;
            const double tolerance = 1e-6 * (double)f.depth + 1e-6;
            if (!(fabs((double)got[0] - re) < tolerance) || !(fabs((double)got[vl] - im) < tolerance))
                fail_msg("%d lanes, %lld rows, %lld groups, depth %lld: %g %g, truth %g %g", k->lanes,
                         (long long)f.rows, (long long)f.groups, (long long)f.depth, (double)got[0], (double)got[vl],
                         re, im);
        }
        assert_true(isnan(out[0])); /* other bins are untouched */
        free(row);
        free(vector);
        free(out);
        free(panels);
    }
}

static void products(void **state)
{
    (void)state;
    everywhere(product_sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(magnitudes),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}
