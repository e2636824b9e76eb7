#include "wisdom_book.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char magic[] = "# convoy wisdom 1", head[] = "machine ", between[] = " = ";

enum { SUM_BYTES = 10 }; /* " #" and eight digits */

struct cv_book_block {
    struct cv_book_block *next;
    char text[];
};

/* FNV-1a: for a given rest of the line, no two values of one byte give the same sum, so no single damaged byte passes.
 */
static const uint32_t sum_seed = 2166136261u;

static uint32_t sum(uint32_t seed, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        seed = (seed ^ (unsigned char)text[i]) * 16777619u;
    return seed;
}

void cv_book_open(cv_book *book, const convoy_allocator *memory)
{
    memset(book, 0, sizeof *book);
    book->memory = memory;
}

void cv_book_close(cv_book *book)
{
    while (book->blocks) {
        struct cv_book_block *block = book->blocks;
        book->blocks = block->next;
        cv_free(book->memory, block);
    }
    cv_free(book->memory, book->section);
    cv_free(book->memory, book->line);
    cv_book_open(book, book->memory);
}

static convoy_status no_memory(void) { return cv_fail(CONVOY_OUT_OF_MEMORY, "out of memory: wisdom"); }

/* Room for bytes and a zero that lives as long as the book. */
static char *block_make(cv_book *book, size_t bytes)
{
    struct cv_book_block *block = cv_alloc(book->memory, sizeof *block + bytes + 1);
    if (!block)
        return NULL;
    block->next = book->blocks;
    book->blocks = block;
    block->text[bytes] = 0;
    return block->text;
}

static char *copy_text(cv_book *book, const char *text)
{
    char *copy = block_make(book, strlen(text));
    return copy ? strcpy(copy, text) : NULL;
}

/* Makes room for one more element of an array. */
static int grow(const convoy_allocator *memory, void **array, int count, int *room, size_t element)
{
    if (count < *room)
        return 1;
    const int more = *room ? 2 * *room : 16;
    void *bigger = cv_alloc(memory, (size_t)more * element);
    if (!bigger)
        return 0;
    if (count)
        memcpy(bigger, *array, (size_t)count * element);
    cv_free(memory, *array);
    *array = bigger;
    *room = more;
    return 1;
}

static int find_section(const cv_book *book, const char *text)
{
    for (int i = 0; i < book->sections; i++)
        if (strcmp(book->section[i], text) == 0)
            return i;
    return -1;
}

/* The section's number, added when it is new; -1 when memory is short. text must live as long as the book. */
static int add_section(cv_book *book, const char *text)
{
    const int known = find_section(book, text);
    if (known >= 0)
        return known;
    void *array = (void *)book->section;
    if (!grow(book->memory, &array, book->sections, &book->section_room, sizeof *book->section))
        return -1;
    book->section = array;
    book->section[book->sections] = text;
    return book->sections++;
}

static int add_line(cv_book *book, int section, const char *key, const char *value)
{
    void *array = book->line;
    if (!grow(book->memory, &array, book->lines, &book->line_room, sizeof *book->line))
        return 0;
    book->line = array;
    book->line[book->lines++] = (cv_book_line){section, key, value};
    return 1;
}

static int plain_text(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return 0;
    return 1;
}

/* The length of the line without its checksum; 0 when that does not fit. */
static size_t checked(uint32_t seed, const char *line, size_t bytes)
{
    char expected[SUM_BYTES + 1];
    if (bytes <= SUM_BYTES || !plain_text(line, bytes))
        return 0;
    snprintf(expected, sizeof expected, " #%08x", (unsigned)sum(seed, line, bytes - SUM_BYTES));
    return memcmp(line + bytes - SUM_BYTES, expected, SUM_BYTES) == 0 ? bytes - SUM_BYTES : 0;
}

/* 1: taken, 0: damaged, -1: out of memory. Cuts the line into texts in place. *section is the one that holds here. */
static int parse_line(cv_book *book, char *line, size_t bytes, int *section)
{
    size_t length = checked(sum_seed, line, bytes);
    if (length > sizeof head - 1 && memcmp(line, head, sizeof head - 1) == 0) {
        line[length] = 0;
        *section = add_section(book, line + sizeof head - 1);
        return *section < 0 ? -1 : 1;
    }
    if (*section < 0)
        return 0;
    const char *owner = book->section[*section];
    length = checked(sum(sum_seed, owner, strlen(owner)), line, bytes);
    if (!length)
        return 0;
    line[length] = 0;
    char *middle = strstr(line, between);
    if (!middle || middle == line)
        return 0;
    *middle = 0;
    return add_line(book, *section, line, middle + sizeof between - 1) ? 1 : -1;
}

