/*
 * The primary context of a device, from the driver.  We do not retain it, so it may end a moment
 * after the answer.
 */
#pragma once

#include <stdbool.h>

#include "cuda/types.h"

/* The primary context of a device; NULL: it is not active. */
CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device);

/* The device of a context; -1: the driver does not say. */
CUdevice cushim_device_of(struct cushim_cuda *cuda, CUcontext context);

/*
 * The driver's retains, releases and resets (`real`) of a device's primary context, one at a time,
 * as the driver makes them.  So we know whether a release ended the context, and no other thread
 * ends it in between.
 *
 * If the program has retained it more than once, a release does not end it, and its heaps go on
 * serving.  Because of a retain that we did not see, a release may look like the last and not be
 * it, but never the other way round.
 */
CUresult cushim_primary_retain(__typeof__(&cuDevicePrimaryCtxRetain) real, CUcontext *context,
                               CUdevice device);
CUresult cushim_primary_release(struct cushim_cuda *cuda,
                                __typeof__(&cuDevicePrimaryCtxRelease_v2) real, CUdevice device);
CUresult cushim_primary_reset(struct cushim_cuda *cuda,
                              __typeof__(&cuDevicePrimaryCtxReset_v2) real, CUdevice device);
