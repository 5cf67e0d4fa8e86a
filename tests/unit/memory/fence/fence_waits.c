/* A wait is counted for its device, and for the thread that waited. */
#include "memory/fence/fence.h"

#include <pthread.h>

#include "base/clock.h"
#include "tests/unit/suite.h"

static struct cushim_mem_stats stats;

static void *wait_once(void *of_thread) {
    cushim_mem_waits_count(&stats, cushim_clock_ns() - 5000);
    *(struct cushim_mem_waits *)of_thread = cushim_mem_waits_of_thread;
    return NULL;
}

TEST(each_thread_has_its_own_waits) {
    struct cushim_mem_waits other, before = cushim_mem_waits_of_thread;
    pthread_t thread;
    pthread_create(&thread, NULL, wait_once, &other);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(cushim_mem_waits_of_thread.n, before.n);
    wait_once(&before);
    ck_assert_uint_eq(other.n, 1);
    ck_assert_uint_eq(before.n, 1);
    ck_assert_uint_ge(before.ns, 5000);
    ck_assert_uint_eq(cushim_mem_stats_read(&stats.n_waits), 2);
    ck_assert_uint_eq(cushim_mem_stats_read(&stats.wait_ns), other.ns + before.ns);
}

SUITE() {
    return tests_run("waits");
}
