/*
 * Thread cancellation: it is off around libc's cancellation points (open, read, write, close and
 * the like), because no call of CUDA is one, and a thread that ended inside ours would leave a lock
 * or a flag behind.
 */
#pragma once

#include <pthread.h>

/* Switch cancellation off; returns the previous state. */
static inline int cushim_cancel_hold(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

/* Restore the state.  A pending cancellation acts later, in a call of the program's. */
static inline void cushim_cancel_let(int before) {
    pthread_setcancelstate(before, NULL);
}
