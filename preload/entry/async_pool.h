/*
 * CUSHIM_ASYNC_KEEP: how much freed stream-ordered memory the driver's own pool keeps for reuse.
 *
 * By default it keeps nothing beyond the next synchronisation, so that programs which allocate and
 * synchronise in turn go to the operating system each time.  The release threshold of a device's
 * default pool is raised once, never lowered; what the program sets afterwards stays.
 */
#ifndef CUSHIM_PRELOAD_ASYNC_POOL_H
#define CUSHIM_PRELOAD_ASYNC_POOL_H

#include "preload/state/process.h"

/* Before a stream-ordered allocation: nothing, but the first time on a device. */
void cushim_async_keep(struct cushim_cuda *cuda, CUstream stream);

/* Whose memory it is that a stream's allocations get. */
struct cushim_async_owner {
    CUcontext context;
    CUdevice device;
};

/* Asked of the driver, but where the thread's last one was on the same stream; false: it will not
 * say. */
bool cushim_async_find_owner(struct cushim_cuda *cuda, CUstream stream,
                             struct cushim_async_owner *owner);

/* A stream was destroyed: what is known of its handle is nothing any more. */
void cushim_async_forget_streams(void);

#endif
