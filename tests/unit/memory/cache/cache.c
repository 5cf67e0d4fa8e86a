/* A thread's cache, seen from its own thread. */
#include "memory/cache/cache.h"

#include "memory/reclaim.h"
#include "memory/state/heap_state.h"
#include "memory/alloc.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, MANY = 4200 };

static struct fixture *fixture;
static uint64_t addresses[MANY];

static struct cushim_mem_heap *heap(void) {
    return &fixture->heaps[0];
}

static struct cushim_mem_cache *cache(void) {
    return heap()->caches;
}

static void take_and_give(size_t n_bytes, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        addresses[i] = fixture_take(fixture, n_bytes);
    for (unsigned i = 0; i < n; i++)
        fixture_give(fixture, addresses[i]);
}

TEST(a_hit_and_its_free_take_no_lock) {
    for (unsigned i = 0; i < 2; i++) {
        fixture = fixture_create(NULL);
        fixture->policy.is_relaxed = i;
        take_and_give(1000, 20);           /* fetches a segment and cuts slabs */
        pthread_mutex_lock(&heap()->lock); /* a call that takes the lock now hangs */
        for (unsigned n = 0; n < 10; n++)
            fixture_give(fixture, fixture_take(fixture, 1000));
        pthread_mutex_unlock(&heap()->lock);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(the_block_freed_last_is_served_first) {
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 8; i++)
        addresses[i] = fixture_take(fixture, 20000);
    for (unsigned i = 0; i < 8; i++)
        fixture_give(fixture, addresses[i]);
    for (unsigned i = 8; i-- > 0;)
        ck_assert_uint_eq(fixture_take(fixture, 20000), addresses[i]);
    fixture_check(fixture);
}

TEST(a_class_keeps_at_most_64_blocks_and_2_MiB) {
    static const struct {
        size_t n_bytes;
        unsigned most;
    } rows[] = {{512, 64}, {20000, 64}, {65536, 32}, {MIB, 2}};
    for (unsigned i = 0; i < 4; i++) {
        fixture = fixture_create(NULL);
        take_and_give(rows[i].n_bytes, 200);
        const struct cushim_mem_cache_bucket *bucket =
            &cache()->buckets[cushim_mem_sizeclass_of(rows[i].n_bytes)];
        ck_assert_uint_eq(bucket->most, rows[i].most);
        ck_assert_uint_le(bucket->n, bucket->most);
        ck_assert_uint_gt(bucket->n, 0);
        fixture_check(fixture);
        fixture_destroy(fixture);
    }
}

TEST(all_classes_together_keep_at_most_4_MiB) {
    fixture = fixture_create(NULL);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned k = 0; k < cushim_mem_sizeclass_count(); k++) {
            take_and_give(cushim_mem_sizeclass_bytes(k), 40);
            ck_assert_uint_le(cache()->cached_bytes, 4 * MIB);
        }
        fixture_check(fixture);
    }
    /* the class in use has room, however much the others kept */
    ck_assert_uint_gt(cache()->buckets[cushim_mem_sizeclass_count() - 1].n, 0);
}

TEST(two_thousand_classes_share_a_thousand_slots) {
    cushim_mem_sizeclass_choose(CUSHIM_MEM_EXACT);
    fixture = fixture_create(NULL);
    atomic_store(&fixture->policy.dedicated_bytes, SIZE_MAX);
    for (unsigned k = 0; k < cushim_mem_sizeclass_count(); k++)
        addresses[k] = fixture_take(fixture, 512 * (k + 1));
    for (unsigned k = cushim_mem_sizeclass_count(); k-- > 0;)
        fixture_give(fixture, addresses[k]);
    ck_assert_uint_le(cache()->cached_bytes, 4 * MIB);
    ck_assert_uint_le(cache()->n_fresh, CUSHIM_MEM_CACHE_SLOTS);
    fixture_check(fixture);
    /* small blocks exhaust the slots before the bytes */
    for (unsigned k = 0; k < 30; k++)
        take_and_give(512 * (k + 1), 64);
    ck_assert_uint_le(cache()->n_fresh, CUSHIM_MEM_CACHE_SLOTS);
    fixture_check(fixture);
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(heap()->held_bytes, 0);
}

