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

#endif
