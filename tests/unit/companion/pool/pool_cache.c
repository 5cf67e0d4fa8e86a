/* Stream caches alone: their owners, their next owners, and which blocks leave them first. */
#include <pthread.h>

#include "cushim/cushim.h"
#include "companion/pool/pool_internal.h"
#include "memory/state/heap_state.h"
#include "tests/unit/companion/pool/pool_fixture.h"
#include "tests/unit/suite.h"

enum { BYTES = 5000 };

static struct cushim_mem_streams *streams_of(struct cushim_pool *p) {
    cushim_devptr a = take(p, BYTES, CUSHIM_STREAM_ALL);
    struct cushim_mem_streams *streams = cushim_pool_block(a)->streams;
    give(p, a, CUSHIM_STREAM_ALL);
    return streams;
}

static struct cushim_mem_stream_cache *cache_of(struct cushim_mem_streams *streams, CUstream handle,
                                                const void *thread) {
    uint32_t life;
    return cushim_mem_stream_cache_of(streams,
                                      &(struct cushim_mem_stream){.fence = streams->heap->fence,
                                                                  .handle = handle,
                                                                  .thread = thread},
                                      &life);
}

TEST(the_default_streams_of_two_threads_have_separate_caches) {
    struct cushim_pool *p = create(NULL);
    struct cushim_mem_streams *streams = streams_of(p);
    int one, two;
    struct cushim_mem_stream_cache *first = cache_of(streams, CU_STREAM_PER_THREAD, &one);
    ck_assert_ptr_ne(cache_of(streams, CU_STREAM_PER_THREAD, &two), first);
    ck_assert_ptr_eq(cache_of(streams, CU_STREAM_PER_THREAD, &one), first);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(no_block_freed_after_the_epoch_leaves_its_cache) {
    struct cushim_pool *p = create(NULL);
    struct cushim_stream *s = new_stream();
    cushim_devptr a = take(p, BYTES, s), b = take(p, BYTES, s);
    struct cushim_mem_stream_block *first = cushim_pool_block(a);
    struct cushim_mem_stream_block *second = cushim_pool_block(b);
    struct cushim_mem_stream_cache *cache = first->cache;
    give(p, a, s);
    cushim_mem_fence_close(first->streams->heap->fence);
    give(p, b, s);
    ck_assert_uint_lt(first->epoch, second->epoch);
    ck_assert_ptr_eq(cushim_mem_stream_cache_pop_earliest(cache, first->epoch, false), first);
    ck_assert_ptr_null(cushim_mem_stream_cache_pop_earliest(cache, first->epoch, false));
    ck_assert_ptr_eq(cushim_mem_stream_cache_pop_earliest(cache, second->epoch, false), second);
    ck_assert_ptr_eq(cushim_mem_stream_cache_put(cache, cache->life, first), cache);
    ck_assert_ptr_eq(cushim_mem_stream_cache_put(cache, cache->life, second), cache);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

struct own {
    struct cushim_pool *pool;
    struct cushim_mem_stream_cache *cache;
};

/* Frees a block on the thread's own stream while work there may still use it. */
static void *free_and_end(void *cookie) {
    struct own *own = cookie;
    cushim_devptr a = take(own->pool, BYTES, CUSHIM_STREAM_PER_THREAD);
    own->cache = cushim_pool_block(a)->cache;
    ck_assert_int_eq(cushim_memory_set8_async(a, 1, BYTES, CUSHIM_STREAM_PER_THREAD), CUSHIM_OK);
    give(own->pool, a, CUSHIM_STREAM_PER_THREAD);
    return NULL;
}

static void leave_unfenced(struct own *own) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, free_and_end, own), 0);
    pthread_join(thread, NULL);
    ck_assert(cushim_mem_stream_cache_is_gone(own->cache));
}

/* Its thread ended without a fence: no fence is in flight, but the work on its block is not
 * done. */
TEST(a_cache_with_unfinished_work_goes_to_no_other_stream) {
    struct cushim_pool *p = create(NULL);
    struct cushim_mem_streams *streams = streams_of(p);
    struct own own = {.pool = p};
    int one;
    SIM(sim_hold)();
    leave_unfenced(&own);
    ck_assert_uint_eq(own.cache->n_batches, 0);
    ck_assert_ptr_ne(cache_of(streams, CU_STREAM_PER_THREAD, &one), own.cache);
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* Each time another unfinished cache is checked, so that one that stays busy does not block the
 * rest. */
TEST(caches_of_destroyed_streams_are_checked_in_turn) {
    enum { N = 3 };
    struct cushim_pool *p = create(NULL);
    struct cushim_mem_streams *streams = streams_of(p);
    struct own own[N];
    int names[N];
    SIM(sim_hold)();
    for (int i = 0; i < N; i++) {
        own[i] = (struct own){.pool = p};
        leave_unfenced(&own[i]);
    }
    size_t n_most = 0;
    for (int i = 0; i < N; i++) {
        cache_of(streams, CU_STREAM_PER_THREAD, &names[i]);
        n_most = streams->n_turns > n_most ? streams->n_turns : n_most;
    }
    ck_assert_uint_ge(n_most, N - 1); /* so the last cache gets its turn too */
    for (int i = 0; i < N; i++)
        ck_assert_uint_ge(own[i].cache->n_batches, 1); /* each was checked, so each has a fence */
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

SUITE() {
    return tests_run("pool cache");
}
