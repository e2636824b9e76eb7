/* The backend interface in fewer words; for the files of this folder. */
#ifndef CV_CUDNN_DESCRIPTOR_H
#define CV_CUDNN_DESCRIPTOR_H

#include "graph.h"

typedef cudnnBackendDescriptor_t descriptor;

static inline int cv_dnn_set(const cv_dnn_graph *g, descriptor d, cudnnBackendAttributeName_t name,
                             cudnnBackendAttributeType_t type, int64_t count, const void *value)
{
    return g->dnn->set(d, name, type, count, value) == CUDNN_STATUS_SUCCESS;
}

static inline int cv_dnn_set_one(const cv_dnn_graph *g, descriptor d, cudnnBackendAttributeName_t name,
                                 descriptor value)
{
    return cv_dnn_set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static inline int cv_dnn_set_ints(const cv_dnn_graph *g, descriptor d, cudnnBackendAttributeName_t name, int64_t count,
                                  const int64_t *values)
{
    return cv_dnn_set(g, d, name, CUDNN_TYPE_INT64, count, values);
}

static inline int cv_dnn_finish(const cv_dnn_graph *g, descriptor d)
{
    return g->dnn->finalize(d) == CUDNN_STATUS_SUCCESS;
}

static inline descriptor cv_dnn_make(const cv_dnn_graph *g, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    return g->dnn->make(type, &d) == CUDNN_STATUS_SUCCESS ? d : NULL;
}

static inline void cv_dnn_drop(const cv_dnn_graph *g, descriptor d)
{
    if (d)
        g->dnn->destroy(d);
}

#endif
