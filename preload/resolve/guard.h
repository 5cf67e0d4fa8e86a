/*
 * The fast-path guard: one value that every entry point reads before its fast path.
 *
 *   bits 0..23   how many captures are open (state/captures.c)
 *   bit  24      cushim is off, a library is being unloaded, or an option is set that entry points
 *                must check
 *   bits 32..63  rises with every context that is destroyed (state/contexts.c)
 *
 * A thread stores the upper bits with the heap that it remembers.  While the guard is what it was,
 * the fast path needs no other check.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define CUSHIM_GUARD_CAPTURE  ((uint64_t)1)
#define CUSHIM_GUARD_CAPTURES (((uint64_t)1 << 24) - 1)
#define CUSHIM_GUARD_UNUSUAL  ((uint64_t)1 << 24)
#define CUSHIM_GUARD_EPOCH    ((uint64_t)1 << 32)

struct cushim_guard {
    _Alignas(64) atomic_uint_fast64_t now; /* alone in its line of cache: every call reads it */
};
extern struct cushim_guard cushim_guard __attribute__((visibility("hidden")));

static inline uint64_t cushim_guard_now(void) {
    return atomic_load_explicit(&cushim_guard.now, memory_order_acquire);
}

static inline uint64_t cushim_guard_epoch(uint64_t guard) {
    return guard & -CUSHIM_GUARD_EPOCH;
}
