/* Between tensors, whose channels lie far apart, and vectors with a channel a lane: blocks of VL x VL are transposed in
 * registers. Each value is moved once in and once out; none is computed with, but for the bias.
 */
#include "lanes.h"
#include "simd/simd.h"

static int least(int a, int b) { return a < b ? a : b; }

void CV_ISA_NAME(cv_lanes_load)(const cv_lanes_out *o, float *acc)
{
    for (int v = 0; v < o->vectors; v++) {
        const int lanes = least(o->lanes - v * VL, VL);
        const float *y = o->y + v * VL * o->y_lane;
        if (o->y_u != 1) {
            for (int u = 0; u < o->u; u++)
                vf_store(acc + (u * o->vectors + v) * VL, vf_gather_n(y + u * o->y_u, o->y_lane, lanes));
            continue;
        }
        for (int at = 0; at < o->u; at += VL) {
            vf m[VL];
            const int n = least(o->u - at, VL);
            for (int i = 0; i < VL; i++)
                m[i] = i < lanes ? vf_load_n(y + i * o->y_lane + at, n) : vf_zero();
            vf_transpose(m);
            for (int i = 0; i < n; i++)
                vf_store(acc + ((at + i) * o->vectors + v) * VL, m[i]);
        }
    }
}

void CV_ISA_NAME(cv_lanes_store)(const cv_lanes_out *o, const float *acc)
{
    for (int v = 0; v < o->vectors; v++) {
        const int lanes = least(o->lanes - v * VL, VL);
        const vf bias = o->bias ? vf_load_n(o->bias + v * VL, lanes) : vf_zero();
        float *y = o->y + v * VL * o->y_lane;
        for (int at = 0; at < o->u; at += VL) {
            vf m[VL];
            const int n = least(o->u - at, VL);
            for (int i = 0; i < VL; i++) {
                m[i] = i < n ? vf_load(acc + ((at + i) * o->vectors + v) * VL) : vf_zero();
                m[i] = o->bias ? vf_add(m[i], bias) : m[i]; /* -0 + 0 would be +0: no bias, no add */
            }
            if (o->y_u != 1) {
                for (int i = 0; i < n; i++)
                    vf_scatter_n(y + (at + i) * o->y_u, o->y_lane, m[i], lanes);
                continue;
            }
            vf_transpose(m);
            for (int i = 0; i < lanes; i++)
                vf_store_n(y + i * o->y_lane + at, m[i], n);
        }
    }
}

void CV_ISA_NAME(cv_lanes_interleave)(float *to, int width, const float *from, int lanes, int64_t step, int64_t count,
                                      int64_t along)
{
    for (int v = 0; v < width; v += VL) {
        const int n = least(lanes - v > 0 ? lanes - v : 0, VL);
        const float *at = from + v * step;
        for (int64_t i = 0; i < count; i += VL) {
            vf m[VL];
            const int some = (int)(count - i < VL ? count - i : VL);
            for (int l = 0; l < VL; l++)
                m[l] = l >= n       ? vf_zero()
                       : along != 1 ? vf_gather_n(at + l * step + i * along, along, some)
                       : some == VL ? vf_load(at + l * step + i)
                                    : vf_load_n(at + l * step + i, some);
            vf_transpose(m);
            for (int j = 0; j < some; j++)
                vf_store(to + (i + j) * width + v, m[j]);
        }
    }
}
