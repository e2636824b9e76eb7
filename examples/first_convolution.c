/* A first convolution: one image of 3 channels, 8 kernels of 11x11, packed NCHW. */
#include <convoy/convoy.h>

#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    static float x[3 * 64 * 64], w[8 * 3 * 11 * 11], y[8 * 54 * 54]; /* (N,C,H,W) (K,C,R,S) (N,K,P,Q) */
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i % 17) / 17.0f;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = (float)(i % 5) - 2.0f;

    convoy_problem problem = convoy_problem_make(1, 3, 64, 64, 8, 11, 11); /* n c h w k r s */
    convoy_context *context;
    convoy_plan *plan;
    if (convoy_context_create(NULL, &context) != CONVOY_OK ||
        convoy_plan_create(context, &problem, NULL, &plan) != CONVOY_OK)
        return fprintf(stderr, "%s\n", convoy_last_message()), 1;
    size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes);
    convoy_args args = {
        .struct_bytes = sizeof args, .x = x, .w = w, .y = y, .workspace = workspace, .workspace_bytes = bytes};
    if (convoy_execute(plan, &args) != CONVOY_OK)
        return fprintf(stderr, "%s\n", convoy_last_message()), 1;

    printf("y[0,0,0,0] = %g, y[0,7,53,53] = %g\n", y[0], y[8 * 54 * 54 - 1]);
    free(workspace);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    return 0;
}
