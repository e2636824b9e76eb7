/* w (any strides) -> [group][k block][c][r][s][KB], zeros where a block has channels past K/G: then a stage of the
 * slide kernel is one contiguous run of 16-byte pieces.
 *
 * A block moves 32 taps of 32 channels through shared memory, so that both sides are read and written in rows. Traffic:
 * w read once and written once (D: 67 MB each, about 35 us of an H200's bandwidth). */
#include <cuda_runtime.h>

#include "chain_cuda.h"

namespace
{

struct relay_args {
    const float *w;
    float *out;
    long long ws_k, ws_c, ws_r, ws_s, taps;
    int R, S, Kg, KB, nkb, packed, across;
};

__global__ void __launch_bounds__(256) cv_relay_kernel(const relay_args a)
{
    __shared__ float tile[32][33];
    const int lane = threadIdx.x & 31, row = threadIdx.x >> 5;
    const int per_kb = (a.KB + 31) / 32;
    const int y = blockIdx.x / a.across, x = blockIdx.x - y * a.across;
    const int kpart = y % per_kb, kb = y / per_kb % a.nkb, g = y / per_kb / a.nkb;
    for (long long t0 = (long long)x * 32; t0 < a.taps; t0 += (long long)a.across * 32) {
        const long long t = t0 + lane;
        long long offset = t;
        if (!a.packed) {
            const long long s = t % a.S, r = t / a.S % a.R, c = t / a.S / a.R;
            offset = c * a.ws_c + r * a.ws_r + s * a.ws_s;
        }
        for (int i = row; i < 32; i += 8) {
            const int kl = kb * a.KB + kpart * 32 + i;
            if (t < a.taps)
                tile[i][lane] = kl < a.Kg ? a.w[((long long)g * a.Kg + kl) * a.ws_k + offset] : 0.0f;
        }
        __syncthreads();
        float *out = a.out + ((long long)g * a.nkb + kb) * a.taps * a.KB;
        const int kl = kpart * 32 + lane;
        for (int i = row; i < 32; i += 8)
            if (t0 + i < a.taps && kl < a.KB)
                out[(t0 + i) * a.KB + kl] = tile[lane][i];
        __syncthreads();
    }
}

} // namespace

int cv_chain_cuda_relay(const cv_chain_shape *shape, int kb, const float *w, float *relaid, void *stream)
{
    const cv_chain_shape &c = *shape;
    relay_args a;
    a.w = w;
    a.out = relaid;
    a.ws_k = c.ws[0], a.ws_c = c.ws[1], a.ws_r = c.ws[2], a.ws_s = c.ws[3];
    a.R = (int)c.r, a.S = (int)c.s, a.Kg = (int)(c.k / c.groups), a.KB = kb;
    a.nkb = (a.Kg + a.KB - 1) / a.KB;
    a.taps = c.c / c.groups * c.r * c.s;
    a.packed = (c.ws[3] == 1 || c.s == 1) && (c.ws[2] == c.s || c.r == 1) && (c.ws[1] == c.r * c.s || c.c == c.groups);
    const long long down = (long long)c.groups * a.nkb * ((a.KB + 31) / 32), tiles = (a.taps + 31) / 32;
    const long long most = (1LL << 30) / down;
    a.across = (int)(tiles < most ? tiles : most > 1 ? most : 1);
    cv_relay_kernel<<<(unsigned)(down * a.across), 256, 0, (cudaStream_t)stream>>>(a);
    return cudaGetLastError();
}
