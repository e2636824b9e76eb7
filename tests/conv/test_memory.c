/* What the library may touch: guard pages around every tensor and the workspace, pointers with the alignment of a float
 * only, canaries in strided outputs, read-only inputs. CPU only: the GPU's counterpart is compute-sanitizer. */
#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

/* bytes that end (or begin) exactly at a page that nobody may touch. */
typedef struct guarded {
    char *map;
    size_t map_bytes;
    char *data;
} guarded;

static guarded guard(size_t bytes, int at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page + page;
    guarded g = {.map_bytes = inside + 2 * page};
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect(g.map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(g.map + page + inside, page, PROT_NONE), 0);
    g.data = at_end ? g.map + page + inside - bytes : g.map + page;
    memset(g.map + page, 0xff, inside);
    return g;
}

static guarded guard_copy(const float *from, int64_t floats, int at_end)
{
    const size_t bytes = sizeof(float) * (size_t)floats, page = (size_t)sysconf(_SC_PAGESIZE);
    guarded g = guard(bytes, at_end);
    memcpy(g.data, from, bytes);
    assert_int_equal(mprotect(g.map + page, g.map_bytes - 2 * page, PROT_READ), 0);
    return g;
}

static void unguard(guarded *g) { munmap(g->map, g->map_bytes); }

static void run_guarded(test_case *c, const char *engine, convoy_math math, int at_end, int prepared, const char *isa)
{
    convoy_context *context = context_make(3, isa);
    convoy_plan_options o = {.engine = engine, .math = math, .bias = c->bias != NULL, .prepared = prepared};
    convoy_plan *plan;
    convoy_weights *weights = NULL;
    if (convoy_plan_create(context, &c->p, &o, &plan) == CONVOY_OK) {
        const size_t bytes = convoy_plan_workspace_bytes(plan);
        guarded x = guard_copy(c->x, c->floats[0], at_end), w = guard_copy(c->w, c->floats[1], at_end);
        guarded y = guard(sizeof(float) * (size_t)c->floats[2], at_end), work = guard(bytes, at_end);
        guarded bias = c->bias ? guard_copy(c->bias, c->p.k, at_end) : (guarded){0};
        if (prepared)
            assert_int_equal(convoy_weights_create(plan, (float *)w.data + c->origin[1], NULL, &weights), CONVOY_OK);
        convoy_args args = {.struct_bytes = sizeof args,
                            .x = (float *)x.data + c->origin[0],
                            .w = prepared ? NULL : (float *)w.data + c->origin[1],
                            .weights = weights,
                            .bias = (float *)bias.data,
                            .y = (float *)y.data + c->origin[2],
                            .workspace = bytes ? work.data : NULL,
                            .workspace_bytes = bytes};
        convoy_plan_info info;
        assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
        if (convoy_execute(plan, &args) != CONVOY_OK)
            fail_msg("%s: %s", engine, convoy_last_message());
        memcpy(c->y, y.data, sizeof(float) * (size_t)c->floats[2]);
        check_contract(c, &(convoy_engine_info){.name = engine}, &info, NULL);
        for (guarded *g = (guarded[]){x, w, y, work, bias}, *end = g + 5; g < end; g++)
            if (g->map)
                unguard(g);
        convoy_weights_destroy(weights);
        convoy_plan_destroy(plan);
    }
    convoy_context_destroy(context);
}

static const char *available(const char *isa)
{
    convoy_context *context;
    if (convoy_context_create(&(convoy_context_options){.isa = isa, .wisdom = "off"}, &context) != CONVOY_OK)
        return NULL;
    convoy_context_destroy(context);
    return isa;
}

static void each_guarded(test_case *c)
{
    static const char *const name[] = {"avx512", "avx2", "scalar"};
    const convoy_engine_info *e;
    for (int i = 0; i < 3; i++)
        for (int at = 0; available(name[i]) && (e = convoy_engine(at)) != NULL; at++)
            for (int kind = 0; kind < 6 && e->device == CONVOY_CPU; kind++)
                run_guarded(c, e->name, kind < 4 ? CONVOY_MATH_FP32 : CONVOY_MATH_EXACT, kind % 2, kind / 2 == 1,
                            name[i]);
}

