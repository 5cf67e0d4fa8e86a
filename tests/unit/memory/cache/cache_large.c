/* Large blocks in the caches of threads: reused without a lock, and idle for all that counts. */
#include "memory/cache/cache_large.h"

#include "memory/cache/cache.h"
#include "memory/heap/growth.h"
#include "tests/unit/memory/cache/crowd_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20 };

static const struct cushim_mem_large *large(void) {
    return &cushim_mem_cache_recent->large;
}

static void setup(void) {
    fixture = fixture_create(NULL);
    give(take(1000)); /* the thread has a cache */
}

START_TEST(a_freed_block_stays_with_its_thread_and_serves_what_rounds_to_it) {
    setup();
    uint64_t address = take(3 * MIB);
    give(address);
    ck_assert_uint_eq(large()->n, 1);
    ck_assert_uint_eq(large()->cached_bytes, 4 * MIB);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_FREE);
    fixture_check(fixture);
    ck_assert_uint_eq(take(4 * MIB), address);
    ck_assert_uint_ne(take(6 * MIB), address);
    ck_assert_uint_eq(large()->n, 0);
    fixture_check(fixture);
}
END_TEST

START_TEST(a_cached_block_is_idle) {
    setup();
    size_t live_bytes = cushim_mem_heap_live_bytes(pool());
    give(take(20 * MIB));
    ck_assert_uint_eq(large()->cached_bytes, 20 * MIB);
    ck_assert_uint_eq(cushim_mem_heap_live_bytes(pool()), live_bytes);
    ck_assert_uint_ge(cushim_mem_growth_reusable_bytes(pool()), 20 * MIB);
    ck_assert_uint_ge(fixture_trim(fixture, 0), 20 * MIB);
    ck_assert_uint_eq(large()->n, 0);
    fixture_check(fixture);
}
END_TEST

START_TEST(they_keep_within_their_budget) {
    enum { BLOCKS = 60 };
    uint64_t addresses[BLOCKS];
    setup();
    for (unsigned i = 0; i < BLOCKS; i++)
        addresses[i] = take((1 + i % 4) * 2 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++) {
        give(addresses[i]);
        ck_assert_uint_le(large()->cached_bytes,
                          32 * MIB + cushim_mem_heap_live_bytes(pool()) / 32 + 8 * MIB);
        fixture_check(fixture);
    }
    ck_assert_uint_gt(large()->n, 0);
}
END_TEST

START_TEST(who_says_how_much_is_kept_has_said_it_of_them_too) {
    fixture = fixture_create(NULL);
    fixture->policy.has_keep = true;
    give(take(1000));
    give(take(3 * MIB));
    ck_assert_uint_eq(large()->n, 0);
    fixture_check(fixture);
}
END_TEST

START_TEST(another_size_gets_their_memory_where_the_device_is_full) {
    setup();
    give(take(30 * MIB));
    ck_assert_uint_eq(large()->n, 1);
    fake_limit(fake_used_bytes());
    take(20 * MIB);
    ck_assert_uint_eq(large()->n, 0);
    fixture_check(fixture);
}
END_TEST

START_TEST(a_relaxed_one_is_not_served_before_its_work_is_over) {
    fixture = fixture_create(NULL);
    fixture->policy.is_relaxed = true;
    give(take(1000));
    uint64_t address = take(3 * MIB);
    fake_submit(0);
    give(address);
    ck_assert_uint_eq(large()->n, 1);
    ck_assert_int_eq(fixture_state(fixture, address), CUSHIM_MEM_DEFERRED);
    ck_assert_uint_ne(take(3 * MIB), address);
    fixture_check(fixture);
    fake_finish(0);
    ck_assert_uint_eq(take(3 * MIB), address);
    fixture_check(fixture);
}
END_TEST

static void *give_one(void *unused) {
    fake_set_current(fake_context(0));
    give(take(3 * MIB));
    return unused;
}

START_TEST(a_thread_that_ends_leaves_them_to_all) {
    pthread_t thread;
    setup();
    pthread_create(&thread, NULL, give_one, NULL);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(pool()->cached_large_bytes, 0);
    unsigned n_calls = fake_n_calls("cuMemAlloc_v2");
    take(3 * MIB);
    ck_assert_uint_eq(fake_n_calls("cuMemAlloc_v2"), n_calls);
    fixture_check(fixture);
}
END_TEST

SUITE() {
    return suite_run(
        "cache_large",
        (const TTest *[]){a_freed_block_stays_with_its_thread_and_serves_what_rounds_to_it,
                          a_cached_block_is_idle, they_keep_within_their_budget,
                          who_says_how_much_is_kept_has_said_it_of_them_too,
                          another_size_gets_their_memory_where_the_device_is_full,
                          a_relaxed_one_is_not_served_before_its_work_is_over,
                          a_thread_that_ends_leaves_them_to_all, NULL});
}
