#include <pthread.h>
#include <sched.h>

#include "cuda/table.h"
#include "memory/fence/fence.h"
#include "tests/unit/fake/fake_cuda.h"
#include "tests/unit/suite.h"

/* STREAMS_APART: in the fake driver streams k and k + 4 share a context */
enum { N_THREADS = 4, N_ROUNDS = 1500, N_PENDING = 8, STREAMS_APART = 4 };

static struct cushim_cuda cuda;
static struct cushim_mem_fence fence;
static struct cushim_mem_stats stats;
static atomic_uint n_at_work;

static bool is_open(void) {
    return false;
}

static enum cushim_mem_pass enter(void) {
    return CUSHIM_MEM_PASS_RECORD;
}

static void leave(void) {
}

static const struct cushim_mem_capture_guard guard = {is_open, enter, leave};

/* A freed block, with the last piece of its stream's work before the free. */
struct freed {
    uint64_t tag, n_submitted;
};

/* Each thread frees behind work on its own stream of one context.  Returns what went wrong, or
 * NULL. */
static void *free_and_reuse(void *index) {
    unsigned i = (unsigned)(uintptr_t)index * STREAMS_APART;
    struct freed pending[N_PENDING] = {{0, 0}};
    atomic_uint state = 0;
    CUresult answer;
    const char *failed = NULL;
    fake_set_current(fake_context(0));
    for (unsigned round = 1; round <= N_ROUNDS && !failed; round++) {
        struct freed *freed = &pending[round % N_PENDING];
        bool is_forced = freed->tag && round % 3 == 0;
        if (is_forced &&
            cushim_mem_fence_await(&fence, freed->tag, 0, &stats, &answer) != CUSHIM_OK)
            failed = "a wait failed";
        if (freed->tag <= cushim_mem_fence_done(&fence) && fake_n_done(i) < freed->n_submitted)
            failed = "a block was reused too early";
        fake_submit(i);
        atomic_exchange(&state, round);
        *freed = (struct freed){cushim_mem_fence_tag(&fence), round};
        enum cushim_status status = CUSHIM_OK;
        if (round % 2 == 0)
            status = cushim_mem_fence_start(&fence, &answer);
        if (status != CUSHIM_OK && status != CUSHIM_NOTREADY)
            failed = "a start failed";
        status = CUSHIM_OK;
        if (round % 5 == 0) {
            status = cushim_mem_fence_wait(&fence, &stats, &answer);
            if (status == CUSHIM_OK && fake_n_done(i) < round)
                failed = "a wait ended too early";
        }
        if (status != CUSHIM_OK)
            failed = "a wait failed";
        cushim_mem_fence_poll(&fence, &answer);
        if (answer != CUDA_SUCCESS)
            failed = "a poll failed";
    }
    atomic_fetch_sub(&n_at_work, 1);
    return (void *)failed;
}

/* Plays the device: completes one piece of work at a time. */
static void *make_progress(void *unused) {
    for (unsigned i = 0; atomic_load(&n_at_work); i++) {
        fake_step(i * 7 % N_THREADS * STREAMS_APART);
        sched_yield();
    }
    return unused;
}

TEST(no_block_is_reused_before_the_work_ahead_of_its_free) {
    pthread_t threads[N_THREADS], device;
    fake_reset();
    fake_load(&cuda, NULL);
    fake_set_current(fake_context(0));
    cushim_mem_fence_init(&fence, &cuda, fake_context(0), &guard);
    atomic_store(&n_at_work, N_THREADS);
    for (size_t i = 0; i < N_THREADS; i++)
        pthread_create(&threads[i], NULL, free_and_reuse, (void *)i);
    pthread_create(&device, NULL, make_progress, NULL);
    for (size_t i = 0; i < N_THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        ck_assert_msg(!failed, "%s", (const char *)failed);
    }
    pthread_join(device, NULL);
    ck_assert_uint_eq(fake_n_faults(), 0);
}

SUITE() {
    return tests_run("fence_threads");
}
