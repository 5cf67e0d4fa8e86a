/*
 * The primary contexts that this runtime holds, one for each device.
 *
 * A context is retained when its device is first needed, and kept until cudaDeviceReset.  A reset
 * leaves the old handle current in other threads.  Such a handle is called stale, and the next
 * entry of that thread retains again.  Retaining and resetting happen under one lock, which is also
 * held over the driver's calls, because both are rare.
 */
#pragma once

#include "driver.h"

enum { SIMRT_DEVICES = 64 };

/* The device whose reset made this handle stale, or -1; takes no lock. */
int simrt_primary_stale(CUcontext context);

/* The primary context of a device, retained if it was not. */
cudaError_t simrt_primary_get(int device, CUcontext *context);

/* The same, and current in this thread. */
cudaError_t simrt_primary_use(int device);

/* Reset the device if this runtime holds it; success if it does not. */
cudaError_t simrt_primary_reset(int device);

/* cudaErrorInvalidDevice unless the driver has this device. */
cudaError_t simrt_primary_check(int device);
