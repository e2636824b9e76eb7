/* oneDNN's C interface, as much as one convolution needs, declared here so that its headers are no build dependency.
 *
 * Versions 2 and 3 differ in two things only. A memory descriptor is a plain structure in 2, kept by the caller, and an
 * object in 3; either way functions take its address, which is a cv_dnnl_md here. And a convolution is described in two
 * calls in 2, in one in 3. cv_dnnl_md_strides, _md_any and cv_dnnl_convolution hide both; all else is called directly.
 * The values below are the same in both versions. */
#ifndef CV_DNNL_API_H
#define CV_DNNL_API_H

#include "convoy/convoy.h"

enum { CV_DNNL_DIMS = 12 };
typedef int64_t cv_dnnl_dims[CV_DNNL_DIMS];
typedef const void *cv_dnnl_md; /* const dnnl_memory_desc_t * in 2, const_dnnl_memory_desc_t in 3 */

typedef struct cv_dnnl_arg {
    int arg;
    void *memory;
} cv_dnnl_arg;

enum { CV_DNNL_OK = 0, CV_DNNL_NO_MEMORY = 1, CV_DNNL_UNIMPLEMENTED = 3 };
enum { CV_DNNL_FROM = 1, CV_DNNL_TO = 17, CV_DNNL_SRC = 1, CV_DNNL_DST = 17, CV_DNNL_WEIGHTS = 33, CV_DNNL_BIAS = 41 };
enum { CV_DNNL_SCRATCHPAD = 80 };
enum { CV_DNNL_SRC_MD = 129, CV_DNNL_WEIGHTS_MD = 131, CV_DNNL_DST_MD = 133, CV_DNNL_SCRATCHPAD_MD = 136 };
enum { CV_DNNL_IMPLEMENTATION = 8 };

typedef struct cv_dnnl {
    int major, minor, patch;
    void *engine; /* one for the process: it has no state that calls could disturb */
    void *attr;   /* fpmath strict, scratchpads from the caller */

    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_wait)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*memory_create)(void **memory, cv_dnnl_md md, void *engine, void *handle);
    int (*memory_set_data_handle)(void *memory, void *handle);
    int (*memory_destroy)(void *memory);
    size_t (*md_get_size)(cv_dnnl_md md);
    int (*md_equal)(cv_dnnl_md a, cv_dnnl_md b);
    int (*reorder_create)(void **pd, cv_dnnl_md from, void *from_engine, cv_dnnl_md to, void *to_engine, void *attr);
    cv_dnnl_md (*query_md)(void *pd, int what, int index);
    int (*query)(void *pd, int what, int index, void *result);
    int (*pd_destroy)(void *pd);
    int (*primitive_create)(void **primitive, void *pd);
    int (*primitive_execute)(const void *primitive, void *stream, int count, const cv_dnnl_arg *args);
    int (*primitive_destroy)(void *primitive);

    /* Its OpenMP runtime's; NULL in a sequential build. They set and read what belongs to the calling thread. */
    void (*set_threads)(int threads);
    int (*get_threads)(void);
} cv_dnnl;

/* The library, loaded by the first call; NULL with the words that complete "declined because ..." when there is none
 * that can be used. */
const cv_dnnl *cv_dnnl_get(const char **why);

/* A descriptor of our own making: element strides given, or the layout left to oneDNN. Must not be moved. */
typedef struct cv_dnnl_own_md {
    cv_dnnl_md md;                         /* NULL: none */
    _Alignas(16) unsigned char room[2048]; /* version 2's structure has 696 bytes */
} cv_dnnl_own_md;

int cv_dnnl_md_strides(const cv_dnnl *d, cv_dnnl_own_md *md, int dims, const int64_t *size, const int64_t *stride);
int cv_dnnl_md_any(const cv_dnnl *d, cv_dnnl_own_md *md, int dims, const int64_t *size);
void cv_dnnl_md_free(const cv_dnnl *d, cv_dnnl_own_md *md);

/* The primitive descriptor of a forward convolution by the direct algorithm. dilation is 0-based, as oneDNN has it. */
typedef struct cv_dnnl_window {
    cv_dnnl_dims stride, dilation, pad_low, pad_high;
} cv_dnnl_window;
int cv_dnnl_convolution(const cv_dnnl *d, void **pd, cv_dnnl_md x, cv_dnnl_md w, cv_dnnl_md bias, cv_dnnl_md y,
                        const cv_dnnl_window *window);

/* Runs work(user) so that oneDNN computes with that many threads, the caller's own setting being as before afterwards.
 * In the child of a fork the OpenMP threads of the parent are gone and a thread that had used them would wait for ever,
 * so there work runs on a new thread, for which OpenMP starts new ones. 0 when no thread is to be had. */
int cv_dnnl_run(const cv_dnnl *d, int threads, void (*work)(void *user), void *user);

#endif
