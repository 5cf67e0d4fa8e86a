/*
 * Pinned and managed memory is reused after a free, and otherwise looks to a program as without
 * cushim.  It runs without cushim, with each kind switched off, and with CUSHIM_ZERO and
 * CUSHIM_FREE in both settings.
 */
#include "tests/preload/fixture/host_fixture.h"

/* ---- reuse and zero ---- */

static const struct {
    size_t first_bytes, second_bytes;
} sizes[] = {{1, 1},         {100, 513},     {5000, 4097},       {70000, 69999},      {MIB, MIB},
             {MIB, 3 * MIB}, {3 * MIB, MIB}, {5 * MIB, 5 * MIB}, {70 * MIB, 70 * MIB}};
enum { N_SMALL = 5, N_SIZES = sizeof sizes / sizeof sizes[0] };

TEST(pinned_memory_comes_back_as_zero, .n = N_SIZES) {
    fixture_use_device(0);
    for (int round = 0; round < 3; round++) {
        unsigned char *first = pinned_alloc(sizes[_i].first_bytes, 0);
        ck_assert(is_zero(first, sizes[_i].first_bytes) || !is_zeroed());
        memset(first, 0xff, sizes[_i].first_bytes);
        OK(cuMemFreeHost(first));
        unsigned char *second = pinned_alloc(sizes[_i].second_bytes, 0);
        ck_assert(is_zero(second, sizes[_i].second_bytes) || !is_zeroed());
        memset(second, 0xfe, sizes[_i].second_bytes);
        OK(cuMemFreeHost(second));
    }
}

TEST(managed_memory_comes_back_as_zero, .n = N_SIZES) {
    fixture_use_device(0);
    for (int round = 0; round < 3; round++) {
        CUdeviceptr first = managed_alloc(sizes[_i].first_bytes, CU_MEM_ATTACH_GLOBAL);
        memset((void *)(uintptr_t)first, 0xff, sizes[_i].first_bytes);
        OK(cuMemFree(first));
        CUdeviceptr second = managed_alloc(sizes[_i].second_bytes, CU_MEM_ATTACH_GLOBAL);
        ck_assert(is_zero((void *)(uintptr_t)second, sizes[_i].second_bytes) || !is_zeroed());
        memset((void *)(uintptr_t)second, 0xfe, sizes[_i].second_bytes);
        OK(cuMemFree(second));
    }
}

/* In `relaxed` mode blocks rotate first. */
TEST_IF(is_pooled("CUSHIM_PINNED") && waits(), a_freed_pinned_block_comes_back_without_the_driver,
        .n = N_SIZES) {
    size_t n_bytes = sizes[_i].first_bytes;
    fixture_use_device(0);
    OK(cuMemFreeHost(pinned_alloc(n_bytes, 0)));
    unsigned char *block = pinned_alloc(n_bytes, 0); /* the second request, so from now on it is
                                                      * worth keeping */
    OK(cuMemFreeHost(block));
    sim_calls_reset();
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_eq(pinned_alloc(n_bytes, 0), block);
        OK(cuMemFreeHost(block));
    }
    ck_assert_uint_eq(sim_calls("cuMemHostAlloc") + sim_calls("cuMemFreeHost"), 0);
}

/* On a busy machine the clearing may take too long now and then, and then the driver serves.
 */
/* Each managed block is an allocation of its own, so larger ones show nothing more. */
TEST(a_freed_managed_block_comes_back, .n = N_SMALL) {
    size_t n_bytes = sizes[_i].first_bytes;
    fixture_use_device(0);
    CUdeviceptr block = managed_alloc(n_bytes, CU_MEM_ATTACH_GLOBAL), again = 0;
    OK(cuMemFree(block));
    for (int i = 0; i < 1000 && again != block; i++) {
        again = managed_alloc(n_bytes, CU_MEM_ATTACH_GLOBAL);
        OK(cuMemFree(again));
    }
    ck_assert_uint_eq(again, block);
}

