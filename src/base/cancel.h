/*
 * Thread cancellation: it is off around what libc calls a cancellation point (open, read, write,
 * close and the like).  No call of CUDA is one natively, and a thread that ended inside one of ours
 * would leave a lock or a flag behind it.
 */
#ifndef CUSHIM_BASE_CANCEL_H
#define CUSHIM_BASE_CANCEL_H

#include <pthread.h>

/* Put a cancellation off; returns how it was. */
static inline int cushim_cancel_hold(void) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

/* As it was; one that is pending acts later, in a call of the program's. */
static inline void cushim_cancel_let(int before) {
    pthread_setcancelstate(before, NULL);
}

#endif
