/* What the files of whole.h share: small sums, and where panels lie. */
#ifndef CV_WHOLE_PARTS_H
#define CV_WHOLE_PARTS_H

#include "lanes.h"
#include "whole.h"

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t part(int64_t count, int64_t parts, int64_t i)
{
    return count / parts * i + least(count % parts, i);
}

static inline const cv_lanes_set *set_of(cv_isa isa)
{
    return isa == CV_AVX512 ? &cv_lanes_avx512 : isa == CV_AVX2 ? &cv_lanes_avx2 : &cv_lanes_scalar;
}

/* Channels that exist in panel i of a group, and floats of its lanes. */
static inline int panel_lanes(const cv_whole *h, int64_t i) { return (int)least(h->kg - i * h->width, h->width); }
static inline int panel_width(const cv_whole *h, int64_t i)
{
    const int vl = set_of(h->isa)->vl;
    return (int)up(panel_lanes(h, i), vl) * vl;
}

/* Floats of all panels of a group before panel i. */
static inline int64_t panel_at(const cv_whole *h, int64_t i)
{
    const int64_t taps = h->cg * h->p.r * h->p.s;
    return i < h->panels ? i * h->width * taps : ((i - 1) * h->width + panel_width(h, i - 1)) * taps;
}

#endif
