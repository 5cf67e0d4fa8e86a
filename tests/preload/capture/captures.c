/*
 * Open captures (interposition.md C7, docs/internals/memory-engine.md, "Captures"): calls that only
 * another thread's capture would forbid are served and leave it valid.  Calls that the caller's own
 * capture forbids fail as without cushim.
 */
#include "tests/preload/fixture/fixture.h"

#include <dlfcn.h>

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};
enum { N_MODES = 3 };

/* Without cushim a capture in GLOBAL mode, the first, refuses calls of other threads and becomes
 * invalid. */
static int first_for_others(void) {
    return fixture_is_preloaded() ? 0 : 1;
}

/* A thread's own default stream, by the name that it has in the per-thread variants if these are
 * called. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define OWN_STREAM ((CUstream)0)
#else
#define OWN_STREAM CU_STREAM_PER_THREAD
#endif

static CUstream stream;
static CUdeviceptr target;

static CUcontext begin(CUstreamCaptureMode mode) {
    CUcontext context = fixture_use_device(0);
    stream = fixture_stream();
    target = fixture_alloc(100);
    OK(cuStreamBeginCapture(stream, mode));
    return context;
}

static int n_open(void) {
    int (*capturing)(struct CUctx_st *);
    void *address = dlsym(RTLD_DEFAULT, "cushim_preload_capturing");
    ck_assert_ptr_nonnull(address);
    memcpy(&capturing, &address, sizeof capturing);
    return capturing(NULL);
}

/* The capture is valid to its end, and its graph does what it should. */
static void end_and_launch(void) {
    CUgraph graph = NULL;
    CUgraphExec exec;
    fixture_launch_write(target, 77, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    ck_assert_uint_eq(fixture_read(target), 77);
}

static void end_invalid(void) {
    CUgraph graph = (CUgraph)1;
    ANSWERS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(graph);
}

/* Misses and hits of every size, frees, double frees. */
static void use_memory(struct fixture_thread *thread) {
    static const size_t sizes[] = {1, 1000, 700000, 3 * MIB, 300 * MIB};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            CUdeviceptr block = fixture_alloc(sizes[i]);
            OK(cuMemFree(block));
            /* a large block went back to the driver, which would refuse because of that capture */
            if (sizes[i] < 300 * MIB)
                ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
        }
    }
    thread->answer = CUDA_SUCCESS;
}

TEST(allocating_during_another_threads_capture_leaves_it_valid, .first = first_for_others(),
     .n = N_MODES) {
    struct fixture_thread thread = {.context = begin(modes[_i]), .answer = CUDA_ERROR_UNKNOWN};
    fixture_start(&thread, use_memory);
    fixture_join(&thread);
    OK(thread.answer);
    end_and_launch();
}

static void alloc_and_keep(struct fixture_thread *thread) {
    thread->answer = cuMemAlloc(&thread->address, 5 * MIB);
}

TEST(natively_a_global_capture_refuses_other_threads) {
    struct fixture_thread thread = {.context = begin(CU_STREAM_CAPTURE_MODE_GLOBAL)};
    fixture_start(&thread, alloc_and_keep);
    fixture_join(&thread);
    if (fixture_is_preloaded()) {
        OK(thread.answer);
        end_and_launch();
    } else {
        ANSWERS(thread.answer, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        end_invalid();
    }
}

TEST(in_the_callers_own_capture_an_allocation_fails_as_native, .n = N_MODES) {
    CUdeviceptr address;
    fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(1000))); /* a hit is possible, but not served */
    begin(modes[_i]);
    if (modes[_i] == CU_STREAM_CAPTURE_MODE_RELAXED) {
        OK(cuMemAlloc(&address, 1000));
        OK(cuMemAlloc(&address, 5 * MIB));
        end_and_launch();
    } else {
        ANSWERS(cuMemAlloc(&address, 1000), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        end_invalid();
        OK(cuMemAlloc(&address, 1000));
    }
}

TEST(in_the_callers_own_capture_a_free_fails_as_native, .n = N_MODES) {
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    begin(modes[_i]);
    if (modes[_i] == CU_STREAM_CAPTURE_MODE_RELAXED) {
        OK(cuMemFree(block));
        end_and_launch();
    } else {
        ANSWERS(cuMemFree(block), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        end_invalid();
        fixture_fill(block, 1, 1000); /* it lives */
        OK(cuMemFree(block));
    }
}

TEST(a_thread_that_exchanged_its_mode_for_relaxed_is_served, .n = N_MODES) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin(modes[_i]);
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    OK(cuMemFree(fixture_alloc(1000)));
    unsigned long n = sim_calls("cuMemAlloc_v2");
    CUdeviceptr again = fixture_alloc(1000);
    if (fixture_is_preloaded() && !getenv("CUSHIM_FREE"))
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), n); /* by the pool, too */
    OK(cuMemFree(again));
    OK(cuMemFree(fixture_alloc(5 * MIB)));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED); /* the thread's mode was left alone */
    end_and_launch();
}

