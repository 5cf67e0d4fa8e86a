/*
 * The lock of a thread cache: its owner takes it at each use and never waits for it; other threads
 * take it now and then, and wait.
 *
 * Mutual exclusion rests on the exchange of `word` alone, so a wake-up may be missed: that costs
 * the waiter the time-out of its sleep.  While another thread wants the lock the owner does without
 * it, so that the other gets its turn.
 */
#ifndef CUSHIM_MEMORY_CACHE_LOCK_H
#define CUSHIM_MEMORY_CACHE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>

/* All zero is free. */
struct cushim_mem_cache_lock {
    atomic_uint word;     /* 1: somebody is inside */
    atomic_uint n_wanted; /* by so many who enter */
};

/* Where others sleep for it. */
void cushim_mem_cache_lock_wake(struct cushim_mem_cache_lock *lock);

/* False where another thread has it, or wants it, or the caller has it already and was interrupted
 * by a signal. */
static inline bool cushim_mem_cache_lock_take(struct cushim_mem_cache_lock *lock) {
    unsigned none = 0;
    return !atomic_load_explicit(&lock->n_wanted, memory_order_relaxed) &&
           atomic_compare_exchange_strong_explicit(&lock->word, &none, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Leave it by a store alone: for who enters again at once, and wakes others as it leaves then. */
static inline void cushim_mem_cache_lock_leave_quietly(struct cushim_mem_cache_lock *lock) {
    atomic_store_explicit(&lock->word, 0, memory_order_release);
}

static inline void cushim_mem_cache_lock_leave(struct cushim_mem_cache_lock *lock) {
    atomic_store_explicit(&lock->word, 0, memory_order_release);
    if (__builtin_expect(atomic_load_explicit(&lock->n_wanted, memory_order_relaxed) != 0, 0))
        cushim_mem_cache_lock_wake(lock);
}

/* Take it, after whoever is inside.  Left by cushim_mem_cache_lock_leave. */
void cushim_mem_cache_lock_enter(struct cushim_mem_cache_lock *lock);

#endif