static void guard_pages(void **state)
{
    static const char *const problem[] = {"n2c3h13w19k5r4s5_pad2",  "n1c1h9w33k1r9_pad0,3,1,0",
                                          "n1c5h24k5r7_padsame_gc", "n2c4h17w16k6r3_st2_dil2_g2",
                                          "n1c2h1w41k3r1s11",       "n1c17h16k18r2"};
    (void)state;
    for (size_t i = 0; i < sizeof problem / sizeof *problem; i++) {
        test_case c = case_of(problem[i]);
        if (i % 2)
            case_add_bias(&c);
        case_fill_normal(&c, i);
        each_guarded(&c);
        case_free(&c);
    }
}

/* A strided y, tight at both ends of its buffer: the last element is the last float before the guard. */
static void guarded_views(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        convoy_problem p = convoy_problem_make(2, 3, 11, 21, 4, 3, 5);
        p.strided = 1;
        const int64_t x[4] = {3 * 11 * 40, 11 * 40, 40, kind == 2 ? -1 : 1}, w[4] = {45, 15, 5, 1};
        const int64_t y[4] = {kind == 1 ? 1 : 4 * 9 * 30, kind == 1 ? 2 : 9 * 30, kind == 1 ? 8 * 17 : 30,
                              kind == 1 ? 8 : 1};
        memcpy(p.x_stride, x, sizeof x);
        memcpy(p.w_stride, w, sizeof w);
        memcpy(p.y_stride, y, sizeof y);
        test_case c = case_make(&p);
        case_fill_normal(&c, (uint64_t)kind + 40);
        each_guarded(&c);
        case_free(&c);
    }
}

/* Pointers with no more than the alignment of a float; a workspace with none at all. */
static void misaligned(void **state)
{
    (void)state;
    const convoy_engine_info *e;
    test_case c = case_of("n2c6h20w27k9r5_pad2");
    convoy_context *context = context_make(2, NULL);
    case_fill_normal(&c, 77);
    float *x = malloc(sizeof(float) * (size_t)(c.floats[0] + 16)),
          *w = malloc(sizeof(float) * (size_t)(c.floats[1] + 16));
    float *y = malloc(sizeof(float) * (size_t)(c.floats[2] + 16));
    for (int at = 0; (e = convoy_engine(at)) != NULL; at++)
        for (int shift = 1; shift < 4 && e->device == CONVOY_CPU; shift++) {
            convoy_plan *plan;
            convoy_plan_info info;
            if (convoy_plan_create(context, &c.p, &(convoy_plan_options){.engine = e->name}, &plan) != CONVOY_OK)
                continue;
            const size_t bytes = convoy_plan_workspace_bytes(plan);
            char *workspace = malloc(bytes + 8);
            memcpy(x + shift, c.x, sizeof(float) * (size_t)c.floats[0]);
            memcpy(w + shift, c.w, sizeof(float) * (size_t)c.floats[1]);
            convoy_args args = {.struct_bytes = sizeof args, .x = x + shift, .w = w + shift, .y = y + shift};
            args.workspace = workspace + shift;
            args.workspace_bytes = bytes;
            assert_int_equal(convoy_execute(plan, &args), CONVOY_OK);
            assert_int_equal(convoy_plan_describe(plan, &info), CONVOY_OK);
            memcpy(c.y, y + shift, sizeof(float) * (size_t)c.floats[2]);
            check_contract(&c, e, &info, NULL);
            free(workspace);
            convoy_plan_destroy(plan);
        }
    free(x);
    free(w);
    free(y);
    convoy_context_destroy(context);
    case_free(&c);
}

int main(void)
{
    const struct CMUnitTest memory[] = {cmocka_unit_test(guard_pages), cmocka_unit_test(guarded_views),
                                        cmocka_unit_test(misaligned)};
    return on_gpu() ? 77 : RUN_TESTS(memory);
}
