/* Whole tensors by the direct sum: packed weights, cache blocks, all threads. The bits are those of chain.h. */
#ifndef CV_WHOLE_H
#define CV_WHOLE_H

#include "chain.h"
#include "platform/threads.h"
#include "taps.h"

/* What the lanes of a vector are. */
typedef enum cv_whole_kind {
    CV_BY_COLUMN,  /* output columns; w is read in place, no workspace */
    CV_BY_CHANNEL, /* output channels; w in panels */
    CV_BY_PLANE /* depthwise channels (one input and one output channel a group); w in panels, x interleaved by bands of
                   rows */
} cv_whole_kind;

/* One way to compute one problem; immutable once made. */
typedef struct cv_whole {
    convoy_problem p; /* strides filled in */
    int64_t P, Q, cg, kg;
    cv_axis ah, aw;
    cv_isa isa;
    int threads;
    cv_whole_kind kind;
    int width; /* floats of a panel's lanes; the last panel of a group may be narrower, in whole vectors */

    /* By channel: the loops as they are run. A 1x1 kernel without padding makes one long tap loop of its channels, and
     * rows that follow one another become one row. */
    int joined;                     /* 1: the taps are the channels */
    int64_t rows, columns;          /* of outputs */
    int64_t cs, rs, ss;             /* channels, tap rows, taps */
    int64_t x_c, x_s, x_row, y_row; /* steps */
    int64_t tiles, u;               /* tiles in a row of outputs, and outputs in the widest */
    int64_t block;                  /* channels (taps, when they are the channels) summed before the next tile */
    int64_t panels, together;       /* panels of a group, and how many of them a task runs over */
    int64_t chunk, chunks;          /* tiles of a task, and tasks of an image and panel set */

    /* By plane */
    int64_t band, bands; /* output rows of a task, and tasks of an image and block of channels */
    size_t stage_bytes;  /* of a thread's interleaved rows */

    int64_t *first,
        *last; /* per tap s: outputs [first, last) have it inside the image; cv_whole_table_bytes of memory */
} cv_whole;

/* Lanes of a vector. */
int cv_whole_vl(cv_isa isa);

/* Panel width for a kind: the candidate's number. */
int cv_whole_width(cv_isa isa, cv_whole_kind kind, int64_t kg);

/* Fills everything but the tables. cpu gives the cache sizes. */
void cv_whole_plan(cv_whole *whole, const convoy_problem *p, cv_isa isa, const cv_cpu *cpu, int threads,
                   cv_whole_kind kind);

size_t cv_whole_table_bytes(const cv_whole *whole);
void cv_whole_tables(cv_whole *whole, void *memory);

/* Bytes of the packed weights, and of what a run needs beside them. By column: a plain copy, of use only when prepared.
 */
size_t cv_whole_panel_bytes(const cv_whole *whole);
size_t cv_whole_stage_bytes(const cv_whole *whole);

/* w as the problem's w_stride says. */
void cv_whole_pack(const cv_whole *whole, cv_pool *pool, const float *w, float *panels);

/* io->w is read only by column and with panels NULL. stage: cv_whole_stage_bytes, aligned to 64. */
void cv_whole_run(const cv_whole *whole, cv_pool *pool, const cv_chain_io *io, const float *panels, void *stage);

#endif
