/* How many freed blocks wait for one fence, and which call makes it. */
#include "memory/state/deferred.h"

#include <pthread.h>

#include "memory/cache/cache.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, MOST = CUSHIM_MEM_DEFERRED_BATCH_LEAST_BYTES };

static struct fixture *fixture;
static CUresult answer;

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

/* A heap after its first free, which waits for all earlier work. */
static void setup_on(size_t device_bytes) {
    fixture = fixture_create(NULL);
    fake_limit(device_bytes);
    fixture->policy.is_relaxed = true;
    fixture_give(fixture, fixture_take(fixture, 512));
    fixture_trim(fixture, 0);
}

static void setup(void) {
    setup_on((size_t)140 << 30);
}

/* A device so small that a thread may keep MOST. */
static void setup_small(void) {
    setup_on((size_t)4 << 30);
    ck_assert_uint_eq(cushim_mem_deferred_batch_bytes(heap()), MOST);
}

static unsigned n_records(void) {
    return fake_n_calls("cuCtxRecordEvent");
}

static void do_pairs(size_t n_bytes, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        fixture_give(fixture, fixture_take(fixture, n_bytes));
}

TEST(waiting_blocks_may_be_a_share_of_the_device) {
    static const struct {
        size_t device_bytes, most_bytes;
    } rows[] = {{0, 4 * MIB},
                {(size_t)4 << 30, 4 * MIB},
                {(size_t)80 << 30, 40 * MIB},
                {(size_t)180 << 30, 64 * MIB}};
    setup();
    for (unsigned i = 0; i < 4; i++) {
        heap()->watermark.device_bytes = rows[i].device_bytes;
        ck_assert_uint_eq(cushim_mem_deferred_batch_bytes(heap()), rows[i].most_bytes);
    }
    fixture->policy.is_sparing = true; /* host memory */
    ck_assert_uint_eq(cushim_mem_deferred_batch_bytes(heap()), 0);
    fixture->policy.is_sparing = fixture->policy.is_relaxed = false;
    ck_assert_uint_eq(cushim_mem_deferred_batch_bytes(heap()), 0);
}

TEST(one_fence_serves_many_blocks) {
    setup();
    do_pairs(512, 1);
    unsigned n_before = n_records();
    do_pairs(512, 3200);
    ck_assert_uint_le(n_records() - n_before, 3200 / 192 + 2);
    ck_assert_uint_eq(heap()->held_bytes, 2 * MIB);
    fixture_check(fixture);
}

