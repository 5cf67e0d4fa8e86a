/*
 * The arena: runs with CUSHIM_ARENA=16M, chunks of 2 MiB, in both modes of free; and natively,
 * where what a program may rely on is the same.
 */
#include "tests/preload/kit/kit.h"

#include <dlfcn.h>

enum { CHUNK = 2 * MIB };

static bool is_relaxed(void) {
    const char *mode = getenv("CUSHIM_FREE");
    return kit_is_preloaded() && mode && strcmp(mode, "relaxed") == 0;
}

/* cushim_preload_arena_reset, as a program looks it up; 0 without a preload. */
static int reset(void) {
    int (*function)(void) = NULL;
    void *address = dlsym(RTLD_DEFAULT, "cushim_preload_arena_reset");
    memcpy(&function, &address, sizeof function);
    return function ? function() : 0;
}

/* All work so far is over, and known to be. */
static void settle(void) {
    OK(cuCtxSynchronize());
}

START_TEST(blocks_of_a_pass_follow_each_other) {
    kit_use_device(0);
    CUdeviceptr first = kit_alloc(1), second = kit_alloc(700), third = kit_alloc(100 * KIB);
    if (kit_is_preloaded()) {
        ck_assert_uint_eq(second, first + 512);
        ck_assert_uint_eq(third, second + 1024);
        ck_assert_uint_eq(kit_alloc(1), third + 100 * KIB);
    }
}
END_TEST

/* Ten blocks, filled, read and freed.  Returns which of them lies at `place`; -1: none does. */
static int pass(int number, CUdeviceptr *place) {
    CUdeviceptr blocks[10];
    int at = -1;
    for (int i = 0; i < 10; i++) {
        blocks[i] = kit_alloc(1000 * (size_t)(i + 1));
        kit_fill(blocks[i], (unsigned char)(number + i), 1000 * (size_t)(i + 1));
        at = blocks[i] == *place ? i : at;
    }
    for (int i = 0; i < 10; i++) {
        ck_assert(kit_is_filled(blocks[i], (unsigned char)(number + i), 1000 * (size_t)(i + 1)));
        OK(cuMemFree(blocks[i]));
    }
    *place = number ? *place : blocks[0];
    return at;
}

START_TEST(a_chunk_that_is_empty_serves_from_its_start) {
    CUdeviceptr first = 0;
    kit_use_device(0);
    pass(0, &first);
    for (int i = 1; i < 4 && kit_is_preloaded() && !is_relaxed(); i++)
        ck_assert_int_eq(pass(i, &first), 0);
    /* relaxed: once it is known to be over, at the latest when the chunk is full */
    int at = -1;
    for (int i = 1; i < 400 && is_relaxed() && at < 0; i++)
        at = pass(i, &first);
    ck_assert(!is_relaxed() || at >= 0);
}
END_TEST

START_TEST(a_reset_leaves_live_blocks_alone) {
    kit_use_device(0);
    CUdeviceptr kept = kit_alloc(5000), passed = kit_alloc(5000);
    kit_fill(kept, 7, 5000);
    OK(cuMemFree(passed));
    settle();
    ck_assert_int_eq(reset(), kit_is_preloaded());
    for (int i = 0; i < 1000; i++) {
        CUdeviceptr block = kit_alloc(3000);
        ck_assert(block + 3000 <= kept || block >= kept + 5000);
        kit_fill(block, 9, 3000);
    }
    ck_assert(kit_is_filled(kept, 7, 5000));
    OK(cuMemFree(kept));
}
END_TEST

START_TEST(a_reset_serves_from_above_what_is_live) {
    kit_use_device(0);
    CUdeviceptr kept = kit_alloc(5000), passed = kit_alloc(5000), other = kit_alloc(5000);
    OK(cuMemFree(passed));
    OK(cuMemFree(other));
    settle();
    ck_assert_int_eq(reset(), kit_is_preloaded());
    if (kit_is_preloaded() && !is_relaxed())
        ck_assert_uint_eq(kit_alloc(100), passed);
    OK(cuMemFree(kept));
}
END_TEST

