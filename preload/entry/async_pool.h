/*
 * CUSHIM_ASYNC_KEEP: how much freed stream-ordered memory the driver's own pool keeps for reuse.
 *
 * By default it keeps nothing beyond the next synchronisation.  So a program that allocates and
 * synchronises in turn goes to the operating system each time.  We raise the release threshold of a
 * device's default pool once and never lower it; what the program sets afterwards stays.
 */
#ifndef CUSHIM_PRELOAD_ASYNC_POOL_H
#define CUSHIM_PRELOAD_ASYNC_POOL_H

#include "preload/state/process.h"

/* Called before a stream-ordered allocation.  It acts the first time on a device alone. */
void cushim_async_keep(struct cushim_cuda *cuda, CUstream stream);

/* Who owns the memory that allocations on a stream get. */
struct cushim_async_owner {
    CUcontext context;
    CUdevice device;
};

/*
 * Find that owner.  The driver is asked, unless the thread's last question was for the same stream.
 * False: the driver does not say.
 */
bool cushim_async_find_owner(struct cushim_cuda *cuda, CUstream stream,
                             struct cushim_async_owner *owner);

/* A stream was destroyed: its handle may become another stream's, so forget what was found. */
void cushim_async_forget_streams(void);

#endif
