/* The caller's allocator: failing at every call in turn, everything given back, nothing taken while executing, and
 * memory that stays flat over a thousand shapes. */
#include "harness.h"

#include <stdatomic.h>
#include <unistd.h>

typedef struct ledger {
    atomic_long calls, live, misaligned;
    long fail_at; /* the call that gets NULL, counted from 0; -1: none */
} ledger;

static void *counted_alloc(void *user, size_t bytes)
{
    ledger *l = user;
    if (atomic_fetch_add(&l->calls, 1) == l->fail_at)
        return NULL;
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block) {
        memset(block, 0xa5, bytes); /* fresh memory is never zero by luck */
        atomic_fetch_add(&l->live, 1);
    }
    return block;
}

static void counted_free(void *user, void *block)
{
    ledger *l = user;
    if ((uintptr_t)block % 64)
        atomic_fetch_add(&l->misaligned, 1);
    atomic_fetch_sub(&l->live, 1);
    free(block);
}

/* Everything that allocates, once. The first failure's status, after which nothing may be left. */
static convoy_status whole_life(ledger *l, test_case *c, const char *engine, int prepared)
{
    convoy_context *context = (convoy_context *)l;
    convoy_plan *plan = (convoy_plan *)l;
    convoy_weights *weights = NULL;
    convoy_context_options o = {.threads = 3, .wisdom = "off", .allocator = {counted_alloc, counted_free, l}};
    convoy_status status = convoy_context_create(&o, &context);
    if (status != CONVOY_OK) {
        assert_null(context);
        return status;
    }
    convoy_plan_options po = {.engine = engine, .prepared = prepared, .bias = c->bias != NULL};
    status = convoy_plan_create(context, &c->p, &po, &plan);
    assert_true(status == CONVOY_OK || !plan);
    if (status == CONVOY_OK && prepared) {
        weights = (convoy_weights *)l;
        status = convoy_weights_create(plan, c->w, NULL, &weights);
        assert_true(status == CONVOY_OK || !weights);
    }
    convoy_context_destroy(context); /* plans and weights outlive it */
    if (status == CONVOY_OK) {
        const size_t bytes = convoy_plan_workspace_bytes(plan);
        void *workspace = malloc(bytes + 1);
        convoy_args args = {.struct_bytes = sizeof args, .x = c->x, .w = prepared ? NULL : c->w, .y = c->y};
        args.weights = weights;
        args.bias = c->bias;
        args.workspace = workspace;
        args.workspace_bytes = bytes;
        const long before = atomic_load(&l->calls);
        status = convoy_execute(plan, &args);
        if (atomic_load(&l->calls) != before)
            fail_msg("%s allocates while it executes", engine);
        free(workspace);
    }
    convoy_weights_destroy(weights);
    convoy_plan_destroy(plan);
    return status;
}

static void every_call_fails_once(void **state)
{
    (void)state;
    const convoy_engine_info *e;
    test_case c = case_of("n2c6h21w30k8r5_pad2");
    case_add_bias(&c);
    case_fill_normal(&c, 1);
    for (int at = 0; (e = convoy_engine(at)) != NULL; at++)
        for (int prepared = 0; prepared < 2 && e->device == CONVOY_CPU; prepared++) {
            ledger l = {.fail_at = -1};
            convoy_status status = whole_life(&l, &c, e->name, prepared);
            assert_int_equal(atomic_load(&l.live), 0);
            if (status == CONVOY_UNSUPPORTED)
                continue;
            if (status != CONVOY_OK)
                fail_msg("%s: %s", e->name, convoy_last_message());
            const long calls = atomic_load(&l.calls);
            for (long i = 0; i < calls; i++) {
                ledger failing = {.fail_at = i};
                status = whole_life(&failing, &c, e->name, prepared);
                if (status != CONVOY_OUT_OF_MEMORY || !strstr(convoy_last_message(), "memory"))
                    fail_msg("%s, allocation %ld of %ld fails: status %d, '%s'", e->name, i, calls, (int)status,
                             convoy_last_message());
                if (atomic_load(&failing.live) != 0 || atomic_load(&failing.misaligned))
                    fail_msg("%s, allocation %ld of %ld fails: %ld blocks are left", e->name, i, calls,
                             atomic_load(&failing.live));
            }
            print_message("%s%s: %ld allocations, each failed once\n", e->name, prepared ? " prepared" : "", calls);
        }
    case_free(&c);
}

/* Plans, weights and runs of 1,000 shapes: nothing stays behind, in the caller's allocator or elsewhere. */
static void flat_memory(void **state)
{
    (void)state;
    ledger l = {.fail_at = -1};
    convoy_context *context;
    convoy_context_options o = {.threads = 2, .wisdom = "off", .allocator = {counted_alloc, counted_free, &l}};
    assert_int_equal(convoy_context_create(&o, &context), CONVOY_OK);
    const long at_rest = atomic_load(&l.live);
    long early = 0;
    uint64_t seed = 99;
    for (int i = 0; i < 1000; i++) {
        convoy_problem p =
            convoy_problem_make(1, random_in(&seed, 1, 8), random_in(&seed, 12, 40), random_in(&seed, 12, 40),
                                random_in(&seed, 1, 8), random_in(&seed, 1, 12), random_in(&seed, 1, 12));
        test_case c = case_make(&p);
        case_fill_normal(&c, seed);
        convoy_plan_options po = {.prepared = i % 2};
        if (case_run(context, &c, &po, NULL) != CONVOY_OK)
            fail_msg("%s", convoy_last_message());
        case_free(&c);
        assert_int_equal(atomic_load(&l.live), at_rest);
        if (i == 199)
            early = resident_kib();
    }
    convoy_context_destroy(context);
    assert_int_equal(atomic_load(&l.live), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which hold freed memory back */
    if (resident_kib() > early + 4096)
        fail_msg("resident memory grew from %ld to %ld KiB", early, resident_kib());
#else
    (void)early;
#endif
}

int main(void)
{
    const struct CMUnitTest allocator[] = {cmocka_unit_test(every_call_fails_once), cmocka_unit_test(flat_memory)};
    return on_gpu() ? 77 : RUN_TESTS(allocator);
}
