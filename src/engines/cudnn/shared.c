/* What the process shares: the lock, a handle a device, and what cuDNN offered for the problems asked about last. */
#include "shared.h"
#include "platform/memory.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>

enum { MOST_DEVICES = 64, REMEMBERED = 32 };

static mtx_t lock;
static once_flag lock_once = ONCE_FLAG_INIT;
static void make_lock(void) { mtx_init(&lock, mtx_plain); }

void cv_dnn_enter(void)
{
    call_once(&lock_once, make_lock);
    mtx_lock(&lock);
}

void cv_dnn_leave(void) { mtx_unlock(&lock); }

static cudnnHandle_t handles[MOST_DEVICES];
static cv_dnn_offer
    *offers[REMEMBERED]; /* in the order of their making, the oldest is replaced; never freed, like the library */
static int next_offer;

static int same_problem(const convoy_problem *a, const convoy_problem *b)
{
    return a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w && a->k == b->k && a->r == b->r &&
           a->s == b->s && a->pad_t == b->pad_t && a->pad_b == b->pad_b && a->pad_l == b->pad_l &&
           a->pad_r == b->pad_r && a->stride_h == b->stride_h && a->stride_w == b->stride_w && a->dil_h == b->dil_h &&
           a->dil_w == b->dil_w && a->groups == b->groups && !memcmp(a->x_stride, b->x_stride, sizeof a->x_stride) &&
           !memcmp(a->w_stride, b->w_stride, sizeof a->w_stride) &&
           !memcmp(a->y_stride, b->y_stride, sizeof a->y_stride);
}

cudnnHandle_t cv_dnn_handle(const cv_machine *m, const cv_cudnn *dnn, char *why, size_t bytes)
{
    const int device = m->device_index;
    if (device < 0 || device >= MOST_DEVICES) {
        snprintf(why, bytes, "it serves the first %d devices only", MOST_DEVICES);
        return NULL;
    }
    if (!handles[device]) {
        const cudnnStatus_t status =
            m->ops->bind(m) == CONVOY_OK ? dnn->create(&handles[device]) : CUDNN_STATUS_NOT_INITIALIZED;
        if (status != CUDNN_STATUS_SUCCESS) {
            handles[device] = NULL;
            cv_dnn_words(dnn, status, why, bytes);
        }
    }
    return handles[device];
}

const cv_dnn_offer *cv_dnn_offer_of(const cv_request *q, const cv_cudnn *dnn, char *why, size_t bytes)
{
    for (int i = 0; i < REMEMBERED; i++)
        if (offers[i] && offers[i]->used && offers[i]->device == q->machine->device_index &&
            same_problem(&offers[i]->p, &q->p))
            return offers[i];
    cudnnHandle_t handle = cv_dnn_handle(q->machine, dnn, why, bytes);
    if (!handle)
        return NULL;
    cv_dnn_offer **slot = &offers[next_offer];
    if (!*slot && !(*slot = cv_alloc(&cv_default_allocator, sizeof **slot))) {
        snprintf(why, bytes, "there is no memory for the list of its configurations");
        return NULL;
    }
    next_offer = (next_offer + 1) % REMEMBERED;
    cv_dnn_offer *o = *slot;
    cv_dnn_graph graph;
    memset(o, 0, sizeof *o);
    o->device = q->machine->device_index;
    o->p = q->p;
    (void)q->machine->ops->bind(q->machine);
    if (cv_dnn_graph_make(&graph, dnn, handle, q, o->why, sizeof o->why)) {
        o->count = cv_dnn_list(&graph, o->config, CV_DNN_CONFIGS);
        if (o->count == 0)
            snprintf(o->why, sizeof o->why, "cuDNN %d.%d.%d offers no FP32 configuration for it", dnn->major,
                     dnn->minor, dnn->patch);
    }
    cv_dnn_graph_free(&graph);
    (void)cudaGetLastError(); /* a configuration that did not fit may have left its error behind */
    o->used = 1;
    return o;
}
