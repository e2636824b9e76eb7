/*
 * Products of tensor cores: TF32 operands lose their last 13 bits, sums are FP32. A fragment's row is lane / 4, its
 * column lane % 4; further registers hold the row 8 below and then the columns 4 further.
 */
#include "fibers.h"

namespace emulated
{
namespace
{

struct product {
    int nt, sign, add;
    float *d;
    const unsigned *a;
    unsigned long long b;
};
struct operands {
    unsigned a[2][4], b[2][2];     /* of a warp's product, by turns: others may still read the last one's */
    std::vector<product> products; /* of a warpgroup, under way */
    size_t committed;
};
std::vector<operands> threads;

float tf32(unsigned bits) { return __uint_as_float(bits & 0xffffe000u); }

/* A warp's 16 rows of a warpgroup's product: A from the threads' registers, B from core matrices of 8 rows by 16 bytes.
 */
void multiply(const operands *warp, size_t index)
{
    const product &first = warp[0].products[index];
    const int columns = 8 * first.nt;
    static float b[8][256];
    const unsigned start = (unsigned)(first.b & 0x3fff) << 4, along = (unsigned)(first.b >> 16 & 0x3fff) << 4,
                   across = (unsigned)(first.b >> 32 & 0x3fff) << 4;
    for (int n8 = 0; n8 < first.nt; n8++)
        for (int k4 = 0; k4 < 2; k4++) {
            unsigned bits[8][4];
            memcpy(bits, shared_at(start + (unsigned)n8 * across + (unsigned)k4 * along, 128, 16), sizeof bits);
            for (int n = 0; n < 8; n++)
                for (int k = 0; k < 4; k++)
                    b[k4 * 4 + k][n8 * 8 + n] = tf32(bits[n][k]);
        }
    for (int row = 0; row < 16; row++) {
        const int half = row / 8, octet = row % 8;
        float sums[256], a[8];
        for (int k = 0; k < 8; k++) {
            const product &p = warp[octet * 4 + k % 4].products[index];
            if (p.b != first.b || p.nt != first.nt || p.add != first.add || p.sign != first.sign)
                fault("threads of a warp ask for different products");
            a[k] = (float)p.sign * tf32(p.a[half + k / 4 * 2]);
        }
        for (int n = 0; n < columns; n++)
            sums[n] = a[0] * b[0][n];
        for (int k = 1; k < 8; k++)
            for (int n = 0; n < columns; n++)
                sums[n] += a[k] * b[k][n];
        for (int n = 0; n < columns; n++) {
            const product &p = warp[octet * 4 + n % 8 / 2].products[index];
            float &d = p.d[n / 8 * 4 + half * 2 + n % 2];
            d = p.add ? d + sums[n] : sums[n];
        }
    }
}

/* What a warp has committed. */
void multiply_all()
{
    operands *const warp = &threads[threadIdx.x / 32 * 32];
    for (int lane = 0; lane < 32; lane++)
        if (warp[lane].products.size() != warp[0].products.size())
            fault("threads of a warp ask for different numbers of products");
    for (size_t i = 0; i < warp[0].products.size(); i++)
        multiply(warp, i);
    for (int lane = 0; lane < 32; lane++) {
        warp[lane].products.clear();
        warp[lane].committed = 0;
    }
}

} // namespace

void begin_products(int count)
{
    threads.resize((size_t)count);
    for (operands &o : threads) {
        o.products.clear();
        o.committed = 0;
    }
}

void end_products()
{
    for (const operands &o : threads)
        if (!o.products.empty())
            fault("products were under way when the block ended");
}

void queue_wgmma(int nt, int sign, float *d, const unsigned *a, unsigned long long b, int add)
{
    threads[threadIdx.x].products.push_back({nt, sign, add, d, a, b});
}

} // namespace emulated

using namespace emulated;

void cv_mma(float *d, const unsigned *a, const unsigned *b)
{
    const unsigned lane = threadIdx.x % 32;
    const int turn = turn_of_warp();
    const operands *const warp = &threads[threadIdx.x - lane];
    memcpy(threads[threadIdx.x].a[turn], a, sizeof warp->a[turn]);
    memcpy(threads[threadIdx.x].b[turn], b, sizeof warp->b[turn]);
    meet_warp("mma");
    for (unsigned half = 0; half < 2; half++)
        for (unsigned e = 0; e < 2; e++) {
            float sum = 0.0f;
            for (unsigned k = 0; k < 8; k++)
                sum += tf32(warp[lane / 4 * 4 + k % 4].a[turn][half + k / 4 * 2]) *
                       tf32(warp[(lane % 4 * 2 + e) * 4 + k % 4].b[turn][k / 4]);
            d[half * 2 + e] += sum;
        }
}

void cv_wgmma_commit()
{
    if (blockDim.x != 128)
        fault("a block that is not one warpgroup");
    threads[threadIdx.x].committed = threads[threadIdx.x].products.size();
    if (!late)
        meet_warp("wgmma's commit", multiply_all);
}
void cv_wgmma_wait()
{
    if (threads[threadIdx.x].committed != threads[threadIdx.x].products.size())
        fault("a wait for products that were not committed");
    if (late)
        meet_warp("wgmma's wait", multiply_all);
}
