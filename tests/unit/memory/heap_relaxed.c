/* Frees that do not wait: they return at once, and no block is reused too early. */
#include "memory/cache/cache.h"

#include <pthread.h>
#include <string.h>

#include "memory/reclaim.h"
#include "memory/free.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, STREAMS = 3 };

static struct fixture *fixture;
static CUresult answer;

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

/* A heap on a device of that size, after its first free, which waits for all earlier work.  The
 * size is set before the heap reads it, because caches keep the limits they got. */
static void setup_on(size_t device_bytes) {
    fixture = fixture_create(NULL);
    fake_limit(device_bytes);
    fixture->policy.is_relaxed = true;
    fixture_give(fixture, fixture_take(fixture, 512));
    fixture_trim(fixture, 0);
}

static void setup(void) {
    setup_on((size_t)1 << 44);
}

TEST(a_free_returns_at_once_without_a_driver_call) {
    uint64_t addresses[100];
    setup();
    for (unsigned i = 0; i < 100; i++)
        addresses[i] = fixture_take(fixture, 1000);
    fake_submit(0);
    unsigned n_before = fake_n_all_calls();
    for (unsigned i = 0; i < 100; i++) {
        fixture_give(fixture, addresses[i]);
        ck_assert_int_eq(fixture_state(fixture, addresses[i]), CUSHIM_MEM_DEFERRED);
    }
    ck_assert_uint_eq(fake_n_all_calls(), n_before);
    fixture_check(fixture);
}

TEST(a_pending_block_is_not_reused_before_the_work_is_over) {
    static const size_t sizes[] = {1000, 700000, MIB, 3 * MIB, 20 * MIB};
    for (unsigned i = 0; i < 5; i++) {
        setup();
        atomic_store(&fixture->policy.dedicated_bytes, 16 * MIB);
        uint64_t address = fixture_take(fixture, sizes[i]);
        fake_submit(0);
        fixture_give(fixture, address);
        for (unsigned n = 0; n < 3; n++)
            ck_assert_uint_ne(fixture_take(fixture, sizes[i]), address);
        fixture_check(fixture);
        fake_finish(0);
        unsigned n = 0;
        while (n < 3000 && fixture_take(fixture, sizes[i]) != address) /* free pages serve first */
            n++;
        ck_assert_uint_lt(n, 3000);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(a_second_free_of_a_pending_block_is_reported) {
    setup();
    for (unsigned i = 0; i < 2; i++) {
        struct cushim_mem_lookup lookup;
        uint64_t address = fixture_take(fixture, i ? 5 * MIB : 1000);
        ck_assert(cushim_mem_blocks_find(&fixture->blocks, address, &lookup));
        fake_submit(0);
        fixture_give(fixture, address);
        ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_DOUBLEFREE);
        ck_assert_int_eq(cushim_mem_free(heap(), &lookup, &answer), CUSHIM_DOUBLEFREE);
        ck_assert_int_eq(fixture_judge(fixture, address, 1), CUSHIM_MEM_NO_BLOCK);
        fixture_check(fixture);
    }
    ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 3);
}

TEST(a_free_waits_for_effects_that_the_host_can_see) {
    setup();
    uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 1000);
    fake_submit(0);
    cushim_mem_fence_note_effect(heap()->fence);
    fixture_give(fixture, a);
    ck_assert_uint_eq(fake_n_done(0), 1);
    ck_assert_uint_eq(fixture_stats(fixture)->n_waits, 1);
    ck_assert_uint_eq(fixture_stats(fixture)->n_effect_waits, 1);
    ck_assert_uint_eq(fixture_stats(fixture)->effect_wait_ns, fixture_stats(fixture)->wait_ns);
    fake_submit(0);
    fixture_give(fixture, b);
    ck_assert_uint_eq(fake_n_done(0), 1); /* without such an effect it does not */
    ck_assert_uint_eq(fixture_stats(fixture)->n_effect_waits, 1);
    fixture_check(fixture);
}

TEST(a_refused_fence_leaves_the_block_live_and_damage_is_noted) {
    setup();
    uint64_t address = fixture_take(
        fixture, CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES); /* no more unfenced blocks than before */
    fake_fail_always("cuCtxRecordEvent", CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_FAULT);
    ck_assert_int_eq(answer, CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
    ck_assert_int_eq(heap()->damage, CUDA_ERROR_ILLEGAL_ADDRESS);
    enum cushim_status status;
    fixture_obtain(fixture, 1000, &status);
    ck_assert_int_eq(status, CUSHIM_STATE);
    fixture_check(fixture);
}

TEST(while_a_capture_is_open_nothing_is_recorded_and_memory_is_served) {
    setup();
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_RELAXED);
    fake_capture(0, true);
    unsigned n_before = fake_n_calls("cuCtxRecordEvent");
    fake_submit(4);
    for (unsigned i = 0; i < 200; i++)
        fixture_give(fixture, fixture_take(fixture, i % 2 ? 300000 : 1000));
    ck_assert_uint_eq(fake_n_calls("cuCtxRecordEvent"), n_before);
    ck_assert_uint_eq(fake_n_invalidated(), 0);
    fixture_check(fixture);
}

