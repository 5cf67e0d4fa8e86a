/*
 * The fast path of a pool's hits and frees: what ends it, and that all results equal those of the
 * slow path.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cushim/graph.h"
#include "cushim/memory.h"
#include "cushim/memory_copy.h"
#include "cushim/pool.h"
#include "cushim/stream.h"
#include "companion/capture/graph_resources.h"
#include "companion/pool/pool_call.h"
#include "tests/unit/companion/core/call_fixture.h"
#include "tests/unit/suite.h"

enum {
    BYTES = 5000,
    ENOUGH = 100,
    N_TURNS = 2000,
    N_FIXTURES = 12,
    N_HANDED = 60, /* less than a batch of frees */
    OTHER_BYTES = 9000
};

/* A pool in a new context, and a stream on which the pool is fast. */
struct fixture {
    struct cushim_context *ctx;
    struct cushim_pool *p;
    struct cushim_stream *s;
};

static cushim_devptr take(const struct fixture *fixture, size_t bytes, struct cushim_stream *s) {
    cushim_devptr ptr;
    ck_ok(cushim_pool_alloc(fixture->p, 0, CUSHIM_MEMORY_DEVICE, bytes, s, &ptr));
    return ptr;
}

static void pair(const struct fixture *fixture, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        ck_ok(cushim_pool_free(fixture->p, 0, take(fixture, BYTES, fixture->s), BYTES, fixture->s));
}

static struct fixture begin(void) {
    struct fixture fixture;
    struct cushim_pool_options options;
    ck_ok(cushim_context_create(0, 0, &fixture.ctx));
    ck_ok(cushim_context_push(fixture.ctx));
    cushim_pool_options_default(&options);
    options.ctx = fixture.ctx;
    ck_ok(cushim_pool_create(&options, &fixture.p));
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &fixture.s));
    pair(&fixture, ENOUGH);
    return fixture;
}

static struct cushim_pool_remembered *row_of(const struct fixture *fixture) {
    return cushim_pool_row(cushim_thread_mine->pool_memory, fixture->p, fixture->s,
                           CUSHIM_MEMORY_DEVICE);
}

/* Whether the next call takes the fast path. */
static bool is_fast(const struct fixture *fixture) {
    const struct cushim_pool_remembered *row = row_of(fixture);
    return cushim_pool_row_is_fast(row, fixture->p, fixture->s) &&
           cushim_mem_stream_cache_is_of(row->cache, row->life);
}

static struct cushim_pool_stats stats_of(const struct fixture *fixture) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    ck_ok(cushim_pool_stats(fixture->p, -1, -1, &stats));
    return stats;
}

TEST(a_fast_pair_makes_no_driver_call) {
    struct fixture fixture = begin();
    ck_assert(is_fast(&fixture));
    unsigned long before = SIM(sim_calls_total)();
    pair(&fixture, 1000);
    ck_assert_uint_eq(SIM(sim_calls_total)(), before);
    ck_assert(is_fast(&fixture));
}

TEST(the_fast_path_counts_as_the_slow_path_does) {
    struct fixture fixture = begin();
    struct cushim_pool_stats before = stats_of(&fixture), after;
    cushim_devptr first = take(&fixture, BYTES, fixture.s),
                  second = take(&fixture, BYTES, fixture.s);
    after = stats_of(&fixture);
    ck_assert_uint_eq(after.hits + after.misses, before.hits + before.misses + 2);
    ck_assert_uint_eq(after.live_blocks, 2);
    ck_assert_uint_eq(after.asked_bytes, 2 * BYTES);
    ck_assert_uint_eq(after.cached_blocks, 0);
    ck_ok(cushim_pool_stats_reset(fixture.p));
    ck_ok(cushim_pool_free(fixture.p, -1, second, 0, fixture.s));
    after = stats_of(&fixture);
    ck_assert_uint_eq(after.frees, 1);
    ck_assert_uint_eq(after.hits + after.misses, 0);
    ck_assert_uint_eq(after.live_blocks, 1);
    ck_assert_uint_eq(after.cached_blocks, 1);
    ck_ok(cushim_pool_free(fixture.p, 0, first, BYTES, fixture.s));
    after = stats_of(&fixture);
    ck_assert_uint_eq(after.live_blocks + after.live_bytes + after.asked_bytes, 0);
    ck_assert_uint_eq(after.cached_blocks, 2);
}

