#include "companion/arena/arena_owner.h"

#include "companion/core/handle_pin.h"

void cushim_arena_owner_end(struct cushim_arena_owner *owner) {
    struct cushim_thread *thread = load_relaxed(&owner->thread);
    if (!thread || thread == cushim_thread_mine)
        return;
    /* no thread may exchange the word until the owner has left its fast path */
    atomic_store(&owner->thread, CUSHIM_ARENA_OWNER_LEAVING);
    cushim_pin_wait_out(thread, load_relaxed(&owner->slot));
    store_release(&owner->thread, NULL);
    owner->n_in_a_row = 0;
    if (owner->log2_ended < CUSHIM_ARENA_OWNER_MOST_LOG2)
        owner->log2_ended++;
}

void cushim_arena_owner_turn(struct cushim_arena_owner *owner) {
    struct cushim_thread *thread = cushim_thread_mine;
    bool is_again = thread && owner->last == thread;
    owner->last = thread;
    owner->n_in_a_row = is_again ? owner->n_in_a_row + 1 : 0;
    if (is_again && owner->n_in_a_row >> owner->log2_ended && load_relaxed(&owner->slot) &&
        cushim_pin_has_fast_path())
        store_release(&owner->thread, thread);
}
