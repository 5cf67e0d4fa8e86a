/*
 * An urgent thread (SCHED_FIFO) and an ordinary one on the same core: when the urgent one has to
 * wait for the ordinary one, it must leave the core.  If it spins or yields, it keeps the ordinary
 * thread off until the kernel intervenes, almost a second later, and has used that second.  So the
 * test measures its processor time, which a busy machine or a slow device does not change.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "tests/preload/fixture/fixture.h"

enum { N_PAIRS = 300, N_BLOCKS = 16, MOST_NS = 50000000, PAUSE_NS = 200000, LARGE_EACH = 8 };

static CUcontext context;
static atomic_bool is_over;

static bool is_urgent(void) {
    struct sched_param urgent = {.sched_priority = 10};
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &urgent) == 0;
}

static uint64_t own_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Make hits and misses, and fill caches that drains look into. */
static void *work_normally(void *unused) {
    (void)unused;
    cuCtxSetCurrent(context);
    while (!atomic_load(&is_over)) {
        CUdeviceptr blocks[N_BLOCKS];
        for (int i = 0; i < N_BLOCKS; i++)
            cuMemAlloc(&blocks[i], i % 2 ? 4096 : 3 * MIB);
        for (int i = 0; i < N_BLOCKS; i++)
            cuMemFree(blocks[i]);
    }
    return NULL;
}

/* The most processor time that one pair of this thread took; it ends at the first that took too
 * much. */
static uint64_t pair_often(size_t large_bytes) {
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t most_ns = 0;
    for (int i = 0; i < N_PAIRS && most_ns < MOST_NS; i++) {
        CUdeviceptr address;
        bool is_large = large_bytes && i % LARGE_EACH == 0;
        nanosleep(&pause, NULL); /* the other thread begins to work, and is interrupted */
        uint64_t since_ns = own_ns();
        CUresult answer = cuMemAlloc(&address, is_large ? large_bytes : 4096);
        if (answer == CUDA_SUCCESS)
            cuMemFree(address);
        uint64_t n_ns = own_ns() - since_ns;
        most_ns = n_ns > most_ns ? n_ns : most_ns;
    }
    return most_ns;
}

struct urgent {
    size_t large_bytes;
    bool is_urgent;
    uint64_t most_ns;
};

static void *work_urgently(void *argument) {
    struct urgent *urgent = argument;
    cuCtxSetCurrent(context);
    urgent->is_urgent = is_urgent();
    urgent->most_ns = pair_often(urgent->large_bytes);
    atomic_store(&is_over, true);
    return NULL;
}

/* Both threads on the first core that the process may use. */
static void use_one_core(void) {
    cpu_set_t all, one;
    int core = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

static void check_progress(size_t large_bytes) {
    pthread_t normal, thread;
    struct urgent urgent = {.large_bytes = large_bytes};
    context = fixture_use_device(0);
    use_one_core();
    pthread_create(&normal, NULL, work_normally, NULL);
    pthread_create(&thread, NULL, work_urgently, &urgent);
    pthread_join(thread, NULL);
    pthread_join(normal, NULL);
    ck_assert(urgent.is_urgent);
    ck_assert_uint_lt(urgent.most_ns, MOST_NS);
}

TEST(an_urgent_thread_goes_on_beside_an_ordinary_one) {
    check_progress(0);
}

TEST(an_urgent_thread_that_is_out_of_memory_goes_on_too) {
    size_t free_bytes, total_bytes;
    fixture_use_device(0);
    OK(cuMemGetInfo(&free_bytes, &total_bytes));
    check_progress(2 * total_bytes);
}

int main(void) {
    const struct sched_param normal = {0};
    if (!is_urgent()) {
        puts("1..0 # SKIP no right to SCHED_FIFO");
        return 0;
    }
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal);
    return fixture_run("realtime");
}
