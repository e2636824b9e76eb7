#include "harness.h"

#include <float.h>

/* The oracle is the library's own FP64 sum, which test_oracle holds against a loop nest written here. */
void truth_of(const test_case *c, double *values, double *norms)
{
    convoy_context *cpu;
    assert_int_equal(convoy_context_create(NULL, &cpu), CONVOY_OK);
    int64_t *index = malloc(sizeof *index * (size_t)(c->outputs + 1));
    assert_non_null(index);
    for (int64_t i = 0; i < c->outputs; i++)
        index[i] = i;
    if (convoy_reference(cpu, &c->p, c->x + c->origin[0], c->w + c->origin[1], c->bias, c->outputs, index, values,
                         norms) != CONVOY_OK)
        fail_msg("convoy_reference: %s", convoy_last_message());
    free(index);
    convoy_context_destroy(cpu);
}

static float chain_one(const test_case *c, int64_t n, int64_t k, int64_t prow, int64_t qcol)
{
    const convoy_problem *p = &c->p;
    const int64_t cg = p->c / p->groups, group = k / (p->k / p->groups);
    float acc = 0.0f;
    for (int64_t channel = 0; channel < cg; channel++)
        for (int64_t r = 0; r < p->r; r++) {
            const int64_t i = prow * p->stride_h + r * p->dil_h - p->pad_t;
            if (i < 0 || i >= p->h)
                continue;
            const float *x = x_at(c, n, group * cg + channel, i, 0), *w = w_at(c, k, channel, r, 0);
            for (int64_t s = 0; s < p->s; s++) {
                const int64_t j = qcol * p->stride_w + s * p->dil_w - p->pad_l;
                if (j >= 0 && j < p->w)
                    acc = fmaf(x[p->w > 1 ? j * p->x_stride[3] : 0], w[p->s > 1 ? s * p->w_stride[3] : 0], acc);
            }
        }
    return c->bias ? acc + c->bias[k] : acc;
}

void chain_of(const test_case *c, float *values)
{
    for (int64_t o = 0; o < c->outputs; o++)
        values[o] = chain_one(c, o / c->Q / c->P / c->p.k, o / c->Q / c->P % c->p.k, o / c->Q % c->P, o % c->Q);
}

/* Outputs that are finite rest on finite values alone. */
static double square(float a) { return isfinite(a) ? (double)a * (double)a : 0; }

double norm_bound_of(const test_case *c, int64_t output)
{
    const convoy_problem *p = &c->p;
    const int64_t k = output / c->Q / c->P % p->k, n = output / c->Q / c->P / p->k, cg = p->c / p->groups;
    double total = c->bias ? fabs((double)c->bias[k]) : 0;
    for (int64_t channel = 0; channel < cg; channel++) {
        double x2 = 0, w2 = 0;
        for (int64_t i = 0; i < p->h; i++)
            for (int64_t j = 0; j < p->w; j++)
                x2 += square(*x_at(c, n, k / (p->k / p->groups) * cg + channel, i, j));
        for (int64_t r = 0; r < p->r; r++)
            for (int64_t s = 0; s < p->s; s++)
                w2 += square(*w_at(c, k, channel, r, s));
        total += sqrt(x2) * sqrt(w2);
    }
    return total;
}

int same_float(float a, float b)
{
    uint32_t ia, ib;
    memcpy(&ia, &a, sizeof ia);
    memcpy(&ib, &b, sizeof ib);
    return ia == ib || (isnan(a) && isnan(b));
}

void show_case(const test_case *c, char text[160])
{
    char problem[128];
    convoy_problem_print(&c->p, problem, sizeof problem);
    snprintf(text, 160, "%s%s%s", problem, c->p.strided ? " (strided)" : "", c->bias ? " with bias" : "");
}

static void check_exact(const test_case *c, const char *engine, const char *text)
{
    float *chain = malloc(sizeof *chain * (size_t)(c->outputs + 1));
    assert_non_null(chain);
    chain_of(c, chain);
    for (int64_t o = 0; o < c->outputs; o++)
        if (!same_float(*y_flat(c, o), chain[o]))
            fail_msg("%s on %s: output %lld is %.9g, the chain %.9g", engine, text, (long long)o, (double)*y_flat(c, o),
                     (double)chain[o]);
    free(chain);
}

/* A bound written for one tile holds for the whole channel's norm, which is no smaller. */
static void check_bound(const test_case *c, const char *engine, const convoy_plan_info *info, const char *text)
{
    const double u = 0x1p-24;
    double *values = malloc(sizeof *values * (size_t)(c->outputs + 1)),
           *norms = malloc(sizeof *norms * (size_t)(c->outputs + 1));
    double worst = 0, bound = 0, channel = 0;
    int64_t place = -1;
    assert_true(values && norms);
    truth_of(c, values, norms);
    for (int64_t o = 0; o < c->outputs; o++) {
        if (info->error_bound_kind == 1 && o % (c->P * c->Q) == 0)
            channel = norm_bound_of(c, o);
        const double y = (double)*y_flat(c, o), scale = info->error_bound_kind == 1 ? channel : norms[o];
        const double owed = info->error_bound_factor * u * scale + u * fabs(values[o]) + (double)FLT_TRUE_MIN;
        if (isnan(values[o]) ? !isnan(y) : isinf(values[o]) ? y != values[o] : !(fabs(y - values[o]) <= owed)) {
            worst = y, bound = owed, place = o;
            break;
        }
    }
    if (place >= 0)
        fail_msg("%s:%s on %s: output %lld is %.9g, the truth %.9g, the error may be %.3g", engine, info->candidate,
                 text, (long long)place, worst, values[place], bound);
    free(values);
    free(norms);
}

void check_contract(test_case *c, const convoy_engine_info *engine, const convoy_plan_info *info, void *user)
{
    char text[160];
    (void)user;
    show_case(c, text);
    if (info->math == CONVOY_MATH_EXACT)
        check_exact(c, engine->name, text);
    else {
        assert_true(info->error_bound_factor > 0);
        check_bound(c, engine->name, info, text);
    }
}
