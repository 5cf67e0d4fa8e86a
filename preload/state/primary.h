/*
 * The primary context of a device, as the driver tells.  Nobody retains it here: who asks may be
 * told of one that ends a moment later.
 */
#ifndef CUSHIM_PRELOAD_PRIMARY_H
#define CUSHIM_PRELOAD_PRIMARY_H

#include "cuda/types.h"

/* That of a device where it is active, else NULL. */
CUcontext cushim_primary_of(struct cushim_cuda *cuda, CUdevice device);

/* That of a green context's device; NULL where the driver will not say. */
CUcontext cushim_primary_of_green(struct cushim_cuda *cuda, CUcontext green);

#endif
