#include "runtime/bias.h"

#include <sched.h>

#include "runtime/pin.h"

/* From here on nobody owns it, and who did is out.  Taken by the exchange. */
static void end_ownership(struct cushim_bias *bias, struct cushim_thread *owner) {
    atomic_store(&bias->owner, NULL);
    cushim_pin_wait_out(owner, atomic_load_explicit(&bias->quick, memory_order_relaxed));
    while (atomic_load_explicit(&owner->inside, memory_order_acquire) == bias)
        sched_yield();
    if (bias->log2_ended < CUSHIM_BIAS_MOST_LOG2)
        bias->log2_ended++;
}

__attribute__((noinline)) void cushim_bias_lock_slowly(struct cushim_bias *bias,
                                                       struct cushim_thread *thread) {
    while (atomic_exchange_explicit(&bias->is_taken, true, memory_order_acquire))
        sched_yield();
    struct cushim_thread *owner = atomic_load_explicit(&bias->owner, memory_order_relaxed);
    if (owner && owner != thread)
        end_ownership(bias, owner);
    if (bias->last != thread) {
        bias->last = thread;
        bias->n_in_a_row = 0;
    } else if (++bias->n_in_a_row == (uint32_t)CUSHIM_BIAS_LEAST << bias->log2_ended) {
        bias->n_in_a_row = 0;
        if (thread && atomic_load_explicit(&cushim_pin_is_fenced, memory_order_relaxed))
            atomic_store_explicit(&bias->owner, thread, memory_order_relaxed);
    }
}

void cushim_bias_set_quick(struct cushim_bias *bias, struct cushim_slot *slot) {
    if (atomic_load_explicit(&bias->quick, memory_order_relaxed) == slot)
        return;
    cushim_bias_lock(bias);
    atomic_store_explicit(&bias->quick, slot, memory_order_relaxed);
    cushim_bias_unlock(bias);
}

void cushim_bias_lock(struct cushim_bias *bias) {
    struct cushim_thread *thread = cushim_thread_mine;
    if (thread)
        cushim_bias_lock_by(bias, thread);
    else
        cushim_bias_lock_slowly(bias, NULL);
}

void cushim_bias_unlock(struct cushim_bias *bias) {
    struct cushim_thread *thread = cushim_thread_mine;
    bool is_owner = thread && atomic_load_explicit(&thread->inside, memory_order_relaxed) == bias;
    cushim_bias_unlock_by(bias, thread, is_owner);
}
