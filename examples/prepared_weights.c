/* Inference: w is transformed once, then many inputs are convolved with it, a batch of four and single images alike. */
#include <convoy/convoy.h>

#include <stdio.h>
#include <stdlib.h>

enum { C = 16, H = 48, K = 8, R = 9, P = H - R + 1, FOUR = 4 };

static int failed(void)
{
    fprintf(stderr, "%s\n", convoy_last_message());
    return 1;
}

/* Runs a plan on images of x; the workspace could as well be kept between calls. */
static convoy_status run(const convoy_plan *plan, const convoy_weights *weights, const float *x, float *y)
{
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    convoy_args args = {.struct_bytes = sizeof args, .x = x, .weights = weights, .y = y};
    args.workspace = workspace;
    args.workspace_bytes = workspace ? bytes : 0;
    convoy_status status = convoy_execute(plan, &args);
    free(workspace);
    return status;
}

int main(void)
{
    static float x[FOUR * C * H * H], w[K * C * R * R], y[FOUR * K * P * P], y0[K * P * P];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i * 7 % 31) / 31.0f;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = (float)(i % 9) - 4.0f;

    convoy_context *context;
    convoy_plan *batch, *single;
    convoy_weights *weights;
    convoy_problem problem = convoy_problem_make(FOUR, C, H, H, K, R, R);
    if (convoy_context_create(NULL, &context) != CONVOY_OK)
        return failed();
    convoy_plan_options options = {.prepared = 1};
    if (convoy_plan_create(context, &problem, &options, &batch) != CONVOY_OK ||
        convoy_weights_create(batch, w, NULL, &weights) != CONVOY_OK)
        return failed();

    /* A plan for one image that uses the same weights: the library picks the engine and tile that made them. */
    problem.n = 1;
    options = (convoy_plan_options){.weights = weights};
    if (convoy_plan_create(context, &problem, &options, &single) != CONVOY_OK)
        return failed();
    if (run(batch, weights, x, y) != CONVOY_OK || run(single, weights, x, y0) != CONVOY_OK)
        return failed();

    size_t differ = 0;
    for (size_t i = 0; i < sizeof y0 / sizeof *y0; i++)
        differ += y0[i] != y[i];
    printf("%zu bytes of weights; the first image of the batch and the image alone differ in %zu of %zu outputs\n",
           convoy_weights_bytes(weights), differ, sizeof y0 / sizeof *y0);
    convoy_weights_destroy(weights);
    convoy_plan_destroy(batch);
    convoy_plan_destroy(single);
    convoy_context_destroy(context);
    return differ != 0;
}
