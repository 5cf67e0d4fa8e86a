/*
 * CUSHIM_ASYNC_KEEP: how much freed stream-ordered memory the driver's own pool keeps for reuse.
 *
 * By default the pool keeps nothing beyond the next synchronisation, so a program that allocates
 * and synchronises in turn asks the operating system each time.  We raise the release threshold of
 * a device's default pool once and never lower it.  If the program sets it afterwards, its value
 * stays.
 */
#ifndef CUSHIM_PRELOAD_ASYNC_POOL_H
#define CUSHIM_PRELOAD_ASYNC_POOL_H

#include "preload/state/process.h"

/* Called before a stream-ordered allocation; it acts only at the first one on a device. */
void cushim_async_keep(struct cushim_cuda *cuda, CUstream stream);

/* The owner of the memory that allocations on a stream get. */
struct cushim_async_owner {
    CUcontext context;
    CUdevice device;
};

/*
 * Find that owner.  It asks the driver, unless the thread's last question was about the same
 * stream.  False: the driver does not say.
 */
bool cushim_async_find_owner(struct cushim_cuda *cuda, CUstream stream,
                             struct cushim_async_owner *owner);

/* A stream was destroyed.  Forget what was found, because another stream may get its handle. */
void cushim_async_forget_streams(void);

#endif
