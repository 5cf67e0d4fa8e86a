/*
 * Forks, kept apart from what a child must find whole (HOOKS.md E).
 *
 * A child has the memory of its parent as it was at the fork and none of the other threads: a lock
 * that one of them held, ours or the loader's, is never let go again.  So whatever takes a lock
 * that a child may need does it while forks are held off.  Any number of threads hold forks off at
 * once, and one may do so again inside; a fork waits until nobody does.  What is done meanwhile is
 * short and waits for nothing.
 */
#ifndef CUSHIM_PRELOAD_FORK_H
#define CUSHIM_PRELOAD_FORK_H

#include <stdbool.h>

/* From now on no other thread forks; false: this one is about to, and there is nothing to undo. */
bool cushim_fork_hold_off(void);

/* Forks may go on; with what holding them off returned. */
void cushim_fork_let_go(bool is_held_off);

#endif