TEST(wrong_calls_are_refused_and_lose_nothing) {
    struct fixture fixture = begin();
    cushim_devptr block = take(&fixture, BYTES, fixture.s),
                  other = take(&fixture, BYTES, fixture.s), none;
    ck_is(cushim_pool_free(fixture.p, 1, block, BYTES, fixture.s), CUSHIM_BADDEVICE);
    ck_is(cushim_pool_free(fixture.p, 0, block, 70000, fixture.s), CUSHIM_INVALID);
    ck_is(cushim_pool_free(fixture.p, 0, block + 512, BYTES, fixture.s), CUSHIM_UNKNOWNPTR);
    ck_ok(cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s));
    ck_is(cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s), CUSHIM_DOUBLEFREE);
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, NULL),
          CUSHIM_INVALID);
    ck_is(cushim_pool_alloc(fixture.p, 9, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
          CUSHIM_BADDEVICE);
    ck_assert_uint_eq(none, 0);
    ck_is(cushim_pool_alloc(fixture.p, 0, 7, BYTES, fixture.s, &none), CUSHIM_INVALID);
    ck_ok(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, 0, fixture.s, &none));
    ck_assert_uint_eq(none, 0);
    ck_assert_uint_eq(stats_of(&fixture).live_blocks, 1);
    ck_ok(cushim_pool_free(fixture.p, 0, other, BYTES, fixture.s));
}

/* Blocks whose addresses share the slot in which a thread remembers its last block. */
TEST(the_remembered_row_of_another_address_is_not_used) {
    struct fixture fixture = begin();
    cushim_devptr blocks[64];
    unsigned n = sizeof blocks / sizeof *blocks;
    for (unsigned i = 0; i < n; i++)
        blocks[i] = take(&fixture, BYTES, fixture.s);
    for (unsigned i = 0; i < n; i++) {
        ck_ok(cushim_pool_free(fixture.p, 0, blocks[i], BYTES, fixture.s));
        ck_assert_uint_eq(stats_of(&fixture).live_blocks, n - 1 - i);
        ck_is(cushim_pool_free(fixture.p, 0, blocks[i], BYTES, fixture.s), CUSHIM_DOUBLEFREE);
    }
}

/* The slow path notes that the next call may be fast. The test removes the note before each free,
 * to see which free takes the slow path. */
TEST(more_blocks_than_a_batch_go_back_at_once) {
    struct fixture fixture = begin();
    cushim_devptr blocks[3 * CUSHIM_MEM_STREAM_BATCH_BLOCKS / 2];
    unsigned n = sizeof blocks / sizeof *blocks;
    for (unsigned i = 0; i < n; i++)
        blocks[i] = take(&fixture, BYTES, fixture.s);
    for (unsigned i = 0; i < n; i++) {
        bool is_batch_over = (i + 1) % CUSHIM_MEM_STREAM_BATCH_BLOCKS == 0;
        /* the slow path clears it, because there is no preload */
        row_of(&fixture)->has_preload = true;
        ck_ok(cushim_pool_free(fixture.p, 0, blocks[i], BYTES, fixture.s));
        ck_assert_msg(row_of(&fixture)->has_preload != is_batch_over, "%u", i);
    }
    ck_assert_uint_eq(stats_of(&fixture).cached_blocks, n);
}

/* ---- what ends it ---- */

static void begin_capture(const struct fixture *fixture) {
    struct cushim_stream *other;
    ck_ok(cushim_stream_create(fixture->ctx, 1, 0, &other));
    ck_ok(cushim_graph_begin(other, NULL));
}

static void announce_capture(const struct fixture *fixture) {
    ck_ok(cushim_context_capture_enter(fixture->ctx));
}

static void attach(const struct fixture *fixture) {
    struct cushim_stream *other;
    ck_ok(cushim_stream_create(fixture->ctx, 1, 0, &other));
    ck_ok(cushim_pool_freeze(fixture->p, other, CUSHIM_GRAPH_MEMORY_HOLD));
}

