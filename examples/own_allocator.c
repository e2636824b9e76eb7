/* An allocator of the caller's: everything that the library keeps comes from one fixed arena, and nothing is taken
 * while it executes. */
#include <convoy/convoy.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Blocks of an arena are handed out in order; the last one out may be given back. Enough for set-up at program start.
 */
typedef struct arena {
    unsigned char *base;
    size_t bytes, used;
    int blocks;
} arena;

static void *arena_alloc(void *user, size_t bytes)
{
    arena *a = user;
    const uintptr_t at = (uintptr_t)a->base + a->used, aligned = (at + 63) & ~(uintptr_t)63; /* 64 bytes, as asked */
    const size_t end = (size_t)(aligned - (uintptr_t)a->base);
    if (end > a->bytes || bytes > a->bytes - end)
        return NULL;
    a->used = end + bytes;
    a->blocks++;
    return (void *)aligned;
}

static void arena_free(void *user, void *memory)
{
    arena *a = user;
    (void)memory;
    if (--a->blocks == 0)
        a->used = 0; /* all given back: the arena is as new */
}

int main(void)
{
    arena a = {.bytes = (size_t)16 << 20};
    a.base = malloc(a.bytes);
    convoy_context_options options = {.allocator = {arena_alloc, arena_free, &a}};
    convoy_problem problem = convoy_problem_make(1, 4, 40, 40, 4, 7, 7);
    convoy_context *context;
    convoy_plan *plan;
    if (!a.base || convoy_context_create(&options, &context) != CONVOY_OK ||
        convoy_plan_create(context, &problem, NULL, &plan) != CONVOY_OK)
        return fprintf(stderr, "%s\n", convoy_last_message()), 1;

    static float x[4 * 40 * 40], w[4 * 4 * 7 * 7], y[4 * 34 * 34];
    x[4 * 40 * 40 / 2] = w[24] = 1.0f;
    const size_t bytes = convoy_plan_workspace_bytes(plan);
    void *workspace = malloc(bytes + 1);
    const size_t before = a.used;
    convoy_args args = {.struct_bytes = sizeof args, .x = x, .w = w, .y = y};
    args.workspace = workspace;
    args.workspace_bytes = bytes;
    if (convoy_execute(plan, &args) != CONVOY_OK)
        return fprintf(stderr, "%s\n", convoy_last_message()), 1;
    printf("%zu bytes in %d blocks for the context and its plan; %zu more while executing\n", before, a.blocks,
           a.used - before);

    convoy_plan_destroy(plan);
    convoy_context_destroy(context);
    printf("%d blocks left\n", a.blocks);
    free(workspace);
    free(a.base);
    return a.blocks != 0;
}
