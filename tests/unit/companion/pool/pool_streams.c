/* Which streams' blocks serve requests of other streams, and when that costs a fence. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "cushim/cushim.h"
#include "companion/pool/pool_internal.h"
#include "tests/unit/companion/pool/pool_fixture.h"
#include "tests/unit/suite.h"

enum { LARGE_BYTES = 2 << 20 };

/* A pool that keeps nothing: a request prefers another stream's block to new memory. */
static struct cushim_pool *create_sparing(void) {
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.keep_bytes = 0;
    return create(&options);
}

TEST(frees_of_one_stream_share_a_fence) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    take_and_give(p, 5000, 192, s);
    SIM(sim_calls_reset)();
    take_and_give(p, 5000, 192, s);
    ck_assert_uint_le(SIM(sim_calls)("cuEventRecord"), 192 / 64 + 1);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

static void take_turns(struct cushim_pool *p, struct cushim_stream *s, struct cushim_stream *t,
                       unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        give(p, take(p, 5000, s), s);
        give(p, take(p, 5000, t), t);
    }
}

TEST(streams_that_take_turns_keep_a_small_block_each) {
    struct cushim_pool *p = create_sparing();
    struct cushim_stream *s = new_stream(), *t = new_stream();
    take_turns(p, s, t, 3);
    ck_assert_uint_eq(stats_of(p).cached_blocks, 2);
    unsigned long before = SIM(sim_calls_total)();
    take_turns(p, s, t, 100);
    ck_assert_uint_eq(SIM(sim_calls_total)(), before);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* Also if each stream needs driver memory first, up to the bytes that the pool keeps. */
TEST(streams_keep_one_block_each_within_the_pools_limit) {
    enum { N_STREAMS = 40 };
    struct cushim_pool_options options;
    struct cushim_stream *streams[N_STREAMS];
    cushim_pool_options_default(&options);
    struct cushim_pool *p = create(&options);
    for (int i = 0; i < N_STREAMS; i++)
        streams[i] = new_stream();
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < N_STREAMS; i++)
            give(p, take(p, LARGE_BYTES, streams[i]), streams[i]);
    }
    ck_assert_uint_eq(stats_of(p).cached_blocks, options.keep_bytes / LARGE_BYTES);
    ck_assert_uint_ge(stats_of(p).held_bytes, options.keep_bytes - LARGE_BYTES);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* Although the driver has memory for one more. */
