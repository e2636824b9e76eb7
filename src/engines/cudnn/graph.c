/* Builds the operation graph of one forward convolution: x, w, y, FP32 compute, cross-correlation. */
#include "descriptor.h"

#include <stdio.h>
#include <string.h>

void cv_dnn_words(const cv_cudnn *dnn, cudnnStatus_t status, char *text, size_t bytes)
{
    char last[160] = "";
    if (dnn->last_error)
        dnn->last_error(last, sizeof last);
    for (char *c = last; *c; c++)
        if (*c == '\n')
            *c = ' ';
    snprintf(text, bytes, "cuDNN says %s%s%s", dnn->error_string(status), *last ? ": " : "", last);
}

/* The stride of a dimension of size 1 means nothing to us, but cuDNN looks at it: give it the packed one. */
static descriptor tensor(const cv_dnn_graph *g, int64_t uid, const int64_t size[4], const int64_t stride[4])
{
    int64_t steps[4] = {1, 1, 1, 1}, alignment = sizeof(float); /* all that convoy_args promises */
    for (int i = 3; i >= 0; i--)
        steps[i] = size[i] > 1 ? stride[i] : i == 3 ? 1 : steps[i + 1] * size[i + 1];
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    descriptor d = cv_dnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    if (d && cv_dnn_set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, 4, size) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_STRIDES, 4, steps) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, &uid) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &alignment) && cv_dnn_finish(g, d))
        return d;
    cv_dnn_drop(g, d);
    return NULL;
}

static descriptor convolution(const cv_dnn_graph *g, const convoy_problem *p)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t dims = 2, dilation[2] = {p->dil_h, p->dil_w}, stride[2] = {p->stride_h, p->stride_w};
    const int64_t before[2] = {p->pad_t, p->pad_l}, after[2] = {p->pad_b, p->pad_r};
    descriptor d = cv_dnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    if (d && cv_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
        cv_dnn_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, &dims) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, 2, dilation) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 2, stride) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 2, before) &&
        cv_dnn_set_ints(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 2, after) && cv_dnn_finish(g, d))
        return d;
    cv_dnn_drop(g, d);
    return NULL;
}

static descriptor operation(const cv_dnn_graph *g)
{
    const float one = 1, zero = 0;
    descriptor d = cv_dnn_make(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    if (d && cv_dnn_set(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one) &&
        cv_dnn_set(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &zero) &&
        cv_dnn_set_one(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, g->conv) &&
        cv_dnn_set_one(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, g->x) &&
        cv_dnn_set_one(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, g->w) &&
        cv_dnn_set_one(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, g->y) && cv_dnn_finish(g, d))
        return d;
    cv_dnn_drop(g, d);
    return NULL;
}

int cv_dnn_graph_make(cv_dnn_graph *g, const cv_cudnn *dnn, cudnnHandle_t handle, const cv_request *q, char *why,
                      size_t bytes)
{
    const convoy_problem *p = &q->p;
    const int64_t xs[4] = {p->n, p->c, p->h, p->w}, ws[4] = {p->k, q->cg, p->r, p->s}, ys[4] = {p->n, p->k, q->P, q->Q};
    memset(g, 0, sizeof *g);
    g->dnn = dnn;
    g->handle = handle;
    if ((g->x = tensor(g, CV_DNN_X, xs, p->x_stride)) && (g->w = tensor(g, CV_DNN_W, ws, p->w_stride)) &&
        (g->y = tensor(g, CV_DNN_Y, ys, p->y_stride)) && (g->conv = convolution(g, p)) && (g->op = operation(g)) &&
        (g->graph = cv_dnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)) &&
        cv_dnn_set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) &&
        cv_dnn_set_one(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, g->op) && cv_dnn_finish(g, g->graph))
        return 1;
    cv_dnn_words(dnn, CUDNN_STATUS_NOT_SUPPORTED, why, bytes);
    return 0;
}

void cv_dnn_graph_free(cv_dnn_graph *g)
{
    if (!g->dnn)
        return;
    cv_dnn_drop(g, g->graph), cv_dnn_drop(g, g->op), cv_dnn_drop(g, g->conv), cv_dnn_drop(g, g->y),
        cv_dnn_drop(g, g->w), cv_dnn_drop(g, g->x);
    memset(g, 0, sizeof *g);
}
