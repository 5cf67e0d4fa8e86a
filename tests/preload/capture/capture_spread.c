/*
 * Captures that are less simple than those of captures.c: spread to a second device, failed, never
 * ended, opened and closed during churn (interposition.md C7).  If the driver refuses a call that
 * we serve, the test asks fixture_is_preloaded(); every other answer is the driver's own.
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

/* A capture that began on device 0 and has spread to device 1. */
static struct {
    CUcontext contexts[2];
    CUstream streams[2];
    CUdeviceptr targets[2];
    CUevent events[2];
} spread;

static void begin_on_two_devices(CUstreamCaptureMode mode) {
    for (int i = 1; i >= 0; i--) {
        spread.contexts[i] = fixture_use_device(i);
        spread.streams[i] = fixture_stream();
        spread.targets[i] = fixture_alloc(100);
        OK(cuEventCreate(&spread.events[i], CU_EVENT_DISABLE_TIMING));
    }
    OK(cuStreamBeginCapture(spread.streams[0], mode));
    OK(cuEventRecord(spread.events[0], spread.streams[0]));
    OK(cuStreamWaitEvent(spread.streams[1], spread.events[0], 0));
    fixture_launch_write(spread.targets[0], 5, spread.streams[0]);
    OK(cuCtxSetCurrent(spread.contexts[1]));
    fixture_launch_write(spread.targets[1], 6, spread.streams[1]);
    OK(cuEventRecord(spread.events[1], spread.streams[1]));
    OK(cuCtxSetCurrent(spread.contexts[0]));
}

static void end_on_two_devices(void) {
    CUgraph graph = NULL;
    CUgraphExec exec;
    OK(cuStreamWaitEvent(spread.streams[0], spread.events[1], 0));
    OK(cuStreamEndCapture(spread.streams[0], &graph));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphLaunch(exec, spread.streams[0]));
    OK(cuStreamSynchronize(spread.streams[0]));
    ck_assert_uint_eq(fixture_read(spread.targets[0]), 5);
    OK(cuCtxSetCurrent(spread.contexts[1]));
    ck_assert_uint_eq(fixture_read(spread.targets[1]), 6);
    OK(cuCtxSetCurrent(spread.contexts[0]));
}

/* Misses, hits, frees and refusals, in each context. */
static void use_both_devices(struct fixture_thread *thread) {
    static const size_t sizes[] = {1, 1000, 700000, 3 * MIB, 300 * MIB};
    for (int round = 0; round < 4; round++) {
        OK(cuCtxSetCurrent(spread.contexts[round % 2]));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            CUdeviceptr address = fixture_alloc(sizes[i]);
            OK(cuCtxSetCurrent(spread.contexts[i % 2])); /* freed from either */
            OK(cuMemFree(address));
            OK(cuCtxSetCurrent(spread.contexts[round % 2]));
        }
    }
    thread->answer = CUDA_SUCCESS;
}

TEST(a_capture_that_spread_to_a_second_device_stays_valid, .first = first_for_others(),
     .n = N_MODES) {
    struct fixture_thread thread = {.answer = CUDA_ERROR_UNKNOWN};
    begin_on_two_devices(modes[_i]);
    fixture_start(&thread, use_both_devices);
    fixture_join(&thread);
    OK(thread.answer);
    end_on_two_devices();
    thread.answer = CUDA_ERROR_UNKNOWN;
    fixture_start(&thread, use_both_devices); /* afterwards everything works as before */
    fixture_join(&thread);
    OK(thread.answer);
}

TEST(the_second_device_of_ones_own_capture_is_refused_as_native, .n = N_MODES) {
    CUdeviceptr address;
    CUgraph graph;
    begin_on_two_devices(modes[_i]);
    OK(cuCtxSetCurrent(spread.contexts[1]));
    if (modes[_i] == CU_STREAM_CAPTURE_MODE_RELAXED) {
        OK(cuMemAlloc(&address, 1000));
        OK(cuMemFree(address));
        OK(cuCtxSetCurrent(spread.contexts[0]));
        end_on_two_devices();
    } else {
        ANSWERS(cuMemAlloc(&address, 1000), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        ANSWERS(cuStreamEndCapture(spread.streams[0], &graph),
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        OK(cuMemAlloc(&address, 1000));
        OK(cuMemFree(address));
    }
}

/* The capture ends with `wanted`; then frees wait as without a capture. */
static void check_after_failure(CUstream stream, CUresult wanted) {
    CUgraph graph = (CUgraph)1;
    ANSWERS(cuStreamEndCapture(stream, &graph), wanted);
    ck_assert_ptr_null(graph);
    CUdeviceptr block = fixture_alloc(1000);
    unsigned long n = sim_calls("cuCtxRecordEvent");
    OK(cuMemFree(block));
    if (fixture_is_preloaded() && !getenv("CUSHIM_FREE"))
        ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), n + 1);
}