TEST(a_large_block_is_worth_a_fence) {
    struct cushim_pool *p = create_sparing();
    struct cushim_stream *s = new_stream(), *t = new_stream();
    cushim_devptr last = take(p, LARGE_BYTES, s);
    give(p, last, s);
    ck_assert_uint_eq(take(p, LARGE_BYTES, t), last);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* The pool prefers blocks of another stream to driver memory. */
TEST(another_streams_small_blocks_come_before_more_memory) {
    struct cushim_pool *p = create_sparing();
    struct cushim_stream *s = new_stream(), *t = new_stream();
    cushim_devptr blocks[256], others[256];
    uint64_t held_bytes;
    unsigned n = 0;
    blocks[n++] = take(p, 200000, s);
    held_bytes = stats_of(p).held_bytes;
    while (stats_of(p).held_bytes == held_bytes && n < 256)
        blocks[n++] = take(p, 200000, s);
    ck_assert_uint_lt(n, 256);
    held_bytes = stats_of(p).held_bytes;
    for (unsigned i = 0; i < n; i++)
        give(p, blocks[i], s);
    for (unsigned i = 0; i < n; i++)
        others[i] = take(p, 200000, t);
    ck_assert_uint_eq(stats_of(p).held_bytes, held_bytes);
    for (unsigned i = 0; i < n; i++)
        give(p, others[i], t);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* The host may write at once, so stream order does not help, and one proven block is enough for all
 * streams. */
TEST(page_locked_blocks_do_not_become_many) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    for (int i = 0; i < 40; i++) {
        cushim_devptr ptr;
        ck_assert_int_eq(cushim_pool_alloc(p, 0, CUSHIM_MEMORY_PINNED, 5000, s, &ptr), CUSHIM_OK);
        give(p, ptr, s);
    }
    ck_assert_uint_le(stats_of(p).cached_blocks, 2);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

static void *free_here(void *argument) {
    struct cushim_pool *p = argument;
    give(p, take(p, LARGE_BYTES, CUSHIM_STREAM_PER_THREAD), CUSHIM_STREAM_PER_THREAD);
    return NULL;
}

TEST(the_per_thread_streams_of_two_threads_are_different_streams) {
    struct cushim_pool *p = create_sparing();
    for (int i = 0; i < 3; i++) { /* the later ones inherit the record of the first */
        pthread_t thread;
        ck_assert_int_eq(cushim_context_capture_enter(NULL),
                         CUSHIM_OK); /* so that no work completes */
        ck_assert_int_eq(pthread_create(&thread, NULL, free_here, p), 0);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(stats_of(p).cached_blocks, (unsigned)i + 1);
        ck_assert_int_eq(cushim_context_capture_leave(NULL), CUSHIM_OK);
    }
    take(p, LARGE_BYTES, NULL); /* fenced by the whole context now, and complete */
    ck_assert_uint_eq(stats_of(p).cached_blocks, 2);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(blocks_freed_on_a_wrapper_wait_after_the_wrapper_is_destroyed) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *owner = new_stream(), *first, *second;
    struct CUstream_st *handle;
    ck_assert_int_eq(cushim_stream_handle(owner, &handle), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_wrap(NULL, handle, &first), CUSHIM_OK);
    cushim_devptr a = take(p, 5000, first);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set32_async(a, 1, 1, first), CUSHIM_OK);
    give(p, a, first);
    ck_assert_int_eq(cushim_stream_destroy(first), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_wrap(NULL, handle, &second), CUSHIM_OK);
    ck_assert_uint_ne(take(p, 5000, second), a); /* it might be another stream of that handle */
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_stream_synchronize(owner), CUSHIM_OK);
    ck_assert_uint_eq(take(p, 5000, second), a);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* The stream of the last use is unknown by now, so the block waits for the whole context. */
TEST(a_free_that_names_a_destroyed_stream_waits_for_all_work_of_the_context) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *named = new_stream(), *user = new_stream(), *next = new_stream();
    cushim_devptr a = take(p, 5000, named);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set32_async(a, 1, 1, user), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_destroy(named), CUSHIM_OK);
    give(p, a, named);
    ck_assert_uint_eq(stats_of(p).live_blocks, 0);
    ck_assert_uint_eq(stats_of(p).pending_blocks, 1);
    ck_assert_uint_ne(take(p, 5000, next), a);
    ck_assert_uint_ne(take(p, 5000, user), a); /* nor through the order of a remaining stream */
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    ck_assert_uint_eq(take(p, 5000, next), a);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* The end of the stream could not make the fence, and no record is possible on a destroyed
 * handle. */
TEST(blocks_that_a_destroyed_stream_left_unfenced_are_fenced_by_the_context) {
    bool has_failed = true;
    for (unsigned n = 1; has_failed; n++) {
        struct cushim_pool *p = create_sparing();
        struct cushim_stream *gone = new_stream(), *next = new_stream();
        cushim_devptr a = take(p, LARGE_BYTES, gone);
        ck_assert_int_eq(cushim_memory_set32_async(a, 1, 1, gone), CUSHIM_OK);
        give(p, a, gone);
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        ck_assert_int_eq(cushim_stream_destroy(gone), CUSHIM_OK);
        has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        while (SIM(sim_pending)())
            sched_yield();
        ck_assert_uint_eq(take(p, LARGE_BYTES, next), a);
        ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    }
}

TEST(a_fence_covers_no_free_that_came_after_it) {
    struct cushim_pool *p = create_sparing();
    struct cushim_stream *s = new_stream(), *t = new_stream();
    cushim_devptr early = take(p, LARGE_BYTES, s), late = take(p, LARGE_BYTES, s);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set32_async(early, 1, 1, s), CUSHIM_OK);
    give(p, early, s);
    SIM(sim_calls_reset)();
    ck_assert_int_eq(cushim_pool_trim(p, -1, 0), CUSHIM_OK);
    ck_assert_uint_eq(SIM(sim_calls)("cuEventRecord"), 1);
    unsigned n_before = SIM(sim_pending)();
    ck_assert_int_eq(cushim_memory_set32_async(late, 1, 1, s), CUSHIM_OK);
    give(p, late, s);
    SIM(sim_step)(n_before);
    ck_assert_uint_gt(SIM(sim_pending)(), 0); /* the second set call */
    ck_assert_uint_eq(stats_of(p).pending_blocks, 1);
    ck_assert_uint_eq(take(p, LARGE_BYTES, t), early);
    ck_assert_uint_ne(take(p, LARGE_BYTES, t), late);
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* The pool keeps a block for half of these streams. */
enum { N_EACH = 8, TURN_PAIRS = 400, TURN_BYTES = 4 << 20 };

