/*
 * Mapped memory: what cuMemCreate makes, and cuMemMap puts at addresses that the program reserved.
 *
 * It lives until each reference to its handle was released (cuMemCreate and a retain give one) and
 * its last mapping is gone.  Until then it has a row among the foreign allocations (foreign.h). Its
 * address there is the handle, because the driver gives no handle anew while its memory lives.
 * Memory that another process made, and multicast objects, have no row: their handles are unknown.
 *
 * With CUSHIM_SPILL, a request that finds no memory on its device gets host memory.  That is never
 * kept, so a later request goes to the device when it has room.
 *
 * A handle that was mapped as a whole over a whole reservation is *kept*: what the program gives
 * back of it stays with the driver, and serves the next request of the same size.  Whatever else
 * the program asks of a part, the driver catches up first with what the program gave back
 * (docs/internals/memory-engine.md, "Mapped memory").
 *
 * No driver call is made under the lock of the tables (mapped.h), because an unmap may wait.
 */
#ifndef CUSHIM_PRELOAD_MAPPED_MEMORY_H
#define CUSHIM_PRELOAD_MAPPED_MEMORY_H

#include <stdbool.h>

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
CUresult cushim_mapped_memory_reserve(struct cushim_cuda *cuda, CUdeviceptr *address,
                                      size_t n_bytes, size_t align_bytes, CUdeviceptr hint,
                                      unsigned long long flags);
CUresult cushim_mapped_memory_unreserve(struct cushim_cuda *cuda, CUdeviceptr address,
                                        size_t n_bytes);
CUresult cushim_mapped_memory_map(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes,
                                  size_t offset, CUmemGenericAllocationHandle handle,
                                  unsigned long long flags);
CUresult cushim_mapped_memory_unmap(struct cushim_cuda *cuda, CUdeviceptr address, size_t n_bytes);
CUresult cushim_mapped_memory_set_access(struct cushim_cuda *cuda, CUdeviceptr address,
                                         size_t n_bytes, const CUmemAccessDesc *access, size_t n);

/* Before a call that gives others than the program something of a handle, or of what is mapped
 * there: from now on it is not kept.  An answer other than success is that of the call. */
CUresult cushim_mapped_memory_share(struct cushim_cuda *cuda, CUmemGenericAllocationHandle handle);
CUresult cushim_mapped_memory_share_at(struct cushim_cuda *cuda, CUdeviceptr address,
                                       size_t n_bytes);

/* The same before a question about an address.  Memory that is mapped there stays as it is. */
CUresult cushim_mapped_memory_ask_at(struct cushim_cuda *cuda, CUdeviceptr address);

/* Does it lie on the host, in place of the device?  Then `properties` are those that were asked
 * for. */
bool cushim_mapped_memory_is_spilled(CUmemGenericAllocationHandle handle,
                                     CUmemAllocationProp *properties);

#endif
