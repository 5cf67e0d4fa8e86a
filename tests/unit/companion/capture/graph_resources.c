/* What a graph keeps, and when it is released. */
#include <stdbool.h>
#include <stdint.h>

#include "cushim/arena.h"
#include "cushim/context.h"
#include "cushim/device.h"
#include "cushim/event.h"
#include "cushim/graph.h"
#include "cushim/memory.h"
#include "cushim/memory_copy.h"
#include "cushim/pool.h"
#include "cushim/stream.h"
#include "tests/unit/companion/core/sim_fixture.h"
#include "tests/unit/suite.h"
#include "tools/sim/sim.h"

enum { N_BYTES = 1024 };

static struct cushim_stream *stream;
static struct cushim_pool *pool;
static struct cushim_arena *arena;

static void make_all(void) {
    struct cushim_arena_options options;
    ck_assert_int_eq(cushim_device_set(0), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream),
                     CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_create(NULL, &pool), CUSHIM_OK);
    cushim_arena_options_default(&options);
    options.capacity_bytes = 1 << 20;
    ck_assert_int_eq(cushim_arena_create(&options, &arena), CUSHIM_OK);
}

static void count(void *cookie) {
    ++*(int *)cookie;
}

static struct cushim_graph_options attached(int memory) {
    struct cushim_graph_options options;
    cushim_graph_options_default(&options);
    options.memory = memory;
    options.pools = &pool;
    options.arenas = &arena;
    options.n_pools = options.n_arenas = 1;
    return options;
}

static cushim_devptr pool_block(void) {
    cushim_devptr block;
    ck_assert_int_eq(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, N_BYTES, stream, &block),
                     CUSHIM_OK);
    return block;
}

static cushim_devptr arena_block(void) {
    cushim_devptr block;
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, N_BYTES, stream, &block, NULL), CUSHIM_OK);
    return block;
}

static struct cushim_pool_stats stats(void) {
    struct cushim_pool_stats now = {.struct_size = sizeof now};
    ck_assert_int_eq(cushim_pool_stats(pool, -1, -1, &now), CUSHIM_OK);
    return now;
}

static int n_frozen(void) {
    int n;
    ck_assert_int_eq(cushim_pool_frozen(pool, &n), CUSHIM_OK);
    return n;
}

static size_t used_after_reset(void) {
    size_t used;
    ck_assert_int_eq(cushim_arena_reset(arena, CUSHIM_STREAM_ALL), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_used(arena, &used), CUSHIM_OK);
    return used;
}

