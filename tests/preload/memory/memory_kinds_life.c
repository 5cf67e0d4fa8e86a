/*
 * Pinned and managed memory over time: what a free waits for, hints, ends of contexts, out of
 * memory, threads.  It runs in the same ways as memory_kinds.c.
 */
#include "tests/preload/fixture/host_fixture.h"

/* ---- waits ---- */

static void free_pinned(struct fixture_thread *thread) {
    thread->answer = cuMemFreeHost((void *)(uintptr_t)thread->address);
}

/* The call in which a free of this kind sleeps. */
static const char *wait_of(bool is_pinned) {
    if (is_pooled(is_pinned ? "CUSHIM_PINNED" : "CUSHIM_MANAGED"))
        return "cuEventSynchronize";
    return is_pinned ? "cuMemFreeHost" : "cuMemFree_v2";
}

TEST(a_free_waits_for_the_context_that_allocated) {
    for (int is_pinned = 0; is_pinned < 2 && waits(); is_pinned++) {
        struct fixture_thread thread = {.context = fixture_use_device(1)};
        fixture_use_device(0);
        CUstream stream = fixture_stream();
        CUdeviceptr block = fixture_alloc(1000);
        thread.address = is_pinned ? (CUdeviceptr)(uintptr_t)pinned_alloc(1000, 0)
                                   : managed_alloc(1000, CU_MEM_ATTACH_GLOBAL);
        sim_hold();
        fixture_launch_write(block, 1, stream);
        unsigned long n = sim_calls(wait_of(is_pinned));
        fixture_start(&thread,
                      is_pinned ? free_pinned : fixture_free_it); /* device 1 is current there */
        ck_assert(fixture_is_asleep(&thread, wait_of(is_pinned), n));
        sim_release_hold();
        fixture_join(&thread);
        OK(thread.answer);
        ck_assert_uint_eq(sim_pending(), 0);
    }
}

TEST(a_free_waits_for_no_other_context) {
    CUcontext other, first = fixture_use_device(0);
    CUcontext second = fixture_use_device(1);
    OK(cuCtxSetCurrent(first));
    unsigned char *pinned = pinned_alloc(1000, CU_MEMHOSTALLOC_PORTABLE);
    CUdeviceptr managed = managed_alloc(1000, CU_MEM_ATTACH_GLOBAL);
    OK(cuCtxCreate(&other, NULL, 0, 0));
    CUstream stream = fixture_stream();
    CUdeviceptr block = fixture_alloc(1000);
    sim_hold();
    fixture_launch_write(block, 1, stream);
    OK(cuCtxSetCurrent(second));
    block = fixture_alloc(1000);
    fixture_launch_write(block, 1, fixture_stream());
    OK(cuMemFreeHost(pinned)); /* a thread that waits here waits for ever */
    OK(cuMemFree(managed));
    sim_release_hold();
}

/* Copy out of pinned memory, free scratch memory, and fill the pinned memory again: the free was
 * the barrier. */
TEST(a_free_of_scratch_makes_a_source_free_to_refill) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr target = fixture_alloc(4096);
    unsigned char *source = pinned_alloc(4096, 0);
    for (unsigned seed = 1; seed <= 20; seed++) {
        sim_seed(seed);
        memset(source, (int)seed, 4096);
        OK(cuMemcpyHtoDAsync(target, source, 4096, stream));
        OK(cuMemFreeHost(pinned_alloc(100, 0)));
        memset(source, 0xee, 4096);
        ck_assert(fixture_is_filled(target, (unsigned char)seed, 4096));
    }
}

/* Free at once, allocate, fill: work that reads the old contents comes first. */
TEST(a_block_is_not_handed_out_before_its_work_is_over) {
    fixture_use_device(0);
    CUstream stream = fixture_stream();
    CUdeviceptr target = fixture_alloc(4096);
    for (unsigned seed = 1; seed <= 40; seed++) {
        sim_seed(seed);
        unsigned char *source = pinned_alloc(4096, 0);
        memset(source, (int)seed, 4096);
        OK(cuMemcpyHtoDAsync(target, source, 4096, stream));
        OK(cuMemFreeHost(source));
        unsigned char *next = pinned_alloc(4096, 0);
        memset(next, 0xee, 4096);
        OK(cuStreamSynchronize(stream));
        ck_assert(fixture_is_filled(target, (unsigned char)seed, 4096));
        OK(cuMemFreeHost(next));
    }
}

/* ---- captures ---- */

