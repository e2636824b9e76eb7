/* A pool of threads for parallel loops.
 *
 * cv_pool_run calls work(user, task, thread) once for every task in 0..tasks-1, and returns when all are done. Tasks
 * are handed out in ascending order, one at a time. thread is in 0..cv_pool_threads-1 and unique among the calls that
 * run at one moment for one cv_pool_run, so it may index scratch memory. When another caller has the pool, or in the
 * child of a fork, the calling thread does all tasks itself (thread = 0): nobody waits for anybody. Workers run with
 * the floating-point mode of cv_fpenv_enter. The pool may be shared by any number of threads. */
#ifndef CV_THREADS_H
#define CV_THREADS_H

#include "convoy/convoy.h"

typedef struct cv_pool cv_pool;
typedef void (*cv_work_fn)(void *user, int64_t task, int thread);

/* threads - 1 workers start with the first run that can use them. */
convoy_status cv_pool_create(int threads, const convoy_allocator *memory, cv_pool **pool);
void cv_pool_destroy(cv_pool *pool); /* NULL is fine; no run may be in progress */
int cv_pool_threads(const cv_pool *pool);
void cv_pool_run(cv_pool *pool, int64_t tasks, cv_work_fn work, void *user);

#endif
