/*
 * Mapped memory: what cuMemCreate makes, and cuMemMap puts at addresses that the program reserved.
 *
 * It lives until each reference to its handle was released (cuMemCreate and a retain give one) and
 * its last mapping is gone.  Until then it has a row among the foreign allocations (foreign.h). Its
 * address there is the handle, because the driver gives no handle anew while its memory lives.
 * Memory that another process made, and multicast objects, have no row: their handles are unknown.
 *
 * Each function calls the driver's under one lock, so that its answer and the table change
 * together; a call that the driver refuses changes nothing.
 */
#ifndef CUSHIM_PRELOAD_MAPPED_MEMORY_H
#define CUSHIM_PRELOAD_MAPPED_MEMORY_H

#include "cuda/types.h"

struct cushim_cuda;

CUresult cushim_mapped_memory_create(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     size_t n_bytes, const CUmemAllocationProp *properties,
                                     unsigned long long flags);
CUresult cushim_mapped_memory_release(struct cushim_cuda *cuda,
                                      CUmemGenericAllocationHandle handle);
CUresult cushim_mapped_memory_retain(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *address);
CUresult cushim_mapped_memory_import(struct cushim_cuda *cuda, CUmemGenericAllocationHandle *handle,
                                     void *shared, CUmemAllocationHandleType type);
CUresult cushim_mapped_memory_map(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes,
                                  size_t offset, CUmemGenericAllocationHandle handle,
                                  unsigned long long flags);
CUresult cushim_mapped_memory_unmap(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes);

/* The driver was unloaded, and all handles and mappings with it. */
void cushim_mapped_memory_drop_all(void);

#endif
