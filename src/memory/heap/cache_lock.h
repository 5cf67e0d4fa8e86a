/*
 * A latch: a lock that has one owner, who takes it at each use and never waits for it, and that any
 * other thread takes now and then.
 *
 * Where the kernel can have every running thread pass a memory barrier (membarrier(2)) the owner's
 * side is a store and a load: who else wants the latch says so, has the barrier passed, and waits
 * until the owner is out.  So the owner either saw that it is wanted, or was seen inside.  Without
 * such a kernel both sides are an exchange.
 *
 * Lock: of threads that are not the owner one at a time; their own lock sees to that.
 */
#ifndef CUSHIM_MEMORY_CACHE_LOCK_H
#define CUSHIM_MEMORY_CACHE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

struct cushim_mem_cache_lock {
    atomic_bool is_taken;
    atomic_bool is_wanted; /* by another thread than the owner */
    bool has_barrier;      /* constant */
};

/* All zero; nobody knows it yet. */
void cushim_mem_cache_lock_init(struct cushim_mem_cache_lock *latch);

/* By the owner, or whoever entered without a barrier. */
static inline void cushim_mem_cache_lock_leave(struct cushim_mem_cache_lock *latch) {
    atomic_store_explicit(&latch->is_taken, false, memory_order_release);
}

/* The owner's: false where another thread has it, or wants it, or the owner has it already and was
 * interrupted by a signal. */
static inline bool cushim_mem_cache_lock_take(struct cushim_mem_cache_lock *latch) {
    if (!latch->has_barrier)
        return !atomic_exchange_explicit(&latch->is_taken, true, memory_order_acquire);
    if (atomic_load_explicit(&latch->is_taken, memory_order_relaxed))
        return false;
    atomic_store_explicit(&latch->is_taken, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the other half is the kernel's */
    if (!atomic_load_explicit(&latch->is_wanted, memory_order_acquire))
        return true;
    cushim_mem_cache_lock_leave(latch);
    return false;
}

/* The owner's, while no other thread can want it. */
static inline void cushim_mem_cache_lock_take_alone(struct cushim_mem_cache_lock *latch) {
    atomic_store_explicit(&latch->is_taken, true, memory_order_relaxed);
}

/*
 * Another thread's way in, for any number of latches at the price of one barrier: want each of
 * them, pass the barrier, then enter and let go of each.
 */
void cushim_mem_cache_lock_want(struct cushim_mem_cache_lock *latch);
void cushim_mem_cache_lock_pass_barrier(void);
void cushim_mem_cache_lock_enter(struct cushim_mem_cache_lock *latch);
void cushim_mem_cache_lock_let_go(struct cushim_mem_cache_lock *latch);

#endif
