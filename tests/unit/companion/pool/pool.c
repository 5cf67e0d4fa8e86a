/* Pools on the software device: caps, ownership, driver failures, and dead contexts. */
#include "cushim/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cushim/cushim.h"
#include "companion/pool/pool_internal.h"
#include "tests/unit/companion/pool/pool_fixture.h"
#include "tests/unit/suite.h"

TEST(a_hit_makes_no_driver_call) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    take_and_give(p, 5000, 3, s);
    unsigned long before = SIM(sim_calls_total)();
    for (int i = 0; i < 1000; i++)
        give(p, take(p, 5000, s), s);
    ck_assert_uint_eq(SIM(sim_calls_total)(), before);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), 0);
}

TEST(a_bucket_keeps_no_more_than_its_cap) {
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.cap_bucket_bytes = 0;
    struct cushim_pool *p = create(&options);
    struct cushim_stream *s = new_stream();
    take_and_give(p, 4096, 100, s);
    struct cushim_pool_stats stats = stats_of(p);
    ck_assert_uint_le(stats.cached_blocks, 64 + 1);
    ck_assert_uint_eq(stats.cached_blocks + stats.evicted, 100);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    p = create(NULL); /* the default of 64 MiB is more than 64 blocks of that size */
    take_and_give(p, 4096, 100, s);
    ck_assert_uint_eq(stats_of(p).cached_blocks, 100);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(over_the_total_cap_the_largest_bucket_shrinks_first) {
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.cap_cached_bytes = 1 << 20;
    struct cushim_pool *p = create(&options);
    struct cushim_stream *s = new_stream();
    cushim_devptr small = take(p, 4096, s), large = take(p, 1 << 20, s);
    give(p, large, s);
    give(p, small, s);
    struct cushim_pool_stats stats = stats_of(p);
    ck_assert_uint_eq(stats.cached_bytes, 4096);
    ck_assert_uint_eq(stats.evicted, 1);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(live_blocks_have_their_own_cap) {
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.cap_live_bytes = 8192;
    struct cushim_pool *p = create(&options);
    cushim_devptr a = take(p, 4096, NULL), b = 1;
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 8192, NULL, &b), CUSHIM_LIMIT);
    ck_assert_uint_eq(b, 0);
    b = take(p, 4000, NULL);
    give(p, a, NULL);
    give(p, b, NULL);
    give(p, take(p, 8192, NULL), NULL);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* Also if the last attempt was for a smaller bucket than the first. */
TEST(a_request_that_fails_leaves_room_below_the_cap) {
    struct cushim_pool_options options;
    size_t n_free, total, n_bytes, bucket_bytes;
    ck_assert_int_eq(cushim_memory_info(NULL, &n_free, &total), CUSHIM_OK);
    n_bytes = total + total / 4;
    cushim_pool_options_default(&options);
    options.policy = CUSHIM_POOL_POLICY_POW2;
    options.cap_live_bytes = 4 * total;
    struct cushim_pool *p = create(&options);
    ck_assert_int_eq(cushim_pool_bucket(p, n_bytes, &bucket_bytes), CUSHIM_OK);
    ck_assert_uint_gt(bucket_bytes, n_bytes);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, n_bytes, NULL, &(cushim_devptr){0}),
                         CUSHIM_NOMEM);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(small_blocks_do_not_pin_idle_memory_around_them) {
    enum { N = 40, N_SMALL = 20, LARGEST = 941559, SMALL = 91648 };
    cushim_devptr blocks[N], others[N_SMALL];
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    for (int i = 0; i < N; i++)
        blocks[i] = take(p, LARGEST, s);
    for (int i = 0; i < N; i++)
        give(p, blocks[i], s);
    for (int i = 0; i < N_SMALL; i++)
        others[i] = take(p, SMALL, s);
    ck_assert_int_eq(cushim_pool_drain(p), CUSHIM_OK);
    ck_assert_uint_le(stats_of(p).held_bytes, 4 << 20);
    for (int i = 0; i < N_SMALL; i++)
        give(p, others[i], s);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(a_pool_that_does_not_hold_keeps_nothing) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    ck_assert_int_eq(cushim_pool_freeze_idle(p, 0), CUSHIM_OK);
    give(p, take(p, 4096, s), s);
    ck_assert_uint_eq(stats_of(p).cached_blocks, 0);
    ck_assert_uint_eq(stats_of(p).held_bytes, 0);
    ck_assert_int_eq(cushim_pool_freeze_idle(p, 1), CUSHIM_OK);
    give(p, take(p, 4096, s), s);
    ck_assert_uint_eq(stats_of(p).cached_blocks, 1);
    ck_assert_int_eq(cushim_pool_trim(p, 0, 4096), CUSHIM_OK);
    ck_assert_uint_eq(stats_of(p).cached_blocks, 1);
    ck_assert_int_eq(cushim_pool_trim(p, -1, 0), CUSHIM_OK);
    ck_assert_uint_eq(stats_of(p).cached_blocks, 0);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), 0);
    ck_assert_int_eq(cushim_pool_trim(p, 99, 0), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(the_address_map_knows_live_blocks_and_their_pools) {
    struct cushim_pool *p = create(NULL), *other = create(NULL);
    size_t n = 0;
    int yes = -1;
    cushim_devptr a = take(p, 1000, NULL);
    ck_assert_int_eq(cushim_memory_size(a, &n), CUSHIM_OK);
    ck_assert_uint_eq(n, 1000);
    ck_assert_int_eq(cushim_memory_free(a), CUSHIM_STATE);
    ck_assert_int_eq(cushim_pool_owns(p, a, &yes), CUSHIM_OK);
    ck_assert_int_eq(yes, 1);
    ck_assert_int_eq(cushim_pool_owns(p, a + 1, &yes), CUSHIM_OK);
    ck_assert_int_eq(yes, 0);
    ck_assert_int_eq(cushim_pool_owns(other, a, &yes), CUSHIM_OK);
    ck_assert_int_eq(yes, 0);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_free(a), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_free(a), CUSHIM_DOUBLEFREE);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), 0);
    ck_assert_ptr_null(cushim_pool_heap_next(NULL)); /* nothing is left of the pool */
    ck_assert_int_eq(cushim_pool_destroy(other), CUSHIM_OK);
}

