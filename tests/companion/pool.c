/* Pools: buckets, the reuse of freed blocks, refusals, and memory pressure. */
#include "cushim/pool.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/companion/fixture.h"

static struct cushim_pool *new_pool(int policy) {
    struct cushim_pool_options options;
    struct cushim_pool *p;
    cushim_pool_options_default(&options);
    options.policy = policy;
    fixture_ok(cushim_pool_create(&options, &p));
    return p;
}

static struct cushim_stream *new_stream(void) {
    struct cushim_stream *s;
    fixture_ok(cushim_stream_create(NULL, 1, 0, &s));
    return s;
}

static cushim_devptr take(struct cushim_pool *p, size_t bytes, struct cushim_stream *s) {
    cushim_devptr ptr;
    fixture_ok(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_DEVICE, bytes, s, &ptr));
    ck_assert_uint_ne(ptr, 0);
    return ptr;
}

static void give(struct cushim_pool *p, cushim_devptr ptr, struct cushim_stream *s) {
    fixture_ok(cushim_pool_free(p, -1, ptr, 0, s));
}

static struct cushim_pool_stats stats_of(struct cushim_pool *p, int dev) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    fixture_ok(cushim_pool_stats(p, dev, -1, &stats));
    return stats;
}

static size_t bucket_of(struct cushim_pool *p, size_t bytes) {
    size_t bucket_bytes = SIZE_MAX;
    fixture_ok(cushim_pool_bucket(p, bytes, &bucket_bytes));
    return bucket_bytes;
}

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* ---- buckets ---- */

static void check_buckets(int policy, const size_t pairs[][2], size_t n_pairs) {
    struct cushim_pool *p = new_pool(policy);
    for (size_t i = 0; i < n_pairs; i++)
        ck_assert_uint_eq(bucket_of(p, pairs[i][0]), pairs[i][1]);
    fixture_ok(cushim_pool_destroy(p));
}

TEST(case_B1_powers_of_two_above_256) {
    static const size_t pairs[][2] = {{0, 0},       {1, 1},       {100, 100},     {256, 256},
                                      {257, 512},   {1024, 1024}, {1025, 2048},   {4096, 4096},
                                      {5000, 8192}, {8192, 8192}, {65536, 65536}, {100000, 131072}};
    check_buckets(CUSHIM_POOL_POLICY_POW2, pairs, sizeof pairs / sizeof pairs[0]);
}

TEST(case_B2_fine_steps) {
    static const size_t pairs[][2] = {
        {1, 512},         {257, 512},       {1025, 1536},     {2049, 2560},     {4097, 4608},
        {5000, 5120},     {8193, 9216},     {65537, 73728},   {100000, 106496}, {1000000, 1048576},
        {684032, 698880}, {696320, 698880}, {698880, 698880}, {698881, 720896}};
    check_buckets(CUSHIM_POOL_POLICY_FINE, pairs, sizeof pairs / sizeof pairs[0]);
}

TEST(case_B3_a_bucket_holds_its_size_and_is_its_own_bucket) {
    uint64_t seed = 0x2545f4914f6cdd1d;
    for (int policy = CUSHIM_POOL_POLICY_FINE; policy <= CUSHIM_POOL_POLICY_EXACT; policy++) {
        struct cushim_pool *p = new_pool(policy);
        for (int i = 0; i < 2000; i++) {
            size_t n = (size_t)(next(&seed) & 0x7fffffff) >> (next(&seed) % 32);
            size_t bucket_bytes = bucket_of(p, n);
            ck_assert_uint_ge(bucket_bytes, n);
            ck_assert_uint_eq(bucket_of(p, bucket_bytes), bucket_bytes);
            if (policy == CUSHIM_POOL_POLICY_FINE)
                ck_assert_uint_le(bucket_bytes - n, n / 8 > 511 ? n / 8 : 511);
        }
        size_t unused;
        fixture_is(cushim_pool_bucket(p, SIZE_MAX, &unused), CUSHIM_INVALID);
        fixture_ok(cushim_pool_destroy(p));
    }
}

