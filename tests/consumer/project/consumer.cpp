// C++11, through the installed header.
#include <convoy/convoy.h>

#include <cstdio>
#include <memory>
#include <vector>

int main()
{
    convoy_problem problem;
    if (convoy_problem_parse("n1c2h12k3r5", &problem) != CONVOY_OK)
        return 1;
    int64_t p, q;
    convoy_problem_output(&problem, &p, &q);
    convoy_context *context = nullptr;
    convoy_plan *plan = nullptr;
    if (convoy_context_create(nullptr, &context) != CONVOY_OK ||
        convoy_plan_create(context, &problem, nullptr, &plan) != CONVOY_OK)
        return 1;
    std::vector<float> x(2 * 12 * 12, 1.0f), w(3 * 2 * 5 * 5, 1.0f), y(static_cast<size_t>(3 * p * q));
    std::vector<char> workspace(convoy_plan_workspace_bytes(plan) + 1);
    convoy_args args = convoy_args();
    args.struct_bytes = sizeof args;
    args.x = x.data();
    args.w = w.data();
    args.y = y.data();
    args.workspace = workspace.data();
    args.workspace_bytes = workspace.size();
    const convoy_status status = convoy_execute(plan, &args);
    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    std::printf("%s: y[0] is %g\n", convoy_status_text(status), static_cast<double>(y[0]));
    return !(status == CONVOY_OK && y[0] > 49.99f && y[0] < 50.01f);
}
