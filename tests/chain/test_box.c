/* Boxes and lists of outputs, as guards of other engines ask for them: right bits inside, nothing touched outside. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chain/chain.h"
#include "core/problem.h"

static uint64_t seed = 7;

static int64_t draw(int64_t least, int64_t most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)((seed >> 33) % (uint64_t)(most - least + 1));
}

static float draw_float(void)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-30f, -1e-30f};
    return draw(0, 9) == 0 ? odd[draw(0, 5)] : (float)draw(-1000000, 1000000) * 1e-6f;
}

/* A tensor's dimensions in a random order, with gaps, some of them backwards. Gives the floats it spans and element 0's
 * place. */
static void draw_strides(const int64_t size[4], int64_t stride[4], int64_t *floats, int64_t *origin)
{
    int order[4] = {3, 2, 1, 0};
    int64_t step = draw(1, 2);
    if (draw(0, 1))
        for (int i = 3; i > 0; i--) {
            const int j = (int)draw(0, i), keep = order[i];
            order[i] = order[j], order[j] = keep;
        }
    else
        step = 1; /* packed order: the fast kernels */
    *origin = 0;
    for (int i = 0; i < 4; i++) {
        const int d = order[i], back = draw(0, 7) == 0;
        stride[d] = back ? -step : step;
        *origin += back ? step * (size[d] - 1) : 0;
        step = step * size[d] + draw(0, 1);
    }
    *floats = step;
}

typedef struct tensors {
    convoy_problem p;
    int64_t P, Q, floats[3], origin[3];
    float *t[3], bias[128];
    cv_chain_io io;
} tensors;

static int draw_tensors(tensors *a)
{
    const int64_t g = draw(1, 4), cg = draw(1, 5), kg = draw(1, draw(0, 1) ? 2 : 13);
    convoy_problem *p = &a->p;
    *p = convoy_problem_make(draw(1, 2), g * cg, draw(1, 14), draw(1, 70), g * kg, draw(1, 6), draw(1, 6));
    p->groups = g;
    p->pad_t = draw(0, 4), p->pad_b = draw(0, 4), p->pad_l = draw(0, 8), p->pad_r = draw(0, 8);
    if (draw(0, 1)) {
        p->stride_h = draw(1, 3), p->stride_w = draw(1, 3);
        p->dil_h = draw(1, 3), p->dil_w = draw(1, 3);
    }
    if (convoy_problem_check(p) != CONVOY_OK)
        return 0;
    assert_int_equal(cv_problem_sizes(p, &a->P, &a->Q), CONVOY_OK);
    p->strided = 1;
    draw_strides((const int64_t[4]){p->n, p->c, p->h, p->w}, p->x_stride, &a->floats[0], &a->origin[0]);
    draw_strides((const int64_t[4]){p->k, cg, p->r, p->s}, p->w_stride, &a->floats[1], &a->origin[1]);
    draw_strides((const int64_t[4]){p->n, p->k, a->P, a->Q}, p->y_stride, &a->floats[2], &a->origin[2]);
    for (int i = 0; i < 3; i++) {
        a->t[i] = malloc(sizeof(float) * (size_t)a->floats[i]);
        assert_non_null(a->t[i]);
        for (int64_t j = 0; j < a->floats[i]; j++)
            a->t[i][j] = i < 2 ? draw_float() : 12345.0f;
    }
    for (int i = 0; i < 128; i++)
        a->bias[i] = draw_float();
    a->io = (cv_chain_io){a->t[0] + a->origin[0], a->t[1] + a->origin[1], draw(0, 1) ? a->bias : NULL,
                          a->t[2] + a->origin[2]};
    return 1;
}

static float *y_of(const tensors *a, int64_t n, int64_t k, int64_t i, int64_t j)
{
    const int64_t *s = a->p.y_stride;
    return a->io.y + n * s[0] + k * s[1] + i * s[2] + j * s[3];
}

