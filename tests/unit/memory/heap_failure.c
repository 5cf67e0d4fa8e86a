/* A refused call leaves nothing behind. The n-th driver call fails, for every n. */
#include "memory/state/heap_state.h"

#include <string.h>

#include "memory/reclaim.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/memory/idle_events.h"
#include "tests/unit/suite.h"

enum { BLOCKS = 12 };

static struct fixture *fixture;
static uint64_t addresses[BLOCKS];
static CUresult answer, injected;

static bool is_expected(enum cushim_status status) {
    return status == CUSHIM_OK || status == CUSHIM_STATE ||
           status == (injected == CUDA_ERROR_OUT_OF_MEMORY ? CUSHIM_NOMEM : CUSHIM_FAULT);
}

static void obtain(unsigned i, size_t n_bytes) {
    enum cushim_status status;
    if (addresses[i]) /* the driver refused its release */
        return;
    addresses[i] = fixture_obtain(fixture, n_bytes, &status);
    ck_assert_int_eq(addresses[i] != 0, status == CUSHIM_OK);
    ck_assert(is_expected(status));
    fixture_check(fixture);
}

/* As after a hook's free that failed: the block stays LIVE, and the program may try again. */
static void release(unsigned i, bool is_on_stream) {
    if (!addresses[i])
        return;
    enum cushim_status status =
        is_on_stream ? fixture_release_on(fixture, addresses[i], fake_stream(0), &answer)
                     : fixture_release(fixture, addresses[i], &answer);
    ck_assert(is_expected(status));
    ck_assert_int_eq(answer != CUDA_SUCCESS, status != CUSHIM_OK && status != CUSHIM_STATE);
    if (status == CUSHIM_OK)
        addresses[i] = 0;
    else
        ck_assert_int_eq(fixture_state(fixture, addresses[i]), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

/* Every kind of allocation and free, busy and idle, with the right context and with none. */
static void script(void) {
    static const size_t sizes[BLOCKS] = {1000,    1000,    100000,  1 << 20, 3 << 20, 3000000,
                                         8 << 20, 9 << 20, 5 << 20, 600000,  5000,    30 << 20};
    atomic_store(&fixture->policy.dedicated_bytes, 8 << 20);
    for (unsigned i = 0; i < BLOCKS; i++)
        obtain(i, sizes[i]);
    release(0, false);
    fake_submit(0);
    fake_submit(1);
    release(4, false);
    release(5, true);
    fake_submit(0);
    release(1, true);
    obtain(4, 3 << 20);
    release(6, false);
    obtain(6, 8 << 20);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    release(2, false);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_OWN);
    release(3, false);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RECORD);
    atomic_store(&fixture->policy.is_dedicated_uncached, true);
    release(7, false);
    atomic_store(&fixture->policy.is_dedicated_uncached, false);
    fake_set_current(fake_context(1));
    release(8, false);
    fake_set_current(NULL);
    release(9, false);
    fake_set_current(fake_context(0));
    fixture_trim(fixture, 1 << 20);
    fixture_check(fixture);
    obtain(9, 600000);
}

/* The program ends in order: it frees the rest, and the heap gives everything back except what the
 * driver refused to take (n_refused). */
static void end(size_t n_refused) {
    struct cushim_mem_heap *heap = &fixture->heaps[0]; /* no failure from here on */
    atomic_store(&heap->damage, CUDA_SUCCESS);
    atomic_store(&heap->quick_life, atomic_load(&heap->generation));
    for (unsigned i = 0; i < BLOCKS; i++) {
        release(i, false);
        ck_assert_uint_eq(addresses[i], 0);
    }
    uint64_t last = fixture_take(fixture, 1000); /* its wait covers all pending blocks */
    fixture_give(fixture, last);
    if (fixture->policy.is_relaxed) { /* no free waited, so complete the device's work */
        fake_finish(0);
        fake_finish(1);
    }
    cushim_mem_reclaim_empty(&fixture->heaps[0], cushim_mem_reclaim_until());
    fixture_check(fixture);
    ck_assert_uint_eq(fixture->heaps[0].deferred.n_rows, 0);
    ck_assert_ptr_null(fixture->heaps[0].deferred.first);
    ck_assert_uint_eq(fixture->heaps[0].held_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_le(fake_n_allocations(), n_refused);
    ck_assert_uint_eq(fake_n_events(), n_idle_events(fixture->heaps[0].fence) +
                                           n_idle_events(fixture->heaps[1].fence));
    ck_assert_uint_eq(fake_depth(), 1);
    ck_assert_ptr_eq(fake_current(), fake_context(0));
    ck_assert_int_eq(fake_mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* Memcheck and sanitizers do not take every call, but each walk has another start, and there are
 * eight, more than a stride has calls. So the walks together take all. */
static void fail_each_in(bool is_relaxed, CUresult result, const char *without) {
    unsigned walk = 4 * (without != NULL) + 2 * (result == CUDA_ERROR_OUT_OF_MEMORY) + is_relaxed;
    unsigned stride = suite_steps(100) <= 10 ? 7 : suite_steps(100) < 100 ? 3 : 1;
    bool has_failed = true;
    injected = result;
    for (unsigned n = 1 + walk % stride; has_failed; n += stride) {
        fixture = fixture_create(without);
        fixture->policy.is_relaxed = is_relaxed;
        fixture_open(fixture, 1);
        fake_fail_at(n, result);
        script();
        has_failed = fake_has_failed();
        /* one of these calls may have been made to give memory back */
        const char *call = fake_failed_call();
        bool n_refused = strcmp(call, "cuMemFree_v2") == 0 ||
                         strcmp(call, "cuCtxGetCurrent") == 0 ||
                         strcmp(call, "cuCtxPushCurrent_v2") == 0;
        fake_fail_at(0, CUDA_SUCCESS);
        end(n_refused);
        fixture_destroy(fixture);
    }
}

static void fail_each(CUresult result, const char *without) {
    fail_each_in(false, result, without);
    fail_each_in(true, result, without);
}

TEST(a_call_that_runs_out_of_memory_leaves_nothing_behind) {
    fail_each(CUDA_ERROR_OUT_OF_MEMORY, NULL);
}

TEST(a_call_that_meets_a_fault_leaves_nothing_behind) {
    fail_each(CUDA_ERROR_ILLEGAL_ADDRESS, NULL);
}

TEST(without_context_events_a_failed_call_leaves_nothing_behind) {
    fail_each(CUDA_ERROR_OUT_OF_MEMORY, "cuCtxRecordEvent");
    fail_each(CUDA_ERROR_ILLEGAL_ADDRESS, "cuCtxRecordEvent");
}

TEST(a_heap_works_without_optional_entry_points) {
    static const char *const names[] = {"cuCtxGetFlags", "cuStreamGetCtx",
                                        "cuThreadExchangeStreamCaptureMode"};
    for (unsigned i = 0; i < 6; i++) {
        fixture = fixture_create(names[i % 3]);
        fixture->policy.is_relaxed = i >= 3;
        fixture_open(fixture, 1);
        injected = CUDA_SUCCESS;
        script();
        end(0);
        fixture_destroy(fixture);
    }
}

SUITE() {
    return tests_run("pool_failure");
}
