#include "harness.h"

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t random_in(uint64_t *state, int64_t least, int64_t most)
{
    return least + (int64_t)(random_bits(state) % (uint64_t)(most - least + 1));
}

float random_normal(uint64_t *state)
{
    const double u = ((double)(random_bits(state) >> 11) + 1.0) * 0x1p-53,
                 v = (double)(random_bits(state) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

static void sizes_of(const convoy_problem *p, int64_t P, int64_t Q, int64_t size[3][4])
{
    const int64_t x[4] = {p->n, p->c, p->h, p->w}, w[4] = {p->k, p->c / p->groups, p->r, p->s},
                  y[4] = {p->n, p->k, P, Q};
    memcpy(size[0], x, sizeof x);
    memcpy(size[1], w, sizeof w);
    memcpy(size[2], y, sizeof y);
}

/* Fills packed strides where there are none; gives the buffer's floats and where element 0 lies in it. */
static void lay_out(const int64_t size[4], int strided, int64_t stride[4], int64_t *floats, int64_t *origin)
{
    int64_t step = 1, low = 0, high = 0, elements = size[0] * size[1] * size[2] * size[3];
    for (int d = 3; d >= 0 && !strided; d--) {
        stride[d] = step;
        step *= size[d];
    }
    for (int d = 0; d < 4; d++) {
        const int64_t reach = size[d] > 1 ? (size[d] - 1) * stride[d] : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    *floats = elements ? high - low + 1 : 0;
    *origin = elements ? -low : 0;
}

static float *floats_or_one(int64_t count)
{
    float *f = malloc(sizeof(float) * (size_t)(count > 0 ? count : 1));
    assert_non_null(f);
    for (int64_t i = 0; i < count; i++)
        f[i] = NAN;
    return f;
}

test_case case_make(const convoy_problem *problem)
{
    test_case c = {.p = *problem};
    int64_t size[3][4];
    if (convoy_problem_output(problem, &c.P, &c.Q) != CONVOY_OK)
        fail_msg("not a problem: %s", convoy_last_message());
    c.outputs = c.p.n * c.p.k * c.P * c.Q;
    sizes_of(&c.p, c.P, c.Q, size);
    lay_out(size[0], c.p.strided, c.p.x_stride, &c.floats[0], &c.origin[0]);
    lay_out(size[1], c.p.strided, c.p.w_stride, &c.floats[1], &c.origin[1]);
    lay_out(size[2], c.p.strided, c.p.y_stride, &c.floats[2], &c.origin[2]);
    c.x = floats_or_one(c.floats[0]);
    c.w = floats_or_one(c.floats[1]);
    c.y = floats_or_one(c.floats[2]);
    return c;
}

test_case case_of(const char *problem_string)
{
    convoy_problem p;
    if (convoy_problem_parse(problem_string, &p) != CONVOY_OK)
        fail_msg("%s", convoy_last_message());
    return case_make(&p);
}

void case_add_bias(test_case *c)
{
    c->bias = floats_or_one(c->p.k);
    for (int64_t k = 0; k < c->p.k; k++)
        c->bias[k] = (float)(k % 7) - 2.5f;
}

void case_free(test_case *c)
{
    free(c->x);
    free(c->w);
    free(c->y);
    free(c->bias);
    memset(c, 0, sizeof *c);
}

static float *at(float *buffer, int64_t origin, const int64_t size[4], const int64_t stride[4], int64_t a, int64_t b,
                 int64_t i, int64_t j)
{
    const int64_t index[4] = {a, b, i, j};
    int64_t offset = origin;
    for (int d = 0; d < 4; d++)
        offset += size[d] > 1 ? index[d] * stride[d] : 0;
    return buffer + offset;
}

float *x_at(const test_case *c, int64_t n, int64_t channel, int64_t i, int64_t j)
{
    int64_t size[3][4];
    sizes_of(&c->p, c->P, c->Q, size);
    return at(c->x, c->origin[0], size[0], c->p.x_stride, n, channel, i, j);
}

float *w_at(const test_case *c, int64_t k, int64_t channel, int64_t r, int64_t s)
{
    int64_t size[3][4];
    sizes_of(&c->p, c->P, c->Q, size);
    return at(c->w, c->origin[1], size[1], c->p.w_stride, k, channel, r, s);
}

float *y_at(const test_case *c, int64_t n, int64_t k, int64_t p, int64_t q)
{
    int64_t size[3][4];
    sizes_of(&c->p, c->P, c->Q, size);
    return at(c->y, c->origin[2], size[2], c->p.y_stride, n, k, p, q);
}

float *y_flat(const test_case *c, int64_t output)
{
    const int64_t q = output % c->Q, p = output / c->Q % c->P, k = output / c->Q / c->P % c->p.k;
    return y_at(c, output / c->Q / c->P / c->p.k, k, p, q);
}

/* Elements only: what lies between them in a strided buffer stays NaN, so that reading it shows. */
static void fill(test_case *c, uint64_t seed, float (*next_x)(uint64_t *), float (*next_w)(uint64_t *))
{
    uint64_t state = seed;
    const convoy_problem *p = &c->p;
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t channel = 0; channel < p->c; channel++)
            for (int64_t i = 0; i < p->h; i++)
                for (int64_t j = 0; j < p->w; j++)
                    *x_at(c, n, channel, i, j) = next_x(&state);
    for (int64_t k = 0; k < p->k; k++)
        for (int64_t channel = 0; channel < p->c / p->groups; channel++)
            for (int64_t r = 0; r < p->r; r++)
                for (int64_t s = 0; s < p->s; s++)
                    *w_at(c, k, channel, r, s) = next_w(&state);
}

void case_fill_normal(test_case *c, uint64_t seed) { fill(c, seed, random_normal, random_normal); }

static float sparse_integer(uint64_t *state)
{
    const int64_t v = random_in(state, -4095, 4095);
    return random_bits(state) % 4 == 0 ? (float)v : 0.0f;
}

static float sign(uint64_t *state) { return random_bits(state) & 1 ? 1.0f : -1.0f; }

void case_fill_integers(test_case *c, uint64_t seed)
{
    fill(c, seed, sparse_integer, sign);
    for (int64_t k = 0; c->bias && k < c->p.k; k++)
        c->bias[k] = (float)(k % 7) - 3.0f;
}