static void end_stream(const struct fixture *fixture) {
    struct cushim_stream *other;
    ck_ok(cushim_stream_create(fixture->ctx, 1, 0, &other));
    ck_ok(cushim_stream_destroy(other));
}

static void stop_holding(const struct fixture *fixture) {
    ck_ok(cushim_pool_freeze_idle(fixture->p, 0));
}

static void leave_a_graph(const struct fixture *fixture) {
    struct cushim_stream *other;
    struct cushim_graph *g;
    cushim_devptr block;
    ck_ok(cushim_memory_alloc(fixture->ctx, 64, &block));
    ck_ok(cushim_stream_create(fixture->ctx, 1, 0, &other));
    ck_ok(cushim_graph_begin(other, NULL));
    ck_ok(cushim_memory_set32_async(block, 1, 16, other));
    ck_ok(cushim_graph_end(other, &g));
    pair(fixture, 2); /* the fast path is open again */
    ck_assert(is_fast(fixture));
    ck_ok(cushim_graph_destroy(g));
}

TEST(a_condition_for_the_slow_path_ends_the_fast_path) {
    static void (*const changes[])(const struct fixture *fixture) = {
        begin_capture, announce_capture, attach, stop_holding, leave_a_graph};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct fixture fixture = begin();
        ck_assert(is_fast(&fixture));
        changes[i](&fixture);
        ck_assert_msg(!is_fast(&fixture), "change %zu", i);
    }
}

TEST(the_end_of_a_stream_ends_only_its_own_fast_path) {
    struct fixture fixture = begin();
    end_stream(&fixture);
    ck_assert(is_fast(&fixture));
    cushim_devptr none;
    ck_ok(cushim_stream_destroy(fixture.s));
    ck_assert(!is_fast(&fixture));
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
          CUSHIM_BADHANDLE);
}

/* The next stream has its cache by then and may be served from it at once. */
TEST(a_destroyed_stream_gets_no_block_of_the_stream_that_has_its_cache) {
    struct fixture fixture = begin();
    struct cushim_pool_remembered row = *row_of(&fixture);
    ck_ok(cushim_stream_synchronize(fixture.s));
    struct cushim_stream *gone = fixture.s, *next;
    ck_ok(cushim_stream_destroy(gone));
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &next));
    fixture.s = next;
    pair(&fixture, 2);
    ck_assert_ptr_eq(row_of(&fixture)->cache, row.cache);
    fixture.s = gone;
    *row_of(&fixture) = row; /* as on another thread, whose row was not taken */
    cushim_devptr none;
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, gone, &none),
          CUSHIM_BADHANDLE);
}

/* The default streams and their caches stay. */
TEST(a_destroyed_wrapper_is_reported) {
    struct CUstream_st *const streams[] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    for (unsigned i = 0; i < sizeof streams / sizeof *streams; i++) {
        struct fixture fixture = begin();
        ck_ok(cushim_stream_wrap(fixture.ctx, streams[i], &fixture.s));
        pair(&fixture, ENOUGH);
        ck_assert(is_fast(&fixture));
        ck_ok(cushim_stream_destroy(fixture.s));
        for (unsigned n = 0; n < 2; n++) {
            cushim_devptr none;
            ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
                  CUSHIM_BADHANDLE);
        }
    }
}

TEST(the_fast_path_returns_once_the_condition_ends) {
    struct fixture fixture = begin();
    announce_capture(&fixture);
    pair(&fixture, 3);
    ck_assert(!is_fast(&fixture));
    ck_ok(cushim_context_capture_leave(fixture.ctx));
    pair(&fixture, 1);
    ck_assert(is_fast(&fixture));
}

/* Each free of such a pool releases idle blocks at once, not at the end of a batch. */
static size_t idle_after_a_few(const struct fixture *fixture) {
    cushim_devptr blocks[5];
    unsigned n = sizeof blocks / sizeof *blocks;
    pair(fixture, 3);
    for (unsigned i = 0; i < n; i++)
        blocks[i] = take(fixture, BYTES, fixture->s);
    for (unsigned i = 0; i < n; i++)
        ck_ok(cushim_pool_free(fixture->p, 0, blocks[i], BYTES, fixture->s));
    ck_ok(cushim_stream_synchronize(fixture->s));
    pair(fixture, 1);
    return stats_of(fixture).cached_blocks;
}

