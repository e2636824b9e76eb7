/* What the library's planner would choose for the public leaderboard's problems on GPUs that are not here: a line a
 * candidate, "gpu math problem candidate seconds". python/convoy/leaderboard/plans.py keeps the choices
 * (tests/python/update_plans.py writes them), and python/tests/test_leaderboard.py holds them to this. */
#include "core/engine.h"
#include "core/services.h"

/* the match contract's planner with its insides: how many runs a candidate gets */
#define cv_match_gpu_table leaderboard_match_table
#include "match/gpu_plan.c"

extern const cv_engine cv_engine_cuda_igemm, cv_engine_cuda_fft;

/* Rates as src/gpu/device_cuda.c derives them: from clocks, lanes and the memory's pins. */
static const struct card {
    const char *name;
    int major, minor, multiprocessors;
    double ghz, lanes, gb_per_s;
    size_t l2_mib, memory_gib, shared_bytes;
} cards[] = {
    {"H100", 9, 0, 132, 1.98, 128, 3352, 50, 80, 232448},
    {"B200", 10, 0, 148, 1.965, 128, 8000, 126, 180, 232448},
    {"A100", 8, 0, 108, 1.41, 64, 2039, 40, 80, 166912},
    {"L4", 8, 9, 58, 2.04, 128, 300, 48, 22, 101376},
};

static const char *const problems[] = {"n1c16h32k16r4",   "n2c16h32k16r4",     "n1c32h64k32r4",
                                       "n2c32h64k32r8",   "n1c64h128k64r8",    "n4c64h128k64r8",
                                       "n4c64h128k64r16", "n2c128h256k128r16", "n1c128h256k128r32"};

static void list_of(const cv_engine *e, const struct card *card, const cv_machine *machine, const char *problem,
                    convoy_math math, const char *word)
{
    cv_request q = {.math = math, .machine = machine, .workspace_limit = machine->gpu_memory_bytes / 8};
    cv_candidate list[CV_CANDIDATES];
    char text[CV_CANDIDATE_TEXT];
    if (math == CONVOY_MATH_MATCH)
        q.rtol = q.atol = 1e-3;
    if (convoy_problem_parse(problem, &q.p) || convoy_problem_output(&q.p, &q.P, &q.Q))
        return;
    const convoy_problem *p = &q.p;
    const int64_t xs[4] = {p->c * p->h * p->w, p->h * p->w, p->w, 1},
                  ws[4] = {p->c * p->r * p->s, p->r * p->s, p->s, 1}, ys[4] = {p->k * q.P * q.Q, q.P * q.Q, q.Q, 1};
    memcpy(q.p.x_stride, xs, sizeof xs);
    memcpy(q.p.w_stride, ws, sizeof ws);
    memcpy(q.p.y_stride, ys, sizeof ys);
    q.cg = p->c, q.kg = p->k;
    const int composed = math == CONVOY_MATH_MATCH;
    const int count = composed ? candidates(&q, e, list, CV_CANDIDATES) : e->candidates(&q, list, CV_CANDIDATES);
    for (int i = 0; i < count; i++) {
        size_t bytes = 0;
        double seconds = 0;
        cv_match_gpu_state state;
        cv_candidate_print(e, &list[i], text);
        if (composed)
            snprintf(text + strlen(text), sizeof text - strlen(text), "runs%d",
                     choose_runs(&state, &q, e, &list[i], &seconds, &bytes));
        else
            seconds = e->estimate(&q, &list[i], &bytes);
        printf("%s %s %s %s %.6g\n", card->name, word, problem, text, seconds);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        const struct card *c = &cards[i];
        const cv_machine machine = {.device = CONVOY_CUDA,
                                    .memory = cv_default_allocator,
                                    .threads = 1,
                                    .flop_per_s = 2e9 * c->ghz * c->lanes * c->multiprocessors,
                                    .bytes_per_s = 0.875e9 * c->gb_per_s,
                                    .sm_major = c->major,
                                    .sm_minor = c->minor,
                                    .sm_count = c->multiprocessors,
                                    .gpu_l2_bytes = c->l2_mib << 20,
                                    .gpu_memory_bytes = c->memory_gib << 30,
                                    .gpu_shared_bytes = c->shared_bytes,
                                    .driver_version = 13000,
                                    .runtime_version = 13000};
        for (size_t j = 0; j < sizeof problems / sizeof *problems; j++) {
            list_of(&cv_engine_cuda_igemm, c, &machine, problems[j], CONVOY_MATH_EXACT, "exact");
            list_of(&cv_engine_cuda_fft, c, &machine, problems[j], CONVOY_MATH_FP32, "fp32");
            list_of(&cv_engine_cuda_fft, c, &machine, problems[j], CONVOY_MATH_MATCH, "match");
        }
    }
    return 0;
}
