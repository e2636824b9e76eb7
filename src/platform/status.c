#include "status.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 512 };

static _Thread_local char message[MESSAGE_BYTES];

convoy_status cv_fail(convoy_status status, const char *format, ...)
{
    char text[MESSAGE_BYTES]; /* the arguments may point into the old message */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(message, sizeof message, "%s", text);
    return status;
}

const char *convoy_last_message(void) { return message; }

const char *convoy_status_text(convoy_status status)
{
    switch (status) {
    case CONVOY_OK:
        return "success";
    case CONVOY_INVALID:
        return "invalid argument";
    case CONVOY_UNSUPPORTED:
        return "not supported";
    case CONVOY_OUT_OF_MEMORY:
        return "out of memory";
    case CONVOY_DEVICE_ERROR:
        return "device error";
    case CONVOY_IO_ERROR:
        return "file error";
    case CONVOY_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}