TEST(a_pool_that_holds_nothing_keeps_nothing) {
    struct fixture fixture = begin();
    ck_assert_uint_eq(idle_after_a_few(&fixture), 5);
    stop_holding(&fixture);
    ck_assert_uint_le(idle_after_a_few(&fixture), 1);
}

TEST(each_free_keeps_the_total_cap) {
    struct fixture fixture = begin();
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.ctx = fixture.ctx;
    options.cap_cached_bytes = 2 * BYTES;
    ck_ok(cushim_pool_create(&options, &fixture.p));
    pair(&fixture, ENOUGH);
    ck_assert_uint_le(idle_after_a_few(&fixture), 2);
}

TEST(a_dead_context_is_reported) {
    struct fixture fixture = begin();
    cushim_devptr block = take(&fixture, BYTES, fixture.s), none;
    ck_ok(cushim_context_destroy(fixture.ctx));
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
          CUSHIM_DEADCONTEXT);
    ck_ok(cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s));
}

TEST(a_destroyed_pool_is_reported) {
    struct fixture fixture = begin();
    cushim_devptr block = take(&fixture, BYTES, fixture.s), none;
    ck_ok(cushim_pool_destroy(fixture.p));
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
          CUSHIM_BADHANDLE);
    ck_is(cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s), CUSHIM_BADHANDLE);
    ck_ok(cushim_memory_free(block));
}

/* Nothing is left of the pool: another pool may have its heap and caches. */
TEST(a_destroyed_pool_without_blocks_is_reported) {
    struct fixture fixture = begin();
    cushim_devptr block = take(&fixture, BYTES, fixture.s), none;
    ck_ok(cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s));
    ck_ok(cushim_pool_destroy(fixture.p));
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
          CUSHIM_BADHANDLE);
    ck_is(cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s), CUSHIM_BADHANDLE);
}

/* Pinned as by another thread's call, for which the end of the pool waits. */
TEST(a_pool_that_is_destroyed_while_pinned_is_reported) {
    struct fixture fixture = begin();
    struct cushim_pin pin = {0};
    cushim_devptr none;
    ck_assert_ptr_nonnull(cushim_handle_pin(&pin, CUSHIM_KIND_POOL, fixture.p));
    ck_ok(cushim_pool_destroy(fixture.p));
    ck_is(cushim_pool_alloc(fixture.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, fixture.s, &none),
          CUSHIM_BADHANDLE);
    cushim_handle_unpin(&pin);
}

TEST(a_forked_child_gets_an_error) {
    struct fixture fixture = begin();
    cushim_devptr block = take(&fixture, BYTES, fixture.s);
    int status = 0;
    pid_t child = fork();
    if (!child) {
        cushim_devptr none;
        bool is_told =
            cushim_pool_alloc(fixture.p, 0, 0, BYTES, fixture.s, &none) == CUSHIM_NOCUDA &&
            cushim_pool_free(fixture.p, 0, block, BYTES, fixture.s) == CUSHIM_NOCUDA;
        _exit(is_told ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- threads ---- */

struct visitor {
    const struct fixture *fixture;
    struct cushim_stream *mine, *theirs;
};

/* Each thread frees its blocks into the other thread's cache. */
static void *free_elsewhere(void *argument) {
    const struct visitor *visitor = argument;
    const struct fixture *fixture = visitor->fixture;
    for (unsigned i = 0; i < suite_steps(N_TURNS); i++) {
        unsigned n = i % 64 ? 1 : ENOUGH; /* sometimes many in a row */
        for (unsigned k = 0; k < n; k++)
            ck_ok(cushim_pool_free(fixture->p, 0, take(fixture, BYTES, visitor->mine), BYTES,
                                   visitor->mine));
        ck_ok(cushim_pool_free(fixture->p, 0, take(fixture, BYTES, visitor->mine), BYTES,
                               visitor->theirs));
    }
    return NULL;
}

TEST(threads_that_free_into_each_others_caches_do_not_wait_for_each_other) {
    struct fixture fixture = begin();
    struct cushim_stream *other;
    pthread_t threads[2];
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &other));
    struct visitor visitors[] = {{&fixture, fixture.s, other}, {&fixture, other, fixture.s}};
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, free_elsewhere, &visitors[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    struct cushim_pool_stats stats = stats_of(&fixture);
    ck_assert_uint_eq(stats.live_blocks + stats.live_bytes + stats.asked_bytes, 0);
    ck_assert_uint_eq(stats.refused, 0);
    ck_ok(cushim_pool_destroy(fixture.p));
}

/* Several batches of a size that only this thread uses. */
static void *free_batches(void *argument) {
    const struct visitor *visitor = argument;
    cushim_devptr blocks[4 * CUSHIM_MEM_STREAM_BATCH_BLOCKS];
    unsigned n = sizeof blocks / sizeof *blocks;
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < n; i++)
            blocks[i] = take(visitor->fixture, OTHER_BYTES, visitor->mine);
        for (unsigned i = 0; i < n; i++)
            ck_ok(cushim_pool_free(visitor->fixture->p, 0, blocks[i], OTHER_BYTES, visitor->mine));
    }
    return NULL;
}

