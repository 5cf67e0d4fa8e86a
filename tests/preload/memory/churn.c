/*
 * Many threads at once: no block is handed out twice, its bytes belong to its owner, and nothing is
 * left over.  Under TSan no two of our accesses race.
 */
#include <sched.h>

#include "tests/preload/fixture/fixture.h"

enum { N_THREADS = 8, N_ROUNDS = 300, N_LIVE = 6 };

static CUcontext contexts[2];

static size_t draw(unsigned long long *state, size_t n) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (size_t)(*state >> 33) % n;
}

static size_t draw_size(unsigned long long *state) {
    static const size_t most[] = {600, 5000, 200000, 2 * MIB, 6 * MIB};
    return draw(state, most[draw(state, 5)]) + 8;
}

/* One of a thread's live blocks: its first and last words carry its mark. */
struct mine {
    CUdeviceptr address;
    size_t n_bytes;
    unsigned mark;
};

static void take(struct mine *mine, unsigned long long *state, unsigned mark) {
    mine->n_bytes = draw_size(state) & ~(size_t)3;
    mine->mark = mark;
    OK(cuMemAlloc(&mine->address, mine->n_bytes));
    OK(cuMemsetD32Async(mine->address, mark, 1, CU_STREAM_PER_THREAD));
    OK(cuMemsetD32Async(mine->address + mine->n_bytes - 4, mark, 1, CU_STREAM_PER_THREAD));
    ANSWERS(cuMemsetD32Async(mine->address + mine->n_bytes - 4, mark, 2, CU_STREAM_PER_THREAD),
            CUDA_ERROR_INVALID_VALUE);
}

static void give(struct mine *mine, bool is_async) {
    unsigned first = 0, last = 0;
    OK(cuMemcpyDtoHAsync(&first, mine->address, 4, CU_STREAM_PER_THREAD));
    OK(cuMemcpyDtoHAsync(&last, mine->address + mine->n_bytes - 4, 4, CU_STREAM_PER_THREAD));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    ck_assert_uint_eq(first, mine->mark);
    ck_assert_uint_eq(last, mine->mark);
    if (is_async)
        OK(cuMemFreeAsync(mine->address, CU_STREAM_PER_THREAD));
    else
        OK(cuMemFree(mine->address));
    mine->address = 0;
}

static void churn(struct fixture_thread *thread) {
    static atomic_uint n_threads;
    struct mine mine[N_LIVE] = {{0}};
    unsigned number = atomic_fetch_add(&n_threads, 1);
    unsigned long long state = number + 1;
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        struct mine *at = &mine[draw(&state, N_LIVE)];
        if (at->address)
            give(at, draw(&state, 4) == 0);
        else
            take(at, &state, number << 16 | round);
    }
    for (unsigned i = 0; i < N_LIVE; i++) {
        if (mine[i].address)
            give(&mine[i], false);
    }
    thread->answer = CUDA_SUCCESS;
}

static void churn_with(int n_contexts) {
    struct fixture_thread threads[N_THREADS] = {{0}};
    size_t free_before, free_after, total_bytes;
    contexts[1] = fixture_use_device(n_contexts - 1);
    contexts[0] = fixture_use_device(0);
    OK(cuMemGetInfo(&free_before, &total_bytes));
    for (int i = 0; i < N_THREADS; i++) {
        threads[i].context = contexts[i % n_contexts];
        fixture_start(&threads[i], churn);
    }
    for (int i = 0; i < N_THREADS; i++) {
        fixture_join(&threads[i]);
        OK(threads[i].answer);
    }
    OK(cuCtxSynchronize());
    OK(cuMemFree(fixture_alloc(8))); /* a free after the last, so pending blocks are back */
    OK(cuMemGetInfo(&free_after, &total_bytes));
    ck_assert_uint_eq(free_after, free_before);
}

TEST(eight_threads_share_a_context) {
    churn_with(1);
}

TEST(eight_threads_share_two_devices) {
    churn_with(2);
}

/* Passes a block on: one thread allocates, another one frees, and the address is used again. */
struct hand {
    _Atomic CUdeviceptr block;
    atomic_bool is_over;
};

static struct hand hand;

static void free_what_comes(struct fixture_thread *thread) {
    while (!atomic_load(&hand.is_over) || atomic_load(&hand.block)) {
        CUdeviceptr block = atomic_exchange(&hand.block, 0);
        if (block)
            OK(cuMemFree(block));
        else
            sched_yield();
    }
    thread->answer = CUDA_SUCCESS;
}

TEST(an_address_reborn_in_another_thread_keeps_its_record) {
    struct fixture_thread thread = {.context = fixture_use_device(0)};
    fixture_start(&thread, free_what_comes);
    for (unsigned i = 0; i < 2000; i++) {
        size_t n_bytes = 1000 + i % 20;
        CUdeviceptr expected = 0, block = fixture_alloc(n_bytes);
        fixture_fill(block, 1, n_bytes);
        ANSWERS(cuMemsetD8(block, 1, n_bytes + 1), CUDA_ERROR_INVALID_VALUE);
        while (!atomic_compare_exchange_weak(&hand.block, &expected, block)) {
            expected = 0;
            sched_yield();
        }
    }
    atomic_store(&hand.is_over, true);
    fixture_join(&thread);
}

static void capture_again_and_again(struct fixture_thread *thread) {
    CUstream stream = fixture_stream();
    for (int i = 0; i < 60; i++) {
        CUgraph graph = NULL;
        OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        fixture_launch_write(thread->address, 1, stream);
        OK(cuStreamEndCapture(stream, &graph));
        OK(cuGraphDestroy(graph));
    }
    atomic_store(&hand.is_over, true);
}

static void allocate_until_over(struct fixture_thread *thread) {
    while (!atomic_load(&hand.is_over)) {
        thread->answer = cuMemFree(fixture_alloc(1000));
        OK(thread->answer);
        OK(cuMemFree(fixture_alloc(3 * MIB)));
    }
}

/* Without cushim the calls of other threads invalidate the captures. */
TEST_IF(fixture_is_preloaded(), captures_come_and_go_while_others_allocate) {
    struct fixture_thread threads[4] = {{0}};
    CUcontext context = fixture_use_device(0);
    for (int i = 0; i < 4; i++) {
        threads[i].context = context;
        threads[i].address = fixture_alloc(100);
        fixture_start(&threads[i], i ? allocate_until_over : capture_again_and_again);
    }
    for (int i = 0; i < 4; i++)
        fixture_join(&threads[i]);
}

static void come_and_go(struct fixture_thread *thread) {
    for (int i = 0; i < 40; i++) {
        CUcontext context;
        OK(cuCtxCreate(&context, NULL, 0, 0));
        CUdeviceptr block = fixture_alloc(1000);
        fixture_fill(block, 1, 1000);
        OK(cuMemFree(block));
        fixture_alloc(70000);
        OK(cuCtxDestroy(context));
    }
    thread->answer = CUDA_SUCCESS;
}

TEST(contexts_come_and_go_in_several_threads) {
    struct fixture_thread threads[4] = {{0}};
    OK(cuInit(0));
    for (int i = 0; i < 4; i++)
        fixture_start(&threads[i], come_and_go);
    for (int i = 0; i < 4; i++)
        fixture_join(&threads[i]);
    ck_assert_uint_eq(sim_live_bytes(), 0);
}

int main(void) {
    return fixture_run("churn");
}
