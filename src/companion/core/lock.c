#include "companion/core/lock.h"

#include "base/futex.h"
#include "companion/core/handle_pin.h"

/* From here on nobody owns it, and who did is out.  Taken by the exchange. */
static void end_ownership(struct cushim_lock *bias, struct cushim_thread *owner) {
    atomic_store(&bias->owner, NULL);
    cushim_pin_wait_out(owner, atomic_load_explicit(&bias->quick, memory_order_relaxed));
    unsigned n_looks = 0;
    while (atomic_load_explicit(&owner->inside, memory_order_acquire) == bias)
        cushim_futex_back_off(&n_looks);
    if (bias->log2_ended < CUSHIM_LOCK_MOST_LOG2)
        bias->log2_ended++;
}

__attribute__((noinline, cold)) void cushim_lock_wake(struct cushim_lock *bias) {
    cushim_futex_wake_some(&bias->is_taken, 1);
}

static bool is_free_now(struct cushim_lock *bias) {
    unsigned none = 0;
    return atomic_compare_exchange_strong_explicit(&bias->is_taken, &none, 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Whoever has slept takes it as one that others sleep on, which may be so. */
__attribute__((noinline, cold)) static void wait_for(struct cushim_lock *bias) {
    for (int i = 0; i < CUSHIM_FUTEX_LOOKS; i++) {
        cushim_futex_pause();
        if (!atomic_load_explicit(&bias->is_taken, memory_order_relaxed) && is_free_now(bias))
            return;
    }
    while (atomic_exchange_explicit(&bias->is_taken, 2, memory_order_acquire))
        cushim_futex_wait(&bias->is_taken, 2, CUSHIM_FUTEX_LONG_NS);
}

__attribute__((noinline)) void cushim_lock_lock_slowly(struct cushim_lock *bias,
                                                       struct cushim_thread *thread) {
    if (!is_free_now(bias))
        wait_for(bias);
    struct cushim_thread *owner = atomic_load_explicit(&bias->owner, memory_order_relaxed);
    if (owner && owner != thread)
        end_ownership(bias, owner);
    if (bias->last != thread) {
        bias->last = thread;
        bias->n_in_a_row = 0;
    } else if (++bias->n_in_a_row == (uint32_t)CUSHIM_LOCK_LEAST << bias->log2_ended) {
        bias->n_in_a_row = 0;
        if (thread && atomic_load_explicit(&cushim_pin_is_fenced, memory_order_relaxed))
            atomic_store_explicit(&bias->owner, thread, memory_order_relaxed);
    }
}

void cushim_lock_set_quick(struct cushim_lock *bias, struct cushim_slot *slot) {
    if (atomic_load_explicit(&bias->quick, memory_order_relaxed) == slot)
        return;
    cushim_lock_lock(bias);
    atomic_store_explicit(&bias->quick, slot, memory_order_relaxed);
    cushim_lock_unlock(bias);
}

void cushim_lock_lock(struct cushim_lock *bias) {
    struct cushim_thread *thread = cushim_thread_mine;
    if (thread)
        cushim_lock_lock_by(bias, thread);
    else
        cushim_lock_lock_slowly(bias, NULL);
}

void cushim_lock_unlock(struct cushim_lock *bias) {
    struct cushim_thread *thread = cushim_thread_mine;
    bool is_owner = thread && atomic_load_explicit(&thread->inside, memory_order_relaxed) == bias;
    cushim_lock_unlock_by(bias, thread, is_owner);
}
