#include "memory/heap/cache_lock.h"

#include "base/futex.h"
#include "base/membarrier.h"

void cushim_mem_cache_lock_init(struct cushim_mem_cache_lock *latch) {
    latch->has_barrier = cushim_membarrier_ask();
}

void cushim_mem_cache_lock_want(struct cushim_mem_cache_lock *latch) {
    atomic_store(&latch->is_wanted, true);
}

void cushim_mem_cache_lock_pass_barrier(void) {
    if (cushim_membarrier_ask() && (cushim_membarrier_is_judged() || !cushim_membarrier_pass()))
        cushim_futex_nap(1000000); /* a sandbox may forbid it by now; no store takes that long */
}

/* The owner is inside for tens of nanoseconds, or was put to sleep there.  It wakes nobody: to look
 * for who sleeps would cost each use. */
void cushim_mem_cache_lock_enter(struct cushim_mem_cache_lock *latch) {
    unsigned n_looks = 0;
    while (latch->has_barrier
               ? atomic_load_explicit(&latch->is_taken, memory_order_acquire)
               : atomic_exchange_explicit(&latch->is_taken, true, memory_order_acquire))
        cushim_futex_back_off(&n_looks);
}

void cushim_mem_cache_lock_let_go(struct cushim_mem_cache_lock *latch) {
    if (!latch->has_barrier)
        cushim_mem_cache_lock_leave(latch);
    atomic_store_explicit(&latch->is_wanted, false, memory_order_release);
}
