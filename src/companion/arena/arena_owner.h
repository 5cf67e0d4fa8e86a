/*
 * The owner of an arena's top: a thread that has made several resets in a row, and that alone takes
 * blocks from the top.
 *
 * Without an owner every thread takes blocks by compare and exchange.  An owner takes them by plain
 * stores.  The other threads take the arena's lock, and end the ownership under it.
 *
 * Ownership begins while the word is closed, so a thread that read an open word and then saw no
 * owner fails to exchange that word.  The owner pins the arena around each take.  The thread that
 * ends the ownership issues a process-wide fence and waits until the pin is gone.  Each end doubles
 * the number of resets in a row that the next ownership needs, because ends are expensive if many
 * threads use the arena.
 */
#ifndef CUSHIM_COMPANION_ARENA_OWNER_H
#define CUSHIM_COMPANION_ARENA_OWNER_H

#include "companion/core/thread.h"

enum { CUSHIM_ARENA_OWNER_MOST_LOG2 = 16 };

/* No thread: the ownership ends, and we wait for the former owner. */
#define CUSHIM_ARENA_OWNER_LEAVING ((struct cushim_thread *)1)

/* All zero: no owner. */
struct cushim_arena_owner {
    _Atomic(struct cushim_thread *)
        thread;                         /* NULL: no owner; all fields are written under the lock */
    _Atomic(struct cushim_slot *) slot; /* of the arena; NULL: not known, so there is no owner */
    const struct cushim_thread *last;   /* to reset it */
    uint32_t n_in_a_row;                /* by `last` */
    uint32_t log2_ended;                /* how often it ended, at most 16 */
};

/* Whether the calling thread may change the word.  Ask after the word was read. */
static inline bool cushim_arena_owner_allows(const struct cushim_arena_owner *owner) {
    const struct cushim_thread *thread = load_acquire(&owner->thread);
    return !thread || thread == cushim_thread_mine;
}

/* In a fast path, with its pin. */
static inline bool cushim_arena_owner_is(const struct cushim_arena_owner *owner,
                                         const struct cushim_thread *thread) {
    return load_acquire(&owner->thread) == thread;
}

/* End the ownership, so that only the calling thread changes the word while it holds the lock. */
void cushim_arena_owner_end(struct cushim_arena_owner *owner);

/* The calling thread resets the arena and may become its owner.  The word is closed. */
void cushim_arena_owner_turn(struct cushim_arena_owner *owner);

#endif
