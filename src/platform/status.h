/* Failure in one expression: return cv_fail(CONVOY_INVALID, "stride_h is %lld: expected 1 or more", ...). The text is
 * kept for the calling thread and read through convoy_last_message(). */
#ifndef CV_STATUS_H
#define CV_STATUS_H

#include "convoy/convoy.h"

#if defined(__GNUC__)
#define CV_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define CV_PRINTF(a, b)
#endif

#ifdef __cplusplus
extern "C" {
#endif

convoy_status cv_fail(convoy_status status, const char *format, ...) CV_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif

#endif
