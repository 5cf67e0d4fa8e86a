/*
 * Two threads on one processor: an ordinary one that always works, and an urgent one (SCHED_FIFO)
 * that runs every 200 us and preempts it anywhere.  If the urgent thread waits for the preempted
 * one in a loop or by sched_yield, it uses processor time and waits for ever.  Its longest pair,
 * measured in its own processor time, shows that.
 *
 *   property-fifo SECONDS [pool]       prints: pairs, and the worst one in microseconds of
 * processor time
 *
 * 77: this process may not have an urgent thread.  SIGXCPU: the urgent thread never slept.
 */
#include "trace.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* If an urgent thread does not sleep for this long, the kernel ends the process. */
enum { RUNAWAY_S = 5 };

enum { PRIORITY = 10, NO_RIGHT = 77, N_SLOTS = 16 };

static struct world world;
static atomic_bool is_over;
static double n_seconds;

static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void take(enum step_kind kind, uint32_t slot, size_t n_bytes) {
    struct step step = {.kind = (uint8_t)kind, .slot = slot, .n_bytes = n_bytes};
    if (world_take(&world, &step) != CUDA_SUCCESS)
        exit(3);
}

static void *toil(void *unused) {
    cuCtxSetCurrent(world.contexts[0]);
    while (!atomic_load(&is_over)) {
        for (uint32_t i = 1; i < N_SLOTS; i++)
            take(STEP_ALLOC, i, i % 2 ? 4096 : 3 * MIB);
        for (uint32_t i = 1; i < N_SLOTS; i++)
            take(STEP_FREE, i, 0);
    }
    return unused;
}

struct worst {
    double seconds;
    long n_pairs;
};

static void *hurry(void *argument) {
    struct worst *worst = argument;
    cuCtxSetCurrent(world.contexts[0]);
    double end = seconds_of(CLOCK_MONOTONIC) + n_seconds;
    while (seconds_of(CLOCK_MONOTONIC) < end) {
        double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
        take(STEP_ALLOC, 0, 4096);
        take(STEP_FREE, 0, 0);
        double taken = seconds_of(CLOCK_THREAD_CPUTIME_ID) - start;
        worst->seconds = taken > worst->seconds ? taken : worst->seconds;
        worst->n_pairs++;
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t low, high;
    pthread_attr_t urgent;
    cpu_set_t one, all;
    struct worst worst = {0};
    n_seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
    /* The last processor that this process may use, because the first is the busiest. */
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (size_t i = CPU_SETSIZE; i-- > 0 && CPU_COUNT(&one) == 0;) {
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &one);
    }
    if (sched_setaffinity(0, sizeof one, &one) != 0)
        return NO_RIGHT;
    world_open(&world, argc > 2);
    world_block(&world, N_SLOTS); /* so that the table does not move later */
    setrlimit(RLIMIT_RTTIME, &(struct rlimit){RUNAWAY_S * 1000000, RUNAWAY_S * 1000000});
    pthread_attr_init(&urgent);
    pthread_attr_setinheritsched(&urgent, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&urgent, SCHED_FIFO);
    pthread_attr_setschedparam(&urgent, &(struct sched_param){.sched_priority = PRIORITY});
    if (pthread_create(&low, NULL, toil, NULL) != 0)
        return 3;
    if (pthread_create(&high, &urgent, hurry, &worst) != 0)
        return NO_RIGHT;
    pthread_join(high, NULL);
    atomic_store(&is_over, true);
    pthread_join(low, NULL);
    printf("pairs=%ld worst_us=%.0f\n", worst.n_pairs, worst.seconds * 1e6);
    return 0;
}
