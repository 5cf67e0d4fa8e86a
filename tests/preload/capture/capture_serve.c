/*
 * CUSHIM_CAPTURE=serve (docs/internals/memory-engine.md, "Captures"): the caller's own capture is
 * served and stays valid, and blocks that are freed in it are not reused before everything made
 * from it is gone.  Without cushim, and by default, the driver refuses the same calls.
 */
#include "tests/preload/fixture/fixture.h"

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};
enum { N_MODES = 3, SIZE = 3 * MIB, STEP = 12, MOST = 16 * STEP };

static CUstream stream;
static CUdeviceptr block;

static bool is_serving(void) {
    const char *value = getenv("CUSHIM_CAPTURE");
    return fixture_is_preloaded() && value && strcmp(value, "serve") == 0;
}

static CUcontext begin(CUstreamCaptureMode mode) {
    CUcontext context = fixture_use_device(0);
    stream = fixture_stream();
    block = fixture_alloc(SIZE);
    OK(cuStreamBeginCapture(stream, mode));
    return context;
}

/*
 * Does one of the next blocks get this address?  Each time more is taken than was ever free, so
 * that the pool looks at pending blocks, which a free or a fence completes.
 */
static bool is_handed_out(void) {
    static CUdeviceptr others[MOST];
    static int n;
    bool is_there = false;
    n += 2 * STEP;
    ck_assert_int_le(n, MOST);
    OK(cuMemFree(fixture_alloc(SIZE + MIB)));
    for (int i = 0; i < n; i++) {
        others[i] = fixture_alloc(SIZE);
        is_there = is_there || (others[i] < block + SIZE && block < others[i] + SIZE);
    }
    for (int i = 0; i < n; i++)
        OK(cuMemFree(others[i]));
    return is_there;
}

/* Capture a write to the block, and free the block after it. */
static CUgraph capture(CUstreamCaptureMode mode) {
    CUgraph graph = NULL;
    begin(mode);
    fixture_launch_write(block, 7, stream);
    OK(cuMemFree(block));
    OK(cuStreamEndCapture(stream, &graph));
    ck_assert_ptr_nonnull(graph);
    return graph;
}

static CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec;
    OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
}

/* Run it on another stream. */
static void launch(CUgraphExec exec) {
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

TEST(memory_is_served_in_ones_own_capture, .n = N_MODES) {
    static const size_t sizes[] = {1, 1000, 700000, 3 * MIB, 300 * MIB};
    CUgraph graph = NULL;
    CUdeviceptr address;
    fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(1000))); /* a hit */
    CUdeviceptr target = fixture_alloc(SIZE);
    begin(modes[_i]);
    if (!is_serving() && modes[_i] != CU_STREAM_CAPTURE_MODE_RELAXED) {
        ANSWERS(cuMemAlloc(&address, 1000), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        ANSWERS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        return;
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        OK(cuMemAlloc(&address, sizes[i]));
        OK(cuMemFree(address));
        if (is_serving())
            ANSWERS(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    }
    fixture_launch_write(target, 9, stream);
    OK(cuStreamEndCapture(stream, &graph));
    launch(instantiate(graph));
    ck_assert_uint_eq(fixture_read(target), 9);
}

TEST_IF(is_serving(), what_was_freed_in_a_capture_waits_for_its_graph_and_executables,
        .n = N_MODES) {
    CUgraph graph = capture(modes[_i]);
    ck_assert(!is_handed_out());
    CUgraphExec exec = instantiate(graph);
    OK(cuGraphDestroy(graph));
    ck_assert(!is_handed_out());
    launch(exec);
    ck_assert(!is_handed_out());
    OK(cuGraphExecDestroy(exec));
    ck_assert(is_handed_out());
}

TEST_IF(is_serving(), a_launch_under_way_keeps_what_was_freed, .n = N_MODES) {
    CUdeviceptr others[STEP];
    CUgraph graph = capture(modes[_i]);
    CUgraphExec exec = instantiate(graph);
    sim_hold();
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphDestroy(graph));
    OK(cuGraphExecDestroy(exec));
    for (int i = 0; i < STEP; i++) {
        others[i] = fixture_alloc(SIZE);
        ck_assert_uint_ne(others[i], block);
    }
    sim_release_hold();
    for (int i = 0; i < STEP; i++)
        OK(cuMemFree(others[i]));
    ck_assert(is_handed_out());
}

