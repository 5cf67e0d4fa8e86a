/*
 * The arena: it runs with CUSHIM_ARENA=16M, in chunks of 2 MiB, in both modes of free.  It also
 * runs without cushim, because programs may rely on the same things there.
 */
#include "tests/preload/fixture/fixture.h"

#include <dlfcn.h>

enum { CHUNK = 2 * MIB };

static bool is_relaxed(void) {
    const char *mode = getenv("CUSHIM_FREE");
    return fixture_is_preloaded() && mode && strcmp(mode, "relaxed") == 0;
}

/* cushim_preload_arena_reset, as a program looks it up; 0 without a preload. */
static int reset(void) {
    int (*function)(void) = NULL;
    void *address = dlsym(RTLD_DEFAULT, "cushim_preload_arena_reset");
    memcpy(&function, &address, sizeof function);
    return function ? function() : 0;
}

/* Make sure that all work so far is known to be over. */
static void settle(void) {
    OK(cuCtxSynchronize());
}

TEST(blocks_of_a_pass_follow_each_other) {
    fixture_use_device(0);
    CUdeviceptr first = fixture_alloc(1), second = fixture_alloc(700),
                third = fixture_alloc(100 * KIB);
    if (fixture_is_preloaded()) {
        ck_assert_uint_eq(second, first + 512);
        ck_assert_uint_eq(third, second + 1024);
        ck_assert_uint_eq(fixture_alloc(1), third + 100 * KIB);
    }
}

/* Ten blocks, filled, read and freed.  Returns the one that lies at `place`; -1: none does. */
static int pass(int number, CUdeviceptr *place) {
    CUdeviceptr blocks[10];
    int at = -1;
    for (int i = 0; i < 10; i++) {
        blocks[i] = fixture_alloc(1000 * (size_t)(i + 1));
        fixture_fill(blocks[i], (unsigned char)(number + i), 1000 * (size_t)(i + 1));
        at = blocks[i] == *place ? i : at;
    }
    for (int i = 0; i < 10; i++) {
        ck_assert(
            fixture_is_filled(blocks[i], (unsigned char)(number + i), 1000 * (size_t)(i + 1)));
        OK(cuMemFree(blocks[i]));
    }
    *place = number ? *place : blocks[0];
    return at;
}

TEST(a_chunk_that_is_empty_serves_from_its_start) {
    CUdeviceptr first = 0;
    fixture_use_device(0);
    pass(0, &first);
    for (int i = 1; i < 4 && fixture_is_preloaded() && !is_relaxed(); i++)
        ck_assert_int_eq(pass(i, &first), 0);
    /* in relaxed mode, when its work is known to be over, at the latest when the chunk is full */
    int at = -1;
    for (int i = 1; i < 400 && is_relaxed() && at < 0; i++)
        at = pass(i, &first);
    ck_assert(!is_relaxed() || at >= 0);
}

TEST(a_reset_leaves_live_blocks_alone) {
    fixture_use_device(0);
    CUdeviceptr kept = fixture_alloc(5000), passed = fixture_alloc(5000);
    fixture_fill(kept, 7, 5000);
    OK(cuMemFree(passed));
    settle();
    ck_assert_int_eq(reset(), fixture_is_preloaded());
    for (int i = 0; i < 1000; i++) {
        CUdeviceptr block = fixture_alloc(3000);
        ck_assert(block + 3000 <= kept || block >= kept + 5000);
        fixture_fill(block, 9, 3000);
    }
    ck_assert(fixture_is_filled(kept, 7, 5000));
    OK(cuMemFree(kept));
}

TEST(a_reset_serves_from_above_what_is_live) {
    fixture_use_device(0);
    CUdeviceptr kept = fixture_alloc(5000), passed = fixture_alloc(5000),
                other = fixture_alloc(5000);
    OK(cuMemFree(passed));
    OK(cuMemFree(other));
    settle();
    ck_assert_int_eq(reset(), fixture_is_preloaded());
    if (fixture_is_preloaded() && !is_relaxed())
        ck_assert_uint_eq(fixture_alloc(100), passed);
    OK(cuMemFree(kept));
}

TEST(a_reset_without_live_blocks_keeps_nothing) {
    fixture_use_device(0);
    ck_assert_int_eq(reset(), 0);
    OK(cuMemFree(fixture_alloc(5000)));
    ck_assert_int_eq(reset(), 0);
}

TEST(wrong_frees_are_refused) {
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(5000), next = fixture_alloc(700);
    ANSWERS(cuMemFree(block + 512), CUDA_ERROR_INVALID_VALUE);
    ANSWERS(cuMemFree(next + 512), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(block));
    ANSWERS(cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(next));
    ANSWERS(cuMemFree(next), CUDA_ERROR_INVALID_VALUE);
}

TEST(copies_that_leave_their_block_are_refused) {
    unsigned char host[2000];
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000), next = fixture_alloc(1000);
    OK(cuMemcpyDtoH(host, block, 1000));
    ANSWERS(cuMemcpyDtoH(host, block, 1600), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(block));
    ANSWERS(cuMemcpyDtoH(host, block, 1000), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(next));
}

TEST(a_freed_block_looks_unknown) {
    unsigned type;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(700), next = fixture_alloc(700);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block + 600));
    OK(cuMemFree(block));
    ANSWERS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block),
            CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(next));
}

