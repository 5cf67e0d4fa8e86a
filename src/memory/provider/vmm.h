/*
 * The provider of mapped device memory (cuMemCreate, cuMemMap): address range, physical memory and
 * access are obtained apart, and releasing them waits for nothing.
 *
 * Legacy IPC handles and GPUDirect do not support such memory, and cuCtxEnablePeerAccess does not
 * cover it: access is given to all visible devices when it is mapped.  It outlives its context.
 */
#ifndef CUSHIM_MEMORY_VMM_H
#define CUSHIM_MEMORY_VMM_H

#include "memory/provider/provider.h"

extern const struct cushim_mem_provider cushim_mem_provider_vmm;

/*
 * Can the driver map memory on this device, and all other visible ones reach it?  The driver is
 * asked once a device, and a line of the log says why not.  Natively a copy reaches the memory of
 * each device from every context, so where this would not hold the device source serves.  Pools
 * of the source are for devices that fit.
 */
bool cushim_mem_provider_vmm_fits(struct cushim_cuda *cuda, int device);

#endif