/* Capture a graph that sets a block of the pool and one of the arena. */
static struct cushim_graph *capture(void) {
    struct cushim_graph_options options = attached(CUSHIM_GRAPH_MEMORY_HOLD);
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_OK);
    cushim_devptr block = pool_block();
    ck_assert_int_eq(cushim_memory_set8_async(block, 1, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_set8_async(arena_block(), 2, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_free(pool, 0, block, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_OK);
    return graph;
}

static struct cushim_graphexec *instantiate(struct cushim_graph *graph) {
    struct cushim_graphexec *exec;
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_OK);
    return exec;
}

static void assert_kept(bool is_kept) {
    ck_assert_uint_eq(stats().graph_blocks, is_kept);
    ck_assert_uint_eq(stats().cached_blocks, !is_kept);
    ck_assert_uint_eq(used_after_reset(), is_kept ? N_BYTES : 0);
}

TEST(blocks_go_back_when_graph_and_executables_are_gone_in_any_order) {
    make_all();
    for (unsigned order = 0; order < 2; order++) {
        int n_calls = 0;
        struct cushim_graph *graph = capture();
        struct cushim_graphexec *exec = instantiate(graph), *second = instantiate(graph);
        struct cushim_graph_info info = {.struct_size = sizeof info};
        struct cushim_graphexec_info of_exec = {.struct_size = sizeof of_exec};
        ck_assert_int_eq(cushim_graph_attach(graph, count, &n_calls), CUSHIM_OK);
        ck_assert_int_eq(cushim_graph_attach(graph, NULL, NULL), CUSHIM_INVALID);
        ck_assert_int_eq(cushim_graph_info(graph, &info), CUSHIM_OK);
        ck_assert_uint_eq(info.pool_bytes, N_BYTES);
        ck_assert_uint_eq(info.arena_bytes, N_BYTES);
        ck_assert_uint_eq(info.attached, 1);
        ck_assert_uint_eq(info.executables, 2);
        ck_assert_int_eq(cushim_graphexec_info(second, &of_exec), CUSHIM_OK);
        ck_assert_uint_eq(of_exec.pool_bytes, N_BYTES);
        ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
        ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
        if (order)
            ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
        ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
        assert_kept(true);
        ck_assert_int_eq(cushim_graphexec_destroy(second), CUSHIM_OK);
        ck_assert_int_eq(n_calls, order);
        if (!order) {
            assert_kept(true);
            ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
        }
        ck_assert_int_eq(n_calls, 1);
        assert_kept(false);
    }
}

TEST(blocks_wait_for_the_last_launch) {
    make_all();
    int n_calls = 0;
    struct cushim_graph *graph = capture();
    struct cushim_graphexec *exec = instantiate(graph);
    ck_assert_int_eq(cushim_graph_attach(graph, count, &n_calls), CUSHIM_OK);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_uint_eq(stats().graph_blocks, 1);
    ck_assert_int_eq(n_calls, 0);
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
    ck_assert_int_eq(n_calls, 1);
    assert_kept(false);
}

static int n_called; /* attached functions */

/* A graph that was launched, destroyed and completed, which no library call has noticed yet. */
static void leave_over(void) {
    struct cushim_graph *graph = capture();
    struct cushim_graphexec *exec = instantiate(graph);
    CUcontext context;
    ck_assert_int_eq(cushim_graph_attach(graph, count, &n_called), CUSHIM_OK);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    SIM(sim_release_hold)();
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuCtxSynchronize)(), CUDA_SUCCESS);
    ck_assert_int_eq(SIM(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS);
    n_called = 0;
}

/* Calls that programs make under their own locks, which the attached function may need. */
TEST(an_attached_function_does_not_run_inside_calls_on_memory) {
    struct cushim_stream *other;
    struct cushim_event *event;
    cushim_devptr block, plain;
    int done;
    make_all();
    leave_over();
    ck_assert_int_eq(cushim_pool_free(pool, 0, pool_block(), N_BYTES, stream), CUSHIM_OK);
    ck_assert_uint_eq(stats().graph_blocks, 0); /* the memory is back at once */
    arena_block();
    ck_assert_uint_eq(used_after_reset(), 0);
    ck_assert_int_eq(cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, 64 * N_BYTES, stream, &block),
                     CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_free(pool, 0, block, 0, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_trim(pool, -1, 0), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_drain(pool), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_alloc(NULL, N_BYTES, &plain), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_set8_async(plain, 1, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_free(plain), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_create(NULL, 0, 0, &other), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_create(NULL, 0, &event), CUSHIM_OK);
    ck_assert_int_eq(cushim_event_record(event, other), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_query(other, &done), CUSHIM_OK);
    ck_assert_int_eq(cushim_stream_destroy(other), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_drain(arena), CUSHIM_OK);
    ck_assert_int_eq(cushim_arena_destroy(arena), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_destroy(pool), CUSHIM_OK);
    ck_assert_int_eq(n_called, 0);
    ck_assert_int_eq(cushim_event_synchronize(event), CUSHIM_OK);
    ck_assert_int_eq(n_called, 1);
}

TEST(an_attached_function_runs_in_the_next_call_on_graphs_or_wait) {
    struct cushim_graph *graph;
    struct cushim_graph_info info = {.struct_size = sizeof info};
    make_all();
    for (int i = 0; i < 6; i++) {
        leave_over();
        pool_block(); /* notices the memory first */
        ck_assert_int_eq(n_called, 0);
        if (i < 2)
            ck_assert_int_eq(i ? cushim_context_synchronize(NULL)
                               : cushim_stream_synchronize(stream),
                             CUSHIM_OK);
        else
            graph = capture(); /* the end of a capture is such a call */
        ck_assert_int_eq(n_called, 1);
        if (i > 1)
            leave_over();
        if (i == 2)
            ck_assert_int_eq(cushim_graph_info(graph, &info), CUSHIM_OK);
        if (i == 3)
            ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
        if (i == 4)
            ck_assert_int_eq(cushim_graphexec_destroy(instantiate(graph)), CUSHIM_OK);
        if (i == 5) {
            ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
            ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_OK);
        }
        ck_assert_int_eq(n_called, 1);
    }
}

