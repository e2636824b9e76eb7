/* See kernels.h. Plain loops without branches that the compiler makes vectors of; the cells' sums, which pass over all
 * of x, hold a vector of columns in registers down the cell's rows. Traffic: x once for the cells and once for the
 * windows, y once. */
#include "kernels.h"
#include "match.h"
#include "simd/simd.h"

#include <math.h>

static void cells(const float *x, int64_t row_step, int64_t step, int64_t rows, int64_t columns, float *s2, float *s4,
                  float *top)
{
    for (int64_t j = 0; j < columns; j += VL) {
        const int some = columns - j < VL ? (int)(columns - j) : VL;
        vf second = vf_load(s2 + j), fourth = vf_load(s4 + j), most = vf_load(top + j);
        for (int64_t i = 0; i < rows; i++) {
            const float *at = x + i * row_step + j * step;
            const vf v = step != 1 ? vf_gather_n(at, step, some) : some == VL ? vf_load(at) : vf_load_n(at, some);
            const vf square = vf_mul(v, v);
            second = vf_add(second, square);
            fourth = vf_fma(square, square, fourth);
            most = vf_maxmag(most, v);
        }
        vf_store(s2 + j, second);
        vf_store(s4 + j, fourth);
        vf_store(top + j, most);
    }
}

static void powers(const float *x, int64_t step, int64_t columns, float scale, float *restrict first,
                   float *restrict fourth)
{
    for (int64_t j = 0; first && j < columns; j++)
        first[j] += x[j * step] * scale;
    if (step == 1)
        for (int64_t j = 0; j < columns; j++) {
            const float v = x[j] * scale;
            fourth[j] += v * v * (v * v);
        }
    else
        for (int64_t j = 0; j < columns; j++) {
            const float v = x[j * step] * scale;
            fourth[j] += v * v * (v * v);
        }
}

static void add(float *to, const float *a, const float *b, int64_t count)
{
    int64_t j = 0;
    for (; j + VL <= count; j += VL) /* in ascending order: b may be a little ahead of to in the same row */
        vf_store(to + j, vf_add(vf_load(a + j), vf_load(b + j)));
    for (; j < count; j++)
        to[j] = a[j] + b[j];
}

static void largest(float *to, const float *a, int64_t count)
{
    int64_t j = 0;
    for (; j + VL <= count; j += VL)
        vf_store(to + j, vf_maxmag(vf_load(to + j), vf_load(a + j)));
    for (; j < count; j++)
        to[j] = to[j] != to[j] || fabsf(a[j]) <= to[j] ? to[j] : fabsf(a[j]);
}

static void fold(float *restrict sums, float *restrict energy, const float *restrict y, int64_t step, int64_t count,
                 int first)
{
    for (int64_t j = 0; j < count; j++) {
        const float a = first ? 0.0f : sums[j], b = a + y[j * step];
        energy[j] = (first ? 0.0f : energy[j]) + (a * a + a * b + b * b) * (1.0f / 3.0f);
        sums[j] = b;
    }
}

/* An output is unsafe unless  bound + path_factor * energy <= room^2,  room = atol + rtol |sum| - 2u (|value| + |sum|)
 * with sum = value + bias; the square spares the root. NaN and Inf are never safe. */
static unsigned judge_block(const cv_match_row *row, const float *value, const float *sum, const float *path,
                            double bound)
{
    const double rounding = 0x1p-23, tiny = 1e-37; /* of the path's energy, which is kept in binary32 */
    const double rtol = row->rtol, atol = row->atol, factor = row->path_factor;
    float safe[CV_MATCH_COLUMNS];
    for (int j = 0; j < CV_MATCH_COLUMNS; j++) {
        const double v = fabs((double)value[j]), s = fabs((double)sum[j]);
        const double room = atol + rtol * s - rounding * (v + s);
        safe[j] = ((room >= 0) & (bound + factor * ((double)path[j] + tiny) <= room * room) & (s < 1e38)) ? 1.0f : 0.0f;
    }
    unsigned bits = 0;
    for (int j = 0; j < CV_MATCH_COLUMNS; j += VL)
        bits |= vf_outside(vf_load(safe + j), vf_set1(1.0f), vf_set1(1.0f)) << j;
    return bits;
}

/* A block; before and path NULL: there is one piece, whose sums have the bias. */
static inline __attribute__((always_inline)) unsigned judge_columns(const cv_match_row *row, float *restrict y,
                                                                    const float *restrict before,
                                                                    const float *restrict energy, double bound)
{
    float value[CV_MATCH_COLUMNS], path[CV_MATCH_COLUMNS];
    const float bias = row->add_bias ? row->bias : 0.0f;
    if (!before) {
        for (int j = 0; j < CV_MATCH_COLUMNS; j++) {
            value[j] = y[j] - bias;
            path[j] = value[j] * value[j] * (1.0f / 3.0f);
        }
    } else {
        for (int j = 0; j < CV_MATCH_COLUMNS; j++) {
            value[j] = before[j] + y[j];
            path[j] = energy[j] + (before[j] * before[j] + before[j] * value[j] + value[j] * value[j]) * (1.0f / 3.0f);
        }
        for (int j = 0; j < CV_MATCH_COLUMNS; j++)
            y[j] = row->add_bias ? value[j] + bias : value[j]; /* -0 + 0 would be +0 */
    }
    return judge_block(row, value, y, path, bound);
}

static int64_t judge(const cv_match_row *row, uint16_t *mask)
{
    int64_t count = 0;
    for (int64_t from = 0, b = 0; from < row->columns; from += CV_MATCH_COLUMNS, b++) {
        const int64_t left = row->columns - from;
        const float *before = row->before ? row->before + from : NULL, *path = row->path ? row->path + from : NULL;
        float *y = row->y + from * row->step;
        unsigned bits;
        if (left >= CV_MATCH_COLUMNS && row->step == 1) {
            bits = before ? judge_columns(row, y, before, path, row->bound[b])
                          : judge_columns(row, y, NULL, NULL, row->bound[b]);
        } else { /* through copies */
            float copy[3][CV_MATCH_COLUMNS] = {{0}};
            const int64_t some = left < CV_MATCH_COLUMNS ? left : CV_MATCH_COLUMNS;
            for (int64_t j = 0; j < some; j++) {
                copy[0][j] = y[j * row->step];
                copy[1][j] = before ? before[j] : 0.0f;
                copy[2][j] = before ? path[j] : 0.0f;
            }
            bits = before ? judge_columns(row, copy[0], copy[1], copy[2], row->bound[b])
                          : judge_columns(row, copy[0], NULL, NULL, row->bound[b]);
            for (int64_t j = 0; before && j < some; j++)
                y[j * row->step] = copy[0][j];
            bits &= (1u << some) - 1u;
        }
        mask[b] = (uint16_t)bits;
        count += __builtin_popcount(bits);
    }
    return count;
}

const cv_match_kernels CV_ISA_NAME(cv_match_kernels) = {cells, powers, add, largest, fold, judge};
