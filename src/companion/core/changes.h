/*
 * The change counter: one number that stands for everything a fast path relies on without checking
 * it again.
 *
 * A fast path of a pool remembers the number at which its conditions held: the driver was ready, no
 * context it uses had died, none captured, no pool and no wrapper of a default stream had gone, no
 * pool was attached to a capture, nothing waited to be collected.
 *
 * Invariant: whoever changes one of these changes it first and raises the number then.  A fast path
 * that finds another number leaves the call to the slow path, which checks everything itself.
 * Changes are rare: each costs every thread one slow path a pool.
 */
#ifndef CUSHIM_COMPANION_CHANGES_H
#define CUSHIM_COMPANION_CHANGES_H

#include <stdatomic.h>
#include <stdint.h>

/* Never 0, which is what a row has that must not be served so. */
extern atomic_uint_fast64_t cushim_changes;

/* To be read before what it is to stand for is looked at. */
static inline uint64_t cushim_changes_now(void) {
    return atomic_load_explicit(&cushim_changes, memory_order_acquire);
}

void cushim_changes_note(void);

#endif