TEST(a_block_taken_after_the_end_is_not_the_graphs) {
    make_all();
    struct cushim_graph *graph = capture();
    struct cushim_graph_info info = {.struct_size = sizeof info};
    cushim_devptr block;
    ck_assert_int_eq(cushim_arena_alloc(arena, 0, 0, N_BYTES, CUSHIM_STREAM_ALL, &block, NULL),
                     CUSHIM_OK);
    pool_block();
    ck_assert_int_eq(cushim_graph_info(graph, &info), CUSHIM_OK);
    ck_assert_uint_eq(info.arena_bytes, N_BYTES);
    ck_assert_uint_eq(info.pool_bytes, N_BYTES);
}

TEST(copies_that_others_made_of_the_graph_keep_its_blocks_too) {
    make_all();
    int n_calls = 0;
    struct CUgraph_st *handle;
    CUgraph clone;
    struct cushim_graph *graph = capture();
    ck_assert_int_eq(cushim_graph_attach(graph, count, &n_calls), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_handle(graph, &handle), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuGraphClone)(&clone, handle), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    assert_kept(true);
    ck_assert_int_eq(n_calls, 0);
    ck_assert_int_eq(SIM(cuGraphDestroy)(clone), CUDA_SUCCESS);
    ck_assert_uint_eq(stats().graph_blocks, 0);
    ck_assert_int_eq(n_calls, 0);
    ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
    ck_assert_int_eq(n_calls, 1);
    assert_kept(false);
}

