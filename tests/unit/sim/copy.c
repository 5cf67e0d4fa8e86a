/* Copies and sets: the bytes they move, and the arguments they refuse. */
#include "fixture.h"
#include "tests/unit/suite.h"

#include <string.h>

TEST(bytes_arrive_in_every_direction) {
    char in[1000], out[1000] = {0};
    fixture_context();
    memset(in, 42, sizeof in);
    CUdeviceptr a = fixture_alloc(1000), b = fixture_alloc(1000);
    ck_cuda(cuMemcpyHtoD(a, in, 1000));
    ck_cuda(cuMemcpyDtoD(b, a, 1000));
    ck_cuda(cuMemcpyDtoH(out, b, 1000));
    ck_assert_mem_eq(in, out, 1000);
    ck_cuda(cuMemsetD16(a, 0x0102, 500));
    ck_cuda(cuMemcpy((CUdeviceptr)(uintptr_t)out, a, 1000));
    ck_assert_int_eq(out[998], 2);
    ck_assert_int_eq(out[999], 1);
}

TEST(a_copy_or_set_one_byte_too_long_is_refused) {
    const size_t sizes[] = {1000, 4096, MIB, 3 * MIB};
    static char host[3 * MIB + 1];
    fixture_context();
    for (int i = 0; i < 4; i++) {
        CUdeviceptr a = fixture_alloc(sizes[i]);
        ck_cuda(cuMemcpyHtoD(a, host, sizes[i]));
        ck_cuda_is(cuMemcpyHtoD(a, host, sizes[i] + 1), CUDA_ERROR_INVALID_VALUE);
        ck_cuda_is(cuMemcpyDtoH(host, a + 1, sizes[i]), CUDA_ERROR_INVALID_VALUE);
        ck_cuda_is(cuMemsetD8(a, 0, sizes[i] + 1), CUDA_ERROR_INVALID_VALUE);
        ck_cuda_is(cuMemcpyAsync(a, (CUdeviceptr)(uintptr_t)host, sizes[i] + 1, NULL),
                   CUDA_ERROR_INVALID_VALUE);
        ck_cuda(cuMemFree(a));
        ck_cuda_is(cuMemcpyHtoD(a, host, 1), CUDA_ERROR_INVALID_VALUE);
        ck_cuda_is(cuMemsetD8(a, 0, 1), CUDA_ERROR_INVALID_VALUE);
    }
}

TEST(a_device_address_is_refused_as_a_host_address) {
    char host[16];
    fixture_context();
    CUdeviceptr a = fixture_alloc(16);
    ck_cuda_is(cuMemcpyHtoD(a, (void *)(uintptr_t)a, 16), CUDA_ERROR_INVALID_VALUE);
    ck_cuda_is(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)host, host, 16), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuMemcpyHtoD(a, host, 0));
}

TEST(a_pageable_source_is_copied_at_once_and_a_pinned_one_is_not) {
    int value = 1, *pinned, out;
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuMemHostAlloc((void **)&pinned, sizeof(int), 0));
    *pinned = 1;
    CUdeviceptr a = fixture_alloc(sizeof(int)), b = fixture_alloc(sizeof(int));
    sim_hold();
    ck_cuda(cuMemcpyHtoDAsync(a, &value, sizeof value, stream));
    ck_cuda(cuMemcpyHtoDAsync(b, pinned, sizeof value, stream));
    value = *pinned = 2;
    sim_release_hold();
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda(cuMemcpyDtoH(&out, a, sizeof out));
    ck_assert_int_eq(out, 1);
    ck_cuda(cuMemcpyDtoH(&out, b, sizeof out));
    ck_assert_int_eq(out, 2);
}

