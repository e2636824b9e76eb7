#include "threads.h"
#include "cpu.h"
#include "library.h"
#include "memory.h"
#include "status.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define cv_pause() _mm_pause()
#else
#define cv_pause() ((void)0)
#endif

/* How long a worker watches for the next loop before it sleeps: phases of one convolution follow one another within
 * microseconds, and waking a sleeper costs tens of them. */
enum { SPINS = 4000 };

struct cv_pool {
    int threads;
    convoy_allocator memory;
    atomic_flag taken; /* held by the caller whose loop the workers are on */
    pid_t owner;       /* the process that the workers live in; 0: not started */
    void *code;        /* the shared object that they run, held while they do */
    /* Loops so far in the upper 32 bits, then OPEN while workers may still join the current one, then how many are in
     * it. The caller closes the loop when no task is left and waits only for those that joined: one still asleep delays
     * nobody. */
    _Atomic uint64_t state;
    atomic_int sleepers;
    pthread_mutex_t lock; /* for sleeping and waking only */
    pthread_cond_t wake;
    atomic_int quit;
    cv_work_fn work;
    void *user;
    int64_t tasks;
    _Atomic int64_t next;
    int started;        /* workers that exist */
    pthread_t handle[]; /* threads - 1 */
};

static const uint64_t OPEN = (uint64_t)1 << 31;

struct start {
    cv_pool *pool;
    int thread;
    atomic_int taken;
};

static void take_tasks(cv_pool *pool, int thread)
{
    for (;;) {
        int64_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->tasks)
            return;
        pool->work(pool->user, task, thread);
    }
}

static int joinable(cv_pool *pool, uint64_t seen)
{
    uint64_t state = atomic_load(&pool->state);
    return (state & OPEN) && state >> 32 != seen;
}

static void *worker(void *argument)
{
    struct start *start = argument;
    cv_pool *pool = start->pool;
    const int thread = start->thread;
    atomic_store(&start->taken, 1);
    cv_fpenv unused;
    cv_fpenv_enter(&unused);
    uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < SPINS && !joinable(pool, seen) && !atomic_load(&pool->quit); i++)
            cv_pause();
        if (!joinable(pool, seen)) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->sleepers, 1);
            while (!joinable(pool, seen) && !atomic_load(&pool->quit))
                pthread_cond_wait(&pool->wake, &pool->lock);
            atomic_fetch_sub(&pool->sleepers, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        if (atomic_load(&pool->quit))
            return NULL;
        uint64_t state = atomic_load(&pool->state);
        if (!(state & OPEN) || state >> 32 == seen || !atomic_compare_exchange_strong(&pool->state, &state, state + 1))
            continue; /* closed meanwhile, or another worker joined first: look again */
        seen = state >> 32;
        take_tasks(pool, thread);
        atomic_fetch_sub(&pool->state, 1);
    }
}

/* Fewer workers than asked for (a limit on processes) is fine: the tasks are shared by those there are. */
static void start_workers(cv_pool *pool)
{
    sigset_t all, callers;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &callers); /* the program's signals are for its own threads */
    pool->owner = getpid();
    pool->code = cv_library_hold_self();
    for (int i = 1; i < pool->threads; i++) {
        struct start start = {pool, i, 0};
        if (pthread_create(&pool->handle[pool->started], NULL, worker, &start) != 0)
            break;
        pool->started++;
        while (!atomic_load(&start.taken))
            cv_pause();
    }
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
}

convoy_status cv_pool_create(int threads, const convoy_allocator *memory, cv_pool **out)
{
    *out = NULL;
    size_t bytes = sizeof(cv_pool) + sizeof(pthread_t) * (size_t)threads;
    cv_pool *pool = memory->alloc(memory->user, bytes);
    if (!pool)
        return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: %zu bytes for a pool of %d threads", bytes, threads);
    memset(pool, 0, bytes);
    pool->threads = threads;
    pool->memory = *memory;
    atomic_flag_clear(&pool->taken);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    *out = pool;
    return CONVOY_OK;
}

void cv_pool_destroy(cv_pool *pool)
{
    if (!pool)
        return;
    convoy_allocator memory = pool->memory;
    if (pool->owner == 0 || pool->owner == getpid()) { /* a forked child has neither the workers nor a sound mutex */
        pthread_mutex_lock(&pool->lock);
        atomic_store(&pool->quit, 1);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (int i = 0; i < pool->started; i++)
            pthread_join(pool->handle[i], NULL);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
        cv_library_close(pool->code);
    }
    memory.free(memory.user, pool);
}

int cv_pool_threads(const cv_pool *pool) { return pool->threads; }

void cv_pool_run(cv_pool *pool, int64_t tasks, cv_work_fn work, void *user)
{
    if (tasks <= 1 || pool->threads == 1 || atomic_flag_test_and_set_explicit(&pool->taken, memory_order_acquire)) {
        for (int64_t i = 0; i < tasks; i++)
            work(user, i, 0);
        return;
    }
    if (pool->owner == 0)
        start_workers(pool);
    if (pool->owner != getpid() || pool->started == 0) {
        atomic_flag_clear_explicit(&pool->taken, memory_order_release);
        for (int64_t i = 0; i < tasks; i++)
            work(user, i, 0);
        return;
    }
    pool->work = work;
    pool->user = user;
    pool->tasks = tasks;
    atomic_store(&pool->next, 0);
    const uint64_t loop = ((atomic_load(&pool->state) >> 32) + 1) & 0xffffffffu;
    atomic_store(&pool->state, (loop ? loop : 1) << 32 | OPEN); /* 0 is what a new worker has seen */
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
    }
    take_tasks(pool, 0);
    atomic_fetch_and(&pool->state, ~OPEN);
    while ((uint32_t)atomic_load(&pool->state) != 0)
        cv_pause();
    atomic_flag_clear_explicit(&pool->taken, memory_order_release);
}
