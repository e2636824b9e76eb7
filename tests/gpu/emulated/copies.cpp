/* Copies to shared memory: boxes and the barriers that count their bytes, and asynchronous copies of a thread's own. */
#include "fibers.h"

namespace emulated
{
namespace
{

/* A 16-byte copy that has been asked for, of a group. */
struct copy {
    unsigned to;
    const void *from; /* NULL: zeros */
    int group;
};
struct copies {
    std::vector<copy> under_way;
    int groups; /* that have been committed */
};
struct flight {
    unsigned to;
    const CUtensorMap *map;
    int corner[5];
};
struct arrivals {
    int phase;
    bool armed;
    int64_t awaited;
    std::vector<flight> under_way;
};

std::vector<copies> threads;
std::map<unsigned, arrivals> barriers;

size_t box_bytes(const CUtensorMap &m)
{
    size_t bytes = 4;
    for (int i = 0; i < m.rank; i++)
        bytes *= m.box[i];
    return bytes;
}

void deliver(const flight &f)
{
    const CUtensorMap &m = *f.map;
    const size_t bytes = box_bytes(m);
    char *const to = shared_at(f.to, bytes, m.swizzled ? 1024 : 128);
    uint32_t at[5] = {0, 0, 0, 0, 0};
    for (size_t word = 0; word < bytes / 4; word++) {
        const char *from = m.from;
        bool inside = true;
        for (int i = 0; i < m.rank; i++) {
            const int64_t place = f.corner[i] + (int64_t)at[i];
            inside = inside && place >= 0 && place < (int64_t)m.sizes[i];
            from += place * (int64_t)(i == 0 ? 4 : m.strides[i - 1]);
        }
        const float zero = 0.0f;
        const size_t offset = word * 4;
        memcpy(to + (m.swizzled ? offset ^ (offset >> 7 & 7) << 4 : offset), inside ? from : (const char *)&zero, 4);
        for (int i = 0; i < m.rank && ++at[i] == m.box[i]; i++)
            at[i] = 0;
    }
}

/* Boxes arrive if they should now; all bytes end the barrier's phase. */
void settle(arrivals &b, bool now)
{
    if (now) {
        for (const flight &f : b.under_way) {
            deliver(f);
            b.awaited -= (int64_t)box_bytes(*f.map);
        }
        b.under_way.clear();
    }
    if (b.armed && b.awaited < 0)
        fault("more bytes arrived than the barrier expects");
    if (b.armed && b.awaited == 0) {
        b.phase ^= 1;
        b.armed = false;
        progress();
    }
}

arrivals &barrier_at(unsigned at)
{
    const auto found = barriers.find(at);
    if (found == barriers.end())
        fault("no barrier at %u", at);
    return found->second;
}

void copy_out(const copy &c)
{
    const float zeros[4] = {0, 0, 0, 0};
    memcpy(shared_at(c.to, 16, 16), c.from ? c.from : zeros, 16);
}

} // namespace

void begin_copies(int count)
{
    barriers.clear();
    threads.resize((size_t)count);
    for (copies &c : threads) {
        c.under_way.clear();
        c.groups = 0;
    }
}

void end_copies()
{
    for (const auto &b : barriers)
        if (b.second.armed || !b.second.under_way.empty())
            fault("boxes were under way when the block ended");
}

void copy_box(unsigned to, const CUtensorMap *map, const int *corner, unsigned barrier)
{
    if (!map->from)
        fault("a box of no tensor");
    if (corner[0] % 4)
        fault("a box that begins at column %d, not a multiple of 16 bytes", corner[0]);
    arrivals &b = barrier_at(barrier);
    b.under_way.push_back({to, map, {corner[0], corner[1], corner[2], corner[3], corner[4]}});
    settle(b, !late);
}

} // namespace emulated

using namespace emulated;

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, cuuint32_t rank, void *from, const cuuint64_t *sizes,
                                const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
                                int interleave, int swizzle, int, int fill)
{
    const bool swizzled = swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
    bool good = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 && interleave == 0 && fill == 0 && rank >= 1 && rank <= 5 &&
                (uintptr_t)map % 64 == 0 && from && (uintptr_t)from % 16 == 0 && box[0] * 4 % 16 == 0 &&
                (!swizzled || box[0] * 4 <= 128);
    for (cuuint32_t i = 0; good && i < rank; i++)
        good = sizes[i] >= 1 && sizes[i] <= (cuuint64_t)1 << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] == 1 &&
               (i + 1 == rank || (strides[i] % 16 == 0 && strides[i] < (cuuint64_t)1 << 40));
    if (!good)
        return CUDA_ERROR_INVALID_VALUE;
    memset(map, 0, sizeof *map);
    map->from = (const char *)from;
    map->rank = (int)rank;
    map->swizzled = swizzled;
    for (cuuint32_t i = 0; i < rank; i++) {
        map->sizes[i] = sizes[i];
        map->box[i] = box[i];
        map->strides[i] = i + 1 < rank ? strides[i] : 0;
    }
    return CUDA_SUCCESS;
}

void cv_barrier_init(unsigned at)
{
    if (at % 8)
        fault("a barrier at %u", at);
    barriers[at] = arrivals();
}
void cv_barrier_expect(unsigned at, int bytes)
{
    arrivals &b = barrier_at(at);
    if (b.armed)
        fault("a barrier for one arrival has two in a phase");
    b.armed = true;
    b.awaited += bytes;
    settle(b, !late);
}
void cv_barrier_wait(unsigned at, int parity)
{
    arrivals &b = barrier_at(at);
    settle(b, b.armed);
    while (b.phase == parity) {
        busy_wait();
        settle(b, b.armed);
    }
}

float4 cv_shared_16(unsigned from)
{
    float4 v;
    memcpy(&v, shared_at(from, 16, 16), 16);
    return v;
}
void cv_store_16(unsigned to, unsigned a, unsigned b, unsigned c, unsigned d)
{
    const unsigned v[4] = {a, b, c, d};
    memcpy(shared_at(to, 16, 16), v, 16);
}

void cv_copy_16(unsigned to, const void *from, bool inside)
{
    copies &c = threads[threadIdx.x];
    const copy one = {to, inside ? from : nullptr, c.groups};
    if ((uintptr_t)from % 16)
        fault("a copy of 16 bytes from %p", from);
    if (late)
        c.under_way.push_back(one);
    else
        copy_out(one);
}
void cv_copy_commit() { threads[threadIdx.x].groups++; }
void cv_copy_wait_for(int groups)
{
    copies &c = threads[threadIdx.x];
    size_t done = 0;
    while (done < c.under_way.size() && c.under_way[done].group < c.groups - groups)
        copy_out(c.under_way[done++]);
    c.under_way.erase(c.under_way.begin(), c.under_way.begin() + (ptrdiff_t)done);
}
