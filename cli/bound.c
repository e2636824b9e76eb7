/* Error bounds, u = 2^-24:
 *
 *   direct engines       factor * u * sum |x||w| of the output
 *   match                atol + rtol * sum |x||w| and a serial chain's own error, terms * u * sum |x||w|: a coarse net,
 * as the contract itself is checked against the exact chain transform engines    factor * u * sum over c of ||x
 * tile||_2 * ||w||_2, factor = 4 * log2(points of a tile)
 *
 * The tile of an output follows from the sides that the plan tells: overlap-save tiles begin at multiples of
 * O = T - R + 1 outputs. */
#include "bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One axis. Where strides or dilations split the image into phases, or the plan names no side, the whole axis is the
 * tile. */
static void cut(int64_t side, int64_t kernel, int64_t phases, int64_t outputs, int64_t image, int64_t *tile,
                int64_t *step, int64_t *count)
{
    const bool tiled = phases == 1 && side >= kernel;
    *tile = tiled ? side : image;
    *step = tiled ? side - kernel + 1 : outputs;
    *count = (outputs + *step - 1) / *step;
}

/* ||x||_2 over the part of a tile that lies in the image. */
static double tile_norm(const struct cli_case *c, const struct cli_bound *b, const float *image, int64_t row,
                        int64_t column)
{
    const convoy_problem *p = &c->problem;
    const int64_t top = row * b->step_h - p->pad_t, left = column * b->step_w - p->pad_l;
    double sum = 0;
    for (int64_t i = top < 0 ? 0 : top; i < top + b->tile_h && i < p->h; i++)
        for (int64_t j = left < 0 ? 0 : left; j < left + b->tile_w && j < p->w; j++)
            sum += (double)image[i * p->w + j] * (double)image[i * p->w + j];
    return sqrt(sum);
}

static void fill(const struct cli_case *c, struct cli_bound *b, double *x_norm, double *w_norm)
{
    const convoy_problem *p = &c->problem;
    const int64_t cg = p->c / p->groups, kg = p->k / p->groups, area = p->r * p->s;
    for (int64_t i = 0; i < p->k * cg; i++) {
        double sum = 0;
        for (int64_t j = 0; j < area; j++)
            sum += (double)c->w_host[i * area + j] * (double)c->w_host[i * area + j];
        w_norm[i] = sqrt(sum);
    }
    double *out = b->norms;
    for (int64_t n = 0; n < p->n; n++)
        for (int64_t tile = 0; tile < b->down * b->across; tile++) {
            for (int64_t i = 0; i < p->c; i++)
                x_norm[i] =
                    tile_norm(c, b, c->x_host + (n * p->c + i) * p->h * p->w, tile / b->across, tile % b->across);
            for (int64_t k = 0; k < p->k; k++, out++) {
                *out = 0;
                for (int64_t i = 0; i < cg; i++)
                    *out += x_norm[k / kg * cg + i] * w_norm[k * cg + i];
            }
        }
}

int bound_make(const struct cli_case *c, const convoy_plan_info *info, const convoy_plan_options *options,
               struct cli_bound *b)
{
    const convoy_problem *p = &c->problem;
    *b = (struct cli_bound){.kind = info->error_bound_kind, .factor = info->error_bound_factor};
    if (info->math == CONVOY_MATH_MATCH) {
        b->kind = 0;
        b->factor = (double)(p->c / p->groups) * (double)p->r * (double)p->s + 1;
        b->rtol = options->rtol;
        b->atol = options->atol;
    }
    if (b->kind == 0 || c->ys == 0)
        return CLI_OK;
    cut(info->tile_h, p->r, p->stride_h * p->dil_h, (c->P - 1) * p->stride_h + 1, p->h + p->pad_t, &b->tile_h,
        &b->step_h, &b->down);
    cut(info->tile_w, p->s, p->stride_w * p->dil_w, (c->Q - 1) * p->stride_w + 1, p->w + p->pad_l, &b->tile_w,
        &b->step_w, &b->across);
    b->norms = cli_alloc(8.0 * (double)p->n * (double)b->down * (double)b->across * (double)p->k, "tiles' norms");
    double *x_norm = cli_alloc(8.0 * (double)p->c, "norms"), *w_norm = cli_alloc(8.0 * (double)c->ws, "norms");
    if (b->norms && x_norm && w_norm)
        fill(c, b, x_norm, w_norm);
    free(x_norm);
    free(w_norm);
    return b->norms && x_norm && w_norm ? CLI_OK : (bound_free(b), CLI_BAD);
}

void bound_free(struct cli_bound *b)
{
    free(b->norms);
    b->norms = NULL;
}

double bound_at(const struct cli_bound *b, const struct cli_case *c, int64_t i, double sum_of_magnitudes)
{
    const double u = 0x1p-24;
    if (!b->norms)
        return (b->factor * u + b->rtol) * sum_of_magnitudes + b->atol;
    const struct cli_place at = case_place(c, i);
    const int64_t tile = at.p * c->problem.stride_h / b->step_h * b->across + at.q * c->problem.stride_w / b->step_w;
    const double magnitude = c->bias_host ? fabs((double)c->bias_host[at.k]) : 0;
    return b->factor * u * (b->norms[(at.n * b->down * b->across + tile) * c->problem.k + at.k] + magnitude);
}
