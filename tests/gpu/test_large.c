/* Tensors of more than 2^31 elements on a GPU: every candidate of the exact engine, and the first of each other engine,
 * on problems whose pixels do not fit one launch of 32-bit numbers. x repeats a block of a million draws, whose length
 * divides nothing, so that an offset that wraps around reads something else. Rows of y at both ends, around element
 * 2^31 and around the places where launches meet are compared with the chain. */
#include "conv/harness.h"

#include <cuda_runtime_api.h>

enum { BLOCK = 1000003, MOST_ROWS = 64 };

static float block[BLOCK];

static void cuda(cudaError_t error)
{
    if (error != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(error));
}

typedef struct big {
    convoy_problem p;
    int64_t P, Q, inputs, outputs;
    float *x, *w, *y; /* on the device */
    float weights[64], *row;
    int64_t rows[MOST_ROWS]; /* to look at, of n*K*P */
    int count;
} big;

/* The block over and over, by doubling what is there. */
static void fill(float *x, int64_t floats)
{
    int64_t there = floats < BLOCK ? floats : BLOCK;
    cuda(cudaMemcpy(x, block, sizeof(float) * (size_t)there, cudaMemcpyHostToDevice));
    while (there < floats) {
        const int64_t more = floats - there < there ? floats - there : there;
        cuda(cudaMemcpy(x + there, x, sizeof(float) * (size_t)more, cudaMemcpyDeviceToDevice));
        there += more;
    }
}

static void look_at(big *b, int64_t row)
{
    for (int64_t near = row - 1; near <= row + 1; near++)
        if (near >= 0 && near < b->outputs / b->Q && b->count < MOST_ROWS)
            b->rows[b->count++] = near;
}

/* 0 when the GPU has no room for it. */
static int open_big(big *b, const char *text)
{
    size_t room = 0, all = 0;
    uint64_t seed = 11;
    memset(b, 0, sizeof *b);
    assert_int_equal(convoy_problem_parse(text, &b->p), CONVOY_OK);
    assert_int_equal(convoy_problem_output(&b->p, &b->P, &b->Q), CONVOY_OK);
    b->inputs = b->p.n * b->p.c * b->p.h * b->p.w;
    b->outputs = b->p.n * b->p.k * b->P * b->Q;
    cuda(cudaMemGetInfo(&room, &all));
    if ((double)room < 4.0 * (double)(b->inputs + b->outputs) + 1e9) {
        print_message("%s: %.1f GB of GPU memory are free, it needs %.1f\n", text, (double)room * 1e-9,
                      4e-9 * (double)(b->inputs + b->outputs) + 1);
        return 0;
    }
    void *memory[3];
    const int64_t taps = b->p.k * b->p.c / b->p.groups * b->p.r * b->p.s, floats[3] = {b->inputs, taps, b->outputs};
    assert_true(taps <= 64);
    for (int i = 0; i < 3; i++)
        cuda(cudaMalloc(&memory[i], sizeof(float) * (size_t)floats[i]));
    b->x = memory[0], b->w = memory[1], b->y = memory[2];
    for (int i = 0; i < taps; i++)
        b->weights[i] = random_normal(&seed);
    cuda(cudaMemcpy(b->w, b->weights, sizeof(float) * (size_t)taps, cudaMemcpyHostToDevice));
    fill(b->x, b->inputs);
    b->row = malloc(sizeof(float) * (size_t)b->Q);
    assert_non_null(b->row);
    const int64_t far = (int64_t)1 << 31, rows = b->outputs / b->Q;
    const int64_t places[] = {0, rows - 1, far / b->p.w - b->p.r, far / b->Q, (far - 4096) / b->Q, rows / 2, b->P};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        look_at(b, places[i]);
    return 1;
}

static void close_big(big *b)
{
    cuda(cudaFree(b->x)), cuda(cudaFree(b->w)), cuda(cudaFree(b->y));
    free(b->row);
}

