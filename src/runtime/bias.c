#include "runtime/bias.h"

#include <sched.h>
#include <time.h>

#include "base/membarrier.h"
#include "runtime/pin.h"

/* By the lock or in a quick way.  A quick way that began since, or is inside another lock of the
 * same ticket, is waited for without need, and is over as soon. */
static bool is_inside(const struct cushim_bias *bias, struct cushim_thread *owner) {
    struct cushim_slot *quick = atomic_load_explicit(&bias->quick, memory_order_relaxed);
    return atomic_load_explicit(&owner->inside, memory_order_acquire) == bias ||
           (quick &&
            atomic_load_explicit(cushim_cell_at_once(owner, 0), memory_order_acquire) == quick);
}

/* From here on nobody owns it, and who did is out.  Taken by the exchange. */
static void end_ownership(struct cushim_bias *bias, struct cushim_thread *owner) {
    const struct timespec pause = {.tv_nsec = 1000000};
    atomic_store(&bias->owner, NULL);
    if (!cushim_membarrier_pass())
        nanosleep(&pause, NULL); /* a sandbox forbids it by now; no store takes that long */
    while (is_inside(bias, owner))
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
