/*
 * Waiting for another thread: a bounded spin, then a futex sleep with a time-out.
 *
 * The waiter polls CUSHIM_FUTEX_LOOKS times with a pause between, some microseconds, and then
 * sleeps on a word that the other thread will change.  It does not yield, because a waiter of
 * higher real-time priority that yields keeps the other thread off its only core.
 *
 * Invariant: nothing depends on a wake-up.  A missed one costs a time-out at most, so the waking
 * side needs no fence.  No call here is a cancellation point, and errno is preserved.
 */
#pragma once

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    CUSHIM_FUTEX_LOOKS = 200,         /* before a thread sleeps: 5 to 10 us */
    CUSHIM_FUTEX_SHORT_NS = 100000,   /* the time-out if the wait is for less than 1 us */
    CUSHIM_FUTEX_LONG_NS = 1000000,   /* the time-out if the wait may be for the device */
    CUSHIM_FUTEX_FIRST_NAP_NS = 5000, /* of cushim_futex_back_off */
};

static inline void cushim_futex_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleep while *word (32 bits) is `seen`, until a thread wakes it or until `end_ns` of
 * cushim_clock_ns; a signal does not end the sleep. */
static inline void cushim_futex_wait_until(const void *word, uint32_t seen, uint64_t end_ns) {
    const struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u),
                                 .tv_nsec = (long)(end_ns % 1000000000u)};
    int error = errno;
    while (syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, &end, NULL,
                   FUTEX_BITSET_MATCH_ANY) != 0 &&
           errno == EINTR) {
    }
    errno = error;
}

/* The same, for at most n_ns. */
static inline void cushim_futex_wait(const void *word, uint32_t seen, uint64_t timeout_ns) {
    cushim_futex_wait_until(word, seen, cushim_clock_ns() + timeout_ns);
}

/* Wake at most n_most of the threads that sleep on a word.  The word may be gone by then. */
static inline void cushim_futex_wake_some(const void *word, int n_most) {
    int error = errno;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n_most, NULL, NULL, 0);
    errno = error;
}

static inline void cushim_futex_wake(const void *word) {
    cushim_futex_wake_some(word, INT_MAX);
}

/* Sleep for at least n_ns. */
static inline void cushim_futex_nap(uint64_t n_ns) {
    const uint32_t nobody_wakes = 0;
    uint64_t end_ns = cushim_clock_ns() + n_ns;
    while (cushim_clock_ns() < end_ns)
        cushim_futex_wait_until(&nobody_wakes, 0, end_ns);
}

/* Between two looks at a state that nothing announces: first a pause, later naps that grow up to
 * CUSHIM_FUTEX_SHORT_NS.  *n_looks begins at 0. */
static inline void cushim_futex_back_off(unsigned *n_looks) {
    unsigned n_naps = *n_looks - CUSHIM_FUTEX_LOOKS;
    if (*n_looks < CUSHIM_FUTEX_LOOKS) {
        ++*n_looks;
        cushim_futex_pause();
        return;
    }
    uint64_t nap_ns = (uint64_t)CUSHIM_FUTEX_FIRST_NAP_NS << n_naps;
    if (nap_ns < CUSHIM_FUTEX_SHORT_NS)
        ++*n_looks;
    else
        nap_ns = CUSHIM_FUTEX_SHORT_NS;
    cushim_futex_nap(nap_ns);
}

/*
 * ---- a lock on a futex ----
 *
 * Its owner takes it at each use and never waits for it; other threads take it now and then, and
 * wait.  Mutual exclusion rests on the exchange of `word` alone.  While another thread wants the
 * lock, the owner does without it, so that the other gets its turn.
 */

/* All zero is free. */
struct cushim_futex_lock {
    atomic_uint word;     /* 1: a thread is inside */
    atomic_uint n_wanted; /* number of threads that wait to enter */
};

/* Call it if others sleep for the lock. */
void cushim_futex_lock_wake(struct cushim_futex_lock *lock);

/* False if another thread has it or wants it, or if a signal interrupted the caller while it had
 * it. */
static inline bool cushim_futex_lock_take(struct cushim_futex_lock *lock) {
    unsigned none = 0;
    return !atomic_load_explicit(&lock->n_wanted, memory_order_relaxed) &&
           atomic_compare_exchange_strong_explicit(&lock->word, &none, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void cushim_futex_lock_leave(struct cushim_futex_lock *lock) {
    atomic_store_explicit(&lock->word, 0, memory_order_release);
    if (__builtin_expect(atomic_load_explicit(&lock->n_wanted, memory_order_relaxed) != 0, 0))
        cushim_futex_lock_wake(lock);
}

/* Take it, after the thread that is inside.  Leave it by cushim_futex_lock_leave. */
void cushim_futex_lock_enter(struct cushim_futex_lock *lock);

static inline struct cushim_futex_lock *cushim_futex_lock_hold(struct cushim_futex_lock *lock) {
    cushim_futex_lock_enter(lock);
    return lock;
}

static inline void cushim_futex_lock_let_go(struct cushim_futex_lock **lock) {
    cushim_futex_lock_leave(*lock);
}

/* CUSHIM_FUTEX_LOCKED(&lock): as a declaration, once in a block, which it is held to the end of. */
#define CUSHIM_FUTEX_LOCKED(lock)                                                                  \
    __attribute__((cleanup(cushim_futex_lock_let_go), unused)) struct cushim_futex_lock *held_ =   \
        cushim_futex_lock_hold(lock)