TEST(managed_memory_is_the_drivers_where_host_and_device_may_not_touch_it_at_once) {
    enum { N = 5 };
    fixture_use_device(0);
    int is_at_once = 0;
    OK(cuDeviceGetAttribute(&is_at_once, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
    ck_assert_int_eq(is_at_once, is_concurrent());
    bool may_reuse = is_pooled("CUSHIM_MANAGED");
    sim_calls_reset();
    for (int i = 0; i < N; i++)
        OK(cuMemFree(managed_alloc(5000, CU_MEM_ATTACH_GLOBAL)));
    unsigned long n_asked = sim_calls("cuMemAllocManaged");
    ck_assert(may_reuse ? n_asked <= N : n_asked == N);
}

TEST(plain_pinned_memory_is_that_without_flags) {
    void *plain;
    fixture_use_device(0);
    unsigned char *pinned = pinned_alloc(1000, 0);
    OK(cuMemFreeHost(pinned));
    OK(cuMemAllocHost(&plain, 1000));
    if (is_pooled("CUSHIM_PINNED") && waits())
        ck_assert_ptr_eq(plain, pinned);
    OK(cuMemFreeHost(plain));
}

TEST(device_memory_is_cleared_where_that_is_asked_for) {
    fixture_use_device(0);
    for (unsigned i = 0; i < 3; i++) {
        for (size_t n_bytes = 1000; n_bytes < 10 * MIB; n_bytes *= 70) {
            CUdeviceptr block = fixture_alloc(n_bytes);
            if (is_word("CUSHIM_ZERO", "1"))
                ck_assert(fixture_is_filled(block, 0, n_bytes));
            fixture_fill(block, 7, n_bytes);
            OK(cuMemFree(block));
        }
    }
}

TEST(clearing_never_waits_for_a_busy_device) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr used = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL), other = fixture_alloc(1000);
    memset((void *)(uintptr_t)used, 0xff, 5000);
    OK(cuMemFree(used));
    sim_hold();
    fixture_launch_write(other, 1, stream);
    CUdeviceptr block = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL); /* a thread that waits here never
                                                                    * ends */
    ck_assert(is_zero((void *)(uintptr_t)block, 5000) || !is_zeroed());
    sim_release_hold();
    OK(cuCtxSynchronize());
    OK(cuMemFree(block));
    block = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL);
    ck_assert(is_zero((void *)(uintptr_t)block, 5000) || !is_zeroed());
    OK(cuMemFree(block));
}

/* ---- flags ---- */

TEST(flags_of_pinned_memory_are_kept_apart) {
    fixture_use_device(0);
    for (unsigned round = 0; round < 2; round++) {
        unsigned char *blocks[8];
        for (unsigned flags = 0; flags < 8; flags++) {
            unsigned told;
            blocks[flags] = pinned_alloc(1000 + 70000 * flags, flags);
            OK(cuMemHostGetFlags(&told, blocks[flags] + 10));
            ck_assert_uint_eq(told, flags | CU_MEMHOSTALLOC_DEVICEMAP);
        }
        for (unsigned flags = 0; flags < 8; flags++)
            OK(cuMemFreeHost(blocks[7 - flags]));
    }
}

TEST(flags_of_managed_memory_are_kept_apart) {
    fixture_use_device(0);
    CUdeviceptr global = managed_alloc(1000, CU_MEM_ATTACH_GLOBAL);
    OK(cuMemFree(global));
    CUdeviceptr host = managed_alloc(1000, CU_MEM_ATTACH_HOST);
    if (is_pooled("CUSHIM_MANAGED"))
        ck_assert_uint_ne(host, global);
    OK(cuMemFree(host));
}