TEST(more_than_the_arena_may_hold_is_served_as_ever) {
    enum { N = 60 };
    CUdeviceptr blocks[N];
    fixture_use_device(0);
    for (int i = 0; i < N; i++) {
        blocks[i] = fixture_alloc(MIB - 512 * (size_t)(i % 3));
        fixture_fill(blocks[i], (unsigned char)i, 1000);
    }
    for (int i = 0; i < N; i++) {
        ck_assert(fixture_is_filled(blocks[i], (unsigned char)i, 1000));
        OK(cuMemFree(blocks[i]));
    }
}

TEST(a_block_freed_under_a_running_kernel_is_not_served_before_it_ends) {
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    CUstream stream = fixture_stream();
    OK(cuMemFree(fixture_alloc(1))); /* in relaxed mode the first free of a context waits */
    CUdeviceptr block = fixture_alloc(5000);
    settle();
    sim_hold();
    fixture_launch_write(block, 5, stream);
    thread.address = block;
    unsigned long n = sim_calls(fixture_wait_of_free());
    fixture_start(&thread, fixture_free_it);
    if (is_relaxed()) { /* the free has returned, and nothing after it waits */
        fixture_join(&thread);
        reset();
    } else {
        ck_assert(fixture_is_asleep(&thread, fixture_wait_of_free(), n));
    }
    for (int i = 0; fixture_is_preloaded() && i < 100; i++) {
        CUdeviceptr other = fixture_alloc(1000);
        ck_assert(other + 1000 <= block || other >= block + 5000);
    }
    sim_release_hold();
    if (!is_relaxed())
        fixture_join(&thread);
    OK(thread.answer);
    settle();
}

TEST(a_context_that_is_reset_takes_its_arena_along) {
    unsigned char byte;
    CUdevice device;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(5000);
    OK(cuMemFree(fixture_alloc(3000)));
    OK(cuCtxGetDevice(&device));
    OK(cuDevicePrimaryCtxReset(device));
    fixture_use_device(0);
    ck_assert_int_ne(cuMemcpyDtoH(&byte, block, 1), CUDA_SUCCESS);
    ck_assert_int_eq(reset(), 0);
    for (int i = 0; i < 100; i++) {
        CUdeviceptr other = fixture_alloc(50000);
        fixture_fill(other, (unsigned char)i, 50000);
        ck_assert(fixture_is_filled(other, (unsigned char)i, 50000));
        if (i % 3)
            OK(cuMemFree(other));
    }
}

static void capture(struct fixture_thread *thread) {
    CUgraph graph;
    thread->stream = fixture_stream();
    OK(cuStreamBeginCapture(thread->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fixture_launch_write(thread->address, 3, thread->stream);
    atomic_store(&thread->is_done, 2);
    while (atomic_load(&thread->is_done) != 3)
        sched_yield();
    thread->answer = cuStreamEndCapture(thread->stream, &graph);
}

TEST(a_capture_of_another_thread_stays_valid) {
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    CUdeviceptr blocks[20];
    thread.address = fixture_alloc(4);
    fixture_start(&thread, capture);
    while (atomic_load(&thread.is_done) != 2)
        sched_yield();
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < 20; i++)
            blocks[i] = fixture_alloc(60 * KIB);
        for (int i = 0; i < 20; i++)
            OK(cuMemFree(blocks[i]));
        ck_assert_int_eq(reset(), fixture_is_preloaded());
    }
    atomic_store(&thread.is_done, 3);
    fixture_join(&thread);
    OK(thread.answer);
}

/* ---- many threads ---- */

enum { THREADS = 4, ROUNDS = 150, OWN = 12 };

static void churn(struct fixture_thread *thread) {
    struct {
        CUdeviceptr address;
        size_t n_bytes;
        unsigned char value;
    } own[OWN] = {0};
    unsigned random = (unsigned)thread->other;
    CUstream stream = fixture_stream();
    for (int round = 0; round < ROUNDS; round++) {
        random = random * 1664525 + 1013904223;
        unsigned k = random >> 8 & 7;
        if (own[k].address) {
            OK(cuStreamSynchronize(stream));
            ck_assert(fixture_is_filled(own[k].address, own[k].value, own[k].n_bytes));
            OK(cuMemFree(own[k].address));
        }
        own[k].n_bytes = 1 + (random >> 12) % (200 * KIB);
        own[k].value = (unsigned char)(random >> 24);
        own[k].address = fixture_alloc(own[k].n_bytes);
        OK(cuMemsetD8Async(own[k].address, own[k].value, own[k].n_bytes, stream));
        if (random >> 28 == 3)
            reset();
    }
    OK(cuStreamSynchronize(stream));
    for (int k = 0; k < OWN; k++) {
        if (own[k].address) {
            ck_assert(fixture_is_filled(own[k].address, own[k].value, own[k].n_bytes));
            OK(cuMemFree(own[k].address));
        }
    }
}

TEST(threads_never_find_another_ones_bytes_in_a_block, .n = 5) {
    struct fixture_thread threads[THREADS];
    CUcontext context = fixture_use_device(0);
    sim_seed((unsigned)_i * 7919 + 1);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct fixture_thread){.context = context};
        threads[i].other = (CUdeviceptr)(_i * THREADS + i + 1);
        fixture_start(&threads[i], churn);
    }
    for (int i = 0; i < THREADS; i++)
        fixture_join(&threads[i]);
    settle();
    ck_assert_int_eq(reset(), 0);
}

int main(void) {
    return fixture_run("arena");
}
