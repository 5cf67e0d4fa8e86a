/*
 * The quick way of a pool's hits and frees: who gets there, what ends it, and that everything is
 * answered as by the long way.
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
#include "companion/pool/pool_request.h"
#include "tests/unit/companion/core/call_rig.h"
#include "tests/unit/suite.h"

enum {
    BYTES = 5000,
    ENOUGH = 2 * CUSHIM_LOCK_LEAST,
    N_TURNS = 2000,
    N_RIGS = 12,
    N_HANDED = 60, /* below a batch of frees */
    OTHER_BYTES = 9000
};

/* A pool, and a stream on which it is quick, in a context of its own. */
struct rig {
    struct cushim_context *ctx;
    struct cushim_pool *p;
    struct cushim_stream *s;
};

static cushim_devptr take(const struct rig *rig, size_t bytes, struct cushim_stream *s) {
    cushim_devptr ptr;
    ck_ok(cushim_pool_alloc(rig->p, 0, CUSHIM_MEMORY_DEVICE, bytes, s, &ptr));
    return ptr;
}

static void pair(const struct rig *rig, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        ck_ok(cushim_pool_free(rig->p, 0, take(rig, BYTES, rig->s), BYTES, rig->s));
}

static struct rig begin(void) {
    struct rig rig;
    struct cushim_pool_options options;
    ck_ok(cushim_context_create(0, 0, &rig.ctx));
    ck_ok(cushim_context_push(rig.ctx));
    cushim_pool_options_default(&options);
    options.ctx = rig.ctx;
    ck_ok(cushim_pool_create(&options, &rig.p));
    ck_ok(cushim_stream_create(rig.ctx, 1, 0, &rig.s));
    pair(&rig, ENOUGH);
    return rig;
}

static struct cushim_pool_remembered *row_of(const struct rig *rig) {
    return cushim_pool_row(cushim_thread_mine->pool_memory, rig->p, rig->s, CUSHIM_MEMORY_DEVICE);
}

/* Would the next call be served so?  Where the kernel grants no fence, never. */
static bool is_quick(const struct rig *rig) {
    const struct cushim_pool_remembered *row = row_of(rig);
    return cushim_pool_row_is_quick(row, rig->p, rig->s) &&
           cushim_lock_is_owned(&row->lane->lock, cushim_thread_mine);
}

static bool may_be_quick(void) {
    return atomic_load(&cushim_pin_is_fenced);
}

static struct cushim_pool_stats stats_of(const struct rig *rig) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    ck_ok(cushim_pool_stats(rig->p, -1, -1, &stats));
    return stats;
}

START_TEST(a_thread_that_comes_again_and_again_gets_there) {
    struct rig rig = begin();
    ck_assert(is_quick(&rig) == may_be_quick());
    unsigned long before = SIM(sim_calls_total)();
    pair(&rig, 1000);
    ck_assert_uint_eq(SIM(sim_calls_total)(), before);
    ck_assert(is_quick(&rig) == may_be_quick());
}
END_TEST

START_TEST(it_counts_as_the_long_way_does) {
    struct rig rig = begin();
    struct cushim_pool_stats before = stats_of(&rig), after;
    cushim_devptr first = take(&rig, BYTES, rig.s), second = take(&rig, BYTES, rig.s);
    after = stats_of(&rig);
    ck_assert_uint_eq(after.hits + after.misses, before.hits + before.misses + 2);
    ck_assert_uint_eq(after.live_blocks, 2);
    ck_assert_uint_eq(after.asked_bytes, 2 * BYTES);
    ck_assert_uint_eq(after.cached_blocks, 0);
    ck_ok(cushim_pool_stats_reset(rig.p));
    ck_ok(cushim_pool_free(rig.p, -1, second, 0, rig.s));
    after = stats_of(&rig);
    ck_assert_uint_eq(after.frees, 1);
    ck_assert_uint_eq(after.hits + after.misses, 0);
    ck_assert_uint_eq(after.live_blocks, 1);
    ck_assert_uint_eq(after.cached_blocks, 1);
    ck_ok(cushim_pool_free(rig.p, 0, first, BYTES, rig.s));
    after = stats_of(&rig);
    ck_assert_uint_eq(after.live_blocks + after.live_bytes + after.asked_bytes, 0);
    ck_assert_uint_eq(after.cached_blocks, 2);
}
END_TEST

