/* Work whose memory is gone when it runs fails with error 700, as on a GPU. */
#include "fixture.h"
#include "tests/unit/suite.h"

enum { N_BYTES = 4 * MIB };

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static void set_access(CUdeviceptr at, CUmemAccess_flags flags) {
    CUmemAccessDesc access = {.location = prop.location, .flags = flags};
    ck_cuda(cuMemSetAccess(at, N_BYTES, &access, 1));
}

static CUdeviceptr map(void) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    ck_cuda(cuMemCreate(&handle, N_BYTES, &prop, 0));
    ck_cuda(cuMemAddressReserve(&at, N_BYTES, 0, 0, 0));
    ck_cuda(cuMemMap(at, N_BYTES, 0, handle, 0));
    ck_cuda(cuMemRelease(handle));
    set_access(at, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return at;
}

enum work { SET, SET_WIDE, SET_ROWS, COPY_TO, COPY_FROM, WRITE_VALUE, WAIT_VALUE, N_WORKS };

static void submit(int work, CUdeviceptr at, CUdeviceptr other, CUstream stream) {
    switch ((enum work)work) {
    case SET:
        ck_cuda(cuMemsetD8Async(at, 1, N_BYTES, stream));
        break;
    case SET_WIDE:
        ck_cuda(cuMemsetD32Async(at, 1, N_BYTES / 4, stream));
        break;
    case SET_ROWS:
        ck_cuda(cuMemsetD2D8Async(at, 1024, 1, 100, 10, stream));
        break;
    case COPY_TO:
        ck_cuda(cuMemcpyDtoDAsync(at, other, N_BYTES, stream));
        break;
    case COPY_FROM:
        ck_cuda(cuMemcpyDtoDAsync(other, at, N_BYTES, stream));
        break;
    case WRITE_VALUE:
        ck_cuda(cuStreamWriteValue32(stream, at, 1, 0));
        break;
    case WAIT_VALUE:
        ck_cuda(cuStreamWaitValue32(stream, at, 1, CU_STREAM_WAIT_VALUE_EQ));
        break;
    case N_WORKS:
        break;
    }
}

TEST(work_on_unmapped_memory_is_an_illegal_address_and_the_error_stays, .n = N_WORKS) {
    fixture_context();
    CUdeviceptr other = fixture_alloc(N_BYTES), at = map(), more;
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    sim_hold();
    submit(_i, at, other, stream);
    ck_cuda(cuMemUnmap(at, N_BYTES));
    sim_release_hold();
    ck_cuda_is(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_cuda_is(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_cuda_is(cuMemAlloc(&more, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(memory_that_is_unmapped_during_work_is_an_illegal_address) {
    fixture_context();
    CUdeviceptr at = map();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 20; i++)
        ck_cuda(cuMemsetD8Async(at, (unsigned char)i, N_BYTES, stream));
    ck_cuda(cuMemUnmap(at, N_BYTES));
    CUresult result = cuStreamSynchronize(stream); /* all sets may have run already */
    ck_assert(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(a_free_does_not_wait_for_the_set_of_another_context_which_faults) {
    CUcontext first = fixture_context(), second;
    CUdeviceptr at = fixture_alloc(N_BYTES);
    ck_cuda(cuCtxCreate(&second, NULL, 0, 1));
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    sim_hold();
    ck_cuda(cuMemsetD8Async(at, 1, N_BYTES, stream));
    ck_cuda(cuCtxSetCurrent(first));
    ck_cuda(cuMemFree(at));
    sim_release_hold();
    ck_cuda(cuCtxSetCurrent(second));
    ck_cuda_is(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_cuda(cuCtxSetCurrent(first));
    ck_cuda(cuCtxSynchronize());
}

TEST(a_set_of_mapped_memory_that_became_read_only_faults) {
    fixture_context();
    CUdeviceptr at = map();
    CUstream stream = fixture_stream(CU_STREAM_NON_BLOCKING);
    sim_hold();
    ck_cuda(cuMemsetD8Async(at, 1, N_BYTES, stream));
    set_access(at, CU_MEM_ACCESS_FLAGS_PROT_READ);
    sim_release_hold();
    ck_cuda_is(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(memory_freed_in_stream_order_is_gone_for_other_streams) {
    fixture_context();
    atomic_int flag = 0;
    CUdeviceptr at;
    CUstream a = fixture_stream(CU_STREAM_NON_BLOCKING);
    CUstream b = fixture_stream(CU_STREAM_NON_BLOCKING);
    ck_cuda(cuMemAllocAsync(&at, N_BYTES, a));
    fixture_spin(b, &flag);
    ck_cuda(cuMemsetD8Async(at, 2, N_BYTES, b));
    ck_cuda(cuMemsetD8Async(at, 1, N_BYTES, a)); /* before the free the memory exists */
    ck_cuda(cuMemFreeAsync(at, a));
    ck_cuda(cuStreamSynchronize(a));
    atomic_store(&flag, 1);
    ck_cuda_is(cuStreamSynchronize(b), CUDA_ERROR_ILLEGAL_ADDRESS);
}

SUITE() {
    return tests_run("sim gone");
}
