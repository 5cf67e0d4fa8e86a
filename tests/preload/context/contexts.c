/* Contexts and devices: which context owns a block, and what happens to it when its context
 * goes. */
#define CUDA_ENABLE_DEPRECATED /* cuCtxAttach, cuCtxDetach */
#include "tests/preload/fixture/fixture.h"

#include <time.h>

static CUcontext create_context(int device) {
    CUcontext context;
    OK(cuInit(0));
    OK(cuCtxCreate(&context, NULL, 0, device));
    return context;
}

static int device_of(CUdeviceptr address) {
    int device = -1;
    OK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    return device;
}

TEST(a_block_freed_while_another_device_is_current_returns_to_its_own) {
    static const size_t sizes[] = {1000, 3 * MIB, 300 * MIB};
    CUcontext second = fixture_use_device(1), first = fixture_use_device(0);
    for (size_t i = 0; i < 3; i++) {
        OK(cuMemFree(fixture_alloc(sizes[i]))); /* it is kept because the size is asked for again */
        CUdeviceptr block = fixture_alloc(sizes[i]);
        ck_assert_int_eq(device_of(block), 0);
        OK(cuCtxSetCurrent(second));
        OK(cuMemFree(block));
        CUdeviceptr other = fixture_alloc(sizes[i]);
        ck_assert_uint_ne(other, block);
        ck_assert_int_eq(device_of(other), 1);
        OK(cuCtxSetCurrent(first));
        ck_assert_uint_eq(fixture_alloc(sizes[i]), block);
        ck_assert_int_eq(device_of(block), 0);
        OK(cuMemFree(other));
        OK(cuMemFree(block));
    }
}

TEST(the_current_context_is_left_as_it_was) {
    CUcontext second = fixture_use_device(1), current, popped;
    CUcontext first = fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuCtxPushCurrent(second));
    OK(cuMemFree(block));
    OK(cuMemFreeAsync(fixture_alloc(1000), NULL));
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(current, second);
    OK(cuCtxPopCurrent(&popped));
    ck_assert_ptr_eq(popped, second);
    OK(cuCtxGetCurrent(&current));
    ck_assert_ptr_eq(current, first);
}

TEST(a_free_on_one_device_does_not_wait_for_another) {
    CUcontext second = fixture_use_device(1), first = fixture_use_device(0);
    CUdeviceptr busy = fixture_alloc(1000);
    CUstream stream = fixture_stream();
    OK(cuCtxSetCurrent(second));
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuCtxSetCurrent(first));
    sim_hold();
    fixture_launch_write(busy, 1, stream);
    OK(cuMemFree(block)); /* a thread that waits here waits for ever */
    sim_release_hold();
}

static void copy_or_launch(CUdeviceptr to, CUdeviceptr from, CUstream stream, bool is_in_graph) {
    CUgraph graph;
    CUgraphExec exec;
    if (is_in_graph)
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemcpyAsync(to, from, 4096, stream));
    if (is_in_graph) {
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, stream));
    }
}

TEST(a_copy_between_devices_holds_both_ends) {
    for (int i = 0; i < 4; i++) {
        int end = i % 2;
        CUcontext second = fixture_use_device(1), first = fixture_use_device(0);
        struct fixture_thread thread = {.context = first};
        CUdeviceptr to = fixture_alloc(4096);
        OK(cuCtxSetCurrent(second));
        CUdeviceptr from = fixture_alloc(4096);
        CUstream stream = fixture_stream();
        OK(cuCtxSetCurrent(first));
        CUstream other_stream = fixture_stream();
        OK(cuCtxSetCurrent(second));
        sim_hold();
        /* on a stream of the other device than that of the freed block */
        copy_or_launch(to, from, end == 0 ? stream : other_stream, i / 2);
        thread.address = end == 0 ? to : from;
        unsigned long n = sim_calls(fixture_wait_of_free()),
                      n_records = sim_calls("cuCtxRecordEvent");
        fixture_start(&thread, fixture_free_it);
        ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n));
        if (fixture_is_preloaded()) /* one covers it (measured) */
            ck_assert_uint_eq(sim_calls("cuCtxRecordEvent"), n_records + 1);
        sim_release_hold();
        fixture_join(&thread);
        OK(thread.answer);
        ck_assert_uint_eq(sim_pending(), 0);
        OK(cuMemFree(end == 0 ? from : to));
    }
}

/* The driver's answers for memory whose context is gone. */
static void check_gone(CUdeviceptr block) {
    unsigned type;
    ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemcpyHtoD(block, &type, 4), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
            CUDA_ERROR_INVALID_VALUE);
}