/* The chain of one output of one channel, and the sum of its products' magnitudes. */
static float chain(const big *b, int64_t n, int64_t p, int64_t q, double *norm)
{
    float sum = 0;
    *norm = 0;
    for (int64_t r = 0; r < b->p.r; r++)
        for (int64_t s = 0; s < b->p.s; s++) {
            const int64_t i = p * b->p.stride_h + r - b->p.pad_t, j = q * b->p.stride_w + s - b->p.pad_l;
            if (i < 0 || j < 0 || i >= b->p.h || j >= b->p.w)
                continue;
            const float x = block[((n * b->p.h + i) * b->p.w + j) % BLOCK], w = b->weights[r * b->p.s + s];
            sum = fmaf(x, w, sum);
            *norm += fabs((double)x * w);
        }
    return sum;
}

static void check_rows(const big *b, const char *name, int exact)
{
    for (int i = 0; i < b->count; i++) {
        const int64_t row = b->rows[i], n = row / b->P, p = row % b->P;
        cuda(cudaMemcpy(b->row, b->y + row * b->Q, sizeof(float) * (size_t)b->Q, cudaMemcpyDeviceToHost));
        for (int64_t q = 0; q < b->Q; q++) {
            double norm;
            const float right = chain(b, n, p, q, &norm);
            if (exact ? !same_float(b->row[q], right) : !(fabs((double)b->row[q] - right) <= 1e-5 * norm + 1e-5))
                fail_msg("%s: y[%lld,0,%lld,%lld] is %.9g, expected %.9g", name, (long long)n, (long long)p,
                         (long long)q, (double)b->row[q], (double)right);
        }
    }
}

struct walk {
    convoy_context *context;
    big *b;
    char engine[32]; /* of the candidate before */
    int ran;
};

static void run_candidate(void *user, const convoy_candidate *c)
{
    struct walk *k = user;
    const int exact = strcmp(c->engine, "cuda_igemm") == 0, again = strcmp(c->engine, k->engine) == 0;
    char name[160];
    convoy_plan *plan;
    void *workspace = NULL;
    size_t room = 0, all = 0;
    cuda(cudaMemGetInfo(&room, &all));
    if ((again && !exact) || c->predicted_s > 2 || c->workspace_bytes > room)
        return;
    snprintf(k->engine, sizeof k->engine, "%s", c->engine);
    snprintf(name, sizeof name, "%s:%s", c->engine, c->candidate);
    if (convoy_plan_create(k->context, &k->b->p, &(convoy_plan_options){.engine = name}, &plan) != CONVOY_OK)
        fail_msg("%s: %s", name, convoy_last_message());
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    if (bytes)
        cuda(cudaMalloc(&workspace, bytes));
    cuda(cudaMemset(k->b->y, 0xff, sizeof(float) * (size_t)k->b->outputs));
    const convoy_args args = {.struct_bytes = sizeof args,
                              .x = k->b->x,
                              .w = k->b->w,
                              .y = k->b->y,
                              .workspace = workspace,
                              .workspace_bytes = bytes};
    if (convoy_execute(plan, &args) != CONVOY_OK)
        fail_msg("%s: %s", name, convoy_last_message());
    cuda(cudaDeviceSynchronize());
    check_rows(k->b, name, exact);
    cuda(cudaFree(workspace));
    convoy_plan_destroy(plan);
    print_message("%s ran\n", name);
    k->ran++;
}

static void walk(const char *text)
{
    if (!on_gpu())
        skip();
    convoy_context *context = context_make(0, NULL);
    big b;
    const int fits = open_big(&b, text);
    if (fits) {
        struct walk k = {.context = context, .b = &b};
        if (convoy_candidates(context, &b.p, &(convoy_plan_options){0}, run_candidate, &k) != CONVOY_OK)
            fail_msg("%s", convoy_last_message());
        assert_true(k.ran > 0);
        close_big(&b);
    }
    convoy_context_destroy(context);
    if (!fits)
        skip();
}

/* One image: a launch takes some of its rows. */
static void rows_of_an_image(void **state)
{
    (void)state;
    walk("n1c1h46400k1r3_pad1");
}

/* Three images, two a launch; without padding, and wider than high. */
static void images(void **state)
{
    (void)state;
    walk("n3c1h20000w36000k1r2s5");
}

int main(void)
{
    uint64_t seed = 3;
    for (int i = 0; i < BLOCK; i++)
        block[i] = random_normal(&seed);
    const struct CMUnitTest large[] = {cmocka_unit_test(rows_of_an_image), cmocka_unit_test(images)};
    return RUN_TESTS(large);
}
