/* Streams and events: what waits for what, and the errors that the host gets. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Store 1, 2, 3 on three streams, run the steps one by one, and return their order. */
static void draw(unsigned long seed, int order[3]) {
    static int values[3];
    static int n;
    CUstream streams[3];
    memset(values, 0, sizeof values);
    n = 0;
    sim_hold();
    sim_seed(seed);
    for (int i = 0; i < 3; i++) {
        streams[i] = fixture_stream(CU_STREAM_NON_BLOCKING);
        fixture_store(streams[i], &values[i], 1);
    }
    while (sim_pending()) {
        ck_assert_uint_eq(sim_step(1), 1);
        for (int i = 0; i < 3; i++) {
            if (values[i] == 1) {
                values[i] = 2;
                order[n++] = i;
            }
        }
    }
    sim_release_hold();
    for (int i = 0; i < 3; i++)
        ck_cuda(cuStreamDestroy(streams[i]));
    ck_assert_int_eq(n, 3);
}

TEST(a_seed_gives_one_order_of_steps) {
    bool differs = false;
    int first[3], order[3];
    fixture_context();
    draw(0, first);
    for (unsigned long seed = 1; seed < 20; seed++) {
        int again[3];
        draw(seed, order);
        draw(seed, again);
        ck_assert_mem_eq(order, again, sizeof order);
        differs = differs || memcmp(order, first, sizeof first) != 0;
    }
    ck_assert(differs);
}

