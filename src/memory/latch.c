#include "memory/latch.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 0: the kernel was not asked yet; else it will do it, or (-1) not.  Each thread that asks gets the
 * same answer. */
static atomic_int barrier;

static int membarrier(int command) {
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

static bool has_barrier(void) {
    int known = atomic_load(&barrier);
    if (!known) {
        known = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 ? 1 : -1;
        atomic_store(&barrier, known);
    }
    return known > 0;
}

void cushim_mem_latch_prepare(void) {
    has_barrier();
}

void cushim_mem_latch_init(struct cushim_mem_latch *latch) {
    latch->has_barrier = has_barrier();
}

void cushim_mem_latch_want(struct cushim_mem_latch *latch) {
    atomic_store(&latch->is_wanted, true);
}

void cushim_mem_latch_pass_barrier(void) {
    const struct timespec pause = {.tv_nsec = 1000000};
    if (has_barrier() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0)
        nanosleep(&pause, NULL); /* a sandbox forbids it by now; no store takes that long */
}

/* The owner is inside for tens of nanoseconds, or was put to sleep there. */
void cushim_mem_latch_enter(struct cushim_mem_latch *latch) {
    while (latch->has_barrier
               ? atomic_load_explicit(&latch->is_taken, memory_order_acquire)
               : atomic_exchange_explicit(&latch->is_taken, true, memory_order_acquire))
        sched_yield();
}

void cushim_mem_latch_let_go(struct cushim_mem_latch *latch) {
    if (!latch->has_barrier)
        cushim_mem_latch_leave(latch);
    atomic_store_explicit(&latch->is_wanted, false, memory_order_release);
}
