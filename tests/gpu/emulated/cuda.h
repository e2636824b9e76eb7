/* The driver's description of boxes, on the emulated machine: what the tensor copy engine asks for is checked. */
#ifndef CV_EMULATED_CUDA_H
#define CV_EMULATED_CUDA_H

#include <stdint.h>

typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum { CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7, CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2 };
enum { CU_TENSOR_MAP_SWIZZLE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_128B = 3, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

struct alignas(64) CUtensorMap {
    const char *from;
    int rank, swizzled;
    cuuint64_t sizes[5], strides[5]; /* strides in bytes, the first 4 */
    cuuint32_t box[5];
};

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, cuuint32_t rank, void *from, const cuuint64_t *sizes,
                                const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
                                int interleave, int swizzle, int promotion, int fill);

#endif
