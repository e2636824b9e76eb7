/* A CUDA runtime that launches nothing: fake_cuda MAJOR MULTIPROCESSORS SHARED_BYTES RESOURCES PROBLEM...
 *
 * Linked to a submission's compiled kernels, it runs their host code for each PROBLEM (n,c,h,k,r) as on a GPU with so
 * much shared memory for a block to opt in to, and holds every launch to what that GPU grants. RESOURCES: lines "kernel
 * registers static-shared-bytes" as the compiler reports them. Prints what was refused; 0 when nothing was. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long long convoy_board_bytes(const long long *problem);
const char *convoy_board_run(const long long *problem, const float *x, const float *w, float *y, void *workspace);

enum { KERNELS = 4096, USUAL = 48 * 1024 };

static struct kernel {
    const void *host;
    char name[512];
    int registers, fixed, allowed; /* allowed: dynamic shared bytes */
} kernels[KERNELS];
static int count, launches, refusals, major, multiprocessors, most;

static struct kernel *of(const void *host)
{
    for (int i = 0; i < count; i++)
        if (kernels[i].host == host)
            return &kernels[i];
    return NULL;
}

static cudaError_t refuse(const struct kernel *k, const char *what, long long got, long long granted)
{
    refusals++;
    printf("%s: %s is %lld: at most %lld there\n", k ? k->name : "an unknown kernel", what, got, granted);
    return cudaErrorInvalidValue;
}

/* ---- What the compiler's own code calls */

void **__cudaRegisterFatBinary(void *code) { return (void)code, calloc(1, sizeof(void *)); }
void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }
void __cudaUnregisterFatBinary(void **handle) { free(handle); }
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size, int constant,
                       int global)
{
    (void)handle, (void)host, (void)device, (void)name, (void)ext, (void)size, (void)constant, (void)global;
}
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *a,
                            void *b, void *c, void *d, int *e)
{
    (void)handle, (void)device, (void)threads, (void)a, (void)b, (void)c, (void)d, (void)e;
    if (count == KERNELS)
        abort();
    kernels[count].host = host;
    snprintf(kernels[count++].name, sizeof kernels->name, "%s", name);
}

static struct call {
    dim3 grid, block;
    size_t shared;
    void *stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    pushed = (struct call){grid, block, shared, stream};
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared;
    memcpy(stream, &pushed.stream, sizeof(void *));
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(void **kernel, const void *host) { return *kernel = (void *)host, cudaSuccess; }

/* ---- The runtime */

cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    const struct kernel *k = of(host);
    const long long threads = (long long)block.x * block.y * block.z;
    (void)args, (void)stream;
    launches++;
    if (!k || threads < 1 || threads > 1024)
        return refuse(k, "the number of threads of a block", threads, 1024);
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        return refuse(k, "a side of the grid", grid.x, 0x7fffffff);
    if ((long long)shared > k->allowed)
        return refuse(k, "dynamic shared memory", (long long)shared, k->allowed);
    if ((k->registers + 7) / 8 * 8 * ((threads + 31) / 32 * 32) > 65536)
        return refuse(k, "the registers of a block", k->registers * threads, 65536);
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **args, size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, args, shared, stream);
}
cudaError_t cudaFuncSetAttribute(const void *host, enum cudaFuncAttribute which, int value)
{
    struct kernel *k = of(host);
    if (!k || which != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > most - k->fixed)
        return refuse(k, "the dynamic shared memory asked for", value, k ? most - k->fixed : 0);
    k->allowed = value > USUAL - k->fixed ? value : USUAL - k->fixed;
    return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *host)
{
    const struct kernel *k = of(host);
    if (!k)
        return refuse(k, "a kernel", 0, 0);
    memset(a, 0, sizeof *a);
    a->sharedSizeBytes = (size_t)k->fixed;
    a->numRegs = k->registers;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int device)
{
    (void)device;
    switch (which) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = most;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = multiprocessors;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = major;
        return cudaSuccess;
    default:
        return cudaErrorInvalidValue;
    }
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    return (void)to, (void)value, (void)bytes, (void)stream, cudaSuccess;
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorName(cudaError_t e) { return e ? "refused" : "cudaSuccess"; }
static int done(void) { return 0; }
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **address, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *found)
{
    (void)name, (void)version, (void)flags;
    *address = (void *)done;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

int main(int n, char **given)
{
    if (n < 6)
        return 2;
    major = atoi(given[1]), multiprocessors = atoi(given[2]), most = atoi(given[3]);
    FILE *f = fopen(given[4], "r");
    char name[512];
    int registers, fixed;
    while (f && fscanf(f, "%511s %d %d", name, &registers, &fixed) == 3)
        for (int i = 0; i < count; i++)
            if (!strcmp(kernels[i].name, name))
                kernels[i].registers = registers, kernels[i].fixed = fixed, kernels[i].allowed = USUAL - fixed;
    for (int i = 0; i < count; i++)
        if (!kernels[i].registers)
            refuse(&kernels[i], "what is known of it", 0, 0);
    for (int i = 5; i < n; i++) {
        long long p[5];
        if (sscanf(given[i], "%lld,%lld,%lld,%lld,%lld", p, p + 1, p + 2, p + 3, p + 4) != 5)
            return 2;
        const int before = launches;
        const long long bytes = convoy_board_bytes(p);
        char *at = (char *)0x10000000; /* never read */
        const char *failed =
            bytes < 0 ? "it has no plan" : convoy_board_run(p, (float *)at, (float *)at, (float *)at, at);
        if (failed || launches == before) {
            printf("%s: %s\n", given[i], failed ? failed : "nothing was launched");
            refusals++;
        }
    }
    printf("%d launches of %d kernels\n", launches, count);
    return refusals > 0;
}
