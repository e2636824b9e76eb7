/*
 * A multiprocessor that runs one block at a time, its threads as fibers that change where they meet. What a GPU would
 * let pass, or answer with a hang, ends the test here with a message: barriers that not all threads reach, or reach for
 * different reasons; shared memory beyond what was asked for, or at addresses that an access may not have; boxes that
 * the tensor copy engine would refuse; copies still under way when a block ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <string>

#include "fibers.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;
constexpr unsigned NOTHING = 0x7fc0dead; /* shared memory that nobody has written: a NaN */
constexpr size_t SHARED_LIMIT = 227 * 1024, BEYOND = 4096, STACK = 256 * 1024;
/* Begun at run time, since kernels that know it as extern call for that; GCC 12 calls it even where there is nothing.
 */
static float at_run_time()
{
    volatile float zero = 0.0f;
    return zero;
}
alignas(1024) thread_local float tile[(SHARED_LIMIT + BEYOND) / 4] = {at_run_time()};

namespace emulated
{

int capability = 9;
bool late;
long blocks_run;

namespace
{

struct fiber {
    ucontext_t context;
    jmp_buf state;
    bool started;
    const char *waits; /* for what, NULL while it runs */
};
struct meeting {
    int arrived;
    const char *what;
    int turn; /* of the words that are exchanged */
    unsigned words[2][32];
};

std::vector<fiber> fibers;
std::vector<char> stacks;
std::vector<meeting> warps;
meeting block;
int block_votes[2];
std::vector<int> ready; /* a ring: those that may run */
size_t ready_first, ready_count;
std::map<const void *, int> limits; /* shared memory that kernels may ask for */
size_t shared_bytes;
int ended, idle;
jmp_buf launcher;
const std::function<void()> *body;

void make_ready(int thread)
{
    ready[(ready_first + ready_count++) % ready.size()] = thread;
    fibers[(size_t)thread].waits = nullptr;
    idle = 0;
}

/* Threads first .. first + count - 1 but this one may run. */
void release(int first, int count)
{
    for (int i = 0; i < count; i++) {
        const int thread = first + (late ? count - 1 - i : i);
        if (thread != (int)threadIdx.x)
            make_ready(thread);
    }
}

[[noreturn]] void enter(int thread)
{
    fiber &f = fibers[(size_t)thread];
    threadIdx.x = (unsigned)thread;
    if (f.started)
        _longjmp(f.state, 1);
    f.started = true;
    setcontext(&f.context);
    abort();
}

[[noreturn]] void stuck()
{
    std::map<std::string, int> reasons;
    for (const fiber &f : fibers)
        reasons[f.waits ? f.waits : "a barrier's bytes"]++;
    for (const auto &r : reasons)
        fprintf(stderr, "%d threads wait at %s\n", r.second, r.first.c_str());
    fault("no thread can go on");
}

/* This thread waits: others run until somebody makes it ready. */
void leave(const char *what)
{
    fibers[threadIdx.x].waits = what;
    if (ready_count == 0)
        stuck();
    const int next = ready[ready_first];
    ready_first = (ready_first + 1) % ready.size();
    ready_count--;
    if (next != (int)threadIdx.x && _setjmp(fibers[threadIdx.x].state) == 0)
        enter(next);
}

void begin_block()
{
    for (size_t i = 0; i < (shared_bytes + BEYOND) / 4; i++)
        tile[i] = __uint_as_float(NOTHING);
    begin_copies((int)blockDim.x);
    begin_products((int)blockDim.x);
}

void end_block()
{
    for (size_t i = (shared_bytes + 3) / 4; i < (shared_bytes + BEYOND) / 4; i++)
        if (__float_as_uint(tile[i]) != NOTHING)
            fault("shared memory was written at byte %zu, beyond its %zu", i * 4, shared_bytes);
    end_copies();
    end_products();
    blocks_run++;
}

/* A thread of every block of the launch. */
void thread_main()
{
    for (;;) {
        (*body)();
        if (++ended < (int)blockDim.x) {
            leave("its end");
            continue;
        }
        ended = 0;
        end_block();
        if (++blockIdx.x == gridDim.x)
            _longjmp(launcher, 1);
        begin_block();
        release(0, (int)blockDim.x);
    }
}

} // namespace

void fault(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulated GPU: block %u of %u, thread %u of %u: ", blockIdx.x, gridDim.x, threadIdx.x, blockDim.x);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

char *shared_at(unsigned address, size_t bytes, size_t alignment)
{
    if (address % alignment || address + bytes > shared_bytes)
        fault("%zu bytes at %u of %zu bytes of shared memory", bytes, address, shared_bytes);
    return (char *)tile + address;
}

void busy_wait()
{
    if (++idle > 4 * (int)blockDim.x)
        stuck();
    ready[(ready_first + ready_count++) % ready.size()] = (int)threadIdx.x;
    leave(nullptr);
}

void progress() { idle = 0; }

int turn_of_warp() { return warps[threadIdx.x / 32].turn; }

void meet_warp(const char *what, const std::function<void()> &last)
{
    meeting &w = warps[threadIdx.x / 32];
    if (w.arrived && w.what != what && strcmp(w.what, what) != 0)
        fault("at %s, others of the warp at %s", what, w.what);
    w.what = what;
    if (++w.arrived < 32)
        return leave(what);
    w.arrived = 0;
    w.turn ^= 1;
    if (last)
        last();
    release((int)threadIdx.x / 32 * 32, 32);
}

void meet_block(const char *what, const std::function<void()> &last)
{
    if (block.arrived && strcmp(block.what, what) != 0)
        fault("at %s, others of the block at %s", what, block.what);
    block.what = what;
    if (++block.arrived < (int)blockDim.x)
        return leave(what);
    block.arrived = 0;
    block.turn ^= 1;
    if (last)
        last();
    release(0, (int)blockDim.x);
}

/* Words lie in two places by turns: when a thread writes its next one, the others may not have read these. */
const unsigned *exchange_warp(unsigned value, const char *what)
{
    meeting &w = warps[threadIdx.x / 32];
    unsigned *const words = w.words[w.turn];
    words[threadIdx.x % 32] = value;
    meet_warp(what);
    return words;
}

int any_of_block(int value)
{
    int *const votes = block_votes + block.turn;
    if (block.arrived == 0)
        *votes = 0;
    *votes |= value != 0;
    meet_block("__syncthreads_or");
    return *votes;
}

unsigned shared_address(const void *p) { return (unsigned)((const char *)p - (const char *)tile); }

int launch(const void *kernel, int64_t blocks, int threads, size_t bytes, const std::function<void()> &run)
{
    const auto limit = limits.find(kernel);
    if (threads % 32 || threads < 32 || threads > 1024 || blocks < 1 || blocks > INT32_MAX)
        return cudaErrorInvalidValue;
    if (bytes > (size_t)(limit == limits.end() ? 48 * 1024 : limit->second))
        return cudaErrorInvalidValue;
    blockDim = {(unsigned)threads, 1, 1};
    gridDim = {(unsigned)blocks, 1, 1};
    blockIdx = threadIdx = {0, 0, 0};
    shared_bytes = bytes;
    body = &run;
    block = {};
    warps.assign((size_t)threads / 32, meeting());
    fibers.assign((size_t)threads, fiber());
    stacks.resize((size_t)threads * STACK);
    ready.assign((size_t)threads + 1, 0);
    ready_first = ready_count = 0;
    ended = 0;
    for (int i = 0; i < threads; i++) {
        getcontext(&fibers[(size_t)i].context);
        fibers[(size_t)i].context.uc_stack.ss_sp = stacks.data() + (size_t)i * STACK;
        fibers[(size_t)i].context.uc_stack.ss_size = STACK;
        makecontext(&fibers[(size_t)i].context, thread_main, 0);
    }
    begin_block();
    release(0, threads);
    if (_setjmp(launcher) == 0)
        enter(0);
    return cudaSuccess;
}

void *guarded(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    char *p = (char *)mmap(nullptr, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, whole, PROT_READ | PROT_WRITE))
        exit(1);
    memset(p + page, 0xff, whole);
    return p + page + whole - bytes;
}

} // namespace emulated

using namespace emulated;

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, int, int)
{
    *value = capability;
    return cudaSuccess;
}
extern "C" int cv_allow_shared(const void *kernel, int bytes)
{
    limits[kernel] = min(bytes, (int)SHARED_LIMIT);
    return cudaSuccess;
}
