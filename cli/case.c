#include "case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The SplitMix64 generator (Steele, Lea, Flood 2014) as a function of its counter. */
uint64_t cli_random(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed * 0xd1342543de82ef95u + (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Box and Muller: two draws from one counter, 24 bits for the radius and 32 for the angle. */
void cli_normal(float *out, int64_t count, uint64_t seed)
{
    for (int64_t i = 0; i < count; i += 2) {
        const uint64_t bits = cli_random(seed, (uint64_t)i);
        const float u = ((float)(bits >> 40) + 0.5f) * 0x1p-24f, v = (float)(uint32_t)bits * 0x1p-32f;
        const float radius = sqrtf(-2.0f * logf(u)), angle = 6.28318531f * v;
        out[i] = radius * cosf(angle);
        if (i + 1 < count)
            out[i + 1] = radius * sinf(angle);
    }
}

/* A tensor on the host with its data, and its place on the device. */
static int make_tensor(struct cli_case *c, const char *name, int64_t count, uint64_t seed, float **host, float **device)
{
    *host = cli_alloc(4.0 * (double)count, name);
    if (!*host)
        return CLI_BAD;
    if (seed)
        cli_normal(*host, count, seed);
    if (cli_device(c->context) == CONVOY_CPU) {
        *device = *host;
        return CLI_OK;
    }
    convoy_status status = convoy_memory_alloc(c->context, (size_t)count * sizeof(float), (void **)device);
    if (status == CONVOY_OK)
        status = convoy_memory_copy(c->context, *device, *host, (size_t)count * sizeof(float), CONVOY_TO_DEVICE);
    return status == CONVOY_OK ? CLI_OK : cli_failed(c->text, status);
}

int case_open(convoy_context *context, const convoy_problem *problem, const char *text, const struct cli_options *o,
              struct cli_case *c)
{
    *c = (struct cli_case){.context = context, .text = text, .problem = *problem, .prepared = o->plan.prepared != 0};
    const uint64_t seed = o->seed;
    const convoy_problem *p = problem;
    convoy_status status = convoy_problem_output(p, &c->P, &c->Q);
    if (status != CONVOY_OK)
        return cli_failed(text, status);
    c->xs = p->n * p->c * p->h * p->w;
    c->ws = p->k * (p->c / p->groups) * p->r * p->s;
    c->ys = p->n * p->k * c->P * c->Q;
    int code = make_tensor(c, "x", c->xs, 4 * seed + 1, &c->x_host, &c->x);
    if (code == CLI_OK)
        code = make_tensor(c, "w", c->ws, 4 * seed + 2, &c->w_host, &c->w);
    if (code == CLI_OK && o->plan.bias)
        code = make_tensor(c, "bias", p->k, 4 * seed + 3, &c->bias_host, &c->bias);
    if (code == CLI_OK)
        code = make_tensor(c, "y", c->ys, 0, &c->y_host, &c->y);
    if (code != CLI_OK)
        case_close(c);
    return code;
}

static void drop(struct cli_case *c, float *host, float *device)
{
    if (device != host)
        convoy_memory_free(c->context, device);
    free(host);
}

void case_close(struct cli_case *c)
{
    drop(c, c->x_host, c->x);
    drop(c, c->w_host, c->w);
    drop(c, c->bias_host, c->bias);
    drop(c, c->y_host, c->y);
    *c = (struct cli_case){0};
}

struct cli_place case_place(const struct cli_case *c, int64_t index)
{
    struct cli_place at;
    at.q = index % c->Q, index /= c->Q;
    at.p = index % c->P, index /= c->P;
    at.k = index % c->problem.k;
    at.n = index / c->problem.k;
    return at;
}

int64_t case_index(const struct cli_case *c, struct cli_place at)
{
    return ((at.n * c->problem.k + at.k) * c->P + at.p) * c->Q + at.q;
}

/* All ones in every bit is a NaN. */
static convoy_status poison(struct cli_case *c, void *memory, size_t bytes)
{
    if (cli_device(c->context) == CONVOY_CPU)
        return memset(memory, 0xff, bytes), CONVOY_OK;
    const size_t piece = bytes < (size_t)16 << 20 ? bytes : (size_t)16 << 20;
    void *ones = malloc(piece ? piece : 1);
    if (!ones)
        return CONVOY_OUT_OF_MEMORY;
    memset(ones, 0xff, piece);
    convoy_status status = CONVOY_OK;
    for (size_t at = 0; at < bytes && status == CONVOY_OK; at += piece)
        status = convoy_memory_copy(c->context, (char *)memory + at, ones, bytes - at < piece ? bytes - at : piece,
                                    CONVOY_TO_DEVICE);
    free(ones);
    return status;
}

static double total_s(const convoy_phase *phases, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += phases[i].seconds;
    return sum;
}

/* The phases of the quickest of three runs, after one that touches the memory. */
static convoy_status execute(const convoy_plan *plan, const convoy_args *args, convoy_phase *phases, int *phase_count)
{
    convoy_status status = convoy_execute(plan, args);
    *(phases ? phase_count : &(int){0}) = 0;
    for (int run = 0; phases && run < 3 && status == CONVOY_OK; run++) {
        convoy_phase now[CASE_PHASES];
        int count;
        status = convoy_execute_phases(plan, args, now, CASE_PHASES, &count);
        if (status != CONVOY_OK || (run > 0 && total_s(now, count) >= total_s(phases, *phase_count)))
            continue;
        memcpy(phases, now, sizeof now);
        *phase_count = count;
    }
    return status;
}

convoy_status case_execute(struct cli_case *c, const convoy_plan *plan, convoy_phase *phases, int *phase_count)
{
    convoy_weights *weights = NULL;
    void *workspace = NULL;
    convoy_args args = {.struct_bytes = sizeof args, .x = c->x, .w = c->w, .bias = c->bias, .y = c->y};
    args.workspace_bytes = convoy_plan_workspace_bytes(plan);
    convoy_status status = CONVOY_OK;
    if (c->prepared) {
        status = convoy_weights_create(plan, c->w, NULL, &weights);
        args.w = NULL;
        args.weights = weights;
    }
    if (status == CONVOY_OK && args.workspace_bytes)
        status = convoy_memory_alloc(c->context, args.workspace_bytes, &workspace);
    args.workspace = workspace;
    if (status == CONVOY_OK)
        status = poison(c, c->y, (size_t)c->ys * sizeof(float));
    if (status == CONVOY_OK && workspace)
        status = poison(c, workspace, args.workspace_bytes);
    if (status == CONVOY_OK)
        status = execute(plan, &args, phases, phase_count);
    if (status == CONVOY_OK)
        status = convoy_synchronize(c->context);
    if (status == CONVOY_OK && c->y_host != c->y)
        status = convoy_memory_copy(c->context, c->y_host, c->y, (size_t)c->ys * sizeof(float), CONVOY_TO_HOST);
    if (workspace)
        convoy_memory_free(c->context, workspace);
    convoy_weights_destroy(weights);
    return status;
}