/* A first line that is mostly the right one, whole or cut short. */
static int like_magic(const char *line, size_t bytes)
{
    size_t same = 0, most = bytes < sizeof magic - 1 ? bytes : sizeof magic - 1;
    for (size_t i = 0; i < most; i++)
        same += line[i] == magic[i];
    return bytes < sizeof magic + 8 && 3 * same >= 2 * most;
}

convoy_status cv_book_parse(cv_book *book, const char *text, size_t bytes)
{
    int section = -1, good = 0, looks_right = 1;
    char *own = block_make(book, bytes);
    if (!own)
        return no_memory();
    memcpy(own, text, bytes);
    for (size_t at = 0; at < bytes;) {
        char *line = own + at, *stop = memchr(line, '\n', bytes - at);
        const size_t length = stop ? (size_t)(stop - line) : bytes - at;
        if (at == 0) {
            looks_right = like_magic(line, length);
            book->damaged += length != sizeof magic - 1 || memcmp(line, magic, length) != 0;
        } else if (length) {
            const int taken = parse_line(book, line, length, &section);
            if (taken < 0)
                return no_memory();
            good += taken;
            book->damaged += !taken;
        }
        at += length + 1;
    }
    if (bytes && !looks_right && !good)
        book->foreign = 1;
    return CONVOY_OK;
}

static cv_book_line *find_line(const cv_book *book, int section, const char *key)
{
    for (int i = 0; section >= 0 && i < book->lines; i++)
        if (book->line[i].section == section && strcmp(book->line[i].key, key) == 0)
            return &book->line[i];
    return NULL;
}

const char *cv_book_find(const cv_book *book, const char *section, const char *key)
{
    const cv_book_line *line = find_line(book, find_section(book, section), key);
    return line ? line->value : NULL;
}

convoy_status cv_book_put(cv_book *book, const char *section, const char *key, const char *value)
{
    int number = find_section(book, section);
    if (number < 0) {
        const char *copy = copy_text(book, section);
        if (!copy || (number = add_section(book, copy)) < 0)
            return no_memory();
    }
    const char *value_copy = copy_text(book, value);
    if (!value_copy)
        return no_memory();
    cv_book_line *line = find_line(book, number, key);
    if (line) {
        line->value = value_copy;
        return CONVOY_OK;
    }
    const char *key_copy = copy_text(book, key);
    return key_copy && add_line(book, number, key_copy, value_copy) ? CONVOY_OK : no_memory();
}

void cv_book_prune(cv_book *book, int (*drop)(void *user, const char *section, const char *key, const char *value),
                   void *user)
{
    int kept = 0;
    for (int i = 0; i < book->lines; i++) {
        const cv_book_line line = book->line[i];
        if (!drop(user, book->section[line.section], line.key, line.value))
            book->line[kept++] = line;
    }
    book->lines = kept;
}

/* Writes one line with its checksum and returns its length; only counts when to is NULL. */
static size_t print_line(char *to, uint32_t seed, const char *first, const char *middle, const char *last)
{
    const size_t a = strlen(first), b = strlen(middle), c = strlen(last), length = a + b + c;
    if (to) {
        memcpy(to, first, a);
        memcpy(to + a, middle, b);
        memcpy(to + a + b, last, c);
        char digits[SUM_BYTES + 2];
        snprintf(digits, sizeof digits, " #%08x\n", (unsigned)sum(seed, to, length));
        memcpy(to + length, digits, SUM_BYTES + 1);
    }
    return length + SUM_BYTES + 1;
}

static size_t print_all(const cv_book *book, char *to)
{
    size_t n = sizeof magic;
    if (to) {
        memcpy(to, magic, sizeof magic - 1);
        to[sizeof magic - 1] = '\n';
    }
    for (int s = 0; s < book->sections; s++) {
        const uint32_t seed = sum(sum_seed, book->section[s], strlen(book->section[s]));
        int used = 0;
        for (int i = 0; i < book->lines; i++) {
            if (book->line[i].section != s)
                continue;
            if (!used++)
                n += print_line(to ? to + n : NULL, sum_seed, head, "", book->section[s]);
            n += print_line(to ? to + n : NULL, seed, book->line[i].key, between, book->line[i].value);
        }
    }
    return n;
}

convoy_status cv_book_print(const cv_book *book, char **text, size_t *bytes)
{
    *bytes = print_all(book, NULL);
    *text = cv_alloc(book->memory, *bytes);
    if (!*text)
        return no_memory();
    print_all(book, *text);
    return CONVOY_OK;
}