TEST(no_work_runs_while_streams_are_held) {
    int value = 0;
    fixture_context();
    CUstream stream = fixture_stream(0);
    sim_hold();
    fixture_store(stream, &value, 1);
    fixture_store(stream, &value, 2);
    ck_cuda_is(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ck_assert_uint_eq(sim_pending(), 2);
    ck_assert_uint_eq(sim_step(1), 1);
    ck_assert_int_eq(value, 1);
    ck_assert_uint_eq(sim_step(5), 1);
    ck_assert_int_eq(value, 2);
    ck_cuda(cuStreamQuery(stream));
    sim_release_hold();
}

TEST(the_legacy_stream_and_blocking_streams_wait_for_each_other) {
    int value = 0;
    fixture_context();
    CUstream blocking = fixture_stream(0), other = fixture_stream(CU_STREAM_NON_BLOCKING);
    sim_hold();
    fixture_store(blocking, &value, 1);
    fixture_store(NULL, &value, 2);
    fixture_store(blocking, &value, 3);
    ck_cuda_is(cuStreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    ck_cuda(cuStreamQuery(other));
    for (int i = 1; i <= 3; i++) {
        ck_assert_uint_eq(sim_step(1), 1);
        ck_assert_int_eq(value, i);
    }
    sim_release_hold();
}

TEST(a_non_blocking_stream_passes_the_legacy_stream) {
    atomic_int flag = 0;
    int value = 0;
    fixture_context();
    CUstream other = fixture_stream(CU_STREAM_NON_BLOCKING);
    fixture_spin(NULL, &flag);
    fixture_store(other, &value, 1);
    ck_cuda(cuStreamSynchronize(other));
    ck_assert_int_eq(value, 1);
    atomic_store(&flag, 1);
    ck_cuda(cuStreamSynchronize(NULL));
}

static CUresult synchronize(void *stream) {
    return cuStreamSynchronize(stream);
}

TEST(the_legacy_stream_is_waited_for_with_all_blocking_streams) {
    atomic_int flag = 0;
    fixture_context();
    fixture_spin(fixture_stream(0), &flag);
    struct fixture_thread *thread = fixture_run(synchronize, NULL);
    ck_assert(fixture_is_waiting(thread));
    atomic_store(&flag, 1);
    ck_cuda(fixture_join(thread));
}

TEST(an_event_never_recorded_is_done) {
    CUevent event;
    float ms;
    fixture_context();
    ck_cuda(cuEventCreate(&event, 0));
    ck_cuda(cuEventQuery(event));
    ck_cuda(cuEventSynchronize(event));
    ck_cuda(cuStreamWaitEvent(NULL, event, 0));
    ck_cuda_is(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
    ck_cuda(cuEventDestroy(event));
    ck_cuda_is(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

TEST(a_stream_waits_for_an_event_of_another) {
    CUevent event;
    int value = 0;
    fixture_context();
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING), b = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    sim_hold();
    fixture_store(a, &value, 1);
    ck_cuda(cuEventRecord(event, a));
    ck_cuda(cuStreamWaitEvent(b, event, 0));
    fixture_store(b, &value, 2);
    ck_cuda_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ck_cuda(cuEventDestroy(event));
    ck_assert_uint_eq(sim_step(1), 1);
    ck_assert_int_eq(value, 1);
    sim_release_hold();
    ck_cuda(cuStreamSynchronize(b));
    ck_assert_int_eq(value, 2);
}

TEST(elapsed_time_is_available_when_both_events_are_done) {
    CUevent begin, end;
    atomic_int flag = 0;
    float ms;
    fixture_context();
    CUstream stream = fixture_stream(0);
    ck_cuda(cuEventCreate(&begin, 0));
    ck_cuda(cuEventCreate(&end, 0));
    ck_cuda(cuEventRecord(begin, stream));
    fixture_spin(stream, &flag);
    ck_cuda(cuEventRecord(end, stream));
    ck_cuda_is(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
    usleep(2000);
    atomic_store(&flag, 1);
    ck_cuda(cuEventSynchronize(end));
    ck_cuda(cuEventElapsedTime(&ms, begin, end));
    ck_assert(ms >= 2.0f && ms < 5000.0f);
}

TEST(a_context_event_covers_all_earlier_and_no_later_work) {
    CUevent event;
    atomic_int before = 0, after = 0;
    CUcontext context = fixture_context();
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING), b = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ck_cuda(cuCtxRecordEvent(context, event));
    ck_cuda(cuEventQuery(event));
    fixture_spin(a, &before);
    ck_cuda(cuCtxRecordEvent(context, event));
    fixture_spin(b, &after);
    ck_cuda_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    atomic_store(&before, 1);
    ck_cuda(cuEventSynchronize(event));
    ck_cuda_is(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    atomic_store(&after, 1);
    ck_cuda(cuCtxSynchronize());
}

TEST(a_context_wait_holds_streams_made_later) {
    CUevent event;
    atomic_int flag = 0;
    int value = 0;
    CUcontext context = fixture_context();
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    fixture_spin(a, &flag);
    ck_cuda(cuEventRecord(event, a));
    ck_cuda(cuCtxWaitEvent(context, event));
    CUstream b = fixture_stream(CU_STREAM_NON_BLOCKING);
    fixture_store(b, &value, 1);
    usleep(10000);
    ck_cuda_is(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
    atomic_store(&flag, 1);
    ck_cuda(cuStreamSynchronize(b));
    ck_assert_int_eq(value, 1);
}

struct inside {
    CUresult alloc, free, synchronize, query;
    CUdeviceptr address;
    CUcontext context;
};

static void look_around(void *data) {
    struct inside *inside = data;
    CUdeviceptr address;
    cuCtxSetCurrent(inside->context);
    inside->alloc = cuMemAlloc(&address, 1);
    inside->free = cuMemFree(inside->address);
    inside->synchronize = cuCtxSynchronize();
    inside->query = cuCtxGetCurrent(&inside->context);
}

TEST(a_host_function_may_not_allocate_free_or_wait) {
    struct inside inside = {.context = fixture_context()};
    inside.address = fixture_alloc(1);
    ck_cuda(cuLaunchHostFunc(NULL, look_around, &inside));
    ck_cuda(cuCtxSynchronize());
    ck_cuda_is(inside.alloc, CUDA_ERROR_NOT_PERMITTED);
    ck_cuda_is(inside.free, CUDA_ERROR_NOT_PERMITTED);
    ck_cuda_is(inside.synchronize, CUDA_ERROR_NOT_PERMITTED);
    ck_cuda(inside.query);
}

static void called(CUstream stream, CUresult status, void *data) {
    *(CUresult *)data = status;
    (void)stream;
}

TEST(a_callback_gets_the_status_of_its_stream) {
    CUresult status = CUDA_ERROR_UNKNOWN;
    fixture_context();
    CUstream stream = fixture_stream(0);
    ck_cuda(cuStreamAddCallback(stream, called, &status, 0));
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda(status);
}

TEST(a_fault_damages_the_context_until_it_is_reset) {
    int value = 0;
    CUcontext context = fixture_context();
    CUdeviceptr a = fixture_alloc(1), b;
    sim_hold();
    ck_cuda(cuLaunchKernel(fixture_kernel("fault"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    fixture_store(NULL, &value, 1);
    sim_release_hold();
    ck_cuda_is(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    while (sim_pending())
        sched_yield();
    ck_assert_int_eq(value, 0); /* later work is dropped */
    ck_cuda_is(cuMemFree(a), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_cuda_is(cuMemAlloc(&b, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_cuda(cuDevicePrimaryCtxReset(0));
    ck_cuda(cuDevicePrimaryCtxRetain(&context, 0));
    ck_cuda(cuMemAlloc(&b, 1));
    sim_fault(CUDA_ERROR_LAUNCH_FAILED);
    ck_cuda_is(cuMemFree(b), CUDA_ERROR_LAUNCH_FAILED);
    sim_fault(CUDA_SUCCESS);
    ck_cuda(cuMemFree(b));
}

TEST(a_stream_waits_for_a_value_in_memory) {
    fixture_context();
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING), b = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr word = fixture_alloc(8);
    ck_cuda(cuStreamWaitValue32(a, word, 3, CU_STREAM_WAIT_VALUE_GEQ));
    ck_cuda(cuStreamWriteValue32(b, word, 2, 0));
    ck_cuda(cuStreamSynchronize(b));
    ck_cuda_is(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    ck_cuda(cuStreamWriteValue64(b, word, 3, 0));
    ck_cuda(cuStreamSynchronize(a));
    sim_hold();
    ck_cuda(cuStreamWaitValue32(a, word, 2, CU_STREAM_WAIT_VALUE_EQ)); /* 3 is greater */
    sim_step(3);
    ck_cuda_is(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    sim_release_hold();
    ck_cuda(cuStreamWriteValue32(b, word, 2, 0));
    ck_cuda(cuStreamSynchronize(a));
    ck_cuda_is(cuStreamWriteValue32(b, word + 2, 2, 0), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuStreamWriteValue32(b, word + 8, 2, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(a_destroyed_stream_ends_its_work) {
    atomic_int flag = 0;
    int value = 0;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    fixture_spin(stream, &flag);
    fixture_store(stream, &value, 1);
    ck_cuda(cuStreamDestroy(stream));
    ck_cuda_is(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    atomic_store(&flag, 1);
    ck_cuda(cuCtxSynchronize());
    ck_assert_int_eq(value, 1);
}

TEST(a_launch_without_a_kernel_has_no_binary) {
    CUmodule module;
    CUfunction function;
    int one = 1;
    fixture_context();
    ck_cuda_is(cuLaunchKernel(fixture_kernel("absent"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
               CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_cuda_is(cuLaunchKernel(fixture_kernel("store"), 1, 1, 1, 0, 1, 1, 0, NULL, NULL, NULL),
               CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuModuleLoadData(&module, "//\n.version 8.0"), CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_cuda_is(cuModuleLoadData(&module, (const uint32_t[]){0xba55ed50, 16u << 16 | 1, 0, 0}),
               CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_cuda_is(cuModuleLoadData(&module, "rubbish"), CUDA_ERROR_INVALID_IMAGE);
    ck_cuda(cuModuleLoadData(&module, SIM_MODULE_IMAGE));
    ck_cuda(cuModuleGetFunction(&function, module, "count"));
    ck_cuda_is(cuModuleGetFunction(&function, module, "absent"), CUDA_ERROR_NOT_FOUND);
    int *counter = &one;
    void *params[] = {&counter};
    ck_cuda(cuModuleGetFunction(&function, module, "count"));
    ck_cuda(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    ck_cuda(cuCtxSynchronize());
    ck_assert_int_eq(one, 2);
    ck_cuda(cuModuleUnload(module));
}

TEST(streams_of_a_green_context_belong_to_the_primary_one) {
    CUdevResource resource;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUstream stream;
    CUevent event;
    atomic_int flag = 0;
    CUcontext primary = fixture_context();
    ck_cuda(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
    ck_cuda(cuDevResourceGenerateDesc(&desc, &resource, 1));
    ck_cuda(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    ck_cuda(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    fixture_spin(stream, &flag);
    ck_cuda(cuCtxRecordEvent(primary, event));
    ck_cuda_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    atomic_store(&flag, 1);
    ck_cuda(cuEventSynchronize(event));
    ck_cuda(cuGreenCtxDestroy(green));
}

SUITE() {
    return tests_run("sim stream");
}