static void use_host_memory(struct fixture_thread *thread) {
    (void)thread;
    for (int i = 0; i < 3; i++) {
        unsigned char *pinned = pinned_alloc(5000 + 70000 * (size_t)i, 0);
        CUdeviceptr managed = managed_alloc(5000 + 70000 * (size_t)i, CU_MEM_ATTACH_GLOBAL);
        memset(pinned, 0xff, 5000);
        OK(cuMemFreeHost(pinned));
        OK(cuMemFree(managed));
    }
}

/* Without cushim a capture in GLOBAL mode forbids this to all threads. */
TEST_IF(is_pooled("CUSHIM_PINNED") && is_pooled("CUSHIM_MANAGED"),
        a_capture_of_another_thread_stays_valid) {
    CUgraph graph;
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    CUstream stream = fixture_stream();
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    fixture_launch_write(block, 1, stream);
    fixture_start(&thread, use_host_memory);
    fixture_join(&thread);
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
}

/* ---- hints ---- */

static CUresult hint(int which, CUdeviceptr address, size_t n_bytes) {
    CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    size_t index = 0;
    switch (which) {
    case 0:
        return cuMemAdvise(address, n_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, location);
    case 1:
        return cuMemPrefetchAsync(address, n_bytes, location, 0, NULL);
    case 2:
        return cuMemPrefetchBatchAsync(&address, &n_bytes, 1, &location, &index, 1, 0, NULL);
    case 3:
        return cuMemDiscardBatchAsync(&address, &n_bytes, 1, 0, NULL);
    case 4:
        return cuMemDiscardAndPrefetchBatchAsync(&address, &n_bytes, 1, &location, &index, 1, 0,
                                                 NULL);
    default:
        return cuStreamAttachMemAsync(NULL, address, n_bytes, CU_MEM_ATTACH_GLOBAL);
    }
}

TEST(a_block_with_a_hint_is_not_handed_out_again) {
    fixture_use_device(0);
    for (int which = 0; which < 6; which++) {
        CUdeviceptr block = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL);
        bool is_attach = which == 5; /* it concerns the whole block, the others a part */
        OK(hint(which, is_attach ? block : block + 1000, is_attach ? 5000 : 2000));
        unsigned long n = sim_calls("cuMemFree_v2");
        OK(cuMemFree(block));
        ck_assert_uint_eq(sim_calls("cuMemFree_v2"), n + 1);
        ANSWERS(hint(which, block, is_attach ? 5000 : 1000), CUDA_ERROR_INVALID_VALUE);
    }
    CUdeviceptr block = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL);
    unsigned long n = sim_calls("cuMemFree_v2");
    OK(cuMemFree(block));
    if (is_pooled("CUSHIM_MANAGED")) { /* without a hint the block is kept, and a hint on it is
                                        * refused */
        ck_assert_uint_eq(sim_calls("cuMemFree_v2"), n);
        for (int which = 0; which < 6; which++)
            ANSWERS(hint(which, block, 1000), CUDA_ERROR_INVALID_VALUE);
    }
}

/* ---- lifetimes ---- */

TEST(host_memory_goes_with_its_context) {
    for (int round = 0; round < 3; round++) {
        CUcontext context;
        OK(cuInit(0));
        OK(cuCtxCreate(&context, NULL, 0, 0));
        unsigned char *small = pinned_alloc(1000, 0), *large = pinned_alloc(80 * MIB, 1);
        CUdeviceptr managed = managed_alloc(1000, CU_MEM_ATTACH_GLOBAL);
        OK(cuMemFreeHost(pinned_alloc(5 * MIB, 4)));
        OK(cuMemFree(managed_alloc(5 * MIB, CU_MEM_ATTACH_HOST)));
        sim_calls_reset();
        OK(cuCtxDestroy(context));
        ck_assert_uint_eq(sim_calls("cuMemFreeHost") + sim_calls("cuMemFree_v2"), 0);
        OK(cuCtxCreate(&context, NULL, 0, 1));
        ANSWERS(cuMemFreeHost(small), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemFreeHost(large), CUDA_ERROR_INVALID_VALUE);
        ANSWERS(cuMemFree(managed), CUDA_ERROR_INVALID_VALUE);
        for (unsigned flags = 0; flags < 8; flags++) {
            unsigned char *pinned = pinned_alloc(5000, flags);
            ck_assert(is_zero(pinned, 5000) || !is_zeroed());
            memset(pinned, 0xff, 5000);
            OK(cuMemFreeHost(pinned));
        }
        OK(cuCtxDestroy(context));
    }
}

