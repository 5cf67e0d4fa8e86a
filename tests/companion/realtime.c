/*
 * An urgent thread (SCHED_FIFO) shares a stream with an ordinary one on the same core, and has to
 * leave the core to the thread it waits for. The verdict is the urgent thread's processor time,
 * which neither a busy machine nor a slow device changes.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "tests/companion/fixture.h"

enum { N_PAIRS = 300, MOST_NS = 50000000, PAUSE_NS = 200000 };

static struct cushim_pool *pool;
static struct cushim_stream *stream;
static atomic_bool is_over;

static uint64_t own_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool pair(void) {
    cushim_devptr address;
    return cushim_pool_alloc(pool, -1, 0, 4096, stream, &address) == CUSHIM_OK &&
           cushim_pool_free(pool, -1, address, 0, stream) == CUSHIM_OK;
}

struct urgent {
    bool is_good;
    uint64_t most_ns; /* the most processor time that one pair took */
};

static void *pair_normally(void *unused) {
    (void)unused;
    while (!atomic_load(&is_over) && pair()) {
    }
    return NULL;
}

static bool become_urgent(void) {
    const struct sched_param urgent = {.sched_priority = 10};
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &urgent) == 0;
}

/* Until all pairs are done, or the first took too much time. */
static void *pair_urgently(void *argument) {
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct urgent *urgent = argument;
    urgent->is_good = become_urgent();
    for (int i = 0; i < N_PAIRS && urgent->is_good && urgent->most_ns < MOST_NS; i++) {
        nanosleep(&pause, NULL); /* the other thread runs and is preempted during a pair */
        uint64_t since_ns = own_ns();
        urgent->is_good = pair();
        uint64_t n_ns = own_ns() - since_ns;
        urgent->most_ns = n_ns > urgent->most_ns ? n_ns : urgent->most_ns;
    }
    atomic_store(&is_over, true);
    return NULL;
}

/* Threads created from here on share the first core that the process may use. */
static void use_one_core(cpu_set_t *before) {
    cpu_set_t one;
    int core = 0;
    ck_assert_int_eq(sched_getaffinity(0, sizeof *before, before), 0);
    while (!CPU_ISSET(core, before))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(case_R1_an_urgent_thread_goes_on_beside_an_ordinary_one) {
    pthread_t normal, thread;
    struct urgent urgent = {0};
    cpu_set_t before;
    fixture_ok(cushim_pool_create(NULL, &pool));
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &stream));
    ck_assert(pair());
    use_one_core(&before);
    pthread_create(&normal, NULL, pair_normally, NULL);
    pthread_create(&thread, NULL, pair_urgently, &urgent);
    pthread_join(thread, NULL);
    pthread_join(normal, NULL);
    sched_setaffinity(0, sizeof before, &before);
    ck_assert(urgent.is_good);
    ck_assert_uint_lt(urgent.most_ns, MOST_NS);
}

int main(int argc, char **argv) {
    const struct sched_param normal = {0};
    if (!become_urgent()) {
        puts("1..1\nok 1 - case_R1_an_urgent_thread_goes_on_beside_an_ordinary_one "
             "# SKIP no right to SCHED_FIFO");
        return 0;
    }
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &normal);
    return fixture_main(argc, argv);
}