TEST_IF(is_serving(), clones_and_parents_keep_what_was_freed, .n = N_MODES) {
    CUgraph clone, parent;
    CUgraphNode node;
    CUgraph graph = capture(modes[_i]);
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphDestroy(graph));
    ck_assert(!is_handed_out());
    OK(cuGraphCreate(&parent, 0));
    OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, clone));
    OK(cuGraphDestroy(clone));
    ck_assert(!is_handed_out());
    CUgraphExec exec = instantiate(parent);
    OK(cuGraphDestroy(parent));
    ck_assert(!is_handed_out());
    OK(cuGraphExecDestroy(exec));
    ck_assert(is_handed_out());
}

TEST_IF(is_serving(), a_block_that_came_back_is_safe_behind_earlier_work, .n = N_MODES) {
    CUdeviceptr others[STEP];
    CUgraph graph = capture(modes[_i]);
    CUstream busy = fixture_stream();
    for (int k = 0; k < 2; k++) { /* after two fences the epoch of the free is over */
        OK(cuMemFree(fixture_alloc(2 * SIZE)));
        OK(cuCtxSynchronize());
    }
    sim_hold();
    fixture_launch_write(block, 8, busy); /* as a program may do that freed too early */
    OK(cuGraphDestroy(graph));
    for (int i = 0; i < STEP; i++) {
        others[i] = fixture_alloc(SIZE);
        ck_assert_uint_ne(others[i], block);
    }
    sim_release_hold();
    for (int i = 0; i < STEP; i++)
        OK(cuMemFree(others[i]));
    ck_assert(is_handed_out() || is_handed_out());
}

TEST_IF(is_serving(), a_free_in_ones_own_capture_neither_waits_nor_records, .n = N_MODES) {
    CUgraph graph;
    fixture_use_device(0);
    CUstream busy = fixture_stream();
    CUdeviceptr other = fixture_alloc(100);
    begin(modes[_i]);
    sim_hold();
    fixture_launch_write(other, 1, busy);
    sim_calls_reset();
    OK(cuMemFree(block)); /* a thread that waits now waits for ever */
    ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), 0);
    ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 0);
    ck_assert_uint_eq(sim_calls("cuEventRecord"), 0);
    sim_release_hold();
    OK(cuStreamEndCapture(stream, &graph));
}

TEST_IF(is_serving(), what_was_freed_in_stream_order_is_kept_as_well, .n = N_MODES) {
    CUgraph graph = NULL;
    begin(modes[_i]);
    fixture_launch_write(block, 7, stream);
    OK(cuMemFreeAsync(block, stream));
    ANSWERS(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamEndCapture(stream, &graph));
    ck_assert(!is_handed_out());
    OK(cuGraphDestroy(graph));
    ck_assert(is_handed_out());
}

TEST_IF(is_serving(), what_was_freed_in_a_capture_that_failed_comes_back, .n = N_MODES) {
    CUgraph graph;
    CUevent event;
    begin(modes[_i]);
    OK(cuMemFree(block));
    cuStreamSynchronize(stream); /* which invalidates the capture */
    ANSWERS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert(is_handed_out());

    begin(modes[_i]);
    CUstream side = fixture_stream();
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    fixture_launch_write(block, 7, side);
    OK(cuMemFree(block));
    ANSWERS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    ck_assert(is_handed_out());

    begin(modes[_i]);
    OK(cuMemFree(block));
    OK(cuStreamDestroy(stream));
    ck_assert(is_handed_out());
}

