/*
 * The primary context of a device, as the driver tells.  Nobody retains it here: who asks may be
 * told of one that ends a moment later.
 */
#ifndef CUSHIM_PRELOAD_PRIMARY_H
#define CUSHIM_PRELOAD_PRIMARY_H

#include <stdbool.h>

#include "cuda/types.h"

/* That of a device where it is active, else NULL. */
CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device);

/* That of a green context's device; NULL where the driver will not say. */
CUcontext cushim_primary_of_green(struct cushim_cuda *cuda, CUcontext green);

/*
 * The program's own retains that are not released yet.  More than one: a release is not the
 * context's end.  Retains that nobody told of make none look so that is.
 */
void cushim_primary_retained(CUdevice device, CUcontext context);

/* A release that is not the last, made and answered; *context is that of the device.  False: it may
 * be the last, and is not made. */
bool cushim_primary_release_shared(CUdevice device, __typeof__(&cuDevicePrimaryCtxRelease_v2) real,
                                   CUcontext *context, CUresult *answer);

/* It was reset: nobody knows who has it. */
void cushim_primary_forget(CUdevice device);

#endif
