/* Processor time of threads that wait for each other. */
#include <pthread.h>
#include <time.h>

#include "tests/companion/fixture.h"

struct drain {
    struct cushim_pool *pool;
    pthread_t thread;
    enum cushim_status status;
    double cpu_ms; /* processor time of the wait */
};

static double own_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *drain_it(void *argument) {
    struct drain *drain = argument;
    double since_ms = own_ms();
    drain->status = cushim_pool_drain(drain->pool);
    drain->cpu_ms = own_ms() - since_ms;
    return NULL;
}

/* One thread waits for the device, as cheaply as the driver can; the others wait for that
 * thread. */
TEST(case_W1_a_thread_that_waits_for_a_waiting_thread_sleeps) {
    enum { N_DRAINS = 4, BUSY_MS = 1000 };
    struct drain drains[N_DRAINS];
    struct cushim_pool *p;
    struct cushim_stream *s;
    cushim_devptr ptr;
    int n_busy = 0;
    fixture_ok(cushim_pool_create(NULL, &p));
    fixture_ok(cushim_stream_create(NULL, CUSHIM_STREAM_FLAG_NON_BLOCKING, 0, &s));
    fixture_ok(cushim_pool_alloc(p, -1, 0, 4096, s, &ptr));
    fixture_spin(s, BUSY_MS);
    fixture_ok(cushim_pool_free(p, -1, ptr, 0, s));
    for (int i = 0; i < N_DRAINS; i++) {
        drains[i] = (struct drain){.pool = p};
        pthread_create(&drains[i].thread, NULL, drain_it, &drains[i]);
    }
    for (int i = 0; i < N_DRAINS; i++) {
        pthread_join(drains[i].thread, NULL);
        fixture_ok(drains[i].status);
        n_busy += drains[i].cpu_ms > BUSY_MS / 10.0;
    }
    ck_assert_int_le(n_busy, 1);
    fixture_ok(cushim_pool_destroy(p));
}

int main(int argc, char **argv) {
    return fixture_main(argc, argv);
}