TEST(a_free_during_a_capture_is_still_a_barrier, .first = first_for_others(), .n = N_MODES) {
    CUcontext context = fixture_use_device(0);
    struct fixture_thread thread = {.context = context, .address = fixture_alloc(1000)};
    CUstream busy = fixture_stream();
    CUdeviceptr other = fixture_alloc(100);
    begin(modes[_i]);
    sim_hold();
    fixture_launch_write(other, 5, busy);
    unsigned long n = sim_calls("cuMemFree_v2");
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, "cuMemFree_v2", n)); /* of a dummy, or without cushim of
                                                               * the block */
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
    ck_assert_uint_eq(sim_pending(), 0);
    end_and_launch();
}

TEST(a_capture_may_begin_while_a_free_waits, .n = N_MODES) {
    CUcontext context = fixture_use_device(0);
    struct fixture_thread thread = {.context = context, .address = fixture_alloc(1000)};
    CUstream busy = fixture_stream();
    CUdeviceptr other = fixture_alloc(100);
    sim_hold();
    fixture_launch_write(other, 5, busy);
    unsigned long n = sim_calls(fixture_wait_of_free());
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n));
    begin(modes[_i]);
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
    end_and_launch();
}

TEST(a_captured_free_of_a_block_is_refused, .n = N_MODES) {
    CUgraph graph;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    begin(modes[_i]);
    ck_assert_int_ne(cuMemFreeAsync(block, stream), CUDA_SUCCESS);
    cuStreamEndCapture(stream, &graph);
    fixture_fill(block, 1, 1000);
    OK(cuMemFree(block));
}

TEST(graph_memory_nodes_pass, .n = N_MODES) {
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUdeviceptr address;
    begin(modes[_i]);
    OK(cuMemAllocAsync(&address, 1000, stream));
    fixture_launch_write(address, 5, stream);
    OK(cuMemFreeAsync(address, stream));
    fixture_launch_write(target, 6, stream);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        OK(cuGraphLaunch(exec, stream));
        OK(cuMemFree(fixture_alloc(1000)));
    }
    ck_assert_uint_eq(fixture_read(target), 6);
}

/* Without cushim there is no such set. */
TEST_IF(fixture_is_preloaded(), the_set_of_open_captures_follows_every_begin_and_end) {
    CUgraph graph;
    CUstream second;
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    ck_assert_int_eq(n_open(), 1);
    ck_assert_int_ne(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    ck_assert_int_eq(n_open(), 1);
    second = fixture_stream();
    OK(cuStreamBeginCapture(second, CU_STREAM_CAPTURE_MODE_RELAXED));
    ck_assert_int_eq(n_open(), 2);
    OK(cuStreamDestroy(second));
    ck_assert_int_eq(n_open(), 1);
    OK(cuStreamEndCapture(stream, &graph));
    ck_assert_int_eq(n_open(), 0);
    OK(cuGraphCreate(&graph, 0));
    OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(n_open(), 1);
    OK(cuStreamEndCapture(stream, &graph));
    ck_assert_int_eq(n_open(), 0);
}

static void end_from_here(struct fixture_thread *thread) {
    CUgraph graph;
    thread->answer = cuStreamEndCapture(thread->stream, &graph);
}

TEST(an_end_from_the_wrong_thread_ends_nothing) {
    struct fixture_thread thread = {.context = begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                                    .stream = stream};
    fixture_start(&thread, end_from_here);
    fixture_join(&thread);
    ANSWERS(thread.answer, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 1);
    end_and_launch();
}

TEST(a_capture_goes_with_its_context) {
    CUcontext context;
    CUdeviceptr address;
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, 0));
    CUstream other = fixture_stream();
    OK(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuCtxDestroy(context));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 0);
    fixture_use_device(0);
    OK(cuMemAlloc(&address, 1000));
    OK(cuMemFree(address));
}

static void free_block(struct fixture_thread *thread) {
    thread->answer = cuMemFree(thread->address);
}

TEST(an_end_that_the_driver_refuses_ends_nothing) {
    CUdeviceptr block;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    block = fixture_alloc(1000);
    begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    ANSWERS(cuStreamEndCapture(stream, NULL), CUDA_ERROR_INVALID_VALUE);
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 1);
    thread.address = block; /* its free would invalidate a capture that we do not know */
    fixture_start(&thread, free_block);
    fixture_join(&thread);
    OK(thread.answer);
    end_and_launch();
}

/* If it ends a capture although it fails, the capture is forgotten. */
TEST(an_end_that_fails_may_end_it) {
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstream second = fixture_stream();
    CUevent event;
    CUgraph graph;
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(second, event, 0));
    fixture_launch_write(target, 1, second);
    ANSWERS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 0);
    OK(cuMemFree(fixture_alloc(1000)));
}