START_TEST(a_reset_without_live_blocks_keeps_nothing) {
    kit_use_device(0);
    ck_assert_int_eq(reset(), 0);
    OK(cuMemFree(kit_alloc(5000)));
    ck_assert_int_eq(reset(), 0);
}
END_TEST

START_TEST(wrong_frees_are_refused) {
    kit_use_device(0);
    CUdeviceptr block = kit_alloc(5000), next = kit_alloc(700);
    ANSWERS(cuMemFree(block + 512), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree(next + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(block));
    ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(next));
    ANSWERS(cuMemFree(next), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(copies_that_leave_their_block_are_refused) {
    unsigned char host[2000];
    kit_use_device(0);
    CUdeviceptr block = kit_alloc(1000), next = kit_alloc(1000);
    OK(cuMemcpyDtoH(host, block, 1000));
    ANSWERS(cuMemcpyDtoH(host, block, 1600), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(block));
    ANSWERS(cuMemcpyDtoH(host, block, 1000), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(next));
}
END_TEST

START_TEST(a_freed_block_looks_unknown) {
    unsigned type;
    kit_use_device(0);
    CUdeviceptr block = kit_alloc(700), next = kit_alloc(700);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 600));
    OK(cuMemFree(block));
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(next));
}
END_TEST

START_TEST(more_than_the_arena_may_hold_is_served_as_ever) {
    enum { N = 60 };
    CUdeviceptr blocks[N];
    kit_use_device(0);
    for (int i = 0; i < N; i++) {
        blocks[i] = kit_alloc(MIB - 512 * (size_t)(i % 3));
        kit_fill(blocks[i], (unsigned char)i, 1000);
    }
    for (int i = 0; i < N; i++) {
        ck_assert(kit_is_filled(blocks[i], (unsigned char)i, 1000));
        OK(cuMemFree(blocks[i]));
    }
}
END_TEST

START_TEST(a_block_freed_under_a_running_kernel_is_not_served_before_it_ends) {
    struct kit_thread thread = {.context = kit_use_device(0)};
    CUstream stream = kit_stream();
    OK(cuMemFree(kit_alloc(1))); /* relaxed: the first free of a context waits */
    CUdeviceptr block = kit_alloc(5000);
    settle();
    sim_hold();
    kit_launch_write(block, 5, stream);
    thread.address = block;
    unsigned long n = sim_calls(kit_wait_of_free());
    kit_start(&thread, kit_free_it);
    if (is_relaxed()) { /* the free returned, and nothing that follows waits */
        kit_join(&thread);
        reset();
    } else {
        ck_assert(kit_is_asleep(&thread, kit_wait_of_free(), n));
    }
    for (int i = 0; kit_is_preloaded() && i < 100; i++) {
        CUdeviceptr other = kit_alloc(1000);
        ck_assert(other + 1000 <= block || other >= block + 5000);
    }
    sim_release_hold();
    if (!is_relaxed())
        kit_join(&thread);
    OK(thread.answer);
    settle();
}
END_TEST

START_TEST(a_context_that_is_reset_takes_its_arena_along) {
    unsigned char byte;
    CUdevice device;
    kit_use_device(0);
    CUdeviceptr block = kit_alloc(5000);
    OK(cuMemFree(kit_alloc(3000)));
    OK(cuCtxGetDevice(&device));
    OK(cuDevicePrimaryCtxReset(device));
    kit_use_device(0);
    ck_assert_int_ne(cuMemcpyDtoH(&byte, block, 1), CUDA_SUCCESS);
    ck_assert_int_eq(reset(), 0);
    for (int i = 0; i < 100; i++) {
        CUdeviceptr other = kit_alloc(50000);
        kit_fill(other, (unsigned char)i, 50000);
        ck_assert(kit_is_filled(other, (unsigned char)i, 50000));
        if (i % 3)
            OK(cuMemFree(other));
    }
}
END_TEST

