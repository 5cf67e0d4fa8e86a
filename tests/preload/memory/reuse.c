/* Free and reuse: cudaFree is a barrier, and memory is handed out again only after it. */
#include "tests/preload/fixture/fixture.h"

static void mark(void *flag) {
    atomic_store((atomic_int *)flag, 1);
}

static const size_t sizes[] = {1, 1000, 700000, 3 * MIB, 20 * MIB, 300 * MIB};

TEST(a_freed_block_is_reused_without_the_driver, .n = (int)(sizeof sizes / sizeof *sizes)) {
    fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(sizes[_i])));
    CUdeviceptr block = fixture_alloc(sizes[_i]); /* the second request, so from now on it is worth
                                                   * keeping */
    OK(cuMemFree(block));
    sim_calls_reset();
    for (int i = 0; i < 5; i++) {
        ck_assert_uint_eq(fixture_alloc(sizes[_i]), block);
        OK(cuMemFree(block));
    }
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2") + sim_calls("cuMemFree_v2"), 0);
}

TEST(a_buffer_freed_under_a_running_kernel_is_not_handed_out_before_the_kernel_ends) {
    CUdeviceptr others[40];
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    CUstream stream = fixture_stream();
    CUdeviceptr block = fixture_alloc(1000);
    sim_hold();
    fixture_launch_write(block, 5, stream);
    thread.address = block;
    unsigned long n = sim_calls(fixture_wait_of_free());
    fixture_start(&thread, fixture_free_it);
    ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n));
    if (fixture_is_preloaded()) { /* the software driver allocates under the same lock as it frees
                                   */
        for (int i = 0; i < 40; i++) {
            others[i] = fixture_alloc(1000);
            ck_assert_uint_ne(others[i], block);
        }
    }
    sim_release_hold();
    fixture_join(&thread);
    OK(thread.answer);
    ck_assert_uint_eq(sim_pending(), 0);
    if (fixture_is_preloaded()) { /* sooner or later, because this thread's own free blocks come
                                   * first */
        bool has_come = false;
        for (int i = 0; i < 128 && !has_come; i++)
            has_come = fixture_alloc(1000) == block;
        ck_assert(has_come);
    }
}

/* Work of every sort on streams of every sort. */
static void submit_everything(CUdeviceptr block, CUdeviceptr other, void *pinned, CUevent event,
                              atomic_int *flag) {
    CUstream non_blocking = fixture_stream(), blocking;
    CUgraphExec graph = fixture_graph(other, 3);
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    fixture_launch_write(block, 1, non_blocking);
    fixture_launch_write(block + 4, 2, blocking);
    fixture_launch_write(block + 8, 3, CU_STREAM_LEGACY);
    fixture_launch_write(block + 12, 4, CU_STREAM_PER_THREAD);
    OK(cuGraphLaunch(graph, non_blocking));
    OK(cuMemcpyDtoHAsync(pinned, other, 4096, non_blocking));
    OK(cuMemsetD8Async(other + 100, 9, 100, blocking));
    OK(cuLaunchHostFunc(non_blocking, mark, flag));
    OK(cuEventRecord(event, non_blocking));
}

TEST(cudaFree_is_a_barrier) {
    fixture_use_device(0);
    for (unsigned seed = 1; seed <= 20; seed++) {
        CUevent event;
        void *pinned;
        atomic_int flag = 0;
        CUdeviceptr block = fixture_alloc(1000), other = fixture_alloc(4096),
                    unused = fixture_alloc(100);
        OK(cuMemHostAlloc(&pinned, 4096, 0));
        OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
        sim_seed(seed);
        submit_everything(block, other, pinned, event, &flag);
        OK(cuMemFree(unused)); /* no work ever touched it, but the free waits for all work */
        ck_assert_uint_eq(sim_pending(), 0);
        ck_assert_int_eq(atomic_load(&flag), 1);
        ck_assert_uint_eq(*(unsigned *)pinned, 3);
        OK(cuEventQuery(event));
        OK(cuMemFree(block));
        OK(cuMemFree(other));
        OK(cuMemFreeHost(pinned));
    }
}

static void refuse_free_after_fault(CUresult fault) {
    CUdeviceptr address;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuMemFree(fixture_alloc(1000))); /* a hit is ready */
    fixture_launch_fault(fault, fixture_stream());
    ANSWERS(cuMemFree(block), fault);
    ANSWERS(cuMemAlloc(&address, 1000), fault);
    ANSWERS(cuMemFree(block), fault);
    ANSWERS(cuCtxSynchronize(), fault);
}

