/* One convolution as a cuDNN operation graph, and the ways cuDNN offers to run it in FP32. */
#ifndef CV_CUDNN_GRAPH_H
#define CV_CUDNN_GRAPH_H

#include "core/engine.h"
#include "gpu/vendor.h"

enum { CV_DNN_KNOBS = CV_CHOICE - 1, CV_DNN_CONFIGS = 320 };
enum { CV_DNN_FFT = 1, CV_DNN_WINOGRAD = 2 };

enum { CV_DNN_X = 1, CV_DNN_W = 2, CV_DNN_Y = 3 }; /* unique ids of the tensors */

typedef struct cv_dnn_graph {
    const cv_cudnn *dnn;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t x, w, y, conv, op, graph;
} cv_dnn_graph;

/* candidate.v: the engine's global index, then a value for each of its knobs in the engine's order; -1 leaves a knob to
 * cuDNN. */
typedef struct cv_dnn_config {
    cv_candidate candidate;
    size_t workspace_bytes;
    unsigned notes;
} cv_dnn_config;

/* 1 on success. On failure why completes "declined because ...". The graph is released by cv_dnn_graph_free either way.
 */
int cv_dnn_graph_make(cv_dnn_graph *g, const cv_cudnn *dnn, cudnnHandle_t handle, const cv_request *q, char *why,
                      size_t bytes);
void cv_dnn_graph_free(cv_dnn_graph *g);

/* All configurations that multiply and add in FP32 only: those of cuDNN's heuristics first, in their order, then every
 * other combination of knob values. Each was finalised as a plan, so that it is known to be supported. */
int cv_dnn_list(const cv_dnn_graph *g, cv_dnn_config *list, int capacity);

/* An execution plan for one configuration, or NULL. */
cudnnBackendDescriptor_t cv_dnn_plan(const cv_dnn_graph *g, const cv_candidate *candidate, cv_dnn_config *facts);

/* Seconds that a configuration is likely to take, the one at this place of the list (cost.c). */
double cv_dnn_seconds(const cv_request *q, const cv_dnn_config *c, int place);

/* cuDNN's words for its last failure. */
void cv_dnn_words(const cv_cudnn *dnn, cudnnStatus_t status, char *text, size_t bytes);

#endif
