/*
 * A lock that leans towards the thread that takes it again and again.
 *
 * It begins as any other: an exchange takes it.  A thread that took it many times in a row becomes
 * its owner, where the kernel can have all threads pass a fence (base/membarrier.h,
 * companion/core/handle_pin.h). The owner's way in is a store and a load: it writes into its own
 * record which lock it is inside, and looks whether it is the owner still.  Whoever else wants the
 * lock takes it by the exchange, ends the ownership, has the fence passed, and waits until the
 * owner is out.  So the owner either saw that it is none any more, or was seen inside.  Each time
 * this happens the next owner has to come twice as often, so that the fences cost little however
 * the threads take turns.
 *
 * Who waits sleeps after a while (base/futex.h).  Who took it by the exchange wakes one as it
 * leaves, but may miss who comes just then, for 1 ms; the owner, whose way out is a store, wakes
 * nobody, and is looked for again within 100 us.
 */
#ifndef CUSHIM_COMPANION_LOCK_H
#define CUSHIM_COMPANION_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "companion/core/thread.h"

enum {
    CUSHIM_LOCK_LEAST = 1024,  /* times in a row that make an owner, at first */
    CUSHIM_LOCK_MOST_LOG2 = 10 /* doublings of it */
};

/* All zero is free, and nobody's. */
struct cushim_lock {
    atomic_uint is_taken; /* 1: by the exchange; 2: and others sleep on it */
    uint8_t log2_ended;   /* the rest under the lock: how often an ownership ended, at most 10 */
    uint32_t n_in_a_row;  /* by `last` */
    const struct cushim_thread *last;
    _Atomic(struct cushim_thread *) owner; /* NULL: nobody */
    _Atomic(struct cushim_slot *) quick;   /* whose pin may be the owner's way in; NULL: none's */
};

/* Not by a thread that is inside already. */
void cushim_lock_lock(struct cushim_lock *bias);
void cushim_lock_unlock(struct cushim_lock *bias);

/* From here on the pin of this ticket is a way in, too; before it is taken.  A lock's alone. */
void cushim_lock_set_quick(struct cushim_lock *bias, struct cushim_slot *slot);

/* By the exchange; `thread` may be NULL, as of a thread without a record. */
void cushim_lock_lock_slowly(struct cushim_lock *bias, struct cushim_thread *thread);
void cushim_lock_wake(struct cushim_lock *bias); /* one who sleeps for it */

/* The same in line; `thread` is the caller's record, not NULL.  Returns what the unlock is to be
 * told: whether it was the owner's way in. */
static inline __attribute__((always_inline)) bool
cushim_lock_lock_by(struct cushim_lock *bias, struct cushim_thread *thread) {
    if (__builtin_expect(atomic_load_explicit(&bias->owner, memory_order_relaxed) == thread &&
                             !atomic_load_explicit(&thread->inside, memory_order_relaxed),
                         1)) {
        atomic_store_explicit(&thread->inside, bias, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst); /* the other half is the kernel's */
        if (__builtin_expect(atomic_load_explicit(&bias->owner, memory_order_acquire) == thread, 1))
            return true;
        atomic_store_explicit(&thread->inside, NULL, memory_order_release);
    }
    cushim_lock_lock_slowly(bias, thread);
    return false;
}

static inline __attribute__((always_inline)) void
cushim_lock_unlock_by(struct cushim_lock *bias, struct cushim_thread *thread, bool is_owner) {
    if (__builtin_expect(is_owner, 1))
        atomic_store_explicit(&thread->inside, NULL, memory_order_release);
    else {
        bool has_sleepers = atomic_load_explicit(&bias->is_taken, memory_order_relaxed) == 2;
        atomic_store_explicit(&bias->is_taken, 0, memory_order_release);
        if (__builtin_expect(has_sleepers, 0))
            cushim_lock_wake(bias);
    }
}

/*
 * The owner's quick way: with the pin of the ticket that cushim_lock_set_quick named in
 * CUSHIM_CELL_QUICK, and true from here, the caller has the lock until it empties the cell.
 * Meanwhile it takes no other lock, calls no driver and waits for nothing.  All calls that pin this
 * ticket in that cell keep to this.
 */
static inline __attribute__((always_inline)) bool
cushim_lock_is_owned(const struct cushim_lock *bias, const struct cushim_thread *thread) {
    return atomic_load_explicit(&bias->owner, memory_order_acquire) == thread;
}

#endif