TEST(boxes_and_arrays_keep_their_shape) {
    char in[4][8], out[4][8];
    CUarray array;
    const CUDA_ARRAY_DESCRIPTOR shape = {8, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    size_t pitch;
    CUdeviceptr a;
    fixture_context();
    for (int i = 0; i < 32; i++)
        in[i / 8][i % 8] = (char)i;
    ck_cuda(cuMemAllocPitch(&a, &pitch, 8, 4, 4));
    ck_cuda(cuArrayCreate(&array, &shape));
    const CUDA_MEMCPY2D to_device = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                     .srcHost = in,
                                     .srcPitch = 8,
                                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                     .dstDevice = a,
                                     .dstPitch = pitch,
                                     .WidthInBytes = 8,
                                     .Height = 4};
    const CUDA_MEMCPY2D to_array = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                    .srcDevice = a,
                                    .srcPitch = pitch,
                                    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                    .dstArray = array,
                                    .WidthInBytes = 8,
                                    .Height = 4};
    const CUDA_MEMCPY2D to_host = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                                   .srcArray = array,
                                   .dstMemoryType = CU_MEMORYTYPE_HOST,
                                   .dstHost = out,
                                   .dstPitch = 8,
                                   .WidthInBytes = 8,
                                   .Height = 4};
    CUDA_MEMCPY2D too_high = to_host;
    too_high.srcY = 1;
    ck_cuda(cuMemcpy2D(&to_device));
    ck_cuda(cuMemcpy2D(&to_array));
    ck_cuda(cuMemcpy2D(&to_host));
    ck_assert_mem_eq(in, out, sizeof in);
    ck_cuda_is(cuMemcpy2D(&too_high), CUDA_ERROR_INVALID_VALUE);
    ck_cuda(cuArrayDestroy(array));
    ck_cuda(cuMemFree(a));
    ck_assert_uint_eq(sim_live_allocations(), 0);
}

TEST(a_batch_makes_many_copies) {
    int in[2] = {1, 2}, out[2] = {0, 0};
    fixture_context();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr a = fixture_alloc(8);
    CUdeviceptr dsts[] = {a + 4, a};
    CUdeviceptr srcs[] = {(CUdeviceptr)(uintptr_t)&in[0], (CUdeviceptr)(uintptr_t)&in[1]};
    size_t sizes[] = {4, 4}, first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    ck_cuda(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, stream));
    ck_cuda(cuStreamSynchronize(stream));
    ck_cuda(cuMemcpyDtoH(out, a, 8));
    ck_assert_int_eq(out[0], 2);
    ck_assert_int_eq(out[1], 1);
    sizes[1] = 9;
    ck_cuda_is(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, stream),
               CUDA_ERROR_INVALID_VALUE);
}

static CUresult free_it(void *address) {
    return cuMemFree(*(CUdeviceptr *)address);
}

/* A copy from a block of the first device, queued on its stream or in a graph launched there. */
static void copy_on_second(CUcontext second, CUdeviceptr a, bool is_in_graph) {
    CUgraph graph;
    CUgraphExec exec;
    ck_cuda(cuCtxPushCurrent(second));
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr b = fixture_alloc(64);
    if (is_in_graph)
        ck_cuda(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    else
        sim_hold();
    ck_cuda(cuMemcpyAsync(b, a, 64, stream));
    if (is_in_graph) {
        ck_cuda(cuStreamEndCapture(stream, &graph));
        ck_cuda(cuGraphInstantiate(&exec, graph, 0));
        sim_hold();
        ck_cuda(cuGraphLaunch(exec, stream));
    }
    ck_cuda(cuCtxPopCurrent(NULL));
}

TEST(a_free_waits_for_a_copy_on_another_devices_stream) {
    CUcontext second;
    fixture_context();
    ck_cuda(cuDevicePrimaryCtxRetain(&second, 1));
    for (int is_in_graph = 0; is_in_graph < 2; is_in_graph++) {
        CUdeviceptr a = fixture_alloc(64);
        copy_on_second(second, a, is_in_graph);
        struct fixture_thread *thread = fixture_run(free_it, &a);
        ck_assert(fixture_is_waiting(thread));
        sim_release_hold();
        ck_cuda(fixture_join(thread));
    }
}

TEST(a_record_covers_such_a_copy_but_none_of_pinned_memory) {
    CUcontext first, second;
    CUevent event;
    void *pinned;
    fixture_context();
    ck_cuda(cuCtxGetCurrent(&first));
    CUdeviceptr a = fixture_alloc(64);
    ck_cuda(cuMemHostAlloc(&pinned, 64, 0));
    ck_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ck_cuda(cuDevicePrimaryCtxRetain(&second, 1));
    for (int is_in_graph = 0; is_in_graph < 2; is_in_graph++) {
        copy_on_second(second, (CUdeviceptr)(uintptr_t)pinned, is_in_graph);
        ck_cuda(cuCtxRecordEvent(first, event));
        ck_cuda(cuEventQuery(event));
        sim_release_hold();
        copy_on_second(second, a, is_in_graph);
        ck_cuda(cuCtxRecordEvent(first, event));
        ck_cuda_is(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        sim_release_hold();
        ck_cuda(cuEventSynchronize(event));
    }
}

SUITE() {
    return tests_run("sim copy");
}