static unsigned long calls_of_turn(struct cushim_pool *p, struct cushim_stream *const *streams) {
    unsigned long before = SIM(sim_calls_total)();
    for (unsigned i = 0; i < TURN_PAIRS; i++)
        give(p, take(p, TURN_BYTES, streams[i % N_EACH]), streams[i % N_EACH]);
    return SIM(sim_calls_total)() - before;
}

/*
 * Two threads have their own streams and run in turn.  The work of the other's streams is done by
 * then, so a thread takes those blocks, and no block that its own streams need soon.  So a turn
 * queries each block once or twice, not at every pair.
 */
TEST(all_caches_are_queried_before_a_block_is_taken_from_one) {
    struct cushim_stream *streams[2][N_EACH];
    struct cushim_pool *p = create(NULL);
    for (unsigned i = 0; i < 2 * N_EACH; i++)
        streams[i % 2][i / 2] = new_stream();
    for (unsigned turn = 0; turn < 8; turn++)
        ck_assert_uint_lt(calls_of_turn(p, streams[turn % 2]), TURN_PAIRS / 2);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* ---- waits for a stream ---- */

static void *wait_for(void *stream) {
    ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
    return NULL;
}

TEST(a_wait_covers_no_free_that_came_after_it_began) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream(), *t = new_stream();
    cushim_devptr early = take(p, 5000, s), late = take(p, 9000, s);
    pthread_t thread;
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set32_async(early, 1, 1, s), CUSHIM_OK);
    SIM(sim_calls_reset)();
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for, s), 0);
    while (!SIM(sim_calls)("cuStreamSynchronize"))
        sched_yield();
    ck_assert_int_eq(cushim_memory_set32_async(late, 1, 1, s), CUSHIM_OK);
    give(p, late, s);
    ck_assert_uint_gt(SIM(sim_step)(1), 0);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(SIM(sim_pending)(), 1); /* the second set call */
    ck_assert_uint_eq(stats_of(p).pending_blocks, 1);
    ck_assert_uint_ne(take(p, 9000, t), late);
    SIM(sim_release_hold)();
    give(p, early, s);
    wait_for(s);
    ck_assert_uint_eq(take(p, 5000, t), early);
    ck_assert_uint_eq(take(p, 9000, t), late);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(other_errors_of_such_a_free_are_still_refused) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *gone = new_stream();
    struct cushim_event *event;
    cushim_devptr a = take(p, 5000, gone), none;
    ck_assert_int_eq(cushim_event_create(NULL, 0, &event), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_destroy(event), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_destroy(gone), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_free(p, -1, a + 512, 0, gone), CUSHIM_UNKNOWNPTR);
    ck_assert_int_eq(cushim_pool_free(p, -1, a, 9999, gone), CUSHIM_INVALID);
    /* a value that never was a stream */
    ck_assert_int_eq(cushim_pool_free(p, -1, a, 0, (struct cushim_stream *)(void *)event),
                     CUSHIM_BADHANDLE);
    ck_assert_int_eq(cushim_pool_free(p, -1, a, 0, (struct cushim_stream *)1), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(stats_of(p).live_blocks, 1);
    give(p, a, gone);
    ck_assert_int_eq(cushim_pool_free(p, -1, a, 0, gone), CUSHIM_DOUBLEFREE);
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 5000, gone, &none), CUSHIM_BADHANDLE);
    ck_assert_uint_eq(none, 0);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* ---- streams and threads that come and go ---- */

static unsigned count_caches(void) {
    unsigned n = 0;
    for (struct cushim_pool_heap *heap = NULL; (heap = cushim_pool_heap_next(heap));) {
        for (const struct cushim_mem_stream_cache *at = heap->streams.caches; at; at = at->next)
            n++;
    }
    return n;
}

/* One request: a small and a large block, whose stream is destroyed before its work is done. */
static void request_on(struct cushim_pool *p, struct cushim_stream *s) {
    take_and_give(p, 5000, 2, s);
    take_and_give(p, LARGE_BYTES, 1, s);
}

