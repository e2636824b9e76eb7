/* .npy in and out: the header's dialects, every kind of damage, and files that appear whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "npy.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct bytes {
    unsigned char data[1 << 17];
    size_t size;
};

/* A file of the given version: header text as it is, then count floats 0, 1, 2, ... */
static void compose(struct bytes *b, int version, const char *header, int count)
{
    const size_t length = strlen(header);
    memcpy(b->data, "\x93NUMPY", 6);
    b->data[6] = (unsigned char)version;
    b->data[7] = 0;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        b->data[8 + i] = (unsigned char)(length >> (8 * i));
    b->size = version == 1 ? 10 : 12;
    memcpy(b->data + b->size, header, length);
    b->size += length;
    for (int i = 0; i < count; i++, b->size += sizeof(float))
        memcpy(b->data + b->size, &(float){(float)i}, sizeof(float));
}

static int read_bytes(const struct bytes *b, size_t size, struct npy *array, char why[NPY_WHY])
{
    FILE *in = fmemopen((void *)(uintptr_t)b->data, size ? size : 1, "rb");
    assert_non_null(in);
    if (size == 0)
        fgetc(in);
    const int result = npy_read(in, array, why);
    fclose(in);
    return result;
}

static void reads(void **state)
{
    (void)state;
    static const struct {
        int version;
        const char *header;
    } good[] = {
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"},
        {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"},
        {3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"},
        {1, "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}"},
        {1, "{'descr': '=f4', 'fortran_order': False, 'shape': (2L, 3L)}   \n"},
        {1, "  { 'fortran_order' :False,'shape': ( 2 , 3 , ) , 'descr': 'f4' , }\t\n"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        static struct bytes b;
        struct npy array;
        char why[NPY_WHY];
        compose(&b, good[i].version, good[i].header, 6);
        assert_int_equal(read_bytes(&b, b.size, &array, why), 0);
        assert_int_equal(array.dims, 2);
        assert_int_equal(array.shape[0], 2);
        assert_int_equal(array.shape[1], 3);
        assert_int_equal(array.count, 6);
        for (int j = 0; j < 6; j++)
            assert_true(array.data[j] == (float)j);
        free(array.data);
    }
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *header, *word; /* which the explanation holds */
        int count;
    } bad[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }", "astype(numpy.float32)", 6},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (6,), }", "astype(numpy.float32)", 6},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (6,), }", "'<f2'", 6},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,), }", "fields", 6},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "ascontiguousarray", 6},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3), }", "True or False", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (7,), }", "truncated", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", "goes on", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 2, 3), }", "dimensions", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3), }", "a size", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }", "','", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 6, }", "tuple", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "2^63", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3037000500, 3037000500, 2), }", "2^60", 6},
        {"{'descr': '<f4', 'fortran_order': False, }", "lacks", 6},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", "twice", 6},
        {"{'descr': '<f4', 'other': 1, 'fortran_order': False, 'shape': (6,), }", "'other'", 6},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } more", "the header's end", 6},
        {"{'descr': '<f4", "quoted word", 0},
        {"", "dictionary", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        static struct bytes b;
        struct npy array;
        char why[NPY_WHY];
        compose(&b, 1, bad[i].header, bad[i].count);
        assert_int_equal(read_bytes(&b, b.size, &array, why), -1);
        if (!strstr(why, bad[i].word))
            fail_msg("%s: '%s' does not say '%s'", bad[i].header, why, bad[i].word);
        assert_null(array.data);
        assert_int_equal(array.count, 0);
    }
}

static void refuses_preambles(void **state)
{
    (void)state;
    static struct bytes b;
    struct npy array;
    char why[NPY_WHY];
    compose(&b, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 6);
    for (size_t size = 0; size < b.size; size++) /* wherever it is cut */
        assert_int_equal(read_bytes(&b, size, &array, why), -1);
    b.data[0] ^= 1;
    assert_int_equal(read_bytes(&b, b.size, &array, why), -1);
    assert_non_null(strstr(why, "does not begin"));
    b.data[0] ^= 1;
    b.data[6] = 9;
    assert_int_equal(read_bytes(&b, b.size, &array, why), -1);
    assert_non_null(strstr(why, "version is 9.0"));
    compose(&b, 2, "{", 0);
    memcpy(b.data + 8, "\xff\xff\xff\x7f", 4); /* a header of 2 GiB */
    assert_int_equal(read_bytes(&b, b.size, &array, why), -1);
    assert_non_null(strstr(why, "2147483647"));
    compose(&b, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1048576, 1048576), }",
            6); /* 4 TiB that are not there */
    assert_int_equal(read_bytes(&b, b.size, &array, why), -1);
    assert_non_null(strstr(why, "truncated"));
}

static int files_in(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0; /* hidden ones count */
    closedir(dir);
    return count;
}

static void saves(void **state)
{
    (void)state;
    char folder[] = "/tmp/convoy-npy-XXXXXX", path[64], link[64], why[NPY_WHY];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/y.npy", folder);
    snprintf(link, sizeof link, "%s/link.npy", folder);
    float data[6] = {0, -0.0f, 1e-40f, INFINITY, 3.5f, 5};
    const struct npy array = {.dims = 4, .shape = {1, 2, 3, 1}, .count = 6, .data = data};
    struct npy back;
    struct stat info;
    assert_int_equal(npy_save(path, &array, why), 0);
    assert_int_equal(symlink(path, link), 0);
    data[5] = 6;
    assert_int_equal(npy_save(link, &array, why), 0); /* over what was there, through the link */
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(npy_load(path, &back, why), 0);
    assert_int_equal(back.dims, 4);
    assert_memory_equal(back.shape, array.shape, sizeof back.shape);
    assert_memory_equal(back.data, data, sizeof data);
    free(back.data);
    assert_int_equal(files_in(folder), 2);

    assert_int_equal(npy_save(folder, &array, why), -1);
    snprintf(link, sizeof link, "%s/none/y.npy", folder);
    assert_int_equal(npy_save(link, &array, why), -1);
    assert_int_equal(npy_load(link, &back, why), -1);
    assert_int_equal(npy_load(folder, &back, why), -1);
    assert_int_equal(files_in(folder), 2);

    assert_int_equal(npy_save("/dev/full", &array, why), -1); /* a device is written to, never replaced */
    assert_int_equal(stat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode));

    snprintf(link, sizeof link, "%s/link.npy", folder);
    unlink(link);
    unlink(path);
    rmdir(folder);
}

static void saves_empty_and_flat(void **state)
{
    (void)state;
    char path[] = "/tmp/convoy-npy-XXXXXX", why[NPY_WHY];
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    float value = 7;
    const struct npy empty = {.dims = 4, .shape = {0, 2, 3, 1}, .count = 0, .data = &value},
                     flat = {.dims = 1, .shape = {1}, .count = 1, .data = &value};
    struct npy back;
    assert_int_equal(npy_save(path, &empty, why), 0);
    assert_int_equal(npy_load(path, &back, why), 0);
    assert_int_equal(back.dims, 4);
    assert_int_equal(back.count, 0);
    free(back.data);
    assert_int_equal(npy_save(path, &flat, why), 0);
    assert_int_equal(npy_load(path, &back, why), 0);
    assert_int_equal(back.dims, 1);
    assert_true(back.data[0] == 7);
    free(back.data);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_preambles),
        cmocka_unit_test(saves),
        cmocka_unit_test(saves_empty_and_flat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