/* The driver calls of a pair that the pool can serve. */
static unsigned long calls_of_a_pair(void) {
    OK(cuMemFree(fixture_alloc(1000)));
    unsigned long n = sim_calls_total();
    OK(cuMemFree(fixture_alloc(1000)));
    return sim_calls_total() - n;
}

TEST(a_begin_that_is_refused_leaves_nothing_open) {
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(100);
    ck_assert_int_ne(cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_SUCCESS);
    sim_calls_reset();
    OK(cuMemFree(block));
    if (fixture_is_preloaded()) /* while one is open, frees use the driver's barrier, which needs
                                 * memory to free */
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 0);
}

TEST(any_number_of_captures_may_be_open) {
    enum { MANY = 1000 };
    static CUstream streams[MANY];
    CUgraph graph;
    fixture_use_device(0);
    unsigned long n_calls = calls_of_a_pair();
    for (int i = 0; i < MANY; i++) {
        streams[i] = fixture_stream();
        OK(cuStreamBeginCapture(streams[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    }
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), MANY);
    for (int i = 0; i < MANY; i++)
        OK(cuStreamEndCapture(streams[i], &graph));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 0);
    ck_assert_uint_eq(calls_of_a_pair(), n_calls);
}

/* On its own default stream, and on one that outlives it. */
static void capture_and_end(struct fixture_thread *thread) {
    OK(cuStreamBeginCapture(thread->stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    thread->answer = cuStreamBeginCapture(OWN_STREAM, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(a_capture_on_its_default_stream_ends_with_its_thread) {
    CUgraph graph;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    unsigned long n_calls = calls_of_a_pair();
    thread.stream = fixture_stream();
    fixture_start(&thread, capture_and_end);
    fixture_join(&thread);
    OK(thread.answer);
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 1);
    OK(cuStreamEndCapture(thread.stream, &graph));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 0);
    ck_assert_uint_eq(calls_of_a_pair(), n_calls);
}

/* In a mode in which the driver forbids all threads to free. */
static void capture_and_leave(struct fixture_thread *thread) {
    thread->answer = cuStreamBeginCapture(thread->stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* The next thread gets the address of the one before it, as far as we can see. */
TEST_IF(fixture_is_preloaded(), a_thread_is_not_taken_for_one_that_ended_while_it_captured) {
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    thread.stream = fixture_stream();
    fixture_start(&thread, capture_and_leave);
    fixture_join(&thread);
    OK(thread.answer);
    for (int i = 0; i < 8; i++) {
        thread.address = fixture_alloc(1000);
        fixture_start(&thread, fixture_free_it);
        fixture_join(&thread);
        OK(thread.answer);
    }
}

/* A library may have got the driver's own entry point in a way that we do not see. */
static CUresult end_unseen(CUgraph *graph) {
    __typeof__(&cuStreamEndCapture) end;
    void *address = fixture_entry_of_driver("cuStreamEndCapture");
    memcpy(&end, &address, sizeof end);
    return end(stream, graph);
}

TEST(a_stream_that_captures_anew_has_one_capture_open) {
    CUgraph graph;
    fixture_use_device(0);
    unsigned long n_calls = calls_of_a_pair();
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(end_unseen(&graph));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 1);
    OK(cuStreamEndCapture(stream, &graph));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 0);
    ck_assert_uint_eq(calls_of_a_pair(), n_calls);
}

static void capture_on_own_stream(struct fixture_thread *thread) {
    CUgraph graph;
    thread->answer = cuStreamBeginCapture(OWN_STREAM, CU_STREAM_CAPTURE_MODE_RELAXED);
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 2);
    OK(cuStreamEndCapture(OWN_STREAM, &graph));
    ANSWERS(cuStreamEndCapture(OWN_STREAM, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

TEST(each_thread_captures_on_its_own_default_stream) {
    CUgraph graph;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    OK(cuStreamBeginCapture(OWN_STREAM, CU_STREAM_CAPTURE_MODE_RELAXED));
    fixture_start(&thread, capture_on_own_stream);
    fixture_join(&thread);
    OK(thread.answer);
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 1);
    OK(cuStreamEndCapture(OWN_STREAM, &graph));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 0);
}

TEST(all_captures_go_with_their_context_and_no_others) {
    CUcontext context;
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cuCtxCreate(&context, NULL, 0, 0));
    for (int i = 0; i < 3; i++)
        OK(cuStreamBeginCapture(fixture_stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuCtxDestroy(context));
    if (fixture_is_preloaded())
        ck_assert_int_eq(n_open(), 1);
    fixture_use_device(0);
    end_and_launch();
}

int main(void) {
    return fixture_run("captures");
}