static bool has_slot(void) {
    return cache()->spare || cache()->n_fresh < CUSHIM_MEM_CACHE_SLOTS;
}

/* A class may keep more blocks while they wait for fences, so the slots run out long before the
 * bytes. */
TEST(the_class_in_use_has_room_when_the_slots_run_out) {
    enum { N = 1600, N_SIZES = 8, LAST_BYTES = 5000 };
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = true;
    fake_limit((size_t)64 << 30);
    uint64_t last = fixture_take(fixture, LAST_BYTES);
    for (unsigned i = 0; i < N; i++)
        addresses[i] = fixture_take(fixture, 512 * (1 + i % N_SIZES));
    for (unsigned i = 0; i < N && has_slot(); i++)
        fixture_give(fixture, addresses[i]);
    ck_assert(!has_slot());
    ck_assert_uint_lt(cache()->cached_bytes, cache()->limit_bytes / 2);
    const struct cushim_mem_cache_bucket *bucket =
        &cache()->buckets[cushim_mem_sizeclass_of(LAST_BYTES)];
    unsigned n_before = bucket->n;
    fixture_give(fixture, last);
    ck_assert_uint_eq(bucket->n, n_before + 1);
    fixture_check(fixture);
}

TEST(overflow_and_refill_go_in_batches) {
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < 256; i++) /* the last 128 are in one slab */
        addresses[i % 128] = fixture_take(fixture, 512);
    for (unsigned i = 0; i < 65; i++)
        fixture_give(fixture, addresses[i]);
    struct cushim_mem_cache_bucket *bucket = &cache()->buckets[0];
    ck_assert_uint_eq(bucket->n, 33); /* 32 of 64 left, one came */
    cushim_mem_cache_drain_all(heap());
    ck_assert_uint_eq(bucket->n, 0);
    fixture_take(fixture, 512);
    ck_assert_uint_eq(bucket->n, 15);
    fixture_check(fixture);
}

TEST(a_refill_cuts_no_slab_beyond_the_request) {
    fixture = fixture_create(NULL);
    fixture_take(fixture, 512);
    for (unsigned i = 1; i < 128; i++)
        fixture_take(fixture, 512);
    ck_assert_uint_eq(cache()->buckets[0].n,
                      0); /* slabs of 128 blocks are used up, and no other slab is cut */
    ck_assert_uint_eq(heap()->live_bytes, 65536);
    fixture_check(fixture);
}

TEST(drained_blocks_can_go_back_to_the_driver) {
    fixture = fixture_create(NULL);
    take_and_give(100000, 20);
    size_t cached_bytes = cache()->cached_bytes;
    ck_assert_uint_gt(cached_bytes, 0);
    ck_assert_uint_eq(cushim_mem_cache_drain_all(heap()), cached_bytes);
    ck_assert_uint_eq(cache()->cached_bytes, 0);
    ck_assert_uint_eq(heap()->live_bytes, 0);
    cushim_mem_reclaim_trim(heap(), 0);
    ck_assert_uint_eq(heap()->held_bytes, 0);
    fixture_check(fixture);
}

TEST(an_abandoned_heap_is_forgotten) {
    fixture = fixture_create(NULL);
    struct cushim_mem_cache *first = NULL;
    for (unsigned life = 0; life < 5; life++) {
        take_and_give(30000, 10);
        first = first ? first : cache();
        ck_assert_ptr_eq(cache(), first); /* the thread's own cache, in every life of the heap */
        fixture_check(fixture);
        cushim_mem_heap_abandon(heap());
        ck_assert_ptr_null(cache());
        ck_assert_uint_eq(heap()->n_caches, 0);
        ck_assert_uint_eq(first->cached_bytes, 0);
        fake_lose_all();
        fixture_open(fixture, 0);
    }
    ck_assert_uint_eq(fixture_stats(fixture)->n_requests, 50);
    ck_assert_uint_eq(fixture_stats(fixture)->n_frees, 50);
}

