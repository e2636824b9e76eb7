#include "spectral_plan.h"

/* A depthwise kernel has one channel, so a block needs little room. */
static int transform(const cv_spectral *g, int what, void *stream)
{
    cv_spectral one = *g;
    if (g->cgp == 1)
        one.wcb = g->cb < 4 ? g->cb : 4;
    return cv_spectral_forward(&one, what, stream);
}

static int smaller(int a, int b) { return a < b ? a : b; }

int cv_spectral_prepare(const cv_spectral_plan *plan, const float *weight, void *prepared, void *stream)
{
    cv_spectral g = plan->g;
    g.weight = weight + g.w_first;
    g.wf = (float *)prepared;
    g.wflag = (uint8_t *)prepared + plan->weights_flags_at;
    g.k0 = g.wk0 = 0;
    g.nk = g.wrows = g.k;
    g.overlap = 0;
    const int e = cv_spectral_pack(&g, (float *)((char *)prepared + plan->weights_copy_at), stream);
    return e ? e : transform(&g, CV_FORWARD_W, stream);
}

/* One pass: the outputs and tiles that g says. A run's first kernel overlaps what
 * comes before only where the caller says that it may. */
static int pass(cv_spectral *g, const cv_spectral_plan *plan, int what, void *stream, cv_spectral_mark mark, void *user)
{
    int e;
    if (what) {
        if ((e = transform(g, what, stream)))
            return e;
        g->overlap = plan->g.overlap;
        if (mark)
            mark(user, what == CV_FORWARD_W);
    }
    if (plan->depthwise) {
        if (!(e = cv_spectral_depthwise(g, stream)) && mark)
            mark(user, 3);
        g->overlap = plan->g.overlap;
        return e;
    }
    g->yq = g->lanes && !plan->few && g->ycb == 8 && g->nk % 8 == 0 && (plan->groups == 1 || g->kg % 8 == 0) ? 8 : 0;
    if ((e = plan->few ? cv_spectral_product_few(g, stream) : cv_spectral_product(g, plan->shape, stream)))
        return e;
    g->overlap = plan->g.overlap;
    if (mark)
        mark(user, 2);
    if (!(e = cv_spectral_inverse(g, stream)) && mark)
        mark(user, 3);
    return e;
}

int cv_spectral_run(const cv_spectral_plan *plan, const float *x, const float *weight, const void *prepared,
                    const float *bias, float *y, void *workspace, void *stream, int follows, cv_spectral_mark mark,
                    void *user)
{
    cv_spectral g = plan->g;
    const int many = plan->groups > 1;
    char *at = (char *)workspace;
    g.x = x, g.weight = weight + g.w_first, g.bias = bias, g.y = y;
    g.overlap = follows && plan->g.overlap;
    g.xf = (float *)at, at += plan->xf_bytes;
    g.yf = (float *)at, at += plan->yf_bytes;
    g.wf = (float *)at, at += plan->wf_bytes;
    g.wflag = (uint8_t *)at, at += plan->wflag_bytes;
    g.xflag = (uint8_t *)at;
    if (plan->prepared) {
        char *block = (char *)(uintptr_t)prepared;
        g.wf = (float *)block;
        g.wflag = (uint8_t *)block + plan->weights_flags_at;
        g.weight = (float *)(block + plan->weights_copy_at);
        g.ws[3] = 1, g.ws[2] = g.s, g.ws[1] = (int64_t)g.r * g.s, g.ws[0] = g.cg * g.ws[1];
    }

    for (int g0 = 0; g0 < plan->groups; g0 += plan->group_step)
        for (int tile0 = 0; tile0 < plan->all_tiles; tile0 += plan->tile_step) {
            const int k_first = many ? g0 * g.kg : 0;
            const int k_end = many ? smaller(plan->groups, g0 + plan->group_step) * g.kg : g.k;
            g.tile0 = tile0;
            g.tiles = smaller(plan->tile_step, plan->all_tiles - tile0);
            g.g0 = g0, g.ng = smaller(plan->group_step, plan->groups - g0);
            for (int k0 = k_first; k0 < k_end; k0 += plan->k_step) {
                const int kept = tile0 > 0 && plan->k_step >= k_end - k_first; /* w's spectra, from the tiles before */
                int what = k0 == k_first && !plan->depthwise ? CV_FORWARD_X : 0;
                g.k0 = k0, g.nk = smaller(plan->k_step, k_end - k0);
                g.wk0 = plan->prepared ? k0 : 0;
                g.wrows = plan->prepared ? g.k : g.nk;
                if (!plan->prepared && !kept)
                    what |= CV_FORWARD_W;
                const int e = pass(&g, plan, what, stream, mark, user);
                if (e)
                    return e;
            }
        }
    return 0;
}
