/* A vendor's library with nothing in it but its version and the names that Convoy looks up: FAKE_CUDNN, FAKE_CUFFT or
 * FAKE_CUBLAS says whose, FAKE_VERSION and FAKE_CUDA what it claims, FAKE_GONE that a name is missing. */
#include <stddef.h>

#define HERE(name)                                                                                                     \
    int name(void);                                                                                                    \
    int name(void) { return 1; } /* an error, whoever's */

#ifdef FAKE_CUDNN
size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void) { return FAKE_VERSION; }
size_t cudnnGetCudartVersion(void);
size_t cudnnGetCudartVersion(void) { return FAKE_CUDA; }
HERE(cudnnCreate)
HERE(cudnnSetStream)
HERE(cudnnGetErrorString)
HERE(cudnnBackendCreateDescriptor)
HERE(cudnnBackendDestroyDescriptor)
HERE(cudnnBackendFinalize)
HERE(cudnnBackendSetAttribute)
HERE(cudnnBackendGetAttribute)
#ifndef FAKE_GONE
HERE(cudnnBackendExecute)
#endif
#endif

#ifdef FAKE_CUFFT
int cufftGetVersion(int *version);
int cufftGetVersion(int *version)
{
    *version = FAKE_VERSION;
    return 0;
}
HERE(cufftCreate)
HERE(cufftDestroy)
HERE(cufftSetAutoAllocation)
HERE(cufftMakePlanMany64)
HERE(cufftSetWorkArea)
HERE(cufftSetStream)
HERE(cufftExecR2C)
HERE(cufftExecC2R)
#ifndef FAKE_GONE
HERE(cufftExecC2C)
#endif
#endif

#ifdef FAKE_CUBLAS
int cublasGetProperty(int which, int *value);
int cublasGetProperty(int which, int *value)
{
    *value = which == 0 ? FAKE_VERSION / 1000 : which == 1 ? FAKE_VERSION % 1000 / 100 : FAKE_VERSION % 100;
    return 0;
}
HERE(cublasCreate_v2)
HERE(cublasDestroy_v2)
HERE(cublasSetStream_v2)
HERE(cublasSetWorkspace_v2)
HERE(cublasSetMathMode)
HERE(cublasSgemm_v2)
#ifndef FAKE_GONE
HERE(cublasCgemmStridedBatched)
#endif
#endif
