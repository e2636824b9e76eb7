/* Test data: a counter hashed by the SplitMix64 finaliser (Steele, Lea, Flood 2014), two draws at a time through Box
 * and Muller's transform. Any position can be computed alone, so threads need no state. */
#include "noise.h"

#include <math.h>

enum { BLOCK = 1 << 14 };

struct fill {
    float *out;
    int64_t floats;
    uint64_t seed;
};

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void fill_block(void *user, int64_t task, int thread)
{
    (void)thread;
    const struct fill *f = user;
    const int64_t from = task * BLOCK, to = from + BLOCK < f->floats ? from + BLOCK : f->floats;
    for (int64_t i = from; i < to; i += 2) {
        const uint64_t bits = mix((uint64_t)i * 0x9e3779b97f4a7c15u + mix(f->seed));
        const float u = ((float)(uint32_t)(bits >> 40) + 0.5f) * 0x1p-24f,
                    v = (float)(uint32_t)(bits & 0xffffff) * 0x1p-24f;
        const float radius = sqrtf(-2.0f * logf(u)), angle = 6.28318530718f * v;
        f->out[i] = radius * cosf(angle);
        if (i + 1 < to)
            f->out[i + 1] = radius * sinf(angle);
    }
}

void cv_noise_fill(cv_pool *pool, float *out, int64_t floats, uint64_t seed)
{
    struct fill f = {out, floats, seed};
    cv_pool_run(pool, (floats + BLOCK - 1) / BLOCK, fill_block, &f);
}
