/* NumPy's .npy files: C order, float32, up to four dimensions. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NPY_MOST_DIMS = 4, NPY_HEADER_MOST = 65536, NPY_WHY = 256 };

struct npy {
    int dims;
    int64_t shape[NPY_MOST_DIMS];
    int64_t count; /* elements: the product of the shape */
    float *data;   /* malloc'ed; NULL after a failure */
};

/* Reads the array that a stream holds from here to its end. 0, or -1 with the words in why: what is wrong, what was
 * expected. */
int npy_read(FILE *in, struct npy *array, char why[NPY_WHY]);

/* The same from a file. */
int npy_load(const char *path, struct npy *array, char why[NPY_WHY]);

/* Writes a file that appears whole or not at all: to a temporary file next to it, then renamed. Its mode and owner stay
 * when there was one; one that is write-protected is left alone. What is no regular file (a device, a pipe), or
 * standard output, is written directly. */
int npy_save(const char *path, const struct npy *array, char why[NPY_WHY]);

/* A pipe or file that is standard output by another name: then no report must follow the array there. */
bool npy_is_stdout(const char *path);

/* "(4, 64, 128, 128)", as Python writes it. */
void npy_shape_text(const struct npy *array, char *text, size_t bytes);

#endif