TEST(in_the_callers_own_capture_a_free_is_refused_as_by_the_driver) {
    setup();
    uint64_t address = fixture_take(fixture, 1000);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_OWN);
    fake_capture(0, true);
    ck_assert_int_eq(fixture_release(fixture, address, &answer), CUSHIM_CAPTURE);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

TEST(an_uncached_dedicated_block_goes_straight_back) {
    setup();
    atomic_store(&fixture->policy.dedicated_bytes, 2 * MIB);
    atomic_store(&fixture->policy.is_dedicated_uncached, true);
    uint64_t address = fixture_take(fixture, 3 * MIB);
    fake_forget_order();
    fixture_give(fixture, address);
    ck_assert_str_eq(fake_order(), "cuMemFree_v2(4194304)");
    fixture_check(fixture);
}

TEST(when_memory_is_out_pending_blocks_are_waited_for) {
    static const size_t sizes[] = {1000000, 30 * MIB, 60 * MIB};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t addresses[64];
        unsigned n = 0;
        enum cushim_status status;
        setup();
        fake_limit(64 * MIB);
        while (n < 64 && (addresses[n] = fixture_obtain(fixture, sizes[i], &status)))
            n++;
        ck_assert_uint_gt(n, 0);
        fake_submit(0);
        for (unsigned k = 0; k < n; k++)
            fixture_give(fixture, addresses[k]);
        fake_finish(0); /* no poll so far */
        for (unsigned k = 0; k < n; k++)
            fixture_take(fixture, sizes[i]);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(pending_and_cached_blocks_end_with_their_context) {
    setup();
    for (unsigned life = 0; life < 4; life++) {
        uint64_t small = fixture_take(fixture, 1000), large = fixture_take(fixture, 5 * MIB);
        fake_submit(0);
        fixture_give(fixture, small);
        fixture_give(fixture, large);
        fixture_check(fixture);
        unsigned n_before = fake_n_all_calls();
        cushim_mem_heap_abandon(heap());
        ck_assert_uint_eq(fake_n_all_calls(), n_before);
        ck_assert_int_eq(fixture_judge(fixture, small, 1), CUSHIM_MEM_FOREIGN);
        fake_finish(0);
        fake_lose_all();
        fixture_open(fixture, 0);
        fixture_check(fixture);
    }
}

TEST(a_synchronise_of_the_program_makes_blocks_free) {
    setup();
    uint64_t address = fixture_take(fixture, 5 * MIB);
    fake_submit(0);
    fixture_give(fixture, address);
    uint64_t epoch = cushim_mem_fence_synchronise(heap()->fence);
    fake_finish(0);
    cushim_mem_fence_complete(heap()->fence, epoch);
    fake_submit(0);
    unsigned n_before = fake_n_all_calls();
    ck_assert_uint_eq(fixture_take(fixture, 5 * MIB), address);
    ck_assert_uint_eq(fake_n_all_calls(), n_before);
    fixture_check(fixture);
}

TEST(without_context_events_pending_memory_is_bounded) {
    fixture = fixture_create("cuCtxRecordEvent");
    fixture->policy.is_relaxed = true;
    for (unsigned i = 0; i < 200; i++) {
        uint64_t address = fixture_take(fixture, 5 * MIB);
        fake_submit(0);
        fixture_give(fixture, address);
        ck_assert_uint_le(heap()->deferred.n_bytes, CUSHIM_MEM_HEAP_DEFERRED_BYTES);
    }
    fixture_check(fixture);
}

/* ---- random orders: a served block has no unfinished work of its last owner ---- */

enum { BLOCKS = 48, SLOTS = 4096 };

/* The work that a block must wait for, by its address. */
struct mark {
    uint64_t address, n_submitted[STREAMS];
};

static struct mark marks[SLOTS];
static uint64_t n_submitted[STREAMS];
static atomic_uint n_early;

static struct mark *mark_of(uint64_t address) {
    uint64_t at = address / 512 * 2654435761u % SLOTS;
    while (marks[at].address && marks[at].address != address)
        at = (at + 1) % SLOTS;
    return &marks[at];
}

static void judge_served(uint64_t address) {
    const struct mark *mark = mark_of(address);
    for (unsigned i = 0; mark->address && i < STREAMS; i++)
        atomic_fetch_add(&n_early, fake_n_done(4 * i) < mark->n_submitted[i]);
}

static size_t size_of(uint64_t random) {
    static const size_t sizes[] = {512, 4000, 60000, 300000, MIB, 2 * MIB, 5 * MIB, 20 * MIB};
    return sizes[random % 8];
}

static void advance(uint64_t random) {
    unsigned stream = (unsigned)(random / 8 % STREAMS);
    if (random % 4 == 0)
        fake_finish(4 * stream);
    else if (random % 4 == 1)
        fake_step(4 * stream);
}

/* The device makes progress while a thread waits for it. */
static void work(const char *name) {
    static atomic_uint n_queries;
    if (strcmp(name, "cuEventQuery") == 0 && atomic_fetch_add(&n_queries, 1) % 16 == 15)
        fake_step(atomic_load(&n_queries) / 16 % STREAMS * 4);
}

static void walk(uint64_t random) {
    uint64_t addresses[BLOCKS] = {0};
    setup_on(random % 2 ? SIZE_MAX : 512 * (size_t)MIB);
    memset(marks, 0, sizeof marks);
    for (unsigned i = 0; i < STREAMS; i++)
        n_submitted[i] = fake_n_done(4 * i);
    atomic_store(&fixture->policy.dedicated_bytes, 16 * MIB);
    fake_on_call(work);
    for (unsigned i = 0; i < 1500; i++) {
        uint64_t *slot = &addresses[suite_random(&random) % BLOCKS];
        unsigned stream = (unsigned)(suite_random(&random) % STREAMS);
        if (*slot) {
            fake_submit(4 * stream); /* submits work on the block and frees it at once */
            n_submitted[stream]++;
            struct mark *mark = mark_of(*slot);
            mark->address = *slot;
            memcpy(mark->n_submitted, n_submitted, sizeof n_submitted);
            fixture_give(fixture, *slot);
            *slot = 0;
        } else {
            *slot = fixture_take(fixture, size_of(suite_random(&random)));
            judge_served(*slot);
        }
        advance(suite_random(&random));
        if (i % 100 == 0)
            fixture_check(fixture);
    }
    ck_assert_uint_eq(n_early, 0);
    fixture_check(fixture);
    fixture_destroy(fixture);
}

TEST(no_block_is_served_before_the_work_on_it_is_over) {
    for (uint64_t seed = 1; seed <= 12; seed++)
        walk(seed * 7919);
}

/* ---- the same with many threads, for TSan and for the sums ---- */

static atomic_uint n_wrong;

static void *churn(void *seed) {
    uint64_t random = (uintptr_t)seed, own[16] = {0};
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 1500; i++) {
        uint64_t *slot = &own[suite_random(&random) % 16];
        enum cushim_status status = CUSHIM_OK;
        CUresult said;
        if (*slot)
            status = fixture_release(fixture, *slot, &said);
        atomic_fetch_add(&n_wrong, status != CUSHIM_OK);
        *slot = fixture_obtain(fixture, size_of(suite_random(&random) % 7), &status);
        atomic_fetch_add(&n_wrong, status != CUSHIM_OK);
        fake_submit((unsigned)(random % STREAMS * 4));
        advance(suite_random(&random));
        if (random % 128 == 0)
            cushim_mem_cache_drain_all(heap());
        if (random % 128 == 1)
            cushim_mem_reclaim_trim(heap(), 0);
    }
    for (unsigned i = 0; i < 16; i++) {
        CUresult said;
        if (own[i])
            atomic_fetch_add(&n_wrong, fixture_release(fixture, own[i], &said) != CUSHIM_OK);
    }
    return NULL;
}

TEST(threads_leave_a_consistent_heap) {
    pthread_t threads[4];
    setup();
    atomic_store(&fixture->policy.dedicated_bytes, 4 * MIB);
    fake_on_call(work);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(i * 104729 + 1));
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
    ck_assert_uint_eq(fixture_stats(fixture)->live_bytes, 0);
    ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 6001);
    ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 6001);
    for (unsigned i = 0; i < STREAMS; i++)
        fake_finish(4 * i);
    ck_assert_int_eq(cushim_mem_fence_await(heap()->fence, cushim_mem_fence_tag(heap()->fence), 0,
                                            &fixture->stats, &answer),
                     CUSHIM_OK);
    pthread_mutex_lock(&heap()->lock);
    cushim_mem_heap_give_deferred(heap());
    pthread_mutex_unlock(&heap()->lock);
    fixture_trim(fixture, 0);
    fixture_check(fixture);
    ck_assert_uint_eq(heap()->held_bytes, 0);
    ck_assert_uint_eq(fake_n_allocations(), 0);
}

SUITE() {
    return tests_run("pool_relaxed");
}