static int count_states(const struct cushim_pool_view *view, void *cookie) {
    unsigned *counts = cookie;
    ck_assert_uint_ge(view->block_bytes, view->asked_bytes);
    counts[view->state]++;
    return 0;
}

TEST(a_walk_shows_each_block_in_its_state) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    unsigned counts[4] = {0};
    cushim_devptr a = take(p, 1000, s);
    take(p, 2000, s);
    give(p, a, s);
    ck_assert_int_eq(cushim_pool_walk(p, count_states, counts), CUSHIM_OK);
    ck_assert_uint_eq(counts[CUSHIM_POOL_STATE_LIVE], 1);
    ck_assert_uint_eq(counts[CUSHIM_POOL_STATE_DEFERRED], 1);
    ck_assert_int_eq(cushim_stream_synchronize(s), CUSHIM_OK);
    counts[0] = counts[1] = counts[2] = 0;
    ck_assert_int_eq(cushim_pool_walk(p, count_states, counts), CUSHIM_OK);
    ck_assert_uint_eq(counts[CUSHIM_POOL_STATE_IDLE], 1);
    ck_assert_int_eq(cushim_pool_walk(p, NULL, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

static cushim_devptr hoard;

static int give_up_hoard(size_t bytes, void *cookie) {
    ck_assert_uint_gt(bytes, 0);
    ++*(int *)cookie;
    if (!hoard)
        return 0;
    ck_assert_int_eq(cushim_memory_free(hoard), CUSHIM_OK);
    hoard = 0;
    return 1;
}

TEST(when_memory_is_out_the_callers_function_is_asked_last) {
    struct cushim_pool *p = create(NULL);
    size_t n_free, total;
    int n_calls = 0;
    cushim_devptr a;
    ck_assert_int_eq(cushim_memory_info(NULL, &n_free, &total), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_alloc(NULL, n_free / 4 * 3, &hoard), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_on_oom(p, give_up_hoard, &n_calls), CUSHIM_OK);
    a = take(p, n_free / 2, NULL);
    ck_assert_int_eq(n_calls, 1);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, n_free, NULL, &(cushim_devptr){0}), CUSHIM_NOMEM);
    ck_assert_int_eq(n_calls, 2);
    ck_assert_ptr_nonnull(strstr(cushim_last_error(), "steps=drain,order,sync,trim"));
    give(p, a, NULL);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(memory_alloc_gets_idle_memory_of_pools) {
    struct cushim_pool *p = create(NULL);
    size_t n_free, total;
    cushim_devptr a;
    ck_assert_int_eq(cushim_memory_info(NULL, &n_free, &total), CUSHIM_OK);
    give(p, take(p, n_free / 2, NULL), NULL);
    ck_assert_int_eq(cushim_memory_alloc(NULL, n_free / 4 * 3, &a), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_free(a), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(the_blocks_of_a_dead_context_end_with_it) {
    struct cushim_context *ctx;
    struct cushim_pool_options options;
    cushim_devptr a, b;
    ck_assert_int_eq(cushim_context_create(0, 0, &ctx), CUSHIM_OK);
    cushim_pool_options_default(&options);
    options.ctx = ctx;
    struct cushim_pool *p = create(&options);
    a = take(p, 1000, NULL);
    b = take(p, 1000, NULL);
    ck_assert_int_eq(cushim_pool_alloc(p, 1, 0, 1000, NULL, &(cushim_devptr){0}), CUSHIM_BADDEVICE);
    give(p, b, NULL);
    ck_assert_int_eq(cushim_context_destroy(ctx), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_alloc(p, -1, 0, 1000, NULL, &b), CUSHIM_DEADCONTEXT);
    ck_assert_int_eq(cushim_pool_free(p, -1, a, 0, NULL), CUSHIM_OK);
    struct cushim_pool *other = create(NULL); /* whose first heap removes dead ones */
    give(other, take(other, 1000, NULL), NULL);
    ck_assert_uint_eq(stats_of(p).live_blocks + stats_of(p).cached_blocks, 0);
    ck_assert_int_eq(cushim_pool_destroy(other), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_drain(p), CUSHIM_OK);
    ck_assert_uint_eq(stats_of(p).held_bytes, 0);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(after_a_context_dies_its_successor_serves) {
    struct cushim_pool *p = create(NULL);
    cushim_devptr other;
    take(p, 1000, NULL);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_memory_alloc(NULL, 1000, &other),
                     CUSHIM_OK); /* and the library notices */
    give(p, take(p, 1000, NULL), NULL);
    ck_assert_int_eq(cushim_memory_free(other), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

struct loser {
    struct cushim_pool *other;
    pthread_barrier_t start;
};

static void *look_for_what_died(void *cookie) {
    struct loser *loser = cookie;
    pthread_barrier_wait(&loser->start);
    cushim_pool_drain(loser->other);
    return NULL;
}

/* A pool of a dead context, with so many blocks that it takes a while to forget them. */
static struct cushim_pool *create_and_lose(void) {
    enum { N_BLOCKS = 3000 };
    struct cushim_context *ctx;
    struct cushim_pool_options options;
    ck_assert_int_eq(cushim_context_create(0, 0, &ctx), CUSHIM_OK);
    cushim_pool_options_default(&options);
    options.ctx = ctx;
    struct cushim_pool *p = create(&options);
    for (unsigned i = 0; i < N_BLOCKS; i++)
        take(p, 512, NULL);
    ck_assert_int_eq(cushim_context_destroy(ctx), CUSHIM_OK);
    return p;
}

/* The next pool may reuse its heap, but not before the other thread is done with it. */
TEST(a_pool_may_end_while_another_thread_forgets_its_lost_blocks) {
    enum { ROUNDS = 100, N_BLOCKS = 200 };
    for (unsigned i = suite_turns(ROUNDS); i > 0; i--) {
        struct loser loser = {.other = create(NULL)};
        struct cushim_pool *p = create_and_lose();
        cushim_devptr all[N_BLOCKS];
        pthread_t thread;
        pthread_barrier_init(&loser.start, NULL, 2);
        ck_assert_int_eq(pthread_create(&thread, NULL, look_for_what_died, &loser), 0);
        pthread_barrier_wait(&loser.start);
        ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
        p = create(NULL);
        for (unsigned k = 0; k < N_BLOCKS; k++)
            all[k] = take(p, 512, NULL);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(stats_of(p).live_blocks, N_BLOCKS);
        for (unsigned k = 0; k < N_BLOCKS; k++)
            give(p, all[k], NULL);
        ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
        ck_assert_int_eq(cushim_pool_destroy(loser.other), CUSHIM_OK);
        pthread_barrier_destroy(&loser.start);
    }
}

/* One life of a pool in which some call fails; true if none failed. */
static bool live_once(struct cushim_stream *s, struct cushim_stream *t) {
    struct cushim_pool *p;
    cushim_devptr a = 0, b = 0, c = 0;
    if (cushim_pool_create(NULL, &p) != CUSHIM_OK)
        return false;
    enum cushim_status status = cushim_pool_alloc(p, 0, 0, 5000, s, &a);
    ck_assert_int_eq(status == CUSHIM_OK, a != 0);
    if (cushim_pool_alloc(p, 0, 2, 3 << 20, s, &b) != CUSHIM_OK)
        ck_assert_uint_eq(b, 0);
    cushim_pool_free(p, 0, a, 5000, s);
    if (cushim_pool_alloc(p, 0, 0, 5000, t, &c) != CUSHIM_OK)
        ck_assert_uint_eq(c, 0);
    ck_assert_uint_eq(stats_of(p).live_blocks, (b != 0) + (c != 0));
    cushim_pool_free(p, 0, b, 0, CUSHIM_STREAM_ALL);
    cushim_pool_free(p, 0, c, 0, t);
    ck_assert_uint_eq(stats_of(p).live_blocks, 0);
    cushim_pool_drain(p);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    return a && b && c;
}

TEST(after_any_failed_driver_call_nothing_is_lost) {
    struct cushim_stream *s = new_stream(), *t = new_stream();
    ck_assert(live_once(s, t));
    size_t before = SIM(sim_live_allocations)();
    unsigned long n = 1;
    for (bool has_failed = true; has_failed && n < 1000; n++) {
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        live_once(s, t);
        has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
        live_once(s, t);
        ck_assert_uint_le(SIM(sim_live_allocations)(), before + n);
    }
    ck_assert_uint_gt(n, 10);
}

enum { TURNS = 3000, SHARED = 16 };

struct exchange {
    struct cushim_pool *p;
    _Atomic(cushim_devptr) slots[SHARED]; /* blocks that no thread has */
    atomic_uint n_wrong;
};

struct other {
    struct cushim_pool *p;
    cushim_devptr ptr, larger;
};

/* Free a block and a larger one after it, so that the block gets the other's row of the table when
 * it is allocated again. */
static void *exchange_blocks(void *argument) {
    struct other *other = argument;
    give(other->p, other->ptr, NULL);
    give(other->p, other->larger, NULL);
    other->ptr = take(other->p, 4096, NULL); /* the last freed block is handed out first */
    return NULL;
}

TEST(a_threads_memory_of_a_block_may_be_stale) {
    struct cushim_pool *p = create(NULL);
    cushim_devptr rests[] = {take(p, 4096, NULL), take(p, 8192, NULL)}, ptr;
    ck_assert_int_eq(cushim_pool_freeze_idle(p, 0), CUSHIM_OK); /* frees go to the free lists */
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        struct other other = {.p = p, .ptr = take(p, 4096, NULL), .larger = take(p, 8192, NULL)};
        ptr = other.ptr;
        ck_assert_int_eq(pthread_create(&thread, NULL, exchange_blocks, &other), 0);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(other.ptr, ptr);
        give(p, ptr, NULL);
        ck_assert_int_eq(cushim_pool_free(p, -1, ptr, 0, NULL), CUSHIM_DOUBLEFREE);
    }
    give(p, rests[0], NULL);
    give(p, rests[1], NULL);
    ck_assert_uint_eq(stats_of(p).live_blocks, 0);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* Frees blocks of other threads on its own stream, on ALL, or on one of the default streams. */
static void *exchange(void *argument) {
    struct exchange *shared = argument;
    struct cushim_stream *s;
    uint64_t seed = (uint64_t)(uintptr_t)&s | 1;
    if (cushim_stream_create(NULL, 1, 0, &s) != CUSHIM_OK)
        return NULL;
    for (unsigned i = 0; i < TURNS; i++) {
        uint64_t random = suite_random(&seed);
        struct cushim_stream *const named[] = {s, CUSHIM_STREAM_ALL, CUSHIM_STREAM_PER_THREAD,
                                               NULL};
        cushim_devptr mine = 0;
        if (cushim_pool_alloc(shared->p, 0, 0, 600 + random % 4 * 3000, named[random / 8 % 4],
                              &mine) != CUSHIM_OK)
            atomic_fetch_add(&shared->n_wrong, 1);
        cushim_devptr theirs = atomic_exchange(&shared->slots[random / 64 % SHARED], mine);
        if (cushim_pool_free(shared->p, 0, theirs, 0, named[random / 4096 % 4]) != CUSHIM_OK)
            atomic_fetch_add(&shared->n_wrong, 1);
        if (i % 512 == 0)
            cushim_pool_trim(shared->p, -1, 4096);
        if (i % 1024 == 5 && cushim_stream_destroy(s) == CUSHIM_OK &&
            cushim_stream_create(NULL, 1, 0, &s) != CUSHIM_OK)
            break;
    }
    cushim_stream_destroy(s);
    return NULL;
}

TEST(threads_free_blocks_of_other_threads) {
    enum { THREADS = 4 };
    static struct exchange shared;
    pthread_t threads[THREADS];
    shared.p = create(NULL);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, exchange, &shared), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&shared.n_wrong), 0);
    for (int i = 0; i < SHARED; i++)
        give(shared.p, atomic_load(&shared.slots[i]), NULL);
    ck_assert_uint_eq(stats_of(shared.p).live_blocks, 0);
    ck_assert_int_eq(cushim_pool_drain(shared.p), CUSHIM_OK);
    ck_assert_uint_eq(stats_of(shared.p).cached_blocks, 0);
    ck_assert_int_eq(cushim_pool_destroy(shared.p), CUSHIM_OK);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), 0);
}