START_TEST(what_is_wrong_is_refused_and_loses_nothing) {
    struct rig rig = begin();
    cushim_devptr block = take(&rig, BYTES, rig.s), other = take(&rig, BYTES, rig.s), none;
    ck_is(cushim_pool_free(rig.p, 1, block, BYTES, rig.s), CUSHIM_BADDEVICE);
    ck_is(cushim_pool_free(rig.p, 0, block, 70000, rig.s), CUSHIM_INVALID);
    ck_is(cushim_pool_free(rig.p, 0, block + 512, BYTES, rig.s), CUSHIM_UNKNOWNPTR);
    ck_ok(cushim_pool_free(rig.p, 0, block, BYTES, rig.s));
    ck_is(cushim_pool_free(rig.p, 0, block, BYTES, rig.s), CUSHIM_DOUBLEFREE);
    ck_is(cushim_pool_alloc(rig.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, rig.s, NULL), CUSHIM_INVALID);
    ck_is(cushim_pool_alloc(rig.p, 9, CUSHIM_MEMORY_DEVICE, BYTES, rig.s, &none), CUSHIM_BADDEVICE);
    ck_assert_uint_eq(none, 0);
    ck_is(cushim_pool_alloc(rig.p, 0, 7, BYTES, rig.s, &none), CUSHIM_INVALID);
    ck_ok(cushim_pool_alloc(rig.p, 0, CUSHIM_MEMORY_DEVICE, 0, rig.s, &none));
    ck_assert_uint_eq(none, 0);
    ck_assert_uint_eq(stats_of(&rig).live_blocks, 1);
    ck_ok(cushim_pool_free(rig.p, 0, other, BYTES, rig.s));
}
END_TEST

/* Blocks whose addresses share the place where a thread remembers the last of them. */
START_TEST(what_is_remembered_of_another_address_is_not_taken) {
    struct rig rig = begin();
    cushim_devptr blocks[64];
    unsigned n = sizeof blocks / sizeof *blocks;
    for (unsigned i = 0; i < n; i++)
        blocks[i] = take(&rig, BYTES, rig.s);
    for (unsigned i = 0; i < n; i++) {
        ck_ok(cushim_pool_free(rig.p, 0, blocks[i], BYTES, rig.s));
        ck_assert_uint_eq(stats_of(&rig).live_blocks, n - 1 - i);
        ck_is(cushim_pool_free(rig.p, 0, blocks[i], BYTES, rig.s), CUSHIM_DOUBLEFREE);
    }
}
END_TEST

/* Freed the long way it would be noted that the next call may be quick, which is forgotten here. */
START_TEST(more_blocks_than_a_batch_go_back_at_once_too) {
    struct rig rig = begin();
    cushim_devptr blocks[3 * CUSHIM_POOL_BATCH_BLOCKS / 2];
    unsigned n = sizeof blocks / sizeof *blocks;
    for (unsigned i = 0; i < n; i++)
        blocks[i] = take(&rig, BYTES, rig.s);
    for (unsigned i = 0; i < n; i++) {
        bool is_batch_over = (i + 1) % CUSHIM_POOL_BATCH_BLOCKS == 0;
        uint64_t n_quick = row_of(&rig)->n_quick;
        row_of(&rig)->n_quick = 0;
        ck_ok(cushim_pool_free(rig.p, 0, blocks[i], BYTES, rig.s));
        ck_assert_msg(!may_be_quick() || (row_of(&rig)->n_quick != 0) == is_batch_over, "%u", i);
        row_of(&rig)->n_quick = n_quick;
    }
    ck_assert_uint_eq(stats_of(&rig).cached_blocks, n);
}
END_TEST

/* ---- what ends it ---- */

static void begin_capture(const struct rig *rig) {
    struct cushim_stream *other;
    ck_ok(cushim_stream_create(rig->ctx, 1, 0, &other));
    ck_ok(cushim_graph_begin(other, NULL));
}

