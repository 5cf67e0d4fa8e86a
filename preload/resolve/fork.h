/*
 * Forks are held off while a thread has a lock that a child may need (interposition.md E).
 *
 * A child has the memory of its parent as it was at the fork, and none of its other threads.  A
 * lock that one of them had, ours or the loader's, would never be unlocked in the child.
 *
 * Any number of threads hold forks off at once, and one thread may do so again inside; a fork waits
 * until nobody does.  What is done meanwhile is short and waits for nothing.
 */
#pragma once

#include <stdbool.h>

typedef void cushim_fork_fn(void);

/* As pthread_atfork; in a C library that is not glibc nobody watches. */
void cushim_fork_watch(cushim_fork_fn *first, cushim_fork_fn *of_parent, cushim_fork_fn *of_child);

/* From now on no other thread forks.  False: this thread is about to, and nothing is to be undone.
 */
bool cushim_fork_hold_off(void);

/* Forks may go on.  Takes what cushim_fork_hold_off returned. */
void cushim_fork_let_go(bool is_held_off);