/* ---- reuse ---- */

TEST(case_P1_a_stream_gets_its_own_block_again) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream();
    cushim_devptr a = take(p, 2048, s);
    give(p, a, s);
    ck_assert_uint_eq(take(p, 2048, s), a);
    struct cushim_pool_stats stats = stats_of(p, -1);
    ck_assert_uint_eq(stats.hits, 1);
    ck_assert_uint_eq(stats.misses, 1);
    ck_assert_uint_eq(stats.frees, 1);
    cushim_devptr b = take(p, 1024, s);
    give(p, b, s);
    ck_assert_uint_ne(take(p, 2048, s), b);
    fixture_ok(cushim_pool_destroy(p));
    p = new_pool(CUSHIM_POOL_POLICY_POW2);
    a = take(p, 5000, s);
    give(p, a, s);
    ck_assert_uint_eq(take(p, 6000, s), a);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_P2_drain_gives_cached_blocks_back) {
    static const size_t sizes[] = {1024, 2048, 4096};
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream();
    give(p, take(p, 512, s), s);
    struct cushim_pool_stats stats = stats_of(p, -1);
    ck_assert_uint_eq(stats.cached_blocks, 1);
    ck_assert_uint_eq(stats.cached_bytes, 512);
    fixture_ok(cushim_pool_drain(p));
    stats = stats_of(p, -1);
    ck_assert_uint_eq(stats.cached_blocks, 0);
    ck_assert_uint_eq(stats.cached_bytes, 0);
    ck_assert_uint_eq(stats.held_bytes, 0);
    for (int i = 0; i < 3; i++)
        give(p, take(p, sizes[i], s), s);
    stats = stats_of(p, -1);
    ck_assert_uint_eq(stats.cached_blocks, 3);
    ck_assert_uint_eq(stats.cached_bytes, 7168);
    ck_assert_uint_eq(stats.live_blocks, 0);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_P3_devices_share_no_blocks, .needs = FIXTURE_TWO) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    cushim_devptr a, b;
    fixture_ok(cushim_pool_alloc(p, 0, 0, 4096, CUSHIM_STREAM_ALL, &a));
    give(p, a, CUSHIM_STREAM_ALL);
    fixture_ok(cushim_pool_alloc(p, 1, 0, 4096, CUSHIM_STREAM_ALL, &b));
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(stats_of(p, -1).misses, 2);
    fixture_ok(cushim_pool_destroy(p));
    p = new_pool(CUSHIM_POOL_POLICY_FINE);
    fixture_ok(cushim_pool_alloc(p, 0, 0, 1024, CUSHIM_STREAM_ALL, &a));
    fixture_ok(cushim_pool_alloc(p, 1, 0, 2048, CUSHIM_STREAM_ALL, &b));
    fixture_ok(cushim_pool_free(p, 0, a, 1024, CUSHIM_STREAM_ALL));
    fixture_ok(cushim_pool_free(p, 1, b, 2048, CUSHIM_STREAM_ALL));
    ck_assert_uint_eq(stats_of(p, -1).cached_blocks, 2);
    ck_assert_uint_eq(stats_of(p, -1).cached_bytes, 3072);
    ck_assert_uint_eq(stats_of(p, 1).cached_bytes, 2048);
    fixture_ok(cushim_pool_destroy(p));
}