/* A fresh allocation works, and its memory is real. */
static void check_alive(void) {
    CUdeviceptr blocks[20];
    for (unsigned i = 0; i < 20; i++) {
        blocks[i] = fixture_alloc(i * 100000 + 4);
        fixture_launch_write(blocks[i], i, NULL);
    }
    for (unsigned i = 0; i < 20; i++)
        ck_assert_uint_eq(fixture_read(blocks[i]), i);
    for (unsigned i = 0; i < 20; i++)
        OK(cuMemFree(blocks[i]));
}

TEST(memory_goes_with_its_context) {
    for (int round = 0; round < 3; round++) {
        CUcontext context = create_context(0);
        CUdeviceptr small = fixture_alloc(1000), large = fixture_alloc(300 * MIB);
        OK(cuMemFree(fixture_alloc(5 * MIB)));
        sim_calls_reset();
        OK(cuCtxDestroy(context));
        ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 0);
        ck_assert_uint_eq(sim_live_bytes(), 0);
        context = create_context(0);
        check_gone(small);
        check_gone(large);
        check_alive();
        OK(cuCtxDestroy(context));
    }
}

TEST(memory_goes_with_a_reset_of_the_primary_context) {
    CUcontext context = fixture_use_device(0);
    for (int round = 0; round < 3; round++) {
        CUdeviceptr block = fixture_alloc(1000);
        OK(cuDevicePrimaryCtxReset(0));
        ck_assert_uint_eq(sim_live_bytes(), 0);
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxSetCurrent(context));
        check_gone(block);
        check_alive();
    }
}

TEST(memory_goes_with_the_last_release_and_no_other) {
    CUcontext context = fixture_use_device(0);
    fixture_use_device(0); /* a second owner */
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuDevicePrimaryCtxRelease(0));
    fixture_fill(block, 1, 1000);
    OK(cuMemFree(block));
    block = fixture_alloc(1000);
    OK(cuDevicePrimaryCtxRelease(0));
    ck_assert_uint_eq(sim_live_bytes(), 0);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    check_gone(block);
    check_alive();
}

/* We know that without the context's handle, which the driver is asked for only if the pool is
 * taken out of service, because other threads are served from it meanwhile. */
TEST(a_release_that_is_not_the_last_leaves_the_pool_in_service) {
    CUcontext context = fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    size_t n = sim_calls("cuDevicePrimaryCtxRetain");
    OK(cuDevicePrimaryCtxRelease(0));
    ck_assert_uint_eq(sim_calls("cuDevicePrimaryCtxRetain"), n);
    fixture_fill(block, 1, 1000);
    OK(cuMemFree(block));
    OK(cuDevicePrimaryCtxRelease(0));
    ck_assert_uint_eq(sim_live_bytes(), 0);
}

TEST(a_context_that_is_not_destroyed_goes_on) {
    CUcontext context = create_context(0), other = create_context(0);
    OK(cuCtxSetCurrent(context));
    CUdeviceptr block = fixture_alloc(1000);
    sim_fail_at(1, CUDA_ERROR_INVALID_CONTEXT);
    ANSWERS(cuCtxDestroy(context), CUDA_ERROR_INVALID_CONTEXT);
    ck_assert(sim_has_failed());
    ck_assert_int_ne(cuCtxDestroy(NULL), CUDA_SUCCESS);
    OK(cuCtxDestroy(other));
    fixture_fill(block, 1, 1000);
    size_t n = sim_calls("cuMemAlloc_v2");
    OK(cuMemFree(block));
    ck_assert_uint_eq(fixture_alloc(1000), block);
    if (fixture_is_preloaded())
        ck_assert_uint_eq(sim_calls("cuMemAlloc_v2"), n);
    check_alive();
}

TEST(contexts_of_one_device_share_no_block) {
    CUcontext first = create_context(0);
    CUdeviceptr block = fixture_alloc(1000);
    CUcontext second = create_context(0);
    OK(cuMemFree(block));
    if (fixture_is_preloaded()) /* without cushim the page goes back, so the address may come
                                 * again */
        ck_assert_uint_ne(fixture_alloc(1000), block);
    check_alive();
    OK(cuCtxDestroy(second));
    OK(cuCtxSetCurrent(first));
    check_alive();
    OK(cuCtxDestroy(first));
}

static void alloc_it(struct fixture_thread *thread) {
    thread->address = fixture_alloc(1000);
}

static void reset_it(struct fixture_thread *thread) {
    thread->answer = cuDevicePrimaryCtxReset(0);
}