static float chain(const tensors *a, int64_t n, int64_t k, int64_t row, int64_t col)
{
    const convoy_problem *p = &a->p;
    const int64_t cg = p->c / p->groups, c0 = k / (p->k / p->groups) * cg;
    float acc = 0;
    for (int64_t c = 0; c < cg; c++)
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++) {
                const int64_t i = row * p->stride_h + r * p->dil_h - p->pad_t,
                              j = col * p->stride_w + s * p->dil_w - p->pad_l;
                if (i < 0 || i >= p->h || j < 0 || j >= p->w)
                    continue;
                acc = fmaf(
                    a->io.x[n * p->x_stride[0] + (c0 + c) * p->x_stride[1] + i * p->x_stride[2] + j * p->x_stride[3]],
                    a->io.w[k * p->w_stride[0] + c * p->w_stride[1] + r * p->w_stride[2] + s * p->w_stride[3]], acc);
            }
    return a->io.bias ? acc + a->io.bias[k] : acc;
}

static int same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

/* Every output: the chain where chosen, the canary elsewhere; then the canary everywhere again. Gaps between elements
 * too. */
static void check_and_reset(tensors *a, const char *chosen, const char *what, cv_isa isa)
{
    for (int64_t o = 0; o < a->p.n * a->p.k * a->P * a->Q; o++) {
        const int64_t n = o / a->Q / a->P / a->p.k, k = o / a->Q / a->P % a->p.k, i = o / a->Q % a->P, j = o % a->Q;
        float *y = y_of(a, n, k, i, j);
        const float right = chosen[o] ? chain(a, n, k, i, j) : 12345.0f;
        if (!same(*y, right))
            fail_msg("%s, %s: output (%d,%d,%d,%d) is %a, expected %a", what, cv_isa_name(isa), (int)n, (int)k, (int)i,
                     (int)j, (double)*y, (double)right);
        *y = 12345.0f;
    }
    for (int64_t i = 0; i < a->floats[2]; i++)
        assert_true(a->t[2][i] == 12345.0f);
}

static void range(int64_t size, int64_t *from, int64_t *to)
{
    *from = draw(0, size);
    *to = draw(*from, size);
}

static void boxes_and_lists(void **state)
{
    (void)state;
    cv_cpu cpu;
    cv_cpu_detect(&cpu);
    for (int round = 0; round < 600; round++) {
        tensors a;
        if (!draw_tensors(&a))
            continue;
        const int64_t outputs = a.p.n * a.p.k * a.P * a.Q;
        char *chosen = malloc((size_t)outputs);
        int64_t *index = malloc(sizeof *index * (size_t)outputs), listed = 0;
        assert_true(chosen && index);
        for (int isa = CV_SCALAR; isa <= (int)cpu.isa; isa++) {
            cv_chain_box b = {0, a.p.n, 0, a.p.k, 0, a.P, 0, a.Q};
            if (draw(0, 3)) {
                range(a.p.n, &b.n0, &b.n1), range(a.p.k, &b.k0, &b.k1);
                range(a.P, &b.p0, &b.p1), range(a.Q, &b.q0, &b.q1);
            }
            for (int64_t o = 0; o < outputs; o++) {
                const int64_t n = o / a.Q / a.P / a.p.k, k = o / a.Q / a.P % a.p.k, i = o / a.Q % a.P, j = o % a.Q;
                chosen[o] =
                    n >= b.n0 && n < b.n1 && k >= b.k0 && k < b.k1 && i >= b.p0 && i < b.p1 && j >= b.q0 && j < b.q1;
            }
            cv_chain_box_run((cv_isa)isa, &a.p, &a.io, &b);
            check_and_reset(&a, chosen, "box", (cv_isa)isa);
            listed = 0;
            for (int64_t o = 0; o < outputs; o++)
                if ((chosen[o] = draw(0, 4) == 0))
                    index[listed++] = o;
            cv_chain_list_run((cv_isa)isa, &a.p, &a.io, listed, index);
            check_and_reset(&a, chosen, "list", (cv_isa)isa);
        }
        for (int i = 0; i < 3; i++)
            free(a.t[i]);
        free(chosen);
        free(index);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(boxes_and_lists)};
    return cmocka_run_group_tests_name("box", tests, NULL, NULL);
}