TEST(case_P4_wrong_frees_are_refused_and_change_nothing) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE),
                       *other = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream();
    cushim_devptr a = take(p, 1000, s), b = take(p, 1000, s);
    give(p, a, s);
    fixture_is(cushim_pool_free(p, -1, a, 0, s), CUSHIM_DOUBLEFREE);
    fixture_is(cushim_pool_free(p, -1, b, 9999, s), CUSHIM_INVALID);
    fixture_is(cushim_pool_free(p, 99, b, 0, s), CUSHIM_BADDEVICE);
    fixture_ok(cushim_pool_free(p, 0, b, 1000, s));
    ck_assert_uint_eq(stats_of(p, -1).refused, 3);
    cushim_devptr c = take(p, 1000, s), d = take(p, 1000, s);
    ck_assert_uint_ne(c, d);
    fixture_is(cushim_pool_free(p, -1, c + 512, 0, s), CUSHIM_UNKNOWNPTR);
    fixture_is(cushim_pool_free(other, -1, c, 0, s), CUSHIM_UNKNOWNPTR);
    fixture_is(cushim_pool_free(p, -1, (cushim_devptr)(uintptr_t)&c, 0, s), CUSHIM_UNKNOWNPTR);
    fixture_ok(cushim_pool_free(p, -1, 0, 0, s));
    give(p, c, s);
    give(p, d, s);
    fixture_ok(cushim_pool_drain(p));
    fixture_is(cushim_pool_free(p, -1, c, 0, s), CUSHIM_DOUBLEFREE);
    fixture_said("DOUBLEFREE");
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_pool_destroy(other));
    fixture_ok(cushim_stream_destroy(s));
}

enum { WORDS = 1 << 18 };

/* A block that `busy` writes for 50 ms is freed on `named`, allocated on t, and set at once. */
static void reuse_under_a_kernel(struct cushim_pool *p, struct cushim_stream *busy,
                                 struct cushim_stream *named, int kind) {
    struct cushim_stream *t = new_stream();
    uint32_t *words = calloc(WORDS, sizeof *words);
    cushim_devptr a, b;
    fixture_ok(cushim_pool_alloc(p, 0, kind, WORDS * sizeof *words, busy, &a));
    fixture_spin_fill(busy, a, 0xdeadbeef, WORDS, 50);
    fixture_ok(cushim_pool_free(p, -1, a, 0, named));
    fixture_ok(cushim_pool_alloc(p, 0, kind, WORDS * sizeof *words, t, &b));
    fixture_ok(cushim_memory_set32_async(b, 0x12345678, WORDS, t));
    fixture_ok(cushim_stream_synchronize(t));
    fixture_ok(cushim_stream_synchronize(busy));
    fixture_ok(cushim_memory_copy((cushim_devptr)(uintptr_t)words, b, WORDS * sizeof *words, 4));
    for (size_t i = 0; i < WORDS; i++)
        ck_assert_uint_eq(words[i], 0x12345678);
    give(p, b, t);
    free(words);
    fixture_ok(cushim_stream_destroy(t));
}

TEST(case_P5_no_stream_gets_a_block_that_another_stream_still_writes) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream(), *untold = new_stream();
    for (int i = 0; i < 3; i++) {
        reuse_under_a_kernel(p, s, s, CUSHIM_MEMORY_DEVICE);
        reuse_under_a_kernel(p, untold, CUSHIM_STREAM_ALL, CUSHIM_MEMORY_DEVICE);
    }
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(s));
    fixture_ok(cushim_stream_destroy(untold));
}

TEST(case_P5_a_free_may_name_a_destroyed_stream) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *busy = new_stream(), *gone = new_stream();
    fixture_ok(cushim_stream_destroy(gone));
    for (int i = 0; i < 3; i++)
        reuse_under_a_kernel(p, busy, gone, CUSHIM_MEMORY_DEVICE);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(busy));
}