TEST(a_stream_for_each_request_leaves_nothing_behind) {
    struct cushim_pool *p = create(NULL);
    unsigned n = suite_steps(10000), first_calls = 0;
    uint64_t held_bytes = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned long before = SIM(sim_calls_total)();
        struct cushim_stream *s = new_stream();
        request_on(p, s);
        ck_assert_int_eq(cushim_stream_destroy(s), CUSHIM_OK);
        unsigned calls = (unsigned)(SIM(sim_calls_total)() - before);
        if (i == n / 100) {
            first_calls = calls;
            held_bytes = stats_of(p).held_bytes;
        } else if (i > n / 100) {
            ck_assert_uint_le(calls,
                              first_calls + 4); /* sometimes query the free memory of the device */
        }
    }
    ck_assert_uint_le(count_caches(), 4);
    ck_assert_uint_eq(stats_of(p).held_bytes, held_bytes);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

static void *request_of_thread(void *pool) {
    request_on(pool, CUSHIM_STREAM_PER_THREAD);
    return NULL;
}

TEST(a_thread_for_each_request_leaves_nothing_behind) {
    struct cushim_pool *p = create(NULL);
    pthread_t thread;
    for (unsigned i = 0; i < suite_steps(10000); i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, request_of_thread, p), 0);
        pthread_join(thread, NULL);
    }
    ck_assert_uint_le(count_caches(), 4);
    ck_assert_uint_le(stats_of(p).cached_blocks, 12);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* A block that work of a destroyed stream may still use serves no other stream. */
TEST(a_destroyed_stream_passes_on_only_completed_blocks) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr first = take(p, LARGE_BYTES, s);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set8_async(first, 1, LARGE_BYTES, s), CUSHIM_OK);
    give(p, first, s);
    ck_assert_int_eq(cushim_stream_destroy(s), CUSHIM_OK);
    struct cushim_stream *t = new_stream();
    cushim_devptr second = take(p, LARGE_BYTES, t);
    ck_assert_uint_ne(second, first);
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    struct cushim_stream *u = new_stream();
    ck_assert_uint_eq(take(p, LARGE_BYTES, u), first);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* A free that found the cache of a stream arrives when another stream has the cache. */
TEST(a_late_free_waits_for_all) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr late = take(p, 5000, CUSHIM_STREAM_ALL);
    give(p, take(p, 5000, s), s);
    struct cushim_mem_stream_block *block = cushim_pool_block(late);
    struct cushim_mem_stream_cache *cache = block->streams->caches;
    uint32_t life = cache->life;
    ck_assert_int_eq(cushim_stream_destroy(s), CUSHIM_OK);
    struct cushim_stream *t = new_stream();
    give(p, take(p, 5000, t), t);
    ck_assert_ptr_eq(block->streams->caches, cache);
    ck_assert_uint_ne(cache->life, life);
    ck_assert(cushim_mem_stream_block_take(block, late));
    ck_assert_ptr_eq(cushim_mem_stream_cache_put(cache, life, block), block->streams->all);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* A request does not get blocks that this stream may still use either. */
TEST(a_late_request_gets_nothing_by_the_order_of_another_stream) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr a = take(p, 5000, s);
    const struct cushim_mem_stream_block *block = cushim_pool_block(a);
    struct cushim_mem_stream_cache *cache = block->streams->caches;
    size_t bucket_bytes = block->bucket_bytes;
    uint32_t life = cache->life;
    give(p, a, s);
    ck_assert_int_eq(cushim_stream_destroy(s), CUSHIM_OK);
    struct cushim_stream *t = new_stream();
    give(p, take(p, 5000, t), t);
    ck_assert_ptr_eq(block->streams->caches, cache);
    ck_assert_ptr_null(cushim_mem_stream_cache_take(cache, bucket_bytes, life));
    ck_assert_uint_eq(cushim_mem_stream_cache_count(cache, bucket_bytes), 1);
    ck_assert_ptr_eq(cushim_mem_stream_cache_take(cache, bucket_bytes, cache->life), block);
    ck_assert_ptr_eq(
        cushim_mem_stream_cache_put(cache, cache->life, cushim_pool_block(block->address)), cache);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

SUITE() {
    return tests_run("pool streams");
}
