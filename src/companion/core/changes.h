/*
 * Changes: one number for all that a fast path relies on without looking at it again.
 *
 * The fast paths of pools remember that nothing stood against them, and the number at which that
 * was so: the driver was ready, no context they use had died, none captured, no pool and no wrapper
 * of a default stream had gone, no pool was attached to a capture, nothing waited to be collected.
 * Whoever changes one of these changes it first and notes it then; whoever finds another number
 * takes the slow path, which looks at everything itself.  Changes are rare: each costs every thread
 * one slow path a row.
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