TEST(case_P5_host_memory_waits_for_its_own_stream_too) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream();
    cushim_devptr a, b;
    fixture_ok(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_PINNED, 4096, s, &a));
    fixture_spin(s, 50);
    fixture_ok(cushim_pool_free(p, -1, a, 0, s));
    fixture_ok(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_PINNED, 4096, s, &b));
    ck_assert_uint_ne(a, b);
    fixture_ok(cushim_stream_synchronize(s));
    cushim_devptr c;
    fixture_ok(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_PINNED, 4096, s, &c));
    ck_assert_uint_eq(a, c);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_host_free((void *)(uintptr_t)b));
    fixture_ok(cushim_host_free((void *)(uintptr_t)c));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_P5_another_stream_gets_the_block_once_its_work_is_done) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream(), *t = new_stream();
    cushim_devptr a = take(p, 3000, s);
    fixture_spin(s, 30);
    give(p, a, s);
    ck_assert_uint_eq(stats_of(p, -1).pending_blocks, 1);
    cushim_devptr b = take(p, 3000, t);
    ck_assert_uint_ne(a, b);
    fixture_ok(cushim_stream_synchronize(s));
    ck_assert_uint_eq(take(p, 3000, t), a);
    cushim_devptr c = take(p, 3000, CUSHIM_STREAM_ALL);
    fixture_spin(t, 30);
    give(p, c, CUSHIM_STREAM_ALL);
    ck_assert_uint_ne(take(p, 3000, CUSHIM_STREAM_ALL), c);
    fixture_ok(cushim_context_synchronize(NULL));
    ck_assert_uint_eq(take(p, 3000, s), c);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(s));
    fixture_ok(cushim_stream_destroy(t));
}

TEST(case_P5_the_end_of_a_stream_loses_no_block) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream(), *t = new_stream();
    cushim_devptr a = take(p, 3000, s);
    fixture_spin(s, 30);
    give(p, a, s);
    fixture_ok(cushim_stream_destroy(s));
    fixture_is(cushim_pool_alloc(p, 0, 0, 3000, s, &(cushim_devptr){0}), CUSHIM_BADHANDLE);
    struct cushim_stream *again = new_stream(); /* which may have the driver's old handle */
    ck_assert_uint_ne(take(p, 3000, again), a);
    ck_assert_uint_ne(take(p, 3000, t), a);
    fixture_ok(cushim_context_synchronize(NULL));
    ck_assert_uint_eq(take(p, 3000, t), a);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(t));
    fixture_ok(cushim_stream_destroy(again));
}

/* ---- pressure ---- */

static size_t free_bytes(void) {
    size_t n_free = 0, total = 0;
    fixture_ok(cushim_memory_info(NULL, &n_free, &total));
    return n_free;
}

TEST(case_P6_two_alternating_sizes_allocate_only_at_first) {
    enum { LIVE = 10 };
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream();
    int e0 = (int)floor(log2((double)free_bytes()));
    cushim_devptr live[LIVE] = {0};
    unsigned n = 0;
    for (int i = 0; i < 200; i++) {
        cushim_devptr a = take(p, (size_t)1 << (e0 - (i < 100 ? 6 : 5)), s);
        if (n >= LIVE)
            give(p, live[n % LIVE], s);
        live[n++ % LIVE] = a;
    }
    struct cushim_pool_stats stats = stats_of(p, -1);
    ck_assert_uint_le(stats.misses, 22);
    ck_assert_uint_eq(stats.hits + stats.misses, 200);
    for (int i = 0; i < LIVE; i++)
        give(p, live[i], s);
    fixture_ok(cushim_pool_freeze_idle(p, 0));
    stats = stats_of(p, -1);
    ck_assert_uint_eq(stats.cached_blocks, 0);
    ck_assert_uint_eq(stats.live_blocks, 0);
    ck_assert_uint_eq(stats.held_bytes, 0);
    fixture_ok(cushim_pool_destroy(p));
    fixture_ok(cushim_stream_destroy(s));
}