TEST(each_heap_has_its_own_cache) {
    struct cushim_mem_block block;
    CUresult answer;
    fixture = fixture_create(NULL);
    fixture_open(fixture, 1);
    for (unsigned i = 0; i < 20; i++) {
        fixture_give(fixture, fixture_take(fixture, 5000));
        fake_set_current(fake_context(1));
        ck_assert_int_eq(cushim_mem_alloc(&fixture->heaps[1], 5000, &block), CUSHIM_OK);
        ck_assert_int_eq(fixture_release(fixture, block.address, &answer), CUSHIM_OK);
        fake_set_current(fake_context(0));
    }
    ck_assert_ptr_ne(fixture->heaps[1].caches, cache());
    ck_assert_uint_eq(fixture->heaps[1].n_caches, 1);
    ck_assert_uint_eq(heap()->n_caches, 1);
    fixture_check(fixture);
}

/* A request that must have its own segment does not get a cached block. */
TEST(a_request_for_its_own_segment_bypasses_the_cache) {
    fixture = fixture_create(NULL);
    take_and_give(1000, 4);
    atomic_store(&fixture->policy.dedicated_bytes, 512); /* set late, as policy.h allows */
    uint64_t address = fixture_take(fixture, 1000);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_uint_ne(address, addresses[i]);
    fixture_check(fixture);
}

TEST(counters_are_exact_with_one_thread) {
    static size_t sizes[64];
    uint64_t random = 7, n_requests = 0, n_frees = 0, live_bytes = 0, peak_bytes = 0;
    fixture = fixture_create(NULL);
    for (unsigned i = 0; i < suite_steps(20000); i++) {
        unsigned at = (unsigned)(suite_random(&random) % 64);
        if (addresses[at]) {
            fixture_give(fixture, addresses[at]);
            addresses[at] = 0;
            live_bytes -= sizes[at];
            n_frees++;
        } else {
            sizes[at] = 1 + suite_random(&random) % (i % 3 ? 5000 : 3 * MIB);
            addresses[at] = fixture_take(fixture, sizes[at]);
            live_bytes += sizes[at];
            n_requests++;
        }
        peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
        if (i % 64)
            continue;
        const struct cushim_mem_stats *stats = fixture_stats(fixture);
        ck_assert_uint_eq(stats->n_requests, n_requests);
        ck_assert_uint_eq(stats->n_hits + stats->n_misses, n_requests);
        ck_assert_uint_eq(stats->n_frees, n_frees);
        ck_assert_uint_eq(stats->live_bytes, live_bytes);
        ck_assert_uint_eq(stats->peak_live_bytes, peak_bytes);
    }
    fixture_check(fixture);
}

TEST(a_recent_peak_begins_at_what_is_live) {
    fixture = fixture_create(NULL);
    uint64_t kept = fixture_take(fixture, 3000);
    fixture_give(fixture, fixture_take(fixture, 40000));
    ck_assert_uint_eq(fixture_stats(fixture)->recent_peak_live_bytes, 43000);
    /* bytes that the cache has not published count too */
    cushim_mem_cache_restart_peak(heap()->stats);
    ck_assert_uint_eq(fixture_stats(fixture)->recent_peak_live_bytes, 3000);
    fixture_give(fixture, fixture_take(fixture, 2000));
    ck_assert_uint_eq(fixture_stats(fixture)->recent_peak_live_bytes, 5000);
    ck_assert_uint_eq(fixture_stats(fixture)->peak_live_bytes, 43000);
    ck_assert_uint_eq(fixture_stats(fixture)->recent_peak_held_bytes,
                      fixture_stats(fixture)->held_bytes);
    fixture_give(fixture, kept);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("cache");
}
