/* C99, through the installed header. */
#include <convoy/convoy.h>

#include <stdio.h>

int main(void)
{
    convoy_problem problem = convoy_problem_make(1, 1, 3, 3, 1, 2, 2);
    const float x[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8}, w[4] = {1, 0, 0, 1};
    float y[4];
    convoy_context *context = NULL;
    convoy_plan *plan = NULL;
    convoy_args args = {0};
    args.struct_bytes = sizeof args;
    args.x = x;
    args.w = w;
    args.y = y;
    convoy_plan_options options = {0};
    options.workspace_limited = 1; /* none */
    if (convoy_context_create(NULL, &context) != CONVOY_OK ||
        convoy_plan_create(context, &problem, &options, &plan) != CONVOY_OK ||
        convoy_execute(plan, &args) != CONVOY_OK) {
        fprintf(stderr, "%s\n", convoy_last_message());
        return 1;
    }
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    printf("convoy %s: %g %g %g %g\n", convoy_version(), y[0], y[1], y[2], y[3]);
    return !(y[0] == 4 && y[1] == 6 && y[2] == 10 && y[3] == 12);
}
