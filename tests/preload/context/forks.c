/*
 * Forks and the end (interposition.md E): a child of a process that used CUDA forwards everything;
 * any other child is a fresh process.
 */
#include "tests/preload/fixture/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* Run `work` in a child; its exit code. */
static int in_child(int (*work)(CUdeviceptr), CUdeviceptr address) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) /* no assertion here, because check has its own locks */
        exit(work(address));
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The driver answers that it does not know the child, so each call reaches it. */
static int forward_everything(CUdeviceptr block) {
    CUdeviceptr address;
    size_t n;
    CUcontext context;
    sim_calls_reset();
    bool is_refused = cuMemAlloc(&address, 1000) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuMemFree(block) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuMemFreeAsync(block, NULL) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuMemsetD8(block, 1, 1 << 20) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuMemGetInfo(&n, &n) == CUDA_ERROR_NOT_INITIALIZED &&
                      cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED;
    bool is_forwarded = sim_calls("cuMemAlloc_v2") == 1 && sim_calls("cuMemFree_v2") == 1 &&
                        sim_calls("cuMemFreeAsync") == 1 && sim_calls("cuMemsetD8_v2") == 1 &&
                        sim_calls("cuMemGetInfo_v2") == 1 && sim_calls_total() == 6;
    return is_refused && is_forwarded ? 0 : 1;
}

TEST(a_child_of_a_user_forwards_everything_and_frees_nothing) {
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000), freed = fixture_alloc(1000);
    fixture_fill(block, 3, 1000);
    OK(cuMemFree(freed));
    size_t live_bytes = sim_live_bytes();
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(in_child(forward_everything, block), 0);
    ck_assert_uint_eq(sim_live_bytes(), live_bytes);
    ck_assert(fixture_is_filled(block, 3, 1000));
    OK(cuMemFree(block));
    ck_assert_uint_eq(fixture_alloc(1000), block);
}

static int use_as_fresh(CUdeviceptr unused) {
    (void)unused;
    fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    fixture_launch_write(block, 9, NULL);
    bool is_right = fixture_read(block) == 9;
    OK(cuMemFree(block));
    size_t n = sim_calls("cuMemAlloc_v2");
    bool is_reused = fixture_alloc(1000) == block && sim_calls("cuMemAlloc_v2") == n;
    return is_right && (is_reused || !fixture_is_preloaded()) ? 0 : 1;
}

TEST(a_child_forked_before_cuInit_uses_cuda_as_a_fresh_process) {
    CUdeviceptr address;
    ck_assert_int_eq(in_child(use_as_fresh, 0), 0);
    ANSWERS(cuMemAlloc(&address, 100), CUDA_ERROR_NOT_INITIALIZED);
    ck_assert_int_eq(in_child(use_as_fresh, 0), 0);
    ck_assert_int_eq(use_as_fresh(0), 0);
}

static int fork_again(CUdeviceptr block) {
    return in_child(forward_everything, block);
}

TEST(a_grandchild_forwards_too) {
    fixture_use_device(0);
    ck_assert_int_eq(in_child(fork_again, fixture_alloc(1000)), 0);
}

static atomic_bool is_over;

static void churn(struct fixture_thread *thread) {
    while (!atomic_load(&is_over)) {
        CUdeviceptr small = fixture_alloc(1000), large = fixture_alloc(3 * MIB);
        fixture_fill(small, 1, 1000);
        OK(cuMemFree(large));
        OK(cuMemFreeAsync(small, NULL));
    }
    thread->answer = CUDA_SUCCESS;
}

TEST(a_child_forked_while_other_threads_hold_locks_runs_to_its_end) {
    enum { N_THREADS = 4, N_CHILDREN = 60 };
    struct fixture_thread threads[N_THREADS] = {{0}};
    CUcontext context = fixture_use_device(0);
    CUdeviceptr block = fixture_alloc(1000);
    for (int i = 0; i < N_THREADS; i++) {
        threads[i].context = context;
        fixture_start(&threads[i], churn);
    }
    for (int i = 0; i < N_CHILDREN; i++)
        ck_assert_int_eq(in_child(forward_everything, block), 0);
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++)
        fixture_join(&threads[i]);
    OK(cuMemFree(block));
}

/* AddressSanitizer's own allocator may be locked by another thread at a fork: the child's thread
 * would then hang in it at its end. */
#ifndef __SANITIZE_ADDRESS__
/* Memory is out each time, so the caches of all threads are emptied. */
static void ask_for_too_much(struct fixture_thread *thread) {
    CUdeviceptr block;
    while (!atomic_load(&is_over)) {
        OK(cuMemFree(fixture_alloc(1000)));
        ANSWERS(cuMemAlloc(&block, (size_t)1 << 40), CUDA_ERROR_OUT_OF_MEMORY);
    }
    thread->answer = CUDA_SUCCESS;
}

TEST(a_childs_thread_ends_though_its_parents_were_among_the_caches) {
    enum { N_THREADS = 4, N_CHILDREN = 200 };
    struct fixture_thread threads[N_THREADS] = {{0}};
    CUcontext context = fixture_use_device(0);
    OK(cuMemFree(fixture_alloc(1000))); /* this thread has a cache as well */
    for (int i = 0; i < N_THREADS; i++) {
        threads[i].context = context;
        fixture_start(&threads[i], ask_for_too_much);
    }
    for (int i = 0; i < N_CHILDREN; i++) {
        int status = -1;
        pid_t child = fork();
        if (!child) {
            alarm(20); /* against a hang */
            pthread_exit(NULL);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < N_THREADS; i++)
        fixture_join(&threads[i]);
}
#endif

/* ---- the end of the process ---- */

static CUdeviceptr left[2];

/* It is registered before CUDA, so it runs when the driver is gone.  Its result is the exit
 * code. */
static void free_late(void) {
    CUresult freed = cuMemFree(left[0]), freed_next = cuMemFree(left[1]);
    /* nothing is left to free (D6); without cushim the driver says that it is gone */
    CUresult expected = fixture_is_preloaded() ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
    _exit(freed == expected && freed_next == expected ? 0 : 20 + (int)(freed + freed_next) % 100);
}

static int leave_a_block(CUdeviceptr unused) {
    (void)unused;
    atexit(free_late);
    fixture_use_device(0);
    left[0] = fixture_alloc(1000);
    left[1] = fixture_alloc(1000);
    return 19; /* free_late replaces it */
}

TEST(frees_after_driver_shutdown_count_as_done) {
    ck_assert_int_eq(in_child(leave_a_block, 0), 0);
}

int main(void) {
    return fixture_run("forks");
}
