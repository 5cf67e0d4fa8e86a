/* What fast paths say to the compiler: how atomic loads and stores are ordered, and what is likely.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define load_relaxed(at)         atomic_load_explicit((at), memory_order_relaxed)
#define load_acquire(at)         atomic_load_explicit((at), memory_order_acquire)
#define store_relaxed(at, value) atomic_store_explicit((at), (value), memory_order_relaxed)
#define store_release(at, value) atomic_store_explicit((at), (value), memory_order_release)

#define likely(condition)   __builtin_expect((condition), 1)
#define unlikely(condition) __builtin_expect((condition), 0)

#define COLD          __attribute__((noinline, cold))
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* For counters that only rise, raised by many threads. */
static inline void cushim_raise_to(atomic_uint_fast64_t *counter, uint64_t to) {
    uint_fast64_t now = atomic_load(counter);
    while (now < to && !atomic_compare_exchange_weak(counter, &now, to)) {
    }
}

/* A plain load that may meet a relaxed store, because what is read is checked.  As an atomic one it
 * would cost a pair of requests 21 instructions and more. */
#ifdef __SANITIZE_THREAD__
#define load_checked(at) __atomic_load_n((at), __ATOMIC_RELAXED)
#else
#define load_checked(at) (*(at))
#endif
