/* Loads cuDNN, cuFFT and cuBLAS, checks what was found, and fills their tables of functions. */
#include "gpu/vendor.h"
#include "platform/library.h"
#include "platform/memory.h"

#include <stdio.h>
#include <string.h>
#include <threads.h>

enum { TEXT_BYTES = 200 };

#if CV_WITH_CUDNN || CV_WITH_CUFFT
/* nvidia/cudnn/lib, nvidia/cublas/lib (CUDA 12's packages), nvidia/cu13/lib (CUDA 13's) */
static const char python_folders[] = "nvidia/*/lib";
static const char *const system_folders[] = {"/usr/local/cuda/lib64",          "/usr/local/cuda*/lib64",
                                             "/usr/local/cuda*/targets/*/lib", "/usr/lib/x86_64-linux-gnu",
                                             "/usr/lib/aarch64-linux-gnu",     NULL};

typedef struct entry {
    void *slot; /* a pointer to a function pointer */
    const char *symbol;
} entry;

/* Fills the table; on a missing symbol says so. */
static int resolve(void *library, const entry *entries, size_t count, const char *name, char *text)
{
    for (size_t i = 0; i < count; i++) {
        void *symbol = cv_library_symbol(library, entries[i].symbol);
        if (!symbol) {
            snprintf(text, TEXT_BYTES, "the %s found on this machine has no %s: it is too old", name,
                     entries[i].symbol);
            return 0;
        }
        memcpy(entries[i].slot, &symbol, sizeof symbol);
    }
    return 1;
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void *hunt(const char *variable, const char *const *names, char *text)
{
    const cv_library_hunt h = {variable, names, python_folders, system_folders};
    return cv_library_hunt_open(&h, text, TEXT_BYTES);
}

/* Opens what another library will ask the loader for by bare name, so that it is found where that one was. Absence is
 * no failure: only some of the other's functions need it. */
static void help(const char *const *names)
{
    char text[TEXT_BYTES];
    hunt(NULL, names, text);
}

/* A library of a newer CUDA than the driver's loads, and then fails at its first call: better said at once. */
static int driver_serves(const cv_machine *m, int cuda_major, const char *name, int major, int minor, char *text,
                         size_t bytes)
{
    if (cuda_major <= 0 || m->driver_version <= 0 || m->driver_version / 1000 >= cuda_major)
        return 1;
    snprintf(text, bytes, "%s %d.%d is built for CUDA %d and the driver supports CUDA %d.%d", name, major, minor,
             cuda_major, m->driver_version / 1000, m->driver_version % 1000 / 10);
    return 0;
}
#endif

/* ---- cuDNN */

#if CV_WITH_CUDNN
static struct {
    const cv_cudnn *open;
    cv_cudnn table;
    char why[TEXT_BYTES];
} dnn;

static void load_cudnn(void)
{
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8", NULL};
    static const char *const lt[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    static const char *const rtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    cv_cudnn *t = &dnn.table;
    size_t (*version)(void), (*runtime)(void);
    void *library = hunt("CONVOY_CUDNN_PATH", names, dnn.why);
    if (!library)
        return;
    const entry entries[] = {{&version, "cudnnGetVersion"},
                             {&runtime, "cudnnGetCudartVersion"},
                             {&t->create, "cudnnCreate"},
                             {&t->set_stream, "cudnnSetStream"},
                             {&t->error_string, "cudnnGetErrorString"},
                             {&t->make, "cudnnBackendCreateDescriptor"},
                             {&t->destroy, "cudnnBackendDestroyDescriptor"},
                             {&t->finalize, "cudnnBackendFinalize"},
                             {&t->set, "cudnnBackendSetAttribute"},
                             {&t->get, "cudnnBackendGetAttribute"},
                             {&t->execute, "cudnnBackendExecute"}};
    if (!resolve(library, entries, COUNT(entries), "cuDNN", dnn.why))
        return;
    void *last = cv_library_symbol(library, "cudnnGetLastErrorString");
    memcpy(&t->last_error, &last, sizeof last);
    const size_t v = version(), thousand = v >= 10000 ? 10000 : 1000; /* 91900 is 9.19.0, 8907 was 8.9.7 */
    t->major = (int)(v / thousand);
    t->minor = (int)(v % thousand / 100);
    t->patch = (int)(v % 100);
    t->cuda_major = (int)(runtime() / 1000);
    if (t->major < 8) {
        snprintf(dnn.why, sizeof dnn.why, "cuDNN %d.%d.%d has no graph interface: 8 or later is needed", t->major,
                 t->minor, t->patch);
        return;
    }
    help(lt);
    help(rtc);
    dnn.open = t;
}

const cv_cudnn *cv_cudnn_open(const cv_machine *m, char *text, size_t bytes)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_cudnn);
    if (!dnn.open) {
        snprintf(text, bytes, "%s", dnn.why);
        return NULL;
    }
    return driver_serves(m, dnn.open->cuda_major, "cuDNN", dnn.open->major, dnn.open->minor, text, bytes) ? dnn.open
                                                                                                          : NULL;
}
#endif

/* ---- cuFFT and cuBLAS */