TEST(large_blocks_wait_once_memory_was_fetched_for_that) {
    static const struct {
        size_t n_bytes;
        unsigned n_pairs; /* at least for one fence */
    } rows[] = {{65536, 190}, {MIB, 30}, {2 * MIB, 15}, {16 * MIB, 2}, {64 * MIB, 1}};
    for (unsigned i = 0; i < 5; i++) {
        setup();
        /* a fence is cheaper than memory until there are many fences */
        do_pairs(rows[i].n_bytes, 20);
        ck_assert_uint_le(heap()->held_bytes, 2 * MIB + rows[i].n_bytes);
        do_pairs(rows[i].n_bytes, 20000);
        unsigned n_before = n_records();
        do_pairs(rows[i].n_bytes, 600);
        ck_assert_uint_le(n_records() - n_before, 600 / rows[i].n_pairs + 1);
        /* waiting blocks are bounded, whatever the number of pairs */
        ck_assert_uint_le(heap()->held_bytes, CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES + 8 * MIB);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(a_thread_that_frees_only_large_blocks_may_keep_as_much) {
    fixture = fixture_create(NULL);
    fake_limit((size_t)140 << 30);
    fixture->policy.is_relaxed = true;
    do_pairs(2 * MIB, 2000);
    unsigned n_before = n_records();
    do_pairs(2 * MIB, 600);
    ck_assert_uint_le(n_records() - n_before, 600 / 8);
    fixture_check(fixture);
}

/* Blocks that are freed after another one of the same epoch take the fast path. */
TEST(a_later_free_of_an_epoch_waits_for_effects_that_the_host_can_see) {
    setup();
    uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 1000),
             c = fixture_take(fixture, 1000);
    fixture_give(fixture, a);
    fake_submit(0);
    fixture_give(fixture, b);
    ck_assert_uint_eq(fake_n_done(0), 0);
    cushim_mem_fence_note_effect(heap()->fence);
    fixture_give(fixture, c);
    ck_assert_uint_eq(fake_n_done(0), 1);
    fixture_check(fixture);
}

TEST(a_later_free_of_an_epoch_is_refused_in_the_callers_own_capture) {
    setup();
    uint64_t a = fixture_take(fixture, 1000), b = fixture_take(fixture, 1000);
    fixture_give(fixture, a);
    atomic_store(&fixture_pass, CUSHIM_MEM_PASS_OWN);
    fake_capture(0, true);
    ck_assert_int_eq(fixture_release(fixture, b, &answer), CUSHIM_CAPTURE);
    ck_assert_int_eq(fixture_state(fixture, b), CUSHIM_MEM_LIVE);
    fixture_check(fixture);
}

TEST(if_the_driver_has_no_more_memory_few_blocks_wait) {
    setup();
    do_pairs(MIB, 1);
    fake_fail_always("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY);
    unsigned n_before = fake_n_calls("cuMemAlloc_v2");
    do_pairs(MIB, 1000);
    ck_assert_uint_le(fake_n_calls("cuMemAlloc_v2") - n_before, 2);
    ck_assert_uint_eq(heap()->held_bytes, 2 * MIB);
    ck_assert_uint_eq(fixture_stats(fixture)->n_out_of_memory, 0);
    fixture_check(fixture);
}

TEST(an_explicit_keep_limits_waiting_blocks) {
    setup();
    fixture->policy.has_keep = true;
    do_pairs(MIB, 1000);
    ck_assert_uint_eq(heap()->held_bytes, 2 * MIB);
    fixture_check(fixture);
}

/* Blocks of 128 KiB; n_freed of them are freed behind unfinished work. */
static void free_behind_work(uint64_t *addresses, unsigned n, unsigned n_freed) {
    for (unsigned i = 0; i < n; i++)
        addresses[i] = fixture_take(fixture, MIB / 8);
    fake_submit(0);
    for (unsigned i = 0; i < n_freed; i++)
        fixture_give(fixture, addresses[i]);
}

TEST(a_free_fences_before_much_is_unfenced) {
    uint64_t addresses[64];
    setup_small();
    unsigned n_before = n_records();
    free_behind_work(addresses, 64, 15);
    ck_assert_uint_eq(n_records(), n_before);
    fixture_give(fixture, addresses[15]); /* half of the blocks that may wait */
    ck_assert_uint_eq(n_records(), n_before + 1);
    /* work that comes later does not hold these blocks */
    uint64_t tag = cushim_mem_fence_tag(heap()->fence) - 1;
    fake_submit(4);
    for (unsigned i = 16; i < 24; i++)
        fixture_give(fixture, addresses[i]);
    fake_finish(0);
    ck_assert_uint_ge(cushim_mem_fence_poll(heap()->fence, &answer), tag);
    ck_assert_uint_eq(n_records(), n_before + 1);
    fixture_check(fixture);
}

TEST(while_a_fence_is_in_flight_the_next_is_made_only_under_pressure) {
    uint64_t addresses[128];
    setup_small();
    unsigned n_before = n_records();
    free_behind_work(addresses, 128, 46);
    ck_assert_uint_eq(n_records(), n_before + 1);
    for (unsigned i = 46; i < 50; i++) /* as many more as may wait */
        fixture_give(fixture, addresses[i]);
    ck_assert_uint_eq(n_records(), n_before + 2);
    /* a fence completes: the next free that is due makes one for the blocks it did not cover */
    for (unsigned i = 50; i < 64; i++)
        fixture_give(fixture, addresses[i]);
    fake_finish(0);
    unsigned n_now = n_records();
    for (unsigned i = 64; i < 68; i++)
        fixture_give(fixture, addresses[i]);
    ck_assert_uint_eq(n_records(), n_now + 1);
    fixture_check(fixture);
}

TEST(an_allocation_makes_no_fence_while_one_is_in_flight) {
    setup();
    uint64_t first = fixture_take(fixture, MIB), second = fixture_take(fixture, MIB);
    fake_submit(0);
    fixture_give(fixture, first);
    ck_assert(
        !cushim_mem_deferred_batch_prove(heap(), cushim_mem_fence_tag(heap()->fence), &answer));
    unsigned n_before = n_records();
    fixture_give(fixture, second);
    uint64_t tag = cushim_mem_fence_tag(heap()->fence);
    ck_assert(!cushim_mem_deferred_batch_prove(heap(), tag, &answer));
    ck_assert_uint_eq(n_records(), n_before);
    /* the fence in flight completes: now the allocation makes one, which completes too */
    fake_finish(0);
    ck_assert(cushim_mem_deferred_batch_prove(heap(), tag, &answer));
    ck_assert_uint_eq(n_records(), n_before + 1);
    fixture_check(fixture);
}

/* ---- sizes that do not recur ---- */

/* A heap after so many pairs of 1 MiB that as many bytes rotate as may. */
static size_t setup_rotated(unsigned n_live) {
    setup();
    for (unsigned i = 0; i < n_live; i++)
        fixture_take(fixture, 2 * MIB);
    do_pairs(MIB, 20000);
    size_t waiting_bytes = heap()->caches->cached_bytes;
    ck_assert_uint_ge(waiting_bytes, 31 * MIB); /* what a fence covers, except the current block */
    ck_assert_uint_eq(heap()->caches->limit_bytes, CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES);
    return waiting_bytes;
}

/* Allocates until the cache has to give its blocks. */
static void use_up_the_free_lists(void) {
    for (unsigned i = 0; i < 100 && heap()->caches->cached_bytes; i++)
        fixture_take(fixture, 2 * MIB);
    ck_assert_uint_eq(heap()->caches->cached_bytes, 0);
}

TEST(waiting_blocks_serve_another_size_after_one_driver_call) {
    size_t waiting_bytes = setup_rotated(0);
    unsigned n_before = fake_n_calls("cuMemAlloc_v2");
    for (unsigned i = 0; i < waiting_bytes / 2 / (MIB / 2); i++)
        fixture_take(fixture, MIB / 2);
    ck_assert_uint_eq(fake_n_calls("cuMemAlloc_v2"), n_before + 1);
    fixture_check(fixture);
}

TEST(after_sizes_change_waiting_blocks_are_a_share_of_live_ones) {
    static const struct {
        unsigned n_live; /* of 2 MiB */
        size_t least_bytes, most_bytes;
        /* waiting blocks were live a moment ago */
    } rows[] = {{0, MOST, MOST}, {100, 13 * MIB, 18 * MIB}};
    for (unsigned i = 0; i < 2; i++) {
        setup_rotated(rows[i].n_live);
        use_up_the_free_lists();
        ck_assert_uint_ge(heap()->caches->limit_bytes, rows[i].least_bytes);
        ck_assert_uint_le(heap()->caches->limit_bytes, rows[i].most_bytes);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(the_limit_widens_again_while_one_size_recurs) {
    setup_rotated(0);
    use_up_the_free_lists();
    size_t narrow_bytes = heap()->caches->limit_bytes;
    ck_assert_uint_lt(narrow_bytes, 2 * MOST);
    bool is_between = false; /* it widens with each fence, not at once */
    for (unsigned i = 0; i < 100; i++) {
        do_pairs(MIB, 200);
        size_t limit_bytes = heap()->caches->limit_bytes;
        is_between = is_between || (limit_bytes > narrow_bytes + MIB &&
                                    limit_bytes < CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES - MIB);
    }
    ck_assert(is_between);
    ck_assert_uint_eq(heap()->caches->limit_bytes, CUSHIM_MEM_DEFERRED_BATCH_MOST_BYTES);
    unsigned n_before = n_records();
    do_pairs(MIB, 600);
    ck_assert_uint_le(n_records() - n_before, 600 / 30 + 1);
    fixture_check(fixture);
}

/* No waiting block is complete, so none serves, and the sizes are not the reason. */
TEST(on_a_busy_device_no_request_waits_and_the_limit_stays) {
    uint64_t addresses[40];
    setup();
    for (unsigned i = 0; i < 40; i++)
        addresses[i] = fixture_take(fixture, MIB);
    fake_submit(0);
    for (unsigned i = 0; i < 40; i++)
        fixture_give(fixture, addresses[i]);
    size_t waiting_bytes = heap()->caches->cached_bytes, limit_bytes = heap()->caches->limit_bytes;
    uint64_t limit_tag = heap()->limit_tag;
    unsigned n_before = fake_n_calls("cuMemAlloc_v2"), n_asked = fake_n_calls("cuEventQuery");
    for (unsigned i = 0; i < 20; i++)
        fixture_take(fixture, 2 * MIB);
    ck_assert_uint_eq(fake_n_done(0), 0);
    ck_assert_uint_gt(fake_n_calls("cuMemAlloc_v2"), n_before);
    ck_assert_uint_le(fake_n_calls("cuEventQuery") - n_asked, 2 * 20);
    ck_assert_uint_eq(heap()->caches->cached_bytes, waiting_bytes);
    ck_assert_uint_eq(heap()->caches->limit_bytes, limit_bytes);
    ck_assert_uint_eq(heap()->limit_tag, limit_tag);
    fixture_check(fixture);
}

/* A batch that grows by one block per step up to twelve, as in the benchmark of that name. */
static void play_batch(size_t batch, size_t *live_bytes, size_t *held_bytes) {
    static const size_t shares[] = {1, 1, 2, 4, 4, 8, 16, 1, 2, 4, 32, 64}; /* of 4 KiB */
    enum { N = sizeof shares / sizeof *shares };
    uint64_t addresses[N];
    *live_bytes = 0;
    for (unsigned i = 0; i < N; i++) {
        size_t n_bytes = shares[i] * batch * 4096;
        bool is_own = n_bytes > MIB; /* whole pages of the driver */
        *live_bytes += is_own ? (n_bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB) : n_bytes;
        addresses[i] = fixture_take(fixture, n_bytes);
        if (fake_used_bytes() > *held_bytes)
            *held_bytes = fake_used_bytes();
    }
    for (unsigned i = N; i > 0; i--)
        fixture_give(fixture, addresses[i - 1]);
}

TEST(a_growing_batch_holds_at_most_half_of_the_live_bytes_beside_them) {
    size_t live_bytes = 0, held_bytes = 0;
    setup();
    for (size_t batch = 1; batch <= 200; batch++)
        play_batch(batch, &live_bytes, &held_bytes);
    size_t most_bytes = live_bytes + live_bytes / 16 * 7 + 32 * MIB;
    ck_assert_msg(held_bytes <= most_bytes, "held %zu for %zu live", held_bytes, live_bytes);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("deferred_batch");
}