static void announce_capture(const struct rig *rig) {
    ck_ok(cushim_context_capture_enter(rig->ctx));
}

static void attach(const struct rig *rig) {
    struct cushim_stream *other;
    ck_ok(cushim_stream_create(rig->ctx, 1, 0, &other));
    ck_ok(cushim_pool_freeze(rig->p, other, CUSHIM_GRAPH_MEMORY_HOLD));
}

static void end_stream(const struct rig *rig) {
    struct cushim_stream *other;
    ck_ok(cushim_stream_create(rig->ctx, 1, 0, &other));
    ck_ok(cushim_stream_destroy(other));
}

static void stop_holding(const struct rig *rig) {
    ck_ok(cushim_pool_freeze_idle(rig->p, 0));
}

static void leave_a_graph(const struct rig *rig) {
    struct cushim_stream *other;
    struct cushim_graph *g;
    cushim_devptr block;
    ck_ok(cushim_memory_alloc(rig->ctx, 64, &block));
    ck_ok(cushim_stream_create(rig->ctx, 1, 0, &other));
    ck_ok(cushim_graph_begin(other, NULL));
    ck_ok(cushim_memory_set32_async(block, 1, 16, other));
    ck_ok(cushim_graph_end(other, &g));
    pair(rig, 2); /* quick again */
    ck_assert(is_quick(rig) == may_be_quick());
    ck_ok(cushim_graph_destroy(g));
}

START_TEST(what_the_long_way_must_look_at_ends_it) {
    static void (*const changes[])(const struct rig *rig) = {
        begin_capture, announce_capture, attach, end_stream, stop_holding, leave_a_graph};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct rig rig = begin();
        ck_assert(is_quick(&rig) == may_be_quick());
        changes[i](&rig);
        ck_assert_msg(!is_quick(&rig), "change %zu", i);
    }
}
END_TEST

START_TEST(it_comes_back_when_that_is_over) {
    struct rig rig = begin();
    announce_capture(&rig);
    pair(&rig, 3);
    ck_assert(!is_quick(&rig));
    ck_ok(cushim_context_capture_leave(rig.ctx));
    pair(&rig, 1);
    ck_assert(is_quick(&rig) == may_be_quick());
}
END_TEST

/* Each free of such a pool looks after what is idle: nothing waits for the end of a batch. */
static size_t idle_after_a_few(const struct rig *rig) {
    cushim_devptr blocks[5];
    unsigned n = sizeof blocks / sizeof *blocks;
    pair(rig, 3);
    for (unsigned i = 0; i < n; i++)
        blocks[i] = take(rig, BYTES, rig->s);
    for (unsigned i = 0; i < n; i++)
        ck_ok(cushim_pool_free(rig->p, 0, blocks[i], BYTES, rig->s));
    ck_ok(cushim_stream_synchronize(rig->s));
    pair(rig, 1);
    return stats_of(rig).cached_blocks;
}

START_TEST(a_pool_that_holds_nothing_keeps_nothing) {
    struct rig rig = begin();
    ck_assert_uint_eq(idle_after_a_few(&rig), 5);
    stop_holding(&rig);
    ck_assert_uint_le(idle_after_a_few(&rig), 1);
}
END_TEST

START_TEST(a_cap_of_all_is_kept_by_each_free) {
    struct rig rig = begin();
    struct cushim_pool_options options;
    cushim_pool_options_default(&options);
    options.ctx = rig.ctx;
    options.cap_cached_bytes = 2 * BYTES;
    ck_ok(cushim_pool_create(&options, &rig.p));
    pair(&rig, ENOUGH);
    ck_assert_uint_le(idle_after_a_few(&rig), 2);
}
END_TEST

START_TEST(a_context_that_died_is_told) {
    struct rig rig = begin();
    cushim_devptr block = take(&rig, BYTES, rig.s), none;
    ck_ok(cushim_context_destroy(rig.ctx));
    ck_is(cushim_pool_alloc(rig.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, rig.s, &none),
          CUSHIM_DEADCONTEXT);
    ck_ok(cushim_pool_free(rig.p, 0, block, BYTES, rig.s));
}
END_TEST