TEST_IF(is_serving(), a_graph_that_is_captured_into_keeps_what_was_freed, .n = N_MODES) {
    CUgraph graph, same;
    for (int is_spoilt = 0; is_spoilt < 2; is_spoilt++) {
        fixture_use_device(0);
        stream = fixture_stream();
        block = fixture_alloc(SIZE);
        OK(cuGraphCreate(&graph, 0));
        OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, modes[_i]));
        fixture_launch_write(block, 7, stream);
        OK(cuMemFree(block));
        if (is_spoilt)
            cuStreamSynchronize(stream);
        ck_assert_int_eq(cuStreamEndCapture(stream, &same) == CUDA_SUCCESS, !is_spoilt);
        ck_assert(!is_handed_out());
        OK(cuGraphDestroy(graph));
        ck_assert(is_handed_out());
    }
}

TEST_IF(is_serving(), each_open_capture_of_a_thread_keeps_what_it_frees, .n = N_MODES) {
    CUgraph graphs[2];
    for (int goes_first = 0; goes_first < 2; goes_first++) {
        begin(modes[_i]);
        CUstream other = fixture_stream();
        OK(cuStreamBeginCapture(other, modes[_i]));
        fixture_launch_write(block, 7, stream);
        fixture_launch_write(block, 8, other);
        OK(cuMemFree(block));
        OK(cuStreamEndCapture(stream, &graphs[0]));
        OK(cuStreamEndCapture(other, &graphs[1]));
        OK(cuGraphDestroy(graphs[goes_first]));
        ck_assert(!is_handed_out());
        OK(cuGraphDestroy(graphs[!goes_first]));
        ck_assert(is_handed_out());
    }
}

TEST_IF(is_serving(), where_a_graph_takes_no_object_nothing_is_reused, .n = N_MODES) {
    CUgraph graph;
    /* the calls of an end: the end, the mode, the object, the graph */
    for (unsigned long n = 3; n <= 4; n++) {
        begin(modes[_i]);
        OK(cuMemFree(block));
        sim_fail_at(n, CUDA_ERROR_NOT_SUPPORTED);
        OK(cuStreamEndCapture(stream, &graph));
        ck_assert(sim_has_failed());
        OK(cuGraphDestroy(graph));
        ck_assert(!is_handed_out());
    }
}

static void use_memory(struct fixture_thread *thread) {
    for (int i = 0; i < 10; i++) {
        CUdeviceptr address = fixture_alloc((size_t)5000 << i);
        OK(cuMemFree(address));
    }
    thread->answer = cuMemFree(thread->address);
}

TEST_IF(is_serving(), other_threads_are_served_as_ever, .n = N_MODES) {
    CUgraph graph;
    struct fixture_thread thread = {.context = begin(modes[_i])};
    CUdeviceptr mine = fixture_alloc(SIZE);
    thread.address = block;
    fixture_start(&thread, use_memory);
    fixture_join(&thread);
    OK(thread.answer);
    OK(cuMemFree(mine));
    fixture_launch_write(mine, 1, stream);
    OK(cuStreamEndCapture(stream, &graph));
    ck_assert(is_handed_out()); /* it was not freed in this thread's capture */
    OK(cuGraphDestroy(graph));
}

TEST_IF(is_serving(), what_was_freed_goes_with_its_context, .n = N_MODES) {
    CUcontext context;
    CUgraph graph;
    for (int round = 0; round < 3; round++) {
        OK(cuInit(0));
        OK(cuCtxCreate(&context, NULL, 0, 0));
        stream = fixture_stream();
        block = fixture_alloc(SIZE);
        /* the end of a context with an open capture is refused in the other modes */
        OK(cuStreamBeginCapture(stream, round ? modes[_i] : CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuMemFree(block));
        if (round)
            OK(cuStreamEndCapture(stream, &graph));
        OK(cuCtxDestroy(context));
        fixture_use_device(0);
        CUdeviceptr other = fixture_alloc(SIZE); /* perhaps from the same pool, in another life */
        if (round)
            OK(cuGraphDestroy(graph));
        fixture_fill(other, 3, SIZE);
        OK(cuMemFree(other));
        ANSWERS(cuMemFree(other), CUDA_ERROR_INVALID_VALUE);
    }
}

int main(void) {
    return fixture_run("serve");
}
