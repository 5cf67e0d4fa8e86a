/* Many threads at once, and a failure of every call in turn: nothing is left behind and no thread
 * hangs. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <pthread.h>
#include <stdint.h>

enum { N_THREADS = 4, N_ROUNDS = 200 };

/* One piece of work with all its objects; after a failure everything is released and the error
 * returned. */
static CUresult work_once(CUstream stream, CUevent event, int value) {
    CUdeviceptr a = 0, b = 0;
    int *target, out = 0;
    CUresult result = cuMemAlloc(&a, 4096), ended;
    if (result == CUDA_SUCCESS)
        result = cuMemAllocAsync(&b, 3 * MIB, stream);
    target = (int *)(uintptr_t)a;
    void *params[] = {&target, &value};
    if (result == CUDA_SUCCESS)
        result = cuLaunchKernel(fixture_kernel("store"), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyAsync(b, a, sizeof(int), stream);
    if (result == CUDA_SUCCESS)
        result = cuEventRecord(event, stream);
    if (result == CUDA_SUCCESS)
        result = cuStreamWaitEvent(stream, event, 0);
    if (result == CUDA_SUCCESS)
        result = cuMemcpyDtoHAsync(&out, b, sizeof out, stream);
    if (result == CUDA_SUCCESS)
        ck_assert_int_eq(out, value);
    while (b && (ended = cuMemFreeAsync(b, stream)) != CUDA_SUCCESS)
        result = ended;
    while (a && (ended = cuMemFree(a)) != CUDA_SUCCESS)
        result = ended;
    return result;
}

static CUresult work_often(void *unused) {
    CUevent event;
    CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    CUstream streams[] = {NULL, CU_STREAM_PER_THREAD, fixture_stream(0),
                          fixture_stream(CU_STREAM_NON_BLOCKING)};
    (void)unused;
    for (int i = 0; i < N_ROUNDS && result == CUDA_SUCCESS; i++)
        result = work_once(streams[i % 4], event, i);
    cuEventDestroy(event);
    return result;
}

TEST(threads_do_not_disturb_each_other) {
    struct fixture_thread *threads[N_THREADS];
    fixture_context();
    for (int i = 0; i < N_THREADS; i++)
        threads[i] = fixture_run(work_often, NULL);
    for (int i = 0; i < N_THREADS; i++)
        ck_cuda(fixture_join(threads[i]));
    ck_cuda(cuCtxSynchronize());
    ck_assert_uint_eq(sim_live_allocations(), 0);
    ck_assert_uint_eq(sim_pending(), 0);
}

TEST(a_refused_call_leaves_nothing_behind) {
    CUevent event;
    fixture_context();
    ck_cuda(cuEventCreate(&event, 0));
    for (unsigned n = 1;; n++) {
        sim_fail_at(n, CUDA_ERROR_UNKNOWN);
        CUresult result = work_once(NULL, event, (int)n);
        bool has_failed = sim_has_failed();
        sim_fail_at(0, CUDA_SUCCESS);
        ck_cuda(cuCtxSynchronize());
        ck_assert_uint_eq(sim_live_bytes(), 0);
        ck_cuda_is(result, has_failed ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
        if (!has_failed)
            break;
    }
}

/* New threads have stacks of n_bytes bytes. */
static void set_stacks(size_t n_bytes) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, n_bytes), 0);
    ck_assert_int_eq(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
}

TEST(a_device_without_a_thread_refuses_work_and_keeps_none) {
    CUdeviceptr block;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuMemAlloc(&block, 4096));
    set_stacks((size_t)1 << 47); /* more than any address space has */
    CUresult answer = cuMemsetD8Async(block, 1, 4096, stream);
    ck_cuda_is(answer, CUDA_ERROR_OPERATING_SYSTEM);
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda(cuCtxSynchronize());
    set_stacks(1 << 20);
    ck_assert_uint_eq(sim_pending(), 0);
    ck_cuda(cuMemsetD8Async(block, 1, 4096, stream));
    ck_cuda(cuCtxSynchronize());
    ck_cuda(cuMemFree(block));
}

TEST(captures_and_frees_in_many_threads_do_not_disturb_each_other) {
    struct fixture_thread *threads[2];
    CUgraph graph;
    int value = 0;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2; i++)
        threads[i] = fixture_run(work_often, NULL);
    for (int i = 0; i < N_ROUNDS; i++) {
        ck_cuda(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        fixture_store(stream, &value, i);
        ck_cuda(cuStreamEndCapture(stream, &graph));
        ck_cuda(cuGraphDestroy(graph));
    }
    for (int i = 0; i < 2; i++)
        ck_cuda(fixture_join(threads[i]));
}

SUITE() {
    return tests_run("sim threads");
}