TEST(a_capture_that_fails_leaves_nothing_behind, .n = N_MODES) {
    CUgraph graph;
    CUevent event;
    fixture_use_device(0);
    CUstream stream = fixture_stream(), side = fixture_stream();
    CUdeviceptr target = fixture_alloc(100);
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));

    OK(cuStreamBeginCapture(stream, modes[_i]));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    fixture_launch_write(target, 1, side);
    ANSWERS(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    check_after_failure(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture(stream, modes[_i]));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(side, event, 0));
    fixture_launch_write(target, 1, side);
    check_after_failure(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

    OK(cuStreamBeginCapture(stream, modes[_i]));
    cuStreamSynchronize(stream);
    check_after_failure(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    ANSWERS(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    OK(cuMemFree(target));
}

static void begin_and_go(struct fixture_thread *thread) {
    thread->answer = cuStreamBeginCapture(thread->stream, modes[thread->address]);
}

TEST(a_capture_that_never_ends_costs_no_memory, .first = first_for_others(), .n = N_MODES) {
    enum { ROUNDS = 300, MOST = 12 };
    CUdeviceptr blocks[MOST];
    size_t most_bytes = 0;
    CUcontext context = fixture_use_device(0);
    struct fixture_thread thread = {
        .context = context, .stream = fixture_stream(), .address = (CUdeviceptr)_i};
    fixture_start(&thread, begin_and_go); /* and its thread is gone */
    fixture_join(&thread);
    OK(thread.answer);
    CUstream busy = fixture_stream();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < MOST; i++) {
            blocks[i] = fixture_alloc(((size_t)1 << (10 + i)) + (size_t)round * 100);
            fixture_launch_write(blocks[i], (unsigned)round, busy);
        }
        for (int i = 0; i < MOST; i++)
            OK(cuMemFree(blocks[i]));
        if (round < 20)
            most_bytes = sim_live_bytes() > most_bytes ? sim_live_bytes() : most_bytes;
    }
    ck_assert_uint_le(sim_live_bytes(), most_bytes + 64 * MIB);
}

/* Take more than is left beside the memory that is held free, so that this goes back. */
static void exchange_memory(struct fixture_thread *thread) {
    for (size_t i = 0; i < 4; i++)
        OK(cuMemFree(fixture_alloc((600 + 40 * i) * MIB)));
    OK(cuMemAllocAsync(&thread->address, 600 * MIB, thread->stream));
    thread->answer = cuMemFreeAsync(thread->address, thread->stream);
}

TEST(memory_is_given_back_while_a_capture_is_open, .first = first_for_others(), .n = N_MODES) {
    CUgraph graph = NULL;
    struct fixture_thread thread = {
        .context = fixture_use_device(0), .stream = fixture_stream(), .answer = CUDA_ERROR_UNKNOWN};
    CUstream stream = fixture_stream();
    OK(cuStreamBeginCapture(stream, modes[_i]));
    fixture_start(&thread, exchange_memory);
    fixture_join(&thread);
    OK(thread.answer);
    OK(cuStreamEndCapture(stream, &graph));
    ck_assert_ptr_nonnull(graph);
}

/* ---- captures that come and go while other threads use memory ---- */

enum { N_USERS = 3, N_CAPTURES = 40 };
static atomic_int n_capturing;

static void churn(struct fixture_thread *thread) {
    enum { HELD = 16 };
    CUdeviceptr held[HELD] = {0};
    unsigned state = (unsigned)(thread->address + 1) * 2654435761u;
    while (atomic_load(&n_capturing)) {
        state = state * 1664525u + 1013904223u;
        CUdeviceptr *block = &held[state >> 16 & (HELD - 1)];
        if (*block) {
            OK(cuMemFree(*block));
            *block = 0;
            continue;
        }
        *block = fixture_alloc(1 + (state >> 8) % (state & 1 ? 3 * MIB : 5 * KIB));
        fixture_launch_write(*block, state, thread->stream);
    }
    for (int i = 0; i < HELD; i++)
        OK(*(held + i) ? cuMemFree(held[i]) : CUDA_SUCCESS);
    thread->answer = CUDA_SUCCESS;
}

TEST(captures_stay_valid_while_other_threads_churn, .first = first_for_others(), .n = N_MODES) {
    struct fixture_thread users[N_USERS] = {0};
    CUcontext context = fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr target = fixture_alloc(100);
    atomic_store(&n_capturing, 1);
    for (unsigned i = 0; i < N_USERS; i++) {
        users[i] = (struct fixture_thread){.context = context,
                                           .address = i,
                                           .stream = fixture_stream(),
                                           .answer = CUDA_ERROR_UNKNOWN};
        fixture_start(&users[i], churn);
    }
    for (unsigned i = 1; i <= N_CAPTURES; i++) {
        CUgraph graph = NULL;
        CUgraphExec exec;
        OK(cuStreamBeginCapture(stream, modes[_i]));
        for (unsigned k = 0; k < 20; k++)
            fixture_launch_write(target, i, stream);
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        ck_assert_uint_eq(fixture_read(target), i);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
    }
    atomic_store(&n_capturing, 0);
    for (unsigned i = 0; i < N_USERS; i++) {
        fixture_join(&users[i]);
        OK(users[i].answer);
    }
}

int main(void) {
    return fixture_run("capture_spread");
}
