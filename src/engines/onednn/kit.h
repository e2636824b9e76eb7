/* The primitives of one plan: x, w and y into oneDNN's layouts and back, and the convolution between them.
 *
 *   x -> own x    w -> own w    own y = conv(own x, own w) + bias    own y -> y
 *
 * A step whose two layouts agree is left out. Everything but x, w, bias and y lies in the caller's workspace. */
#ifndef CV_ONEDNN_KIT_H
#define CV_ONEDNN_KIT_H

#include "core/engine.h"
#include "dnnl_api.h"

#include <stdatomic.h>

enum { CV_KIT_SLOTS = 16, CV_KIT_BLOCK_HEAD = 64 };

/* A reorder or the convolution. */
typedef struct cv_kit_step {
    void *pd, *primitive; /* NULL: nothing to do; primitive also in a kit that is only described */
    size_t scratch_bytes;
} cv_kit_step;

/* What one thread needs to execute: oneDNN's objects around its pointers. */
typedef struct cv_kit_slot {
    atomic_flag taken;
    int made;
    void *stream;
    void *x, *w, *bias, *y, *own_x, *own_w, *own_y, *scratch[4];
} cv_kit_slot;

typedef struct cv_kit {
    const cv_dnnl *d;
    const cv_machine *machine;
    int threads, has_bias, prepared, w_is_own; /* w_is_own: prepared weights are as the convolution wants them */
    cv_dnnl_own_md x, w, bias, y;              /* as the caller has them */
    cv_dnnl_md own_x, own_w, own_y, block_w;   /* the convolution's, and prepared weights' */
    void *block_pd;                            /* owns block_w */
    cv_kit_step to_x, to_w, sum, to_y, to_block;
    double flop;
    size_t w_bytes, block_bytes; /* plain w, and a block of prepared weights in all */
    size_t at_x, at_w, at_y, at_scratch, workspace_bytes;
    cv_kit_slot slot[CV_KIT_SLOTS];
} cv_kit;

/* Layouts of x and y. */
enum { CV_KIT_ANY = 0, CV_KIT_NCHW = 1, CV_KIT_LAYOUTS = 2 };

/* What a kit would be, found out without generating code. */
typedef struct cv_kit_facts {
    int offered; /* 0: oneDNN has nothing, or nothing but plain loops, or nothing that keeps our contract */
    char implementation[64];
    size_t workspace_bytes, x_bytes, w_bytes, y_bytes; /* what to_x, to_w and to_y write; 0 where a step is left out */
} cv_kit_facts;

void cv_kit_find(const cv_dnnl *d, const cv_request *request, int layout, cv_kit_facts *facts);

convoy_status cv_kit_create(const cv_dnnl *d, const cv_request *request, int layout, cv_kit **kit);
void cv_kit_destroy(cv_kit *kit); /* NULL is fine */

convoy_status cv_kit_prepare(const cv_kit *kit, const float *w, void *block);
convoy_status cv_kit_execute(cv_kit *kit, const cv_exec *run);

/* ---- Between describe.c and kit.c */
typedef struct cv_kit_making {
    cv_kit *kit;
    const cv_request *request;
    int layout, status; /* oneDNN's */
} cv_kit_making;

void cv_kit_begin(cv_kit *kit, const cv_dnnl *d, const cv_request *request);
void cv_kit_describe(void *making); /* fills everything but primitives and slots; for cv_dnnl_run */
void cv_kit_end(cv_kit *kit);       /* whatever of it there is */

static inline size_t cv_kit_round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

#endif