static void capture(struct kit_thread *thread) {
    CUgraph graph;
    thread->stream = kit_stream();
    OK(cuStreamBeginCapture(thread->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    kit_launch_write(thread->address, 3, thread->stream);
    atomic_store(&thread->is_done, 2);
    while (atomic_load(&thread->is_done) != 3)
        sched_yield();
    thread->answer = cuStreamEndCapture(thread->stream, &graph);
}

START_TEST(a_capture_of_another_thread_stays_valid) {
    struct kit_thread thread = {.context = kit_use_device(0)};
    CUdeviceptr blocks[20];
    thread.address = kit_alloc(4);
    kit_start(&thread, capture);
    while (atomic_load(&thread.is_done) != 2)
        sched_yield();
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < 20; i++)
            blocks[i] = kit_alloc(60 * KIB);
        for (int i = 0; i < 20; i++)
            OK(cuMemFree(blocks[i]));
        ck_assert_int_eq(reset(), kit_is_preloaded());
    }
    atomic_store(&thread.is_done, 3);
    kit_join(&thread);
    OK(thread.answer);
}
END_TEST

/* ---- many threads ---- */

enum { THREADS = 4, ROUNDS = 150, OWN = 12 };

static void churn(struct kit_thread *thread) {
    struct {
        CUdeviceptr address;
        size_t n_bytes;
        unsigned char value;
    } own[OWN] = {0};
    unsigned random = (unsigned)thread->other;
    CUstream stream = kit_stream();
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525 + 1013904223;
        unsigned k = random >> 8 & 7;
        if (own[k].address) {
            OK(cuStreamSynchronize(stream));
            ck_assert(kit_is_filled(own[k].address, own[k].value, own[k].n_bytes));
            OK(cuMemFree(own[k].address));
        }
        own[k].n_bytes = 1 + (random >> 12) % (200 * KIB);
        own[k].value = (unsigned char)(random >> 24);
        own[k].address = kit_alloc(own[k].n_bytes);
        OK(cuMemsetD8Async(own[k].address, own[k].value, own[k].n_bytes, stream));
        if (random >> 28 == 3)
            reset();
    }
    OK(cuStreamSynchronize(stream));
    for (int k = 0; k < OWN; k++) {
        if (own[k].address) {
            ck_assert(kit_is_filled(own[k].address, own[k].value, own[k].n_bytes));
            OK(cuMemFree(own[k].address));
        }
    }
}

START_TEST(threads_never_find_another_ones_bytes_in_a_block) {
    struct kit_thread threads[THREADS];
    CUcontext context = kit_use_device(0);
    sim_seed((unsigned)_i * 7919 + 1);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct kit_thread){.context = context};
        threads[i].other = (CUdeviceptr)(_i * THREADS + i + 1);
        kit_start(&threads[i], churn);
    }
    for (int i = 0; i < THREADS; i++)
        kit_join(&threads[i]);
    settle();
    ck_assert_int_eq(reset(), 0);
}
END_TEST

int main(void) {
    return kit_run_loop(
        "arena", (const TTest *[]){threads_never_find_another_ones_bytes_in_a_block, NULL}, 5,
        (const TTest *[]){blocks_of_a_pass_follow_each_other,
                          a_chunk_that_is_empty_serves_from_its_start,
                          a_reset_leaves_live_blocks_alone, a_reset_serves_from_above_what_is_live,
                          a_reset_without_live_blocks_keeps_nothing, wrong_frees_are_refused,
                          copies_that_leave_their_block_are_refused, a_freed_block_looks_unknown,
                          more_than_the_arena_may_hold_is_served_as_ever,
                          a_block_freed_under_a_running_kernel_is_not_served_before_it_ends,
                          a_context_that_is_reset_takes_its_arena_along,
                          a_capture_of_another_thread_stays_valid, NULL});
}
