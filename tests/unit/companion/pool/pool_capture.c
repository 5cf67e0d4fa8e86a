/* Pools and captures: which blocks a captured stream gets, and when they serve again. */
#include "cushim/cushim.h"
#include "cushim/graph.h"
#include "cushim/pool.h"
#include "companion/pool/pool.h"
#include "companion/stream/stream.h"
#include "tests/unit/companion/core/sim_fixture.h"

#include "sim.h"
#include "tests/unit/suite.h"

static struct cushim_pool *p;
static struct cushim_stream *s, *t;

static void begin(void) {
    ck_assert_int_eq(cushim_pool_create(NULL, &p), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(NULL, 1, 0, &s), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(NULL, 1, 0, &t), CUSHIM_OK);
}

static cushim_devptr take(size_t bytes, struct cushim_stream *stream) {
    cushim_devptr ptr;
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, bytes, stream, &ptr), CUSHIM_OK);
    return ptr;
}

static void give(cushim_devptr ptr, struct cushim_stream *stream) {
    ck_assert_int_eq(cushim_pool_free(p, 0, ptr, 0, stream), CUSHIM_OK);
}

static struct cushim_pool_stats stats(void) {
    struct cushim_pool_stats stats = {.struct_size = sizeof stats};
    ck_assert_int_eq(cushim_pool_stats(p, -1, -1, &stats), CUSHIM_OK);
    return stats;
}

/* Begin a capture as the graph module does. */
static void freeze(int memory) {
    ck_assert_int_eq(cushim_pool_freeze(p, s, memory), CUSHIM_OK);
    struct cushim_scope scope;
    struct cushim_stream_use use;
    ck_assert_int_eq(cushim_stream_enter(&scope, "test", s, &use), CUSHIM_OK);
    ck_assert_int_eq(
        CUSHIM_DRIVER(cuStreamBeginCapture_v2)(use.handle, CU_STREAM_CAPTURE_MODE_RELAXED),
        CUDA_SUCCESS);
    cushim_stream_let_go(&use);
    cushim_call_end(&scope, CUSHIM_OK);
}

static struct cushim_pool_graph *unfreeze(bool has_graph) {
    struct cushim_pool_graph *held = NULL;
    struct cushim_pool_object *pool;
    struct cushim_scope scope, pool_scope;
    struct cushim_stream_use use;
    CUgraph graph = NULL;
    ck_assert_int_eq(cushim_stream_enter(&scope, "test", s, &use), CUSHIM_OK);
    ck_assert_int_eq(cushim_call_begin_object(&pool_scope, "test", CUSHIM_KIND_POOL, p, &pool),
                     CUSHIM_OK);
    ck_assert_int_eq(CUSHIM_DRIVER(cuStreamEndCapture)(use.handle, &graph), CUDA_SUCCESS);
    ck_assert_ptr_nonnull(graph); /* never destroyed, so the memory of its node stays allocated */
    ck_assert_int_eq(
        cushim_pool_unfreeze_stream(scope.context, pool, use.handle, has_graph ? &held : NULL),
        CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_unfreeze_stream(scope.context, pool, use.handle, NULL),
                     CUSHIM_STATE);
    cushim_call_end(&pool_scope, CUSHIM_OK);
    cushim_stream_let_go(&use);
    cushim_call_end(&scope, CUSHIM_OK);
    return held;
}