TEST(a_launch_inside_a_capture_keeps_blocks_with_the_outer_graph) {
    make_all();
    struct cushim_graph *inner = capture(), *outer;
    struct cushim_graphexec *exec = instantiate(inner);
    ck_assert_int_eq(cushim_graph_begin(stream, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(stream, &outer), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(inner), CUSHIM_OK);
    assert_kept(true);
    ck_assert_int_eq(cushim_graph_destroy(outer), CUSHIM_OK);
    assert_kept(false);
}

TEST(an_update_passes_blocks_on) {
    make_all();
    int n_first = 0, n_second = 0;
    struct cushim_graph *first = capture(), *second = capture();
    struct cushim_graphexec *exec = instantiate(first);
    ck_assert_int_eq(cushim_graph_attach(first, count, &n_first), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_attach(second, count, &n_second), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(first), CUSHIM_OK);
    SIM(sim_hold)();
    ck_assert_int_eq(cushim_graphexec_launch(exec, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graphexec_update(exec, second, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(second), CUSHIM_OK);
    ck_assert_int_eq(n_first, 0);
    SIM(sim_release_hold)();
    ck_assert_int_eq(cushim_stream_synchronize(stream), CUSHIM_OK);
    ck_assert_int_eq(n_first, 1);
    ck_assert_int_eq(n_second, 0);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_int_eq(n_second, 1);
    ck_assert_uint_eq(stats().graph_blocks, 0);
}

static size_t n_executables(struct cushim_graph *graph) {
    struct cushim_graph_info info = {.struct_size = sizeof info};
    ck_assert_int_eq(cushim_graph_info(graph, &info), CUSHIM_OK);
    return info.executables;
}

TEST(an_updated_executable_counts_for_the_graph_of_the_update) {
    make_all();
    struct cushim_graph *first = capture(), *second = capture();
    struct cushim_graphexec *exec = instantiate(first);
    ck_assert_int_eq(cushim_graphexec_update(exec, second, NULL), CUSHIM_OK);
    ck_assert_uint_eq(n_executables(first), 0);
    ck_assert_uint_eq(n_executables(second), 1);
    ck_assert_int_eq(cushim_graphexec_update(exec, second, NULL), CUSHIM_OK);
    ck_assert_uint_eq(n_executables(second), 1);
    ck_assert_int_eq(cushim_graphexec_destroy(exec), CUSHIM_OK);
    ck_assert_uint_eq(n_executables(second), 0);
}

TEST(a_capture_without_a_graph_releases_everything_at_once) {
    make_all();
    struct cushim_graph_options options = attached(CUSHIM_GRAPH_MEMORY_HOLD);
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_OK);
    ck_assert_int_eq(n_frozen(), 1);
    cushim_devptr block = pool_block(), mine = pool_block();
    arena_block();
    ck_assert_int_eq(cushim_pool_free(pool, 0, block, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_abort(stream), CUSHIM_OK);
    ck_assert_int_eq(n_frozen(), 0);
    ck_assert_uint_eq(stats().live_blocks, 1);
    assert_kept(false);
    ck_assert_int_eq(cushim_pool_free(pool, 0, mine, N_BYTES, stream), CUSHIM_OK);
}

/* ---- the n-th driver call fails ---- */

static enum cushim_status whole_way(int memory) {
    struct cushim_graph_options options = attached(memory);
    struct cushim_graph *graph = NULL;
    struct cushim_graphexec *exec = NULL;
    cushim_devptr block = 0, of_arena = 0;
    enum cushim_status status = cushim_graph_begin(stream, &options), ended;
    if (status != CUSHIM_OK)
        return status;
    status = cushim_pool_alloc(pool, 0, CUSHIM_MEMORY_DEVICE, N_BYTES, stream, &block);
    if (status == CUSHIM_OK)
        status = cushim_arena_alloc(arena, 0, 0, N_BYTES, stream, &of_arena, NULL);
    if (status == CUSHIM_OK)
        status = cushim_memory_set8_async(block, 1, N_BYTES, stream);
    ended = cushim_graph_end(stream, &graph);
    if (status == CUSHIM_OK)
        status = ended;
    if (status == CUSHIM_OK)
        status = cushim_graph_instantiate(graph, CUSHIM_GRAPH_FLAG_AUTO_FREE, &exec);
    if (status == CUSHIM_OK)
        status = cushim_graphexec_launch(exec, stream);
    cushim_graphexec_destroy(exec);
    cushim_graph_destroy(graph);
    return status;
}

static void fail_each_call(int memory) {
    make_all();
    ck_assert_int_eq(whole_way(memory), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    for (unsigned n = 1;; n++) {
        int n_capturing, status;
        ck_assert_uint_lt(n, 300);
        SIM(sim_fail_at)(n, CUDA_ERROR_OUT_OF_MEMORY);
        enum cushim_status answer = whole_way(memory);
        int has_failed = SIM(sim_has_failed)();
        SIM(sim_fail_at)(0, CUDA_SUCCESS);
        ck_assert_int_eq(cushim_graph_status(stream, &status), CUSHIM_OK);
        ck_assert_int_eq(status, 0);
        ck_assert_int_eq(cushim_graph_capturing(NULL, &n_capturing), CUSHIM_OK);
        ck_assert_int_eq(n_capturing, 0);
        ck_assert_int_eq(n_frozen(), 0);
        ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
        if (!has_failed) {
            ck_assert_int_eq(answer, CUSHIM_OK);
            break;
        }
    }
    ck_assert_int_eq(whole_way(memory), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_synchronize(NULL), CUSHIM_OK);
    size_t used;
    ck_assert_int_eq(cushim_graph_memory(0, &used, NULL), CUSHIM_OK);
    ck_assert_uint_le(used, N_BYTES); /* the failed free */
    ck_assert_uint_eq(used_after_reset(), 0);
}

TEST(after_any_failed_call_pools_and_arenas_are_unchanged) {
    fail_each_call(CUSHIM_GRAPH_MEMORY_HOLD);
}

TEST(after_any_failed_call_no_node_memory_is_lost) {
    fail_each_call(CUSHIM_GRAPH_MEMORY_NODES);
}

TEST(a_failing_begin_leaves_nothing_attached) {
    make_all();
    struct cushim_graph_options options = attached(CUSHIM_GRAPH_MEMORY_HOLD);
    struct cushim_pool *const wrong[] = {pool, (struct cushim_pool *)0x1234};
    struct cushim_graph *graph;
    options.pools = wrong, options.n_pools = 2;
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_BADHANDLE);
    ck_assert_int_eq(n_frozen(), 0);
    options = attached(CUSHIM_GRAPH_MEMORY_HOLD);
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_begin(stream, &options), CUSHIM_CAPTURE);
    ck_assert_int_eq(n_frozen(), 1);
    ck_assert_int_eq(cushim_graph_end(stream, &graph), CUSHIM_EMPTYGRAPH);
    ck_assert_int_eq(n_frozen(), 0);
    ck_assert_uint_eq(stats().graph_blocks, 0);
    ck_assert_uint_eq(used_after_reset(), 0);
}

TEST(a_capture_begun_elsewhere_keeps_memory_in_a_graph_without_nodes) {
    make_all();
    struct CUstream_st *handle;
    struct CUgraph_st *none;
    struct cushim_graph *graph;
    struct cushim_graphexec *exec;
    CUgraph captured;
    ck_assert_int_eq(cushim_stream_handle(stream, &handle), CUSHIM_OK);
    ck_assert_int_eq(cushim_pool_freeze(pool, stream, CUSHIM_GRAPH_MEMORY_HOLD), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuStreamBeginCapture_v2)(handle, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_SUCCESS);
    cushim_devptr block = pool_block();
    ck_assert_int_eq(cushim_pool_free(pool, 0, block, N_BYTES, stream), CUSHIM_OK);
    ck_assert_int_eq(SIM(cuStreamEndCapture)(handle, &captured), CUDA_SUCCESS);
    ck_assert_int_eq(cushim_pool_unfreeze(pool, stream, &graph), CUSHIM_OK);
    ck_assert_uint_eq(stats().graph_blocks, 1);
    ck_assert_int_eq(cushim_graph_handle(graph, &none), CUSHIM_STATE);
    ck_assert_int_eq(cushim_graph_instantiate(graph, 0, &exec), CUSHIM_STATE);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_uint_eq(stats().graph_blocks, 0);
    SIM(cuGraphDestroy)(captured);
}

static struct cushim_graph *capture_set(struct cushim_context *context, cushim_devptr block) {
    struct cushim_stream *of_context;
    struct cushim_graph *graph;
    ck_assert_int_eq(cushim_stream_create(context, 0, 0, &of_context), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_begin(of_context, NULL), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_set8_async(block, 1, N_BYTES, of_context), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_end(of_context, &graph), CUSHIM_OK);
    return graph;
}

/* After the context is gone the driver reports nothing, so only handles keep the blocks. */
TEST(in_a_dead_context_an_updated_executable_and_its_graph_keep_blocks) {
    for (int order = 0; order < 2; order++) {
        struct cushim_context *context;
        cushim_devptr block;
        int n_calls = 0;
        ck_assert_int_eq(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &context), CUSHIM_OK);
        ck_assert_int_eq(cushim_memory_alloc(context, N_BYTES, &block), CUSHIM_OK);
        struct cushim_graph *first = capture_set(context, block),
                            *second = capture_set(context, block);
        struct cushim_graphexec *exec = instantiate(first);
        ck_assert_int_eq(cushim_graph_attach(second, count, &n_calls), CUSHIM_OK);
        ck_assert_int_eq(cushim_graphexec_update(exec, second, NULL), CUSHIM_OK);
        ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
        ck_assert_int_eq(order ? cushim_graph_destroy(second) : cushim_graphexec_destroy(exec),
                         CUSHIM_OK);
        ck_assert_int_eq(n_calls, 0);
        ck_assert_int_eq(order ? cushim_graphexec_destroy(exec) : cushim_graph_destroy(second),
                         CUSHIM_OK);
        ck_assert_int_eq(n_calls, 1);
        ck_assert_int_eq(cushim_graph_destroy(first), CUSHIM_OK);
    }
}

TEST(in_a_dead_context_host_memory_goes_back_without_the_driver) {
    struct cushim_context *context;
    cushim_devptr block;
    int n_calls = 0;
    ck_assert_int_eq(cushim_context_create(0, CUSHIM_CONTEXT_FLAG_PUSH, &context), CUSHIM_OK);
    ck_assert_int_eq(cushim_memory_alloc(context, N_BYTES, &block), CUSHIM_OK);
    struct cushim_graph *graph = capture_set(context, block);
    ck_assert_int_eq(cushim_graph_attach(graph, count, &n_calls), CUSHIM_OK);
    ck_assert_int_eq(cushim_context_destroy(context), CUSHIM_OK);
    ck_assert_int_eq(cushim_graph_destroy(graph), CUSHIM_OK);
    ck_assert_int_eq(n_calls, 1);
}

SUITE() {
    return tests_run("graph_keep");
}