TEST(host_memory_goes_with_a_reset) {
    CUcontext context = fixture_use_device(0);
    for (int round = 0; round < 3; round++) {
        unsigned char *pinned = pinned_alloc(1000, 0);
        OK(cuMemFreeHost(pinned_alloc(1000, 0)));
        OK(cuDevicePrimaryCtxReset(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        ANSWERS(cuMemFreeHost(pinned), CUDA_ERROR_INVALID_VALUE);
        pinned = pinned_alloc(1000, 0);
        ck_assert(is_zero(pinned, 1000));
        OK(cuMemFreeHost(pinned));
    }
}

/* The device clears managed memory on a stream, which goes with its context. */
TEST(each_context_clears_its_memory_on_a_stream_of_its_own) {
    enum { N_BLOCKS = 200 };
    OK(cuInit(0));
    for (int round = 0; round < 3; round++) {
        CUcontext context;
        OK(cuCtxCreate(&context, NULL, 0, 0));
        sim_calls_reset();
        for (int i = 0; i < N_BLOCKS; i++) {
            CUdeviceptr block = managed_alloc(5000, CU_MEM_ATTACH_GLOBAL);
            unsigned char *bytes = (unsigned char *)(uintptr_t)block;
            ck_assert(is_zero(bytes, 5000) || !is_zeroed());
            memset(bytes, 0xff, 5000);
            OK(cuMemFree(block));
        }
        if (is_pooled("CUSHIM_MANAGED") && is_zeroed())
            ck_assert_uint_eq(sim_calls("cuStreamCreate"), 1);
        OK(cuCtxDestroy(context));
    }
}

TEST(a_thousand_contexts_with_host_memory_come_and_go) {
    OK(cuInit(0));
    for (int round = 0; round < 100; round++) {
        CUcontext contexts[10];
        for (int i = 0; i < 10; i++) {
            OK(cuCtxCreate(&contexts[i], NULL, 0, i % 2));
            memset(pinned_alloc(5000, (unsigned)i % 8), i, 5000);
            OK(cuMemFree(managed_alloc(100, CU_MEM_ATTACH_GLOBAL)));
        }
        for (int i = 10; i--;)
            OK(cuCtxDestroy(contexts[i]));
    }
}

/* ---- memory is out ---- */

/* More than half of the addresses that the software device has for host memory. */
TEST(what_other_pools_hold_pinned_is_given_back_when_memory_is_out) {
    const size_t most_bytes = (size_t)20 << 30;
    fixture_use_device(0);
    for (int round = 0; round < 3; round++) {
        OK(cuMemFreeHost(pinned_alloc(most_bytes, CU_MEMHOSTALLOC_WRITECOMBINED)));
        OK(cuMemFreeHost(pinned_alloc(most_bytes, 0)));
        OK(cuMemFree(managed_alloc(most_bytes, CU_MEM_ATTACH_GLOBAL)));
    }
}

/* ---- threads ---- */

static void churn(struct fixture_thread *thread) {
    unsigned random = (unsigned)thread->address;
    CUdeviceptr device = fixture_alloc(MIB);
    for (int i = 0; i < 150; i++) {
        random = random * 1103515245u + 12345u;
        size_t n_bytes = (random >> 8) % 70000 + 1;
        unsigned char *pinned = pinned_alloc(n_bytes, (random >> 4) % 2);
        CUdeviceptr managed = managed_alloc(n_bytes, CU_MEM_ATTACH_GLOBAL);
        ck_assert(is_zero(pinned, n_bytes) || !is_zeroed());
        memset(pinned, (int)random | 1, n_bytes);
        OK(cuMemcpyHtoDAsync(device, pinned, n_bytes, thread->stream));
        OK(cuMemcpyDtoDAsync(managed, device, n_bytes, thread->stream));
        OK(cuStreamSynchronize(thread->stream));
        ck_assert_int_eq(memcmp((void *)(uintptr_t)managed, pinned, n_bytes), 0);
        OK(cuMemFreeHost(pinned));
        OK(cuMemFree(managed));
    }
    OK(cuMemFree(device));
}

TEST(threads_share_no_block) {
    struct fixture_thread threads[8];
    CUcontext context = fixture_use_device(0);
    for (unsigned i = 0; i < 8; i++) {
        threads[i] = (struct fixture_thread){
            .context = context, .address = i + 1, .stream = fixture_stream()};
        fixture_start(&threads[i], churn);
    }
    for (unsigned i = 0; i < 8; i++)
        fixture_join(&threads[i]);
}

int main(void) {
    return fixture_run("kinds_life");
}
