/*
 * A lock that leans towards the thread that takes it again and again.
 *
 * It begins as any other: an exchange takes it.  A thread that took it many times in a row becomes
 * its owner, where the kernel can have all threads pass a fence (base/membarrier.h, runtime/pin.h).
 * The owner's way in is a store and a load: it writes into its own record which lock it is inside,
 * and looks whether it is the owner still.  Whoever else wants the lock takes it by the exchange,
 * ends the ownership, has the fence passed, and waits until the owner is out.  So the owner either
 * saw that it is none any more, or was seen inside.  Each time this happens the next owner has to
 * come twice as often, so that the fences cost little however the threads take turns.
 */
#ifndef CUSHIM_RUNTIME_BIAS_H
#define CUSHIM_RUNTIME_BIAS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/thread.h"

enum {
    CUSHIM_BIAS_LEAST = 1024,  /* times in a row that make an owner, at first */
    CUSHIM_BIAS_MOST_LOG2 = 10 /* doublings of it */
};

/* All zero is free, and nobody's. */
struct cushim_bias {
    atomic_bool is_taken; /* by the exchange */
    uint8_t log2_ended;   /* the rest under the lock: how often an ownership ended, at most 10 */
    uint32_t n_in_a_row;  /* by `last` */
    const struct cushim_thread *last;
    _Atomic(struct cushim_thread *) owner; /* NULL: nobody */
};

/* Not by a thread that is inside already. */
void cushim_bias_lock(struct cushim_bias *bias);
void cushim_bias_unlock(struct cushim_bias *bias);

/* By the exchange; `thread` may be NULL, as of a thread without a record. */
void cushim_bias_lock_slowly(struct cushim_bias *bias, struct cushim_thread *thread);

/* The same in line; `thread` is the caller's record, not NULL. */
static inline __attribute__((always_inline)) void
cushim_bias_lock_by(struct cushim_bias *bias, struct cushim_thread *thread) {
    if (__builtin_expect(atomic_load_explicit(&bias->owner, memory_order_relaxed) == thread &&
                             !atomic_load_explicit(&thread->inside, memory_order_relaxed),
                         1)) {
        atomic_store_explicit(&thread->inside, bias, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst); /* the other half is the kernel's */
        if (__builtin_expect(atomic_load_explicit(&bias->owner, memory_order_acquire) == thread, 1))
            return;
        atomic_store_explicit(&thread->inside, NULL, memory_order_release);
    }
    cushim_bias_lock_slowly(bias, thread);
}

static inline __attribute__((always_inline)) void
cushim_bias_unlock_by(struct cushim_bias *bias, struct cushim_thread *thread) {
    if (__builtin_expect(atomic_load_explicit(&thread->inside, memory_order_relaxed) == bias, 1))
        atomic_store_explicit(&thread->inside, NULL, memory_order_release);
    else
        atomic_store_explicit(&bias->is_taken, false, memory_order_release);
}

#endif