TEST(case_P7_reclaim_makes_room_and_live_blocks_outlive_the_pool) {
    enum { LIVE = 10 };
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_EXACT);
    struct cushim_stream *s = new_stream();
    size_t n_free = free_bytes();
    cushim_devptr live[LIVE] = {0};
    uint64_t seed = 88172645463325252;
    for (unsigned i = 0; i < 200; i++) {
        cushim_devptr a = take(p, n_free / 64 + next(&seed) % (n_free / 64), s);
        if (i >= LIVE)
            give(p, live[i % LIVE], s);
        live[i % LIVE] = a;
    }
    cushim_devptr none = 1;
    fixture_is(cushim_pool_alloc(p, 0, 0, (size_t)1 << 50, s, &none), CUSHIM_NOMEM);
    fixture_said("steps=drain");
    ck_assert_uint_ge(stats_of(p, -1).reclaim_steps, 1);
    ck_assert_uint_eq(none, 0);
    fixture_ok(cushim_pool_destroy(p));
    for (int i = 0; i < LIVE; i++)
        fixture_ok(cushim_memory_free(live[i]));
    fixture_is(cushim_memory_free(live[0]), CUSHIM_DOUBLEFREE);
    ck_assert_uint_ge(free_bytes(), n_free - n_free / 64);
    fixture_ok(cushim_stream_destroy(s));
}

struct worker {
    struct cushim_pool *p;
    uint64_t seed;
    unsigned n;
    bool is_broken;
    pthread_t thread;
};

static void *work(void *argument) {
    enum { LIVE = 16 };
    struct worker *worker = argument;
    struct cushim_stream *s;
    struct {
        cushim_devptr ptr;
        uint32_t stamp;
    } live[LIVE] = {{0, 0}};
    if (cushim_stream_create(NULL, 1, 0, &s) != CUSHIM_OK)
        worker->is_broken = true;
    for (unsigned i = 0; i < worker->n && !worker->is_broken; i++) {
        unsigned at = next(&worker->seed) % LIVE;
        /* a copy and a wait each, so only some turns */
        bool is_looked_at = next(&worker->seed) % 16 == 0;
        if (live[at].ptr && is_looked_at) {
            uint32_t word = 0;
            worker->is_broken =
                cushim_memory_copy_async((cushim_devptr)(uintptr_t)&word, live[at].ptr, 4, 2, s) ||
                cushim_stream_synchronize(s) || word != live[at].stamp;
        }
        if (cushim_pool_free(worker->p, 0, live[at].ptr, 0, s) != CUSHIM_OK)
            worker->is_broken = true;
        live[at].stamp = (uint32_t)next(&worker->seed);
        if (cushim_pool_alloc(worker->p, 0, 0, 4 + next(&worker->seed) % 20000, s, &live[at].ptr) ||
            cushim_memory_set32_async(live[at].ptr, live[at].stamp, 1, s))
            worker->is_broken = true;
    }
    for (unsigned at = 0; at < LIVE; at++) {
        if (cushim_pool_free(worker->p, 0, live[at].ptr, 0, s) != CUSHIM_OK)
            worker->is_broken = true;
    }
    cushim_stream_synchronize(s);
    cushim_stream_destroy(s);
    return NULL;
}

TEST(case_P8_threads_on_their_own_streams_keep_their_blocks) {
    enum { THREADS = 8 };
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct worker workers[THREADS];
    unsigned n = fixture_is_simulated() ? 20000 : 100000;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.p = p, .seed = 77777u + (unsigned)i, .n = n};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert_msg(!workers[i].is_broken, "%s", cushim_last_error());
    }
    struct cushim_pool_stats stats = stats_of(p, -1);
    ck_assert_uint_eq(stats.live_blocks, 0);
    ck_assert_uint_eq(stats.asked_bytes, 0);
    ck_assert_uint_eq(stats.hits + stats.misses, (uint64_t)THREADS * n);
    ck_assert_uint_eq(stats.refused, 0);
    fixture_ok(cushim_pool_destroy(p));
}

/* ---- P9: the process's default pool ---- */

TEST(case_P9_a_freed_block_serves_again_once_all_streams_have_passed_it) {
    struct cushim_stream *s;
    struct CUstream_st *cu;
    fixture_ok(cushim_stream_create(NULL, 1, 0, &s));
    fixture_ok(cushim_stream_handle(s, &cu));
    void *ptr = cushim_pool_process_alloc(100000, 0, NULL);
    ck_assert_ptr_nonnull(ptr);
    fixture_ok(cushim_memory_set8_async((uintptr_t)ptr, 7, 100000,
                                        s)); /* not the stream that the free names */
    cushim_pool_process_free(ptr, 100000, 0, NULL);
    fixture_ok(cushim_stream_synchronize(s));
    fixture_ok(cushim_stream_destroy(s));
    void *again = cushim_pool_process_alloc(100000, 0, cu); /* freed on a destroyed stream */
    ck_assert_ptr_eq(again, ptr);
    cushim_pool_process_free(again, 100000, 0, cu);
}

