/*
 * The source of device memory that is mapped: address range, physical memory and access are three
 * things, and taking them away waits for nothing.
 *
 * Legacy IPC handles and GPUDirect do not know such memory, and access is the device's own alone:
 * cuCtxEnablePeerAccess does not reach it.  It outlives its context.
 */
#ifndef CUSHIM_MEMORY_SOURCE_VMM_H
#define CUSHIM_MEMORY_SOURCE_VMM_H

#include "memory/source.h"

extern const struct cushim_mem_source cushim_mem_source_vmm;

/* Can the driver map memory on this device? */
bool cushim_mem_source_vmm_is_there(struct cushim_cuda *cuda, int device);

#endif
