/* What odd arguments get: the driver's own answer (interposition.md C5, C6, D2). */
#include "tests/preload/fixture/fixture.h"

TEST(null_out_pointers_get_the_drivers_answer) {
    size_t n;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    sim_calls_reset();
    ANSWERS(cuMemAlloc(NULL, 100), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 1);
    ANSWERS(cuMemAllocPitch(NULL, &n, 100, 100, 4), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemAllocAsync(NULL, 100, NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemAllocManaged(NULL, 100, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemAllocHost(NULL, 100), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemHostAlloc(NULL, 100, 0), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemGetInfo(NULL, &n), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemGetInfo(&n, NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuMemGetAddressRange(NULL, NULL, block));
    OK(cuMemFree(block));
}

TEST(a_size_of_nothing_gets_the_drivers_answer) {
    CUdeviceptr address = 1;
    fixture_use_device(0);
    ANSWERS(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 1);
    OK(cuMemFree(0));
    ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 1);
}

TEST(without_a_context_the_driver_answers) {
    CUdeviceptr address = 1;
    OK(cuInit(0));
    ANSWERS(cuMemAlloc(&address, 100), CUDA_ERROR_INVALID_CONTEXT);
    ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), 1);
}

TEST(before_cuInit_the_driver_answers) {
    CUdeviceptr address = 1;
    ANSWERS(cuMemAlloc(&address, 100), CUDA_ERROR_NOT_INITIALIZED);
    ANSWERS(cuMemFree(512), CUDA_ERROR_NOT_INITIALIZED);
    fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(100)));
}

TEST(freeing_a_pointer_we_never_saw_is_answered_as_the_driver_does) {
    int local;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    ANSWERS(cuMemFree(0x1234000), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree((CUdeviceptr)&local), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeAsync(0x1234000, NULL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(block));
}

TEST(freeing_a_segments_start_twice_frees_no_segment) {
    fixture_use_device(0);
    CUdeviceptr first = fixture_alloc(1000), second = fixture_alloc(1000);
    fixture_fill(second, 7, 1000);
    if (fixture_is_preloaded()) /* both are in it */
        ck_assert_uint_eq(sim_live_allocations(), 1);
    sim_calls_reset();
    OK(cuMemFree(first));
    ANSWERS(cuMemFree(first), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeAsync(first, NULL), CUDA_ERROR_INVALID_VALUE);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuMemFree_v2") + sim_calls("cuMemFreeAsync"), 0);
    ck_assert(fixture_is_filled(second, 7, 1000));
    OK(cuMemFree(second));
}

TEST(freeing_inside_a_block_frees_nothing) {
    static const size_t sizes[] = {1000, 700000, 3 * MIB, 300 * MIB};
    fixture_use_device(0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr block = fixture_alloc(sizes[i]);
        ANSWERS(cuMemFree(block + 512), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemFree(block + sizes[i] - 1), CUDA_ERROR_INVALID_VALUE);
        fixture_fill(block, 1, sizes[i]);
        OK(cuMemFree(block));
    }
}

TEST(of_two_threads_that_free_the_same_block_one_succeeds) {
    struct fixture_thread threads[2] = {{0}};
    CUcontext context = fixture_use_device(0);
    for (int round = 0; round < 20; round++) {
        CUdeviceptr block = fixture_alloc(1000);
        for (int i = 0; i < 2; i++) {
            threads[i].context = context;
            threads[i].address = block;
            fixture_start(&threads[i], fixture_free_it);
        }
        fixture_join(&threads[0]);
        fixture_join(&threads[1]);
        ck_assert_int_eq((threads[0].answer == CUDA_SUCCESS) + (threads[1].answer == CUDA_SUCCESS),
                         1);
        ck_assert_int_eq((threads[0].answer == CUDA_ERROR_INVALID_VALUE) +
                             (threads[1].answer == CUDA_ERROR_INVALID_VALUE),
                         1);
    }
}

static void free_and_query(struct fixture_thread *thread) {
    CUcontext current = thread->context;
    size_t n_bytes = 0;
    unsigned type = 0;
    CUdeviceptr base;
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_null(current);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, thread->other));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    OK(cuMemGetAddressRange(&base, &n_bytes, thread->other));
    ck_assert_uint_ge(n_bytes, 1000);
    thread->answer = cuMemFree(thread->address);
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_null(current);
}

TEST(a_thread_without_a_context_may_free_and_query) {
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000), other = fixture_alloc(1000);
    struct fixture_thread thread = {.address = block, .other = other};
    fixture_start(&thread, free_and_query);
    fixture_join(&thread);
    OK(thread.answer);
    ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(other));
}

TEST(a_host_typed_cuMemCreate_passes) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
    fixture_use_device(0);
    cuMemCreate(&handle, 2 * MIB, &properties, 0);
    ck_assert_uint_eq(sim_calls("cuMemCreate"), 1);
    OK(cuMemFree(fixture_alloc(100)));
}

TEST(one_failed_allocation_does_not_fail_the_next) {
    CUdeviceptr address;
    size_t free_bytes, total_bytes;
    fixture_use_device(0);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    for (int i = 0; i < 3; i++) {
        ANSWERS(cuMemAlloc(&address, 2 * total_bytes), CUDA_ERROR_OUT_OF_MEMORY);
        ANSWERS(cuMemAlloc(&address, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
        CUdeviceptr block = fixture_alloc(1000);
        fixture_launch_write(block, 5, NULL);
        ck_assert_uint_eq(fixture_read(block), 5);
        OK(cuMemFree(block));
    }
}

int main(void) {
    return fixture_run("arguments");
}