/* Allocations, counters, walks and address queries use the same kinds. */
static int check_kind(const struct cushim_pool_view *block, void *kind) {
    ck_assert_int_eq(block->kind, *(enum cushim_memory_kind *)kind);
    return 0;
}

TEST(an_address_has_the_kind_of_its_request) {
    for (enum cushim_memory_kind kind = CUSHIM_MEMORY_DEVICE; kind <= CUSHIM_MEMORY_PINNED;
         kind++) {
        struct cushim_pool *p = create(NULL);
        struct cushim_memory_info info = {.struct_size = sizeof info};
        struct cushim_pool_stats stats = {.struct_size = sizeof stats};
        cushim_devptr ptr;
        ck_assert_int_eq(cushim_pool_alloc(p, 0, kind, 1000, NULL, &ptr), CUSHIM_OK);
        ck_assert_int_eq(cushim_memory_query(ptr, &info), CUSHIM_OK);
        ck_assert_int_eq(info.kind, kind);
        ck_assert_int_eq(cushim_pool_stats(p, 0, kind, &stats), CUSHIM_OK);
        ck_assert_uint_eq(stats.live_blocks, 1);
        ck_assert_int_eq(cushim_pool_stats(p, 0, CUSHIM_MEMORY_ALL, &stats), CUSHIM_OK);
        ck_assert_uint_eq(stats.live_blocks, 1);
        ck_assert_int_eq(cushim_pool_walk(p, check_kind, &kind), CUSHIM_OK);
        give(p, ptr, NULL);
        ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    }
}