#if CV_WITH_CUFFT
static struct {
    const cv_cufft *open;
    cv_cufft table;
    char why[TEXT_BYTES];
} fft;
static struct {
    const cv_cublas *open;
    cv_cublas table;
    char why[TEXT_BYTES];
} blas;

static void load_cufft(void)
{
    static const char *const names[] = {"libcufft.so.12", "libcufft.so.11", NULL};
    static const char *const link[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", NULL};
    cv_cufft *t = &fft.table;
    cufftResult (*version)(int *);
    help(link);
    void *library = hunt("CONVOY_CUFFT_PATH", names, fft.why);
    if (!library)
        return;
    const entry entries[] = {{&version, "cufftGetVersion"},
                             {&t->create, "cufftCreate"},
                             {&t->destroy, "cufftDestroy"},
                             {&t->no_work_area, "cufftSetAutoAllocation"},
                             {&t->make_many, "cufftMakePlanMany64"},
                             {&t->set_work_area, "cufftSetWorkArea"},
                             {&t->set_stream, "cufftSetStream"},
                             {&t->r2c, "cufftExecR2C"},
                             {&t->c2r, "cufftExecC2R"},
                             {&t->c2c, "cufftExecC2C"}};
    if (!resolve(library, entries, COUNT(entries), "cuFFT", fft.why))
        return;
    if (version(&t->version) != CUFFT_SUCCESS)
        t->version = 0;
    fft.open = t;
}

static void load_cublas(void)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};
    static const char *const lt[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    cv_cublas *t = &blas.table;
    cublasStatus_t (*property)(libraryPropertyType, int *);
    help(lt);
    void *library = hunt("CONVOY_CUBLAS_PATH", names, blas.why);
    if (!library)
        return;
    const entry entries[] = {{&property, "cublasGetProperty"},
                             {&t->create, "cublasCreate_v2"},
                             {&t->destroy, "cublasDestroy_v2"},
                             {&t->set_stream, "cublasSetStream_v2"},
                             {&t->set_workspace, "cublasSetWorkspace_v2"},
                             {&t->set_math, "cublasSetMathMode"},
                             {&t->sgemm, "cublasSgemm_v2"},
                             {&t->cgemm, "cublasCgemmStridedBatched"}};
    if (!resolve(library, entries, COUNT(entries), "cuBLAS", blas.why))
        return;
    property(MAJOR_VERSION, &t->major);
    property(MINOR_VERSION, &t->minor);
    property(PATCH_LEVEL, &t->patch);
    blas.open = t;
}

const cv_cufft *cv_cufft_open(const cv_machine *m, char *text, size_t bytes)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_cufft);
    if (!fft.open) {
        snprintf(text, bytes, "%s", fft.why);
        return NULL;
    }
    const int v = fft.open->version, major = v / 1000; /* cuFFT 11 came with CUDA 12, 12 with CUDA 13 */
    return driver_serves(m, major ? major + 1 : 0, "cuFFT", major, v % 1000 / 100, text, bytes) ? fft.open : NULL;
}

const cv_cublas *cv_cublas_open(const cv_machine *m, char *text, size_t bytes)
{
    static once_flag once = ONCE_FLAG_INIT;
    call_once(&once, load_cublas);
    if (!blas.open) {
        snprintf(text, bytes, "%s", blas.why);
        return NULL;
    }
    return driver_serves(m, blas.open->major, "cuBLAS", blas.open->major, blas.open->minor, text, bytes) ? blas.open
                                                                                                         : NULL;
}
#endif

static void add(char *text, size_t bytes, size_t *n, const char *name, int found, int major, int minor, int patch)
{
    if (*n < bytes && found)
        *n += (size_t)snprintf(text + *n, bytes - *n, "%s: %d.%d.%d\n", name, major, minor, patch);
    else if (*n < bytes)
        *n += (size_t)snprintf(text + *n, bytes - *n, "%s: none\n", name);
}

void cv_vendor_versions(const cv_machine *m, char *text, size_t bytes)
{
    char why[TEXT_BYTES];
    size_t n = 0;
    if (bytes)
        text[0] = 0;
    (void)m, (void)why;
#if CV_WITH_CUDNN
    const cv_cudnn *d = cv_cudnn_open(m, why, sizeof why);
    add(text, bytes, &n, "cudnn", d != NULL, d ? d->major : 0, d ? d->minor : 0, d ? d->patch : 0);
#else
    add(text, bytes, &n, "cudnn", 0, 0, 0, 0);
#endif
#if CV_WITH_CUFFT
    const cv_cufft *f = cv_cufft_open(m, why, sizeof why);
    const cv_cublas *b = cv_cublas_open(m, why, sizeof why);
    const int v = f ? f->version : 0;
    add(text, bytes, &n, "cufft", f != NULL, v / 1000, v % 1000 / 100, v % 100);
    add(text, bytes, &n, "cublas", b != NULL, b ? b->major : 0, b ? b->minor : 0, b ? b->patch : 0);
#else
    add(text, bytes, &n, "cufft", 0, 0, 0, 0);
    add(text, bytes, &n, "cublas", 0, 0, 0, 0);
#endif
}
