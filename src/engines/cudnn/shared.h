/* What all plans of the engine share. One cuDNN handle a device serves the process, under one lock: enqueueing is
 * short, and executions overlap on the GPU as their streams allow. */
#ifndef CV_CUDNN_SHARED_H
#define CV_CUDNN_SHARED_H

#include "graph.h"

typedef struct cv_dnn_offer {
    int used, device, count;
    convoy_problem p;
    char why[CV_REASON_BYTES]; /* when count is 0 */
    cv_dnn_config config[CV_DNN_CONFIGS];
} cv_dnn_offer;

void cv_dnn_enter(void);
void cv_dnn_leave(void);

/* Under the lock. The device's handle; NULL with words in why. */
cudnnHandle_t cv_dnn_handle(const cv_machine *m, const cv_cudnn *dnn, char *why, size_t bytes);

/* Under the lock, and valid under it. What cuDNN offers for the problem, asked once; NULL with words when there is no
 * handle. */
const cv_dnn_offer *cv_dnn_offer_of(const cv_request *q, const cv_cudnn *dnn, char *why, size_t bytes);

#endif