typedef void *process_alloc(ssize_t, int, struct CUstream_st *);
typedef void process_free(void *, ssize_t, int, struct CUstream_st *);

/* A block is freed while a stream that it was not allocated for writes it; `record` (NULL: none)
 * names that stream.  Its next owner must not see those writes. */
static void free_while_another_stream_writes(process_alloc *alloc, process_free *let_go,
                                             void (*record)(void *, struct CUstream_st *)) {
    static uint32_t words[WORDS];
    struct cushim_stream *busy, *other;
    fixture_ok(cushim_stream_create(NULL, 1, 0, &busy));
    fixture_ok(cushim_stream_create(NULL, 1, 0, &other));
    void *a = alloc(sizeof words, 0, NULL);
    fixture_spin_fill(busy, (uintptr_t)a, 0xdeadbeef, WORDS, 50);
    if (record)
        record(a, NULL);
    let_go(a, sizeof words, 0, NULL);
    void *b = alloc(sizeof words, 0, NULL);
    fixture_ok(cushim_memory_set32_async((uintptr_t)b, 0x12345678, WORDS, other));
    fixture_ok(cushim_stream_synchronize(other));
    fixture_ok(cushim_stream_synchronize(busy));
    fixture_ok(cushim_memory_copy((cushim_devptr)(uintptr_t)words, (uintptr_t)b, sizeof words, 4));
    for (int i = 0; i < WORDS; i++)
        ck_assert_uint_eq(words[i], 0x12345678);
    let_go(b, sizeof words, 0, NULL);
    fixture_ok(cushim_stream_destroy(busy));
    fixture_ok(cushim_stream_destroy(other));
}

TEST(case_P9_no_block_is_reused_while_another_stream_writes_it) {
    free_while_another_stream_writes(cushim_pool_process_alloc, cushim_pool_process_free, NULL);
}

TEST(case_P9_memory_of_the_default_stream_serves_it_again_during_its_work) {
    void *ptr = cushim_pool_process_alloc_ordered(3 << 20, 0, NULL);
    ck_assert_ptr_nonnull(ptr);
    fixture_spin_fill(NULL, (uintptr_t)ptr, 0xdeadbeef, WORDS, 200);
    cushim_pool_process_free_ordered(ptr, 3 << 20, 0, NULL);
    void *again = cushim_pool_process_alloc_ordered(3 << 20, 0, NULL);
    ck_assert_ptr_eq(again, ptr);
    cushim_pool_process_free_ordered(again, 3 << 20, 0, NULL);
}

TEST(case_P9_memory_that_was_recorded_waits_for_other_streams) {
    free_while_another_stream_writes(cushim_pool_process_alloc_ordered,
                                     cushim_pool_process_free_ordered,
                                     cushim_pool_process_record_stream);
    cushim_pool_process_record_stream((void *)4096, NULL); /* no block of ours */
}

TEST(case_P9_a_trim_gives_idle_memory_back) {
    size_t before_bytes, after_bytes;
    enum { LARGE_BYTES = 64 << 20 };
    void *ptr = cushim_pool_process_alloc(LARGE_BYTES, 0, NULL);
    ck_assert_ptr_nonnull(ptr);
    fixture_ok(cushim_memory_info(NULL, &before_bytes, NULL));
    cushim_pool_process_free(ptr, LARGE_BYTES, 0, NULL);
    cushim_pool_process_trim();
    fixture_ok(cushim_memory_info(NULL, &after_bytes, NULL));
    ck_assert_uint_ge(after_bytes, before_bytes + LARGE_BYTES);
}

