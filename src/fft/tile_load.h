/* Rows of VL planes, an element of each in a vector: how tile.c reads x and w.
 *
 * Where all lanes have the columns asked for, VL vectors of adjacent elements are loaded and transposed; at borders and
 * with a column step lanes are filled one by one, with zeros outside their planes. The largest magnitude, and on demand
 * the smallest, is kept on the way: it costs an operation an element here and another pass elsewhere. */
#ifndef CV_FFT_TILE_LOAD_H
#define CV_FFT_TILE_LOAD_H

#include "passes.h"
#include "tile.h"

/* Loads from lane source s, row y, the VL columns from x on; both count from the cut. */
static vf load_lane(const cv_fft_load *load, const cv_fft_source *s, int y, int x)
{
    y += load->cut_y;
    x += load->cut_x;
    if (y < s->y0 || y >= s->y1 || x >= s->x1 || x + VL <= s->x0)
        return vf_zero();
    const float *at = s->plane + (s->offset + y * load->step_y + x * load->step_x);
    if (load->step_x == 1) {
        if (x >= s->x0 && x + VL <= s->x1)
            return vf_load(at);
        return vf_load_between(at, x < s->x0 ? s->x0 - x : 0, x + VL > s->x1 ? s->x1 - x : VL);
    }
    float lane[VL] = {0};
    for (int i = 0; i < VL; i++)
        if (x + i >= s->x0 && x + i < s->x1)
            lane[i] = at[i * load->step_x];
    return vf_load(lane);
}

/* A load under way: magnitudes so far, and the rectangle (from the cut) that all lanes fill with adjacent elements. */
typedef struct loading {
    const cv_fft_load *load;
    const float *at[VL]; /* element (0, 0) of every lane */
    int y0, y1, x0, x1;
    vf scale, max, min;
} loading;

static loading loading_begin(const cv_fft_load *load)
{
    loading g = {.load = load, .y0 = 0, .y1 = load->rows, .x0 = 0, .x1 = load->columns};
    g.scale = load->scale ? vf_load_n(load->scale, load->lanes) : vf_set1(1.0f);
    g.max = vf_zero();
    g.min = vf_set1(1.0f / 0.0f);
    if (load->lanes < VL || load->step_x != 1)
        g.y1 = 0;
    for (int l = 0; l < load->lanes; l++) {
        const cv_fft_source *s = &load->lane[l];
        g.at[l] = s->plane + (s->offset + load->cut_y * load->step_y + load->cut_x * load->step_x);
        g.y0 = s->y0 - load->cut_y > g.y0 ? s->y0 - load->cut_y : g.y0;
        g.y1 = s->y1 - load->cut_y < g.y1 ? s->y1 - load->cut_y : g.y1;
        g.x0 = s->x0 - load->cut_x > g.x0 ? s->x0 - load->cut_x : g.x0;
        g.x1 = s->x1 - load->cut_x < g.x1 ? s->x1 - load->cut_x : g.x1;
    }
    return g;
}

/* Row y of every lane to line[x], real parts only: VL floats every 2*VL. */
static void load_row(loading *g, int y, float *line)
{
    const cv_fft_load *load = g->load;
    const int inside = y >= g->y0 && y < g->y1;
    vf max = g->max, min = g->min;
    for (int block = 0; block < load->columns; block += VL) {
        int x = block;
        if (x + VL > load->columns && load->columns >= VL)
            x = load->columns - VL; /* the last block overlaps the one before: whole loads */
        vf m[VL];
        if (inside && x >= g->x0 && x + VL <= g->x1) {
            const ptrdiff_t to = y * load->step_y + x;
            CV_UNROLL for (int l = 0; l < VL; l++)
            {
                m[l] = vf_load(g->at[l] + to);
                /* as many streams as lanes: too many for the machine's own prefetchers */
                vf_prefetch_l2(g->at[l] + to + 2 * load->step_y);
            }
        } else
            for (int l = 0; l < VL; l++)
                m[l] = l < load->lanes ? load_lane(load, &load->lane[l], y, x) : vf_zero();
        vf_transpose(m);
        CV_UNROLL for (int i = 0; i < VL; i++)
        {
            max = vf_maxmag(max, m[i]);
            vf_store(line + (size_t)(x + i) * 2 * VL, vf_mul(m[i], g->scale));
        }
        if (load->want_min)
            CV_UNROLL for (int i = 0; i < VL; i++) min = vf_minmag(min, m[i]);
    }
    g->max = max;
    g->min = min;
}

#endif