/* The primary context has its handle again, but another context has its former pool. */
TEST(a_thread_that_did_not_see_its_context_end_gets_memory_of_the_next_one) {
    CUcontext first = fixture_use_device(0), other = create_context(0), owner;
    struct fixture_thread resets = {.context = other}, allocates = {.context = other};
    OK(cuCtxSetCurrent(first));
    OK(cuMemFree(fixture_alloc(1000)));
    fixture_start(&resets, reset_it);
    fixture_join(&resets);
    OK(resets.answer);
    fixture_start(&allocates, alloc_it);
    fixture_join(&allocates);
    ck_assert_ptr_eq(fixture_use_device(0), first);
    CUdeviceptr block = fixture_alloc(1000);
    OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    ck_assert_ptr_eq(owner, first);
    OK(cuCtxDestroy(other));
    fixture_launch_write(block, 7, NULL);
    ck_assert_uint_eq(fixture_read(block), 7);
    OK(cuMemFree(block));
}

static void destroy_it(struct fixture_thread *thread) {
    thread->answer = cuCtxDestroy(thread->context);
}

/* What the driver was asked when the free began. */
static atomic_ulong n_calls;

static void note_and_free_it(struct fixture_thread *thread) {
    atomic_store(&n_calls, sim_calls_total());
    fixture_free_it(thread);
}

/* Before that the driver could take the address for its own allocation, and free a segment. */
TEST_IF(fixture_is_preloaded(), a_free_waits_until_its_context_has_ended) {
    const struct timespec pause = {0, 200000};
    CUcontext other = create_context(0), context = create_context(0);
    struct fixture_thread ends = {.context = context}, frees = {.context = other};
    frees.address = fixture_alloc(1000);
    sim_hold();
    fixture_launch_write(frees.address, 1, fixture_stream());
    fixture_start(&ends, destroy_it);
    ck_assert(fixture_is_asleep(&ends, "cuCtxDestroy_v2", 0));
    fixture_start(&frees, note_and_free_it);
    while (!atomic_load(&n_calls))
        nanosleep(&pause, NULL);
    unsigned long n = atomic_load(&n_calls);
    for (int i = 0; i < 100 && sim_calls_total() == n; i++)
        nanosleep(&pause, NULL); /* a free that does not wait comes to the driver meanwhile */
    ck_assert_uint_eq(sim_calls_total(), n);
    ck_assert(!atomic_load(&frees.is_done));
    sim_release_hold();
    fixture_join(&ends);
    fixture_join(&frees);
    OK(ends.answer);
    ANSWERS(frees.answer, CUDA_ERROR_INVALID_VALUE);
}

TEST(many_contexts_come_and_go) {
    for (int round = 0; round < 100; round++) {
        CUcontext contexts[3];
        for (int i = 0; i < 3; i++) {
            contexts[i] = create_context(i % 2);
            fixture_fill(fixture_alloc(5000), (unsigned char)i, 5000);
        }
        for (int i = 3; i--;) /* in the order of the thread's stack */
            OK(cuCtxDestroy(contexts[i]));
        ck_assert_uint_eq(sim_live_bytes(), 0);
    }
}

/* The cases: attached before or after its first block, and how often. */
TEST(memory_stays_until_the_last_use_of_a_context_is_detached) {
    for (int n = 0; n < 4; n++) {
        CUcontext context = create_context(0), same;
        CUdeviceptr early = n % 2 ? fixture_alloc(1000) : 0;
        for (int i = 0; i < n; i++)
            OK(cuCtxAttach(&same, 0));
        CUdeviceptr small = fixture_alloc(1000), large = fixture_alloc(3 * MIB);
        for (int i = 0; i < n; i++) {
            OK(cuCtxDetach(context));
            fixture_fill(small, (unsigned char)i, 1000);
            ck_assert(fixture_is_filled(small, (unsigned char)i, 1000));
            check_alive();
        }
        sim_calls_reset();
        if (n)
            OK(cuMemFree(small));
        if (early)
            OK(cuMemFree(early));
        if (fixture_is_preloaded())
            ck_assert_uint_eq(sim_calls("cuMemFree_v2"), 0);
        OK(cuCtxDetach(context));
        ck_assert_uint_eq(sim_live_bytes(), 0);
        context = create_context(0);
        check_gone(large);
        check_alive();
        OK(cuCtxDestroy(context));
    }
}

TEST(a_detach_that_is_refused_takes_no_use) {
    CUcontext context = create_context(0), same, other;
    OK(cuCtxAttach(&same, 0));
    CUdeviceptr block = fixture_alloc(1000);
    other = create_context(1);
    ANSWERS(cuCtxDetach(context), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxDestroy(other));
    OK(cuCtxDetach(context));
    fixture_fill(block, 1, 1000);
    check_alive();
    OK(cuMemFree(block));
    OK(cuCtxDetach(context));
    ck_assert_uint_eq(sim_live_bytes(), 0);
}

int main(void) {
    return fixture_run("contexts");
}
