/* The end of a context overtakes frees at each query that they make to the preload; this program
 * answers the queries. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "cushim/cushim.h"
#include "cushim/preload.h"
#include "companion/pool/pool_internal.h"
#include "tests/unit/companion/pool/pool_fixture.h"
#include "tests/unit/suite.h"

enum { BYTES = 4096 };

static _Thread_local bool is_late;
/* set by the late thread; read while it is held or after it ended */
static unsigned n_asked, hold_at;
static sem_t held, go_on;

__attribute__((visibility("default"))) int cushim_preload_capturing(struct CUctx_st *context) {
    (void)context;
    if (is_late && ++n_asked == hold_at) {
        sem_post(&held);
        while (sem_wait(&go_on)) {
        }
    }
    return 0;
}

struct late {
    struct cushim_pool *pool;
    struct cushim_stream *stream;
    cushim_devptr ptr;
    enum cushim_status status;
    bool is_alloc;
};

static void *run_late(void *cookie) {
    struct late *late = cookie;
    is_late = true;
    late->status = late->is_alloc ? cushim_pool_alloc(late->pool, 0, CUSHIM_MEMORY_DEVICE, BYTES,
                                                      late->stream, &late->ptr)
                                  : cushim_pool_free(late->pool, -1, late->ptr, 0, late->stream);
    sem_post(&held);
    return NULL;
}

static struct cushim_pool *create_in(struct cushim_context **context) {
    struct cushim_pool_options options;
    ck_assert_int_eq(cushim_context_create(0, 0, context), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_push(*context), CUSHIM_OK);
    cushim_pool_options_default(&options);
    options.ctx = *context;
    return create(&options);
}

static void end_context(struct cushim_context *context) {
    struct cushim_context *popped;
    ck_assert_int_eq(cushim_context_pop(&popped), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
}

/* One call, held at its n-th query while its context ends; returns the number of its queries. */
static unsigned overtake(struct late *late, unsigned n) {
    struct cushim_context *context;
    pthread_t thread;
    late->pool = create_in(&context);
    ck_assert_int_eq(cushim_stream_create(context, 0, 0, &late->stream), CUSHIM_OK);
    cushim_devptr ptr = take(late->pool, BYTES, late->stream);
    if (late->is_alloc)
        give(late->pool, ptr, late->stream);
    late->ptr = late->is_alloc ? 0 : ptr;
    n_asked = 0;
    hold_at = n;
    sem_init(&held, 0, 0);
    sem_init(&go_on, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_late, late), 0);
    while (sem_wait(&held)) {
    }
    end_context(context);
    cushim_mem_streams_lose_gone();
    sem_post(&go_on);
    pthread_join(thread, NULL);
    return n_asked;
}

/* Two live blocks of a pool of another context, which may have the heap of the last pool, belong to
 * it, differ, and stay when the pool ends. */
static void check_next_pool(void) {
    struct cushim_context *context;
    struct cushim_pool *p = create_in(&context);
    cushim_devptr a = take(p, BYTES, CUSHIM_STREAM_ALL), b = take(p, BYTES, CUSHIM_STREAM_ALL);
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(stats_of(p).live_blocks, 2);
    ck_assert_uint_eq(cushim_pool_block(a)->streams->table.n_used, 2);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    size_t n_bytes = 0;
    ck_assert_int_eq(cushim_memory_size(a, &n_bytes), CUSHIM_OK);
    ck_assert_uint_eq(n_bytes, BYTES);
    ck_assert_int_eq(cushim_memory_free(a), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_free(b), CUSHIM_OK);
    end_context(context);
    cushim_mem_streams_lose_gone();
}

TEST(a_free_that_overlaps_the_end_of_its_context_succeeds_and_leaves_nothing) {
    unsigned n_asks = 0, n = 0;
    while (n_asks >= n++) {
        struct late late = {0};
        n_asks = overtake(&late, n);
        ck_assert_int_eq(late.status, CUSHIM_OK);
        ck_assert_int_eq(cushim_pool_destroy(late.pool), CUSHIM_OK);
        check_next_pool();
    }
    ck_assert_uint_ge(n, 3); /* one before it takes the block, one after */
}

TEST(an_allocation_that_overlaps_the_end_fails_or_has_a_block) {
    unsigned n_asks = 0, n = 0;
    while (n_asks >= n++) {
        struct late late = {.is_alloc = true};
        n_asks = overtake(&late, n);
        ck_assert(late.ptr ? late.status == CUSHIM_OK : late.status == CUSHIM_DEADCONTEXT);
        ck_assert_int_eq(cushim_pool_destroy(late.pool), CUSHIM_OK);
        check_next_pool();
    }
}

/* A block that a thread has taken out of a cache is forgotten with the heap and never given
 * back. */
TEST(a_block_of_an_earlier_life_goes_nowhere) {
    struct cushim_context *context;
    struct cushim_pool *p = create_in(&context);
    cushim_devptr a = take(p, BYTES, CUSHIM_STREAM_ALL), b = take(p, BYTES, CUSHIM_STREAM_ALL);
    struct cushim_mem_stream_block *block = cushim_pool_block(a);
    struct cushim_mem_stream_block *other = cushim_pool_block(b);
    struct cushim_mem_streams *streams = block->streams;
    uint64_t life = cushim_mem_streams_life(streams);
    ck_assert(cushim_mem_stream_block_take(block, a));
    ck_assert(cushim_mem_stream_block_take(other, b));
    end_context(context);
    cushim_mem_streams_lose_gone();
    ck_assert_uint_eq(streams->table.n_used, 0);
    ck_assert_ptr_null(cushim_mem_stream_cache_put(streams->all, streams->all->life, block));
    ck_assert_uint_eq(streams->all->idle_bytes, 0);
    cushim_mem_stream_block_give(other, life);
    ck_assert_uint_eq(streams->table.n_used, 0);
    ck_assert_ptr_ne(streams->table.spare, streams->table.spare->older);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    check_next_pool();
}

/* A wait for a stream proves nothing about the stream that has its cache since. */
TEST(a_late_wait_proves_nothing_about_another_stream) {
    struct cushim_context *context;
    struct cushim_pool *p = create_in(&context);
    struct cushim_stream *s;
    ck_assert_int_eq(cushim_stream_create(context, 0, 0, &s), CUSHIM_OK);
    cushim_devptr a = take(p, BYTES, s);
    struct cushim_mem_stream_block *block = cushim_pool_block(a);
    struct cushim_mem_stream_cache *cache = block->cache;
    uint32_t life = cache->life;
    give(p, a, s);
    cushim_mem_stream_cache_waited(cache, life - 2, block->epoch);
    ck_assert(!cushim_mem_stream_block_is_over(cache, block));
    cushim_mem_stream_cache_waited(cache, life, block->epoch);
    ck_assert(cushim_mem_stream_block_is_over(cache, block));
    ck_assert_int_eq(cushim_stream_destroy(s), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    end_context(context);
}

SUITE() {
    return tests_run("pool late");
}