TEST(a_fault_of_earlier_work_is_reported_by_the_free) {
    refuse_free_after_fault(CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST(any_fault_that_breaks_the_context_is_reported) {
    refuse_free_after_fault(CUDA_ERROR_LAUNCH_FAILED);
}

TEST(an_assertion_in_a_kernel_is_reported) {
    refuse_free_after_fault(CUDA_ERROR_ASSERT);
}

TEST(a_segment_goes_back_after_its_work) {
    CUdeviceptr address;
    size_t free_bytes, total_bytes;
    setenv("CUSHIM_SIM_MEMORY", "256M", 1); /* set for everything, because memcheck notes each
                                             * byte */
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr block = fixture_alloc(20 * MIB);
    sim_hold();
    fixture_launch_write(block, 5, stream);
    OK(cuMemFreeAsync(block, stream));
    sim_calls_reset();
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    ANSWERS(cuMemAlloc(&address, total_bytes - 10 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    if (fixture_is_preloaded()) /* the segment is still in use, so nothing goes back */
        ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 0);
    ck_assert_uint_ge(sim_live_bytes(), 20 * MIB);
    sim_release_hold();
    OK(cuStreamSynchronize(stream));
    OK(cuMemAlloc(&address, total_bytes - 10 * MIB));
}

TEST(sync_alloc_and_async_free_mix_and_the_reverse) {
    CUdeviceptr address;
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    for (int i = 0; i < 5; i++) {
        CUdeviceptr block = fixture_alloc(1000);
        fixture_launch_write(block, 5, stream);
        OK(cuMemFreeAsync(block, stream));
        ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemFreeAsync(block, stream), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemAllocAsync(&address, 1000, stream));
        fixture_launch_write(address, 6, stream);
        OK(cuMemFree(address));
        ck_assert_uint_eq(sim_pending(), 0);
        ANSWERS(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
    }
    OK(cuStreamSynchronize(stream));
}

TEST(a_block_freed_in_stream_order_is_handed_out_behind_that_work) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr block = fixture_alloc(1000);
    sim_hold();
    fixture_launch_write(block, 5, stream);
    OK(cuMemFreeAsync(block, stream));
    for (int i = 0; i < 20; i++)
        ck_assert_uint_ne(fixture_alloc(1000), block);
    sim_release_hold();
    OK(cuStreamSynchronize(stream));
    bool is_back = false;
    for (int i = 0; i < 5000 && !is_back; i++)
        is_back = fixture_alloc(1000) == block;
    ck_assert(is_back);
}

TEST(an_asynchronous_call_does_not_wait) {
    static unsigned char host[1000];
    CUdeviceptr address;
    atomic_int flag = 0;
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr block = fixture_alloc(1000), other = fixture_alloc(1000);
    CUgraphExec graph = fixture_graph(other, 1);
    sim_hold(); /* a thread that waits now waits for ever */
    fixture_launch_write(block, 5, stream);
    OK(cuMemcpyHtoDAsync(other, host, sizeof host, stream));
    OK(cuMemcpyDtoDAsync(other, block, 100, stream));
    OK(cuMemsetD8Async(other, 1, 100, stream));
    OK(cuMemAllocAsync(&address, 1000, stream));
    OK(cuMemFreeAsync(address, stream));
    OK(cuMemFreeAsync(block, stream));
    OK(cuLaunchHostFunc(stream, mark, &flag));
    OK(cuGraphLaunch(graph, stream));
    fixture_alloc(1000);
    fixture_alloc(5 * MIB);
    ck_assert_int_eq(atomic_load(&flag), 0);
    sim_release_hold();
    OK(cuStreamSynchronize(stream));
    ck_assert_int_eq(atomic_load(&flag), 1);
}

static unsigned type_of(CUdeviceptr address, unsigned *is_managed) {
    unsigned type = 0;
    *is_managed = 2;
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    OK(cuPointerGetAttribute(is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
    return type;
}

TEST(the_kind_of_memory_never_changes) {
    fixture_use_device(0);
    for (int i = 0; i < 10; i++) {
        CUdeviceptr managed, ordered;
        void *pinned;
        unsigned is_managed;
        CUdeviceptr device = fixture_alloc(4096);
        OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
        OK(cuMemHostAlloc(&pinned, 4096, 0));
        OK(cuMemAllocAsync(&ordered, 4096, NULL));
        ck_assert_uint_eq(type_of(device, &is_managed), CU_MEMORYTYPE_DEVICE);
        ck_assert_uint_eq(is_managed & 1, 0);
        type_of(managed, &is_managed);
        ck_assert_uint_eq(is_managed & 1, 1);
        ck_assert_uint_eq(type_of((CUdeviceptr)pinned, &is_managed), CU_MEMORYTYPE_HOST);
        ck_assert_uint_eq(type_of(ordered, &is_managed), CU_MEMORYTYPE_DEVICE);
        ANSWERS(cuMemFreeHost((void *)device), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemFree((CUdeviceptr)pinned), CUDA_ERROR_INVALID_VALUE);
        OK(cuMemFree(managed));
        OK(cuMemFree(device));
        OK(cuMemFreeHost(pinned));
        OK(cuMemFree(ordered));
    }
}

TEST(held_bytes_count_as_free_and_free_never_exceeds_total) {
    enum { MOST = 40 };
    CUdeviceptr blocks[MOST];
    size_t free_before, free_after, total_bytes;
    fixture_use_device(0);
    OK(cuMemGetInfo(&free_before, &total_bytes));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MOST; i++)
            blocks[i] = fixture_alloc(i ? (size_t)(i + 1) * 300 * KIB : 257 * MIB + 1);
        OK(cuMemGetInfo(&free_after, &total_bytes));
        ck_assert_uint_lt(free_after, free_before);
        for (int i = 0; i < MOST; i++) {
            OK(cuMemFree(blocks[i]));
            OK(cuMemGetInfo(&free_after, &total_bytes));
            ck_assert_uint_le(free_after, total_bytes);
        }
        ck_assert_uint_eq(free_after, free_before);
    }
    if (fixture_is_preloaded())
        ck_assert_uint_gt(sim_live_bytes(), 0); /* it was held, but counted as free */
}

int main(void) {
    return fixture_run("reuse");
}
