/* NVIDIA's libraries as tables of functions, loaded when an engine first asks for them and then kept.
 *
 * Convoy links none of them: a machine without them, or without a driver, runs the same binary. Each open function
 * returns the one table of the process, or NULL with text that completes "declined because ...". Safe from any thread.
 */
#ifndef CV_VENDOR_H
#define CV_VENDOR_H

#include "platform/device.h"

#if CV_WITH_CUFFT
#include <cublas_v2.h>
#include <cufft.h>
#endif
#if CV_WITH_CUDNN
#include <cudnn.h>
#endif

#if CV_WITH_CUDNN
typedef struct cv_cudnn {
    int major, minor, patch;
    int cuda_major; /* of the runtime that it was built with */
    cudnnStatus_t (*create)(cudnnHandle_t *);
    cudnnStatus_t (*set_stream)(cudnnHandle_t, cudaStream_t);
    const char *(*error_string)(cudnnStatus_t);
    void (*last_error)(char *, size_t); /* NULL before cuDNN 9 */
    cudnnStatus_t (*make)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    cudnnStatus_t (*destroy)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                         const void *);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t,
                         int64_t *, void *);
    cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
} cv_cudnn;

const cv_cudnn *cv_cudnn_open(const cv_machine *machine, char *text, size_t bytes);
#endif

#if CV_WITH_CUFFT
typedef struct cv_cufft {
    int version; /* as cuFFT numbers it: 12100 is 12.1.0 */
    cufftResult (*create)(cufftHandle *);
    cufftResult (*destroy)(cufftHandle);
    cufftResult (*no_work_area)(cufftHandle, int);
    cufftResult (*make_many)(cufftHandle, int, long long *, long long *, long long, long long, long long *, long long,
                             long long, cufftType, long long, size_t *);
    cufftResult (*set_work_area)(cufftHandle, void *);
    cufftResult (*set_stream)(cufftHandle, cudaStream_t);
    cufftResult (*r2c)(cufftHandle, cufftReal *, cufftComplex *);
    cufftResult (*c2r)(cufftHandle, cufftComplex *, cufftReal *);
    cufftResult (*c2c)(cufftHandle, cufftComplex *, cufftComplex *, int);
} cv_cufft;

typedef struct cv_cublas {
    int major, minor, patch;
    cublasStatus_t (*create)(cublasHandle_t *);
    cublasStatus_t (*destroy)(cublasHandle_t);
    cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t);
    cublasStatus_t (*set_workspace)(cublasHandle_t, void *, size_t);
    cublasStatus_t (*set_math)(cublasHandle_t, cublasMath_t);
    cublasStatus_t (*sgemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const float *,
                            const float *, int, const float *, int, const float *, float *, int);
    cublasStatus_t (*cgemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const cuComplex *,
                            const cuComplex *, int, long long, const cuComplex *, int, long long, const cuComplex *,
                            cuComplex *, int, long long, int);
} cv_cublas;

const cv_cufft *cv_cufft_open(const cv_machine *machine, char *text, size_t bytes);
const cv_cublas *cv_cublas_open(const cv_machine *machine, char *text, size_t bytes);
#endif

/* "cudnn: 9.19.0", "cufft: 12.1.0", "cublas: 13.0.2", or "none" for one that is not to be had; a line each, for
 * cv_device_ops.versions. `refuse` of the engines has the reason. */
void cv_vendor_versions(const cv_machine *machine, char *text, size_t bytes);

#endif