TEST(odd_arguments_are_answered_as_natively) {
    void *pinned = NULL;
    CUdeviceptr managed;
    fixture_use_device(0);
    OK(cuMemFreeHost(pinned_alloc(1000, 0)));
    ANSWERS(cuMemHostAlloc(NULL, 1000, 0), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemHostAlloc(&pinned, 0, 0), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemHostAlloc(&pinned, 1000, 8), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemAllocHost(NULL, 1000), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemHostAlloc(&pinned, (size_t)-1, 0), CUDA_ERROR_OUT_OF_MEMORY);
    ANSWERS(cuMemAllocManaged(&managed, 0, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemAllocManaged(NULL, 1000, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemAllocManaged(&managed, (size_t)-1, CU_MEM_ATTACH_GLOBAL),
            CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned flags = 0; flags < 8; flags++) {
        if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
            ANSWERS(cuMemAllocManaged(&managed, 1000, flags), CUDA_ERROR_INVALID_VALUE);
    }
    OK(cuMemFreeHost(NULL));
}

/* ---- frees ---- */

TEST(each_free_takes_its_own_kind_alone) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    unsigned char *pinned = pinned_alloc(5000, 0);
    CUdeviceptr pinned_address = (CUdeviceptr)(uintptr_t)pinned;
    CUdeviceptr managed = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL), device = fixture_alloc(5000);
    ANSWERS(cuMemFree(pinned_address), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree(pinned_address + 512), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeHost((void *)(uintptr_t)device), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeHost((void *)(uintptr_t)managed), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeHost(pinned + 512), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree(managed + 512), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeAsync(pinned_address, stream), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFreeAsync(managed, stream), CUDA_ERROR_NOT_SUPPORTED);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(managed));
    OK(cuMemFree(device));
    ANSWERS(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree(managed), CUDA_ERROR_INVALID_VALUE);
}

/* ---- refusals ---- */

TEST(copies_are_judged_by_the_block) {
    unsigned type;
    fixture_use_device(0);
    unsigned char *pinned = pinned_alloc(1000, 0);
    CUdeviceptr pinned_address = (CUdeviceptr)(uintptr_t)pinned;
    CUdeviceptr managed = managed_alloc(1000, CU_MEM_ATTACH_GLOBAL), device = fixture_alloc(4000);
    OK(cuMemcpyHtoD(device, pinned, 1000));
    OK(cuMemcpyDtoH(pinned, device, 1000));
    OK(cuMemcpyDtoD(managed, device, 1000));
    ANSWERS(cuMemcpyHtoD(device, pinned, 1001), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemcpyDtoH(pinned, device, 1001), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemcpyDtoD(managed, device, 1001), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemsetD8(managed, 0, 1001), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned_address + 999));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(managed));
    ANSWERS(cuMemcpyHtoD(device, pinned, 10), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemsetD8(managed, 0, 10), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned_address),
            CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, managed),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(host_memory_beside_a_pinned_block_is_nobody_elses) {
    static char pageable[3 * MIB];
    fixture_use_device(0);
    CUdeviceptr device = fixture_alloc(sizeof pageable);
    for (int i = 0; i < 50; i++) {
        unsigned char *pinned = pinned_alloc(2 * MIB + 1000 * (size_t)i, 0);
        char *heap = malloc(sizeof pageable);
        OK(cuMemcpyHtoD(device, heap, sizeof pageable));
        OK(cuMemcpyHtoD(device, pageable, sizeof pageable));
        free(heap);
        OK(cuMemFreeHost(pinned));
    }
}

struct tried {
    unsigned char *pinned;
    CUdeviceptr managed;
    CUresult answers[4];
};

static void try_memory(void *data) {
    struct tried *tried = data;
    void *pinned;
    CUdeviceptr managed;
    tried->answers[0] = cuMemHostAlloc(&pinned, 1000, 0);
    tried->answers[1] = cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL);
    tried->answers[2] = cuMemFreeHost(tried->pinned);
    tried->answers[3] = cuMemFree(tried->managed);
}

TEST(in_a_host_function_memory_calls_are_refused) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    struct tried tried = {.pinned = pinned_alloc(1000, 0),
                          .managed = managed_alloc(1000, CU_MEM_ATTACH_GLOBAL)};
    OK(cuMemFreeHost(pinned_alloc(1000, 0)));
    OK(cuLaunchHostFunc(stream, try_memory, &tried));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 4; i++)
        ANSWERS(tried.answers[i], CUDA_ERROR_NOT_PERMITTED);
    OK(cuMemFreeHost(tried.pinned));
    OK(cuMemFree(tried.managed));
}

int main(void) {
    return fixture_run("kinds");
}
