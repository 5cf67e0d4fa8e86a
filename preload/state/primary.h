/*
 * The primary context of a device, as the driver tells it.  We do not retain it, so the context may
 * end a moment after the answer.
 */
#ifndef CUSHIM_PRELOAD_PRIMARY_H
#define CUSHIM_PRELOAD_PRIMARY_H

#include <stdbool.h>

#include "cuda/types.h"

/* The primary context of a device; NULL: it is not active. */
CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device);

/* The primary context of a green context's device; NULL: the driver does not say. */
CUcontext cushim_primary_of_green(struct cushim_cuda *cuda, CUcontext green);

/*
 * Count a retain by the program.  While it has more than one, a release does not end the context.
 * A retain that we did not see can make a release look like the last that is not, never the other
 * way round.
 */
void cushim_primary_retained(CUdevice device, CUcontext context);

/*
 * Make a release that is not the last, by `real`; *answer is the driver's, *context the device's.
 * False: it may be the last one, and was not made.
 */
bool cushim_primary_release_shared(CUdevice device, __typeof__(&cuDevicePrimaryCtxRelease_v2) real,
                                   CUcontext *context, CUresult *answer);

/* The context was reset: from now on we know of no retains. */
void cushim_primary_forget(CUdevice device);

#endif
