/* Captures: how they spread, what they forbid, how they end. */
#include "fixture.h"
#include "tests/unit/suite.h"

#define GLOBAL       CU_STREAM_CAPTURE_MODE_GLOBAL
#define THREAD_LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED      CU_STREAM_CAPTURE_MODE_RELAXED

static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status;
    ck_cuda(cuStreamIsCapturing(stream, &status));
    return status;
}

static void check_active(CUstream stream) {
    ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static void check_invalid(CUstream stream) {
    CUgraph graph = (CUgraph)1;
    ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    ck_cuda_is(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

static void check_ends(CUstream stream) {
    CUgraph graph;
    ck_cuda(cuStreamEndCapture(stream, &graph));
    ck_cuda(cuGraphDestroy(graph));
}

static void exchange(CUstreamCaptureMode mode) {
    ck_cuda(cuThreadExchangeStreamCaptureMode(&mode));
}

TEST(captured_work_runs_when_the_graph_is_launched) {
    int value = 0;
    CUgraph graph;
    CUgraphExec exec;
    size_t n = 0;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    fixture_store(stream, &value, 1);
    fixture_store(stream, &value, 2);
    ck_cuda(cuStreamEndCapture(stream, &graph));
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_int_eq(value, 0);
    ck_cuda(cuGraphGetNodes(graph, NULL, &n));
    ck_assert_uint_eq(n, 2);
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    ck_cuda(cuGraphDestroy(graph));
    ck_cuda(cuGraphLaunch(exec, stream));
    ck_cuda(cuGraphExecDestroy(exec));
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_int_eq(value, 2);
}

TEST(unsafe_calls_invalidate_the_threads_own_capture) {
    const CUstreamCaptureMode modes[] = {GLOBAL, THREAD_LOCAL};
    CUdeviceptr a, b;
    CUevent event;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    a = fixture_alloc(1);
    ck_cuda(cuEventCreate(&event, 0));
    for (int i = 0; i < 2; i++) {
        ck_cuda(cuStreamBeginCapture(stream, modes[i]));
        ck_cuda_is(cuMemAlloc(&b, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalid(stream);
        ck_cuda(cuStreamBeginCapture(stream, modes[i]));
        ck_cuda_is(cuMemFree(a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalid(stream);
        ck_cuda(cuStreamBeginCapture(stream, modes[i]));
        ck_cuda_is(cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalid(stream);
    }
    ck_cuda(cuMemFree(a));
}

TEST(a_relaxed_capture_or_thread_lets_unsafe_calls_pass) {
    CUdeviceptr a;
    CUevent event;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUstream other = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&event, 0));
    for (int i = 0; i < 2; i++) {
        ck_cuda(cuStreamBeginCapture(stream, i ? GLOBAL : RELAXED));
        exchange(i ? RELAXED : GLOBAL);
        a = fixture_alloc(1);
        ck_cuda(cuEventRecord(event, other));
        ck_cuda(cuEventQuery(event));
        ck_cuda(cuEventSynchronize(event));
        ck_cuda(cuMemFree(a));
        check_active(stream);
        check_ends(stream);
    }
}

static CUresult allocate(void *mode) {
    CUdeviceptr a;
    exchange(*(CUstreamCaptureMode *)mode);
    return cuMemAlloc(&a, 1);
}

TEST(a_global_capture_forbids_other_threads_and_a_local_one_does_not) {
    CUstreamCaptureMode default_mode = GLOBAL, local = THREAD_LOCAL;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuStreamBeginCapture(stream, THREAD_LOCAL));
    ck_cuda(fixture_join(fixture_run(allocate, &default_mode)));
    check_active(stream);
    check_ends(stream);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    ck_cuda(fixture_join(fixture_run(allocate, &local)));
    check_active(stream);
    ck_cuda_is(fixture_join(fixture_run(allocate, &default_mode)),
               CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_invalid(stream);
}

TEST(a_relaxed_free_waits_and_leaves_the_capture_valid) {
    atomic_int flag = 0;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUstream busy = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = fixture_alloc(4096);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    exchange(RELAXED);
    fixture_spin(busy, &flag);
    atomic_store(&flag, 1);
    ck_cuda(cuMemFree(a));
    ck_cuda(cuStreamQuery(busy));
    check_active(stream);
    check_ends(stream);
}

TEST(context_events_invalidate_captures_of_every_mode) {
    const CUstreamCaptureMode modes[] = {GLOBAL, THREAD_LOCAL, RELAXED};
    CUevent event;
    CUcontext context = fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    exchange(RELAXED);
    for (int i = 0; i < 3; i++) {
        ck_cuda(cuStreamBeginCapture(stream, modes[i]));
        ck_cuda_is(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalid(stream);
        ck_cuda(cuStreamBeginCapture(stream, modes[i]));
        ck_cuda_is(cuCtxWaitEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        check_invalid(stream);
    }
}

TEST(waiting_for_a_capturing_stream_invalidates_it) {
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    exchange(RELAXED);
    ck_cuda(cuStreamBeginCapture(stream, RELAXED));
    ck_cuda_is(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_invalid(stream);
    ck_cuda(cuStreamBeginCapture(stream, RELAXED));
    ck_cuda_is(cuStreamQuery(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_invalid(stream);
    ck_cuda(cuStreamBeginCapture(stream, RELAXED));
    ck_cuda_is(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    check_invalid(stream);
}

TEST(the_legacy_stream_is_refused_beside_a_capturing_blocking_stream) {
    int value = 0;
    CUstreamCaptureStatus status;
    fixture_context();
    CUstream stream = fixture_stream(0);
    CUdeviceptr a = fixture_alloc(4);
    ck_cuda_is(cuStreamBeginCapture(NULL, GLOBAL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_cuda(cuStreamBeginCapture(stream, RELAXED));
    ck_cuda_is(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    check_active(stream);
    ck_cuda_is(cuMemsetD32Async(a, 1, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    check_invalid(stream);
    ck_cuda(cuStreamBeginCapture(stream, RELAXED));
    ck_cuda_is(cuMemcpyHtoD(a, &value, 4), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    check_invalid(stream);
}

TEST(a_capture_spreads_by_events_and_must_be_joined) {
    CUevent fork, join;
    CUgraph graph;
    int value = 0;
    fixture_context();
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING), b = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&fork, 0));
    ck_cuda(cuEventCreate(&join, 0));
    for (int is_joined = 0; is_joined < 2; is_joined++) {
        ck_cuda(cuStreamBeginCapture(a, GLOBAL));
        fixture_store(a, &value, 1);
        ck_cuda(cuEventRecord(fork, a));
        ck_cuda(cuStreamWaitEvent(b, fork, 0));
        check_active(b);
        fixture_store(b, &value, 2);
        ck_cuda_is(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        check_invalid(a);
        ck_cuda(cuStreamBeginCapture(a, GLOBAL));
        ck_cuda(cuEventRecord(fork, a));
        ck_cuda(cuStreamWaitEvent(b, fork, 0));
        fixture_store(b, &value, 2);
        ck_cuda(cuEventRecord(join, b));
        if (is_joined) {
            ck_cuda(cuStreamWaitEvent(a, join, 0));
            check_ends(a);
        } else {
            ck_cuda_is(cuStreamEndCapture(a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        }
        ck_assert_int_eq(status_of(a), CU_STREAM_CAPTURE_STATUS_NONE);
        ck_assert_int_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

TEST(captures_neither_merge_nor_wait_for_outside_events) {
    CUevent event;
    CUgraph graph;
    fixture_context();
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING), b = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&event, 0));
    ck_cuda(cuStreamBeginCapture(a, RELAXED));
    ck_cuda(cuStreamBeginCapture(b, RELAXED));
    ck_cuda(cuEventRecord(event, a));
    ck_cuda_is(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    check_active(a);
    ck_cuda_is(cuStreamWaitEvent(b, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    check_invalid(a);
    check_invalid(b);
    ck_cuda(cuEventRecord(event, b));
    ck_cuda(cuStreamBeginCapture(a, RELAXED));
    ck_cuda_is(cuStreamWaitEvent(a, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    check_invalid(a);
    ck_cuda_is(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

static CUresult end_it(void *stream) {
    CUgraph graph;
    return cuStreamEndCapture(stream, &graph);
}

TEST(another_thread_may_end_only_a_relaxed_capture) {
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    ck_cuda_is(fixture_join(fixture_run(end_it, stream)), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    check_active(stream);
    check_ends(stream);
    ck_cuda(cuStreamBeginCapture(stream, RELAXED));
    ck_cuda(fixture_join(fixture_run(end_it, stream)));
}

TEST(a_capture_reports_its_graph_and_position) {
    int value;
    CUstreamCaptureStatus status;
    cuuint64_t id = 0;
    CUgraph graph;
    const CUgraphNode *tips;
    size_t n = 0;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    fixture_store(stream, &value, 1);
    fixture_store(stream, &value, 2);
    ck_cuda(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tips, NULL, &n));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(n, 1);
    ck_cuda_is(cuGraphDestroy(graph), CUDA_ERROR_ILLEGAL_STATE);
    ck_cuda(cuStreamUpdateCaptureDependencies(stream, NULL, NULL, 0,
                                              CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    ck_cuda(cuStreamGetCaptureInfo(stream, &status, &id, &graph, &tips, NULL, &n));
    ck_assert_uint_eq(n, 0);
    check_ends(stream);
}

TEST(the_destruction_of_a_capturing_stream_ends_its_capture) {
    CUdeviceptr a;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    ck_cuda(cuStreamDestroy(stream));
    ck_cuda(cuMemAlloc(&a, 1));
}

TEST(memory_of_a_captured_allocation_lives_as_long_as_its_graphs) {
    CUdeviceptr a;
    CUgraph graph;
    CUgraphExec exec;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuStreamBeginCapture(stream, GLOBAL));
    ck_cuda(cuMemAllocAsync(&a, 1000, stream));
    ck_cuda(cuMemsetD8Async(a, 7, 1000, stream));
    ck_cuda(cuMemFreeAsync(a, stream));
    ck_cuda(cuStreamEndCapture(stream, &graph));
    ck_cuda(cuGraphInstantiate(&exec, graph, 0));
    ck_cuda(cuGraphDestroy(graph));
    ck_assert_uint_eq(sim_live_allocations(), 1);
    ck_cuda(cuGraphLaunch(exec, stream));
    ck_cuda(cuStreamSynchronize(stream));
    ck_assert_int_eq(*(char *)(uintptr_t)a, 7);
    ck_cuda(cuGraphExecDestroy(exec));
    ck_assert_uint_eq(sim_live_allocations(), 0);
}

SUITE() {
    return tests_run("sim capture");
}
