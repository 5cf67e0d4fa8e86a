/* A census counts each block once, in the right category. */
#include "memory/reclaim.h"

#include "memory/cache/cache.h"
#include "memory/heap.h"
#include "tests/unit/memory/heap_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static struct fixture *fixture;
static struct cushim_mem_census census;

static size_t n_of(size_t block_bytes) {
    for (unsigned i = 0; i < census.n_sizes; i++) {
        if (census.sizes[i].block_bytes == block_bytes)
            return census.sizes[i].n;
    }
    return 0;
}

TEST(live_blocks_are_counted_by_size) {
    fixture = fixture_create(NULL);
    uint64_t freed = 0;
    for (int i = 0; i < 5; i++)
        freed = fixture_take(fixture, 1000);
    fixture_take(fixture, 40 * MIB);
    fixture_take(fixture, 40 * MIB);
    fixture_give(fixture, freed);
    cushim_mem_census_take(&fixture->heaps[0], &census);
    ck_assert_uint_eq(n_of(1024), 4);
    ck_assert_uint_eq(n_of(40 * MIB), 2);
    ck_assert_uint_eq(census.n_sizes, 2);
    ck_assert_uint_eq(census.live_bytes, 4 * 1024 + 2 * 40 * MIB);
    ck_assert_uint_ge(census.cached_bytes, 1024);
    ck_assert_uint_eq(census.held_bytes, fixture_stats(fixture)->held_bytes);
    ck_assert_uint_eq(census.pending_bytes, 0);
    fixture_check(fixture);
}

static unsigned n_segments, n_blocks;

static void see(const struct cushim_mem_segment *segment, struct cushim_mem_block_meta *meta,
                uint64_t base) {
    struct cushim_mem_lookup lookup;
    n_segments += !meta;
    n_blocks += meta != NULL;
    if (!meta)
        return;
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, base, &lookup));
    ck_assert(lookup.meta == meta && lookup.base == base && lookup.segment == segment);
    ck_assert(cushim_mem_block_set_recorded(meta, true));
}

TEST(each_live_block_is_seen_once_at_its_address) {
    for (int has_arena = 0; has_arena < 2; has_arena++) {
        fixture = fixture_create(NULL);
        fixture->policy.arena_bytes = has_arena ? 64 * MIB : 0;
        fixture->policy.arena_most_bytes = 2000;
        n_segments = n_blocks = 0;
        for (int i = 0; i < 5; i++)
            fixture_take(fixture, 1000);
        fixture_take(fixture, 3000);
        fixture_take(fixture, 40 * MIB);
        fixture_give(fixture, fixture_take(fixture, 5000));
        cushim_mem_census_each(&fixture->heaps[0], see);
        ck_assert_uint_eq(n_blocks, 7);
        ck_assert_uint_eq(n_segments, cushim_mem_stats_read(&fixture_stats(fixture)->n_segments));
        fixture_destroy(fixture);
    }
}

TEST(a_block_that_the_program_queried_is_live) {
    struct cushim_mem_lookup lookup;
    fixture = fixture_create(NULL);
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, fixture_take(fixture, 1000), &lookup));
    cushim_mem_block_watch(&lookup);
    ck_assert(cushim_mem_block_set_synchronous(&lookup, true));
    ck_assert_uint_ne(cushim_mem_block_number(&lookup), 0);
    cushim_mem_census_take(&fixture->heaps[0], &census);
    ck_assert_uint_eq(census.live_bytes, 1024);
}

TEST(a_segment_that_is_wholly_free_counts_as_free) {
    fixture = fixture_create(NULL);
    fixture->policy.least_idle_bytes = SIZE_MAX / 2;
    fixture_give(fixture, fixture_take(fixture, 40 * MIB));
    cushim_mem_census_take(&fixture->heaps[0], &census);
    ck_assert_uint_eq(census.live_bytes, 0);
    ck_assert_uint_eq(census.largest_free_bytes, 40 * MIB);
}

TEST(a_shared_and_freed_block_is_counted_apart_from_reusable_ones) {
    struct cushim_mem_lookup lookup;
    fixture = fixture_create(NULL);
    uint64_t shown = fixture_take(fixture, 5000), beside = fixture_take(fixture, 5000);
    cushim_mem_heap_show(&fixture->heaps[0], shown);
    cushim_mem_census_take(&fixture->heaps[0], &census);
    ck_assert_uint_eq(census.retired_bytes, 0);
    size_t cached_bytes = census.cached_bytes;
    fixture_give(fixture, shown);
    cushim_mem_census_take(&fixture->heaps[0], &census);
    ck_assert(cushim_mem_blocks_find(&fixture->blocks, beside, &lookup));
    ck_assert_uint_eq(census.retired_bytes, lookup.block_bytes);
    ck_assert_uint_eq(census.cached_bytes, cached_bytes);
    fixture_give(fixture, beside);
    cushim_mem_cache_drain_all(&fixture->heaps[0]);
    cushim_mem_census_take(&fixture->heaps[0], &census); /* all of it can go back to the driver */
    ck_assert_uint_eq(census.retired_bytes, 0);
}

TEST(many_sizes_add_up_to_the_total) {
    size_t n_bytes = 0;
    fixture = fixture_create(NULL);
    for (int i = 0; i < 100; i++) {
        size_t block_bytes = (size_t)(2 + 2 * i) * MIB;
        fixture_take(fixture, block_bytes);
        n_bytes += block_bytes;
    }
    cushim_mem_census_take(&fixture->heaps[0], &census);
    ck_assert_uint_eq(census.n_sizes, CUSHIM_MEM_CENSUS_SIZES);
    ck_assert_uint_eq(census.live_bytes, n_bytes);
}

static size_t told_bytes;

static void memory_out(struct cushim_mem_heap *heap, const struct cushim_mem_reclaim *tried,
                       const struct cushim_mem_census *seen, size_t n_bytes) {
    ck_assert_int_eq(pthread_mutex_trylock(&heap->lock), 0); /* no thread holds it */
    pthread_mutex_unlock(&heap->lock);
    ck_assert(!tried->is_busy);
    census = *seen;
    told_bytes = n_bytes;
}

TEST(the_observer_is_told_when_memory_is_out) {
    enum cushim_status status;
    fixture = fixture_create(NULL);
    fixture->policy.memory_out = memory_out;
    fake_limit(100 * MIB);
    fixture_take(fixture, 40 * MIB);
    ck_assert_uint_eq(told_bytes, 0);
    ck_assert_uint_eq(fixture_obtain(fixture, 80 * MIB, &status), 0);
    ck_assert_uint_eq(told_bytes, 80 * MIB);
    ck_assert_uint_eq(n_of(40 * MIB), 1);
}

SUITE() {
    return tests_run("census");
}
