/*
 * The change counter: one number for all conditions that a fast path does not check again.
 *
 * A fast path remembers the number at which its conditions held: the driver was ready, no context
 * in use was dead or captured, no pool and no wrapper of a default stream was destroyed, no pool
 * was attached to a capture, and no memory waited to be collected.
 *
 * Invariant: code that changes such a condition changes it first and then raises the number.  If a
 * fast path finds another number, it leaves the call to the slow path, which checks every
 * condition. Changes are rare, because each makes every thread take the slow path once for each
 * pool.
 */
#ifndef CUSHIM_COMPANION_CHANGES_H
#define CUSHIM_COMPANION_CHANGES_H

#include <stdint.h>

#include "base/atomics.h"

/* Never 0: that is the number of a row that the fast path must not serve. */
extern atomic_uint_fast64_t cushim_changes;

/* Read it before you look at the conditions that it stands for. */
static inline uint64_t cushim_changes_now(void) {
    return load_acquire(&cushim_changes);
}

void cushim_changes_note(void);

#endif
