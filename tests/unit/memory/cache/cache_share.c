/* How much a cache may hold as threads start, idle and end. */
#include "memory/cache/cache.h"

#include "base/clock.h"
#include "tests/unit/memory/cache/crowd_fixture.h"
#include "tests/unit/suite.h"

enum { MIB = 1 << 20, THREADS = 20 };

static void *fill_and_wait(void *unused) {
    uint64_t addresses[64];
    fake_set_current(fake_context(0));
    for (unsigned i = 0; i < 64; i++)
        addresses[i] = take(100000);
    for (unsigned i = 0; i < 64; i++)
        give(addresses[i]);
    meet();
    meet();
    return unused;
}

static size_t cached_bytes(void) {
    size_t n_bytes = 0;
    for (const struct cushim_mem_cache *cache = heap()->caches; cache; cache = cache->next_of_heap)
        n_bytes += cache->cached_bytes;
    return n_bytes;
}

/* Each thread has filled its cache and idles until the next meeting. */
static void start_idle(pthread_t *threads) {
    fixture = fixture_create(NULL);
    pthread_barrier_init(&meeting, NULL, THREADS + 1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, fill_and_wait, NULL);
    meet();
}

TEST(with_many_threads_each_cache_is_small) {
    pthread_t threads[THREADS];
    start_idle(threads);
    ck_assert_uint_eq(heap()->n_caches, THREADS);
    /* 16 MiB, by the share that each thread knew at its last call */
    ck_assert_uint_le(cached_bytes(), 40 * MIB);
    ck_assert_uint_gt(cached_bytes(), 0);
    fixture_check(fixture);
    /* a trim also takes what idle threads keep */
    fixture_trim(fixture, 0);
    ck_assert_uint_eq(cached_bytes(), 0);
    ck_assert_uint_eq(heap()->held_bytes, 0);
    meet();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_eq(heap()->n_caches, 0);
    fixture_check(fixture);
}

/* More than a second passes for the caches of idle threads. */
static void let_time_pass(void) {
    for (struct cushim_mem_cache *cache = heap()->caches; cache; cache = cache->next_of_heap)
        cache->seen_ns -= cache->seen_ns ? 2000000000u : 0;
}

static void use_much(unsigned n_blocks) {
    uint64_t addresses[256];
    for (unsigned i = 0; i < n_blocks; i++)
        addresses[i] = take(100000);
    for (unsigned i = 0; i < n_blocks; i++)
        give(addresses[i]);
}

TEST(idle_threads_do_not_shrink_the_share_of_working_threads) {
    pthread_t threads[THREADS];
    uint64_t since_ns = cushim_clock_ns();
    start_idle(threads);
    fake_set_current(fake_context(0));
    use_much(64);
    /* on a slow machine some threads are idle already */
    if (cushim_clock_ns() - since_ns < 900000000u) {
        ck_assert_uint_eq(heap()->n_busy, THREADS + 1);
        ck_assert_uint_lt(cushim_mem_cache_recent->limit_bytes, MIB);
    }
    for (unsigned i = 0; i < 2 * THREADS; i++) {
        use_much(64);
        let_time_pass();
    }
    ck_assert_uint_eq(heap()->n_busy, 1);
    ck_assert_uint_eq(cushim_mem_cache_recent->limit_bytes, 4 * MIB);
    ck_assert_uint_eq(cached_bytes(), cushim_mem_cache_recent->cached_bytes);
    fixture_check(fixture);
    meet();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_wrong, 0);
    fixture_check(fixture);
}

SUITE() {
    return tests_run("cache_share");
}
