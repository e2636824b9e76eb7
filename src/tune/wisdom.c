/* In-process wisdom: nothing is kept yet between contexts. */
#include "wisdom.h"

convoy_status cv_wisdom_open(convoy_context *context, const char *path, void **wisdom)
{
    (void)context, (void)path;
    *wisdom = NULL;
    return CONVOY_OK;
}

void cv_wisdom_close(convoy_context *context, void *wisdom) { (void)context, (void)wisdom; }

int cv_wisdom_lookup(convoy_context *context, void *wisdom, const cv_request *request, const convoy_plan_options *options, cv_choice *choice)
{
    (void)context, (void)wisdom, (void)request, (void)options, (void)choice;
    return 0;
}

double cv_wisdom_engine_s(convoy_context *context, void *wisdom, const cv_request *request, const cv_engine *engine)
{
    (void)context, (void)wisdom, (void)request, (void)engine;
    return 0;
}

void cv_wisdom_store(convoy_context *context, void *wisdom, const cv_request *request, const convoy_plan_options *options,
                     const cv_choice *choice)
{
    (void)context, (void)wisdom, (void)request, (void)options, (void)choice;
}

convoy_status convoy_wisdom_each(const char *path, void (*each)(void *, const char *, const char *, const char *), void *user, int *damaged)
{
    (void)each, (void)user;
    if (damaged)
        *damaged = 0;
    return cv_fail(CONVOY_UNSUPPORTED, "wisdom file '%.200s': this version keeps none", path ? path : "");
}

convoy_status convoy_wisdom_merge(const char *into, const char *from)
{
    (void)from;
    return cv_fail(CONVOY_UNSUPPORTED, "wisdom file '%.200s': this version keeps none", into ? into : "");
}

convoy_status convoy_wisdom_clear(const char *path)
{
    return cv_fail(CONVOY_UNSUPPORTED, "wisdom file '%.200s': this version keeps none", path ? path : "");
}
