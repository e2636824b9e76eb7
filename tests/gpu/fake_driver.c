/* A CUDA driver in name only, for machines with or without a real one. FAKE_INIT is what cuInit and all that follows
 * answers, FAKE_VERSION the CUDA version that it claims to support; FAKE_GONE leaves out the function that finds the
 * others, FAKE_LACKS names one that is not found. */
#include <string.h>

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags);
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *found);

int cuInit(unsigned flags) { return (void)flags, FAKE_INIT; }

int cuDriverGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return 0;
}

static int anything(void) { return FAKE_INIT ? FAKE_INIT : 999; /* CUDA_ERROR_UNKNOWN */ }

#ifndef FAKE_GONE
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *found)
{
    const int lacks = strcmp(name, FAKE_LACKS) == 0;
    int (*const init)(unsigned) = cuInit;
    int (*const get_version)(int *) = cuDriverGetVersion;
    int (*const other)(void) = anything;
    int (*const find)(const char *, void **, int, unsigned long long) = cuGetProcAddress;
    int (*const find_2)(const char *, void **, int, unsigned long long, int *) = cuGetProcAddress_v2;
    (void)flags;
    if (strcmp(name, "cuInit") == 0)
        memcpy(function, &init, sizeof init);
    else if (strcmp(name, "cuDriverGetVersion") == 0)
        memcpy(function, &get_version, sizeof get_version);
    else if (strcmp(name, "cuGetProcAddress") == 0 && version < 12000)
        memcpy(function, &find, sizeof find);
    else if (strcmp(name, "cuGetProcAddress") == 0)
        memcpy(function, &find_2, sizeof find_2);
    else
        memcpy(function, &other, sizeof other);
    if (lacks)
        *function = NULL;
    if (found)
        *found = lacks;
    return lacks ? 500 : 0; /* CUDA_ERROR_NOT_FOUND */
}

int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags)
{
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
#endif