TEST(held_blocks_do_not_serve_until_the_graph_is_gone) {
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    cushim_devptr a = take(5000, s), b = take(5000, s);
    give(b, s);
    ck_assert_uint_eq(take(5000, s), b); /* served again in the same capture */
    give(b, s);
    struct cushim_pool_graph *held = unfreeze(true);
    ck_assert_ptr_nonnull(held);
    ck_assert_uint_eq(cushim_pool_graph_bytes(held), 2 * 5120);
    ck_assert_uint_eq(stats().graph_blocks, 2);
    ck_assert_uint_eq(stats().cached_blocks, 0);
    for (int i = 0; i < 100; i++) {
        cushim_devptr other = take(5000, i % 2 ? s : t);
        ck_assert_uint_ne(other, a);
        ck_assert_uint_ne(other, b);
    }
    ck_assert_int_eq(cushim_pool_free(p, 0, b, 0, s), CUSHIM_DOUBLEFREE);
    cushim_pool_graph_release(held, true);
    ck_assert_uint_eq(stats().graph_blocks, 0);
    ck_assert_uint_eq(stats().cached_blocks, 2); /* a too, although it was never freed */
    ck_assert_uint_eq(stats().live_blocks, 100);
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    cushim_devptr c = take(5000, t), d = take(5000, t);
    ck_assert((c == a && d == b) || (c == b && d == a));
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(an_older_block_that_is_freed_in_a_capture_waits_for_the_graph) {
    begin();
    cushim_devptr a = take(5000, s);
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    give(a, s);
    struct cushim_pool_graph *held = unfreeze(true);
    ck_assert_uint_ne(take(5000, s), a);
    ck_assert_uint_ne(take(5000, t), a);
    cushim_pool_graph_release(held, true);
    ck_assert_uint_eq(take(5000, s), a);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(a_block_that_is_freed_after_its_capture_waits_for_the_graph) {
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    cushim_devptr a = take(5000, s);
    struct cushim_pool_graph *held = unfreeze(true);
    give(a, s);
    ck_assert_uint_ne(take(5000, s), a);
    ck_assert_uint_ne(take(5000, t), a);
    cushim_pool_graph_release(held, true);
    ck_assert_uint_eq(take(5000, s), a);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(a_block_of_two_graphs_waits_for_both) {
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    cushim_devptr a = take(5000, s);
    struct cushim_pool_graph *first = unfreeze(true);
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    give(a, s);
    struct cushim_pool_graph *second = unfreeze(true);
    cushim_pool_graph_release(first, true);
    ck_assert_uint_ne(take(5000, s), a);
    cushim_pool_graph_release(second, true);
    ck_assert_uint_eq(take(5000, s), a);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

/* The graph runs on a stream that the pool does not know. */
TEST(a_free_in_an_unknown_capture_waits_for_all_streams) {
    struct cushim_scope scope;
    struct cushim_stream_use use;
    CUgraph graph;
    begin();
    cushim_devptr a = take(5000, s), b = take(5000, t);
    ck_assert_int_eq(cushim_stream_enter(&scope, "test", s, &use), CUSHIM_OK);
    ck_assert_int_eq(
        CUSHIM_DRIVER(cuStreamBeginCapture_v2)(use.handle, CU_STREAM_CAPTURE_MODE_RELAXED),
        CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_capture_enter(NULL), CUSHIM_OK);
    give(a, s);
    ck_assert_int_eq(CUSHIM_DRIVER(cuStreamEndCapture)(use.handle, &graph), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_context_capture_leave(NULL), CUSHIM_OK);
    cushim_stream_let_go(&use);
    cushim_call_end(&scope, CUSHIM_OK);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set32_async(b, 1, 1, t), CUSHIM_OK);
    ck_assert_uint_ne(take(5000, s), a);
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(stream_order_alone_is_not_enough_for_a_capture) {
    begin();
    cushim_devptr a = take(5000, s);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_memory_set32_async(a, 1, 1, s), CUSHIM_OK);
    give(a, s);
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    ck_assert_uint_ne(take(5000, s), a);
    SIM(sim_release_hold)();
    cushim_pool_graph_release(unfreeze(true), true);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(the_policy_refuse_returns_CAPTURE_and_keeps_the_capture_valid) {
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_REFUSE);
    cushim_devptr a = 1;
    ck_assert_int_eq(cushim_pool_alloc(p, 0, 0, 5000, s, &a), CUSHIM_CAPTURE);
    ck_assert_uint_eq(a, 0);
    ck_assert_uint_eq(stats().misses, 1);
    ck_assert_ptr_null(unfreeze(true));
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(node_memory_never_enters_a_cache) {
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_NODES);
    cushim_devptr a = take(128, s), b = take(128, s);
    give(b, s);
    struct cushim_pool_graph *held = unfreeze(true);
    ck_assert_int_eq(cushim_pool_free(p, 0, a, 0, s), CUSHIM_STATE);
    ck_assert_uint_ne(take(128, s), a);
    ck_assert_uint_eq(stats().cached_blocks, 0);
    cushim_pool_graph_release(held, true);
    ck_assert_int_ne(cushim_pool_free(p, 0, a, 0, s), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(without_a_graph_held_blocks_go_back_and_live_blocks_stay_live) {
    int n = -1;
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    ck_assert_int_eq(cushim_pool_frozen(p, &n), CUSHIM_OK);
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(cushim_pool_freeze(p, s, 0), CUSHIM_STATE);
    cushim_devptr a = take(5000, s), b = take(5000, CUSHIM_STREAM_ALL);
    give(b, s);
    ck_assert_ptr_null(unfreeze(false));
    ck_assert_int_eq(cushim_pool_frozen(p, &n), CUSHIM_OK);
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(stats().live_blocks, 1);
    ck_assert_uint_eq(stats().cached_blocks, 1);
    ck_assert_uint_eq(stats().graph_blocks, 0);
    give(a, s);
    ck_assert_int_eq(cushim_pool_freeze(p, NULL, 0), CUSHIM_INVALID);
    ck_assert_int_eq(cushim_pool_unfreeze(p, s, NULL), CUSHIM_STATE);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

TEST(a_graph_keeps_its_blocks_when_the_pool_ends) {
    begin();
    freeze(CUSHIM_GRAPH_MEMORY_HOLD);
    take(5000, s);
    struct cushim_pool_graph *held = unfreeze(true);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
    ck_assert_uint_gt(SIM(sim_live_bytes)(), 0);
    cushim_pool_graph_release(held, true);
    ck_assert_uint_eq(SIM(sim_live_bytes)(), 0);
}

TEST(during_a_known_capture_frees_on_all_streams_stay_pending) {
    begin();
    cushim_devptr a = take(5000, CUSHIM_STREAM_ALL);
    ck_assert_int_eq(cushim_context_capture_enter(NULL), CUSHIM_OK);
    give(a, CUSHIM_STREAM_ALL);
    ck_assert_uint_ne(take(5000, CUSHIM_STREAM_ALL), a);
    ck_assert_str_eq(cushim_last_error(), ""); /* no error text: the calls succeeded */
    ck_assert_uint_eq(SIM(sim_calls)("cuCtxRecordEvent"), 0);
    ck_assert_uint_eq(stats().pending_blocks, 1);
    ck_assert_int_eq(cushim_context_capture_leave(NULL), CUSHIM_OK);
    ck_assert_uint_eq(take(5000, CUSHIM_STREAM_ALL), a);
    ck_assert_int_eq(cushim_pool_destroy(p), CUSHIM_OK);
}

SUITE() {
    return tests_run("pool_capture");
}