START_TEST(a_pool_that_is_gone_is_told) {
    struct rig rig = begin();
    cushim_devptr block = take(&rig, BYTES, rig.s), none;
    ck_ok(cushim_pool_destroy(rig.p));
    ck_is(cushim_pool_alloc(rig.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, rig.s, &none), CUSHIM_BADHANDLE);
    ck_is(cushim_pool_free(rig.p, 0, block, BYTES, rig.s), CUSHIM_BADHANDLE);
    ck_ok(cushim_memory_free(block));
}
END_TEST

/* Nothing of it is left: its branch, with its lanes, may be another pool's. */
START_TEST(a_pool_that_is_gone_without_a_block_is_told) {
    struct rig rig = begin();
    cushim_devptr block = take(&rig, BYTES, rig.s), none;
    ck_ok(cushim_pool_free(rig.p, 0, block, BYTES, rig.s));
    ck_ok(cushim_pool_destroy(rig.p));
    ck_is(cushim_pool_alloc(rig.p, 0, CUSHIM_MEMORY_DEVICE, BYTES, rig.s, &none), CUSHIM_BADHANDLE);
    ck_is(cushim_pool_free(rig.p, 0, block, BYTES, rig.s), CUSHIM_BADHANDLE);
}
END_TEST

START_TEST(a_forked_child_is_told) {
    struct rig rig = begin();
    cushim_devptr block = take(&rig, BYTES, rig.s);
    int status = 0;
    pid_t child = fork();
    if (!child) {
        cushim_devptr none;
        bool is_told = cushim_pool_alloc(rig.p, 0, 0, BYTES, rig.s, &none) == CUSHIM_NOCUDA &&
                       cushim_pool_free(rig.p, 0, block, BYTES, rig.s) == CUSHIM_NOCUDA;
        _exit(is_told ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* ---- threads ---- */

struct visitor {
    const struct rig *rig;
    struct cushim_stream *mine, *theirs;
};

/* What one thread took of its lane goes back to the other's, who does the same. */
static void *free_elsewhere(void *argument) {
    const struct visitor *visitor = argument;
    const struct rig *rig = visitor->rig;
    for (unsigned i = 0; i < suite_steps(N_TURNS); i++) {
        unsigned n = i % 64 ? 1 : ENOUGH; /* now and then long enough to own the lane */
        for (unsigned k = 0; k < n; k++)
            ck_ok(
                cushim_pool_free(rig->p, 0, take(rig, BYTES, visitor->mine), BYTES, visitor->mine));
        ck_ok(cushim_pool_free(rig->p, 0, take(rig, BYTES, visitor->mine), BYTES, visitor->theirs));
    }
    return NULL;
}

START_TEST(threads_that_free_into_each_others_lanes_do_not_wait_for_each_other) {
    struct rig rig = begin();
    struct cushim_stream *other;
    pthread_t threads[2];
    ck_ok(cushim_stream_create(rig.ctx, 1, 0, &other));
    struct visitor visitors[] = {{&rig, rig.s, other}, {&rig, other, rig.s}};
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, free_elsewhere, &visitors[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    struct cushim_pool_stats stats = stats_of(&rig);
    ck_assert_uint_eq(stats.live_blocks + stats.live_bytes + stats.asked_bytes, 0);
    ck_assert_uint_eq(stats.refused, 0);
    ck_ok(cushim_pool_destroy(rig.p));
}
END_TEST

/* Several batches, of a size of its own. */
static void *free_batches(void *argument) {
    const struct visitor *visitor = argument;
    cushim_devptr blocks[4 * CUSHIM_POOL_BATCH_BLOCKS];
    unsigned n = sizeof blocks / sizeof *blocks;
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < n; i++)
            blocks[i] = take(visitor->rig, OTHER_BYTES, visitor->mine);
        for (unsigned i = 0; i < n; i++)
            ck_ok(cushim_pool_free(visitor->rig->p, 0, blocks[i], OTHER_BYTES, visitor->mine));
    }
    return NULL;
}

START_TEST(batches_of_a_thread_leave_the_others_their_lanes) {
    struct rig rig = begin();
    struct visitor visitor = {.rig = &rig};
    pthread_t thread;
    ck_ok(cushim_stream_create(rig.ctx, 1, 0, &visitor.mine));
    pair(&rig, 1);
    ck_assert(is_quick(&rig) == may_be_quick());
    ck_assert_int_eq(pthread_create(&thread, NULL, free_batches, &visitor), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(is_quick(&rig) == may_be_quick());
}
END_TEST

static _Atomic cushim_devptr handed_over;

/* Whatever comes is freed, once and rightly. */
static void *free_what_comes(void *argument) {
    const struct visitor *visitor = argument;
    for (unsigned i = 0; i < N_HANDED; i++) {
        cushim_devptr block;
        while (!(block = atomic_load(&handed_over)))
            sched_yield();
        for (volatile unsigned k = 0; k < i * 97 % 2000; k++) { /* now sooner, now later */
        }
        ck_ok(cushim_pool_free(visitor->rig->p, 0, block, OTHER_BYTES, visitor->theirs));
        atomic_store(&handed_over, 0);
    }
    return NULL;
}

/* Two blocks whose addresses share the place where a thread remembers the last of them.  The first
 * goes back, and then what was taken on the way, so that the next time begins with another. */
static void take_neighbours(const struct rig *rig, cushim_devptr *first, cushim_devptr *second) {
    cushim_devptr others[16 << CUSHIM_POOL_LOG2_BLOCKS];
    unsigned n = 0;
    *first = take(rig, OTHER_BYTES, rig->s);
    while (cushim_pool_memory_place(*second = take(rig, OTHER_BYTES, rig->s)) !=
           cushim_pool_memory_place(*first)) {
        ck_assert_uint_lt(n, sizeof others / sizeof *others);
        others[n++] = *second;
    }
    ck_ok(cushim_pool_free(rig->p, 0, *first, OTHER_BYTES, rig->s));
    while (n--)
        ck_ok(cushim_pool_free(rig->p, 0, others[n], OTHER_BYTES, rig->s));
}

/* Hand a block over, and meanwhile free the one that was in its place before. */
static void hand_over(const struct rig *rig) {
    cushim_devptr gone, block;
    take_neighbours(rig, &gone, &block);
    atomic_store(&handed_over, block);
    while (atomic_load(&handed_over))
        ck_is(cushim_pool_free(rig->p, 0, gone, OTHER_BYTES, rig->s), CUSHIM_DOUBLEFREE);
}

START_TEST(a_wrong_free_does_not_touch_the_block_that_is_remembered_in_its_place) {
    for (unsigned turn = 0; turn < suite_steps(N_RIGS); turn++) {
        struct rig rig = begin();
        struct cushim_stream *other;
        pthread_t thread;
        ck_ok(cushim_stream_create(rig.ctx, 1, 0, &other));
        struct visitor visitor = {&rig, rig.s, other};
        ck_assert_int_eq(pthread_create(&thread, NULL, free_what_comes, &visitor), 0);
        hand_over(&rig);
        ck_assert(is_quick(&rig) == may_be_quick());
        for (unsigned i = 1; i < N_HANDED; i++)
            hand_over(&rig);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    }
}
END_TEST

SUITE() {
    return suite_run("pool quick",
                     (const TTest *[]){
                         a_thread_that_comes_again_and_again_gets_there,
                         it_counts_as_the_long_way_does,
                         what_is_wrong_is_refused_and_loses_nothing,
                         what_is_remembered_of_another_address_is_not_taken,
                         more_blocks_than_a_batch_go_back_at_once_too,
                         what_the_long_way_must_look_at_ends_it,
                         it_comes_back_when_that_is_over,
                         a_pool_that_holds_nothing_keeps_nothing,
                         a_cap_of_all_is_kept_by_each_free,
                         a_context_that_died_is_told,
                         a_pool_that_is_gone_is_told,
                         a_pool_that_is_gone_without_a_block_is_told,
                         a_forked_child_is_told,
                         threads_that_free_into_each_others_lanes_do_not_wait_for_each_other,
                         batches_of_a_thread_leave_the_others_their_lanes,
                         a_wrong_free_does_not_touch_the_block_that_is_remembered_in_its_place,
                         NULL,
                     });
}
