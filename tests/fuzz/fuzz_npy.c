/* Any bytes as a .npy file: an array with as many elements as its shape says, or an explanation; never more. */
#include "cli/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct npy array;
    char why[NPY_WHY];
    FILE *in = size ? fmemopen((void *)(uintptr_t)data, size, "rb") : NULL;
    if (!in)
        return 0;
    if (npy_read(in, &array, why) == 0) {
        int64_t count = 1;
        volatile float sum = 0;
        for (int i = 0; i < array.dims; i++)
            count *= array.shape[i];
        for (int64_t i = 0; i < array.count; i++)
            sum = sum + array.data[i]; /* the memory is there */
        if (!array.data || array.dims > NPY_MOST_DIMS || count != array.count ||
            (size_t)array.count * sizeof(float) >= size)
            abort();
    } else if (array.data || !why[0]) {
        abort();
    }
    free(array.data);
    fclose(in);
    return 0;
}