TEST(case_P9_the_pool_of_the_process_knows_its_peaks_and_failures) {
    enum { LARGE_BYTES = 32 << 20 };
    struct cushim_pool *p;
    ck_assert_int_eq(cushim_pool_process(NULL), CUSHIM_INVALID);
    fixture_ok(cushim_pool_process(&p));
    fixture_ok(cushim_pool_stats_reset(p));
    struct cushim_pool_stats before = stats_of(p, 0);
    ck_assert_uint_eq(before.peak_live_bytes, before.live_bytes);
    ck_assert_uint_eq(before.peak_bytes, before.held_bytes);
    void *a = cushim_pool_process_alloc_for(NULL, LARGE_BYTES, 0);
    void *b = cushim_pool_process_alloc_ordered(LARGE_BYTES, 0, NULL);
    ck_assert(a && b);
    cushim_pool_process_free_for(NULL, a, 0);
    cushim_pool_process_free_for(NULL, a, 0); /* refused, and not counted */
    ck_assert_ptr_eq(cushim_pool_process_alloc_for(NULL, LARGE_BYTES, 0), a);
    ck_assert_ptr_null(cushim_pool_process_alloc_for(NULL, (size_t)1 << 60, 0));
    cushim_pool_process_free_for(NULL, a, 0);
    struct cushim_pool_stats after = stats_of(p, 0);
    ck_assert_uint_eq(after.peak_live_bytes, before.live_bytes + 2 * LARGE_BYTES);
    ck_assert_uint_eq(after.live_bytes, before.live_bytes + LARGE_BYTES);
    ck_assert_uint_ge(after.peak_bytes, 2 * LARGE_BYTES);
    ck_assert_uint_eq(after.out_of_memory, 1);
    fixture_ok(cushim_pool_stats_reset(p));
    ck_assert_uint_eq(stats_of(p, 0).peak_live_bytes, before.live_bytes + LARGE_BYTES);
    ck_assert_uint_eq(stats_of(p, 0).out_of_memory, 0);
    cushim_pool_process_free(b, LARGE_BYTES, 0, NULL);
    ck_assert_uint_eq(stats_of(p, 0).live_bytes, before.live_bytes);
}

TEST(case_P9_an_impossible_request_is_NULL_and_a_bad_free_changes_nothing) {
    ck_assert_ptr_null(cushim_pool_process_alloc(0, 0, NULL));
    ck_assert_ptr_null(cushim_pool_process_alloc(-1, 0, NULL));
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "bytes=-1"));
    ck_assert_ptr_null(cushim_pool_process_alloc(1, 999, NULL));
    ck_assert_ptr_null(cushim_pool_process_alloc(1L << 60, 0, NULL));
    cushim_pool_process_free(NULL, 0, 0, NULL);
    cushim_pool_process_free((void *)4096, 1, 0, NULL);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "CUSHIM_UNKNOWNPTR"));
}

/* ---- the rest ---- */

TEST(case_L3_destroy_of_null_of_a_dead_handle_and_of_another_kind) {
    struct cushim_pool *p = new_pool(CUSHIM_POOL_POLICY_FINE);
    struct cushim_stream *s = new_stream();
    cushim_devptr ptr;
    fixture_ok(cushim_pool_destroy(NULL));
    fixture_ok(cushim_pool_destroy(p));
    fixture_is(cushim_pool_destroy(p), CUSHIM_BADHANDLE);
    fixture_is(cushim_pool_destroy((struct cushim_pool *)0x1234), CUSHIM_BADHANDLE);
    fixture_is(cushim_pool_destroy((struct cushim_pool *)s), CUSHIM_BADHANDLE);
    fixture_is(cushim_pool_alloc(p, 0, 0, 1, s, &ptr), CUSHIM_BADHANDLE);
    fixture_is(cushim_pool_free(p, 0, 4096, 1, s), CUSHIM_BADHANDLE);
    fixture_ok(cushim_stream_destroy(s));
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