TEST(batches_of_a_thread_leave_the_others_their_caches) {
    struct fixture fixture = begin();
    struct visitor visitor = {.fixture = &fixture};
    pthread_t thread;
    ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &visitor.mine));
    pair(&fixture, 1);
    ck_assert(is_fast(&fixture));
    ck_assert_int_eq(pthread_create(&thread, NULL, free_batches, &visitor), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(is_fast(&fixture));
}

static _Atomic cushim_devptr handed_over;

/* Free each block that arrives, once and correctly. */
static void *free_what_comes(void *argument) {
    const struct visitor *visitor = argument;
    for (unsigned i = 0; i < N_HANDED; i++) {
        cushim_devptr block;
        while (!(block = atomic_load(&handed_over)))
            sched_yield();
        for (volatile unsigned k = 0; k < i * 97 % 2000; k++) { /* after a varying delay */
        }
        ck_ok(cushim_pool_free(visitor->fixture->p, 0, block, OTHER_BYTES, visitor->theirs));
        atomic_store(&handed_over, 0);
    }
    return NULL;
}

/* Two blocks whose addresses share the slot in which a thread remembers its last block. The first
 * goes back, then the blocks that were taken in between, so that the next search starts with
 * another block. */
static void take_neighbours(const struct fixture *fixture, cushim_devptr *first,
                            cushim_devptr *second) {
    cushim_devptr others[16 << CUSHIM_POOL_LOG2_BLOCKS];
    unsigned n = 0;
    *first = take(fixture, OTHER_BYTES, fixture->s);
    while (cushim_pool_memory_place(*second = take(fixture, OTHER_BYTES, fixture->s)) !=
           cushim_pool_memory_place(*first)) {
        ck_assert_uint_lt(n, sizeof others / sizeof *others);
        others[n++] = *second;
    }
    ck_ok(cushim_pool_free(fixture->p, 0, *first, OTHER_BYTES, fixture->s));
    while (n--)
        ck_ok(cushim_pool_free(fixture->p, 0, others[n], OTHER_BYTES, fixture->s));
}

/* Hand a block over, and meanwhile free the block that was in its slot before. */
static void hand_over(const struct fixture *fixture) {
    cushim_devptr gone, block;
    take_neighbours(fixture, &gone, &block);
    atomic_store(&handed_over, block);
    while (atomic_load(&handed_over))
        ck_is(cushim_pool_free(fixture->p, 0, gone, OTHER_BYTES, fixture->s), CUSHIM_DOUBLEFREE);
}

TEST(a_wrong_free_spares_the_block_that_is_remembered_in_its_slot) {
    for (unsigned turn = 0; turn < suite_steps(N_FIXTURES); turn++) {
        struct fixture fixture = begin();
        struct cushim_stream *other;
        pthread_t thread;
        ck_ok(cushim_stream_create(fixture.ctx, 1, 0, &other));
        struct visitor visitor = {&fixture, fixture.s, other};
        ck_assert_int_eq(pthread_create(&thread, NULL, free_what_comes, &visitor), 0);
        hand_over(&fixture);
        ck_assert(is_fast(&fixture));
        for (unsigned i = 1; i < N_HANDED; i++)
            hand_over(&fixture);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
}

SUITE() {
    return tests_run("pool fast path");
}