TEST(above_128_KiB_rounding_to_a_bucket_costs_no_block_in_2_MiB) {
    enum { PAGE = 2 << 20, GRAIN = 512 };
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    for (options.steps = 8; options.steps <= 16; options.steps += 8) {
        struct cushim_pool *p = create(&options);
        for (size_t n_bytes = 128 << 10; n_bytes <= 1 << 20; n_bytes += GRAIN) {
            size_t bucket_bytes = 0;
            ck_assert_int_eq(cushim_pool_bucket(p, n_bytes, &bucket_bytes), CUSHIM_OK);
            if (bucket_bytes < n_bytes || bucket_bytes % GRAIN ||
                PAGE / bucket_bytes < PAGE / n_bytes)
                ck_abort_msg("%zu bytes in a bucket of %zu", n_bytes, bucket_bytes);
        }
        ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    }
}

TEST(arguments_out_of_range_are_refused) {
    struct cushim_pool_options options;
    struct cushim_pool *p = (struct cushim_pool *)8;
    cushim_devptr a = 1;
    cushim_pool_options_default(&options);
    options.policy = 3;
    ck_assert_int_eq(cushim_pool_create(&options, &p), CUSHIM_INVALID);
    ck_assert_ptr_null(p);
    options.policy = 0;
    options.steps = 12;
    ck_assert_int_eq(cushim_pool_create(&options, &p), CUSHIM_INVALID);
    options.steps = 16;
    p = create(&options);
    size_t bucket_bytes;
    ck_assert_int_eq(cushim_pool_bucket(p, 8193, &bucket_bytes), CUSHIM_OK);
    ck_assert_uint_eq(bucket_bytes, 8704);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 3, 1, NULL, &a), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, SIZE_MAX, NULL, &a), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_alloc(p, 99, 0, 1, NULL, &a), CUSHIM_BADDEVICE);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 1, CUSHIM_STREAM_OWN, &a), CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 1, NULL, NULL), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 0, NULL, &a), CUSHIM_OK);
    ck_assert_uint_eq(a, 0);
    ck_assert_uint_eq(stats_of(p).misses, 0);
    ck_assert_int_eq(cushim_pool_alloc(NULL, 0, 0, 1, NULL, &a), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

SUITE() {
    return tests_run("pool");
}
